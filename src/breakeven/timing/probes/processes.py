"""Processes and CPU time as /proc counts them: this process's tree, and the busy time of the offered CPUs.

Knows nothing about thresholds.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from breakeven.timing.readings import SYSTEM, Null, known, read_text


@dataclass(frozen=True, kw_only=True, slots=True)
class CpuTimes:
    """Seconds since boot over a set of CPUs. `steal`: the hypervisor ran somebody else."""

    busy_s: float
    idle_s: float
    steal_s: float


def ticks_per_s() -> int:
    """The unit of /proc's CPU times, 100 a second on Linux as built (sysconf(3))."""
    return os.sysconf("SC_CLK_TCK")


def cpu_times(cpus: Iterable[int], root: Path = SYSTEM) -> CpuTimes | Null:
    """Times of the given CPUs from /proc/stat (proc_stat(5)), where user time holds guest time."""
    text = read_text(root / "proc/stat")
    if isinstance(text, Null):
        return text
    wanted = {f"cpu{cpu}" for cpu in cpus}
    busy = idle = steal = 0
    found = 0
    for line in text.splitlines():
        name, *rest = line.split()
        if name not in wanted:
            continue
        numbers = [int(word) for word in rest[:8]] + [0] * (8 - len(rest[:8]))
        user, nice, system, waiting, iowait, irq, softirq, stolen = numbers
        busy += user + nice + system + irq + softirq
        idle += waiting + iowait
        steal += stolen
        found += 1
    if found < len(wanted):
        return Null(reason=f"{root / 'proc/stat'} lists {found} of the {len(wanted)} offered CPUs")
    hz = ticks_per_s()
    return CpuTimes(busy_s=busy / hz, idle_s=idle / hz, steal_s=steal / hz)


def tree(root: Path = SYSTEM, pid: int | None = None) -> frozenset[int]:
    """The process and all its descendants that live now."""
    children: dict[int, list[int]] = {}
    for entry in _pids(root):
        fields = _stat(root, entry)
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(entry)
    todo = [os.getpid() if pid is None else pid]
    found: set[int] = set()
    while todo:
        this = todo.pop()
        if this not in found:
            found.add(this)
            todo.extend(children.get(this, ()))
    return frozenset(found)


def tree_cpu_s(root: Path = SYSTEM, pid: int | None = None) -> float | Null:
    """CPU time of the process and its descendants so far, ended and waited-for children included."""
    total = 0
    for member in tree(root, pid):
        fields = _stat(root, member)
        if fields is not None:
            total += sum(int(word) for word in fields[11:15])  # utime, stime, cutime, cstime
    if not total and _stat(root, os.getpid() if pid is None else pid) is None:
        return Null(reason=f"{root / 'proc'} does not list this process")
    return total / ticks_per_s()


def _pids(root: Path) -> list[int]:
    try:
        return [int(name) for name in os.listdir(root / "proc") if name.isdecimal()]
    except OSError:
        return []


def _stat(root: Path, pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat from the state on (field 3 is item 0): the name before may hold spaces."""
    text = known(read_text(root / "proc" / str(pid) / "stat"))
    if text is None or ")" not in text:
        return None
    fields = text[text.rindex(")") + 1 :].split()
    return fields if len(fields) >= 15 else None
