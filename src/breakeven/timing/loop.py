"""The one loop that times steps: cold step, warm-up, steady blocks; in training epoch boundaries; evaluation.

Knows nothing about frameworks, files or what the numbers mean; it calls a `Prepared` and reads a clock.

Warm-up lasts until two neighbouring windows of blocks agree, without a spike or a falling trend. A window has
up to ten blocks, fewer where blocks are slow, so that two of them take at most two thirds of its limit; with
fewer than three blocks a window no trend can be told, and agreement within 2 % is all there is. Steady blocks
are then added until the interval of their median is tight, or the time is used.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from statistics import median
from typing import Any

from breakeven.errors import Mismatch
from breakeven.records.lines import Block
from breakeven.runtimes import Evaluation, Prepared
from breakeven.stats import median_interval, steady
from breakeven.timing.clocks import Clock, both_timers, resolution_ns
from breakeven.timing.course import Course
from breakeven.timing.parts import Parts, split
from breakeven.timing.plan import BOUNDARY_SHARE, Plan, Progress, Tell, silent
from breakeven.timing.scoring import evaluated
from breakeven.timing.watching import Probe, watching

WINDOW = 10
"""Most blocks in a window of warm-up: a fall as large as the noise is significant in twice as many."""
TOLERANCE = 0.02
"""Least difference between two windows that counts as "not steady yet"."""
IDLE_NS = 500_000_000
"""After this long without work clocks fall, and one block is warmed again (contract R4)."""
MOST_OVERLAP = 0.05
"""Share of a block that its edges may have added without a flag."""
LEAST_BLOCKS = 3
"""Steady blocks measured even beyond the budget, unless a single step exceeds it."""
MAX_LOSSES = 5000
"""Losses kept of one sampling, the first ones: later steps of two devices cannot be compared anyway."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    """What one sampling found, raw. `blocks` holds warm-up, steady and boundary blocks in the order timed.

    `counters_moved`: by how much each counter that must stand still moved during the steady blocks.
    `memory_cold` was read after warm-up, `memory_warm` after the steady blocks with peaks restarted between.
    `probes` is what each probe reported. `clock_ns` is the clock's resolution, None where it showed none.
    `timers_ns`: one more block by the host's clock and by the device's own timer, where the device has one.
    `parts`: the parts of a step, or why they were not timed. `calls_ns`: single calls of inference, in order.
    """

    cold_ns: int
    blocks: tuple[Block, ...]
    eval_blocks: tuple[Block, ...] = ()
    evaluation: Evaluation | None = None
    losses: tuple[float, ...] = ()
    flags: tuple[str, ...] = ()
    counters_moved: Mapping[str, int] = field(default_factory=dict)
    memory_cold: Mapping[str, float] = field(default_factory=dict)
    memory_warm: Mapping[str, float] = field(default_factory=dict)
    probes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    clock_ns: int | None = None
    timers_ns: tuple[int, int] | None = None
    parts: Parts | str = "not timed"
    calls_ns: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Stream:
    """Steps one after the other, cold, warmed up and steady: what every sampling begins with.

    `settled`: warm-up found the steady state; `tight`: the blocks' median is. `losses`: those of warm-up.
    """

    course: Course
    cold_ns: int
    settled: bool
    tight: bool
    losses: tuple[float, ...]
    counters_moved: Mapping[str, int]
    memory_cold: Mapping[str, float]
    memory_warm: Mapping[str, float]
    probes: Mapping[str, Mapping[str, Any]]
    overlap_ns: float

    @property
    def flags(self) -> dict[str, bool]:
        block_ns = median(_steady_ns(self.course))
        return {
            "not_steady": not self.settled,
            "not_converged": not self.tight,
            "coarse_clock": bool(self.course.resolution) and block_ns < self.course.fine_ns,
            "short_block": self.overlap_ns > MOST_OVERLAP * block_ns,
        }


def sample_training(
    prepared: Prepared,
    plan: Plan,
    *,
    clock: Clock | None = None,
    watch: Mapping[str, Probe] | None = None,
    on_progress: Tell | None = None,
) -> Samples:
    """Samples the training steps of a prepared case, by `clock`, else the device's own, else the real one.

    Flags: `not_steady` (warm-up ended by its limit), `not_converged` (the budget or `max_blocks` did),
    `coarse_clock` (blocks shorter than 1000 resolutions), `short_block` (synchronising may have lengthened
    blocks by more than 5 %), `short_epoch` (blocks hold their epoch boundaries), `loss_not_finite` (losses
    end before the first such), `parts_disagree` (split steps took another time than whole ones). Raises
    Mismatch `invalid` for a clock that stands still or that the device's own timer contradicts, and whatever
    a step raises.
    """
    clock = clock or prepared.clock or time.perf_counter_ns
    tell = on_progress or silent
    stream = sample_stream(course_of(prepared, plan, clock), plan, watch=watch, tell=tell)
    course = stream.course
    timers_ns = timers(course)
    parts = split(course, plan.budget_ns, steady_step_ns(course))
    if plan.boundary and not course.wraps:
        _boundaries(course, plan, tell)
    losses = [*stream.losses, *prepared.losses()]
    eval_blocks, evaluation = evaluated(prepared, plan, clock, tell)
    finite = tuple(takewhile(math.isfinite, losses))
    flags = stream.flags | {
        "short_epoch": course.wraps,
        "loss_not_finite": len(finite) < len(losses),
        "parts_disagree": isinstance(parts, Parts) and parts.disagree,
    }
    return Samples(
        cold_ns=stream.cold_ns,
        blocks=tuple(course.blocks),
        eval_blocks=eval_blocks,
        evaluation=evaluation,
        losses=finite[:MAX_LOSSES],
        flags=tuple(flag for flag, holds in flags.items() if holds),
        counters_moved=stream.counters_moved,
        memory_cold=stream.memory_cold,
        memory_warm=stream.memory_warm,
        probes=stream.probes,
        clock_ns=course.resolution,
        timers_ns=timers_ns,
        parts=parts,
    )


def sample_stream(course: Course, plan: Plan, *, watch: Mapping[str, Probe] | None, tell: Tell) -> Stream:
    """The cold step, warm-up, and the steady blocks, which the probes watch."""
    prepared, clock = course.prepared, course.clock
    cold_ns = course.cold()
    start = clock()
    settled = _warm_up(course, plan, tell)
    memory_cold = dict(prepared.memory())
    losses = prepared.losses()
    prepared.reset_memory()
    idle_since = clock()
    with watching(watch or {}) as seen:
        if clock() - idle_since > IDLE_NS:
            course.block()
        course.warmup = False
        left = plan.steady_ns + plan.warmup_ns - (clock() - start)
        before = dict(prepared.counters())
        tight = _steady_blocks(course, plan, max(left, plan.steady_ns, 1e9 * plan.min_s), tell)
        after = dict(prepared.counters())
    return Stream(
        course=course,
        cold_ns=cold_ns,
        settled=settled,
        tight=tight,
        losses=losses,
        counters_moved=moved(before, after),
        memory_cold=memory_cold,
        memory_warm=dict(prepared.memory()),
        probes=seen,
        overlap_ns=course.overlap_ns,
    )


def timers(course: Course) -> tuple[int, int] | None:
    """One block more, by both timers; it is not recorded, as recording events may cost something."""
    prepared = course.prepared
    if prepared.device_span is None:
        return None

    def work() -> None:
        for _ in range(course.n_steps):
            prepared.step()

    course.begin_unrecorded(course.n_steps)
    return both_timers(course.clock, prepared.sync, prepared.device_span, work)


def course_of(prepared: Prepared, plan: Plan, clock: Clock, *, epochs: bool = True) -> Course:
    """The empty record of a sampling, its blocks bounded so that enough of them fit into the budget."""
    return Course(
        prepared=prepared,
        clock=clock,
        resolution=resolution_ns(clock),
        min_block_ns=plan.min_block_ns,
        # Doubling overshoots by up to two: with half its share each, `min_blocks` blocks fit into the budget.
        limit_ns=max(1, int(plan.steady_ns / (2 * plan.min_blocks))),
        max_blocks=plan.max_blocks,
        epochs=epochs,
    )


def _warm_up(course: Course, plan: Plan, tell: Tell) -> bool:
    """Warm-up blocks until the device is steady; False where time or half the records ran out first."""
    limit, start, spent = plan.warmup_ns, course.clock(), 0
    level: list[float] = []  # nanoseconds a step, of the blocks since the size last changed
    while True:
        block, before = course.block(), spent
        spent = course.clock() - start
        level.append(block.ns / block.n_steps)
        tell(Progress(phase="warm-up", step_ns=level[-1], done=min(1.0, spent / limit) if limit else 1.0))
        # An epoch's boundary may have come before this block.
        window = max(1, min(WINDOW, int(limit / (3 * max(1, spent - before)))))
        if course.resize(block, limit - spent + plan.steady_ns):
            level.clear()
        elif at_one_level(level, window):
            return True
        if spent + _expected_ns(course, block) > limit or course.slots < course.max_blocks // 2:
            return False


def at_one_level(level: list[float], window: int) -> bool:
    """`stats.steady` of the last two windows, at a tolerance no finer than the noise of the steps."""
    if len(level) < 2 * window:
        return False
    last = level[-2 * window :]
    middle = median(last)
    # 1.4826 times the median absolute deviation estimates a normal's standard deviation (Hampel 1974).
    spread = 1.4826 * median(abs(value - middle) for value in last) / middle if middle else 0.0
    return steady(last[:window], last[window:], max(TOLERANCE, spread))


def _expected_ns(course: Course, last: Block) -> float:
    return last.ns * course.n_steps / last.n_steps


def _steady_blocks(course: Course, plan: Plan, budget: float, tell: Tell) -> bool:
    """Blocks until their median is tight; False where the `budget` (ns) or the records ended first."""
    start = course.clock()
    times: list[float] = []
    while True:
        block = course.block()
        spent = course.clock() - start
        if not block.ns:
            raise Mismatch("invalid", f"{block.n_steps} steps took no time by this clock")
        times.append(block.ns / block.n_steps)
        half = _half_width(times, (course.resolution or 0) / block.ns)
        tight = len(times) >= plan.min_blocks and half is not None and half <= plan.tight
        # A half width shrinks with the square root of the number of blocks.
        share = 1.0 if tight else min(1.0, (plan.tight / half) ** 2) if half else 0.0
        done = min(1.0, max(spent / budget, share))
        tell(Progress(phase="steps", step_ns=median(times), relative_half_width=half, done=done))
        if tight and spent >= 1e9 * plan.min_s:
            return True
        course.resize(block, budget - spent)
        enough = len(times) >= (1 if times[-1] > budget else LEAST_BLOCKS)
        if course.slots < 1 or (enough and spent + _expected_ns(course, block) > budget):
            return tight


def _half_width(times: Sequence[float], quantum: float) -> float | None:
    """Relative half width of the median's interval, but no less than the clock's share of a block."""
    interval = median_interval(times)
    return None if interval is None else max(interval.relative_half_width, quantum)


def _boundaries(course: Course, plan: Plan, tell: Tell) -> None:
    """Two epoch boundaries in all, those met on the way included; one where a second would be slow."""
    have = sum(block.boundary and not block.warmup for block in course.blocks)
    for index in range(have, 2):
        block = course.boundary()
        tell(Progress(phase="boundary", done=(index + 1) / 2))
        if 2 * block.ns > BOUNDARY_SHARE * plan.budget_ns:
            return


def moved(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """By how much each counter changed, those that stood still left out."""
    changes = {name: after.get(name, 0) - before.get(name, 0) for name in {**before, **after}}
    return {name: change for name, change in changes.items() if change}


def _steady_ns(course: Course) -> list[int]:
    return [block.ns for block in course.blocks if not (block.warmup or block.boundary)]


def steady_step_ns(course: Course) -> float:
    """Median nanoseconds a step over the steady blocks."""
    return median(b.ns / b.n_steps for b in course.blocks if not (b.warmup or b.boundary))
