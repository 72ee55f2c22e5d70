"""What a large study shows: no more than is read, the rest said and inside; other formats; anonymity."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import zlib

import pytest

from breakeven.analysis.findings import Understanding
from breakeven.report import EXPORTS, LARGE, anonymous, build, document, html, screen, write
from breakeven.report.charts import spec
from breakeven.report.exports import github_action, pytest_benchmark
from breakeven.report.json import to_text
from breakeven.report.limits import MOST_MARKS, MOST_ROWS, limited


@pytest.fixture(scope="module")
def large(understanding: Understanding) -> Understanding:
    """The study's cases over again, at batches of their own."""

    cases = tuple(
        dataclasses.replace(
            c, case=dataclasses.replace(c.case, work=dataclasses.replace(c.case.work, batch=1 + copy))
        )
        for copy in range(60)
        for c in understanding.cases
    )
    ratios = tuple(dataclasses.replace(r, batch=1 + copy) for copy in range(60) for r in understanding.ratios)
    return dataclasses.replace(understanding, cases=cases, ratios=ratios)


def test_a_page_has_no_table_and_no_chart_beyond_the_limits(large: Understanding) -> None:
    whole = build(large)
    cut = limited(whole, rest="elsewhere")
    for before, after in zip(whole.sections, cut.sections, strict=True):
        if before.table is not None and after.table is not None and len(before.table.rows) > MOST_ROWS:
            assert after.table.rows == before.table.rows[:MOST_ROWS]
            assert after.table.missing[0] == f"100 of {len(before.table.rows)} rows; elsewhere"
        assert after.chart is None or len(after.chart.values) <= MOST_MARKS
    assert len(html.page(whole, large)) < 4_000_000


def test_a_chart_keeps_whole_parts_and_says_so(large: Understanding) -> None:
    cut = limited(build(large), marks=100, rest="")
    chart = next(chart for chart in cut.charts if chart.kind == "samples")
    assert len(chart.values) <= 100 and "Drawn: the first" in chart.subtitle


def test_the_data_of_a_large_page_are_all_there(large: Understanding) -> None:
    made = html.page(build(large), large)
    data = json.loads(made.split('id="data">')[1].split("</script>")[0])
    assert data["deflated"]
    findings = json.loads(zlib.decompress(base64.b64decode(data["findings"])))
    assert findings == json.loads(json.dumps(document(large)))
    assert len(findings["cases"]) == len(large.cases)


def test_both_ways_to_write_the_findings_agree(understanding: Understanding) -> None:
    odd = dataclasses.replace(understanding, title="\ud800", machines=({"x": float("nan")},))
    for one in (understanding, odd):
        assert json.loads(to_text(one)) == json.loads(json.dumps(document(one)))


def test_the_screen_shows_the_summary_of_a_large_study(large: Understanding) -> None:
    assert len(large.cases) > LARGE
    shown = screen(build(large), len(large.cases), width=80, colour=False, name="here")
    assert len(shown.splitlines()) < 120 and all(len(line) <= 80 for line in shown.splitlines()[:-1])
    assert "breakeven report here -o report.html" in shown


def test_every_chart_is_what_vega_lite_takes(understanding: Understanding) -> None:
    import altair

    for chart in build(understanding).charts:
        drawn = spec(chart)
        # No background is drawn, which the schema has no word for.
        assert drawn["config"].pop("background") is None
        altair.Chart.from_dict(drawn, validate=True)


def test_an_interval_over_decades_does_not_squeeze_the_chart(understanding: Understanding) -> None:
    chart = next(c for c in build(understanding).charts if c.kind == "ratios")
    wide = [dict(value, high=1e6) if value["high"] else value for value in chart.values]
    text = json.dumps(spec(dataclasses.replace(chart, values=tuple(wide))))
    most = max(float(v["ratio"]) for v in chart.values)
    domain = json.loads(re.findall(r'"domain": (\[[^]]*\]), "nice"', text)[0])
    assert most < domain[1] < 6 * most and "triangle-right" in text


def test_other_tools_get_a_round_a_process(understanding: Understanding) -> None:
    made = pytest_benchmark(understanding)["benchmarks"]
    case = next(c for c in understanding.cases if c.samples_s)
    mine = next(b for b in made if b["param"] == case.case_id)
    assert mine["stats"]["rounds"] == len(case.samples_s) and mine["stats"]["data"] == list(case.samples_s)
    assert mine["stats"]["min"] <= mine["stats"]["q1"] <= mine["stats"]["median"] <= mine["stats"]["q3"]
    entry = next(e for e in github_action(understanding) if e["name"] == mine["name"])
    assert case.step_s is not None and entry["value"] == case.step_s.estimate and entry["unit"] == "s"


def test_a_name_asks_for_another_tools_format(understanding: Understanding, tmp_path) -> None:  # type: ignore[no-untyped-def]
    for tool, ending in EXPORTS.items():
        write(build(understanding), understanding, tmp_path / f"a{ending}")
        write(build(understanding), understanding, tmp_path / "b.json", form=tool)
        assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_anonymous_findings_name_no_board_no_path_and_no_file(understanding: Understanding) -> None:
    file = understanding.sources[0]
    told = dataclasses.replace(
        understanding,
        skips=({"what": "x", "reason": "no weights at /home/ada/secret/net.pth, 3 images/s"},),
        cases=tuple(dataclasses.replace(c, unit="feedbeef", source=file) for c in understanding.cases),
    )
    found = anonymous(told)
    text = to_text(found)
    for secret in ("9f2c1a", "/home", "net.pth", "feedbeef", "breakeven-results"):
        assert secret not in text
    assert "images/s" in text and "(path)" in text and "NVIDIA H200" in text and "machine 1" in text
    assert found.ratios == told.ratios
