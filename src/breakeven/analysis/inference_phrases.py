"""Sentences about inference: what the fastest wins and by what, where batches saturate, what to choose from.

Knows nothing about which other sentences are said. A mixed ratio is never said without its two factors, and a
precision never without what it costs.
"""

from collections.abc import Iterator, Sequence

from breakeven.analysis import phrases
from breakeven.analysis.findings import CaseFinding
from breakeven.analysis.inference_findings import (
    FactorFinding,
    FrontierFinding,
    GainFinding,
    Inference,
    LaterFinding,
    Outputs,
    SaturationFinding,
)
from breakeven.analysis.inference_saturation import span
from breakeven.analysis.load import load_sentences
from breakeven.analysis.naming import short, without_numerics
from breakeven.units import format_duration, format_ratio_interval

MOST_DEVICES = 2
FAR = 1.25
"""Factor by which a second gain is worth a sentence of its own."""


def inference_sentences(found: Inference, cases: Sequence[CaseFinding]) -> list[str]:
    """The sentences, most important first; none where nothing was inferred."""
    said: list[str] = []
    for device in list(dict.fromkeys(g.device_label for g in found.gains))[:MOST_DEVICES]:
        said += _gains([g for g in found.gains if g.device_label == device], found)
    said += _left_out(found, cases)
    turns = [later(one) for one in found.later if one.answer != "cannot be told"][:1]
    said += turns
    said += list(_saturations(found))[-1 if turns else 0 :]
    said += _frontiers(found, cases)
    said += load_sentences(found.loads, cases)
    return said


def _gains(gains: Sequence[GainFinding], found: Inference) -> Iterator[str]:
    """Of one device the smallest batch of its first model, and the largest gain where that is far larger."""
    mine = [g for g in gains if g.model == gains[0].model]
    smallest = min(mine, key=lambda g: g.batch)
    largest = max(gains, key=lambda g: g.whole.point or 0.0)
    far = (largest.whole.point or 0.0) > FAR * (smallest.whole.point or 0.0)
    for one in [smallest, largest] if far else [smallest]:
        best = found.of(one.source, one.best_id)
        yield from gain(one, best.outputs if best else Outputs())


def gain(finding: GainFinding, outputs: Outputs) -> Iterator[str]:
    """What the fastest wins, its two factors, and how often it says the same as FP32: a sentence, or two."""
    whole = finding.whole
    where = f"On {short(finding.device_label)}, {finding.model} batch {finding.batch}"
    who = f"{whole.candidate_name} {whole.candidate_precision}"
    base = f"{whole.base_name} {whole.base_precision}"
    text = f"{where}: {who} is {_times(whole)} as fast as {base}{_doubt(whole) or _parts(finding)}"
    same = agreement(outputs) if whole.kind != "runtime" else ""
    if phrases.two_lines(f"{text}; {same}."):
        yield f"{text}; {same}." if same else f"{text}."
        return
    yield phrases.cut(text)
    if same:
        yield phrases.cut(f"{who} on {short(finding.device_label)}, batch {finding.batch}: {same}")


def _doubt(whole: FactorFinding) -> str:
    """Why the number is no verdict, instead of its parts; empty where it is one."""
    if whole.verdict == "uncertain":
        clear = whole.ratio is not None and not whole.ratio.contains(1.0)
        told = "no verdict among so many ratios" if clear else "which of them is faster cannot be told"
        return f": {told}; more processes may tell"
    why = whole.reasons.get("verdict") or whole.reasons.get("ratio")
    if why is None:
        return ""
    shared = why.startswith("something else")
    said = phrases.DISTURBED if shared else f"no verdict, {why.removesuffix(', no verdict')}"
    return f": {said}"


def _parts(finding: GainFinding) -> str:
    """The two factors of a mixed number, or that they cannot be told apart."""
    if finding.whole.kind != "mixed":
        return f" ({finding.whole.kind} alone)"
    if finding.precision is None or finding.runtime is None:
        return " (mixed: precision and runtime cannot be told apart)"
    return f": {_about(finding.precision)} by precision, {_about(finding.runtime)} by runtime"


def agreement(outputs: Outputs) -> str:
    """How often the outputs name the same class as FP32, or that nobody knows."""
    if outputs.agreement is None:
        return "its outputs were not compared"
    return f"{100 * outputs.agreement:.3g} % same top-1{' (random weights)' if outputs.random else ''}"


def _times(factor: FactorFinding) -> str:
    if factor.ratio is not None:
        return format_ratio_interval(factor.ratio)
    return f"about {_about(factor)}"


def _about(factor: FactorFinding) -> str:
    value = factor.point or 0.0
    return f"{value:.1f}x" if value < 9.95 else f"{value:.0f}x"


def later(finding: LaterFinding) -> str:
    """Whether the faster device saturates later."""
    many = phrases.two_digits(finding.rates)
    who = f"{short(finding.faster)}, {many}x as fast as {short(finding.slower)}, saturates {finding.answer}"
    batches = f"B90 {span(finding.faster_batch)} against {span(finding.slower_batch)}"
    return phrases.cut(f"{who}: {batches} ({finding.model}, {finding.tuning_name} {finding.precision})")


def _saturations(found: Inference) -> Iterator[str]:
    """For each device the sweep that reaches the highest rate."""
    for device in list(dict.fromkeys(s.device_label for s in found.saturation))[:MOST_DEVICES]:
        mine = [s for s in found.saturation if s.device_label == device]
        swept = [s for s in mine if s.model == mine[0].model and len(s.points) > 2]
        if swept:
            yield saturation(max(swept, key=lambda s: max(p.images_per_s for p in s.points)))


def saturation(finding: SaturationFinding) -> str:
    """From which batch a device is saturated, and the knee below which a larger batch is free."""
    where = f"{short(finding.device_label)} ({finding.model}, {finding.tuning_name} {finding.precision})"
    reach = finding.reach(0.9)
    if reach.answer == "cannot be told":
        why = f": {reach.reason}" if reach.reason else ""
        return phrases.cut(f"From which batch {where} is saturated cannot be told{why}")
    if reach.answer == "not swept far enough":
        return phrases.cut(f"{where} is not saturated at batch {finding.largest}: B90 {span(reach)}")
    text = f"{where} reaches 90 % of its best rate from batch {span(reach)}"
    if finding.oom_at is not None:
        text += f"; batch {finding.oom_at} does not fit"
    free = _free(finding)
    whole = f"{text}{free}"
    return f"{whole}." if phrases.two_lines(f"{whole}.") else phrases.cut(text)


def _free(finding: SaturationFinding) -> str:
    """What the knee says: up to it a larger batch costs no time."""
    law, at, floor = finding.law, finding.knee_at, finding.floor_at
    if law is None or law.knee is None or at is None or floor is None:
        return ""
    return f"; up to batch {at:.0f} a call takes {format_duration(floor)} whatever its size"


def _frontiers(found: Inference, cases: Sequence[CaseFinding]) -> Iterator[str]:
    """What to choose for latency and what for rate, on the first device with a choice."""
    for one in found.frontier[:1]:
        if len(one.points) > 1 and not one.disturbed:
            yield frontier(one, {c.case_id: c for c in cases})


def _rate(per_s: float) -> str:
    """Three digits, as the table has it."""
    return f"{float(f'{per_s:.3g}'):,.10g}"


def frontier(finding: FrontierFinding, cases: dict[str, CaseFinding]) -> str:
    """Both ends of the frontier; or why they are no verdict."""
    where = f"{len(finding.points)} of {finding.candidates} cases on {short(finding.device_label)}"
    if (why := finding.reasons.get("choice")) is not None:
        cases_of = where.partition(" of ")[2]
        return phrases.cut(f"Which of {cases_of} to choose cannot be told: {why}")
    first, last = finding.points[0], max(finding.points, key=lambda p: p.images_per_s)
    ends = []
    for point, aim in ((first, "latency"), (last, "rate")):
        case = cases[point.case_id]
        name = f"{without_numerics(case.tuning_name)} {case.case.tuning.precision}"
        what = f"{name} at batch {point.batch}"
        figure = (
            format_duration(point.call_s) if aim == "latency" else f"{_rate(point.images_per_s)} images/s"
        )
        if aim == "rate" and _rate(point.images_per_s) != _rate(finding.most_per_s):
            # The highest of all is no choice: for so little more it makes a caller wait longer.
            figure += f", most {_rate(finding.most_per_s)}"
        ends.append(f"for {aim} {what} ({figure})")
    return phrases.cut(f"{where} are beaten by none; {ends[0]}, {ends[1]}")


def _left_out(found: Inference, cases: Sequence[CaseFinding]) -> Iterator[str]:
    """What no ranking holds because a check showed that it is not what it says, or not right."""
    out = [c for c in found.cases if c.outputs.failed]
    if not out:
        return
    case = next(c for c in cases if (c.source, c.case_id) == (out[0].source, out[0].case_id))
    name = f"{without_numerics(case.tuning_name)} {case.case.tuning.precision}"
    who = f"{name} on {short(case.device_label)}: {out[0].outputs.failed}"
    yield phrases.cut(f"{len(out)} of {len(found.cases)} cases failed a check and are not ranked; {who}")
