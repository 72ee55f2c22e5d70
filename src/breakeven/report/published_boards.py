"""The best published rate of the board that was measured here.

Knows nothing about how rows are chosen.
"""

from collections.abc import Sequence

from breakeven.analysis.published_boards import BoardBeside
from breakeven.report import words
from breakeven.report.names import Names
from breakeven.report.view import Cell, Column, Row, Section, build_table, label, number, said

NOTE = (
    "How far the fastest case here is from the fastest that was published of the same kind of board, with "
    "the same net, task and image size. All else may be unlike: what is stands beside it. There / here holds "
    "batch, precision, program and host at once, and is no ratio of equal work."
)


def boards(found: Sequence[BoardBeside], names: Names) -> Section | None:
    columns = [
        *map(label, ("model", "task", "board")),
        number("here", "1/s"),
        Column(name="with"),
        number("there", "1/s"),
        number("there / here"),
        Column(name="unlike there"),
        Column(name="source"),
    ]
    table = build_table(columns, [_row(one, names) for one in found])
    if table is None:
        return None
    title = "The best published of the same board"
    return Section(key="published-boards", title=title, note=NOTE, table=table)


def _row(one: BoardBeside, names: Names) -> Row:
    row = one.row
    processes = f"{one.processes} process{'es' if one.processes != 1 else ''}"
    mine = f"{names.device(one.device).text}, {one.tuning}, batch {one.batch}"
    return (
        said(one.model),
        said(one.task),
        said(row.processor),
        words.rate(one.rate)._replace(note=processes, evidence=one.evidence),
        said(mine, evidence=one.evidence),
        words.rate(row.value)._replace(note=row.conditions),
        Cell(text=f"{one.quotient:.2g}", sort=one.quotient),
        said("; ".join(one.unlike), note=row.conditions),
        said(row.collection, note=row.place),
    )
