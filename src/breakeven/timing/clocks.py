"""The primitives that read a clock around user work.

Knows nothing about steps, blocks or epochs.
"""

import time
from collections.abc import Callable
from typing import TypeVar

from breakeven.errors import Mismatch

T = TypeVar("T")

Clock = Callable[[], int]
"""Nanoseconds from any fixed point; must never go back."""

TICKS, READS = 16, 1_000_000
"""How many ticks give the resolution, and after how many readings (about 50 ms) the search is given up."""

TIMER_SHARE, TIMER_NS = 0.01, 50_000
"""By how much the device's timer may exceed the host's: events on CUDA jitter by 10 to 30 us."""


def timed_ns(clock: Clock, sync: Callable[[], None], work: Callable[[], object]) -> int:
    """Nanoseconds that `work` takes, synchronised at both edges (contract R1).

    Nothing enqueued before counts; all that `work` enqueues does.
    """
    sync()
    start = clock()
    work()
    sync()
    return clock() - start


def both_timers(
    clock: Clock, sync: Callable[[], None], span: Callable[[Callable[[], object]], Callable[[], int]],
    work: Callable[[], object],
) -> tuple[int, int]:  # fmt: skip
    """Nanoseconds of one piece of work by the host's clock and by the device's own timer (contract R2).

    The host waits for all that the device does, so its time is the longer one. Raises Mismatch `invalid`
    where it is not: the synchronisation waits for something else, or a clock is wrong.
    """
    reads: list[Callable[[], int]] = []
    host_ns = timed_ns(clock, sync, lambda: reads.append(span(work)))
    device_ns = reads[0]()
    if device_ns > (1 + TIMER_SHARE) * host_ns + TIMER_NS:
        raise Mismatch(
            "invalid",
            f"timers disagree: the device was at work for {device_ns} ns, the host waited for {host_ns} ns",
        )
    return host_ns, device_ns


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
