"""Aligned text columns for `list`, `plan` and `doctor`.

Knows nothing about results: rows of named values in, lines out, none wider than `width` if words allow it.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

NARROWEST = 14
"""A text column is not squeezed below this many characters."""


def columns(rows: Sequence[Mapping[str, Any]], *, width: int = 80) -> str:
    """The rows as a table: a column a key that has values, numbers to the right, long texts wrapped."""
    if not rows:
        return "(none)"
    keys = [key for key in rows[0] if any(row.get(key) not in (None, "") for row in rows)]
    cells = [[_cell(row.get(key)) for key in keys] for row in rows]
    heads = [key.replace("_", " ") for key in keys]
    numeric = [all(isinstance(row.get(key), int | float | None) for row in rows) for key in keys]
    sizes = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    if sum(sizes) + 2 * (len(sizes) - 1) > width:
        # A heading may stand in two lines, its unit below, before any text has to wrap.
        words = [max(map(len, head.split()), default=1) for head in heads]
        sizes = [max(map(len, column), default=0) for column in zip(*cells, strict=True)]
        sizes = [max(pair) for pair in zip(words, sizes, strict=True)]
    sizes = _squeezed(sizes, width)
    rule = "  ".join("-" * size for size in sizes)
    lines = [*_wrapped(heads, sizes, numeric), rule]
    for row in cells:
        lines += _wrapped(row, sizes, numeric)
    return "\n".join(lines)


def _squeezed(sizes: list[int], width: int) -> list[int]:
    """Takes from the widest column, a character at a time, until the table fits."""
    sizes = list(sizes)
    while sum(sizes) + 2 * (len(sizes) - 1) > width and max(sizes) > NARROWEST:
        sizes[sizes.index(max(sizes))] -= 1
    return sizes


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return " ".join(str(value).split())


def _wrapped(row: Sequence[str], sizes: Sequence[int], numeric: Sequence[bool]) -> list[str]:
    parts = [
        textwrap.wrap(text, size, break_on_hyphens=False) or [""]
        for text, size in zip(row, sizes, strict=True)
    ]
    lines = []
    for i in range(max(map(len, parts))):
        cells = [part[i] if i < len(part) else "" for part in parts]
        padded = [
            cell.rjust(size) if right else cell.ljust(size)
            for cell, size, right in zip(cells, sizes, numeric, strict=True)
        ]
        lines.append("  ".join(padded).rstrip())
    return lines
