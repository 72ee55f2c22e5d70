"""A few steady steps of a prepared case under its framework's profiler, and the same steps without it.

Knows nothing about profilers. The steps are warmed up by the loop that times all others; how long they take
under the profiler says how far its own cost distorts what it shows.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from breakeven.errors import Mismatch, Unsupported
from breakeven.records.lines import Block
from breakeven.runtimes import Prepared, Profile
from breakeven.timing.clocks import Clock, timed_ns
from breakeven.timing.loop import course_of, moved, sample_stream, steady_step_ns
from breakeven.timing.plan import Plan, Tell, silent

LEAST_STEPS, MOST_STEPS = 2, 10
"""Steps under the profiler: a trace of ten of ResNet152 has 100,000 events, about 5 MB gzipped."""
TARGET_NS = 1_000_000_000
"""... and about so long in all, where steps are slow."""
WARM_STEPS = 1
"""What a runtime may take before, for the profiler's own start."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Profiled:
    """`n_steps` steps took `ns` under the profiler, and `plain_ns` without it right before and right after.

    `blocks`: those that came first, warm-up included.
    """

    blocks: tuple[Block, ...]
    n_steps: int
    ns: int
    plain_ns: tuple[int, int]
    found: Profile


def profile_steps(
    prepared: Prepared,
    trace: Path,
    *,
    budget_s: float,
    epochs: bool = True,
    clock: Clock | None = None,
    tell: Tell | None = None,
) -> Profiled:
    """Warms up for about `budget_s` seconds, then profiles a few steps; the trace goes to `trace`.

    Raises Unsupported without a profiler, Mismatch `invalid` where something was compiled under it or the
    runtime did not drive its steps exactly once, and whatever a step raises.
    """
    if prepared.profile is None:
        raise Unsupported(prepared.nulls.get("profile", "this runtime has no profiler"))
    clock = clock or prepared.clock or time.perf_counter_ns
    plan = Plan(budget_s=budget_s, eval_s=0.0, calls_s=0.0, boundary=False)
    course = course_of(prepared, plan, clock, epochs=epochs)
    sample_stream(course, plan, watch=None, tell=tell or silent)
    n = max(LEAST_STEPS, min(MOST_STEPS, int(TARGET_NS / steady_step_ns(course))))
    if not course.wraps:
        n = max(1, min(n, course.most_steps - WARM_STEPS))
    walls: list[int] = []

    def drive(step: Callable[[], None]) -> None:
        def work() -> None:
            for _ in range(n):
                step()

        walls.append(timed_ns(clock, prepared.sync, work))

    def plain() -> int:
        course.begin_unrecorded(n + WARM_STEPS)
        prepared.step()  # the profiler's own work came between
        drive(prepared.step)
        return walls.pop()

    before, counted = plain(), dict(prepared.counters())
    course.begin_unrecorded(n + WARM_STEPS)
    found = prepared.profile(drive, trace)
    _require(walls, moved(counted, prepared.counters()))
    ns = walls.pop()
    return Profiled(blocks=tuple(course.blocks), n_steps=n, ns=ns, plain_ns=(before, plain()), found=found)


def _require(walls: list[int], changed: Mapping[str, int]) -> None:
    if len(walls) != 1:
        raise Mismatch("invalid", f"the profiled steps ran {len(walls)} times, not once")
    if changed:
        raise Mismatch("invalid", f"compiled or retraced under the profiler: {', '.join(changed)}")
