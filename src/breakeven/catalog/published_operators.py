"""Operators of profiles that others published, as printed: host time, device time and memory of one run each.

Knows nothing about the user's profiles. Where a source does not say what was computed, it is None here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Literal

from breakeven.catalog.facts import table

KINDS = ("step", "operator", "kernel")


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedOperator:
    """One row of a printed profile: total times in milliseconds, each row holding those below it.

    `here`: the names that the same place in a profile has here, one for each library of convolutions; empty
    for the step as a whole. Memory is as printed, None where it is not.
    """

    kind: Literal["step", "operator", "kernel"]
    operator: str
    here: tuple[str, ...]
    host_ms: float
    device_ms: float
    device_memory: str | None
    host_memory: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedProfile:
    """One printed profile, its rows from the whole to its parts. `models`: what its net may be here.

    `host_heading` and `device_heading` are what the source calls the two columns.
    """

    collection: str
    place: str
    task: Literal["train", "infer"] | None
    printed_model: str
    models: tuple[str, ...]
    host_heading: str
    device_heading: str
    rows: tuple[PublishedOperator, ...]

    @property
    def whole(self) -> PublishedOperator:
        """The row that holds all others."""
        return self.rows[0]

    def outgrown(self) -> tuple[PublishedOperator, ...]:
        """Rows with more host time than the whole that holds them: the column is no sum of one kind."""
        return tuple(row for row in self.rows if row.host_ms > self.whole.host_ms)

    def freed(self) -> tuple[PublishedOperator, ...]:
        """Rows whose memory is below zero: they free what others allocated."""
        printed = ((row, (row.device_memory, row.host_memory)) for row in self.rows)
        return tuple(row for row, sizes in printed if any((size or "").startswith("-") for size in sizes))


@lru_cache(maxsize=1)
def published_profiles() -> tuple[PublishedProfile, ...]:
    """All profiles, in the order of the file. Raises ValueError for a row of no known kind."""
    rows = table("published_operators.csv")
    return tuple(
        _profile(list(mine)) for _, mine in groupby(rows, key=lambda r: (r["collection"], r["place"]))
    )


def _profile(rows: list[dict[str, str]]) -> PublishedProfile:
    first = rows[0]
    if first["kind"] != KINDS[0] or first["task"] not in ("train", "infer", ""):
        raise ValueError(f"published_operators.csv: {first['place']} does not begin with its step")
    return PublishedProfile(
        collection=first["collection"],
        place=first["place"],
        task=first["task"] or None,  # type: ignore[arg-type]  # checked above
        printed_model=first["printed_model"],
        models=tuple(first["models"].split(";")),
        host_heading=first["host_heading"],
        device_heading=first["device_heading"],
        rows=tuple(map(_operator, rows)),
    )


def _operator(row: Mapping[str, str]) -> PublishedOperator:
    if row["kind"] not in KINDS:
        raise ValueError(f"published_operators.csv: no such kind: {row['kind']!r}")
    return PublishedOperator(
        kind=row["kind"],  # type: ignore[arg-type]  # checked above
        operator=row["operator"],
        here=tuple(filter(None, row["here"].split(";"))),
        host_ms=float(row["host_ms"]),
        device_ms=float(row["device_ms"]),
        device_memory=row["device_memory"] or None,
        host_memory=row["host_memory"] or None,
    )
