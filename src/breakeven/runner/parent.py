"""A prepared parent: imports a runtime's modules once, then forks a fresh process for each attempt.

Knows nothing about studies or files. It runs no operation of the framework and never touches an accelerator,
so that every child starts as a fresh process would, minus the seconds of imports. It is a program of its own
(`python -m breakeven.runner.parent RUNTIME CONTROL_FD EVENT_FD RUNNER_PID`), so that its environment can
differ from the runner's and nothing of the runner's state leaks in. Requests come as JSON lines on stdin.
What became of a child goes out as JSON lines on CONTROL_FD, which no child has; EVENT_FD is the children's.
"""

import contextlib
import gc
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from breakeven import runtimes
from breakeven.runner import child
from breakeven.runner.isolate import MARK, die_with, kill_marked


def main(argv: list[str]) -> int:
    """Serves requests until stdin closes. Returns the exit status."""
    runtime, control_fd, event_fd, runner_pid = argv[0], *map(int, argv[1:4])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C belongs to the runner, which decides what to stop
    signal.signal(signal.SIGTERM, _end_all(os.getpid()))
    die_with(runner_pid, signal.SIGTERM)
    started = time.perf_counter_ns()
    missing = _preload(runtimes.load(runtime).PRELOAD)
    gc.freeze()  # a child that collects would walk, and copy, every object of the imports: 0.3 s with torch
    preload_ns = time.perf_counter_ns() - started
    child.emit(
        control_fd, {"event": "ready", "pid": os.getpid(), "preload_ns": preload_ns, "missing": missing}
    )
    for line in sys.stdin:
        _serve(json.loads(line), control_fd, event_fd, preload_ns)
    return 0


def _end_all(parent: int) -> Callable[[int, object], None]:
    """What SIGTERM does, which also tells of the runner's death: ends this process and all it started.

    A child inherits it for a moment, until it has its own: there it is the runner's wish to stop.
    """

    def on_signal(signum: int, frame: object) -> None:
        if os.getpid() != parent:
            child.ask_to_stop(signum, frame)
            return
        if mark := os.environ.get(MARK):
            kill_marked(mark, spare=parent)
        os._exit(1)

    return on_signal


def _preload(names: tuple[str, ...]) -> list[str]:
    """Imports what the runtime names; what is not installed is the child's to report, with the reason."""
    missing = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            missing.append(name)
    return missing


def _serve(request: dict[str, Any], control_fd: int, event_fd: int, preload_ns: int) -> None:
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setsid()  # a group of its own: killed whole, loader workers and all
            die_with(parent)
            os.close(control_fd)
            with open(os.devnull, "rb") as null:
                os.dup2(null.fileno(), 0)
            os.environ[child.EVENT_FD] = str(event_fd)
            request["preload_ns"] = preload_ns
            child.main(request, event_fd)
            status = 0
        finally:
            with contextlib.suppress(OSError):
                sys.stderr.flush()
            os._exit(status)
    child.emit(control_fd, {"event": "forked", "pid": pid})
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # loader workers that outlived the child
    kill_marked(os.environ.get(MARK, ""), spare=parent)  # and those that made a session of their own
    child.emit(control_fd, {"event": "exited", "pid": pid, "status": os.waitstatus_to_exitcode(status)})


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
