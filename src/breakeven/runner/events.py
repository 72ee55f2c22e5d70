"""Event lines out of a pipe that anything may have written to: whole lines only, bounded, garbage told apart.

Knows nothing about what events mean.
"""

import json
import math
from dataclasses import dataclass, field
from typing import Any

LINE_LIMIT = 16 * 1024 * 1024
"""Bytes of a line: a result with 10,000 epochs has 2 MB. What is longer is garbage, up to its newline."""

Event = dict[str, Any]


@dataclass(slots=True)
class Lines:
    """What was read of one pipe and has no newline yet."""

    rest: bytearray = field(default_factory=bytearray)
    dropping: bool = False

    def feed(self, data: bytes) -> list[Event | None]:
        """The events that `data` completes; None stands for a line that is no event."""
        events: list[Event | None] = []
        *ends, rest = data.split(b"\n")
        for end in ends:
            if not self.dropping:
                events.append(_event(bytes(self.rest + end)))
            self.dropping = False
            self.rest.clear()
        if not self.dropping:
            self.rest += rest
        if len(self.rest) > LINE_LIMIT:
            self.rest.clear()
            self.dropping = True
            events.append(None)
        return events


def number(value: object) -> float | None:
    """A finite number, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def _event(line: bytes) -> Event | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict) and isinstance(value.get("event"), str):
        return value
    return None
