"""Bandwidth by the size of a copy: a table and a chart.

Knows nothing about limits: which numbers are refused, the findings say.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from breakeven.analysis.bandwidth import BandwidthFinding, words
from breakeven.analysis.findings import Understanding
from breakeven.report import words as numbers
from breakeven.report.drawing import WIDTH, log_axis, paged, points, series, tips
from breakeven.report.names import Names
from breakeven.report.view import (
    Cell,
    Chart,
    Column,
    Row,
    Section,
    Value,
    absent,
    build_table,
    clean,
    label,
    number,
    said,
)
from breakeven.units import format_duration

SHORT = {
    "copy": "copy within",
    "host_to_device_pinned": "to device, pinned",
    "host_to_device_pageable": "to device, pageable",
    "device_to_host_pinned": "to host, pinned",
    "device_to_host_pageable": "to host, pageable",
}
NOTE = (
    "10^9 bytes a second of copies one after the other over the same two buffers, so that small ones stay in "
    "caches; the best process's median. copy within: one memory, bytes read and bytes written; the others "
    "count each byte once. pinned: page-locked host memory. A copy is one call of the framework: of small "
    "ones the call is most of the time."
)


def bandwidth(understanding: Understanding, names: Names) -> Section | None:
    """A row a size, a column a kind of copy."""
    found = understanding.bandwidths
    kinds = [kind for kind in SHORT if any(f.kind == kind for f in found)]
    cells = {(f.source, f.machine, f.device_label, f.bytes, f.kind): f for f in found}
    places = dict.fromkeys((f.source, f.machine, f.device_label) for f in found)
    rows: list[Row] = []
    for place in places:
        for size in sorted({f.bytes for f in found if (f.source, f.machine, f.device_label) == place}):
            here = [cells.get((*place, size, kind)) for kind in kinds]
            flags = dict.fromkeys(flag for f in here if f for flag in f.flags)
            told = said(", ".join(flags)) if flags else absent()
            rows.append((names.device(place[2]), said(words(size), size), *map(_cell, here), told))
    columns = [label("device"), label("size"), *(number(SHORT[kind], "GB/s") for kind in kinds)]
    columns.append(Column(name="flags"))
    table = build_table(columns, rows)
    if table is None:
        return None
    chart = _chart(found, names)
    limits = dict.fromkeys(
        f"{f.limit_of}: {f.limit_gb_per_s:.4g} GB/s" for f in found if f.limit_gb_per_s is not None
    )
    note = NOTE + (f" Limits, above which a number is refused: {'; '.join(limits)}." if limits else "")
    return Section(
        key="bandwidth", title="Bandwidth by the size of a copy", note=clean(note), table=table, chart=chart,
    )  # fmt: skip


def _cell(found: BandwidthFinding | None) -> Cell:
    if found is None:
        return absent()
    if found.gb_per_s is None:
        return absent(found.reasons.get("gb_per_s", ""))
    each = f"{format_duration(found.copy_s)} a copy" if found.copy_s else ""
    note = ", ".join([each, *found.flags])
    return Cell(
        text=numbers.significant(found.gb_per_s, 3), sort=found.gb_per_s, note=note, evidence=found.evidence
    )


def _chart(found: Sequence[BandwidthFinding], names: Names) -> Chart | None:
    values = tuple(_mark(f, names) for f in found if f.gb_per_s is not None)
    if not values:
        return None
    kinds = tuple(dict.fromkeys(str(value["kind"]) for value in values))
    devices = tuple(dict.fromkeys(str(value["device"]) for value in values))
    alt = f"Bandwidth against the size of a copy on {', '.join(devices)}: {', '.join(kinds)}."
    return Chart(
        kind="bandwidth",
        name="bandwidth",
        title="Bandwidth by the size of a copy",
        subtitle=", ".join([*devices, *kinds]) if len(devices) == len(kinds) == 1 else "",
        alt_text=alt,
        values=values,
        tunings=kinds,
        devices=devices,
    )


def _mark(f: BandwidthFinding, names: Names) -> Mapping[str, Value]:
    return {
        "device": names.device(f.device_label).text,
        "kind": SHORT[f.kind],
        "mib": f.bytes / 1024**2,
        "size": words(f.bytes),
        "rate": f.gb_per_s,
        "shown": f"{numbers.significant(f.gb_per_s or 0.0, 3)} GB/s",
        "copy": format_duration(f.copy_s) if f.copy_s else "",
    }


def draw(alt: Any, chart: Chart) -> Any:
    """A line a kind, a panel a device; both axes logarithmic."""
    colour, shape, dash = series(alt, "kind", chart.tunings, filled=True)
    sizes = sorted({float(value["mib"] or 1) for value in chart.values})
    rates = [float(value["rate"] or 1) for value in chart.values]
    channel = log_axis(alt, sizes, "~g")
    # Sizes are powers of two: named as people name them, and only those that were copied.
    named = "datum.value >= 1024 ? datum.value / 1024 + ' GiB' : datum.value >= 1 ? datum.value + ' MiB' : "
    channel["axis"] = alt.Axis(values=sizes, labelExpr=named + "datum.value * 1024 + ' KiB'", grid=True)
    x = alt.X("mib:Q", title="size of a copy", **channel)
    y = alt.Y("rate:Q", title="GB/s", **log_axis(alt, rates, "~g"))
    fields = {"copy": "kind:N", "size": "size:N", "bandwidth": "shown:N", "time": "copy:N"}
    told = tips(alt, fields)
    layers = [
        alt.Chart().mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour, strokeDash=dash),
        *points(alt, x=x, y=y, color=colour, shape=shape, **told),
    ]
    return paged(alt, layers, chart.values, "device", width=WIDTH, height=260)
