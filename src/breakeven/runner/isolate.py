"""What keeps a process from outliving its runner and from disturbing the next one.

Knows nothing about cases or results.
"""

import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1  # prctl(2)

MARK = "BREAKEVEN_SEAT"
"""Environment variable that a prepared parent and all that descends from it carry, own sessions included."""

SWEEPS = 20
"""Most passes over the processes: one that forks faster than we look is given up, not chased for ever."""


def die_with(parent_pid: int, signum: int = signal.SIGKILL) -> None:
    """Asks the kernel to send `signum` to this process when its parent ends, however it ends (Linux).

    Elsewhere nothing is asked: the prepared parent still ends when its input closes. Exits at once if the
    parent is gone already, since the kernel only reports deaths that come after the call.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signum)
    if os.getppid() != parent_pid:
        os._exit(1)


def kill_group(pid: int) -> None:
    """Kills a process and all of its group; a group that is gone is no error."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


def kill_marked(mark: str, *, spare: int | None = None) -> None:
    """Kills every process that was started with MARK=`mark`, but not `spare` (Linux; elsewhere none).

    A process that made a session of its own is in no group that could be killed, but its environment tells.
    """
    for _ in range(SWEEPS):
        found = [pid for pid in _marked(f"{MARK}={mark}".encode()) if pid != spare]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


def _marked(entry: bytes, proc: Path = Path("/proc")) -> Iterator[int]:
    """Live processes with this entry in the environment they were started with. A zombie's is empty."""
    try:
        names = os.listdir(proc)
    except OSError:
        return
    for name in names:
        if name.isdecimal():
            with contextlib.suppress(OSError):
                if entry in (proc / name / "environ").read_bytes().split(b"\0"):
                    yield int(name)
