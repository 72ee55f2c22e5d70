"""A report as lines for a terminal, never wider than asked.

Knows nothing about files or the terminal's own size. A table that is too wide wraps its names first, and is
then cut into blocks of columns that each repeat the names.
"""

import re
from collections.abc import Iterator, Sequence

from breakeven.report.view import MISSING, Report, Section, Table

Piece = tuple[str, str]
"""Words, which wrap, and their style."""
PLAIN, HEADING, QUIET, WARNING = "", "bold", "dim", "bold yellow"
BLANK: Piece = ("", PLAIN)
GAP = 2
MOST_REASONS = 6
BRIEF = ("times", "gains", "inference")
"""Sections that the screen after a run may show where nothing was compared: the first that is there."""
# Names up to this stay on one line (as long as `resnet18-cifar`); longer ones wrap.
COMFORT = 14
WORDS = re.compile(r"\S+\s*|\s+")
PARTS = re.compile(r"^_+[^-\s_/:.,]*[-_/:.,]*\s*|[^-\s_/:.,]*[-_/:.,]+\s*|[^-\s_/:.,]+\s*")
HUMPS = re.compile(r".+?(?:(?<=[a-z])(?=[A-Z])|$)", re.DOTALL)
"""The parts of `_MklConv2DBackpropFilter`, each from a capital on."""


def text(report: Report, width: int = 80, colour: bool = False, *, brief: bool = False) -> str:
    """The report as text. `brief` is the screen after a run: speed-ups (else times), verdict, warnings."""
    from io import StringIO

    from rich.console import Console
    from rich.text import Text

    out = StringIO()
    # Height given too: without it rich takes a dumb terminal for 80 columns, whatever was asked.
    console = Console(
        file=out, width=width, height=25, force_terminal=colour, no_color=not colour,
        color_system="standard" if colour else None, legacy_windows=False, highlight=False,
    )  # fmt: skip
    for words, style in _pieces(report, width, brief=brief):
        for line in wrapped(words, width):
            console.print(Text(line, style=style))
    return out.getvalue().rstrip("\n") + "\n"


def _pieces(report: Report, width: int, *, brief: bool) -> Iterator[Piece]:
    if report.banner:
        yield report.banner, WARNING
    if not brief:
        yield report.title, HEADING
        yield "; ".join(report.facts), QUIET
        yield BLANK
    first = [section for section in report.sections if section.key == "summary"]
    rest = [s for s in report.sections if s.key != "summary" and s.table is not None and not s.detail]
    for section in first:
        yield from _section(section, width, badge=report.badge, titled=not brief)
    if first and not brief:
        yield BLANK
    yield from _verdict(report, brief=brief)
    if brief:
        if not first:
            for section in [s for s in rest if s.key in BRIEF][:1]:
                yield from _section(section, width, badge=report.badge, titled=False)
        yield from ((f"Beware: {warning}.", WARNING) for warning in report.warnings)
    else:
        for section in rest:
            yield BLANK
            yield from _section(section, width, badge=report.badge, titled=True)
    if report.footnotes and not brief:
        yield BLANK
    yield from ((note, QUIET) for note in report.footnotes)


def _verdict(report: Report, *, brief: bool) -> Iterator[Piece]:
    """The sentences; before them, where no line of facts came first, what holds for every case."""
    if brief and report.common:
        yield f"All: {report.common}.", QUIET
    yield from ((sentence, PLAIN) for sentence in (*report.before, *report.sentences))


def _section(section: Section, width: int, *, badge: str, titled: bool) -> Iterator[Piece]:
    if titled:
        yield section.title + (f" [{badge}]" if badge else ""), HEADING
        if section.note:
            yield section.note, QUIET
    table = section.table
    if table is None:
        return
    if table.common and (titled or section.key in BRIEF):
        yield f"All rows: {table.common}", QUIET
    yield from _lines(table, width)
    if titled:
        yield from ((f"- {reason}", QUIET) for reason in table.missing[:MOST_REASONS])
        if len(table.missing) > MOST_REASONS:
            more = len(table.missing) - MOST_REASONS
            yield f"- and {more} more reasons, in the other formats", QUIET


def _lines(table: Table, width: int) -> Iterator[Piece]:
    if table.is_list:
        for row in table.rows:
            first, *others = wrapped(row[0].text, width - 2)
            yield from ((line, PLAIN) for line in (f"- {first}", *(f"  {line}" for line in others)))
        return
    for number, block in enumerate(fitting(table, width)):
        if number:
            yield BLANK
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
    """The width of every column of a block: the least, then the rest to names and to the longest texts.

    A screen too narrow for the least takes from the widest column until all fit.
    """
    widths = [_least(table, i) for i in columns]
    while _total(widths) > width and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    natural = [_natural(table, index) for index in columns]
    texts = [p for p, i in enumerate(columns) if not (table.columns[i].key or table.columns[i].numeric)]
    numbers = [p for p, i in enumerate(columns) if table.columns[i].numeric]

    def widen(place: int, most: int) -> None:
        room = min(most, width - _total(widths))
        widths[place] += max(0, min(room, natural[place] - widths[place]))

    for place in (p for p, i in enumerate(columns) if table.columns[i].key):
        widen(place, width)
    for _ in range(width if texts else 0):
        # A cell at a time to the text that wraps most.
        widen(max(texts, key=lambda place: natural[place] / widths[place]), 1)
    for place in numbers:
        widen(place, width)
    return widths


def _grid(table: Table, columns: Sequence[int], width: int, *, continued: bool) -> Iterator[Piece]:
    widths = _widths(table, columns, width)
    aligned = [(w, table.columns[i].align == "right") for w, i in zip(widths, columns, strict=True)]
    headings = [table.columns[i].heading for i in columns]
    yield from ((line, HEADING) for line in _line(headings, aligned, bottom=True))
    for row in table.rows:
        # Further columns are for the rows that have something in them.
        if continued and all(row[i].text == MISSING for i in columns if not table.columns[i].key):
            continue
        yield from ((line, PLAIN) for line in _line([row[i].text for i in columns], aligned))


def _line(
    texts: Sequence[str], aligned: Sequence[tuple[int, bool]], *, bottom: bool = False
) -> Iterator[str]:
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
    """The text in lines of at most `width` cells: broken at spaces, in a long name after its marks."""
    from rich.cells import cell_len

    lines, line = [], ""
    for piece in _breakable(text, width):
        if line and cell_len(line + piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = piece.lstrip()
        else:
            line += piece
    return [*lines, line.rstrip()]


def _breakable(text: str, width: int) -> Iterator[str]:
    """Words with the spaces behind them; a word too long as its parts, a part too long as it comes."""
    from rich.cells import cell_len, chop_cells

    for word in WORDS.findall(text):
        if cell_len(word.rstrip()) <= width:
            yield word
            continue
        for part in PARTS.findall(word):
            for hump in [part] if cell_len(part.rstrip()) <= width else HUMPS.findall(part):
                yield from [hump] if cell_len(hump.rstrip()) <= width else chop_cells(hump, width)
