"""Latency of single calls and speed of a stream of them: two measurements, neither derived from the other.

Knows nothing about what a call computes, nor about percentiles: it hands over raw nanoseconds.
"""

import dataclasses
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median

from breakeven.errors import Mismatch
from breakeven.runtimes import Prepared
from breakeven.timing.clocks import Clock, resolution_ns, timed_ns
from breakeven.timing.course import RESOLUTIONS
from breakeven.timing.loop import (
    WARMUP_SHARE,
    WINDOW,
    Plan,
    Samples,
    Tell,
    at_one_level,
    moved,
    sample_training,
)
from breakeven.timing.watching import Probe

MOST_CALLS = 5000
"""Latencies kept of one process: p99.9 takes 2,995 of them, and a line of results stays below 100 KB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """Latencies of one process, raw and in order; each call alone between two synchronisations.

    `warmup` calls came between the first (`cold_ns`) and the first that is kept.
    """

    cold_ns: int
    ns: tuple[int, ...]
    warmup: int
    flags: tuple[str, ...] = ()
    counters_moved: Mapping[str, int] = field(default_factory=dict)
    clock_ns: int | None = None


def sample_calls(
    prepared: Prepared, *, budget_s: float, calls: int = MOST_CALLS, clock: Clock | None = None
) -> Calls:
    """Latency of single calls: at most `calls` of them, in at most `budget_s` seconds after the first.

    Flags: `not_steady` (warm-up ended by its limit, 40 % of the budget), `coarse_clock` (a call is shorter
    than 1000 resolutions). Raises Mismatch `invalid` for a clock that stands still, ValueError for a budget
    or a number of calls that allows for nothing or for more than MOST_CALLS.
    """
    if not (budget_s > 0 and 1 <= calls <= MOST_CALLS):
        raise ValueError(f"a positive budget and 1 to {MOST_CALLS} calls, not {budget_s} s and {calls}")
    clock = clock or prepared.clock or time.perf_counter_ns
    resolution = resolution_ns(clock)
    cold_ns = timed_ns(clock, prepared.sync, prepared.step)
    start = clock()
    warm: list[float] = []
    steady = False
    while not steady and len(warm) < MOST_CALLS and clock() - start < 1e9 * WARMUP_SHARE * budget_s:
        warm.append(timed_ns(clock, prepared.sync, prepared.step))
        steady = at_one_level(warm, WINDOW)
    before = dict(prepared.counters())
    kept: list[int] = []
    while not kept or (len(kept) < calls and clock() - start < 1e9 * budget_s):
        kept.append(timed_ns(clock, prepared.sync, prepared.step))
    after = dict(prepared.counters())
    if not any(kept):
        raise Mismatch("invalid", f"the clock stands still: {len(kept)} calls took no time by it")
    coarse = resolution is not None and median(kept) < RESOLUTIONS * resolution
    flags = {"not_steady": not steady, "coarse_clock": coarse}
    return Calls(
        cold_ns=cold_ns,
        ns=tuple(kept),
        warmup=len(warm),
        flags=tuple(flag for flag, holds in flags.items() if holds),
        counters_moved=moved(before, after),
        clock_ns=resolution,
    )


def sample_stream(
    prepared: Prepared,
    plan: Plan,
    *,
    clock: Clock | None = None,
    watch: Mapping[str, Probe] | None = None,
    on_progress: Tell | None = None,
) -> Samples:
    """Speed of calls enqueued one after the other: blocks of many, synchronised once at either edge.

    By the loop that times training, without boundaries and evaluation.
    """
    plain = dataclasses.replace(plan, boundary=False, eval_s=0.0)
    return sample_training(prepared, plain, clock=clock, watch=watch, on_progress=on_progress)
