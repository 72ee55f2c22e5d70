"""Sections and charts of inference: every planted figure is there, and only what the lines support."""

from __future__ import annotations

import csv
import dataclasses
import io
import json

import pytest
from rich.cells import cell_len

from breakeven.analysis.findings import Understanding
from breakeven.report import Report, build, charts, document, text
from breakeven.report.csv import sheet
from breakeven.report.html import page
from breakeven.report.view import Section
from breakeven.units import format_ratio_interval
from report.conftest import build_understanding
from report.inference_study import BATCHES, LAWS, build_inference

OF_INFERENCE = {
    "gains", "precisions", "runtimes", "outputs", "inference", "saturation", "later", "frontier", "factors",
    "sessions",
}  # fmt: skip


@pytest.fixture(scope="module")
def found() -> Understanding:
    return build_inference()


@pytest.fixture(scope="module")
def made(found: Understanding) -> Report:
    return build(found)


def section(made: Report, key: str) -> Section:
    return next(s for s in made.sections if s.key == key)


def rows(made: Report, key: str) -> list[dict[str, str]]:
    table = section(made, key).table
    assert table is not None
    return [
        {column.name: cell.text for column, cell in zip(table.columns, row, strict=True)}
        for row in table.rows
    ]


def test_every_section_of_inference_is_there_and_none_of_training(made: Report) -> None:
    keys = {s.key for s in made.sections}
    assert keys >= OF_INFERENCE
    assert not keys & {"times", "ladder", "builds", "runs", "once", "parity", "shares"}


def test_training_has_no_section_of_inference() -> None:
    assert not {s.key for s in build(build_understanding()).sections} & OF_INFERENCE


def test_the_wrong_int8_is_named_and_ranked_nowhere(made: Report) -> None:
    (wrong,) = [r for r in rows(made, "outputs") if r["left out"] != "-"]
    assert (wrong["tuning"], wrong["precision"], wrong["same top-1"]) == ("eager", "int8", "58.0 %")
    ranked = [r for key in ("gains", "factors", "frontier", "inference") for r in rows(made, key)]
    assert not [r for r in ranked if "eager int8" in r.values() or r.get("tuning") == "eager int8"]
    assert not [r for r in rows(made, "frontier") if (r["tuning"], r["precision"]) == ("eager", "int8")]
    assert any("58 %" in sentence and "not ranked" in sentence for sentence in made.sentences)


def test_what_does_not_fit_is_an_answer(made: Report) -> None:
    of_it = [r for r in rows(made, "saturation") if r["too large"] != "-"]
    assert [(r["device"], r["tuning"], r["precision"], r["too large"], r["largest"]) for r in of_it] == [
        ("cuda:0", "eager", "fp32", "256", "64")
    ]


def test_the_planted_knees_stand_in_the_table(found: Understanding) -> None:
    """Where the sweep holds two points on either side of it."""
    for sweep in found.inference.saturation:
        floor, fixed, rate = LAWS[sweep.device_label, sweep.tuning_name, sweep.precision]
        knee = rate * (floor - fixed) / 1e3
        if sweep.law is not None and sweep.law.law == "knee":
            assert sweep.law.knee == pytest.approx(knee, rel=0.1)
        else:
            assert not 4 < knee < 16


def test_no_line_is_wider_than_the_screen(made: Report) -> None:
    for brief in (True, False):
        assert max(cell_len(line) for line in text(made, brief=brief).splitlines()) <= 80
    assert "What the fastest wins" not in text(made, brief=True)  # the screen has no titles
    assert "by precision" in text(made, brief=True)


@pytest.mark.parametrize("name", ["saturation", "factors", "frontier"])
def test_a_chart_is_drawn_and_says_what_it_shows(made: Report, name: str) -> None:
    chart = next(c for c in made.charts if c.name == name)
    drawn = charts.svg(chart)
    assert drawn.startswith("<svg") and len(chart.alt_text) > 80
    words = {"saturation": "knee", "factors": "output mismatch", "frontier": "beaten by none"}[name]
    assert words in json.dumps(charts.spec(chart))


def test_a_square_has_the_ratio_of_the_tables(made: Report, found: Understanding) -> None:
    """Planted noise is of each process, so rates over all of them would give another number."""
    chart = next(c for c in made.charts if c.name == "factors")
    shown = {m["times"]: m for m in chart.values}
    checked = 0
    for gain in found.inference.gains:
        for factor in filter(None, (gain.whole, gain.runtime, gain.precision)):
            if factor.base_id == gain.base_id and gain.batch in (BATCHES[0], BATCHES[-1]):
                assert factor.ratio is not None
                mark = shown[factor.ratio.estimate]
                assert mark["ratio"] == format_ratio_interval(factor.ratio)
                assert str(mark["ratio"]).startswith(f"{mark['label']} [")
                checked += 1
    assert checked >= 4


def test_a_knee_is_drawn_where_the_table_has_it(made: Report, found: Understanding) -> None:
    chart = next(c for c in made.charts if c.name == "saturation")
    drawn = {m["batch"]: str(m["shown"]) for m in chart.values if m["mark"] == "knee"}
    told = {s.knee.estimate for s in found.inference.saturation if s.knee}
    assert told and told <= set(drawn)
    listed = {row["knee"] for row in rows(made, "saturation")}
    assert {text.removeprefix("knee at batch ") for text in drawn.values()} <= listed


def test_one_panel_alone_is_drawn_too(made: Report) -> None:
    chart = next(c for c in made.charts if c.name == "saturation")
    panel = chart.values[0]["panel"]
    alone = dataclasses.replace(chart, values=tuple(v for v in chart.values if v["panel"] == panel))
    assert charts.svg(alone).startswith("<svg")


def test_the_page_holds_charts_and_findings(made: Report, found: Understanding) -> None:
    written = page(made, found)
    for key in OF_INFERENCE:
        assert f'id="{key}"' in written
    assert written.count("data-chart=") == len(made.charts)


def test_the_sheet_has_latency_and_outputs_beside_the_rate(found: Understanding) -> None:
    lines = list(csv.DictReader(io.StringIO(sheet(found))))
    assert len(lines) == len(BATCHES) * len(LAWS)
    first = lines[0]
    assert float(first["call_p50_s"]) == pytest.approx(0.0116, rel=0.05)
    assert first["call_p99_9_pooled_s"] == "" and float(first["call_p99_pooled_s"]) > 0
    assert first["top1_agreement_share"] == "1.0" and first["random_weights"] == "true"
    wrong = next(r for r in lines if r["execution"] == "eager" and r["precision"] == "int8")
    assert wrong["ranked"] == "false" and "58 %" in wrong["not_ranked_because"]
    assert "call_p50_s" not in sheet(build_understanding())


def test_the_document_holds_every_finding(found: Understanding) -> None:
    told = json.loads(json.dumps(document(found), allow_nan=False))["inference"]
    assert len(told["cases"]) == len(BATCHES) * len(LAWS)
    assert told["saturation"][0]["reaches"][0]["share"] == 0.9
    assert told["gains"][0]["whole"]["kind"] == "mixed"
    assert all(f["evidence"] for f in told["factors"])
