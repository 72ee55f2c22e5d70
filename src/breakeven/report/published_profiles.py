"""Published profiles beside those made here, with what their columns are.

Knows nothing about how operators are paired.
"""

from collections.abc import Iterable, Sequence

from breakeven.analysis.published_profiles import OperatorBeside, ProfileBeside
from breakeven.catalog.facts import sources
from breakeven.catalog.published_operators import PublishedProfile
from breakeven.report import words
from breakeven.report.names import Names
from breakeven.report.view import Cell, Column, Row, Section, absent, build_table, clean, label, number, said

READING = (
    "Total times, each row holding those below it, with their share of the first row's. Host and device are "
    "the two columns of one run: the time of the host's threads in an operator, of a GPU issuing its work "
    "and waiting, and that of the kernels that it launched. Neither is another device's: one over the other "
    "is no CPU against a GPU. Batch and number of steps are not said there: times there and here are of no "
    "equal work, only shares of one column can be compared."
)


def profiles(found: Sequence[ProfileBeside], names: Names) -> Section | None:
    """One row a published operator and case, whole first."""
    columns = [
        *map(label, ("source", "model", "task", "device", "tuning", "batch")),
        Column(name="operator there"),
        Column(name="here"),
        *map(number, ("host there", "host here", "device there", "device here")),
        *map(number, ("device memory there", "host memory there")),
    ]
    table = build_table(columns, [_row(one, row, names) for one in found for row in one.rows])
    if table is None:
        return None
    note = " ".join([READING, *_said_of(dict.fromkeys(one.there for one in found))])
    title = "Published profiles beside those here"
    return Section(key="published-profiles", title=title, note=note, table=table)


def _row(one: ProfileBeside, beside: OperatorBeside, names: Names) -> Row:
    row = beside.row
    missing = "this profile has no operator of that place"
    if row.kind == "kernel":
        missing = "a kernel of the board and libraries there"
    idle = "nothing is launched on a CPU" if not one.on_device else missing
    return (
        said(f"{one.there.collection}, {one.there.place}"),
        said(one.model, note=f"{one.there.printed_model} there"),
        said(one.task, note=f"{one.there.task or 'not said'} there"),
        names.device(one.device),
        said(one.tuning),
        said(one.batch, one.batch),
        said(row.operator, note=row.kind),
        said(beside.name) if beside.name else absent(missing),
        _time(row.host_ms / 1e3, beside.host_share_there, note=f"{one.there.host_heading} there"),
        _time(beside.host_s, beside.host_share, missing, evidence=one.evidence),
        _time(row.device_ms / 1e3, beside.device_share_there, note=f"{one.there.device_heading} there"),
        _time(beside.device_s, beside.device_share, idle, evidence=one.evidence),
        said(row.device_memory) if row.device_memory else absent(),
        said(row.host_memory) if row.host_memory else absent(),
    )


def _time(
    seconds: float | None,
    share: float | None,
    missing: str = "",
    *,
    note: str = "",
    evidence: Iterable[str] = (),
) -> Cell:
    """A duration with its share of the column's whole: `609 ms, 72 %`."""
    if seconds is None:
        return absent(missing)
    plain = words.seconds(None, seconds)
    text = plain.text if share is None else f"{plain.text}, {words.percent(share)}"
    return Cell(text=text, sort=seconds, note=clean(note), evidence=tuple(evidence))


def _said_of(there: Iterable[PublishedProfile]) -> list[str]:
    """What is to be known of each printed table, worked out from its own rows; each source is named once."""
    told: list[str] = []
    named: set[str] = set()
    for one in there:
        whole, known = one.whole, sources()[one.collection]
        if known.source not in named:
            named.add(known.source)
            told.append(f"{known.source}: {known.title} ({known.address}, {known.licence}).")
        told.append(
            f"{one.place} calls the columns {one.host_heading} and {one.device_heading}: {whole.host_ms:g} "
            f"over {whole.device_ms:g} ms ({words.significant(whole.host_ms / whole.device_ms)}x) is host "
            "over kernels of one GPU run, for the same operators have both."
        )
        if one.task is None:
            told.append(f"It does not say what was computed; its whole is called {whole.operator}.")
        if outgrown := one.outgrown():
            most = max(outgrown, key=lambda row: row.host_ms)
            told.append(
                f"{most.operator} has {words.significant(most.host_ms / whole.host_ms)} times the host time "
                f"of the {whole.operator} that holds it: that column does not count one stretch throughout."
            )
        if freed := one.freed():
            names = words.joined(row.operator for row in freed)
            told.append(
                f"Memory is allocated less freed: {names}, below zero, freed more than it allocated itself, "
                "which no amount in use can be."
            )
    return [clean(text) for text in told]
