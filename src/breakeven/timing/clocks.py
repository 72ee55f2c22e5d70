"""The primitives that read a clock around user work.

Knows nothing about steps, blocks or epochs.
"""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

Clock = Callable[[], int]
"""Nanoseconds from any fixed point; must never go back."""

TICKS, READS = 16, 1_000_000
"""How many ticks give the resolution, and after how many readings (about 50 ms) the search is given up."""


def timed_ns(clock: Clock, sync: Callable[[], None], work: Callable[[], object]) -> int:
    """Nanoseconds that `work` takes, synchronised at both edges (contract R1).

    Nothing enqueued before counts; all that `work` enqueues does.
    """
    sync()
    start = clock()
    work()
    sync()
    return clock() - start


def elapsed(work: Callable[[], T], clock: Clock = time.perf_counter_ns) -> tuple[T, int]:
    """What `work` returns and the nanoseconds until it does; for work without a device to synchronise."""
    start = clock()
    value = work()
    return value, clock() - start


def resolution_ns(clock: Clock) -> int | None:
    """Smallest step of the clock that can be seen, the cost of reading it included.

    None for a clock that stands still while nothing happens, as a test's virtual clock does.
    """
    ticks: list[int] = []
    last = clock()
    for _ in range(READS):
        now = clock()
        if now != last:
            ticks.append(now - last)
            last = now
            if len(ticks) == TICKS:
                break
    return min(ticks, default=None)
