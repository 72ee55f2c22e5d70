"""What the charts of inference draw: one mapping a mark, with the words of its tooltip.

Knows nothing about how a mark is drawn.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.analysis.inference_findings import GainFinding, InferenceFinding, SaturationFinding
from breakeven.records.case import PRECISIONS
from breakeven.report import words
from breakeven.report.inference_cells import energy
from breakeven.report.names import Names, served_as, tuning_rank
from breakeven.report.view import Chart, Value, clean
from breakeven.units import format_duration

FEWEST_BATCHES = 3
"""Fewer show nothing that the table does not."""
LAW_STEPS = 8
"""Points between two batches of a law's line: on logarithmic axes it is curved."""

Mark = Mapping[str, Value]


def saturation_chart(understanding: Understanding, names: Names) -> Chart | None:
    """Rate and latency over the batch for every sweep of three batches; None without one."""
    shown = [s for s in understanding.inference.saturation if len(s.points) >= FEWEST_BATCHES]
    if not shown:
        return None
    tunings = tuple(sorted({_series(s) for s in shown}, key=tuning_rank))
    alt = (
        f"Images a second, and milliseconds a call, against the batch, all on logarithmic axes, for "
        f"{words.joined(tunings)}; lines are the fitted law, crosses its knee. The table holds every number."
    )
    # All rates above all times: panels of one kind are compared.
    marks = [mark for s in shown for mark in _sweep(s, names)]
    marks.sort(key=lambda m: str(m["panel"]).partition(": ")[0])
    return Chart(
        kind="saturation",
        name="saturation",
        title="Rate and latency against the batch",
        alt_text=alt,
        values=tuple(marks),
        tunings=tunings,
    )


def _series(s: SaturationFinding) -> str:
    return clean(f"{s.tuning_name} {s.precision}")


def _sweep(s: SaturationFinding, names: Names) -> Iterator[Mark]:
    """The marks of one sweep in both panels. Single calls are measured apart, so the law is of the rate."""
    where = f"{clean(s.model)} on {names.devices[s.device_label]}"
    rates, times = f"{where}: images a second", f"{where}: milliseconds a call"
    same: dict[str, Value] = {"tuning": _series(s)}
    for p in s.points:
        shown = f"{words.significant(p.images_per_s, 3)} images/s"
        share = f"{words.percent(p.of_best_point)} of the best rate"
        yield same | {
            "mark": "measured", "panel": rates, "batch": p.batch, "value": p.images_per_s, "low": p.low,
            "high": p.high, "shown": shown, "note": share,
        }  # fmt: skip
        if p.call_s is not None:
            yield same | {
                "mark": "measured", "panel": times, "batch": p.batch, "value": 1e3 * p.call_s,
                "low": None, "high": None, "shown": format_duration(p.call_s),
                "note": "median of single calls",
            }  # fmt: skip
    law = s.law
    if law is None:
        return
    for x in _places([p.batch for p in s.points]):
        yield same | {"mark": "law", "panel": rates, "batch": x, "value": x / law.at(x)}
        yield same | {"mark": "law", "panel": times, "batch": x, "value": 1e3 * law.at(x)}
    at = s.knee_at
    if law.knee is not None and at is not None:
        for panel, value in ((rates, at / law.at(at)), (times, 1e3 * law.at(at))):
            yield same | {
                "mark": "knee", "panel": panel, "batch": at, "value": value,
                "shown": f"knee at batch {_knee(s)}",
                "note": "up to it more images cost no time",
            }  # fmt: skip


def _knee(s: SaturationFinding) -> str:
    """The knee to two digits with its interval, as the table has it."""
    return words.figure(s.knee, s.knee_at).text


def _places(batches: Sequence[int]) -> Iterator[float]:
    """The batches with places between them, evenly on a logarithmic axis."""
    for low, high in pairwise(batches):
        yield from (low * (high / low) ** (i / LAW_STEPS) for i in range(LAW_STEPS))
    yield float(batches[-1])


def factor_chart(understanding: Understanding, names: Names) -> Chart | None:
    """Precision by runtime, at the smallest and the largest batch of each model and device."""
    bases = {(g.source, g.model, g.data, g.device_label, g.batch): g for g in understanding.inference.gains}
    marks: list[Mark] = []
    places = list(dict.fromkeys(place[:-1] for place in bases))
    for place in sorted(bases, key=lambda place: (places.index(place[:-1]), place[-1])):
        beside = [other[-1] for other in bases if other[:-1] == place[:-1]]
        if place[-1] in (min(beside), max(beside)):
            marks += _squares(understanding, names, bases[place])
    if not any(mark["times"] for mark in marks):
        return None
    tunings = tuple(sorted({str(mark["tuning"]) for mark in marks}, key=tuning_rank))
    alt = (
        "Table of runtimes by precision: each square says how many times the rate of eager FP32 a case has, "
        "and for what share of the images it names the same class. The tables hold every number."
    )
    return Chart(
        kind="factors",
        name="factors",
        title="Precision by runtime",
        alt_text=alt,
        values=tuple(sorted(marks, key=lambda m: PRECISIONS.index(str(m["precision"])))),
        tunings=tunings,
    )


def _squares(understanding: Understanding, names: Names, gain: GainFinding) -> list[Mark]:
    """One square a case of a place; what failed says so."""
    place = (gain.source, gain.model, gain.data, gain.device_label, gain.batch)
    found = {(f.source, f.case_id): f for f in understanding.inference.cases}
    mine = [
        c
        for c in understanding.cases
        if (c.source, c.case.work.model, c.case.work.data, c.device_label, c.case.work.batch) == place
        and c.case.work.task == "infer"
    ]
    group = f"{clean(gain.model)} on {names.devices[gain.device_label]}, batch {gain.batch}"
    return [_square(c, found[gain.source, c.case_id], gain, group) for c in mine]


def _square(case: CaseFinding, found: InferenceFinding, gain: GainFinding, group: str) -> Mark:
    rate = found.images_per_s_point if found.ranked else None
    times, told = _over_base(case.case_id, gain) if found.ranked else (None, "")
    o = found.outputs
    agreement = None if o.agreement is None else f"{100 * o.agreement:.1f} %"
    outputs = f"{agreement} same top-1" if agreement else o.reasons.get("agreement", "not compared")
    failed = next((o for o in case.outcomes if o != "ok"), "not ranked") if not found.ranked else "no ratio"
    return {
        "group": group,
        "tuning": clean(served_as(case)),
        "precision": case.case.tuning.precision,
        "times": times,
        "label": told.partition(" [")[0] if times else clean(failed.replace("_", " ")),
        "below": agreement or "",
        "ratio": told,
        "shown": f"{words.significant(rate, 3)} images/s" if rate else clean(found.reasons.get("ranked", "")),
        "base": "the loop as people write it, in FP32",
        "conditions": words.describe(found.images_per_s, lambda x: f"{words.significant(x, 3)} images/s")
        if found.images_per_s
        else f"no interval, n = {case.processes}",
        "flags": clean(", ".join(case.flags)) or "none",
        "outputs": clean(f"{outputs}{' (random weights)' if o.random else ''}"),
    }


def _over_base(case_id: str, gain: GainFinding) -> tuple[float | None, str]:
    """How many times the base's rate, as the tables have it: paired by replicate."""
    if case_id == gain.base_id:
        return 1.0, "1x"
    cell = words.ratio(gain.times.get(case_id), gain.points.get(case_id))
    return gain.points.get(case_id), cell.text if case_id in gain.points else ""


def frontier_chart(understanding: Understanding, names: Names) -> Chart | None:
    """Every ranked case of a place with a frontier, those on it marked."""
    cases = {(c.source, c.case_id): c for c in understanding.cases}
    marks: list[Mark] = []
    for f in understanding.inference.frontier:
        on = {p.case_id for p in f.points}
        group = f"{clean(f.model)} on {names.devices[f.device_label]}"
        for found in understanding.inference.cases:
            case = cases.get((found.source, found.case_id))
            if case is None or not found.ranked or found.source != f.source:
                continue
            if (case.case.work.model, case.case.work.data, case.device_label) == (
                f.model,
                f.data,
                f.device_label,
            ):
                marks += _spot(case, found, group, found.case_id in on)
    if not marks:
        return None
    return Chart(
        kind="frontier",
        name="frontier",
        title="Rate over latency",
        subtitle="Filled and joined: beaten by none, with its batch; hollow: beaten by another. Estimates.",
        alt_text=(
            "Images a second against the median milliseconds of a call, on logarithmic axes; cases that no "
            "other beats are filled and joined, their batch beside them, and others hollow. The table below "
            "holds every number of them."
        ),
        values=tuple(marks),
        tunings=tuple(sorted({str(mark["tuning"]) for mark in marks}, key=tuning_rank)),
    )


def _spot(case: CaseFinding, found: InferenceFinding, group: str, on: bool) -> list[Mark]:
    """The mark of one case; none without single calls."""
    middle = found.quantile(0.5)
    call = middle.interval.estimate if middle.interval else middle.value_s
    if call is None or found.images_per_s_point is None:
        return []
    o = found.outputs
    return [
        {
            "group": group,
            "tuning": clean(f"{served_as(case)} {case.case.tuning.precision}"),
            "batch": case.case.work.batch,
            "ms": 1e3 * call,
            "rate": found.images_per_s_point,
            "on": "yes" if on else "no",
            "label": str(case.case.work.batch),
            "call": format_duration(call),
            "flags": clean(", ".join(case.flags)) or "none",
            "shown": f"{words.significant(found.images_per_s_point, 3)} images/s",
            "energy": "not known" if found.j_per_image_point is None else f"{energy(found).text} an image",
            "agreement": "not known" if o.agreement is None else f"{100 * o.agreement:.1f} %",
        }
    ]
