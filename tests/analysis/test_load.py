"""Findings of load: figures that the queries are enough for, answers of searches, lines that fit together."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from breakeven import report
from breakeven.analysis import understand
from breakeven.analysis.findings import Understanding
from breakeven.records.canonical import canonical, to_json
from breakeven.records.case import Case
from breakeven.records.file import decode, encode
from breakeven.records.lines import SCHEMA, Line, Load

from .conftest import a_machine, a_study, file_of
from .inference_lines import checked, infer_case, served

CASE = infer_case(batch=8)
STARTED = itertools.count()
SEARCH = {"start_per_s": 100.0, "least_per_s": 10.0, "most_per_s": 800.0, "processes": 2, "max_wait_ms": 0.0}


def a_load(case: Case = CASE, scenario: str = "single-stream", replicate: int = 0, **changes: Any) -> Load:
    serial = next(STARTED)  # no two processes start at once, or take the same time to the nanosecond
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
        "started_utc": f"2026-01-01T00:00:00.{serial:03d}+00:00",
        "outcome": "ok",
        "settings": {"min_duration_ms": 3000, "min_query_count": 1},
        "minimums": "shortened",
        "validity": "VALID",
        "latency_ns": {
            "min": 900_000 + serial,
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


def found_in(*lines: Line) -> Understanding:
    sampled = [served(CASE, i, 1.0 + 0.01 * i) for i in range(3)]
    return understand([file_of(a_study([CASE], {"replicates": 3}), a_machine(), *sampled, *lines)])


def said_of_load(found: Understanding) -> list[str]:
    return [s for s in found.sentences if "LoadGen" in s]


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
    assert said.startswith("By LoadGen (not verified by MLCommons), ")
    assert "up to 141.4 queries/s" in said and "within 20 ms" in said


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
    other = a_trial(100.0, True, replicate=6)
    given = {**other.settings, "server_target_latency_ns": 5_000_000}
    other = dataclasses.replace(other, settings=given)
    edited = dataclasses.replace(a_load(), work_id="0" * 16)
    loads = found_in(*TRIALS, other, edited).inference.loads
    assert [one.limit_s for one in loads] == [pytest.approx(0.02), pytest.approx(0.005)]


def test_a_case_that_failed_its_check_has_no_rate_under_load() -> None:
    confirmed = [a_trial(141.4, True, "confirm", i) for i in range(2)]
    lines = [*TRIALS, *confirmed, a_load(), a_load(replicate=1)]
    assert said_of_load(found_in(*lines, checked(CASE)))
    for check in (
        checked(CASE, outcome="output_mismatch", reason="far off"),
        checked(CASE, {"agreement": {"asked": 0.99, "found": 0.2, "ok": False, "note": "100 images"}}),
    ):
        found = found_in(*lines, check)
        assert not said_of_load(found) and len(found.inference.loads) == 2
        for one in found.inference.loads:
            assert (one.per_s, one.per_s_point, one.answer, one.trials, one.processes) == (
                None,
                None,
                None,
                (),
                0,
            )
            assert "far off" in one.why[0] or "agreement" in one.why[0]
        assert "141" not in report.text(report.build(found), width=200, colour=False).split("Under load")[1]


def test_load_of_two_machines_or_nets_is_not_averaged() -> None:
    mine = [a_load(replicate=i, fingerprint_id="f0") for i in range(2)]
    other = a_load(replicate=2, fingerprint_id="f1", per_s={"queries_with_loadgen": 9000.0})
    (one,) = found_in(*mine, other).inference.loads
    assert one.per_s is not None and one.per_s.n == 2 and (one.per_s_point or 0) < 1000
    assert "several_units" in one.flags and "other machines" in one.why[-1]
    for hashes in ({"weights": "w1"}, {"weights": "w0"}):
        lines = [a_load(replicate=i, hashes=hashes) for i in range(2)]
        (one,) = found_in(*lines, a_load(replicate=2, hashes={"weights": "w0"})).inference.loads
        assert (one.per_s is None) == (hashes["weights"] == "w1")
        assert one.per_s or "different weights" in one.why[0]
    # All load lines agree, but they are not of the net whose outputs were checked.
    (one,) = found_in(a_load(hashes={"weights": "w9"})).inference.loads
    assert one.per_s_point is None and "different weights" in one.why[0]


def test_a_copied_process_counts_once() -> None:
    log = {"detail": {"file": "load/a", "sha256": "1" * 64}}
    first = a_load(parent_id="p", logs=log)
    fresh = {"started_utc": "2026-02-02", "latency_ns": {"p50": 1_000_000}, "parent_id": "q", "logs": {}}
    for kept in ("started_utc", "latency_ns", "parent_id", "logs"):
        changes = {key: value for key, value in fresh.items() if key != kept}
        found = found_in(first, dataclasses.replace(first, replicate=1, **changes))
        (one,) = found.inference.loads
        assert one.per_s is None and one.processes == 1, kept
        assert next(q.text for q in found.quality if q.flag == "left_out").startswith(
            "load lines left out: they"
        )
    found = found_in(first, dataclasses.replace(first, replicate=1, **fresh), dataclasses.replace(first))
    assert found.inference.loads[0].processes == 2
    assert not [q for q in found.quality if q.flag == "left_out"]
    forged = dataclasses.replace(first, per_s={"queries_with_loadgen": 1e9})
    assert "same id" in next(q.text for q in found_in(first, forged).quality if q.flag == "left_out")


def test_trials_of_a_search_share_a_parent_and_confirmations_do_not() -> None:
    trials = [dataclasses.replace(line, parent_id="p") for line in TRIALS]
    confirmed = [dataclasses.replace(a_trial(141.4, True, "confirm", i), parent_id="q") for i in range(2)]
    (one,) = found_in(*trials, *confirmed).inference.loads
    assert one.answer is None and len(one.trials) == 7


def test_a_verdict_that_its_line_contradicts_is_none() -> None:
    confirmed = [a_trial(141.4, True, "confirm", i) for i in range(2)]
    late = {**confirmed[0].latency_ns, "p99": 21_000_000}
    reasons = dataclasses.replace(a_trial(147.7, False, replicate=5), validity="VALID")
    for lines, words in (
        ([*TRIALS, dataclasses.replace(confirmed[0], latency_ns=late), confirmed[1]], "p99"),
        ([*TRIALS[:-1], reasons, *confirmed], "own reasons"),
    ):
        (one,) = found_in(*lines).inference.loads
        assert any("contradicted" in why and words in why for why in one.why)
        assert [t.valid for t in one.trials].count(False) == (5 if words == "p99" else 4)
    assert one.answer is not None and one.answer.failed == 147.7
    (one,) = found_in(dataclasses.replace(a_load(), invalid_reasons=("fewer queries",))).inference.loads
    assert (one.valid, one.processes) == (0, 1) and "fewer queries" in one.why[0]


def test_a_shared_machine_gives_load_no_verdict() -> None:
    busy = {"flags": ("contended",)}
    confirmed = [a_trial(141.4, True, "confirm", i) for i in range(2)]
    trials = [dataclasses.replace(line, **busy) for line in TRIALS[:3]]
    found = found_in(*trials, *TRIALS[3:], *confirmed)
    (one,) = found.inference.loads
    assert one.disturbed and one.per_s is None and one.quantiles == {} and not said_of_load(found)
    assert "3 of 8 processes" in one.why[0] and "contended" in one.flags
    assert said_of_load(found_in(*trials[:2], *TRIALS[2:], *confirmed))
    (one,) = found_in(a_load(flags=["contended"]), a_load(replicate=1, flags=["contended"])).inference.loads
    assert one.disturbed and one.per_s is None and one.per_s_point
    (one,) = found_in(a_load(flags=["contended"]), *(a_load(replicate=i) for i in (1, 2))).inference.loads
    assert not one.disturbed and one.per_s is not None
