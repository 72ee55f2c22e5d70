"""Sections about where a step's time goes: shares with what bounds it, parts in milliseconds, the floor.

Knows nothing about how a share or a label is worked out.
"""

from collections.abc import Iterator, Mapping, Sequence

from breakeven.analysis.bounds import RULES
from breakeven.analysis.findings import CaseFinding, ShareFinding, Understanding
from breakeven.analysis.shares import PARTS
from breakeven.report import words
from breakeven.report.marks import share_chart
from breakeven.report.names import Names, naming
from breakeven.report.roofline import roofline_chart
from breakeven.report.view import Cell, Column, Row, Section, absent, build_table, number, said

COLUMNS = {
    "input": ("data_wait", "cut"),
    "copy": ("copy",),
    "fwd": ("forward",),
    "bwd": ("backward",),
    "opt": ("optimizer",),
    "rest": ("other",),
}
"""Columns of the shares, each with the parts that it sums."""
LEAST_MS = 0.001
"""Shorter than any clock tells."""
READING = (
    "Percent of a step. input: waiting for the batch, or cutting it from data on the device (no wait counts "
    "while the device works); copy: the batch's way to the device; fwd, bwd, opt: forward, backward, "
    "optimizer; "
    "rest: reading the loss, and when neither host nor device was at a part. "
)


def where_time_goes(understanding: Understanding, names: Names) -> Section | None:
    """The shares of a step and what bounds it, thresholds included."""
    columns = [*names.columns, Column(name="bound by")]
    columns += map(number, COLUMNS)
    rows: list[Row] = []
    for case, found in told(understanding):
        cells = [_share(found, parts) for parts in COLUMNS.values()]
        rows.append((*naming(case, names), bound_by(found), *cells))
    table = build_table(columns, rows)
    if table is None:
        return None
    chart = share_chart(understanding, names)
    return Section(
        key="shares",
        title="Where a step's time goes",
        note=READING + RULES,
        table=table,
        chart=chart,
    )


def bounds(understanding: Understanding, names: Names) -> Section | None:
    """What a label rests on: launches, floor, intensity."""
    columns = [
        *names.columns,
        Column(name="bound by"),
        number("launches"),
        number("floor"),
        number("of the step"),
        number("traffic's part"),
        number("intensity", "FLOP/byte"),
        Column(name="why"),
    ]
    known = list(told(understanding))
    rows = [(*naming(case, names), *_bound_cells(found)) for case, found in known]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "launches: the share of a step that capturing the same tuning saves. floor: the sum over layers of "
        "max(FLOPs / measured peak, bytes / measured bandwidth), each tensor read and written once a pass by "
        "unfused layers; fused kernels and caches can be faster than that. The roof of the chart is of a "
        "step as a whole, which allows more than its layers one by one."
    )
    chart = roofline_chart(known, names)
    return Section(
        key="bounds",
        title="What bounds a step",
        note=note,
        table=table,
        chart=chart,
        detail=True,
    )


def parts(understanding: Understanding, names: Names) -> Section | None:
    """Milliseconds of every part, twice: as the host spends them, and alone."""
    columns = [*names.columns, Column(name="time", key=True), *(number(_plain(part), "ms") for part in PARTS)]
    rows: list[Row] = []
    for case, found in told(understanding):
        for kind, times in (("exposed", found.exposed_ms), ("busy", found.busy_ms)):
            if times:
                rows.append((*naming(case, names), said(kind), *(_ms(times, part, found) for part in PARTS)))
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "exposed: the host's time in each part of steps that run as usual; sync is the wait at the end of a "
        "block, and all add up to a step. busy: each part alone, host and device, waited for; these need not "
        "add up, as in a step the host runs ahead. Timed in steps of their own."
    )
    return Section(key="parts", title="The parts of a step", note=note, table=table, detail=True)


def told(understanding: Understanding) -> Iterator[tuple[CaseFinding, ShareFinding]]:
    """Each case with what is known of its steps; nothing where no step of any case was told apart."""
    known = {(s.source, s.case_id): s for s in understanding.shares}
    if not any(s.shares or s.label != "cannot tell" for s in understanding.shares):
        return
    for case in understanding.cases:
        found = known.get((case.source, case.case_id))
        if found is not None:
            yield case, found


def bound_by(found: ShareFinding) -> Cell:
    """The label, with what it rests on, or why there is none."""
    if found.label == "cannot tell":
        return absent(found.why)
    return said(found.label, note=found.why, evidence=found.evidence)


def _share(found: ShareFinding, parts: Sequence[str]) -> Cell:
    seen = [found.shares[part] for part in parts if part in found.shares]
    if not seen:
        return absent("" if found.shares else found.reasons.get("shares", ""))
    share = sum(seen)
    return Cell(text=words.percent(share).removesuffix(" %"), sort=share, evidence=found.evidence)


def _bound_cells(found: ShareFinding) -> tuple[Cell, ...]:
    floor, of_floor = found.floor_s, found.reasons.get("floor_s", "")
    return (
        bound_by(found),
        _launches(found),
        words.seconds(None, floor, reason=of_floor, evidence=found.evidence),
        absent(of_floor) if floor is None else _percent(floor / found.step_s),
        absent(of_floor) if found.floor_memory_share is None else _percent(found.floor_memory_share),
        words.amount(found.flops_per_byte, "", of_floor),
        said(found.why),
    )


def _launches(found: ShareFinding) -> Cell:
    interval, point = found.launch_share, found.launch_share_point
    why = found.reasons.get("launch_share", "")
    if point is None:
        return absent(why)
    if interval is None:
        return Cell(text=f"about {words.percent(point)}", sort=point, note=why, evidence=found.evidence)
    low, mid, high = (round(100 * value) for value in (interval.low, interval.estimate, interval.high))
    text = f"{mid} % [{low}, {high}]"
    return Cell(text=text, sort=point, note=words.behind(interval), evidence=found.evidence)


def _percent(share: float) -> Cell:
    return Cell(text=words.percent(share), sort=share)


def _ms(times: Mapping[str, float], part: str, found: ShareFinding) -> Cell:
    value = times.get(part)
    if value is None:
        return absent()
    text = words.significant(value, 3) if value >= LEAST_MS else f"<{LEAST_MS}"
    return Cell(text=text, sort=value, evidence=found.evidence)


def _plain(part: str) -> str:
    return part.replace("_", " ")
