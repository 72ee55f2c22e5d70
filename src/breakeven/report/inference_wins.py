"""Sections about what wins: the fastest and by what, each precision in a runtime, each runtime at one.

Knows nothing about how a factor is worked out or drawn.
"""

from collections.abc import Callable, Sequence

from breakeven.analysis.findings import Understanding
from breakeven.analysis.inference_findings import FactorFinding, GainFinding
from breakeven.records.case import PRECISIONS
from breakeven.report import words
from breakeven.report.inference_cells import PLACE, agreement, place
from breakeven.report.inference_marks import factor_chart
from breakeven.report.names import Names, tuning_rank
from breakeven.report.view import Cell, Column, Row, Section, absent, build_table, clean, label, number, said


def gains(understanding: Understanding, names: Names) -> Section | None:
    """What the fastest wins over eager FP32, and how much of that each factor is."""
    columns = [
        *map(label, PLACE),
        Column(name="from"),
        Column(name="to the fastest"),
        number("times as fast"),
        Column(name="verdict"),
        number("by precision"),
        number("by runtime"),
        number("same top-1"),
    ]
    rows = [_gain_cells(g, understanding, names) for g in understanding.inference.gains]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "Rates at equal work. Where both precision and runtime differ the number is mixed: the two factors "
        "multiply to it, through the fastest's runtime at the precision that it is set against (or the other "
        "way round). The fastest is chosen and timed by the same processes."
    )
    chart = factor_chart(understanding, names)
    return Section(
        key="gains",
        title="What the fastest wins, and by what",
        note=note,
        table=table,
        chart=chart,
    )


def _gain_cells(g: GainFinding, understanding: Understanding, names: Names) -> Row:
    best = understanding.inference.of(g.source, g.best_id)
    whole = g.whole
    apart = g.reasons.get("between", "")
    return (
        *place(g, names),
        said(f"{whole.base_name} {whole.base_precision}"),
        said(f"{whole.candidate_name} {whole.candidate_precision}", note=f"of {g.candidates} cases"),
        _ratio(whole),
        said(whole.verdict) if whole.verdict else absent(_why_open(whole)),
        _ratio(g.precision) if g.precision else absent(g.reasons.get("precision") or apart),
        _ratio(g.runtime) if g.runtime else absent(g.reasons.get("runtime") or apart),
        agreement(best.outputs) if best else absent(),
    )


def _why_open(f: FactorFinding) -> str:
    return f.reasons.get("verdict") or f.reasons.get("ratio", "")


def _ratio(f: FactorFinding) -> Cell:
    return words.ratio(f.ratio, f.point, reason=f.reasons.get("ratio", ""), evidence=f.evidence)


def precisions(understanding: Understanding, names: Names) -> Section | None:
    """What each precision wins in one runtime: a column a precision."""
    found = [f for f in understanding.inference.factors if f.kind == "precision"]
    heads = sorted({f.candidate_precision for f in found}, key=PRECISIONS.index)
    columns = [*map(label, (*PLACE, "tuning", "over")), *map(number, heads)]
    rows = _crossed(
        found,
        lambda f: (*place(f, names), said(f.base_name, tuning_rank(f.base_name)), said(f.base_precision)),
        lambda f: f.candidate_precision,
        heads,
    )
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "Times the rate at another precision, with runtime and execution as they are. What it costs stands "
        "under What the outputs are worth."
    )
    return Section(key="precisions", title="What a precision wins", note=note, table=table)


def runtimes(understanding: Understanding, names: Names) -> Section | None:
    """What each runtime and execution wins at one precision: a column each."""
    found = [f for f in understanding.inference.factors if f.kind == "runtime"]
    heads = sorted({f.candidate_name for f in found}, key=tuning_rank)
    columns = [*map(label, (*PLACE, "precision", "over")), *(number(clean(head)) for head in heads)]
    rows = _crossed(
        found,
        lambda f: (*place(f, names), said(f.base_precision), said(f.base_name, tuning_rank(f.base_name))),
        lambda f: f.candidate_name,
        heads,
    )
    table = build_table(columns, rows)
    if table is None:
        return None
    note = "Times the rate in another runtime or execution (fusion, capturing), at the precision as it is."
    return Section(key="runtimes", title="What a runtime wins", note=note, table=table)


def _crossed(
    found: Sequence[FactorFinding],
    row_of: Callable[[FactorFinding], Row],
    column_of: Callable[[FactorFinding], str],
    heads: Sequence[str],
) -> list[Row]:
    """The ratios as a table: what names the row, then one cell a heading."""
    rows: dict[Row, dict[str, FactorFinding]] = {}
    for f in found:
        rows.setdefault(row_of(f), {}).setdefault(column_of(f), f)
    return [
        (*row, *(_judged(mine[head]) if head in mine else absent() for head in heads))
        for row, mine in rows.items()
    ]


def _judged(f: FactorFinding) -> Cell:
    """The ratio, its verdict in the note."""
    cell = _ratio(f)
    why = f.verdict or f.reasons.get("verdict", "")
    return cell._replace(note=clean("; ".join(filter(None, [cell.note, why]))))


def factors(understanding: Understanding, names: Names) -> Section | None:
    """Every precision against FP32 in its runtime, every runtime against eager at its precision."""
    columns = [
        *map(label, PLACE),
        label("differs"),
        label("from"),
        label("to"),
        number("rate"),
        Column(name="verdict"),
        number("single call"),
        number("n"),
        number("pays back", "calls"),
    ]
    rows = [_factor_cells(f, names) for f in understanding.inference.factors]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "Times the rate, and times as fast a single call, where one thing alone differs: the precision "
        "in one runtime and execution, or those at one precision. Paired by replicate; Holm's correction "
        "runs over those of one model, batch and device. pays back: calls until what is built before the "
        "first one is paid for."
    )
    title = "Precision and runtime, kept apart"
    return Section(key="factors", title=title, note=note, table=table, detail=True)


def _factor_cells(f: FactorFinding, names: Names) -> Row:
    # What does not differ is said once: in the first name.
    second = f.candidate_precision if f.kind == "precision" else f.candidate_name
    return (
        *place(f, names),
        said(f.kind),
        said(f"{f.base_name} {f.base_precision}"),
        said(second),
        _ratio(f),
        said(f.verdict) if f.verdict else absent(_why_open(f)),
        words.ratio(f.calls, reason=f.reasons.get("calls", "")),
        words.count(f.ratio.n if f.ratio else None),
        _pays_back(f),
    )


def _pays_back(f: FactorFinding) -> Cell:
    if f.pays_back is None:
        return absent(f.reasons.get("pays_back", ""))
    low, mid, high = (words.significant(v) for v in (f.pays_back.low, f.pays_back.estimate, f.pays_back.high))
    return Cell(text=f"{mid} [{low}, {high}]", sort=f.pays_back.estimate)
