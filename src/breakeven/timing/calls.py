"""Inference: latency of single calls and speed of a stream of them, neither derived from the other.

Knows nothing about what a call computes, nor about percentiles: it hands over raw nanoseconds. Single calls
are measured in a closed loop with one caller: each begins when the one before has ended, so nothing queues.
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
    WINDOW,
    Samples,
    at_one_level,
    course_of,
    moved,
    sample_stream,
    steady_step_ns,
    timers,
)
from breakeven.timing.plan import MOST_CALLS, WARMUP_SHARE, Plan, Progress, Tell, silent
from breakeven.timing.scoring import evaluated
from breakeven.timing.watching import Probe


@dataclass(frozen=True, kw_only=True, slots=True)
class Calls:
    """Latencies of one process, raw and in order; each call alone between two synchronisations.

    `warmup` calls came before the first that is kept; `cold_ns` is the one before them all, None where a
    stream had come before.
    """

    cold_ns: int | None
    ns: tuple[int, ...]
    warmup: int
    flags: tuple[str, ...] = ()
    counters_moved: Mapping[str, int] = field(default_factory=dict)
    clock_ns: int | None = None


def sample_inference(
    prepared: Prepared,
    plan: Plan,
    *,
    clock: Clock | None = None,
    watch: Mapping[str, Probe] | None = None,
    on_progress: Tell | None = None,
) -> Samples:
    """Samples a prepared inference by the loop that times training: a stream of calls, then single calls.

    The blocks hold calls enqueued one after the other and synchronised at a block's edges only; there are no
    epochs, so no boundary. Single calls follow, as many as the plan allows and one at least, then
    part of an evaluation. Flags: those of a stream (see `sample_training`) and of `sample_calls`. Raises
    Mismatch `invalid` for a clock that stands still, and whatever a call raises.
    """
    clock = clock or prepared.clock or time.perf_counter_ns
    tell = on_progress or silent
    streamed = dataclasses.replace(plan, budget_s=(plan.budget_ns - plan.calls_ns) / 1e9)
    stream = sample_stream(
        course_of(prepared, streamed, clock, epochs=False), streamed, watch=watch, tell=tell
    )
    course = stream.course
    timers_ns = timers(course)
    calls = None
    if plan.calls_ns:
        step_ns = steady_step_ns(course)
        calls = _calls(prepared, plan.calls_ns, plan.most_calls, clock, course.resolution, step_ns, tell)
    eval_blocks, evaluation = evaluated(prepared, streamed, clock, tell)
    flags = [flag for flag, holds in stream.flags.items() if holds]
    return Samples(
        cold_ns=stream.cold_ns,
        blocks=tuple(course.blocks),
        eval_blocks=eval_blocks,
        evaluation=evaluation,
        flags=tuple(dict.fromkeys([*flags, *(calls.flags if calls else ())])),
        counters_moved=_total(stream.counters_moved, calls.counters_moved if calls else {}),
        memory_cold=stream.memory_cold,
        memory_warm=stream.memory_warm,
        probes=stream.probes,
        clock_ns=course.resolution,
        timers_ns=timers_ns,
        parts="a call is one piece",
        calls_ns=calls.ns if calls else (),
    )


def sample_calls(
    prepared: Prepared, *, budget_s: float, calls: int = MOST_CALLS, clock: Clock | None = None
) -> Calls:
    """Latency of single calls alone: at most `calls` of them, in at most `budget_s` seconds after the first.

    Flags: `not_steady` (warm-up ended by its limit, 40 % of the budget), `coarse_clock` (a call is shorter
    than 1000 resolutions). Raises Mismatch `invalid` for a clock that stands still, ValueError for a budget
    or a number of calls that allows for nothing or for more than MOST_CALLS.
    """
    if not (budget_s > 0 and 1 <= calls <= MOST_CALLS):
        raise ValueError(f"a positive budget and 1 to {MOST_CALLS} calls, not {budget_s} s and {calls}")
    clock = clock or prepared.clock or time.perf_counter_ns
    resolution = resolution_ns(clock)
    cold_ns = timed_ns(clock, prepared.sync, prepared.step)
    found = _calls(prepared, 1e9 * budget_s, calls, clock, resolution, 0.0, silent)
    return dataclasses.replace(found, cold_ns=cold_ns)


def _calls(
    prepared: Prepared,
    budget_ns: float,
    most: int,
    clock: Clock,
    resolution: int | None,
    step_ns: float,
    tell: Tell,
) -> Calls:
    """Single calls, warmed up as such: a caller that waits leaves the device idle between them.

    `step_ns` is what one will take, as far as is known: none is begun that would not end in time, but one is
    kept whatever it takes.
    """
    start = clock()
    warm: list[float] = []
    steady = False
    while not steady and len(warm) < MOST_CALLS and clock() - start + step_ns < WARMUP_SHARE * budget_ns:
        warm.append(timed_ns(clock, prepared.sync, prepared.step))
        steady = at_one_level(warm, WINDOW)
    tell(Progress(phase="calls"))
    before = dict(prepared.counters())
    kept: list[int] = []
    while not kept or (len(kept) < most and clock() - start + step_ns < budget_ns):
        kept.append(timed_ns(clock, prepared.sync, prepared.step))
    after = dict(prepared.counters())
    if not any(kept):
        raise Mismatch("invalid", f"the clock stands still: {len(kept)} calls took no time by it")
    tell(Progress(phase="calls", done=1.0))
    coarse = resolution is not None and median(kept) < RESOLUTIONS * resolution
    flags = {"not_steady": not steady, "coarse_clock": coarse}
    return Calls(
        cold_ns=None,
        ns=tuple(kept),
        warmup=len(warm),
        flags=tuple(flag for flag, holds in flags.items() if holds),
        counters_moved=moved(before, after),
        clock_ns=resolution,
    )


def _total(*moves: Mapping[str, int]) -> dict[str, int]:
    return {name: sum(found.get(name, 0) for found in moves) for found in moves for name in found}
