"""The verdict in words that a newcomer understands: at most seven sentences of two lines each.

Knows nothing about lines or statistics. It talks in ratios: a time on a shared CPU is no result.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from breakeven.analysis import phrases
from breakeven.analysis.climbing import ladder_sentences, law_sentences, span_sentences
from breakeven.analysis.curve_phrases import break_even_sentences, cores_sentences
from breakeven.analysis.curves import BreakEvenFinding, CoresFinding
from breakeven.analysis.findings import (
    CaseFinding,
    LadderFinding,
    ParityFinding,
    RatioFinding,
    ScaleFinding,
    ShareFinding,
)
from breakeven.analysis.framework_findings import Frameworks
from breakeven.analysis.framework_phrases import framework_sentences
from breakeven.analysis.inference_findings import Inference
from breakeven.analysis.inference_phrases import inference_sentences
from breakeven.analysis.quality import candidate_only, failures
from breakeven.stats import Verdict

MOST = 7


def sentences_of(
    cases: Sequence[CaseFinding],
    ratios: Sequence[RatioFinding],
    parity: Sequence[ParityFinding],
    scale: Sequence[ScaleFinding],
    cores: int | None,
    *,
    ladders: Sequence[LadderFinding] = (),
    on_cores: Sequence[CoresFinding] = (),
    break_even: Sequence[BreakEvenFinding] = (),
    missing: int = 0,
    skips: Sequence[Mapping[str, str]] = (),
    shares: Sequence[ShareFinding] = (),
    inference: Inference | None = None,
    frameworks: Frameworks | None = None,
) -> list[str]:
    """The sentences, most important first. `missing`: cases of the study that have no attempt yet."""
    if not cases:
        return ["Nothing was measured yet."]
    said = []
    if any(case.simulated for case in cases):
        said.append("SIMULATED device: planted numbers, not a measurement.")
    tunings = [ratio for ratio in ratios if ratio.contrast == "tuning"]
    compared = [ratio for ratio in tunings if ratio.of == "step"] or tunings
    said += _unfinished(len(cases), missing)
    crossed = framework_sentences(frameworks or Frameworks())
    inferred = inference_sentences(inference or Inference(), cases)
    said += crossed + inferred
    said += break_even_sentences(break_even)
    climbed = ladder_sentences(ladders, ratios, phrases.LONGEST)
    if not any(ratio.contrast == "best" and ratio.ratio is not None for ratio in ratios):
        # Without the best of both, the two ends of the ladder have to do.
        if compared or not (missing or inferred or crossed):
            said += _headlines(compared, cases, scale, cores) if compared else _lonely(cases, skips)
        said += cores_sentences(on_cores) + _bound(compared, shares) + climbed
    else:
        said += span_sentences(ratios, phrases.LONGEST) + cores_sentences(on_cores)
        said += _bound(compared, shares)
        said += climbed + law_sentences(scale, phrases.LONGEST)
    said += _uncertain(compared)
    said += _refused(compared, {case.case_id for case in failures(cases)})
    said += _failed(cases)
    said += _accuracy(parity)
    said += _forecast(cases)
    return [
        line if line.isprintable() and phrases.two_lines(line) else phrases.cut(line) for line in said[:MOST]
    ]


def _headlines(
    ratios: Sequence[RatioFinding],
    cases: Sequence[CaseFinding],
    scale: Sequence[ScaleFinding],
    cores: int | None,
) -> list[str]:
    """For each pair of devices the least and the most tuned ratios: both ends of the ladder."""
    said: list[str] = []
    for pair in dict.fromkeys((r.base_label, r.candidate_label) for r in ratios):
        mine = [r for r in ratios if (r.base_label, r.candidate_label) == pair and r.point is not None]
        tunings = list(dict.fromkeys(r.tuning_name for r in mine))
        for tuning in dict.fromkeys([*tunings[:1], *tunings[-1:]]):
            group = [r for r in mine if r.tuning_name == tuning]
            laws = [s for s in scale if (s.base_label, s.candidate_label, s.tuning_name) == (*pair, tuning)]
            said += _headline(group, laws, cases, cores)
    return said[:4]


def _bound(ratios: Sequence[RatioFinding], shares: Sequence[ShareFinding]) -> list[str]:
    """What holds the first pair's candidate back at the least tuned: the most frequent label there."""
    if not ratios:
        return []
    where = ratios[0].candidate_label, ratios[0].tuning_name
    ids = dict.fromkeys(r.candidate_id for r in ratios if (r.candidate_label, r.tuning_name) == where)
    mine = [s for s in shares if s.case_id in ids]
    labels = Counter(s.label for s in mine if s.label != "cannot tell")
    if not labels:
        return []
    label = labels.most_common(1)[0][0]
    return [phrases.bound(where, [s for s in mine if s.label == label], len(ids))]


def _unfinished(measured: int, missing: int) -> list[str]:
    if not missing:
        return []
    return [f"Not finished: {measured} of {measured + missing} cases were begun; the same command goes on."]


def _lonely(cases: Sequence[CaseFinding], skips: Sequence[Mapping[str, str]]) -> list[str]:
    """Why there is no ratio: one device, or no two cases of equal work."""
    devices = list(dict.fromkeys(case.device_label for case in cases))
    if len(devices) > 1:
        return ["No two cases did equal work at one tuning: there are times and no ratio."]
    if not any(case.processes for case in cases):
        return []
    what = f"Only {devices[0]} was measured: there are times and no ratio."
    if skips:
        first = skips[0]
        return [phrases.cut(f"{what} Skipped: {first.get('what', '')}: {first.get('reason', '')}")]
    return [f"{what} Name a second device."]


def _headline(
    group: Sequence[RatioFinding],
    laws: Sequence[ScaleFinding],
    cases: Sequence[CaseFinding],
    cores: int | None,
) -> list[str]:
    """One sentence for the ratios at one tuning, a second where range and trend do not fit on two lines."""
    who = phrases.Sides.of(group[0], cases, cores)
    certain = [r for r in group if r.ratio is not None]
    if not certain:
        return [phrases.single(group, who)]
    if len(group) == 1:
        return [phrases.one_ratio(group[0], who)]
    whole = phrases.many_ratios(certain, who)
    trends = phrases.trends(certain, laws)
    if not trends:
        return [f"{whole}."]
    joined = next((text for trend in trends if phrases.two_lines(text := f"{whole}; {trend}.")), None)
    return [joined] if joined else [f"{whole}.", f"{trends[0][0].upper()}{trends[0][1:]}."]


def _uncertain(ratios: Sequence[RatioFinding]) -> list[str]:
    """Of a range, which model cannot be told; a single ratio said so itself."""
    unclear = [r for r in ratios if r.verdict is Verdict.UNCERTAIN]
    groups = {(r.base_label, r.candidate_label, r.tuning_name) for r in unclear}
    alone = [r for r in ratios if (r.base_label, r.candidate_label, r.tuning_name) in groups]
    if not unclear or len(alone) == len(groups):
        return []
    first = unclear[0]
    more = f" (and {len(unclear) - 1} more)" if len(unclear) > 1 else ""
    return [f"{first.model}{more}: {phrases.cannot_tell(first)}."]


def _refused(ratios: Sequence[RatioFinding], failed: set[str]) -> list[str]:
    """Pairs without a ratio, but for those of a failed case, which has a sentence of its own."""
    refused = [r for r in ratios if r.point is None and not failed & {r.base_id, r.candidate_id}]
    if not refused:
        return []
    first = refused[0]
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    where = f"{first.candidate_label} and {first.base_label} on {first.model}{more}"
    return [phrases.cut(f"No ratio of {where}: {first.reasons.get('ratio', 'not comparable')}")]


def _failed(cases: Sequence[CaseFinding]) -> list[str]:
    failed = failures(cases)
    if not failed:
        return []
    first = failed[0]
    where = f"{first.case.work.model} on {first.device_label}, {phrases.tuning(first.tuning_name)}"
    why = first.failure or first.reasons.get("step_s", "no number")
    tried = sum(candidate_only(case) for case in cases)
    without = sum(not case.processes for case in cases) - tried  # what does not fit gave none either
    return [phrases.cut(f"{without} of {len(cases)} cases gave no number; {where}: {why}")]


def _accuracy(parity: Sequence[ParityFinding]) -> list[str]:
    """The worst verdict first: a difference matters more than any number of equal accuracies."""
    shown = [p for p in parity if not (p.reason or "").startswith("synthetic")]
    for verdict in ("different", "cannot tell", "equivalent"):
        # One that was trained says more than one that was only sampled.
        found = sorted((p for p in shown if p.verdict == verdict), key=_untrained)
        if found:
            return [phrases.accuracy(found[0], len(found), len(shown))]
    return []


def _untrained(parity: ParityFinding) -> int:
    """How many of the two sides have no full run."""
    return (not parity.base_accuracies) + (not parity.candidate_accuracies)


def _forecast(cases: Sequence[CaseFinding]) -> list[str]:
    """How well the forecast of a whole run did where one was made."""
    judged = [case for case in cases if case.forecast_error is not None]
    if not judged:
        return []
    worst = max(judged, key=lambda case: abs(case.forecast_error or 0.0))
    off = f"{abs(worst.forecast_error or 0.0):.0%}"
    if len(judged) == 1:
        return [f"The forecast of a whole run was off by {off} ({phrases.inside(judged)})."]
    told = f"Forecasts of whole runs of {len(judged)} cases were off by {off} at most"
    return [f"{told} ({phrases.inside(judged)})."]
