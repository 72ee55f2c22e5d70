"""A report as GitHub-flavoured Markdown.

Knows nothing about findings. Whatever came from a name is escaped: it may not become a link, a tag or a cell.
"""

import re
from collections.abc import Iterator

from breakeven.report.view import Report, Section, Table

# An underscore inside a word is no emphasis in GitHub's dialect.
SPECIAL = re.compile(r"[\\`*|~#>]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|\](?=[(\[:])|(?<=!)\[")


def markdown(report: Report) -> str:
    """The whole report."""
    return "\n".join(_lines(report)).rstrip("\n") + "\n"


def escape(text: str) -> str:
    """Text that Markdown shows as it is. `<` and `&` become entities: not every reader knows `\\<`."""
    return SPECIAL.sub(r"\\\g<0>", text.replace("&", "&amp;").replace("<", "&lt;"))


def _lines(report: Report) -> Iterator[str]:
    yield from (f"# {escape(report.title)}", "")
    if report.banner:
        yield from (f"> **{escape(report.banner)}**", "")
    for sentence in (*report.before, *report.sentences):
        yield f"- {escape(sentence)}"
    for warning in report.warnings:
        yield f"- Beware: {escape(warning)}"
    yield from ("", escape("; ".join(report.facts)), "")
    for section in report.sections:
        yield from _section(section, report.badge)
    for note in report.footnotes:
        yield f"- {escape(note)}"


def _section(section: Section, badge: str) -> Iterator[str]:
    table = section.table
    if table is None:
        return  # a chart alone: nothing of it can be shown here
    yield from (f"## {escape(section.title)}" + (f" ({escape(badge)})" if badge else ""), "")
    if section.note:
        yield from (escape(section.note), "")
    if table.common:
        yield from (f"All rows: {escape(table.common)}", "")
    yield from _table(table)
    yield ""
    if table.missing:
        yield from (f"- {escape(reason)}" for reason in table.missing)
        yield ""


def _table(table: Table) -> Iterator[str]:
    if table.is_list:
        yield from (f"- {escape(row[0].text)}" for row in table.rows)
        return
    yield _row([escape(column.heading) for column in table.columns])
    yield _row(["---:" if column.align == "right" else "---" for column in table.columns])
    for row in table.rows:
        yield _row([escape(cell.text) for cell in row])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
