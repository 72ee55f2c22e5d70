"""A report as one HTML file that opens offline: style, script, charts and data are all inside.

Knows nothing about findings but their JSON and CSV. The template escapes every text; what goes into a script
is escaped here, and a content policy forbids every request.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from breakeven.analysis.findings import Understanding
from breakeven.report import charts
from breakeven.report.csv import sheet
from breakeven.report.json import document
from breakeven.report.view import Cell, Report, Section, Table

# Vega compiles its expressions, hence unsafe-eval; nothing may be loaded, sent or framed.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'unsafe-inline' 'unsafe-eval'",
        "style-src 'unsafe-inline'",
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
    ]
)
# A table up to this long is read as a whole.
FILTER_FROM = 5
LONG_WITH_CHART = 12
MOST_IDS_IN_A_TITLE = 3


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """Lines by row; `same_as` is the key of an earlier section that lists them all."""

    rows: tuple[tuple[str, tuple[str, ...]], ...]
    same_as: str | None


def page(report: Report, understanding: Understanding) -> str:
    """The text of the HTML file of a study's report. UserError without the report extra."""
    return page_of(report, document(understanding), sheet(understanding))


def page_of(report: Report, findings: Mapping[str, Any], rows: str) -> str:
    """The text of the HTML file of any report, its findings as JSON values and its rows as CSV inside."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(_resource("report.html.j2"))
    # Markup: our own files, and data whose every `<` is escaped.
    return template.render(
        report=report,
        policy=POLICY,
        style=Markup(_resource("report.css")),
        script=Markup(script_safe(_resource("report.js"))),
        vega=Markup(script_safe(charts.javascript())) if report.charts else "",
        data=Markup(_embedded(report, findings, rows)),
        filter_from=FILTER_FROM,
        title_of=title_of,
        evidence=evidence(report),
        is_long=is_long,
    ).lstrip()


def title_of(cell: Cell) -> str:
    """What a pointer on a cell shows: the conditions of its number and the lines it was made from."""
    ids = list(cell.evidence[:MOST_IDS_IN_A_TITLE])
    more = len(cell.evidence) - len(ids)
    if more > 0:
        ids.append(f"and {more} more, listed below")
    return "\n".join(filter(None, [cell.note, *ids]))


def evidence(report: Report) -> dict[str, Evidence]:
    """By section, the lines behind each row under the row's name: for those who cannot point.

    Tables of the same cases share their lines, half of the file if repeated: a later one refers to the first.
    """
    out: dict[str, Evidence] = {}
    for section in report.sections:
        rows = _behind(section.table) if section.table else ()
        if not rows:
            continue
        ids = {ids for _, ids in rows}
        earlier = (key for key, known in out.items() if ids <= {ids for _, ids in known.rows})
        out[section.key] = Evidence(rows=rows, same_as=next(earlier, None))
    return out


def _behind(table: Table) -> tuple[tuple[str, tuple[str, ...]], ...]:
    rows = []
    for row in table.rows:
        ids = tuple(dict.fromkeys(id_ for cell in row for id_ in cell.evidence))
        pairs = zip(table.columns, row, strict=True)
        name = ", ".join(cell.text for column, cell in pairs if column.key) or row[0].text
        if ids:
            rows.append((name, ids))
    return tuple(rows)


def is_long(section: Section) -> bool:
    """Whether the table starts closed."""
    if section.table is None:
        return False
    return section.detail or (section.chart is not None and len(section.table.rows) > LONG_WITH_CHART)


def script_safe(code: str) -> str:
    """A script that cannot end its own element."""
    return re.sub(r"<(?=/script|!--)", r"\\x3c", code, flags=re.IGNORECASE)


def _embedded(report: Report, findings: Mapping[str, Any], rows: str) -> str:
    """Charts and data as JSON in which no tag can begin."""
    specs = {chart.name: charts.spec(chart, ink=charts.PAGE_INK) for chart in report.charts}
    for spec in specs.values():
        # The section's heading says it already.
        spec.pop("title", None)
    content = {"charts": specs, "findings": findings, "csv": rows}
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _resource(name: str) -> str:
    return resources.files("breakeven.report").joinpath(name).read_text(encoding="utf-8")
