"""How the ratio moves with the size of the model: a power law at every tuning.

Knows nothing about how a ratio was measured.
A law from three sizes has one degree of freedom: its interval is wide, and honestly so. Nor is it narrower
than the ratios' own intervals allow, as uncertain ratios may lie on a line by luck. All laws of a file are
one family: whoever asks at every tuning, of parameters and of FLOPs, finds by chance what none has alone.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Literal

from breakeven import stats
from breakeven.analysis.findings import RatioFinding, ScaleFinding
from breakeven.records.case import Case

ENOUGH = 3
"""Models that a slope with an interval takes."""
ALPHA = 0.05

Against = Literal["parameters", "flops"]


def scale_of(ratios: Sequence[RatioFinding], cases: Mapping[str, Case]) -> list[ScaleFinding]:
    """Exponents against parameters and FLOPs, wherever three models were compared, all else being equal."""
    groups: dict[tuple[object, ...], list[RatioFinding]] = {}
    for ratio in ratios:
        if ratio.of == "step":
            groups.setdefault(_group(ratio, cases[ratio.candidate_id]), []).append(ratio)
    return _settled(
        [
            _draft(group, against)
            for group in groups.values()
            if len({ratio.model for ratio in group}) >= ENOUGH
            for against in ("parameters", "flops")
        ]
    )


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Draft:
    """A law before the verdict, which needs all of them."""

    finding: ScaleFinding
    slope: stats.Slope | None
    doubt: str | None


def _settled(drafts: Sequence[_Draft]) -> list[ScaleFinding]:
    """Every law with its verdict, after Holm's correction over those of the file that may have one."""
    known = [draft.slope.p_value for draft in drafts if draft.slope and not draft.doubt]
    judged = iter(zip(stats.holm(known), stats.holm_confidences(known, alpha=ALPHA), strict=True))
    return [
        draft.finding
        if draft.slope is None or draft.doubt
        else _judged(draft.finding, draft.slope, *next(judged), len(known))
        for draft in drafts
    ]


def _judged(
    finding: ScaleFinding, slope: stats.Slope, p_adjusted: float, confidence: float, family: int
) -> ScaleFinding:
    exponent = slope.interval(confidence=confidence)
    reason = None
    if exponent.contains(0.0):
        reason = f"{slope.n} sizes allow for no trend"
        if family > 1:
            reason += f", after Holm's correction over {family} laws"
    return dataclasses.replace(
        finding,
        exponent=exponent,
        verdict=_verdict(exponent),
        reason=reason,
        p_adjusted=p_adjusted,
        family=family,
    )


def told_law(law: ScaleFinding, every: Sequence[ScaleFinding]) -> ScaleFinding:
    """Of a law against parameters and that of the same ratios against FLOPs the one to speak of: the first
    that is decided. Every sentence and every claim asks here, so that none says what another denies."""
    if law.verdict != "cannot be told":
        return law
    return next((s for s in every if s.verdict != "cannot be told" and _same_ratios(s, law)), law)


def _same_ratios(one: ScaleFinding, other: ScaleFinding) -> bool:
    fields = "base_label", "candidate_label", "tuning_name", "contrast", "batch", "source", "data"
    return all(getattr(one, name) == getattr(other, name) for name in fields)


def _group(ratio: RatioFinding, case: Case) -> tuple[object, ...]:
    """All that must be equal along a law, the work but for its model and seed included."""
    alike = dataclasses.replace(case.work, model="", seed=0)
    return (
        ratio.base_label,
        ratio.candidate_label,
        ratio.setting,
        # The best of each model is a tuning of its own; equal tunings are equal on both sides.
        ratio.tuning_base if ratio.contrast == "tuning" else None,
        alike,
    )


def _draft(group: Sequence[RatioFinding], against: Against) -> _Draft:
    points = _points(group, against)
    errors = [_error(group, model) for model, _, _ in points]
    slope = stats.slope_of([size for _, size, _ in points], [r for _, _, r in points], errors)
    reason = None
    doubt = next((r.reasons["verdict"] for r in group if r.ratio and "verdict" in r.reasons), None)
    if doubt is not None:
        reason = f"a ratio has no verdict: {doubt}"
    elif len({r.unit for r in group if r.ratio is not None}) > 1:
        doubt = reason = "the ratios are of different machines"
    elif len(points) < ENOUGH:
        reason = f"{len(points)} of {len({r.model for r in group})} models have a ratio with an interval"
    elif slope is None:
        reason = "all models are of one size"
    finding = ScaleFinding(
        tuning_name=group[0].setting,
        contrast=group[0].contrast,
        against=against,
        exponent=slope.interval(confidence=1 - ALPHA) if slope else None,
        verdict="cannot be told",
        points=points,
        evidence=tuple(dict.fromkeys(line for ratio in group for line in ratio.evidence)),
        reason=reason,
        base_label=group[0].base_label,
        candidate_label=group[0].candidate_label,
        batch=group[0].batch,
        source=group[0].source,
        data=group[0].data,
    )
    return _Draft(finding=finding, slope=slope, doubt=doubt)


def _points(group: Sequence[RatioFinding], against: Against) -> tuple[tuple[str, float, float], ...]:
    """(model, size, ratio) by size; of several seeds the geometric mean."""
    sizes: dict[str, float] = {}
    ratios: dict[str, list[float]] = {}
    for ratio in group:
        size = ratio.parameters if against == "parameters" else ratio.flops_per_step
        if size and ratio.ratio is not None:
            sizes[ratio.model] = float(size)
            ratios.setdefault(ratio.model, []).append(ratio.ratio.estimate)
    made = [(model, sizes[model], stats.geometric_mean(values)) for model, values in ratios.items()]
    return tuple(sorted(made, key=lambda point: point[1]))


def _error(group: Sequence[RatioFinding], model: str) -> tuple[float, float]:
    """Standard error of a model's log ratio with its degrees of freedom; of several seeds that of their mean.

    Read off the interval of paired processes, and so with the widening that is in it.
    """
    mine = [r.ratio for r in group if r.model == model and r.ratio is not None]
    errors = [math.log(i.high / i.low) / 2 / stats.t_quantile(0.5 + i.confidence / 2, i.n - 1) for i in mine]
    return math.hypot(*errors) / len(errors), float(min(i.n for i in mine) - 1)


def _verdict(exponent: stats.Interval) -> Literal["grows", "shrinks", "cannot be told"]:
    if exponent.contains(0.0):
        return "cannot be told"
    return "grows" if exponent.low > 0 else "shrinks"
