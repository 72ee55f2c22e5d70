"""Which marks of a chart are doubtful, as its tooltips and its legend say it.

Knows nothing about how a mark is drawn, or a flag found out.
"""

from collections.abc import Iterable, Mapping, Sequence

from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.report.view import Value, clean

DOUBTFUL = frozenset({"not_converged", "contended", "throttled", "not_interleaved", "unchecked"})
"""Flags that make a mark hollow; any other is in its tooltip alone."""
_TOLD = "not converged, disturbed, or no verdict; its tooltip names the flags."
HOLLOW, PALE = f"Hollow: {_TOLD}", f"Pale: {_TOLD}"
"""What a doubtful mark looks like: a point, and a bar from zero."""

Cases = Mapping[tuple[str, str | None], CaseFinding]


def doubt(flags: Sequence[str], *, known: bool = True) -> dict[str, Value]:
    """The flags in words, and whether the mark is sure. `known`: it has an interval, or its verdict."""
    sure = known and not DOUBTFUL.intersection(flags)
    return {"flags": clean(", ".join(flags)) or "none", "sure": "yes" if sure else "no"}


def explained(marks: Iterable[Mapping[str, Value]], subtitle: str = "", look: str = HOLLOW) -> str:
    """The subtitle, with what a doubtful mark looks like where there is one."""
    told = look if any(mark.get("sure") == "no" for mark in marks) else ""
    return " ".join(filter(None, [subtitle, told]))


def by_place(understanding: Understanding) -> Cases:
    """The cases by file and id."""
    return {(c.source, c.case_id): c for c in understanding.cases}
