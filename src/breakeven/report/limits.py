"""How much of a large study a page or a screen shows, with the rest said: the data of the page hold all.

Knows nothing about what is shown. No one reads a table of a thousand rows, and a file of 30 MB opens nowhere.
"""

import dataclasses

from breakeven import units
from breakeven.report.view import Chart, Report, Section, Table

MOST_ROWS = 100
MOST_MARKS = 2000
"""Of a chart: a browser draws some 10,000 elements a second, and axes, labels and bands come on top."""
SCREEN_ROWS = 12
LARGE = 100
"""Cases from which the screen shows the summary only, unless all of it is asked for."""
GROUPS = ("group", "pair", "model", "device")
"""What a chart is divided by, the first that its marks have: whole parts are left out, none is torn."""


def limited(report: Report, *, rows: int = MOST_ROWS, marks: int = MOST_MARKS, rest: str) -> Report:
    """The report with no table and no chart beyond the limits; what is cut says so; `rest`: where it is."""
    sections = tuple(_section(section, rows, marks, rest) for section in report.sections)
    return dataclasses.replace(report, sections=sections)


def _section(section: Section, rows: int, marks: int, rest: str) -> Section:
    table, chart = section.table, section.chart
    if table is not None and len(table.rows) > rows and not table.is_list:
        table = _table(table, rows, rest)
    if chart is not None and len(chart.values) > marks:
        chart = _chart(chart, marks)
    return dataclasses.replace(section, table=table, chart=chart)


def _table(table: Table, rows: int, rest: str) -> Table:
    cut = f"{units.format_count(rows)} of {units.format_count(len(table.rows))} rows; {rest}"
    return dataclasses.replace(table, rows=table.rows[:rows], missing=(cut, *table.missing))


def _chart(chart: Chart, marks: int) -> Chart:
    """The first parts of the chart that fit; a part too large by itself is thinned to its first marks."""
    field = next((name for name in GROUPS if all(name in value for value in chart.values)), None)
    if field is None:
        return dataclasses.replace(chart, values=chart.values[:marks], subtitle=_said(chart, "marks", marks))
    sizes: dict[object, int] = {}
    for value in chart.values:
        sizes[value[field]] = sizes.get(value[field], 0) + 1
    kept: list[object] = []
    room = marks
    for group, size in sizes.items():
        if kept and size > room:
            break
        kept.append(group)
        room -= size
    values = tuple(value for value in chart.values if value[field] in set(kept))
    words = f"{len(kept)} of {len(sizes)} parts" if len(kept) < len(sizes) else ""
    if len(values) > marks:
        words = "; ".join(filter(None, [words, f"{marks} of {len(values)} marks"]))
    return dataclasses.replace(chart, values=values[:marks], subtitle=_with(chart.subtitle, words))


def _said(chart: Chart, what: str, count: int) -> str:
    return _with(chart.subtitle, f"{count} of {len(chart.values)} {what}")


def _with(subtitle: str, words: str) -> str:
    return " ".join(filter(None, [subtitle, f"Drawn: the first {words}."]))
