"""A report as one HTML file that opens offline: style, script, charts and data are all inside.

Knows nothing about findings but their JSON and CSV. The template escapes every text; what goes into a script
is escaped here, and a content policy forbids every request.
"""

import base64
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from breakeven.analysis.findings import Understanding
from breakeven.report import charts
from breakeven.report.csv import sheet
from breakeven.report.json import to_text
from breakeven.report.limits import limited
from breakeven.report.view import Cell, Report, Row, Section, Table

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
# A table up to this long is read as a whole; a longer one shows its first rows until it is unfolded.
FILTER_FROM = 5
FOLDED_FROM = 16
LONG_WITH_CHART = 12
MOST_IDS_IN_A_TITLE = 3
MOST_IDS_IN_A_ROW = 24
MOST_REASONS = 6
INTERVAL = re.compile(r" \[[^\[\]]{1,20}\]")
LONGEST_WHOLE = 24
WORDY = 20
"""Letters from which a cell of words may wrap."""
REST = "sort and filter hold for these; every finding is in the JSON at the end of the page"
PLAIN_DATA = 1_000_000
"""Bytes of data up to which they stand in the page as text; more are deflated, to a tenth."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """Lines by row; `same_as` is the key of an earlier section that lists them all."""

    rows: tuple[tuple[str, tuple[str, ...]], ...]
    same_as: str | None
    anchors: Mapping[tuple[str, ...], str]


def page(report: Report, understanding: Understanding) -> str:
    """The text of the HTML file of a study's report. UserError without the report extra."""
    return page_of(report, to_text(understanding), sheet(understanding))


def page_of(report: Report, findings: str, rows: str) -> str:
    """The text of the HTML file of any report, its findings as JSON and its rows as CSV inside."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = environment.from_string(_resource("report.html.j2"))
    report = limited(report, rest=REST)
    # Markup: our own files, and data whose every `<` is escaped.
    return template.render(
        report=report,
        policy=POLICY,
        style=Markup(_resource("report.css")),
        most_ids=MOST_IDS_IN_A_ROW,
        most_reasons=MOST_REASONS,
        script=Markup(script_safe(_resource("report.js"))),
        vega=Markup(script_safe(charts.javascript())) if report.charts else "",
        data=Markup(_embedded(report, findings, rows)),
        filter_from=FILTER_FROM,
        folded_from=FOLDED_FROM,
        whole=lambda text: Markup(whole(text)),
        rows_of=lambda table, anchors: Markup(rows_of(table, anchors)),
        evidence=evidence(report),
        is_long=is_long,
    ).lstrip()


def whole(text: str) -> str:
    """The text, escaped, in which no name with a hyphen and no interval is broken at the end of a line."""
    kept = INTERVAL.sub(lambda found: found[0].replace(" ", "\u00a0"), text)
    words = (
        f'<span class="whole">{escaped(word)}</span>'
        if "-" in word and len(word) <= LONGEST_WHOLE
        else escaped(word)
        for word in kept.split(" ")
    )
    return " ".join(words)


def rows_of(table: Table, anchors: Mapping[tuple[str, ...], str]) -> str:
    """The rows of a table, every text escaped: a template takes three times as long for 15,000 cells."""
    columns = table.columns
    # Only what wraps takes room from the rest: a column of single words is as wide as they are.
    wordy = [
        not (c.numeric or c.key) and any(len(row[i].text) > WORDY for row in table.rows)
        for i, c in enumerate(columns)
    ]
    classes = [
        f"{c.align}{' number' if c.numeric else ''}{' key' if c.key else ''}{' wordy' if wraps else ''}"
        for c, wraps in zip(columns, wordy, strict=True)
    ]
    tags = ["th scope=row", *("td" for _ in columns[1:])]
    out = []
    for row in table.rows:
        anchor = anchors.get(lines_of(row)) if anchors else None
        out.append("<tr>")
        for tag, looks, cell in zip(tags, classes, row, strict=True):
            sort = "" if cell.sort is None else f' data-sort="{escaped(str(cell.sort))}"'
            title = title_of(cell)
            told = f' title="{escaped(title)}"' if title else ""
            # A name may break after its marks, on a phone: not_converged.
            text = escaped(cell.text).replace("_", "_<wbr>")
            if cell.evidence and anchor:
                text = f'<a class="line" href="#{escaped(anchor)}">{text}</a>'
            out.append(f'<{tag} class="{looks}"{sort}{told}>{text}</{tag[:2]}>')
        out.append("</tr>")
    return "\n".join(out)


@lru_cache(maxsize=4096)
def escaped(text: str) -> str:
    """A text that neither ends nor begins an element or an attribute. The same few stand in most cells."""
    from markupsafe import escape

    return str(escape(text))


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
        earlier = (key for key, known in out.items() if known.same_as is None and ids <= set(known.anchors))
        same_as = next(earlier, None)
        anchors = (
            out[same_as].anchors
            if same_as
            else {lines: f"{section.key}-e{number}" for number, (_, lines) in enumerate(rows)}
        )
        out[section.key] = Evidence(rows=rows, same_as=same_as, anchors=anchors)
    return out


def lines_of(row: Row) -> tuple[str, ...]:
    """The lines behind a row, each once."""
    return tuple(dict.fromkeys(id_ for cell in row for id_ in cell.evidence))


def _behind(table: Table) -> tuple[tuple[str, tuple[str, ...]], ...]:
    rows = []
    for row in table.rows:
        ids = lines_of(row)
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


def _embedded(report: Report, findings: str, rows: str) -> str:
    """Charts and data as JSON in which no tag can begin."""
    specs = {chart.name: charts.spec(chart, ink=charts.PAGE_INK) for chart in report.charts}
    for spec in specs.values():
        # The section's heading says it already.
        spec.pop("title", None)
    files = {"findings": findings, "csv": rows}
    if len(findings) + len(rows) > PLAIN_DATA:
        files = {name: _deflated(text) for name, text in files.items()}
    parts = {"charts": json.dumps(specs, allow_nan=False, separators=(",", ":"))}
    parts |= {name: json.dumps(text) for name, text in files.items()}
    parts["deflated"] = json.dumps(len(findings) + len(rows) > PLAIN_DATA)
    text = "{" + ",".join(f'"{name}":{part}' for name, part in parts.items()) + "}"
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _deflated(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode("utf-8"), level=1)).decode("ascii")


def _resource(name: str) -> str:
    return resources.files("breakeven.report").joinpath(name).read_text(encoding="utf-8")
