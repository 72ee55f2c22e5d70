"""Every chart of a report as a picture of its own, with a name that stays.

Knows nothing about drawing or files: it cuts charts and names them.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

from breakeven.report.view import Chart

APART: Mapping[str, str] = {"ladder": "model"}
"""Kinds of chart that are one for each value of a field -> that field."""


def pictures(charts: Sequence[Chart]) -> dict[str, Chart]:
    """Name -> chart, in order: `ladder-resnet18`, `scale`. A name that is taken gets a number."""
    found: dict[str, Chart] = {}
    for chart in charts:
        for name, part in _parts(chart):
            free = next(n for n in _numbered(name) if n not in found)
            found[free] = part
    return found


def _parts(chart: Chart) -> Iterator[tuple[str, Chart]]:
    field = APART.get(chart.kind)
    groups = list(dict.fromkeys(str(value[field]) for value in chart.values)) if field else []
    if not groups:
        yield chart.name, chart
    for group in groups:
        values = tuple(value for value in chart.values if str(value[field or ""]) == group)
        title = f"{chart.title}: {group}" if len(groups) > 1 else chart.title
        yield f"{chart.name}-{_plain(group)}", dataclasses.replace(chart, values=values, title=title)


def _plain(text: str) -> str:
    """What stays of a text in a file's name: small letters, digits, points and hyphens."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.") or "other"


def _numbered(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}-{number}"
        number += 1
