"""What keeps a process from outliving its runner and from disturbing the next one.

Knows nothing about cases or results.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1  # prctl(2)


def die_with(parent_pid: int) -> None:
    """Asks the kernel to kill this process when its parent ends, however the parent ends (Linux).

    Elsewhere nothing is asked: the prepared parent still ends when its input closes. Exits at once if the
    parent is gone already, since the kernel only reports deaths that come after the call.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(1)


def kill_group(pid: int) -> None:
    """Kills a process and all of its group; a group that is gone is no error."""
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        except PermissionError:
            continue
