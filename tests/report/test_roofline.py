"""The roofline: its roof follows the measured ceilings, and steps stand where their numbers put them."""

import dataclasses

import pytest

from breakeven.analysis.findings import Understanding
from breakeven.report import build, charts
from breakeven.report.view import Chart, Report

GB_PER_S = 4000.0


@pytest.fixture
def made(understanding: Understanding) -> Report:
    """The study of the fixtures, a bandwidth measured wherever its steps' traffic is known."""
    shares = tuple(
        dataclasses.replace(share, bandwidth_gb_per_s=GB_PER_S if share.flops_per_byte else None)
        for share in understanding.shares
    )
    return build(dataclasses.replace(understanding, shares=shares))


def roofline(made: Report) -> Chart:
    return next(chart for chart in made.charts if chart.name == "roofline")


def test_the_roof_rises_with_the_bandwidth_to_the_peak(made: Report, understanding: Understanding) -> None:
    chart = roofline(made)
    peaks = {case.ceiling_tflop_per_s for case in understanding.cases}
    for panel in {value["panel"] for value in chart.values}:
        inside = [value for value in chart.values if value["panel"] == panel]
        low, ridge, high = ((float(v["intensity"]), float(v["rate"])) for v in inside if v["mark"] == "roof")  # type: ignore[arg-type]
        assert ridge[1] == high[1] and ridge[1] in peaks
        assert low[1] / low[0] == pytest.approx(ridge[1] / ridge[0]) == pytest.approx(GB_PER_S / 1e3)
        steps = [value for value in inside if value["mark"] == "step"]
        assert steps and all(low[0] < float(v["intensity"]) < high[0] for v in steps)  # type: ignore[arg-type]
        assert [v["label"] for v in steps if v["label"]]  # the fastest carries its model's name


def test_it_stands_with_the_table_of_bounds_and_is_drawn(made: Report) -> None:
    section = next(section for section in made.sections if section.key == "bounds")
    assert section.chart == roofline(made) and section.table is not None
    assert charts.svg(roofline(made)).startswith("<svg")
    assert "of the roof" in str(charts.spec(roofline(made)))


def test_without_a_bandwidth_there_is_no_roof(understanding: Understanding) -> None:
    assert not [chart for chart in build(understanding).charts if chart.name == "roofline"]
