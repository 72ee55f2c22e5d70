"""Sections that compare: the summary, the ratios, the ratio against model size, what both devices learn.

Knows nothing about how a ratio or a verdict is worked out.
"""

from collections.abc import Collection, Sequence

from breakeven.analysis.findings import CONTRASTS, ParityFinding, RatioFinding, ScaleFinding, Understanding
from breakeven.analysis.findings import MIXED as MIXED_RATIO
from breakeven.report import words
from breakeven.report.marks import ratio_chart, scale_chart, tunings_of, verdict_words
from breakeven.report.names import Names, tuning_rank
from breakeven.report.view import (
    Cell,
    Column,
    Row,
    Section,
    absent,
    build_table,
    clean,
    label,
    number,
    said,
)

MIXED = "*"
FIRST = "as-written"
SHORT = {CONTRASTS["best"]: "best", CONTRASTS["best-any"]: "best, any numerics", CONTRASTS["mixed"]: "mixed"}
"""Headings of the columns that have no room for what a ratio sets against what."""
PAIR = ("model", "base", "candidate", "batch", "data", "seed", "time of")


def pair_columns(ratios: Sequence[RatioFinding]) -> tuple[str, ...]:
    """What names a ratio: data set and seed only where they tell two rows apart."""
    told = {"data": len({r.data for r in ratios}) > 1, "seed": len({r.seed for r in ratios}) > 1}
    return tuple(name for name in PAIR if told.get(name, True))


def summary(understanding: Understanding, names: Names) -> Section | None:
    """One row a model, one column a tuning: the screen after a run."""
    ratios = headline([r for r in understanding.ratios if r.ratio is not None or r.point is not None])
    tunings = tunings_of(ratios)
    headings = (number(SHORT.get(t, clean(t))) for t in tunings)
    columns = [*map(label, pair_columns(ratios)), *headings, number("ceiling")]
    table = build_table(columns, _by_tuning(ratios, tunings, names))
    if table is None:
        return None
    note = "How many times as fast the second device is as the first, at equal work."
    if any(r.ceiling is not None for r in ratios):
        note += (
            " Ceiling: the same of the fastest matrix products measured, at the precision that ran; only "
            "about so much, for its two sides were not measured in turn and there is no interval."
        )
    if any(r.contrast == "mixed" for r in ratios):
        note += f" {MIXED_RATIO[0].upper()}{MIXED_RATIO[1:]}: the base as written, as papers quote it."
    if any(r.mixed and r.contrast == "tuning" for r in ratios):
        note += f" {MIXED} The two sides differ in more than the device: see Ratios."
    return Section(key="summary", title="Speed-up", note=note, table=table)


def _contrasted(ratios: Sequence[RatioFinding]) -> bool:
    """Whether some ratio sets something else than equal tunings against each other."""
    return any(r.contrast != "tuning" for r in ratios)


def headline(ratios: Sequence[RatioFinding]) -> list[RatioFinding]:
    """Of a file where the best is known, the loop as written and the best; else every tuning."""
    chosen = {r.source for r in ratios if r.contrast != "tuning"}
    return [r for r in ratios if r.source not in chosen or r.contrast != "tuning" or r.tuning_name == FIRST]


def _headline_laws(scale: Sequence[ScaleFinding]) -> list[ScaleFinding]:
    chosen = {s.source for s in scale if s.contrast != "tuning"}
    return [s for s in scale if s.source not in chosen or s.contrast != "tuning" or s.tuning_name == FIRST]


def ratios(understanding: Understanding, names: Names) -> Section | None:
    """Every ratio that was formed or refused, with its verdict."""
    told = pair_columns(understanding.ratios)
    columns = [
        *map(label, told),
        *([label("compared")] if _contrasted(understanding.ratios) else []),
        label("tuning"),
        label("base tuning"),
        label("precision"),
        number("ratio"),
        Column(name="verdict"),
        number("n"),
        Column(name="flags"),
    ]
    rows = [
        (*_pair_cells(r, names, told), *_contrast_cells(r, understanding.ratios), *_ratio_cells(r))
        for r in understanding.ratios
    ]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "base time / candidate time with its interval over processes; above 1 the candidate is faster. "
        "n counts the pairs of processes."
    )
    chart = ratio_chart(understanding.ratios, names)
    return Section(key="ratios", title="Ratios", note=note, table=table, chart=chart)


def scale(understanding: Understanding, names: Names) -> Section | None:
    """The ratio against model size at every tuning, and its exponent."""
    columns = [
        label("tuning"),
        label("base"),
        label("candidate"),
        label("batch"),
        label("size"),
        number("exponent"),
        Column(name="the ratio"),
        number("models"),
    ]
    rows = [_scale_cells(s, names) for s in _headline_laws(understanding.scale)]
    table = build_table(columns, rows)
    chart = scale_chart(headline(understanding.ratios), names)
    if table is None and chart is None:
        return None
    note = (
        "The ratio goes with size to the power of the exponent; its interval states the models' scatter, and "
        "is no narrower than the ratios' own allow. It is as wide as Holm's correction over all laws of a "
        "file asks (95 % or more): the ratio grows or shrinks where 0 is outside."
    )
    return Section(
        key="scale",
        title="Speed-up against model size",
        note=note if table else "",
        table=table,
        chart=chart,
    )


def tried(finding: ParityFinding) -> bool:
    """Whether any full run was made: a purely sampled study has nothing to show here."""
    return bool(finding.base_accuracies or finding.candidate_accuracies)


def parity(understanding: Understanding, names: Names) -> Section | None:
    """Whether the devices learn equally well."""
    columns = [
        label("model"),
        label("tuning"),
        label("base"),
        label("candidate"),
        Column(name="verdict"),
        number("difference", "points"),
        number("margin", "points"),
        number("seeds"),
    ]
    table = build_table(columns, [_parity_cells(p, names) for p in understanding.parity if tried(p)])
    if table is None:
        return None
    note = (
        "Final accuracy of full runs, candidate minus base, over seeds; equivalent means within the margin."
    )
    return Section(key="parity", title="Do both learn equally well?", note=note, table=table)


def _by_tuning(ratios: Sequence[RatioFinding], tunings: Sequence[str], names: Names) -> list[Row]:
    """One row a pair of devices and model; a second one where a tuning would stand in the first twice."""
    rows: list[tuple[Row, dict[str, RatioFinding]]] = []
    told = pair_columns(ratios)
    for r in ratios:
        key = _pair_cells(r, names, told)
        found = next((f for k, f in rows if k == key and r.setting not in f), None)
        if found is None:
            found = {}
            rows.append((key, found))
        found[r.setting] = r
    return [
        (*key, *(_marked(found[t]) if t in found else absent() for t in tunings), _ceiling(found.values()))
        for key, found in rows
    ]


def _ceiling(ratios: Collection[RatioFinding]) -> Cell:
    """What the hardware alone would give; a range where the tunings of a row ran at other precisions."""
    known = sorted(r.ceiling for r in ratios if r.ceiling is not None)
    if not known:
        return absent()
    shown = dict.fromkeys(f"{words.two_digits(value)}x" for value in (known[0], known[-1]))
    lines = dict.fromkeys(line for r in ratios for line in r.ceiling_evidence)
    note = "ratio of measured ceilings, not in turn: no interval"
    return Cell(text=f"about {' to '.join(shown)}", sort=known[0], note=note, evidence=tuple(lines))


def _pair_cells(r: RatioFinding, names: Names, told: Sequence[str]) -> tuple[Cell, ...]:
    cells = {
        "model": said(r.model),
        "base": names.device(r.base_label),
        "candidate": names.device(r.candidate_label),
        "batch": said(r.batch, r.batch),
        "data": said(r.data),
        "seed": said(r.seed, r.seed),
        "time of": said({"step": "a step", "full": "a full run"}[r.of]),
    }
    return tuple(cells[name] for name in told)


def _ratio_cells(r: RatioFinding) -> tuple[Cell, ...]:
    same = r.tuning_base == r.tuning_name
    precisions = dict.fromkeys([r.precision_base, r.precision_candidate])
    return (
        said(r.tuning_name, tuning_rank(r.tuning_name)),
        absent() if same else said(r.tuning_base, tuning_rank(r.tuning_base)),
        said(" / ".join(precisions)),
        _marked(r),
        said(verdict_words(r), note=_p_value(r)),
        words.count(r.ratio.n if r.ratio else None),
        said(", ".join(r.flags)) if r.flags else absent(),
    )


def _contrast_cells(r: RatioFinding, ratios: Sequence[RatioFinding]) -> tuple[Cell, ...]:
    if not _contrasted(ratios):
        return ()
    return (said("equal tunings" if r.contrast == "tuning" else r.setting, r.contrast),)


def _marked(r: RatioFinding) -> Cell:
    reason = r.reasons.get("ratio", "")
    cell = words.ratio(r.ratio, r.point, reason=reason, evidence=r.evidence)
    if not r.mixed or cell.sort is None:
        return cell
    mark = MIXED if r.contrast == "tuning" else ""  # the heading says it of the others
    candidate = "" if r.tuning_name == r.tuning_base else f" {r.tuning_name}"
    sides = f"base {r.tuning_base} at {r.precision_base}, candidate{candidate} at {r.precision_candidate}"
    note = f"{cell.note}; {sides}"
    return Cell(text=cell.text + mark, sort=cell.sort, evidence=cell.evidence, note=clean(note))


def _p_value(r: RatioFinding) -> str:
    return "" if r.p_adjusted is None else f"p = {words.significant(r.p_adjusted)} after Holm"


def _scale_cells(s: ScaleFinding, names: Names) -> tuple[Cell, ...]:
    if s.exponent is None:
        exponent = absent(s.reason or "")
    else:
        low, mid, high = (f"{v:.2f}" for v in (s.exponent.low, s.exponent.estimate, s.exponent.high))
        exponent = Cell(
            text=f"{mid} [{low}, {high}]",
            sort=s.exponent.estimate,
            evidence=s.evidence,
            note=words.behind(s.exponent),
        )
    return (
        said(s.tuning_name, tuning_rank(s.tuning_name)),
        names.device(s.base_label),
        names.device(s.candidate_label),
        said(s.batch, s.batch) if s.batch else absent(),
        said(s.against),
        exponent,
        said(s.verdict, note=_law_note(s)),
        words.count(len(s.points)),
    )


def _law_note(s: ScaleFinding) -> str:
    if s.p_adjusted is None:
        return s.reason or ""
    return f"p = {words.significant(s.p_adjusted)} after Holm over {s.family} law{'s' * (s.family > 1)}"


def _parity_cells(p: ParityFinding, names: Names) -> tuple[Cell, ...]:
    if p.difference is None:
        difference = absent(p.reason or "")
    else:
        low, mid, high = (
            f"{100 * v:+.1f}" for v in (p.difference.low, p.difference.estimate, p.difference.high)
        )
        difference = Cell(
            text=f"{mid} [{low}, {high}]",
            sort=p.difference.estimate,
            evidence=p.evidence,
            note=words.behind(p.difference),
        )
    seeds = dict.fromkeys([len(p.base_accuracies), len(p.candidate_accuracies)])
    return (
        said(p.model),
        said(p.tuning_name, tuning_rank(p.tuning_name)),
        names.device(p.base_label),
        names.device(p.candidate_label),
        said(p.verdict, note=p.reason or ""),
        difference,
        Cell(text=f"\u00b1{100 * p.margin:.1f}", sort=p.margin),
        said(" / ".join(map(str, seeds)), float(max(seeds))),
    )
