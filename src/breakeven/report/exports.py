"""The findings in the files of two other tools: pytest-benchmark's JSON and github-action-benchmark's.

Knows nothing about the view. In both a round is a process, never a block: the blocks of one process share
whatever made it fast or slow, so their spread would promise more than a second run keeps.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from breakeven.analysis.findings import CaseFinding, Understanding

MOST_OUTSIDE = 1.5
"""Times the quartiles' distance beyond which Tukey's rule, and pytest-benchmark, call a round an outlier."""


def pytest_benchmark(understanding: Understanding) -> dict[str, Any]:
    """What `pytest-benchmark compare` reads: a benchmark a case, seconds a step, a round a process."""
    return {
        "machine_info": dict(understanding.machines[-1]) if understanding.machines else {},
        "commit_info": {},
        "benchmarks": [_benchmark(c) for c in understanding.cases if c.samples_s],
        "version": f"breakeven {understanding.tool_version}",
    }


def github_action(understanding: Understanding) -> list[dict[str, Any]]:
    """What github-action-benchmark reads as `customSmallerIsBetter`: seconds a step, with their interval."""
    out = []
    for c in understanding.cases:
        if c.step_point_s is None:
            continue
        entry: dict[str, Any] = {"name": _name(c), "unit": "s", "value": c.step_point_s}
        if c.step_s is not None:
            entry["value"] = c.step_s.estimate
            entry["range"] = f"{c.step_s.low:.4g} to {c.step_s.high:.4g}"
        entry["extra"] = "\n".join(f"{key}: {value}" for key, value in _extra(c).items())
        out.append(entry)
    return out


def _name(c: CaseFinding) -> str:
    work = c.case.work
    return f"{work.task} {work.model} {work.data} batch {work.batch} [{c.tuning_name}] on {c.device_label}"


def _extra(c: CaseFinding) -> dict[str, Any]:
    found: Mapping[str, Any] = {
        "case_id": c.case_id, "processes": c.processes, "simulated": c.simulated, "flags": ", ".join(c.flags),
        "confidence": c.step_s.confidence if c.step_s else None, "unit": c.unit,
        "unproven": c.unproven,
    }  # fmt: skip
    return {key: value for key, value in found.items() if value not in (None, "")}


def _benchmark(c: CaseFinding) -> dict[str, Any]:
    work = c.case.work
    params = {"model": work.model, "batch": work.batch, "tuning": c.tuning_name, "device": c.device_label}
    return {
        "group": f"{work.task} {work.model} batch {work.batch}",
        "name": _name(c),
        "fullname": f"{_file(c)}::{_name(c)}",
        "params": params,
        "param": c.case_id,
        "extra_info": _extra(c),
        "options": {"disable_gc": False, "timer": "perf_counter_ns", "min_rounds": 1, "warmup": True},
        "stats": _stats(c.samples_s),
    }


def _file(c: CaseFinding) -> str:
    """Where a tool that groups by file puts a case."""
    return c.source or "results.jsonl"


def _stats(seconds: Sequence[float]) -> dict[str, Any]:
    """Of the median steps of the processes: what pytest-benchmark states, by its own rules."""
    ranked = sorted(seconds)
    n = len(ranked)
    mean, middle = statistics.fmean(ranked), statistics.median(ranked)
    spread = statistics.stdev(ranked) if n > 1 else 0.0
    first, _, third = statistics.quantiles(ranked, n=4, method="inclusive") if n > 1 else [middle] * 3
    low, high = first - MOST_OUTSIDE * (third - first), third + MOST_OUTSIDE * (third - first)
    far = sum(abs(s - mean) > spread for s in ranked)
    beyond = sum(not low <= s <= high for s in ranked)
    return {
        "min": ranked[0], "max": ranked[-1], "mean": mean, "stddev": spread, "rounds": n, "median": middle,
        "iqr": third - first, "q1": first, "q3": third, "iqr_outliers": beyond, "stddev_outliers": far,
        "outliers": f"{far};{beyond}", "ld15iqr": next((s for s in ranked if s >= low), ranked[0]),
        "hd15iqr": next((s for s in ranked if s > high), ranked[-1]),
        "ops": 1 / mean if mean > 0 else None, "total": sum(ranked), "iterations": 1, "data": list(seconds),
    }  # fmt: skip
