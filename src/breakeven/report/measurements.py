"""Sections that hold what was measured a case: times, runs, memory, work done, accuracy, every process.

Knows nothing about ratios. A case appears in a section only if it has something to say there.
"""

from collections.abc import Callable, Iterable, Sequence

from breakeven.analysis.findings import CaseFinding, CeilingFinding, ShareFinding, Understanding
from breakeven.report import words
from breakeven.report.amounts import amounts_chart
from breakeven.report.marks import sample_chart
from breakeven.report.names import Names, naming, precision_note
from breakeven.report.view import (
    Cell,
    Chart,
    Column,
    Section,
    absent,
    build_table,
    clean,
    label,
    number,
    said,
)

ORIENTATION = (
    "Times taken on a CPU are for orientation: they hold for this machine in this hour. "
    "The ratios within this run are the result."
)
UNITS = {"tflop_per_s": (1e12, "FLOP/s"), "top_per_s": (1e12, "OP/s"), "gb_per_s": (1e9, "B/s")}
REGIONS = {"train_step": "one training step", "infer_call": "one call", "infer_stream": "one call, pipelined"}


def times(understanding: Understanding, names: Names) -> Section | None:
    """The time of a step and the rate, per case."""
    columns = [
        number("step"),
        number("interval"),
        number("samples", "1/s"),
        number("n"),
        label("region"),
        Column(name="bound by"),
        Column(name="flags"),
    ]
    known = {(s.source, s.case_id): s for s in understanding.shares}

    def cells(c: CaseFinding) -> tuple[Cell, ...]:
        why = c.reasons.get("step_s", "")
        rate = c.rate
        return (
            words.seconds(c.step_s, c.step_point_s, reason=why, evidence=c.evidence),
            words.spread(c.step_s, why),
            words.rate(rate, c.reasons.get("samples_per_s", ""), c.samples_per_s),
            words.count(c.step_s.n if c.step_s else c.processes),
            said(REGIONS.get(c.region or "", c.region)) if c.region else absent(),
            _bound_by(known.get((c.source, c.case_id))),
            said(_flags(c)) if c.flags else absent(),
        )

    notes = [
        "A step is one batch, from asking for its data to updated weights; n counts processes. "
        "step: median over blocks; samples: all of them over all the time, slow blocks included."
    ]
    if any(c.case.device.kind == "cpu" for c in understanding.cases):
        notes.append(ORIENTATION)
    notes.append(precision_note(names))
    return _section(
        "times", "Time of a step", " ".join(filter(None, notes)), columns, cells,
        [c for c in understanding.cases if (c.step_s or c.step_point_s) and _trains(c)], names,
    )  # fmt: skip


def runs(understanding: Understanding, names: Names) -> Section | None:
    """What an epoch and a whole training run will take."""
    columns = [number("epoch"), number("total forecast"), number("prediction interval")]

    def cells(c: CaseFinding) -> tuple[Cell, ...]:
        why = c.reasons.get("total_s", "")
        return (
            words.seconds(
                c.epoch_s, c.epoch_point_s, reason=c.reasons.get("epoch_s", ""), evidence=c.evidence
            ),
            words.seconds(c.total_s, c.total_point_s, reason=why, evidence=c.evidence),
            words.seconds_bounds(c.total_s, why),
        )

    epochs = {c.case.work.recipe.epochs for c in understanding.cases if c.case.work.recipe}
    whole = f"all {epochs.pop()} epochs" if len(epochs) == 1 else "every epoch of the recipe"
    note = (
        f"Total = start-up, first step and {whole} with evaluation, forecast from sampled steps. "
        "The interval holds for one further run."
    )
    shown = [c for c in understanding.cases if c.total_point_s or c.total_s or c.epoch_point_s]
    return _section("runs", "A whole training run, forecast", note, columns, cells, shown, names)


def full(understanding: Understanding, names: Names) -> Section | None:
    """Full runs, and how far off their forecast was."""
    columns = [
        number("full run"),
        number("interval"),
        number("runs"),
        number("resumed"),
        number("forecast"),
        number("forecast error"),
        Column(name="runs within its interval"),
    ]

    def cells(c: CaseFinding) -> tuple[Cell, ...]:
        points = c.full_points_s
        why = c.reasons.get("full_s", "")
        error = c.reasons.get("forecast_error", "")
        inside = None if c.forecast_hits is None else f"{c.forecast_hits} of {c.forecast_judged}"
        return (
            words.seconds(c.full_s, points[0] if len(points) == 1 else None, reason=why, evidence=c.evidence),
            words.spread(c.full_s, why),
            words.count(len(points)),
            words.count(c.resumed_runs or None),
            words.seconds(c.total_s, c.total_point_s, reason=c.reasons.get("total_s", "")),
            words.signed_percent(c.forecast_error, error),
            said(inside, c.forecast_hits) if inside else absent(error or c.reasons.get("total_s", "")),
        )

    note = (
        "Timed from building the case to the last evaluation; the framework's imports come before that. "
        "The error is that of the forecast against the mean of the runs; its interval is for one further "
        "run, so each run is judged by itself. A resumed run never judges a forecast."
    )
    shown = [c for c in understanding.cases if c.full_points_s]
    return _section("full", "A whole training run, measured", note, columns, cells, shown, names)


def unfinished(understanding: Understanding, names: Names) -> Section | None:
    """Full runs without an end, as far as they came."""
    columns = [
        label("process"),
        number("epochs done"),
        number("so far"),
        number("an epoch"),
        number("accuracy"),
        Column(name="ended by"),
    ]
    rows = [
        (
            *naming(c, names),
            said(run.replicate + 1, run.replicate),
            absent(run.reasons.get("epochs", ""))
            if run.epochs is None
            else Cell(text=f"{run.epochs} of {run.of}" if run.of else str(run.epochs), sort=run.epochs),
            words.seconds(None, run.seconds, reason=run.reasons.get("seconds", ""), evidence=run.evidence),
            words.seconds(
                None,
                run.seconds / run.epochs if run.seconds is not None and run.epochs else None,
                reason=run.reasons.get("seconds", ""),
                evidence=run.evidence,
            ),
            words.share(None, () if run.accuracy is None else (run.accuracy,)),
            said(run.ended),
        )
        for c in understanding.cases
        for run in c.unfinished
    ]
    table = build_table([*names.columns, *columns], rows)
    if table is None:
        return None
    note = (
        "Full runs that were stopped, up to the last epoch on file. so far: training and evaluation, "
        "without start-up; accuracy: after the last of these epochs. Where the state was saved, the same "
        "command goes on from it. None of this enters a total, an accuracy or the error of a forecast."
    )
    return Section(key="unfinished", title="Training runs without an end", note=note, table=table)


def once(understanding: Understanding, names: Names) -> Section | None:
    """What is paid once a process or once an epoch."""
    columns = [number("start-up"), number("first step"), number("evaluation")]

    def cells(c: CaseFinding) -> tuple[Cell, ...]:
        return (
            words.seconds(None, c.startup_s, reason=c.reasons.get("startup_s", ""), evidence=c.evidence),
            words.seconds(None, c.cold_s, reason=c.reasons.get("cold_s", ""), evidence=c.evidence),
            words.seconds(
                None, c.evaluation_s, reason=c.reasons.get("evaluation_s", ""), evidence=c.evidence
            ),
        )

    note = "Start-up and first step are paid once a process, one evaluation of the test set after each epoch."
    shown = [c for c in understanding.cases if (c.startup_s or c.cold_s or c.evaluation_s) and _trains(c)]
    return _section("once", "Start-up and evaluation", note, columns, cells, shown, names)


def work(understanding: Understanding, names: Names) -> Section | None:
    """Size of the model, its arithmetic, the rate reached, and energy."""
    columns = [
        number("parameters"),
        number("work a step"),
        number("rate"),
        number("of ceiling"),
        number("energy a step"),
        number("power"),
    ]
    known_idle = any(c.net_energy_j_per_step is not None for c in understanding.cases)
    if known_idle:
        columns.append(number("beyond idle"))

    def cells(c: CaseFinding) -> tuple[Cell, ...]:
        rate = None if c.tflop_per_s is None else c.tflop_per_s * 1e12
        why = c.reasons
        return (
            words.count(c.parameters, why.get("parameters", "")),
            words.amount(c.flops_per_step, "FLOP", why.get("flops_per_step", "")),
            words.amount(rate, "FLOP/s", why.get("tflop_per_s", ""), c.evidence),
            _of_ceiling(c),
            words.amount(
                c.energy_j_per_step, "J", why.get("energy_j_per_step", ""), c.evidence, borne=c.step_s
            ),
            words.amount(c.power_w, "W", why.get("power_w", ""), c.evidence),
            *([_beyond_idle(c)] if known_idle else []),
        )

    note = (
        "FLOPs are the model's nominal ones, counted from its layers; the rate is nominal FLOPs over the "
        "time of a step, so an algorithm that saves arithmetic can pass the peak."
    )
    if known_idle:
        note += " Beyond idle: energy a step less what the board draws with nothing on it."
    if any(c.share_of_ceiling is not None for c in understanding.cases):
        note += (
            " Of ceiling: as a share of the fastest matrix product measured here at the precision that ran."
        )
    shown = [c for c in understanding.cases if c.step_point_s or c.step_s]
    chart = _energy_chart(shown, names)
    return _section("work", "Work and energy", note, columns, cells, shown, names, chart=chart)


def _energy_chart(cases: Sequence[CaseFinding], names: Names) -> Chart | None:
    """Energy by sample, which batches do not change as they change a step's."""

    def of(c: CaseFinding) -> Cell:
        joules = c.energy_j_per_step
        return words.joules(None if joules is None else joules / c.case.work.batch, borne=c.step_s)

    known = [c for c in cases if c.energy_j_per_step is not None]
    told = "Energy a sample; idle power included."
    return amounts_chart("energy", "Energy a sample", told, known, {"energy a sample": of}, names)


def _beyond_idle(c: CaseFinding) -> Cell:
    why = c.reasons.get("net_energy_j_per_step", "")
    return words.amount(c.net_energy_j_per_step, "J", why, c.evidence, borne=c.step_s)


def _of_ceiling(c: CaseFinding) -> Cell:
    if c.share_of_ceiling is None:
        return absent(c.reasons.get("share_of_ceiling", ""))
    note = f"of {words.significant(c.ceiling_tflop_per_s or 0.0, 3)} TFLOP/s in {c.ceiling_precision}"
    percent = 100 * c.share_of_ceiling
    text = f"{words.significant(percent)} %" if percent < 1 else words.percent(c.share_of_ceiling)
    return Cell(
        text=text,
        sort=c.share_of_ceiling,
        note=clean(note),
        evidence=(*c.evidence, *c.ceiling_evidence),
    )


def ceilings(understanding: Understanding, names: Names) -> Section | None:
    """What every device does at best, as measured and by its datasheet."""
    columns = [
        label("device"),
        label("ceiling"),
        number("measured"),
        number("datasheet"),
        number("n"),
        Column(name="flags"),
    ]
    rows = [_ceiling_cells(c, names) for c in understanding.ceilings]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "What simple work reaches on the same machine, the best process's median: products of square "
        "matrices, a = b + s c over arrays that no cache holds (triad), copies (bytes read and written)."
    )
    return Section(key="ceilings", title="Ceilings of the devices", note=note, table=table)


def _ceiling_cells(c: CeilingFinding, names: Names) -> tuple[Cell, ...]:
    scale, unit = UNITS.get(c.unit, (1.0, c.unit))
    told = c.conditions
    shape = told.get("shape")
    sides = "x".join(map(str, shape)) if isinstance(shape, list | tuple) else ""
    count = told.get("n")
    value = None if c.value is None else scale * c.value
    measured = words.amount(value, unit, c.reasons.get("value", ""), c.evidence)
    return (
        names.device(c.device_label),
        said(c.name.replace("_", " "), note=f"{told.get('dtype', '')} {sides}".strip()),
        measured,
        words.amount(
            None if c.theoretical is None else scale * c.theoretical, unit, c.reasons.get("theoretical", "")
        ),
        words.count(count if isinstance(count, int) else None),
        said(", ".join(c.flags)) if c.flags else absent(),
    )


def accuracy(understanding: Understanding, names: Names) -> Section | None:
    """The final accuracy of full runs: of each seed, and over seeds."""
    shown = [c for c in understanding.cases if c.accuracies or c.accuracy]
    several = any(c.accuracy_over_seeds for c in shown)
    columns = [number("accuracy"), number("runs")]
    if several:
        columns += [number("over seeds"), number("seeds")]

    def cells(c: CaseFinding) -> tuple[Cell, ...]:
        return (
            _one_seed(c),
            words.count(len(c.accuracies) or None),
            *(_over_seeds(c) if several else ()),
        )

    note = (
        "On the test set, after the last epoch of a full run. Runs of one seed repeat one training: the "
        "interval is binomial, of the test images, and says nothing of another seed."
    )
    if several:
        note += " Over seeds: Student's t over one accuracy a seed."
    return _section("accuracy", "Accuracy", note, columns, cells, shown, names)


def _one_seed(c: CaseFinding) -> Cell:
    cell = words.share(c.accuracy, c.accuracies, c.reasons.get("accuracy", ""))
    if c.accuracy is None:
        return cell
    note = f"{100 * c.accuracy.confidence:.4g} % binomial interval of {c.accuracy.n:,} test images, one seed"
    return Cell(text=cell.text, sort=cell.sort, note=note, evidence=cell.evidence)


def _over_seeds(c: CaseFinding) -> tuple[Cell, ...]:
    found = c.accuracy_over_seeds
    if found is None:
        return absent("one seed"), words.count(1)
    return words.share(found), words.count(found.n)


def samples(understanding: Understanding, names: Names) -> Section | None:
    """One step time a process."""
    columns = [number("n"), number("median step of each process")]

    def cells(c: CaseFinding) -> tuple[Cell, ...]:
        text = ", ".join(f"{words.significant(1e3 * s, 4)}" for s in c.samples_s)
        return (
            words.count(len(c.samples_s)),
            Cell(text=f"{text} ms", sort=c.samples_s[0], evidence=c.evidence),
        )

    shown = [c for c in understanding.cases if c.samples_s]
    note = "The process is the unit of repetition: an interval is made from these values and nothing else."
    chart = sample_chart(understanding, names)
    return _section("samples", "Every process", note, columns, cells, shown, names, chart=chart, detail=True)


def _section(
    key: str,
    title: str,
    note: str,
    columns: Sequence[Column],
    cells: Callable[[CaseFinding], tuple[Cell, ...]],
    shown: Iterable[CaseFinding],
    names: Names,
    *,
    chart: Chart | None = None,
    detail: bool = False,
) -> Section | None:
    rows = [(*naming(c, names), *cells(c)) for c in shown]
    table = build_table([*names.columns, *columns], rows)
    if table is None:
        return None
    return Section(key=key, title=title, note=note, table=table, chart=chart, detail=detail)


def _trains(case: CaseFinding) -> bool:
    """Inference has sections of its own."""
    return case.case.work.task == "train"


def _bound_by(found: ShareFinding | None) -> Cell:
    """The label, or why there is none."""
    if found is None or found.label == "cannot tell":
        return absent(found.why if found else "")
    return said(found.label, note=found.why, evidence=found.evidence)


def _flags(case: CaseFinding) -> str:
    """Flags with the number of processes that carry them, where that is not all."""
    counts = case.flag_counts
    return ", ".join(
        f"{flag} ({counts[flag]} of {case.processes})" if 0 < counts.get(flag, 0) < case.processes else flag
        for flag in case.flags
    )
