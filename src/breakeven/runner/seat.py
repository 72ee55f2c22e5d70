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
from typing import Any

from breakeven.runner.events import Event, Lines
from breakeven.runner.isolate import MARK, kill_group, kill_marked

STDERR_KEPT = 64 * 1024  # bytes of a child's last words; the rest of a flood is read and dropped
CHUNK = 1 << 16  # bytes a read: what a pipe holds
PIPE_MOST = 1 << 20  # bytes a pipe may hold unless root says otherwise (Linux: pipe-max-size)
LATE = "late"  # wished of an attempt that runs although its study's time is over
GRACE_S = 10.0  # seconds the parent may take to report the end of a child that was killed

OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(slots=True)
class Seat:
    """One live prepared parent. `id` is random: replicates of a case must name different parents.

    Two pipes: on `control` the parent alone writes, and what it says of processes is believed; `events` is
    the children's, on which whatever they start may write as well.
    """

    process: "subprocess.Popen[bytes]"
    control: int
    events: int
    id: str
    said: Lines = field(default_factory=Lines)
    heard: Lines = field(default_factory=Lines)
    words: bytearray = field(default_factory=bytearray)
    child: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Ending:
    """How an attempt ended: its `result` if it sent one, else the outcome and reason that the runner saw.

    `begun` is False where the parent was killed before it forked a child: nothing has run yet.
    """

    result: Mapping[str, Any] | None
    outcome: str | None = None
    reason: str | None = None
    begun: bool = True
    last_words: str = ""


def open_seat(runtime: str, env: Mapping[str, str]) -> Seat:
    """Starts a prepared parent for `runtime` with `env` added to this environment (set before any import)."""
    seat_id = uuid.uuid4().hex[:12]
    (control, control_end), (events, events_end) = os.pipe(), os.pipe()
    ends = (control_end, events_end)
    process = subprocess.Popen(
        [sys.executable, "-m", "breakeven.runner.parent", runtime, *map(str, ends), str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        pass_fds=ends,
        env={**os.environ, **env, MARK: seat_id},
        start_new_session=True,  # the terminal's Ctrl-C goes to the runner alone
    )
    for end in ends:
        os.close(end)
    assert process.stdout is not None
    for read_end in (control, events, process.stdout.fileno()):
        os.set_blocking(read_end, False)
    return Seat(process=process, control=control, events=events, id=seat_id)


def close_seat(seat: Seat) -> None:
    """Ends the parent and whatever it left running."""
    if seat.child is not None:
        kill_group(seat.child)
    kill_group(seat.process.pid)
    seat.process.wait()
    kill_marked(seat.id)
    os.close(seat.control)
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

    `hurry` is asked often: 'finish' asks the child to stop at the next epoch's end, 'kill' and LATE end it at
    once.
    The caller closes a seat whose parent is no longer `alive`.
    """
    seat.words.clear()
    token = uuid.uuid4().hex
    assert seat.process.stdin is not None
    try:
        seat.process.stdin.write((json.dumps({**request, "token": token}) + "\n").encode())
        seat.process.stdin.flush()
    except OSError:
        reason = "the prepared parent died"
        return Ending(result=None, outcome="killed", reason=reason, begun=False, last_words=_words(seat))
    oom_before = _oom_kills()
    ending = _watch(seat, token, timeout_s=timeout_s, on_event=on_event, hurry=hurry)
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
    """What has been seen of one attempt so far. `token`: only the child of this attempt knows it."""

    token: str
    result: Mapping[str, Any] | None = None
    garbage: int = 0
    asked_to_finish: bool = False
    stopped: tuple[str, str] | None = None
    stopped_at: float = 0.0


def _watch(
    seat: Seat, token: str, *, timeout_s: float, on_event: OnEvent, hurry: Callable[[], str | None]
) -> Ending:
    deadline = time.monotonic() + timeout_s
    watch = _Watch(token=token)
    assert seat.process.stdout is not None
    with selectors.DefaultSelector() as selector:
        for source in (seat.control, seat.events, seat.process.stdout.fileno()):
            selector.register(source, selectors.EVENT_READ)
        while True:
            _intervene(seat, watch, hurry(), timeout_s if time.monotonic() > deadline else None)
            gone = not alive(seat)
            if gone:
                kill_marked(seat.id)  # nothing is left that could still write
            status = None
            for key, _ in selector.select(timeout=0.05):
                data = _read(key.fd)
                if data is None:
                    continue
                if not data:
                    selector.unregister(key.fd)
                elif key.fd == seat.control:
                    status = _reports(seat, seat.said.feed(data))
                elif key.fd == seat.events:
                    _take(seat, watch, data, on_event)
                else:
                    _hear(seat, data)
            if status is not None or gone:
                # What the child wrote before it ended lies in the pipes, whichever of them was read first.
                _drain(seat, watch, on_event)
                return _orphaned(seat, watch) if status is None else _ending(seat, watch, status)


def _intervene(seat: Seat, watch: _Watch, wish: str | None, overdue_s: float | None) -> None:
    """Stops or hurries the child as the user or the clock asks."""
    if watch.stopped is not None:
        if time.monotonic() - watch.stopped_at > GRACE_S:
            kill_group(seat.process.pid)
        return
    if wish == "kill":
        watch.stopped = ("interrupted", "stopped by the user")
    elif wish == LATE:
        watch.stopped = ("interrupted", "max_time was over before it ended")
    elif overdue_s is not None:
        watch.stopped = ("timeout", f"no result within {overdue_s:.0f} s")
    elif wish == "finish" and not watch.asked_to_finish and seat.child is not None:
        watch.asked_to_finish = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(seat.child, signal.SIGTERM)
    if watch.stopped is not None:
        watch.stopped_at = time.monotonic()
        kill_group(seat.child if seat.child is not None else seat.process.pid)


def _read(descriptor: int) -> bytes | None:
    """What a pipe holds now, at most a chunk: None if nothing, empty at its end."""
    try:
        return os.read(descriptor, CHUNK)
    except BlockingIOError:
        return None


def _reports(seat: Seat, events: list[Event | None]) -> int | None:
    """Takes in what the parent says of its child; the child's exit status once it has ended."""
    status = None
    for event in filter(None, events):
        if event["event"] == "forked":
            seat.child = int(event["pid"])
        elif event["event"] == "exited":
            seat.child, status = None, int(event["status"])
    return status


def _take(seat: Seat, watch: _Watch, data: bytes, on_event: OnEvent) -> None:
    """Takes in events of the child. A number without the attempt's token is not this child's."""
    for event in seat.heard.feed(data):
        if event is None:
            watch.garbage += 1
        elif event["event"] in ("progress", "epoch"):
            on_event(event)
        elif event.get("token") != watch.token:
            watch.garbage += 1
        elif event["event"] == "ceiling":
            on_event(event)
        elif event["event"] == "result" and isinstance(event.get("result"), dict):
            watch.result = event["result"]


def _hear(seat: Seat, data: bytes) -> None:
    seat.words += data
    del seat.words[:-STDERR_KEPT]


def _drain(seat: Seat, watch: _Watch, on_event: OnEvent) -> None:
    """Reads what is left in the pipes; half a line is dropped: the next attempt starts on a new one."""
    assert seat.process.stdout is not None
    for descriptor in (seat.events, seat.process.stdout.fileno()):
        for _ in range(PIPE_MOST // CHUNK + 1):
            if not (data := _read(descriptor)):
                break
            if descriptor == seat.events:
                _take(seat, watch, data, on_event)
            else:
                _hear(seat, data)
    if seat.heard.rest or seat.heard.dropping:
        watch.garbage += 1
    seat.heard = Lines()


def _ending(seat: Seat, watch: _Watch, status: int) -> Ending:
    words = _words(seat)
    if watch.result is not None and status == 0:
        return Ending(result=watch.result, last_words=words)
    outcome, reason = watch.stopped or _death(status, watch.garbage, words)
    return Ending(result=None, outcome=outcome, reason=reason, last_words=words)


def _orphaned(seat: Seat, watch: _Watch) -> Ending:
    """The prepared parent itself is gone: killed, or it could not even import what it needs."""
    words = _words(seat)
    status = seat.process.wait()
    last = _last_line(words)
    died = (
        ("killed", "the prepared parent was killed")
        if status < 0
        else ("error", f"start failed: {last[:200]}")
    )
    outcome, reason = watch.stopped or died
    begun = seat.child is not None or outcome != "killed"
    return Ending(result=None, outcome=outcome, reason=reason, begun=begun, last_words=words)


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
