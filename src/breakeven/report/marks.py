"""What the charts draw: one mapping a mark, with the words of its tooltip.

Knows nothing about how a mark is drawn.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from breakeven.analysis.curves import BreakEvenFinding, CurvePoint
from breakeven.analysis.findings import (
    CONTRASTS,
    MIXED,
    CaseFinding,
    RatioFinding,
    ShareFinding,
    Understanding,
)
from breakeven.analysis.shares import SHARES
from breakeven.report import words
from breakeven.report.doubts import doubt, explained
from breakeven.report.names import Names, tuning_rank
from breakeven.report.view import Chart, Value, clean
from breakeven.stats import Interval, Verdict
from breakeven.units import format_duration

# A line through fewer models would show nothing that the table does not.
FEWEST_MODELS = 2


def tunings_of(ratios: Iterable[RatioFinding]) -> tuple[str, ...]:
    """The tunings, as the ladder climbs them; then best to best, and what is mixed."""
    contrasts = list(CONTRASTS.values())

    def rank(name: str) -> tuple[int, str]:
        return (1 + contrasts.index(name), "") if name in contrasts else (0, tuning_rank(name))

    return tuple(sorted({r.setting for r in ratios}, key=rank))


def _legend(setting: str) -> str:
    """A setting as a legend has room for it: the tables say it whole."""
    return clean("mixed: tuned against untuned" if setting == MIXED else setting)


def verdict_words(r: RatioFinding) -> str:
    """The verdict, and how many processes would decide where it is open."""
    if r.verdict is None:
        return "not compared" if r.point is None else "no verdict"
    if r.verdict is Verdict.UNCERTAIN and r.processes_needed:
        return f"uncertain; {r.processes_needed} processes would decide"
    return str(r.verdict)


def _ratio_mark(r: RatioFinding, names: Names) -> Mapping[str, Value]:
    """One mark of either chart of ratios."""
    cell = words.ratio(r.ratio, r.point, reason=r.reasons.get("ratio", ""))
    return {
        "model": clean(r.model),
        "tuning": _legend(r.setting),
        "ratio": r.ratio.estimate if r.ratio else r.point,
        "low": r.ratio.low if r.ratio else None,
        "high": r.ratio.high if r.ratio else None,
        "shown": cell.text,
        "conditions": cell.note,
        "pair": f"{names.devices[r.candidate_label]} against {names.devices[r.base_label]}"
        f", batch {r.batch}" + (", full run" if r.of == "full" else ""),
        "base": clean(f"{r.tuning_base}, {r.precision_base}"),
        "candidate": clean(f"{r.tuning_name}, {r.precision_candidate}"),
        "parameters": r.parameters,
        "n": r.ratio.n if r.ratio else None,
        "verdict": verdict_words(r),
        **doubt(r.flags, known=r.verdict is not None),
    }


def ratio_chart(ratios: Sequence[RatioFinding], names: Names) -> Chart | None:
    """Every ratio with its interval; None where there is no ratio."""
    shown = _known(ratios)
    if not shown:
        return None
    models = list(dict.fromkeys(clean(r.model) for r in shown))
    tunings = tuple(map(_legend, tunings_of(shown)))
    alt = (
        f"Dot plot of the speed-up with its interval for {words.joined(models)} at "
        f"{words.joined(tunings)}, on a logarithmic axis; the dashed line marks equal speed. "
        "The table below holds every number."
    )
    values = tuple(_ratio_mark(r, names) for r in shown)
    return Chart(
        kind="ratios",
        name="ratios",
        title="How many times as fast",
        alt_text=alt,
        values=values,
        subtitle=explained(values),
        tunings=tunings,
    )


def scale_chart(ratios: Sequence[RatioFinding], names: Names) -> Chart | None:
    """The ratio against model size, where a panel has two models of known size; None where none has."""
    made = [(r, _ratio_mark(r, names)) for r in _known(ratios) if r.parameters]
    models: dict[object, set[str]] = {}
    for r, mark in made:
        models.setdefault(mark["pair"], set()).add(r.model)
    kept = [(r, mark) for r, mark in made if len(models[mark["pair"]]) >= FEWEST_MODELS]
    if not kept:
        return None
    tunings = tuple(map(_legend, tunings_of([r for r, _ in kept])))
    alt = (
        f"Speed-up against the number of parameters, both on logarithmic axes, one line for each of "
        f"{words.joined(tunings)}, each with a band for its interval. The tables hold every number."
    )
    values = tuple(mark for _, mark in kept)
    return Chart(
        kind="scale",
        name="scale",
        title="Speed-up against model size",
        alt_text=alt,
        values=values,
        subtitle=explained(values),
        tunings=tunings,
    )


def batch_chart(
    findings: Sequence[BreakEvenFinding], ratios: Sequence[RatioFinding], names: Names
) -> Chart | None:
    """The ratio against the batch, the break-even marked; None for fewer than three batches."""
    shown = [f for f in findings if f.axis == "batch" and len(f.points) > 2]
    if not shown:
        return None
    tunings = tuple(map(clean, sorted({f.tuning_name for f in shown}, key=tuning_rank)))
    alt = (
        f"Speed-up against the batch, both on logarithmic axes, one line for each of "
        f"{words.joined(tunings)}, each with a band for its interval. The dashed line marks equal speed, "
        "crosses with bars on it the break-even and its interval. The table holds every number."
    )
    behind = {(*_sides(r), r.model, r.batch): r for r in ratios if r.of == "step"}
    values = tuple(mark for f in shown for mark in _batch_marks(f, behind, names))
    return Chart(
        kind="batch",
        name="break-even",
        title="Speed-up against the batch",
        alt_text=alt,
        values=values,
        subtitle=explained(values),
        tunings=tunings,
    )


def _sides(found: RatioFinding | BreakEvenFinding) -> tuple[object, ...]:
    """The two sides that a ratio, and a curve through such ratios, sets against each other."""
    setting = found.setting if isinstance(found, RatioFinding) else found.tuning_name
    return found.source, found.base_label, found.candidate_label, setting, found.data, found.seed


def _batch_marks(
    f: BreakEvenFinding, behind: Mapping[tuple[object, ...], RatioFinding], names: Names
) -> list[Mapping[str, Value]]:
    """A mark for every batch, and one on the line of equal speed for the break-even."""

    def doubts(p: CurvePoint) -> dict[str, Value]:
        ratio = behind.get((*_sides(f), f.model, int(p.x)))
        known = p.low is not None and (ratio is None or ratio.verdict is not None)
        return doubt(ratio.flags if ratio else (), known=known)

    same = {
        "tuning": clean(f.tuning_name),
        "pair": f"{clean(f.model)}: {names.devices[f.candidate_label]} against {names.devices[f.base_label]}",
    }
    shown = [words.ratio(_interval(p, f.processes), p.ratio) for p in f.points]
    marks: list[Mapping[str, Value]] = [
        {
            **same,
            "mark": "ratio",
            "batch": p.x,
            "ratio": p.ratio,
            "low": p.low,
            "high": p.high,
            "shown": f"{cell.text} at batch {p.name}",
            "conditions": cell.note,
            "verdict": {1: "faster", 0: "cannot be told", -1: "slower"}[p.side],
            **doubts(p),
        }
        for p, cell in zip(f.points, shown, strict=True)
    ]
    if f.answer == "between" and f.at is not None:
        bounds = {"from": f.low or f.after, "to": f.high or f.before}
        text = f"break-even {words.significant(f.at)}"
        told: dict[str, Value] = {
            "mark": "crossing",
            "batch": f.at,
            "ratio": 1.0,
            "shown": text,
            "label": text,
            "conditions": _between(f),
        }
        marks.append({**same, **told, **bounds})
    return marks


def _interval(p: CurvePoint, n: int) -> Interval | None:
    if p.low is None or p.high is None:
        return None
    return Interval(low=p.low, high=p.high, estimate=p.ratio, confidence=0.95, n=n)


def _between(f: BreakEvenFinding) -> str:
    """The ends of a break-even's interval, an open one in words."""
    low = "below the smallest" if f.low is None else words.significant(f.low)
    high = "above the largest" if f.high is None else words.significant(f.high)
    return f"95 % interval {low} to {high}, n = {f.processes}"


def sample_chart(understanding: Understanding, names: Names) -> Chart | None:
    """One mark for every process: what the intervals are made of."""
    shown = [c for c in understanding.cases if c.samples_s]
    if not shown:
        return None
    alt = (
        "Strip plot of the median step time of every process, on a logarithmic axis, by model, tuning and "
        "device. Marks that lie apart are processes that disagree. The table below holds every number."
    )
    return Chart(
        kind="samples",
        name="samples",
        title="Every process",
        alt_text=alt,
        values=tuple(mark for c in shown for mark in _sample_marks(c, names)),
        tunings=tuple(map(clean, sorted({c.tuning_name for c in shown}, key=tuning_rank))),
        devices=tuple(dict.fromkeys(names.devices[c.device_label] for c in shown)),
    )


def share_chart(understanding: Understanding, names: Names) -> Chart | None:
    """One bar a case, cut into the parts of its step; None where no step was split."""
    known = {(s.source, s.case_id): s for s in understanding.shares if s.shares}
    shown = [(c, known[c.source, c.case_id]) for c in understanding.cases if (c.source, c.case_id) in known]
    if not shown:
        return None
    tunings = tuple(map(clean, sorted({c.tuning_name for c, _ in shown}, key=tuning_rank)))
    alt = (
        f"Stacked bars of the shares of a step at {words.joined(tunings)}, by model and device: waiting for "
        "the batch, copy, forward, backward, optimizer and the rest. The table below holds every number."
    )
    return Chart(
        kind="shares",
        name="shares",
        title="Where a step's time goes",
        alt_text=alt,
        values=tuple(mark for case, found in shown for mark in _share_marks(case, found, names)),
        tunings=tunings,
    )


def _share_marks(case: CaseFinding, found: ShareFinding, names: Names) -> Iterator[Mapping[str, Value]]:
    """The pieces of one bar, left to right, each with the place where it begins and ends."""
    begin, work = 0.0, case.case.work
    same: dict[str, Value] = {
        "group": f"{clean(work.model)} on {names.devices[case.device_label]}, batch {work.batch}",
        "tuning": clean(case.tuning_name),
        "bound": found.label,
        "why": clean(found.why),
        "step": _whole_step(case, found),
        "flags": clean(", ".join(case.flags)) or "none",
    }
    for part in SHARES:
        share = found.shares.get(part, 0.0)
        if share > 0:
            yield {
                **same,
                "part": part.replace("_", " "),
                "begin": begin,
                "end": begin + share,
                "shown": words.percent(share),
                "time": format_duration(share * found.step_s),
                "range": _range(found, part),
            }
        begin += share


def _range(found: ShareFinding, part: str) -> str:
    """The least and the largest share of a process, and how many there were."""
    of = f"n = {found.processes}"
    if part not in found.ranges:
        return of
    low, high = map(words.percent, found.ranges[part])
    return f"{low} to {high} over processes, {of}"


def _whole_step(case: CaseFinding, found: ShareFinding) -> str:
    """The time of the step with its interval."""
    told = words.describe(case.step_s, format_duration) if case.step_s else "no interval"
    return f"{format_duration(found.step_s)}; {told}"


def _sample_marks(case: CaseFinding, names: Names) -> list[Mapping[str, Value]]:
    work = case.case.work
    same: dict[str, Value] = {
        "model": clean(work.model),
        "tuning": clean(case.tuning_name),
        "device": names.devices[case.device_label],
        "batch": work.batch,
        "precision": clean(case.case.tuning.precision),
        "flags": clean(", ".join(case.flags)) or "none",
    }
    return [
        {
            **same,
            "ms": seconds * 1e3,
            "shown": format_duration(seconds),
            "process": f"{index} of {len(case.samples_s)}",
        }
        for index, seconds in enumerate(case.samples_s, start=1)
    ]


def _known(ratios: Iterable[RatioFinding]) -> list[RatioFinding]:
    return [r for r in ratios if r.ratio is not None or r.point is not None]
