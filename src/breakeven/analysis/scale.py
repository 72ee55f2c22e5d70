"""How the ratio moves with the size of the model: a power law at every tuning.

Knows nothing about how a ratio was measured.
A law from three sizes has one degree of freedom: its interval is wide, and honestly so. Nor is it narrower
than the ratios' own intervals allow, as uncertain ratios may lie on a line by luck.
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

Against = Literal["parameters", "flops"]


def scale_of(ratios: Sequence[RatioFinding], cases: Mapping[str, Case]) -> list[ScaleFinding]:
    """Exponents against parameters and FLOPs, wherever three models were compared, all else being equal."""
    groups: dict[tuple[object, ...], list[RatioFinding]] = {}
    for ratio in ratios:
        if ratio.of == "step":
            groups.setdefault(_group(ratio, cases[ratio.candidate_id]), []).append(ratio)
    return [
        _scale(group, against)
        for group in groups.values()
        if len({ratio.model for ratio in group}) >= ENOUGH
        for against in ("parameters", "flops")
    ]


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


def _scale(group: Sequence[RatioFinding], against: Against) -> ScaleFinding:
    points = _points(group, against)
    spreads = [_spread(group, model) for model, _, _ in points]
    exponent = stats.slope_interval([size for _, size, _ in points], [r for _, _, r in points], spreads)
    reason = None
    doubt = next((r.reasons["verdict"] for r in group if r.ratio and "verdict" in r.reasons), None)
    if doubt is not None:
        reason = f"a ratio has no verdict: {doubt}"
    elif len({r.unit for r in group if r.ratio is not None}) > 1:
        doubt = reason = "the ratios are of different machines"
    elif len(points) < ENOUGH:
        reason = f"{len(points)} of {len({r.model for r in group})} models have a ratio with an interval"
    elif exponent is None:
        reason = "all models are of one size"
    elif exponent.contains(0.0):
        reason = f"{len(points)} sizes allow for no trend"
    return ScaleFinding(
        tuning_name=group[0].setting,
        contrast=group[0].contrast,
        against=against,
        exponent=exponent,
        verdict="cannot be told" if doubt else _verdict(exponent),
        points=points,
        evidence=tuple(dict.fromkeys(line for ratio in group for line in ratio.evidence)),
        reason=reason,
        base_label=group[0].base_label,
        candidate_label=group[0].candidate_label,
        batch=group[0].batch,
        source=group[0].source,
        data=group[0].data,
    )


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


def _spread(group: Sequence[RatioFinding], model: str) -> float:
    """Half the width of the interval of a model's log ratio; of several seeds that of their mean."""
    halves = [
        math.log(r.ratio.high / r.ratio.low) / 2 for r in group if r.model == model and r.ratio is not None
    ]
    return math.hypot(*halves) / len(halves)


def _verdict(exponent: stats.Interval | None) -> Literal["grows", "shrinks", "cannot be told"]:
    if exponent is None or exponent.contains(0.0):
        return "cannot be told"
    return "grows" if exponent.low > 0 else "shrinks"
