"""Published values in a report: beside those of equal work, refused with a reason, in text and JSON."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from analysis.conftest import a_case as a_training
from analysis.conftest import spread, understood
from analysis.test_published import a_case, a_profile
from breakeven import api
from breakeven.analysis.findings import Understanding
from breakeven.analysis.published import published_beside
from breakeven.report import build, document, html, text

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def understanding() -> Understanding:
    return dataclasses.replace(understood(), cases=(a_case(856.0),))


def test_equal_work_stands_beside_and_the_rest_has_its_reason(understanding: Understanding) -> None:
    report = build(understanding, published_beside(understanding.cases))
    keys = [section.key for section in report.sections]
    assert keys[-2:] == ["published", "published-refused"]
    printed = text(report, width=80)
    assert max(map(len, printed.splitlines())) <= 80
    assert "Tesla T4" in printed
    refused = report.sections[-1].table
    assert refused is not None
    assert "precision tf32 there, fp32 here" in {cell.text for row in refused.rows for cell in row}
    assert "no comparison of devices" in " ".join(printed.split())


def test_nothing_is_said_of_publications_unless_asked(understanding: Understanding) -> None:
    assert not [s for s in build(understanding).sections if s.key.startswith("published")]
    assert "published" not in document(understanding)


def test_the_document_holds_rows_and_refusals(understanding: Understanding) -> None:
    found = json.loads(json.dumps(document(understanding, published_beside(understanding.cases))))
    assert {one["row"]["batch"] for one in found["published"]["beside"]} == {64}
    assert {one["row"]["precision"] for one in found["published"]["beside"]} == {"fp32"}
    assert sum(one["rows"] for one in found["published"]["refused"]) > 300


@pytest.fixture
def profiled() -> Understanding:
    """ResNet18 in training on both devices, that on the GPU profiled."""
    found = understood(
        *(
            spread(a_training("resnet18", device), ms, name="as-written")
            for device, ms in (("cpu", 200.0), ("cuda:0", 10.0))
        )
    )
    gpu = next(c for c in found.cases if c.device_label == "cuda:0")
    profile = a_profile("aten::cudnn_convolution", on_device=True)
    profile = dataclasses.replace(profile, case_id=gpu.case_id, source=gpu.source)
    return dataclasses.replace(found, profiles=(profile,))


@pytest.mark.parametrize("width", [80, 120])
def test_a_published_profile_is_read_as_what_it_is(profiled: Understanding, width: int) -> None:
    report = build(profiled, api.published_beside(profiled))
    printed = text(report, width=width)
    assert max(map(len, printed.splitlines())) <= width
    said = " ".join(printed.split())
    for words in (
        "Published profiles beside those here",
        "the two columns of one run",
        "(10x) is host over kernels of one GPU run",
        "It does not say what was computed",
        "arXiv 2603.20920",
        "848 ms, 100 %",
        "63 ms, 76 %",
    ):
        assert words in said
    assert "below zero" not in said  # of the other table, whose net was not profiled here
    page = html.page(report, profiled)
    assert "model_inference" in page and "no CPU against a GPU" in page


def test_memory_below_zero_and_a_part_above_its_whole_are_told(profiled: Understanding) -> None:
    case = a_case(model="conv6-seed", input_shape=(3, 32, 32))
    profile = dataclasses.replace(a_profile("aten::mkldnn_convolution", on_device=False), source=case.source)
    found = dataclasses.replace(profiled, cases=(case,), profiles=(profile,))
    said = " ".join(text(build(found, api.published_beside(found)), width=120).split())
    for words in ("-6.76 Gb", "freed more than it allocated", "3.9 times the host time", "445 ms, 391 %"):
        assert words in said


def test_published_ratios_stand_beside_those_here(profiled: Understanding) -> None:
    said = " ".join(text(build(profiled, api.published_beside(profiled)), width=120).split())
    for words in (
        "A GPU against a CPU",
        "10,127.83 ms",
        "51x",
        "20.0x [20.0, 20.0]",
        "of unlike work",
        "63x",
    ):
        assert words in said


@pytest.mark.parametrize(
    ("folder", "title"),
    [
        ("h200/precision", "The best published of the same board"),
        ("cpu/profile", "Published profiles beside those here"),
    ],
)
def test_the_command_shows_what_is_of_unlike_work_too(folder: str, title: str) -> None:
    from typer.testing import CliRunner

    from breakeven.cli import app

    ran = CliRunner().invoke(app, ["report", str(RESULTS / folder), "--published"])
    assert ran.exit_code == 0 and title in ran.output
