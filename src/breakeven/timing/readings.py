"""A reading of the machine: its value, or `Null` with the reason why there is none.

Knows nothing about which files or counters exist. Paths start at a `root`, so that a test can plant a tree.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

SYSTEM = Path("/")
"""The root of the real machine's /proc and /sys."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Null:
    """No value. `reason` is one line, with the command that would mend it where there is one."""

    reason: str


def told(reading: T | Null, key: str, nulls: dict[str, str]) -> T | None:
    """The value; or None, its reason noted in `nulls` under `key`."""
    if isinstance(reading, Null):
        nulls[key] = reading.reason
        return None
    return reading


def known(reading: T | Null) -> T | None:
    """The value or None, where nobody needs the reason."""
    return None if isinstance(reading, Null) else reading


def first(readings: Iterable[T | Null]) -> T | Null:
    """The first reading with a value, else the first reason. Later readings are not made."""
    missing: Null | None = None
    for reading in readings:
        if not isinstance(reading, Null):
            return reading
        missing = missing or reading
    return missing or Null(reason="nowhere to read it from")


def read_text(path: Path) -> str | Null:
    """The text of a small kernel file, stripped."""
    try:
        # Device-tree files end in a NUL byte.
        return path.read_text(encoding="utf-8", errors="replace").strip().rstrip("\0")
    except FileNotFoundError:
        return Null(reason=f"{path} does not exist")
    except PermissionError:
        return Null(reason=f"{path} is not readable by this user; allow it with: sudo chmod a+r {path}")
    except OSError as error:
        return Null(reason=f"{path}: {error.strerror or error}")


def read_int(path: Path) -> int | Null:
    """The one integer that a kernel file holds."""
    text = read_text(path)
    if isinstance(text, Null):
        return text
    try:
        return int(text)
    except ValueError:
        return Null(reason=f"{path} holds no integer: {text[:40]!r}")


def read_pairs(path: Path) -> dict[str, str] | Null:
    """A file of `key value` or `key: value` lines (/proc/self/status, /proc/meminfo, cpu.stat)."""
    text = read_text(path)
    if isinstance(text, Null):
        return text
    pairs = (line.replace(":", " ", 1).split(None, 1) for line in text.splitlines())
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2}


def kib(pairs: dict[str, str] | Null, key: str) -> int | Null:
    """The number of `key: 1234 kB` in KiB (the kernel writes kB and means KiB)."""
    if isinstance(pairs, Null):
        return pairs
    number = pairs.get(key, "").split()
    if not number or not number[0].isdecimal():
        return Null(reason=f"the kernel does not report {key}")
    return int(number[0])


def listed(path: Path, pattern: str) -> tuple[Path, ...]:
    """Entries of a folder that match, sorted by name; none where the folder cannot be read."""
    try:
        return tuple(sorted(path.glob(pattern)))
    except OSError:
        return ()


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """`0-3,8` as (0, 1, 2, 3, 8). An empty list is empty. Raises ValueError for anything else."""
    ids: list[int] = []
    for part in filter(None, text.strip().split(",")):
        low, _, high = part.partition("-")
        ids.extend(range(int(low), int(high or low) + 1))
    return tuple(ids)


def read_cpu_list(path: Path) -> tuple[int, ...] | Null:
    """The CPU list that a kernel file holds."""
    text = read_text(path)
    if isinstance(text, Null):
        return text
    try:
        return parse_cpu_list(text)
    except ValueError:
        return Null(reason=f"{path} holds no CPU list: {text[:40]!r}")
