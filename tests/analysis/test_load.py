"""Findings of load: figures that the queries are enough for, answers of searches, lines that fit together."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from breakeven import report
from breakeven.analysis import understand
from breakeven.analysis.findings import Understanding
from breakeven.records.canonical import canonical, to_json
from breakeven.records.case import Case
from breakeven.records.file import decode, encode
from breakeven.records.lines import SCHEMA, Load

from .conftest import a_machine, a_study, file_of
from .inference_lines import infer_case, served

CASE = infer_case(batch=8)
SEARCH = {"start_per_s": 100.0, "least_per_s": 10.0, "most_per_s": 800.0, "processes": 2, "max_wait_ms": 0.0}


def a_load(case: Case = CASE, scenario: str = "single-stream", replicate: int = 0, **changes: Any) -> Load:
    values: dict[str, Any] = {
        "kind": "load",
        "schema": SCHEMA,
        "case_id": case.case_id,
        "work_id": case.work_id,
        "tuning_id": case.tuning_id,
        "work": to_json(case.work),
        "tuning": to_json(case.tuning),
        "device": to_json(case.device),
        "tuning_name": "eager",
        "scenario": scenario,
        "replicate": replicate,
        "order_index": 0,
        "started_utc": "2026-01-01T00:00:00.000+00:00",
        "outcome": "ok",
        "settings": {"min_duration_ms": 3000, "min_query_count": 1},
        "minimums": "shortened",
        "validity": "VALID",
        "latency_ns": {
            "min": 900_000,
            "p50": 1_000_000,
            "p90": 2_000_000,
            "p99": 3_000_000,
            "p99.9": 4_000_000,
        },
        "per_s": {"queries_with_loadgen": 900.0 + 10 * replicate},
        "served": {"samples": 500, "calls": 500, "empty_places": 3500},
    }
    line = decode(canonical(values | changes))
    assert isinstance(line, Load)
    assert decode(encode(line)) == line
    return line


def a_trial(per_s: float, valid: bool, purpose: str = "select", replicate: int = 0) -> Load:
    given = {"min_duration_ms": 3000, "server_target_qps": per_s, "server_target_latency_ns": 20_000_000}
    return a_load(
        scenario="server",
        replicate=replicate,
        purpose=purpose,
        settings=given,
        search=SEARCH,
        validity="VALID" if valid else "INVALID",
        invalid_reasons=[] if valid else ["over the latency limit", "LoadGen: Reduce target QPS."],
        per_s={"completed_samples": per_s - 1},
    )


def found_in(*loads: Load) -> Understanding:
    lines = [served(CASE, i, 1.0 + 0.01 * i) for i in range(3)]
    return understand([file_of(a_study([CASE], {"replicates": 3}), a_machine(), *lines, *loads)])


def test_quantiles_that_the_queries_are_too_few_for_are_left_out() -> None:
    (one,) = found_in(a_load(), a_load(replicate=1)).inference.loads
    assert set(one.quantile_points_s) == {"p50", "p90", "p99"}  # 500 queries: 299 for p99, 2,995 for p99.9
    assert "2,995" in one.reasons["p99.9"]
    assert (one.processes, one.valid, one.empty) == (2, 2, 3500 / 4000)
    assert one.per_s is not None and one.per_s.n == 2
    assert one.quantile_points_s["p90"] == pytest.approx(2e-3)


def test_one_process_has_no_interval_and_a_failure_its_reason() -> None:
    dead = a_load(replicate=1, outcome="killed", reason="killed by SIGKILL", validity=None)
    (one,) = found_in(a_load(), dead).inference.loads
    assert one.per_s is None and one.per_s_point == pytest.approx(900.0)
    assert one.why == ("killed: killed by SIGKILL",)


TRIALS = [
    a_trial(100.0, True),
    a_trial(200.0, False, replicate=1),
    a_trial(141.4, True, replicate=2),
    a_trial(168.2, False, replicate=3),
    a_trial(154.2, False, replicate=4),
    a_trial(147.7, False, replicate=5),
]


def test_a_search_has_its_answer_once_it_is_confirmed() -> None:
    (one,) = found_in(*TRIALS).inference.loads
    assert one.answer is None and one.reasons["per_s"] == "the search has not ended"
    confirmed = [a_trial(141.4, True, "confirm", i) for i in range(2)]
    found = found_in(*TRIALS, *confirmed)
    (one,) = found.inference.loads
    assert one.answer is not None
    assert (one.answer.kind, one.answer.per_s, one.answer.failed) == ("found", 141.4, 147.7)
    assert (one.processes, one.valid, len(one.trials)) == (2, 2, 8)
    (said,) = [s for s in found.sentences if "LoadGen" in s]
    assert said.startswith("By MLPerf's LoadGen (not verified by MLCommons), ")
    assert "up to 141.4 queries a second" in said and "within 20 ms" in said


def test_wherever_load_is_shown_it_is_no_mlperf_result() -> None:
    found = found_in(*TRIALS, *(a_trial(141.4, True, "confirm", i) for i in range(2)), a_load())
    text = report.text(report.build(found), width=80, colour=False)
    section = text[text.index("Under load") :]
    assert "(unverified)" in section.splitlines()[0]
    assert "Result not verified by MLCommons Association. Not an MLPerf result" in section
    assert max(map(len, text.splitlines())) <= 80
    assert all("MLCommons" in load.standing for load in found.inference.loads)
    sections = {s.key: s for s in report.build(found).sections if s.key.startswith("load")}
    assert all("Not an MLPerf result" in s.note for s in sections.values()) and len(sections) == 2


def test_another_limit_is_another_question_and_an_edited_line_is_left_out() -> None:
    other = a_trial(100.0, True)
    given = {**other.settings, "server_target_latency_ns": 5_000_000}
    other = dataclasses.replace(other, settings=given)
    edited = dataclasses.replace(a_load(), work_id="0" * 16)
    loads = found_in(*TRIALS, other, edited).inference.loads
    assert [one.limit_s for one in loads] == [pytest.approx(0.02), pytest.approx(0.005)]
