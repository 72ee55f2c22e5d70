"""The ladder as people look at it: tables that fit a screen, a chart whose rows go down for every device."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest

from breakeven.analysis.findings import (
    BestFinding,
    LadderFinding,
    RatioFinding,
    StepFinding,
    Understanding,
)
from breakeven.records.ladder import steps
from breakeven.report import build, document, text
from breakeven.report.charts import spec, svg
from breakeven.report.csv import sheet
from breakeven.report.html import page
from breakeven.report.ladder_marks import merged
from breakeven.report.markdown import markdown
from breakeven.report.view import Chart, Section
from breakeven.stats import Interval, Verdict
from report.conftest import MODELS, build_understanding

WINS = {"workers": 8.7, "on-device": 1.4, "no-sync": 1.0, "cuda-graph": 3.6, "threads": 1.2,
        "channels-last": 1.2, "bf16": 0.9, "compile": 1.3}  # fmt: skip
WORDS = {8.7: Verdict.FASTER, 1.0: Verdict.SAME, 0.9: Verdict.SLOWER, 1.4: Verdict.UNCERTAIN}


def around(value: float) -> Interval:
    return Interval(low=value / 1.02, high=value * 1.02, estimate=value, confidence=0.95, n=3)


def a_win(model: str, device: str, value: float, name: str, over: str) -> RatioFinding:
    return RatioFinding(
        base_id=over, candidate_id=name, model=model, parameters=1, flops_per_step=1.0, batch=128,
        base_label=device, candidate_label=device, tuning_name=name, tuning_base=over, of="step",
        ratio=around(value), point=value, verdict=WORDS.get(value, Verdict.FASTER), p_adjusted=0.01,
        processes_needed=12 if value == 1.4 else None, evidence=(f"{name}/line",),
    )  # fmt: skip


def a_ladder(model: str, device: str, first_ms: float, **changes: Any) -> LadderFinding:
    kind = "cpu" if device == "cpu" else "cuda"
    seconds, before, made = first_ms / 1e3, None, []
    for name in steps(kind):
        win = None if before is None else a_win(model, device, WINS[name], name, before)
        seconds /= WINS[name] if win else 1.0
        made.append(
            StepFinding(
                name=name,
                case_id=f"{model}{device}{name}",
                step_s=around(seconds),
                point_s=seconds,
                win=win,
                loses=WINS.get(name) == 0.9,
                evidence=(f"{name}/line",),
            )
        )
        before = name
    best = BestFinding(
        numerics="same", case_id="b", tuning_name="compile less bf16", precision="default", candidates=13,
        step_s=around(seconds), point_s=seconds,
        win=a_win(model, device, 69.0, "compile less bf16", "as-written"), evidence=("b/line",),
    )  # fmt: skip
    unconfirmed = BestFinding(
        numerics="any", case_id="a", tuning_name="compile", precision=None, candidates=13,
        reasons={"step_s": "chosen, and not measured again yet", "win": "chosen, and not measured again yet"},
    )  # fmt: skip
    found = LadderFinding(
        model=model, batch=128, data="cifar10", seed=0, device_label=device, steps=tuple(made),
        without=tuple(made[1:]), best=(best, unconfirmed),
    )  # fmt: skip
    return dataclasses.replace(found, **changes)


@pytest.fixture(scope="module")
def climbed() -> Understanding:
    ladders = tuple(
        a_ladder(model, device, ms) for model in MODELS for device, ms in (("cpu", 49.0), ("cuda:0", 22.0))
    )
    return dataclasses.replace(build_understanding(), ladders=ladders)


def section(understanding: Understanding, key: str) -> Section:
    return next(s for s in build(understanding).sections if s.key == key)


def chart(understanding: Understanding) -> Chart:
    found = section(understanding, "ladder").chart
    assert found is not None
    return found


def test_without_a_ladder_nothing_is_said_of_it() -> None:
    keys = {s.key for s in build(build_understanding()).sections}
    assert not keys & {"ladder", "best", "without"}


def test_the_ladder_fits_a_screen_in_one_piece(climbed: Understanding) -> None:
    lines = text(build(climbed), width=80).splitlines()
    start = lines.index("The ladder of tunings")
    block = lines[start : lines.index("", start)]
    assert max(map(len, lines)) <= 80
    rows = [line.split() for line in block if line.startswith("resnet50")]
    assert len(rows) == 2 * 8 and rows[0][1:3] == ["cpu", "as-written"]
    # Number and verdict stand in one row: nothing is cut into a second table.
    assert {row[-1] for row in rows} == {"-", "wins", "same", "loses", "unclear"}


def test_every_format_has_the_ladder_and_what_is_not_known(climbed: Understanding) -> None:
    report = build(climbed)
    told = markdown(report), text(report, width=100), page(report, climbed)
    for content in told:
        for words in ("compile less bf16", "chosen, and not measured again yet", "bf16", "loses"):
            assert words in content
    assert document(climbed)["ladders"][0]["steps"][1]["win"]["verdict"] == "faster"
    header, *rows = sheet(climbed).splitlines()
    assert header.endswith("ladder_loses,best_of_numerics,unproven,left_out_lines")
    assert len(rows) == len(climbed.cases)


def test_rows_go_down_for_every_device() -> None:
    orders = [steps("cpu"), steps("cuda")]
    rows = merged(orders)
    for order in orders:
        places = iter(rows)
        assert all(name in places for name in order)  # each is found behind the one before
    # BF16 and the compiler change places between the two kinds: one of them has two rows.
    assert len(rows) == len(set(rows)) + 1
    assert merged([["a", "b"], ["a", "b"]]) == ["a", "b"] and merged([]) == []


def test_marks_follow_the_steps(climbed: Understanding) -> None:
    found = chart(climbed)
    mine = [v for v in found.values if (v["model"], v["device"]) == ("resnet50", "cuda:0")]
    climbing = [v for v in mine if v["step"] is not None]
    places = [v["step"] for v in climbing]
    assert places == sorted(places) and len(set(places)) == 8  # type: ignore[type-var]
    assert [v["label"] for v in climbing][:4] == ["cuda:0", "8.7x", "1.4x ?", "the same"]
    assert "0.90x: slower" in {v["label"] for v in climbing}
    assert [v["ms"] for v in climbing][:2] == pytest.approx([22.0, 22.0 / 8.7])
    (best,) = (v for v in mine if v["step"] is None)
    assert (best["label"], str(best["row"])[3:]) == ("69x as written", "best, same numerics")
    assert {v["row"] for v in found.values} == set(found.tunings)


def test_the_chart_is_drawn_offline_with_the_words_that_explain_it(climbed: Understanding) -> None:
    drawn = svg(chart(climbed))
    for words in ("+ CUDA graph", "8.7x", "milliseconds a step", "further left is faster", "as written"):
        assert words in drawn
    assert "<script" not in drawn
    # Numbers that only sort the rows are not shown.
    assert ">00 as" not in drawn
    made = spec(chart(climbed))
    assert made["facet"]["field"] == "model" and json.dumps(made, allow_nan=False)


def test_words_beside_marks_have_room(climbed: Understanding) -> None:
    made = spec(chart(climbed))
    low, high = made["spec"]["layer"][0]["encoding"]["x"]["scale"]["domain"]
    times = [float(v["ms"] or 0) for v in chart(climbed).values]
    span = math.log(high / low)
    assert min(math.log(min(times) / low), math.log(high / max(times))) / span > 0.1


def test_a_step_without_a_time_has_no_mark_and_breaks_nothing(climbed: Understanding) -> None:
    first, *others = climbed.ladders
    blank = StepFinding(name="workers", case_id="x", reasons={"step_s": "not measured yet"})
    gap = dataclasses.replace(first, steps=(first.steps[0], blank, *first.steps[2:]))
    found = dataclasses.replace(climbed, ladders=(gap, *others))
    count = len(chart(climbed).values)
    assert len(chart(found).values) == count - 1
    assert "not measured yet" in text(build(found))


def test_a_win_without_a_verdict_says_why(climbed: Understanding) -> None:
    first = climbed.ladders[0]
    win = first.steps[1].win
    assert win is not None
    why = "something else used the machine in most processes of a side"
    doubtful = dataclasses.replace(win, verdict=None, reasons={"verdict": why})
    step = dataclasses.replace(first.steps[1], win=doubtful)
    shaken = dataclasses.replace(
        first,
        steps=(first.steps[0], step, *first.steps[2:]),
        best=(dataclasses.replace(first.best[0], flags=("contended", "simulated")),),
    )
    said = " ".join(text(build(dataclasses.replace(climbed, ladders=(shaken,)))).split())
    assert f"verdict: {why} (1 of 8 rows)" in said
    assert "8.7x ?" in {v["label"] for v in chart(dataclasses.replace(climbed, ladders=(shaken,))).values}
    best = section(dataclasses.replace(climbed, ladders=(shaken,)), "best").table
    assert best is not None and best.rows[0][-1].text == "contended"


def test_ladders_of_two_files_are_two_panels(climbed: Understanding) -> None:
    first = climbed.ladders[0]
    twice = tuple(dataclasses.replace(first, source=name) for name in ("a.jsonl", "b.jsonl"))
    found = dataclasses.replace(climbed, ladders=twice)
    assert {v["model"] for v in chart(found).values} == {
        "simple-cnn, source a.jsonl",
        "simple-cnn, source b.jsonl",
    }
    assert "b.jsonl" in text(build(found))


def test_a_single_step_draws_nothing(climbed: Understanding) -> None:
    one = dataclasses.replace(climbed.ladders[0], steps=climbed.ladders[0].steps[:1], best=())
    found = dataclasses.replace(climbed, ladders=(one,))
    assert section(found, "ladder").chart is None
