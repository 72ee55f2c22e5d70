"""Charts are what altair makes of the same words, and what Vega-Lite takes."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import get_args, get_type_hints

import altair
import pytest

from breakeven import api
from breakeven.analysis.findings import Understanding
from breakeven.report import build, trend
from breakeven.report.charts import drawn, spec
from breakeven.report.vega import SCHEMA
from breakeven.report.view import Chart
from report.inference_study import build_inference
from report.test_ladder import climbed as climbed
from report.test_profile import bandwidths


@pytest.fixture(scope="module")
def charts(understanding: Understanding, climbed: Understanding) -> list[Chart]:
    """One of every kind but those of a forecast, and those of one series and one panel."""
    roofs = tuple(
        dataclasses.replace(share, bandwidth_gb_per_s=400.0 if share.flops_per_byte else None)
        for share in understanding.shares
    )
    whole = dataclasses.replace(understanding, shares=roofs, bandwidths=bandwidths(), ladders=climbed.ladders)
    one = dataclasses.replace(understanding, ratios=understanding.ratios[:1], cases=understanding.cases[:1])
    return [
        chart
        for report in (build(whole), build(one), build(build_inference()), trend.report(api.trend("memory")))
        for chart in report.charts
    ]


def test_altair_says_the_same(charts: list[Chart]) -> None:
    left_out = {"forecast", "errors"}
    assert {chart.kind for chart in charts} == set(get_args(get_type_hints(Chart)["kind"])) - left_out
    with altair.data_transformers.enable("default", max_rows=None):
        for chart in charts:
            theirs = drawn(altair, chart).to_dict(validate=False)
            # Its theme has sizes of its own, which ours takes the place of; its Vega-Lite may be newer.
            del theirs["config"], theirs["$schema"]
            ours = spec(chart)
            assert next(iter(ours)) == "config" and ours.pop("config") and ours.pop("$schema") == SCHEMA
            assert json.dumps(ours) == json.dumps(theirs), chart.kind


def test_every_chart_is_what_vega_lite_takes(charts: list[Chart]) -> None:
    for chart in charts:
        made = spec(chart)
        # No background is drawn, which the schema has no word for.
        assert made["config"].pop("background") is None
        altair.Chart.from_dict(made, validate=True)
    assert re.fullmatch(r"https://vega.github.io/schema/vega-lite/v6\.\d+\.\d+\.json", SCHEMA)
