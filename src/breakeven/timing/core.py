"""How fast one core runs the interpreter: what a step that waits for launches depends on (contract R20).

Knows nothing about the case. A GPU's name says nothing of the host that feeds it: two hosts of one CPU model
differ by their clock, their governor and their neighbours.
"""

import time

from breakeven.timing.clocks import Clock, elapsed

TURNS, ROUNDS = 20_000, 7
"""About 1 ms a round on a fast core, 3 ms on a slow one."""


def core_loop_ns(clock: Clock = time.perf_counter_ns) -> float | None:
    """Nanoseconds a turn of a fixed loop in this interpreter on the core that this thread is on.

    The fastest of the rounds: what the core can do, not what others left of it. It compares hosts with the
    same Python only. None for a clock too coarse to see a round. Takes about 10 ms: call it outside anything
    timed.
    """
    fastest = min(elapsed(_turns, clock)[1] for _ in range(ROUNDS))
    return fastest / TURNS if fastest > 0 else None


def _turns() -> int:
    value = 1
    for _ in range(TURNS):
        value = (value * 1103515245 + 12345) & 0x7FFFFFFF  # small integers: no memory is waited for
    return value
