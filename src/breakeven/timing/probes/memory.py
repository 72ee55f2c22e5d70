"""Memory of the timed window: peaks of this process and its workers, use of the device.

Knows nothing about a framework's allocator: its own peaks come from the runtime.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from breakeven.timing.probes.nvml import Board, is_mig, used_mib
from breakeven.timing.probes.processes import tree
from breakeven.timing.readings import SYSTEM, Null, kib, read_pairs, told


class MemoryProbe:
    """Keys, all MiB:

    host_rss_peak_mib              peak resident memory of this process in the window
    host_rss_peak_since_start_mib  the same since the process began, where the peak cannot be reset
    workers_rss_peak_sum_mib       sum of the peaks of the child processes alive at the end: an upper bound,
                                   as peaks need not coincide and shared pages count in each
    device_used_mib                memory in use on the whole device at the end, by whomever
    device_used_delta_mib          that minus the use before this process touched the device (the baseline)

    `board` is None where the case runs on the CPU: the device's keys are left out.
    """

    name = "memory"

    def __init__(
        self,
        *,
        board: Board | Null | None,
        baseline_mib: float | Null,
        root: Path = SYSTEM,
        pid: int | None = None,
    ) -> None:
        self._board = board
        self._baseline_mib = baseline_mib
        self._root = root
        self._pid = os.getpid() if pid is None else pid
        self._reset = False

    def start(self) -> None:
        self._reset = reset_peak(self._root)

    def stop(self) -> Mapping[str, Any]:
        nulls: dict[str, str] = {}
        peak = told(peak_mib(self._root / "proc/self/status"), "host_rss_peak_mib", nulls)
        key = "host_rss_peak_mib" if self._reset or peak is None else "host_rss_peak_since_start_mib"
        if key != "host_rss_peak_mib":
            nulls["host_rss_peak_mib"] = "the kernel refused to reset the peak (/proc/self/clear_refs)"
        out: dict[str, Any] = {"host_rss_peak_mib": None, key: peak}
        out["workers_rss_peak_sum_mib"] = self._workers()
        if self._board is not None:
            out |= self._device(self._board, nulls)
        return out | {"nulls": nulls}

    def _device(self, board: Board | Null, nulls: dict[str, str]) -> dict[str, float | None]:
        used, base = device_mib(board), self._baseline_mib
        if isinstance(used, Null):
            delta: float | Null = used
        else:
            delta = base if isinstance(base, Null) else used - base
        return {
            "device_used_mib": told(used, "device_used_mib", nulls),
            "device_used_delta_mib": told(delta, "device_used_delta_mib", nulls),
        }

    def _workers(self) -> float:
        proc = self._root / "proc"
        children = tree(self._root, self._pid) - {self._pid}
        peaks = [peak_mib(proc / str(pid) / "status") for pid in children]
        return sum((peak for peak in peaks if not isinstance(peak, Null)), 0.0)


def peak_mib(status: Path) -> float | Null:
    """VmHWM, the peak of resident memory (proc_pid_status(5)), in MiB."""
    value = kib(read_pairs(status), "VmHWM")
    return value if isinstance(value, Null) else value / 1024


def reset_peak(root: Path = SYSTEM) -> bool:
    """Sets VmHWM to what is resident now (proc_pid_clear_refs(5), value 5); False where not permitted."""
    path = root / "proc/self/clear_refs"
    if not path.exists():  # a write would create a file in a planted tree, and tell of a success
        return False
    try:
        path.write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def device_mib(board: Board | Null) -> float | Null:
    """Memory in use on the device, Null where the sensor's scope is not this case's device."""
    if isinstance(board, Null):
        return board
    if is_mig(board):
        return Null(reason="MIG is on: NVML's memory is the whole GPU's, not the slice's")
    return used_mib(board)
