"""A report as lines for a terminal, never wider than asked.

Knows nothing about files or the terminal's own size. A table that is too wide wraps its names first, and is
then cut into blocks of columns that each repeat the names.
"""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from breakeven.report.view import MISSING, Report, Section, Table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

GAP = 2
# Names up to this stay on one line (as long as `resnet18-cifar`); longer ones wrap.
COMFORT = 14
# A word with the marks or spaces that follow it.
BREAKS = re.compile(r"[^-\s_/:.,]*[-_/:.,]+\s*|[^-\s_/:.,]+\s*|\s+")
MOST_REASONS = 6


def text(report: Report, width: int = 80, colour: bool = False, *, brief: bool = False) -> str:
    """The report as text. `brief` is the screen after a run: the speed-ups and the verdict."""
    from io import StringIO

    from rich.console import Console
    from rich.text import Text

    # Height given too: without it rich takes a dumb terminal for 80 columns, whatever was asked.
    console = Console(
        file=StringIO(), width=width, height=25, force_terminal=colour, no_color=not colour,
        color_system="standard" if colour else None, legacy_windows=False, highlight=False,
    )  # fmt: skip
    for piece in _pieces(report, width, brief=brief):
        _print(console, Text(piece) if isinstance(piece, str) else piece)
    file = console.file
    assert isinstance(file, StringIO)
    lines = [line.rstrip() for line in file.getvalue().splitlines()]
    return "\n".join(lines).rstrip("\n") + "\n"


def _print(console: "Console", piece: "RenderableType") -> None:
    console.print(piece, overflow="fold", soft_wrap=False)


def _pieces(report: Report, width: int, *, brief: bool) -> Iterator["RenderableType"]:
    from rich.text import Text

    if report.banner:
        yield Text(report.banner, style="bold yellow")
    if not brief:
        yield Text(report.title, style="bold")
        yield Text(" | ".join(report.facts), style="dim")
        yield ""
    first = [section for section in report.sections if section.key == "summary"]
    rest = [s for s in report.sections if s.key != "summary" and s.table is not None and not s.detail]
    for section in first:
        yield from _section(section, width, badge=report.badge, titled=not brief)
    if first and not brief:
        yield ""
    yield from (Text(sentence) for sentence in report.sentences)
    if not brief:
        for section in rest:
            yield ""
            yield from _section(section, width, badge=report.badge, titled=True)
        if report.footnotes:
            yield ""
    yield from (Text(note, style="dim") for note in report.footnotes)


def _section(section: Section, width: int, *, badge: str, titled: bool) -> Iterator["RenderableType"]:
    from rich.text import Text

    if titled:
        yield Text(section.title + (f" [{badge}]" if badge else ""), style="bold")
        if section.note:
            yield Text(section.note, style="dim")
    table = section.table
    if table is None:
        return
    if table.common and titled:
        yield Text(f"All rows: {table.common}", style="dim")
    yield from _lines(table, width)
    if titled:
        for reason in table.missing[:MOST_REASONS]:
            yield Text(f"- {reason}", style="dim")
        if len(table.missing) > MOST_REASONS:
            yield Text(
                f"- and {len(table.missing) - MOST_REASONS} more reasons in the HTML report", style="dim"
            )


def _lines(table: Table, width: int) -> Iterator["RenderableType"]:
    if [column.name for column in table.columns] == [""]:
        for row in table.rows:
            first, *others = wrapped(row[0].text, width - 2)
            yield from (f"- {first}", *(f"  {line}" for line in others))
        return
    for number, block in enumerate(fitting(table, width)):
        if number:
            yield ""
        yield from _grid(table, block, width, continued=number > 0)


def fitting(table: Table, width: int) -> list[list[int]]:
    """The columns by block: all in one if they fit, else blocks that each start with the columns of names."""
    keys = [i for i, column in enumerate(table.columns) if column.key]
    others = [i for i, column in enumerate(table.columns) if not column.key]
    blocks: list[list[int]] = []
    block = list(keys)
    for index in others:
        if len(block) > len(keys) and _total([_least(table, i) for i in [*block, index]]) > width:
            blocks.append(block)
            block = list(keys)
        block.append(index)
    return [*blocks, block]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _natural(table: Table, index: int) -> int:
    from rich.cells import cell_len

    return max(
        cell_len(text) for text in [table.columns[index].heading, *(r[index].text for r in table.rows)]
    )


def _least(table: Table, index: int) -> int:
    """The narrowest that a column should get: a number keeps its line, a name may wrap if it is long."""
    from rich.cells import cell_len

    column = table.columns[index]
    heading = min(COMFORT, max((cell_len(word) for word in column.heading.split()), default=1))
    widest = max(cell_len(row[index].text) for row in table.rows)
    return max(heading, widest if column.numeric else min(COMFORT, widest))


def _widths(table: Table, columns: Sequence[int], width: int) -> list[int]:
    """The width of every column of a block: the least, then what is left from the first column on.

    A screen too narrow for the least takes from the widest column until all fit.
    """
    widths = [_least(table, i) for i in columns]
    while _total(widths) > width and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    for place, index in enumerate(columns):
        room = width - _total(widths)
        widths[place] += max(0, min(room, _natural(table, index) - widths[place]))
    return widths


def _grid(table: Table, columns: Sequence[int], width: int, *, continued: bool) -> Iterator["RenderableType"]:
    from rich.text import Text

    widths = _widths(table, columns, width)
    aligned = [(w, table.columns[i].align == "right") for w, i in zip(widths, columns, strict=True)]
    yield from (
        Text(line, style="bold") for line in _line([table.columns[i].heading for i in columns], aligned, True)
    )
    for row in table.rows:
        # Further columns are for the rows that have something in them.
        if continued and all(row[i].text == MISSING for i in columns if not table.columns[i].key):
            continue
        yield from _line([row[i].text for i in columns], aligned, False)


def _line(texts: Sequence[str], aligned: Sequence[tuple[int, bool]], bottom: bool) -> Iterator[str]:
    """The lines of one row; a heading stands at the bottom of its place."""
    from rich.cells import cell_len

    cells = [wrapped(text, width) for text, (width, _) in zip(texts, aligned, strict=True)]
    height = max(map(len, cells))
    for number in range(height):
        parts = []
        for lines, (width, right) in zip(cells, aligned, strict=True):
            place = number - (height - len(lines) if bottom else 0)
            text = lines[place] if 0 <= place < len(lines) else ""
            fill = " " * (width - cell_len(text))
            parts.append(fill + text if right else text + fill)
        yield (" " * GAP).join(parts).rstrip()


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most `width` cells, broken at spaces and after the marks inside a name."""
    from rich.cells import cell_len, chop_cells

    lines, line = [], ""
    for piece in BREAKS.findall(text):
        if cell_len(line + piece.rstrip()) <= width:
            line += piece
            continue
        if line.strip():
            lines.append(line.rstrip())
        *whole, line = chop_cells(piece, width) if cell_len(piece.rstrip()) > width else [piece]
        lines += whole
    return [*lines, line.rstrip()]
