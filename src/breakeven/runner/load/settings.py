"""What LoadGen is given for each scenario, by its own names, and which case answers which scenario.

Knows nothing about processes or files.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from breakeven.records.lines import Scenario
from breakeven.runner.plan import PlannedCase, Skip

Minimums = Literal["shortened", "full"]

NAMES: Mapping[Scenario, str] = {
    "single-stream": "SingleStream",
    "multi-stream": "MultiStream",
    "server": "Server",
    "offline": "Offline",
}
"""Scenario -> LoadGen's name."""

STREAM = 8
"""Samples of a query in multi-stream (mlperf.conf)."""
FULL_MS = 600_000
"""MLPerf's least duration of a run: ten minutes (mlperf.conf of LoadGen 6.0.17, all scenarios)."""
FULL_QUERIES: Mapping[Scenario, int] = {
    "single-stream": 100, "multi-stream": 662, "server": 100, "offline": 24_576,
}  # fmt: skip
"""Its least number of queries, in offline of samples (the same file, resnet50)."""
SERVER_QUERIES = 662
"""Queries a server run has at least: of so many one may be late if 99 % are to be in time at LoadGen's 99 %
confidence (its early stopping)."""
MARGIN = 1.25
"""Offline hands over samples for so much more than the duration: a run that ends early is INVALID."""
HINT = 0.5
"""Expected latency as a share of the measured one: LoadGen makes its queries beforehand, enough to last."""
SEEDS = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")


def settings(
    scenario: Scenario,
    *,
    minimums: Minimums,
    seconds: float,
    seed: str,
    call_s: float,
    samples_per_s: float,
    target_per_s: float | None = None,
    limit_s: float | None = None,
) -> dict[str, Any]:
    """LoadGen's settings for one run, by its names.

    `seconds`: least duration where minimums are shortened. `call_s` and `samples_per_s` are what our own
    attempts measured of this case: LoadGen wants to know what to expect. `target_per_s` and `limit_s` are of
    the server only. Each process has arrivals of its own, drawn from `seed`.
    """
    least_ms = FULL_MS if minimums == "full" else round(1000 * seconds)
    shortened = SERVER_QUERIES if scenario == "server" else 1
    found: dict[str, Any] = {
        "scenario": NAMES[scenario],
        "mode": "PerformanceOnly",
        "min_duration_ms": least_ms,
        "min_query_count": FULL_QUERIES[scenario] if minimums == "full" else shortened,
        **{name: _drawn(seed, name) for name in SEEDS},
    }
    expected_ns = max(1, round(HINT * 1e9 * call_s))
    match scenario:
        case "single-stream":
            found |= {"single_stream_expected_latency_ns": expected_ns}
            found |= {"single_stream_target_latency_percentile": 0.9}
        case "multi-stream":
            found |= {"multi_stream_expected_latency_ns": expected_ns}
            found |= {
                "multi_stream_target_latency_percentile": 0.99,
                "multi_stream_samples_per_query": STREAM,
            }
        case "server":
            assert target_per_s is not None and limit_s is not None
            found |= {"server_target_qps": target_per_s, "server_target_latency_ns": round(1e9 * limit_s)}
            found |= {"server_target_latency_percentile": 0.99}
        case "offline":
            found |= {"offline_expected_qps": MARGIN * samples_per_s}
    return found


def _drawn(seed: str, name: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{seed}/{name}".encode()).digest()[:6], "big")


def answering(
    cases: Sequence[PlannedCase], scenarios: Sequence[Scenario]
) -> tuple[list[tuple[PlannedCase, Scenario]], list[Skip]]:
    """Which case answers which scenario, and the others with the reason.

    A case computes whole batches. A stream that asks for one sample (or eight) is answered by the smallest
    batch that holds a query, else by the largest; server and offline fill a batch of any size.
    """
    pairs: list[tuple[PlannedCase, Scenario]] = []
    skips: dict[Skip, None] = {}
    for scenario in scenarios:
        asked = {"single-stream": 1, "multi-stream": STREAM}.get(scenario)
        for planned in cases:
            batch = planned.case.work.batch
            answers = (
                batch
                if asked is None
                else _answers([c.case.work.batch for c in _alike(cases, planned)], asked)
            )
            if batch == answers:
                pairs.append((planned, scenario))
            else:
                reason = f"it asks {asked} at a time: batch {answers} answers"
                skips[Skip(what=f"{scenario} at batch {batch}", reason=reason)] = None
    return pairs, list(skips)


def _answers(batches: Sequence[int], asked: int) -> int:
    return min((batch for batch in batches if batch >= asked), default=max(batches))


def _alike(cases: Sequence[PlannedCase], one: PlannedCase) -> list[PlannedCase]:
    """The cases that differ from this one in the batch alone."""

    def place(planned: PlannedCase) -> tuple[object, ...]:
        work = planned.case.work
        return (
            (work.model, work.data, work.seed, work.weights),
            planned.case.tuning,
            planned.case.device,
        )

    return [other for other in cases if place(other) == place(one)]
