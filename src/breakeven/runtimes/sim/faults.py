"""What a simulated device does wrong on request, so that every way a run can end is tested.

Knows nothing about steps or time; the caller says when.
"""

import os
import signal
import sys
import time

FLOOD_LINES, FLOOD_LINE = 50_000, "x" * 99
"""5 MB: far more than a pipe holds (64 KiB), so whoever does not drain it hangs the process."""
GARBAGE = b'\xff\x00 not an event {"event": \n'


def strike(fault: str) -> None:
    """Does what `fault` says: hang, kill, error, garbage, silent, oom or flood.

    `hang` never returns, `kill` and `silent` end the process, `error` raises RuntimeError, `oom` MemoryError;
    the others return. `slow` and `mismatch` are no acts: the training knows them.
    """
    match fault:
        case "hang":
            while True:
                time.sleep(3600)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "silent":
            os._exit(0)
        case "error":
            raise RuntimeError("simulated failure: planted by the option fault=error")
        case "oom":
            raise MemoryError("simulated out of memory: planted by the option fault=oom")
        case "garbage":
            _write_garbage()
        case "flood":
            for _ in range(FLOOD_LINES):
                sys.stderr.write(FLOOD_LINE + "\n")


def _write_garbage() -> None:
    """Onto the channel on which this process reports its events, if it has one."""
    descriptor = os.environ.get("BREAKEVEN_EVENT_FD", "")
    if descriptor.isdecimal():
        os.write(int(descriptor), GARBAGE)
