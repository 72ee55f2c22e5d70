"""What verbs share: exit codes, the terminal's width and colour, results named there, files saved, Ctrl-C."""

import codecs
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OK, USER_ERROR, USAGE, SOME_FAILED, GATE, INTERRUPTED = 0, 1, 2, 3, 4, 130


PLAIN = {"\u00b1": "+/-", "\u2026": "...", "\u2013": "-", "\u2014": "-", "\u00d7": "x", "\u00b5": "u"}
"""What stands for a character that a terminal's encoding has no code for; any other is a question mark."""


def speak_plainly() -> None:
    """Makes streams that cannot encode everything (LC_ALL=C, an old console) say it plainly, not fail."""
    codecs.register_error("breakeven-plain", _plainly)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:  # none where a test or a notebook has put its own stream there
            reconfigure(errors="breakeven-plain")


def _plainly(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter, "?") for letter in wrong), error.end


def width() -> int:
    """Columns of the terminal, 80 where there is none; wider than 120 is hard to read."""
    return min(max(shutil.get_terminal_size((80, 24)).columns, 60), 120)


def colour() -> bool:
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def results_of(name: str) -> Any:
    """The results in a folder or file, or on the standard input for `-`. Raises UserError.

    Damaged lines are left out, and told whatever else is asked for: the numbers lack what they measured.
    """
    from breakeven.records import file

    found = file.read_text(sys.stdin.buffer.read(), "stdin") if name == "-" else file.read(name)
    if found.unread:
        print(f"breakeven: {file.left_out(found.unread, found.path)}", file=sys.stderr)
    return found


def say_saved(files: Sequence[Path], *, quiet: bool, as_json: bool) -> None:
    """One file is said beside the output; several are the output, a line each, for a script to go on with."""
    for file in () if quiet else files:
        if len(files) == 1 or as_json:
            print(f"Saved {file}", file=sys.stderr)
        else:
            print(file)


class Interrupts:
    """Ctrl-C once asks to finish the running attempt and stop; twice asks to stop at once."""

    def __init__(self) -> None:
        self._count = 0
        self._before: Any = None

    def __enter__(self) -> "Interrupts":
        self._before = signal.signal(signal.SIGINT, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _on_signal(self, signum: int, frame: object) -> None:
        self._count += 1
        if self._count == 1:
            print("\nfinishing the running attempt; Ctrl-C again stops at once", file=sys.stderr)

    def asked(self) -> str | None:
        return (None, "finish", "kill")[min(self._count, 2)]
