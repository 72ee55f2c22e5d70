"""The processor that a case runs on: its name, and the threads that it may use.

Knows nothing about frameworks.
"""

import os
import platform
import sys
from pathlib import Path

from breakeven.records.case import Case
from breakeven.runtimes import Place

MIB = 1024 * 1024


def threads_of(case: Case) -> int:
    """The tuning's threads; `auto`: as many as there are cores offered."""
    if isinstance(case.tuning.threads, int):
        return case.tuning.threads
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(cores, case.device.threads or cores)


def started_threads() -> int | None:
    """Threads of this process now, as the kernel lists them; None where it lists none."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else None


def cpu() -> Place:
    """The CPU with the host's memory."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / MIB
    return Place(label="cpu", name=cpu_name(), memory_mib=memory)


def cpu_name() -> str:
    """The processor's own name; platform.processor() is empty or an architecture on Linux."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(errors="replace").splitlines() if listing.exists() else []
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() == "model name" and value.strip():
            return value.strip()
    return platform.processor() or platform.machine()
