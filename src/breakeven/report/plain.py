"""Aligned text columns for `list`, `plan` and `doctor`.

Knows nothing about results: rows of named values in, lines out, none wider than `width`.
"""

from collections.abc import Mapping, Sequence
from typing import Any


def columns(rows: Sequence[Mapping[str, Any]], *, width: int = 80) -> str:
    """The rows as a table: a column a key, numbers to the right, the last column wrapped to `width`."""
    if not rows:
        return "(none)"
    keys = [key for key in rows[0] if any(row.get(key) not in (None, "") for row in rows)]
    cells = [[_cell(row.get(key)) for key in keys] for row in rows]
    heads = [key.replace("_", " ") for key in keys]
    sizes = [max(len(head), *(len(row[i]) for row in cells)) for i, head in enumerate(heads)]
    numeric = [all(isinstance(row.get(key), int | float | None) for row in rows) for key in keys]
    room = max(width - sum(sizes[:-1]) - 2 * (len(sizes) - 1), 20)
    sizes[-1] = min(sizes[-1], room)
    lines = [*_wrapped(heads, sizes, numeric), "  ".join("-" * size for size in sizes)]
    for row in cells:
        lines += _wrapped(row, sizes, numeric)
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4g}"
    return " ".join(str(value).split())


def _wrapped(row: Sequence[str], sizes: Sequence[int], numeric: Sequence[bool]) -> list[str]:
    import textwrap

    last = textwrap.wrap(row[-1], sizes[-1]) or [""]
    pad = [
        text.rjust(n) if right else text.ljust(n) for text, n, right in zip(row, sizes, numeric, strict=True)
    ]
    first = "  ".join([*pad[:-1], last[0].rjust(sizes[-1]) if numeric[-1] else last[0]]).rstrip()
    indent = " " * (sum(sizes[:-1]) + 2 * (len(sizes) - 1))
    return [first, *(indent + more for more in last[1:])]
