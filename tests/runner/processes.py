"""Whole runs as processes of their own, and what they leave running: shared by the tests that kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from breakeven.records import file
from breakeven.records.lines import Attempt

TAG = "BREAKEVEN_TEST_TAG"


def start(folder: Path, text: str, *words: str, tag: str = "") -> subprocess.Popen[str]:
    """`breakeven run` of the study `text` into folder/out, in a session of its own; its stderr in a file."""
    (folder / "t.yaml").write_text(text)
    with (folder / "stderr").open("w") as stderr:
        return subprocess.Popen(
            [sys.executable, "-m", "breakeven", "run", "t.yaml", "-o", "out", *words],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            text=True,
            start_new_session=True,
            env={**os.environ, TAG: tag or uuid.uuid4().hex},
        )


def finish(run: subprocess.Popen[str], folder: Path, timeout: float = 120) -> str:
    run.wait(timeout)
    return (folder / "stderr").read_text()


def tagged(tag: str) -> Iterator[tuple[int, int, bytes]]:
    """(pid, parent's pid, command line) of live processes that descend from a run with this tag."""
    wanted = f"{TAG}={tag}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                    yield int(entry.name), parent, (entry / "cmdline").read_bytes()
            except OSError:
                continue


def wait_until(what: Callable[[], bool], seconds: float = 20) -> bool:
    deadline = time.monotonic() + seconds
    while not what():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def no_orphans(tag: str) -> bool:
    return wait_until(lambda: not list(tagged(tag)))


def attempts(folder: Path) -> tuple[Attempt, ...]:
    """Attempts in folder/out, none where nothing was written yet. Raises UserError for damage."""
    return file.read_whole(folder / "out" / file.NAME).attempts


def kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
