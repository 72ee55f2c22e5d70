"""Where the time of a step goes: its parts timed apart, in steps of their own after the steady blocks.

Knows nothing about frameworks or what the shares mean. Steps are split in two ways: on a device that works
behind its host no single one says both where the host's time goes and how long each part takes by itself.

exposed   blocks as long as steady ones or longer, synchronised at their edges only, the clock read between
          parts. A part's time is the host's: what it computes, what it waits for, what it takes to enqueue
          the device's work. The wait at the block's end is the part `sync`: all parts add up to the step.
busy      the device is waited for after every part: a part's time is then that of host and device together,
          with nothing before or beside it. `enqueue` is the host's share of it, until the call returns. These
          parts need not add up to a step, in which the host runs ahead of the device.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

from breakeven.timing.course import Course

SHARE = 0.05
"""Share of an attempt's budget that either way aims at, on top of the budget."""
MOST_SHARE = 0.15
"""... and may take at most where steps are slow."""
LEAST_STEPS = 5
"""Steps of either way: fewer say nothing, for a loader's workers deliver in turn and a median needs some."""
MOST_STEPS = 50
"""Steps whose parts are waited for: more would not be tighter than steps differ by."""
BLOCKS = 3
"""Exposed blocks: few and long, so that each holds several turns of a loader's workers."""
AGREEMENT = 0.1
"""By how much a split step may differ from the steady one without the flag `parts_disagree`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """Milliseconds of each part of a step, by name, in order.

    `exposed_ms` is the mean over `steps` steps, those of the block of median length: its values add up to
    `step_ms`. `enqueue_ms` and `busy_ms` are medians over `busy_steps` steps. `disagree`: the split step is
    longer or shorter than the steady one by more than 10 %.
    """

    exposed_ms: Mapping[str, float]
    enqueue_ms: Mapping[str, float]
    busy_ms: Mapping[str, float]
    steps: int
    busy_steps: int
    step_ms: float
    disagree: bool = False


def split(course: Course, budget_ns: float, step_ns: float) -> Parts | str:
    """The parts of a step that takes `step_ns`, or why they were not timed: it is one piece, or too slow.

    The steps are no blocks of the record. A change of epochs that comes between is left out.
    """
    parts = course.prepared.parts
    if parts is None:
        return course.prepared.nulls.get("phases", "a step of this runtime is one piece")
    steps = max(LEAST_STEPS, int(SHARE * budget_ns / step_ns))
    if steps * step_ns > MOST_SHARE * budget_ns:
        seconds = LEAST_STEPS * step_ns / MOST_SHARE / 1e9
        return f"{LEAST_STEPS} steps take too long: parts need an attempt of {seconds:.3g} s"
    n = min(steps, max(course.n_steps, steps // BLOCKS))
    if not course.wraps:
        n = min(n, course.most_steps)
    # An odd number of blocks has one of median length; its parts belong together, unlike each part's median.
    count = BLOCKS if steps // n >= BLOCKS else 1
    blocks = sorted((_exposed(course, parts, n) for _ in range(count)), key=lambda block: sum(block.values()))
    exposed = {name: ns / n / 1e6 for name, ns in blocks[count // 2].items()}
    enqueue, busy = _busy(course, parts, min(steps, MOST_STEPS))
    step_ms = sum(exposed.values())
    return Parts(
        exposed_ms=exposed,
        enqueue_ms=enqueue,
        busy_ms=busy,
        steps=n,
        busy_steps=min(steps, MOST_STEPS),
        step_ms=step_ms,
        disagree=abs(1e6 * step_ms / step_ns - 1) > AGREEMENT,
    )


def _exposed(course: Course, parts: Mapping[str, Callable[[], None]], n: int) -> dict[str, int]:
    """Nanoseconds of each part over a block of `n` steps, and of the wait at its end."""
    course.begin_unrecorded(n)
    clock, sync = course.clock, course.prepared.sync
    calls, spent = list(enumerate(parts.values())), [0] * len(parts)
    sync()
    last = clock()
    for _ in range(n):
        for index, part in calls:
            part()
            now = clock()
            spent[index] += now - last
            last = now
    sync()
    return dict(zip(parts, spent, strict=True)) | {"sync": clock() - last}


def _busy(
    course: Course, parts: Mapping[str, Callable[[], None]], n: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Median milliseconds of each part alone, until its call returns and until the device is done."""
    clock, sync = course.clock, course.prepared.sync
    enqueue: dict[str, list[int]] = {name: [] for name in parts}
    busy: dict[str, list[int]] = {name: [] for name in parts}
    for _ in range(n):
        course.begin_unrecorded(1)
        sync()
        for name, part in parts.items():
            start = clock()
            part()
            returned = clock()
            sync()
            enqueue[name].append(returned - start)
            busy[name].append(clock() - start)
    return _medians_ms(enqueue), _medians_ms(busy)


def _medians_ms(times: Mapping[str, list[int]]) -> dict[str, float]:
    return {name: median(values) / 1e6 for name, values in times.items()}
