"""What a simulated device does wrong on request, so that every way a run can end is tested.

Knows nothing about steps or time; the caller says when.
"""

import json
import os
import signal
import subprocess
import sys
import time

FLOOD_LINES, FLOOD_LINE = 500_000, "x" * 99
"""50 MB: far more than a pipe holds (64 KiB), so whoever does not drain it hangs the process."""
HUGE = 20_000_000
"""Bytes without a newline: more than any event has."""
GARBAGE = (
    b'\xff\x00 not an event {"event": \n'
    b'[]\n7\nnull\n{"event": 5}\n{"event": "exited"}\n{"event": "forked", "pid": "x"}\n{"event": "result"}\n'
    b'{"event": "result", "result": {"outcome": "ok", "flags": 7}}\n'
    b'{"event": "progress", "phase": [1], "step_ns": "fast", "relative_half_width": NaN, "done": {}}\n'
    + b"[" * 100_000
    + b"\n"
)
FORGED = (
    {"event": "exited", "pid": 1, "status": 0},
    {"event": "forked", "pid": 0},
    {"event": "result", "result": {"outcome": "ok", "region": "train_step", "cold_ns": 1}},
)
EAT_MIB, BITE_MIB = 256, 16
"""How much more address space a process gets before it eats, and how much it takes at a time."""
LONG_S = 3600


def strike(fault: str) -> None:
    """Does what `fault` says.

    `hang` and `stubborn` never return, `kill` and `silent` end the process, `error` raises RuntimeError,
    `oom` and `eat` (up to a real limit) MemoryError; `garbage`, `forge` and `flood` return. `slow` and
    `mismatch` are no acts: the training knows them.
    """
    acts = {"stubborn": _resist, "eat": _eat, "garbage": _babble, "forge": _forge, "flood": _flood}
    match fault:
        case "hang":
            time.sleep(LONG_S)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "silent":
            os._exit(0)
        case "error":
            raise RuntimeError("simulated failure: planted by the option fault=error")
        case "oom":
            raise MemoryError("simulated out of memory: planted by the option fault=oom")
        case _ if fault in acts:
            acts[fault]()


def _resist() -> None:
    """Hangs, deaf to SIGTERM, with a process in a session of its own that is deaf as well."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    subprocess.Popen(["sleep", str(LONG_S)], start_new_session=True)
    time.sleep(LONG_S)


def _eat() -> None:
    """Takes memory until the kernel refuses more."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", "rb") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + EAT_MIB * 2**20, hard))
    eaten = []
    try:
        while True:
            eaten.append(bytearray(BITE_MIB * 2**20))
    finally:
        eaten.clear()
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _babble() -> None:
    """Garbage of every kind, onto the channel for events; the last of it has no newline and half a result."""
    for data in (GARBAGE, b"x" * HUGE, b'\n{"event": "result", "result": {"outcome": "ok"'):
        _report(data)


def _forge() -> None:
    """A process in a session of its own reports in this one's name, and stays."""
    data = b"".join(json.dumps(event).encode() + b"\n" for event in FORGED)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        _report(data)
        time.sleep(LONG_S)
        os._exit(0)
    time.sleep(0.2)


def _flood() -> None:
    for _ in range(FLOOD_LINES):
        sys.stderr.write(FLOOD_LINE + "\n")


def _report(data: bytes) -> None:
    descriptor = os.environ.get("BREAKEVEN_EVENT_FD", "")
    if descriptor.isdecimal():
        while data:
            data = data[os.write(int(descriptor), data) :]
