"""Sections about inference: rate and latency, what wins and by what, saturation, the frontier, the outputs.

Knows nothing about how a finding is worked out or drawn.
"""

import dataclasses
from collections.abc import Callable, Sequence

from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.analysis.inference_findings import (
    FactorFinding,
    FrontierFinding,
    FrontierPoint,
    GainFinding,
    InferenceFinding,
    LaterFinding,
    Outputs,
    Quantile,
    Reach,
    SaturationFinding,
)
from breakeven.analysis.inference_saturation import span
from breakeven.analysis.naming import without_numerics
from breakeven.records.case import PRECISIONS
from breakeven.report import words
from breakeven.report.inference_marks import factor_chart, frontier_chart, saturation_chart
from breakeven.report.names import Names, tuning_rank
from breakeven.report.view import Cell, Column, Row, Section, absent, build_table, clean, label, number, said
from breakeven.stats import Interval
from breakeven.units import format_duration

KEYS = ("model", "device", "tuning", "precision", "batch", "data", "seed")
PLACE = ("model", "device", "batch", "data", "seed")
QUANTILES = {0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p99.9"}
RANDOM = "random weights"


def rates(understanding: Understanding, names: Names) -> Section | None:
    """Rate and single calls, per case."""
    columns = [
        *map(label, KEYS),
        number("images", "1/s"),
        number("interval"),
        *(number(name) for name in QUANTILES.values()),
        number("first call"),
        number("energy an image"),
        number("floor"),
        number("same top-1"),
        Column(name="flags"),
    ]
    rows = [_rate_cells(found, case, names) for found, case in _told(understanding) if _has_number(found)]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "images: pipelined, all of them over all the time. p50 to p99.9: single calls of one caller, who "
        "waits for each, of all processes together; a cell's note holds the interval of the processes' own "
        "quantiles. first call: the first of a process, after what is built. floor: the least time of the "
        "layers at the measured ceilings, as a share of a pipelined call. same top-1: as the runtime's own "
        "FP32. Times taken on a CPU are for orientation: the ratios within this run are the result."
    )
    return Section(key="inference", title="Rate and latency", note=note, table=table)


def _told(understanding: Understanding) -> list[tuple[InferenceFinding, CaseFinding]]:
    known = {(c.source, c.case_id): c for c in understanding.cases}
    found = understanding.inference.cases
    return [(f, known[f.source, f.case_id]) for f in found if (f.source, f.case_id) in known]


def _has_number(found: InferenceFinding) -> bool:
    return found.images_per_s_point is not None


def _naming(case: CaseFinding, names: Names) -> Row:
    work, tuning = case.case.work, case.case.tuning
    name = without_numerics(case.tuning_name)
    return (
        said(work.model),
        names.device(case.device_label),
        said(name, tuning_rank(name)),
        said(tuning.precision, note=tuning.calibration or ""),
        said(work.batch, work.batch),
        said(work.data),
        said(work.seed, work.seed),
    )


def _rate_cells(found: InferenceFinding, case: CaseFinding, names: Names) -> Row:
    why = found.reasons.get("images_per_s", "")
    rate = found.images_per_s.estimate if found.images_per_s else found.images_per_s_point
    shown = words.rate(rate, reason=why)
    return (
        *_naming(case, names),
        Cell(text=shown.text, sort=shown.sort, note=shown.note, evidence=found.evidence),
        words.spread(found.images_per_s, why),
        *(_quantile(found.quantile(p), found) for p in QUANTILES),
        words.seconds(found.cold_s, found.cold_point_s, reason=found.reasons.get("cold_s", "")),
        _energy(found),
        absent(found.reasons.get("floor_s", ""))
        if found.share_of_floor is None
        else Cell(text=words.percent(found.share_of_floor), sort=found.share_of_floor),
        _agreement(found.outputs),
        said(", ".join(case.flags)) if case.flags else absent(),
    )


def _quantile(q: Quantile, found: InferenceFinding) -> Cell:
    """The quantile of all calls, the median from the processes' own; the interval in its note."""
    value = q.interval.estimate if q.p == 0.5 and q.interval else q.value_s
    if value is None:
        return absent(found.reasons.get("calls") or q.reason or "")
    spread = words.describe(q.interval, format_duration) if q.interval else (q.reason or "")
    note = f"{found.calls:,} calls; {spread}"
    return Cell(text=format_duration(value), sort=value, note=clean(note), evidence=found.evidence)


def _energy(found: InferenceFinding) -> Cell:
    value = found.j_per_image.estimate if found.j_per_image else found.j_per_image_point
    if value is None:
        return absent(found.reasons.get("j_per_image", ""))
    text = f"{words.significant(1e3 * value, 3)} mJ" if value < 1 else f"{words.significant(value, 3)} J"
    note = words.behind(found.j_per_image) if found.j_per_image else "no interval"
    return Cell(text=text, sort=value, note=note, evidence=found.evidence)


def _agreement(outputs: Outputs) -> Cell:
    if outputs.agreement is None:
        return absent(outputs.reasons.get("agreement", ""))
    told = RANDOM if outputs.random and RANDOM not in outputs.note else ""
    note = clean(", ".join(filter(None, [outputs.note, told])))
    text = f"{100 * outputs.agreement:.1f} %"
    return Cell(text=text, sort=outputs.agreement, note=note, evidence=outputs.evidence)


def gains(understanding: Understanding, names: Names) -> Section | None:
    """What the fastest wins over eager FP32, and how much of that each factor is."""
    columns = [
        *map(label, PLACE),
        Column(name="from"),
        Column(name="to the fastest"),
        number("times as fast"),
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
        alt_text=chart.alt_text if chart else "",
    )


def _place(found: FactorFinding | GainFinding, names: Names) -> Row:
    return (
        said(found.model),
        names.device(found.device_label),
        said(found.batch, found.batch),
        said(found.data),
        said(found.seed, found.seed),
    )


def _gain_cells(g: GainFinding, understanding: Understanding, names: Names) -> Row:
    best = understanding.inference.of(g.source, g.best_id)
    whole = g.whole
    apart = g.reasons.get("between", "")
    return (
        *_place(g, names),
        said(f"{whole.base_name} {whole.base_precision}"),
        said(f"{whole.candidate_name} {whole.candidate_precision}", note=f"of {g.candidates} cases"),
        _ratio(whole),
        _ratio(g.precision) if g.precision else absent(g.reasons.get("precision") or apart),
        _ratio(g.runtime) if g.runtime else absent(g.reasons.get("runtime") or apart),
        _agreement(best.outputs) if best else absent(),
    )


def _ratio(f: FactorFinding) -> Cell:
    return words.ratio(f.ratio, f.point, reason=f.reasons.get("ratio", ""), evidence=f.evidence)


def precisions(understanding: Understanding, names: Names) -> Section | None:
    """What each precision wins in one runtime: a column a precision."""
    found = [f for f in understanding.inference.factors if f.kind == "precision"]
    heads = sorted({f.candidate_precision for f in found}, key=PRECISIONS.index)
    columns = [*map(label, (*PLACE, "tuning", "over")), *map(number, heads)]
    rows = _crossed(
        found,
        lambda f: (*_place(f, names), said(f.base_name, tuning_rank(f.base_name)), said(f.base_precision)),
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
        lambda f: (*_place(f, names), said(f.base_precision), said(f.base_name, tuning_rank(f.base_name))),
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
    return dataclasses.replace(cell, note=clean("; ".join(filter(None, [cell.note, why]))))


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
        "runs over all of them. pays back: calls until what is built before the first one is paid for."
    )
    title = "Precision and runtime, kept apart"
    return Section(key="factors", title=title, note=note, table=table, detail=True)


def _factor_cells(f: FactorFinding, names: Names) -> Row:
    # What does not differ is said once: in the first name.
    second = f.candidate_precision if f.kind == "precision" else f.candidate_name
    return (
        *_place(f, names),
        said(f.kind),
        said(f"{f.base_name} {f.base_precision}"),
        said(second),
        _ratio(f),
        said(f.verdict) if f.verdict else absent(f.reasons.get("verdict") or f.reasons.get("ratio", "")),
        words.ratio(f.calls, reason=f.reasons.get("calls", "")),
        words.count(f.ratio.n if f.ratio else None),
        _pays_back(f),
    )


def _pays_back(f: FactorFinding) -> Cell:
    if f.pays_back is None:
        return absent(f.reasons.get("pays_back", ""))
    low, mid, high = (words.significant(v) for v in (f.pays_back.low, f.pays_back.estimate, f.pays_back.high))
    return Cell(text=f"{mid} [{low}, {high}]", sort=f.pays_back.estimate, evidence=f.evidence)


def saturation(understanding: Understanding, names: Names) -> Section | None:
    """From which batch a device is saturated, and the law behind it."""
    columns = [
        *map(label, ("model", "device", "tuning", "precision", "data", "seed")),
        number("B90"),
        number("B95"),
        number("best rate", "1/s"),
        number("at batch"),
        number("rate over latency"),
        number("largest"),
        number("too large"),
        Column(name="law"),
        number("knee"),
        number("floor"),
        number("limit", "1/s"),
    ]
    rows = [_saturation_cells(s, names) for s in understanding.inference.saturation]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "B90: the least measured batch whose rate reaches 90 % of the best one, with the least that might "
        "and the least that surely does. rate over latency: the batch with most of it. too large: the least "
        "batch that did not fit. Law: t = max(floor, c + batch / limit), t the pipelined time of a call; the "
        "knee is the batch up to which more images cost no time. line: no floor in sight; flat: nothing else."
    )
    chart = saturation_chart(understanding, names)
    return Section(
        key="saturation",
        title="Where the batch saturates the device",
        note=note,
        table=table,
        chart=chart,
        alt_text=chart.alt_text if chart else "",
    )


def _saturation_cells(s: SaturationFinding, names: Names) -> Row:
    why = s.reasons.get("law", "")
    loose = s.reasons.get("law_interval", "")
    law = s.law
    best = next(p for p in s.points if p.batch == s.best_batch)
    return (
        said(s.model),
        names.device(s.device_label),
        said(s.tuning_name, tuning_rank(s.tuning_name)),
        said(s.precision),
        said(s.data),
        said(s.seed, s.seed),
        _reach(s.reach(0.9), s),
        _reach(s.reach(0.95), s),
        words.rate(best.images_per_s),
        words.count(s.best_batch),
        words.count(s.balanced, "no single calls"),
        words.count(s.largest),
        words.count(s.oom_at, "every batch tried fits"),
        said(law.law, note=f"off by {words.percent(law.misfit)} at most") if law else absent(why),
        _figure(s.knee, law.knee if law else None, why, loose),
        words.seconds(s.floor_s, law.floor if law else None, reason=why or loose or "no floor in sight"),
        _figure(s.limit_per_s, law.rate if law else None, why, loose, digits=3),
    )


def _reach(reach: Reach, s: SaturationFinding) -> Cell:
    if reach.answer == "cannot be told" and reach.batch is None:
        return absent(reach.reason or "")
    first = reach.batch if reach.batch is not None else reach.low
    return Cell(text=span(reach), sort=first, note=clean(reach.reason or ""), evidence=s.evidence)


def _figure(interval: Interval | None, point: float | None, why: str, loose: str, digits: int = 2) -> Cell:
    """A figure of the law with its interval, else about what it is."""
    if interval is None:
        if point is None:
            return absent(why or "this law has none")
        return Cell(text=f"about {_rounded(point, digits)}", sort=point, note=clean(loose))
    low, mid, high = (_rounded(v, digits) for v in (interval.low, interval.estimate, interval.high))
    return Cell(text=f"{mid} [{low}, {high}]", sort=interval.estimate, note=words.behind(interval))


def _rounded(value: float, digits: int) -> str:
    """To so many digits, whole ones too: a fitted figure has no more."""
    return words.significant(float(f"{value:.{digits - 1}e}"), digits)


def later(understanding: Understanding, names: Names) -> Section | None:
    """Whether the faster of two devices saturates at a larger batch."""
    columns = [
        *map(label, ("model", "tuning", "precision")),
        Column(name="faster"),
        Column(name="slower"),
        number("times as fast"),
        Column(name="the faster saturates"),
        number("its B90"),
        number("the other's"),
    ]
    rows = [_later_cells(one, names) for one in understanding.inference.later]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "By the intervals of B90, where one device's best rate surely passes the other's. With the same cost "
        "of a launch the faster of two devices needs the larger batch."
    )
    return Section(key="later", title="Does a faster device saturate later?", note=note, table=table)


def _later_cells(one: LaterFinding, names: Names) -> Row:
    return (
        said(one.model),
        said(one.tuning_name, tuning_rank(one.tuning_name)),
        said(one.precision),
        names.device(one.faster),
        names.device(one.slower),
        Cell(text=f"{words.significant(one.rates)}x", sort=one.rates, note="of best rates, no interval"),
        said(one.answer, note=one.reason or "", evidence=one.evidence),
        said(span(one.faster_batch)),
        said(span(one.slower_batch)),
    )


def frontier(understanding: Understanding, names: Names) -> Section | None:
    """What no other case beats, by device."""
    known = {(c.source, c.case_id): c for c in understanding.cases}
    found = {(c.source, c.case_id): c for c in understanding.inference.cases}
    columns = [
        *map(label, ("model", "device", "tuning", "precision", "batch", "data", "seed")),
        number("a call"),
        number("images", "1/s"),
        number("energy an image"),
        number("same top-1"),
    ]
    rows = [
        (
            *_naming(known[f.source, p.case_id], names),
            words.seconds(None, p.call_s, reason="median of single calls", evidence=p.evidence),
            words.rate(p.images_per_s),
            _frontier_energy(p, f, found[f.source, p.case_id]),
            _agreement(found[f.source, p.case_id].outputs),
        )
        for f in understanding.inference.frontier
        for p in f.points
    ]
    table = build_table(columns, rows)
    if table is None:
        return None
    counts = ", ".join(
        f"{len(f.points)} of {f.candidates} on {names.devices[f.device_label]} ({f.model})"
        for f in understanding.inference.frontier
    )
    axes = words.joined(understanding.inference.frontier[0].axes)
    note = (
        f"Cases that no other of the same model on the same device beats in {axes} at once: {counts}. "
        "Less than 3 % is no difference. A larger latency buys rate; what an output is worth stands beside "
        "it. A case whose check failed is none of them."
    )
    chart = frontier_chart(understanding, names)
    return Section(
        key="frontier",
        title="What to choose from",
        note=clean(note),
        table=table,
        chart=chart,
        alt_text=chart.alt_text if chart else "",
    )


def _frontier_energy(p: FrontierPoint, f: FrontierFinding, found: InferenceFinding) -> Cell:
    return _energy(found) if p.j_per_image is not None else absent(f.reasons.get("energy", ""))


def outputs(understanding: Understanding, names: Names) -> Section | None:
    """What each case's outputs are worth beside FP32."""
    columns = [
        *map(label, KEYS),
        number("same top-1"),
        number("error"),
        number("against FP64"),
        number("accuracy"),
        number("in FP32"),
        Column(name="weights"),
        Column(name="left out"),
    ]
    told = _told(understanding)
    rows = [_output_cells(found, case, names) for found, case in told if found.outputs.evidence]
    table = build_table(columns, _over_batches(rows))
    if table is None:
        return None
    note = (
        "By a check of its own, untimed. same top-1: share of the images with the class of the runtime's own "
        "FP32; error: relative L2 of the logits against it; against FP64: the same against the declared "
        "layers in FP64, on a few images."
    )
    if any(f.outputs.random for f, _ in told):
        note += (
            " Random weights are those of an untrained net, whose classes lie closer than a trained one's."
        )
    return Section(key="outputs", title="What the outputs are worth", note=note, table=table)


def _over_batches(rows: Sequence[Row]) -> list[Row]:
    """One row for all batches that differ in nothing else."""
    place = KEYS.index("batch")
    alike: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        alike.setdefault(tuple(c.text for i, c in enumerate(row) if i != place), []).append(row)
    return [_joined(mine, place) for mine in alike.values()]


def _joined(rows: Sequence[Row], place: int) -> Row:
    """The first row, its batch the span of all, its cells with the evidence of all."""
    batches = [row[place] for row in rows]
    cells = list(rows[0])
    for i, cell in enumerate(cells):
        lines = tuple(dict.fromkeys(line for row in rows for line in row[i].evidence))
        cells[i] = dataclasses.replace(cell, evidence=lines)
    if len(rows) > 1:
        text = f"{batches[0].text} to {batches[-1].text}"
        note = ", ".join(batch.text for batch in batches)
        cells[place] = dataclasses.replace(batches[0], text=text, note=note)
    return tuple(cells)


def _output_cells(found: InferenceFinding, case: CaseFinding, names: Names) -> Row:
    o = found.outputs
    return (
        *_naming(case, names),
        _agreement(o),
        _error(o.output_error, o.reasons.get("output_error", "")),
        _error(o.reference_error, o.reasons.get("reference_error", "")),
        _accuracy(o.accuracy, o.reasons.get("accuracy", "")),
        _accuracy(o.fp32_accuracy, o.reasons.get("fp32_accuracy", "")),
        said("random" if o.random else "given", note=case.case.work.weights or ""),
        said(o.failed, note=o.failed) if o.failed else absent(),
    )


def _error(value: float | None, reason: str) -> Cell:
    return absent(reason) if value is None else Cell(text=f"{value:.2g}", sort=value)


def _accuracy(value: float | None, reason: str) -> Cell:
    return absent(reason) if value is None else Cell(text=f"{100 * value:.1f} %", sort=value)


def builds(understanding: Understanding, names: Names) -> Section | None:
    """What is built before the first call."""
    columns = [*map(label, KEYS), number("building"), Column(name="cache"), number("first call")]
    rows: Sequence[Row] = [
        (
            *_naming(case, names),
            words.seconds(None, found.build_s, reason="median over processes", evidence=found.evidence),
            said(found.build_state) if found.build_state else absent(),
            words.seconds(found.cold_s, found.cold_point_s, reason=found.reasons.get("cold_s", "")),
        )
        for found, case in _told(understanding)
        if found.build_s is not None
    ]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "Compiling, capturing or making a session, once a process, before the first call; how many calls pay "
        "it back stands with the factors."
    )
    return Section(key="sessions", title="What is built before the first call", note=note, table=table)
