"""Who else used the device or the host: before the window, in it, and after it.

Knows nothing about what was timed. Every threshold is a constant here; passing one raises `contended`.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakeven.timing.cpu import affinity_ids, throttled_periods
from breakeven.timing.probes.nvml import Board, is_mig, process_ids, used_mib, utilisation
from breakeven.timing.probes.processes import CpuTimes, cpu_times, tree, tree_cpu_s
from breakeven.timing.readings import SYSTEM, Null, known, read_text, told

OTHER_CPU_SHARE = 0.10
"""Share of the offered cores' time that others may use; but at most one whole core (OTHER_CPU_CORES): a loop
that is split evenly over the threads waits for the one that has to share its core."""
OTHER_CPU_CORES = 1.0
STEAL_SHARE = 0.02
"""Share of the offered cores' time that the hypervisor may give to other guests."""
GPU_BUSY_SHARE = 0.05
"""Utilisation of the GPU before this process uses it. Above the few per mille that a desktop takes."""
GPU_USED_MIB = 1024.0
"""Device memory that others may hold before this process uses the device."""
SETTLE_S = 1.2
"""NVML averages utilisation over up to 1 s (nvml.h, nvmlUtilization_t): the case that ended just before is
still in it, so a busy reading counts only if it stays for this long."""
MIN_WINDOW_S = 0.2
"""/proc counts ticks of 10 ms: below 20 of them the share of others is not known to 5 %."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Baseline:
    """The GPU before this process touched it."""

    used_mib: float | Null
    busy_share: float | Null
    process_ids: frozenset[int] | Null


def take_baseline(
    board: Board | Null, root: Path = SYSTEM, sleep: Callable[[float], None] = time.sleep
) -> Baseline:
    """Reads the GPU's state. Waits up to SETTLE_S where it looks busy: the case before may still show."""
    missing: Null | None = None
    if isinstance(board, Null):
        missing = board
    elif is_mig(board):
        missing = Null(reason="MIG is on: NVML sees the whole GPU, not the slice")
    elif holds_gpu(root):
        missing = Null(reason="taken too late: this process had opened the GPU already")
    if missing is not None or isinstance(board, Null):
        null = missing or Null(reason="no GPU")
        return Baseline(used_mib=null, busy_share=null, process_ids=null)
    waited = 0.0
    while True:
        now = Baseline(
            used_mib=used_mib(board), busy_share=utilisation(board), process_ids=process_ids(board)
        )
        if waited >= SETTLE_S or not _looks_busy(now):
            return now
        sleep(0.1)
        waited += 0.1


def _looks_busy(now: Baseline) -> bool:
    return _above(now.busy_share, GPU_BUSY_SHARE) or _above(now.used_mib, GPU_USED_MIB)


def _above(reading: float | Null | None, limit: float) -> bool:
    return reading is not None and not isinstance(reading, Null) and reading > limit


def holds_gpu(root: Path = SYSTEM) -> bool:
    """Whether this process has a CUDA context: it then maps /dev/nvidia-uvm.

    NVML maps /dev/nvidiactl only, and counting CUDA devices /dev/nvidia0 (tried: driver 580 on an H200). That
    the file is open says nothing: NVML opens it as well.
    """
    return "/dev/nvidia-uvm" in (known(read_text(root / "proc/self/maps")) or "")


def gpu_reasons(baseline: Baseline, after: frozenset[int] | Null, own: frozenset[int]) -> list[str]:
    """Why the GPU was shared, one line each; empty if nothing says so."""
    reasons = []
    busy, used = baseline.busy_share, baseline.used_mib
    if not isinstance(busy, Null) and busy > GPU_BUSY_SHARE:
        reasons.append(f"the GPU was {busy:.0%} busy before this process used it")
    if not isinstance(used, Null) and used > GPU_USED_MIB:
        reasons.append(f"others held {used:.0f} MiB of the GPU before this process used it")
    before = frozenset() if isinstance(baseline.process_ids, Null) else baseline.process_ids - own
    if before:
        reasons.append(f"{len(before)} other processes computed on the GPU before the window")
    if not isinstance(after, Null) and not isinstance(baseline.process_ids, Null):
        began = newcomers(before, after, own)
        if began > 0:
            reasons.append(f"{began} other processes began to compute on the GPU in the window")
    return reasons


def newcomers(before: frozenset[int], after: frozenset[int], own: frozenset[int]) -> int:
    """Processes of others on the GPU that were not there before.

    In a container our id is listed as the host knows it: where ours is not seen, one unknown may be us.
    """
    return max(0, len(after - own - before) - (0 if after & own else 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Verdict:
    """What the probe returns, and the reasons apart by where the contention is."""

    keys: dict[str, Any]
    host: tuple[str, ...]
    gpu: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Host:
    """Counters of the host at one moment."""

    ns: int
    cpu: CpuTimes | Null
    own_s: float | Null
    throttled: int | Null


class ContentionProbe:
    """Keys:

    window_s               between start and stop of this probe
    other_cpu_cores        mean number of offered cores that other processes kept busy
    other_cpu_share        that over the number of offered cores
    steal_share            share of the offered cores' time that the hypervisor took
    throttled_periods      how often a cgroup quota stopped this process in the window
    gpu_busy_share_before, gpu_used_before_mib, gpu_processes_before, gpu_processes_after (GPU cases only)
    flags, reasons         `contended` with what was passed

    `reasons_now` answers between start and stop too: the energy probe refuses to attribute then.
    """

    name = "contention"

    def __init__(
        self,
        *,
        board: Board | Null | None,
        baseline: Baseline | None,
        root: Path = SYSTEM,
        cpus: Iterable[int] | None = None,
        clock: Callable[[], int] = time.perf_counter_ns,
        pid: int | None = None,
    ) -> None:
        self._board = board
        self._baseline = baseline
        self._root = root
        self._given = None if cpus is None else tuple(cpus)
        self._cpus: tuple[int, ...] = ()
        self._clock = clock
        self._pid = os.getpid() if pid is None else pid
        self._start: _Host | None = None
        self._final: _Verdict | None = None

    def start(self) -> None:
        # Read now, not when built: the child may have pinned itself meanwhile.
        self._cpus = affinity_ids() if self._given is None else self._given
        self._final = None
        self._start = self._host()

    def stop(self) -> Mapping[str, Any]:
        self._final = self._measure()
        return self._final.keys

    def reasons_now(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """(reasons on the host, reasons on the GPU) so far, or of the whole window once it is over."""
        seen = self._measure() if self._final is None else self._final
        return seen.host, seen.gpu

    def _host(self) -> _Host:
        return _Host(
            ns=self._clock(),
            cpu=cpu_times(self._cpus, self._root),
            own_s=tree_cpu_s(self._root, self._pid),
            throttled=throttled_periods(self._root),
        )

    def _measure(self) -> _Verdict:
        nulls: dict[str, str] = {}
        host: list[str] = []
        out: dict[str, Any] = {}
        if self._start is None:
            out["window_s"], nulls["window_s"] = None, "the probe was not started"
        else:
            out, host = _host_between(self._start, self._host(), len(self._cpus), nulls)
        gpu: list[str] = []
        if self._board is not None and self._baseline is not None:
            own = tree(self._root, self._pid)
            after = self._board if isinstance(self._board, Null) else process_ids(self._board)
            gpu = gpu_reasons(self._baseline, after, own)
            out |= _gpu_keys(self._baseline, after, own, nulls)
        reasons = {"contended": "; ".join([*host, *gpu])} if host or gpu else {}
        keys = out | {"flags": sorted(reasons), "reasons": reasons, "nulls": nulls}
        return _Verdict(keys=keys, host=tuple(host), gpu=tuple(gpu))


def _gpu_keys(
    baseline: Baseline, after: frozenset[int] | Null, own: frozenset[int], nulls: dict[str, str]
) -> dict[str, Any]:
    before = told(baseline.process_ids, "gpu_processes_before", nulls)
    now = told(after, "gpu_processes_after", nulls)
    known_before = (before or frozenset()) - own
    return {
        "gpu_busy_share_before": told(baseline.busy_share, "gpu_busy_share_before", nulls),
        "gpu_used_before_mib": told(baseline.used_mib, "gpu_used_before_mib", nulls),
        "gpu_processes_before": None if before is None else len(before - own),
        "gpu_processes_after": (
            None if now is None else len(now & known_before) + newcomers(known_before, now, own)
        ),
    }


def _host_between(a: _Host, b: _Host, cores: int, nulls: dict[str, str]) -> tuple[dict[str, Any], list[str]]:
    window_s = (b.ns - a.ns) / 1e9
    others = told(_others(a, b, cores, window_s), "other_cpu_cores", nulls)
    steal = told(_steal(a, b, cores, window_s), "steal_share", nulls)
    quota: int | Null
    if isinstance(a.throttled, Null) or isinstance(b.throttled, Null):
        quota = a.throttled if isinstance(a.throttled, Null) else Null(reason="unreadable at the end")
    else:
        quota = b.throttled - a.throttled
    periods = told(quota, "throttled_periods", nulls)
    reasons = []
    if others is not None and others > min(OTHER_CPU_SHARE * cores, OTHER_CPU_CORES):
        reasons.append(f"other processes kept {others:.1f} of the {cores} offered CPUs busy")
    if steal is not None and steal > STEAL_SHARE:
        reasons.append(f"the hypervisor took {steal:.0%} of the CPU time")
    if periods:
        reasons.append(f"the cgroup's CPU quota stopped this process in {periods} periods")
    if others is None:
        nulls["other_cpu_share"] = nulls["other_cpu_cores"]
    return {
        "window_s": window_s,
        "other_cpu_cores": others,
        "other_cpu_share": None if others is None else others / cores,
        "steal_share": steal,
        "throttled_periods": periods,
    }, reasons


def _counted(a: _Host, b: _Host, cores: int, window_s: float) -> tuple[CpuTimes, CpuTimes] | Null:
    """Both ends, where the kernel's CPU times can be trusted over this window."""
    if isinstance(a.cpu, Null):
        return a.cpu
    if isinstance(b.cpu, Null):
        return b.cpu
    if window_s < MIN_WINDOW_S:
        return Null(
            reason=f"window {window_s * 1e3:.0f} ms < {MIN_WINDOW_S * 1e3:.0f} ms (20 ticks of /proc)"
        )
    total = sum((b.cpu.busy_s - a.cpu.busy_s, b.cpu.idle_s - a.cpu.idle_s, b.cpu.steal_s - a.cpu.steal_s))
    # A sandbox may show a /proc/stat that stands still.
    if not 0.5 < total / (window_s * cores) < 2:
        return Null(reason=f"/proc/stat counted {total:.1f} s in {window_s * cores:.1f} s of CPU time")
    return a.cpu, b.cpu


def _others(a: _Host, b: _Host, cores: int, window_s: float) -> float | Null:
    counted = _counted(a, b, cores, window_s)
    if isinstance(counted, Null):
        return counted
    if isinstance(a.own_s, Null):
        return a.own_s
    if isinstance(b.own_s, Null):
        return b.own_s
    # Own time is exact, busy time is sampled by ticks: a difference below nought is their disagreement.
    others_s = counted[1].busy_s - counted[0].busy_s - (b.own_s - a.own_s)
    return max(0.0, others_s / window_s)


def _steal(a: _Host, b: _Host, cores: int, window_s: float) -> float | Null:
    counted = _counted(a, b, cores, window_s)
    if isinstance(counted, Null):
        return counted
    return (counted[1].steal_s - counted[0].steal_s) / (window_s * cores)
