"""Load by MLPerf's LoadGen: what it is asked, who answers, what its logs say, and whole runs of it."""

import hashlib
import importlib.util
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from breakeven import api, report
from breakeven.errors import UserError
from breakeven.records import file
from breakeven.records.case import Case
from breakeven.records.lines import steady_step_ns
from breakeven.runner.load import logs
from breakeven.runner.load.driving import MISSING, Waiting, answer
from breakeven.runner.load.rounds import require
from breakeven.runner.load.settings import answering, settings
from breakeven.runner.plan import plan
from breakeven.runner.study import Study, load_study, read_study, resolved
from breakeven.runtimes import load

SIM = "sim:gpu:call_us=2000:images_per_s=4000:launch_us=1:noise=0.001:process=0"
needs_loadgen = pytest.mark.skipif(
    importlib.util.find_spec("mlperf_loadgen") is None, reason="mlcommons-loadgen is not installed"
)


def study(text: str) -> Study:
    return read_study(f"name: t\ntask: infer\nmodel: simple-cnn\ndevice: {SIM}\n{text}", "t.yaml")


def test_scenarios_are_keys_and_flags() -> None:
    asked = study("load: all\np99_limit_ms: 20ms")
    assert asked.load == ("single-stream", "multi-stream", "server", "offline")
    assert asked.p99_limit_ms == 20.0
    flags = {"task": "infer", "load": ["server,offline"], "p99_limit_ms": "20ms"}
    assert load_study(["simple-cnn"], flags).load == ("server", "offline")
    assert load_study(["simple-cnn"], flags).batch == (1, 8)
    assert load_study(["simple-cnn"], flags | {"batch": "32"}).batch == (32,)
    text = json.dumps(resolved(asked))
    assert read_study(text, "t.yaml") == asked


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("load: server", "server needs the limit that it has to keep: p99_limit_ms, --max-p99 20ms"),
        ("load: offline\np99_limit_ms: 20", "is the server's: add load: server"),
        ("load: online", "unknown 'online'"),
        ("load: offline\nload_time: 0", "must be more than 0"),
    ],
)
def test_slips_are_one_line(text: str, fault: str) -> None:
    with pytest.raises(UserError) as error:
        study(text)
    assert fault in str(error.value) and "\n" not in str(error.value)


def test_training_answers_no_queries() -> None:
    with pytest.raises(UserError, match="of inference"):
        read_study("model: simple-cnn\nload: offline", "t.yaml")
    with pytest.raises(UserError, match=r"^--max-p99: "):
        load_study(["simple-cnn"], {"task": "infer", "load": "server", "p99_limit_ms": "0ms"})


def test_without_the_package_a_study_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    require(study("load: []"))
    with pytest.raises(UserError, match=r"pip install 'breakeven\[load\]'"):
        require(study("load: offline"))
    assert "\n" not in MISSING


def test_a_stream_is_answered_by_the_smallest_batch_that_holds_its_query() -> None:
    def answered(batches: str) -> dict[str, list[int]]:
        asked = study(f"load: all\np99_limit_ms: 9\nbatch: {batches}")
        pairs, skips = answering(plan(asked, cores=1, gpus=0).cases, asked.load)
        assert len(pairs) + len(skips) == len(asked.load) * len(asked.batch)
        return {s: [p.case.work.batch for p, which in pairs if which == s] for s in asked.load}

    assert answered("[1, 4, 16, 64]") == {
        "single-stream": [1],
        "multi-stream": [16],
        "server": [1, 4, 16, 64],
        "offline": [1, 4, 16, 64],
    }
    assert answered("[2, 4]")["single-stream"] == [2]
    assert answered("[2, 4]")["multi-stream"] == [4]


def test_minimums_are_those_of_mlperf_or_shortened() -> None:
    asked: dict[str, Any] = {"seconds": 3.0, "seed": "a", "call_s": 1e-3, "samples_per_s": 1000.0}
    full = settings("multi-stream", minimums="full", **asked)
    assert (full["min_duration_ms"], full["min_query_count"]) == (600_000, 662)
    assert full["multi_stream_samples_per_query"] == 8
    short = settings("offline", minimums="shortened", **asked)
    assert (short["min_duration_ms"], short["min_query_count"]) == (3000, 1)
    assert short["offline_expected_qps"] > 1000
    other = settings("offline", minimums="shortened", **asked | {"seed": "b"})
    assert short["schedule_rng_seed"] != other["schedule_rng_seed"]


def log(**entries: object) -> str:
    lines = [json.dumps({"key": key, "value": value}) for key, value in entries.items()]
    return "".join(f"{logs.PREFIX}{line}\n" for line in lines) + f"{logs.PREFIX}{{cut"


def test_a_detail_log_becomes_figures() -> None:
    found = logs.figures(
        log(
            **{
                "loadgen_version": "6.0.17 @ d6147c7eb7",
                "result_validity": "INVALID",
                "result_perf_constraints_met": False,
                "result_min_duration_met": True,
                "result_invalid_reason": "Reduce target QPS to improve latency. ",
                "result_completed_samples_per_sec": 469.8,
                "result_min_latency_ns": 5,
                "result_99.00_percentile_latency_ns": 409_417_385,
                "result_99.90_percentile_latency_ns": 413_098_481,
            }
        )
    )
    assert found["validity"] == "INVALID"
    assert found["invalid_reasons"] == [
        "over the latency limit",
        "LoadGen: Reduce target QPS to improve latency.",
    ]
    assert found["latency_ns"] == {"min": 5, "p99": 409_417_385, "p99.9": 413_098_481}
    assert found["per_s"] == {"completed_samples": 469.8}


def test_latency_is_of_queries_where_loadgen_tells_them_apart() -> None:
    text = log(
        **{
            "result_validity": "VALID",
            "result_max_query_latency_ns": 9,
            "result_50.00_percentile_per_query_latency_ns": 8,
            "result_max_latency_ns": 3,
            "result_50.00_percentile_latency_ns": 2,
        }
    )
    assert logs.figures(text)["latency_ns"] == {"max": 9, "p50": 8}
    with pytest.raises(ValueError, match="no verdict"):
        logs.figures(log(loadgen_version="6"))


def sim_case(batch: int, **changes: Any) -> Case:
    asked = study(f"batch: {batch}\ntuning: cuda-graph\nload: offline")
    return replace(plan(asked, cores=1, gpus=0).cases[0].case, **changes)


def test_queries_become_whole_batches_and_every_sample_is_answered_once() -> None:
    case = sim_case(4)
    prepared = load("sim").prepare(case)
    waiting, answered = Waiting(), list[list[int]]()
    for ids in ([1, 2, 3], [4, 5, 6], [7], None):
        waiting.asked.put(ids)
    served = answer(prepared, waiting, lambda ids: answered.append(list(ids)), in_flight=1)
    assert answered == [[1, 2, 3, 4], [5, 6, 7]]
    assert (served.samples, served.calls, served.empty, served.waits) == (7, 2, 1, 2)


def test_offline_waits_for_several_calls_at_once() -> None:
    prepared = load("sim").prepare(sim_case(4))
    waiting, answered = Waiting(), list[list[int]]()
    waiting.asked.put(list(range(50)))
    waiting.asked.put(None)
    served = answer(prepared, waiting, lambda ids: answered.append(list(ids)), in_flight=8)
    assert [len(ids) for ids in answered] == [32, 18]
    assert (served.calls, served.empty, served.waits) == (13, 2, 2)


def test_a_server_waits_for_its_batch_no_longer_than_it_may() -> None:
    waiting = Waiting()
    waiting.asked.put([1])
    assert waiting.take(4, 4, 0.001) == [1]
    for sample in range(6):
        waiting.asked.put([sample])
    assert waiting.take(4, 4, 60.0) == [0, 1, 2, 3]
    waiting.asked.put(None)
    assert waiting.take(4, 4, 60.0) == [4, 5]
    assert waiting.take(4, 4, 60.0) == []


@needs_loadgen
@pytest.mark.slow
def test_a_planted_device_answers_as_planted(tmp_path: Path) -> None:
    """LoadGen against our own loop, whose clock is the simulated device's: 3 ms a call of four images."""
    asked = study(
        "batch: 4\ntuning: cuda-graph\nload: [single-stream, offline, server]\np99_limit_ms: 1\n"
        "load_time: 0.5\nreplicates: 2\nmax_replicates: 2\nattempt_time: 3"
    )
    summary = api.measure(asked, tmp_path)
    results = file.read(summary.path)
    by = {line.scenario: line for line in results.loads}
    assert {line.outcome for line in results.loads} == {"ok"}
    single, offline = by["single-stream"], by["offline"]
    # Sleep and hand-over only add; how much is the machine's. p50, that a busy machine spoils least.
    planted = steady_step_ns(results.attempts[0]) or 0.0
    assert 0.99 * planted <= single.latency_ns["p50"] < 1.5 * planted
    assert 0.6 < offline.per_s["samples"] / (4e9 / planted) <= 1.02
    assert single.served["empty_places"] == 3 * single.served["samples"]
    assert single.minimums == "shortened" and single.settings["min_duration_ms"] == 500
    for told in single.logs.values():
        assert hashlib.sha256((tmp_path / told["file"]).read_bytes()).hexdigest() == told["sha256"]
        assert told["file"].startswith(f"load/{single.case_id}-single-stream-r")
    again = api.measure(asked, tmp_path)
    assert again.attempts == 0 and again.reused == summary.attempts
    assert b"".join(map(file.encode, results.lines)) == summary.path.read_bytes()
    found = api.understand([results])
    served = [one for one in found.inference.loads if one.scenario == "server"]
    # A call of more than 2 ms is never within 1 ms.
    assert {one.answer.kind for one in served if one.answer} == {"none"} and len(served) == 1
    text = report.text(report.build(found), width=80, colour=False)
    assert "Result not verified by MLCommons Association." in text
    assert "Not an MLPerf result" in text and "SIMULATED" in text
    assert max(map(len, text.splitlines())) <= 80
