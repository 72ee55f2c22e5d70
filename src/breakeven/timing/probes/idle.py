"""What a GPU draws while nothing runs on it, from its energy counter.

Knows nothing about who asks. It is the draw of a board that no process holds: with a context open, an idle
board may draw more, and that part then counts as the work's.
"""

import time
from collections.abc import Callable
from pathlib import Path

from breakeven.timing.probes.contention import gpu_reasons, take_baseline
from breakeven.timing.probes.energy import GPU_PERIOD_NS, MIN_PERIODS, counter_delta_j
from breakeven.timing.probes.nvml import Board, is_mig
from breakeven.timing.readings import SYSTEM, Null

NOBODY: frozenset[int] = frozenset()


def idle_power_w(
    board: Board | Null,
    *,
    root: Path = SYSTEM,
    period_ns: int = GPU_PERIOD_NS,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], int] = time.perf_counter_ns,
) -> float | Null:
    """Watts over a little more than 20 update periods of the counter (2.1 s), as a window of work needs.

    Null with the reason where others use the board, where this process has opened it, or without a counter.
    """
    if isinstance(board, Null):
        return board
    if is_mig(board):
        return Null(reason="MIG is on: the energy counter is the whole GPU's, not the slice's")
    for reading in ((before := take_baseline(board, root, sleep)).busy_share, before.process_ids):
        if isinstance(reading, Null):
            return Null(reason=f"whether the GPU was idle is not known: {reading.reason}")
    first, start = board.ask("nvmlDeviceGetTotalEnergyConsumption"), clock()
    sleep((MIN_PERIODS + 1) * period_ns / 1e9)
    last, window_ns = board.ask("nvmlDeviceGetTotalEnergyConsumption"), clock() - start
    after = take_baseline(board, root, lambda _: None)
    # Nobody's process is ours: the one that asks holds nothing on the board.
    busy = [*gpu_reasons(before, after.process_ids, NOBODY), *gpu_reasons(after, after.process_ids, NOBODY)]
    if busy:
        return Null(reason="the GPU was not idle: " + "; ".join(dict.fromkeys(busy)))
    for reading in (first, last):
        if isinstance(reading, Null):
            return reading
    joules = counter_delta_j(first, last, window_ns, limit_w=None)
    return joules if isinstance(joules, Null) else joules / (window_ns / 1e9)
