"""Published values beside the user's: of equal work, and why the others are not.

Knows nothing about how work is compared.
"""

from breakeven import units
from breakeven.analysis.published import Beside, PublishedFindings
from breakeven.report import published_boards, published_devices, published_profiles, words
from breakeven.report.names import Names
from breakeven.report.view import Cell, Column, Section, build_table, label, number, said

NOTE = (
    "Published rates of equal work: task, model, input size, batch, precision. Here / there holds both "
    "machines, programs and settings at once: no comparison of devices."
)


def sections(found: PublishedFindings, names: Names) -> tuple[Section, ...]:
    """What was published of equal work, what is read as ratios and shares alone, and what was refused."""
    made = (
        _beside(found, names),
        published_boards.boards(found.boards, names),
        published_devices.devices(found.devices, names),
        published_profiles.profiles(found.profiles, names),
        _refused(found),
    )
    return tuple(section for section in made if section is not None)


def _beside(found: PublishedFindings, names: Names) -> Section | None:
    columns = [
        *map(label, ("model", "task", "input", "batch", "precision")),
        Column(name="here"),
        number("rate here", "1/s"),
        Column(name="there"),
        number("rate there", "1/s"),
        number("here / there"),
        Column(name="run there with"),
        Column(name="source"),
    ]
    table = build_table(columns, [_row(one, names) for one in found.beside])
    if table is None:
        return None
    return Section(key="published", title="Published values of equal work", note=NOTE, table=table)


def _row(one: Beside, names: Names) -> tuple[Cell, ...]:
    row = one.row
    driven = row.framework or row.execution or "not said"
    if row.execution == "compiled":
        driven += ", compiled"
    interval = f"n = {one.interval.n}" if one.interval else "one process"
    return (
        said(one.model),
        said(one.task),
        said("x".join(map(str, one.input_shape))),
        said(one.batch, one.batch),
        said(one.precision),
        said(f"{names.device(one.device).text}, {one.tuning}", evidence=one.evidence),
        Cell(text=words.significant(one.rate), sort=one.rate, note=interval, evidence=one.evidence),
        said(row.processor or row.device, note=row.device),
        Cell(text=words.significant(row.value), sort=row.value, note=row.conditions),
        Cell(text=f"{one.quotient:.2g}", sort=one.quotient),
        said(driven, note=row.conditions),
        said(row.collection, note=row.place),
    )


def _refused(found: PublishedFindings) -> Section | None:
    columns = [label("model"), number("rows"), Column(name="why not set beside it"), Column(name="source")]
    rows = [
        (
            said(one.model),
            Cell(text=units.format_count(one.rows), sort=one.rows),
            said(one.reason),
            said(", ".join(one.collections)),
        )
        for one in found.refused
    ]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = "Rows of the same model whose work differs, by the first difference. Unknown is never equal."
    return Section(key="published-refused", title="Published, but of other work", note=note, table=table)
