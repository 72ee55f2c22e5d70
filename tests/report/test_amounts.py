"""Bars from zero: memory by meaning, energy by sample; only where cases can be compared."""

from __future__ import annotations

import dataclasses

import pytest

from breakeven.analysis import understand
from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.records.file import read
from breakeven.report import build, charts
from breakeven.report.amounts import MOST_CASES
from breakeven.report.view import Chart

from .test_tooltips import RESULTS

altair = pytest.importorskip("altair")


@pytest.fixture(scope="module")
def measured() -> Understanding:
    return understand([read(RESULTS / "h200" / "model-scale")])


def drawn(understanding: Understanding, name: str) -> Chart | None:
    return next((chart for chart in build(understanding).charts if chart.name == name), None)


def test_memory_has_a_panel_a_meaning_and_the_numbers_of_the_cases(measured: Understanding) -> None:
    chart = drawn(measured, "memory")
    assert chart is not None
    panels = {str(value["panel"]) for value in chart.values}
    assert panels == {
        "host rss peak (host, resident)",
        "torch allocated peak (device, allocated)",
        "torch reserved peak (device, reserved)",
    }
    shown = sorted(float(v["amount"] or 0) for v in chart.values if "allocated" in str(v["panel"]))
    peaks = (c.memory_mib.get("torch_allocated_peak_mib") for c in measured.cases)
    assert shown == sorted(mib for mib in peaks if mib is not None)
    # A peak is one however long the steps took.
    assert {value["sure"] for value in chart.values} == {"yes"}


def test_energy_is_that_of_a_sample_and_pale_where_the_time_is_doubtful(measured: Understanding) -> None:
    chart = drawn(measured, "energy")
    assert chart is not None
    known = [c for c in measured.cases if c.energy_j_per_step is not None]
    each = [c.energy_j_per_step / c.case.work.batch for c in known if c.energy_j_per_step]
    assert [value["amount"] for value in chart.values] == pytest.approx(each)
    assert all(str(value["shown"]).endswith((" mJ", " J")) for value in chart.values)
    assert "Pale" in chart.subtitle and "no" in {value["sure"] for value in chart.values}


@pytest.mark.parametrize("name", ["memory", "energy"])
def test_bars_are_what_vega_lite_takes_and_can_be_written(measured: Understanding, name: str) -> None:
    chart = drawn(measured, name)
    assert chart is not None
    spec = charts.spec(chart)
    assert spec["config"].pop("background") is None
    altair.Chart.from_dict(spec, validate=True)
    assert charts.svg(chart).startswith("<svg")


def test_one_case_and_too_many_have_no_bars(measured: Understanding) -> None:
    def of(cases: list[CaseFinding]) -> Chart | None:
        return drawn(dataclasses.replace(measured, cases=tuple(cases)), "memory")

    one = measured.cases[0]
    assert of([one]) is None
    many = [dataclasses.replace(one, case_id=f"{n:064x}") for n in range(MOST_CASES + 1)]
    assert of(many) is None
