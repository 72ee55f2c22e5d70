"""LoadGen's detail log as figures: its verdict, the reasons, quantiles of latency and rates.

Knows nothing about who ran it.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SUMMARY, DETAIL = "mlperf_log_summary.txt", "mlperf_log_detail.txt"
"""Names that LoadGen gives its logs."""
OTHERS = ("mlperf_log_accuracy.json", "mlperf_log_trace.json")
"""What it writes besides: empty where no accuracy was asked for."""
PREFIX = ":::MLLOG "

RATES = {
    "result_samples_per_second": "samples",
    "result_completed_samples_per_sec": "completed_samples",
    "result_scheduled_samples_per_sec": "scheduled_samples",
    "result_qps_with_loadgen_overhead": "queries_with_loadgen",
    "result_qps_without_loadgen_overhead": "queries_without_loadgen",
}
"""LoadGen's name -> ours, of what it gives a second."""
MET = {
    "result_min_duration_met": "shorter than the least duration",
    "result_min_queries_met": "fewer queries than the least number",
    "result_perf_constraints_met": "over the latency limit",
    "early_stopping_met": "too few queries for its quantile",
}
"""What LoadGen requires, and what it means where that is not met."""


def figures(text: str) -> dict[str, Any]:
    """The fields of a `load` line that LoadGen's detail log holds: raw, nanoseconds and rates as it has them.

    Raises ValueError where the log ends before the verdict (LoadGen gave up) or is no such log.
    """
    found = entries(text)
    verdict = found.get("result_validity")
    if verdict not in ("VALID", "INVALID"):
        raise ValueError(f"LoadGen came to no verdict{_complaint(text)}")
    return {
        "validity": verdict,
        "invalid_reasons": _reasons(found) if verdict == "INVALID" else [],
        "latency_ns": _latency(found),
        "per_s": {name: found[key] for key, name in RATES.items() if isinstance(found.get(key), int | float)},
        "loadgen": found.get("loadgen_version"),
    }


def entries(text: str) -> dict[str, Any]:
    """Key -> value of a detail log; of a key that comes twice, the last."""
    found = {}
    for line in text.splitlines():
        if line.startswith(PREFIX):
            try:
                entry = json.loads(line.removeprefix(PREFIX))
            except ValueError:
                continue  # cut off where LoadGen was killed
            found[entry["key"]] = entry["value"]
    return found


def _reasons(found: Mapping[str, Any]) -> list[str]:
    """What was not met, in our words, then what LoadGen says itself."""
    reasons = [words for key, words in MET.items() if found.get(key) is False]
    own = [found.get("result_invalid_reason")]
    own += [found.get("early_stopping_result")] if found.get("early_stopping_met") is False else []
    said = [" ".join(text.replace("*", " ").split()) for text in own if isinstance(text, str)]
    return [*reasons, *(f"LoadGen: {text}"[:300] for text in said if text)]


def _latency(found: Mapping[str, Any]) -> dict[str, int]:
    """Quantiles, extremes and mean by name: of queries where LoadGen tells these from samples."""
    of_samples, of_queries = dict[str, int](), dict[str, int]()
    for key, value in found.items():
        match = re.fullmatch(r"result_(min|mean|max|[0-9.]+_percentile)_(?:per_)?(query_)?latency_ns", key)
        if match and isinstance(value, int | float):
            name = match.group(1)
            if name.endswith("_percentile"):
                name = f"p{float(name.removesuffix('_percentile')):g}"
            (of_queries if match.group(2) else of_samples)[name] = round(value)
    return of_queries or of_samples


def _complaint(text: str) -> str:
    """What LoadGen logged as an error, if anything."""
    for line in reversed(text.splitlines()):
        if '"is_error": true' in line and line.startswith(PREFIX):
            try:
                return f": {json.loads(line.removeprefix(PREFIX))['value']}"[:200]
            except (ValueError, KeyError):
                break
    return ""


def kept(folder: Path, root: Path) -> dict[str, dict[str, str]]:
    """The logs in `folder` by name: file relative to `root`, and sha256. What is empty is removed."""
    for name in OTHERS:
        (folder / name).unlink(missing_ok=True)
    return {
        name: {
            "file": (folder / file).relative_to(root).as_posix(),
            "sha256": hashlib.sha256((folder / file).read_bytes()).hexdigest(),
        }
        for name, file in (("summary", SUMMARY), ("detail", DETAIL))
        if (folder / file).exists()
    }
