"""Live progress on stderr: attempts done, the running one with its estimate, time left.

Knows nothing about how attempts are made; it is told events and draws them. Where stderr is no terminal it
prints one plain line for each finished attempt, so that a log stays readable.
"""

import os
import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from breakeven.units import format_duration

if TYPE_CHECKING:
    from breakeven.records.lines import Attempt, Load
    from breakeven.runner.session import Event

REDRAWS_PER_S = 8.0
"""Redraws a second: enough to look alive, too few to disturb the processes being measured."""


class Progress:
    """Draws events on stderr while it is open; `quiet` draws nothing but warnings."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._live: Any = None
        self._last = 0.0

    def __enter__(self) -> "Progress":
        if not self._quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self._live = Live("", console=Console(stderr=True), auto_refresh=False, transient=True)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, error, trace)
            self._live = None

    def note(self, text: str) -> None:
        """A line that stays on the screen."""
        if self._quiet:
            return
        if self._live is not None:
            self._live.console.print(text, highlight=False, markup=False)
        else:
            self._print(text)

    def warn(self, text: str) -> None:
        """A line that `quiet` does not keep back: without it a script would take old numbers for new ones."""
        if self._quiet:
            self._print(text)
        else:
            self.note(text)

    def show(self, event: "Event") -> None:
        """Draws one event of the runner."""
        if self._quiet:
            return
        if event.kind == "note":
            self.note(event.text)
        elif event.kind == "line" and event.line is not None:
            line: Any = event.line
            if self._live is None:
                self._print(_finished(event, line))
            elif line.outcome != "ok":
                self.note(f"{event.label}: {line.outcome}: {line.reason}")
        if self._live is not None and (event.kind != "progress" or self._due()):
            self._live.update(_bar(event), refresh=True)

    def _print(self, text: str) -> None:
        """A reader of stderr that went away must not end the measurement."""
        try:
            print(text, file=sys.stderr)
        except BrokenPipeError:
            self._quiet = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())

    def _due(self) -> bool:
        now = time.monotonic()
        if now - self._last < 1 / REDRAWS_PER_S:
            return False
        self._last = now
        return True


def _finished(event: "Event", line: "Attempt | Load") -> str:
    from breakeven.records.lines import Load, steady_step_ns

    if isinstance(line, Load):
        return f"[{event.done}/{event.total}] {event.label}, process {line.replicate + 1}: {_asked(line)}"
    step = steady_step_ns(line)
    what = "call" if line.work.task == "infer" else "step"
    result = f"{format_duration(step / 1e9)} a {what}" if step else line.outcome
    if line.outcome != "ok":
        result = f"{line.outcome}: {line.reason}"
    elif line.epochs:
        right = "-" if line.accuracy is None else f"{line.accuracy:.1%}"
        result = f"{len(line.epochs)} epochs, accuracy {right}"
    return f"[{event.done}/{event.total}] {event.label}, process {line.replicate + 1}: {result}"


def _asked(line: "Load") -> str:
    """LoadGen's verdict and its first figure."""
    if line.outcome != "ok":
        return f"{line.outcome}: {line.reason}"
    name = "p90" if line.scenario == "single-stream" else "p99"
    rate = line.per_s.get("samples") or line.per_s.get("completed_samples")
    figures = [f"{rate:.4g} samples/s"] if rate else []
    if line.scenario != "offline" and name in line.latency_ns:
        figures.append(f"{name} {format_duration(line.latency_ns[name] / 1e9)}")
    return ", ".join([f"{line.validity or 'no verdict'} (unverified)", *figures])


def _bar(event: "Event") -> Any:
    from rich.text import Text

    width = 20
    filled = round(width * event.done / event.total) if event.total else 0
    parts = [f"[{'#' * filled}{'-' * (width - filled)}] {event.done}/{event.total}", event.label]
    if event.estimate_ns:
        spread = f" +-{event.relative_half_width:.1%}" if event.relative_half_width else ""
        parts.append(f"{format_duration(event.estimate_ns / 1e9)} a step{spread}")
    elif event.phase:
        parts.append(event.phase)
    if event.left_s is not None:
        parts.append(f"{format_duration(event.left_s)} left")
    return Text("  ".join(part for part in parts if part), overflow="ellipsis", no_wrap=True)
