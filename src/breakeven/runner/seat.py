"""The runner's end of one prepared parent: send a request, read events, keep the time, tell deaths apart.

Knows nothing about studies or what a result means. The name: a place where attempts sit, one at a time.
"""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from breakeven.runner.isolate import kill_group

STDERR_KEPT = 64 * 1024  # bytes of a child's last words; the rest of a flood is read and dropped
LINE_LIMIT = 64 * 1024 * 1024  # bytes; an event line beyond this is garbage
READY_S = 120.0  # seconds a parent may take for its imports; a cold disk reads a framework in well under this

OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(slots=True)
class Seat:
    """One live prepared parent. `id` is random: replicates of a case must name different parents."""

    process: "subprocess.Popen[bytes]"
    events: int
    id: str
    buffer: bytearray = field(default_factory=bytearray)
    words: bytearray = field(default_factory=bytearray)
    child: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How an attempt ended: its `result` if it sent one, else the outcome and reason that the runner saw."""

    result: Mapping[str, Any] | None
    outcome: str | None = None
    reason: str | None = None
    last_words: str = ""


def open_seat(runtime: str, env: Mapping[str, str]) -> Seat:
    """Starts a prepared parent for `runtime` with `env` added to this environment (set before any import)."""
    read_end, write_end = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-m", "breakeven.runner.parent", runtime, str(write_end), str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=(write_end,),
        env={**os.environ, **env},
        start_new_session=True,  # the terminal's Ctrl-C goes to the runner alone
    )
    os.close(write_end)
    os.set_blocking(read_end, False)
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    return Seat(process=process, events=read_end, id=uuid.uuid4().hex[:12])


def close_seat(seat: Seat) -> None:
    """Ends the parent and whatever it left running."""
    if seat.child is not None:
        kill_group(seat.child)
    kill_group(seat.process.pid)
    seat.process.wait()
    os.close(seat.events)
    for stream in (seat.process.stdin, seat.process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()


def attempt(
    seat: Seat,
    request: Mapping[str, Any],
    *,
    timeout_s: float,
    on_event: OnEvent,
    hurry: Callable[[], str | None],
) -> Ending:
    """Sends one request and waits for its end.

    `hurry` is asked often: 'finish' asks the child to stop at the next epoch's end, 'kill' ends it at once.
    The caller closes a seat whose parent is no longer `alive`.
    """
    seat.words.clear()
    assert seat.process.stdin is not None
    try:
        seat.process.stdin.write((json.dumps(request) + "\n").encode())
        seat.process.stdin.flush()
    except OSError:
        return Ending(
            result=None, outcome="killed", reason="the prepared parent died", last_words=_words(seat)
        )
    oom_before = _oom_kills()
    ending = _watch(seat, timeout_s=timeout_s, on_event=on_event, hurry=hurry)
    if ending.outcome == "killed" and _oom_kills() > oom_before:
        return Ending(
            result=None, outcome="limit", reason="killed at the memory limit", last_words=ending.last_words
        )
    return ending


def alive(seat: Seat) -> bool:
    """Whether the parent can take another request."""
    return seat.process.poll() is None


@dataclass(slots=True)
class _Watch:
    """What has been seen of one attempt so far."""

    result: Mapping[str, Any] | None = None
    garbage: int = 0
    asked_to_finish: bool = False
    stopped: tuple[str, str] | None = None


def _watch(seat: Seat, *, timeout_s: float, on_event: OnEvent, hurry: Callable[[], str | None]) -> Ending:
    deadline = time.monotonic() + timeout_s
    watch = _Watch()
    with selectors.DefaultSelector() as selector:
        selector.register(seat.events, selectors.EVENT_READ)
        assert seat.process.stdout is not None
        selector.register(seat.process.stdout, selectors.EVENT_READ)
        while True:
            _intervene(seat, watch, hurry(), timeout_s if time.monotonic() > deadline else None)
            gone = seat.process.poll() is not None
            events = _ready_events(seat, selector)
            for event in events:
                status = _take(seat, watch, event, on_event)
                if status is not None:
                    return _ending(seat, watch, status)
            if gone and not events:
                return _orphaned(seat, watch.stopped)


def _intervene(seat: Seat, watch: _Watch, wish: str | None, overdue_s: float | None) -> None:
    """Stops or hurries the child as the user or the clock asks."""
    if watch.stopped is not None:
        return
    if wish == "kill":
        watch.stopped = ("interrupted", "stopped by the user")
    elif overdue_s is not None:
        watch.stopped = ("timeout", f"no result within {overdue_s:.0f} s")
    elif wish == "finish" and not watch.asked_to_finish and seat.child is not None:
        watch.asked_to_finish = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(seat.child, signal.SIGTERM)
    if watch.stopped is not None:
        kill_group(seat.child if seat.child is not None else seat.process.pid)


def _take(seat: Seat, watch: _Watch, event: dict[str, Any] | None, on_event: OnEvent) -> int | None:
    """Takes in one event; the child's exit status once it has ended."""
    if event is None:
        watch.garbage += 1
        return None
    if event["event"] == "exited":
        seat.child = None
        return int(event["status"])
    if event["event"] == "forked":
        seat.child = int(event["pid"])
    elif event["event"] == "result" and isinstance(event.get("result"), dict):
        watch.result = event["result"]
    else:
        on_event(event)
    return None


def _ending(seat: Seat, watch: _Watch, status: int) -> Ending:
    words = _words(seat)
    if watch.result is not None and status == 0:
        return Ending(result=watch.result, last_words=words)
    outcome, reason = watch.stopped or _death(status, watch.garbage, words)
    return Ending(result=None, outcome=outcome, reason=reason, last_words=words)


def _orphaned(seat: Seat, stopped: tuple[str, str] | None = None) -> Ending:
    """The prepared parent itself is gone: killed, or it could not even import what it needs."""
    words = _words(seat)
    status = seat.process.wait()
    last = _last_line(words)
    died = (
        ("killed", "the prepared parent was killed")
        if status < 0
        else ("error", f"start failed: {last[:200]}")
    )
    outcome, reason = stopped or died
    return Ending(result=None, outcome=outcome, reason=reason, last_words=words)


def _last_line(words: str) -> str:
    return next((line.strip() for line in reversed(words.splitlines()) if line.strip()), "")


def _death(status: int, garbage: int, words: str) -> tuple[str, str]:
    """Outcome and reason of a child that ended without a result, nobody having stopped it."""
    if status < 0:
        name = signal.Signals(-status).name if -status in list(signal.Signals) else f"signal {-status}"
        return "killed", f"killed by {name}" + (" (out of memory?)" if status == -signal.SIGKILL else "")
    if garbage:
        return "error", "the process wrote garbage instead of a result"
    last = _last_line(words)
    return "error", f"exit status {status} without a result" + (f": {last[:200]}" if last else "")


def _ready_events(seat: Seat, selector: selectors.BaseSelector) -> list[dict[str, Any] | None]:
    """Waits a moment and returns whole event lines; None stands for a line that is no event."""
    for key, _ in selector.select(timeout=0.05):
        sink = seat.buffer if key.fd == seat.events else seat.words
        try:
            data = os.read(key.fd, 1 << 16)
        except BlockingIOError:
            continue
        if not data:
            selector.unregister(key.fileobj)
            continue
        sink += data
    del seat.words[:-STDERR_KEPT]
    events: list[dict[str, Any] | None] = []
    while (end := seat.buffer.find(b"\n")) >= 0:
        line = bytes(seat.buffer[:end])
        del seat.buffer[: end + 1]
        events.append(_event(line))
    if len(seat.buffer) > LINE_LIMIT:
        seat.buffer.clear()
        events.append(None)
    return events


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return (
        cast(dict[str, Any], value)
        if isinstance(value, dict) and isinstance(value.get("event"), str)
        else None
    )


def _words(seat: Seat) -> str:
    return bytes(seat.words).decode("utf-8", "replace")


def _oom_kills(root: Path = Path("/")) -> int:
    """Times the kernel killed for memory in this cgroup (v2 memory.events); 0 where it cannot be read."""
    try:
        own = (root / "proc/self/cgroup").read_text().strip().rsplit(":", 1)[-1].lstrip("/")
        text = (root / "sys/fs/cgroup" / own / "memory.events").read_text()
        return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill "))
    except (OSError, ValueError, IndexError):
        return 0
