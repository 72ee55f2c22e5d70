"""Sections about cases of inference: rate and latency, what outputs are worth, what is built, the frontier.

Knows nothing about how a finding is worked out or drawn.
"""

from collections.abc import Sequence

from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.analysis.inference import QUANTILES
from breakeven.analysis.inference_findings import FrontierFinding, FrontierPoint, InferenceFinding
from breakeven.report import words
from breakeven.report.inference_cells import KEYS, agreement, energy, naming_of, quantile, told
from breakeven.report.inference_marks import frontier_chart
from breakeven.report.names import Names
from breakeven.report.view import Cell, Column, Row, Section, absent, build_table, clean, label, number, said


def rates(understanding: Understanding, names: Names) -> Section | None:
    """Rate and single calls, per case."""
    columns = [
        *map(label, KEYS),
        number("images", "1/s"),
        number("interval"),
        *(number(f"p{100 * p:g}") for p in QUANTILES),
        number("first call"),
        number("energy an image"),
        number("floor"),
        number("same top-1"),
        Column(name="flags"),
    ]
    rows = [_rate_cells(found, case, names) for found, case in told(understanding) if _has_number(found)]
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


def _has_number(found: InferenceFinding) -> bool:
    return found.images_per_s_point is not None


def _rate_cells(found: InferenceFinding, case: CaseFinding, names: Names) -> Row:
    why = found.reasons.get("images_per_s", "")
    rate = found.images_per_s.estimate if found.images_per_s else found.images_per_s_point
    shown = words.rate(rate, why, found.images_per_s)
    return (
        *naming_of(case, names),
        Cell(text=shown.text, sort=shown.sort, note=shown.note, evidence=found.evidence),
        words.spread(found.images_per_s, why),
        *(quantile(found.quantile(p), found) for p in QUANTILES),
        words.seconds(found.cold_s, found.cold_point_s, reason=found.reasons.get("cold_s", "")),
        energy(found),
        absent(found.reasons.get("floor_s", ""))
        if found.share_of_floor is None
        else Cell(text=words.percent(found.share_of_floor), sort=found.share_of_floor),
        agreement(found.outputs),
        said(", ".join(case.flags)) if case.flags else absent(),
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
        number("n"),
    ]
    rows = [
        (
            *naming_of(known[f.source, p.case_id], names),
            words.seconds(None, p.call_s, reason="median of single calls", evidence=p.evidence),
            words.rate(p.images_per_s),
            _frontier_energy(p, f, found[f.source, p.case_id]),
            agreement(found[f.source, p.case_id].outputs),
            words.count(p.processes),
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
    axes = words.joined(dict.fromkeys(axis for f in understanding.inference.frontier for axis in f.axes))
    shared = any(f.disturbed for f in understanding.inference.frontier)
    note = (
        f"Cases that no other of the same model on the same device beats in {axes} at once: {counts}. "
        "Energy counts where it was read for all of them. Less than 3 % is no difference. A larger latency "
        "buys rate; what an output is worth stands beside it. A case whose check failed is none of them. "
        "n: processes."
    )
    for f in understanding.inference.frontier:
        if (why := f.reasons.get("choice")) is not None:
            note += f" By the estimates alone on {names.devices[f.device_label]} ({f.model}): {why}."
    note += " Something else used the machine in most processes of some cases." if shared else ""
    chart = frontier_chart(understanding, names)
    return Section(
        key="frontier",
        title="What to choose from",
        note=clean(note),
        table=table,
        chart=chart,
    )


def _frontier_energy(p: FrontierPoint, f: FrontierFinding, found: InferenceFinding) -> Cell:
    return energy(found) if p.j_per_image is not None else absent(f.reasons.get("energy", ""))


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
    mine = told(understanding)
    rows = [_output_cells(found, case, names) for found, case in mine if found.outputs.evidence]
    table = build_table(columns, _over_batches(rows))
    if table is None:
        return None
    note = (
        "By a check of its own, untimed. same top-1: share of the images with the class of the runtime's own "
        "FP32; error: relative L2 of the logits against it; against FP64: the same against the declared "
        "layers in FP64, on a few images."
    )
    if any(f.outputs.random for f, _ in mine):
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
        cells[i] = cell._replace(evidence=lines)
    if len(rows) > 1:
        text = f"{batches[0].text} to {batches[-1].text}"
        note = ", ".join(batch.text for batch in batches)
        cells[place] = batches[0]._replace(text=text, note=note)
    return tuple(cells)


def _output_cells(found: InferenceFinding, case: CaseFinding, names: Names) -> Row:
    o = found.outputs
    return (
        *naming_of(case, names),
        agreement(o),
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
            *naming_of(case, names),
            words.seconds(None, found.build_s, reason="median over processes", evidence=found.evidence),
            said(found.build_state) if found.build_state else absent(),
            words.seconds(found.cold_s, found.cold_point_s, reason=found.reasons.get("cold_s", "")),
        )
        for found, case in told(understanding)
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
