"""What a precision wins in one runtime, and what a runtime wins at one precision: two factors, kept apart.

Knows nothing about batches or other devices. Eager FP32 against the fastest of all mixes both; it is named so
and taken apart through the case between the two. The ratios of one work on one device are a family of tests.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from breakeven import stats
from breakeven.analysis.building import pay_back
from breakeven.analysis.findings import RatioFinding
from breakeven.analysis.inference import Served
from breakeven.analysis.inference_findings import Factor, FactorFinding, GainFinding
from breakeven.analysis.naming import without_numerics
from breakeven.analysis.pairs import Pair, refusal
from breakeven.analysis.processes import all_looks
from breakeven.analysis.ratios import one_unit, step_ratios
from breakeven.records.case import Tuning

PLAIN = ("fp32", "default")
"""Precisions that others are set against, the better known first."""

Draft = tuple[Factor, Served, Served]
"""What differs, the base and the candidate."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Gain:
    """Base, winner and the case between, before the ratios. None where there is no such case."""

    base: Served
    best: Served
    between: Served | None
    ranked: int

    def drafts(self) -> list[Draft]:
        """The whole, then the part on either side of the case between."""
        whole = [(_kind(self.base, self.best), self.base, self.best)]
        if self.between is None:
            return whole
        steps = ((self.base, self.between), (self.between, self.best))
        return [*whole, *((_kind(a, b), a, b) for a, b in steps)]


def factors_of(cases: Sequence[Served]) -> tuple[list[FactorFinding], list[GainFinding]]:
    """Every factor of every work on every device, and what the fastest wins over eager FP32, taken apart."""
    places: dict[tuple[str, str, str], list[Served]] = {}
    for one in cases:
        if one.ranked:
            m = one.measured
            places.setdefault((one.finding.source, m.work_id, m.finding.device_label), []).append(one)
    shown: list[FactorFinding] = []
    gains: list[GainFinding] = []
    for mine in places.values():
        drafts, gain = [*_precisions(mine), *_runtimes(mine)], _gain(mine)
        made = _tested([*drafts, *(gain.drafts() if gain else [])])
        shown += [made[ids] for ids in dict.fromkeys(_ids(draft) for draft in drafts)]
        if gain is not None:
            gains.append(_gain_finding(gain, [made[_ids(draft)] for draft in gain.drafts()], mine))
    return shown, gains


def _tested(drafts: Sequence[Draft]) -> dict[tuple[str, str, str], FactorFinding]:
    """The factors of one place: each pair once, for the parts of a gain are among the factors as a rule."""
    every = {_ids(draft): draft for draft in drafts}
    ratios = step_ratios([_pair(base, candidate) for _, base, candidate in every.values()])
    return {ids: _factor(draft, ratio) for (ids, draft), ratio in zip(every.items(), ratios, strict=True)}


def _ids(draft: Draft) -> tuple[str, str, str]:
    _, base, candidate = draft
    return base.finding.source, base.finding.case_id, candidate.finding.case_id


def _pair(base: Served, candidate: Served) -> Pair:
    a, b = base.measured, candidate.measured
    return Pair(base=a, candidate=b, refused=refusal(a, b))


def _tuning(one: Served) -> Tuning:
    return one.measured.case.tuning


def _driven(one: Served) -> Tuning:
    """The tuning but for its numerics."""
    return dataclasses.replace(_tuning(one), precision="default", calibration=None)


def _numerics(one: Served) -> tuple[str, str | None]:
    return _tuning(one).precision, _tuning(one).calibration


def _kind(base: Served, candidate: Served) -> Factor:
    if _driven(base) == _driven(candidate):
        return "precision"
    return "runtime" if _numerics(base) == _numerics(candidate) else "mixed"


def _precisions(mine: Sequence[Served]) -> Iterator[Draft]:
    """In every runtime and execution each precision against FP32 there, else against its default."""
    for group in _groups(mine, _driven):
        base = _plain(group)
        if base is not None:
            yield from (("precision", base, one) for one in group if one is not base)


def _runtimes(mine: Sequence[Served]) -> Iterator[Draft]:
    """At every precision each runtime and execution against torch's eager mode, else against the first."""
    for group in _groups(mine, _numerics):
        base = _eager(group) or group[0]
        yield from (("runtime", base, one) for one in group if one is not base)


def _groups(mine: Sequence[Served], key: object) -> list[list[Served]]:
    groups: dict[object, list[Served]] = {}
    for one in mine:
        groups.setdefault(key(one), []).append(one)  # type: ignore[operator]
    return list(groups.values())


def _plain(group: Sequence[Served]) -> Served | None:
    found = (one for precision in PLAIN for one in group if _tuning(one).precision == precision)
    return next(found, None)


def _eager(group: Sequence[Served]) -> Served | None:
    """The loop as people write it: eager, in the framework's own layout where that was measured."""
    eager = [one for one in group if _tuning(one).execution == "eager"]
    return min(eager, key=lambda one: _tuning(one).layout != "channels-first", default=None)


def _gain(mine: Sequence[Served]) -> _Gain | None:
    """The fastest against eager FP32 (eager at its default where FP32 was not asked for)."""
    groups = [_eager([one for one in mine if _tuning(one).precision == name]) for name in PLAIN]
    base = next((one for one in groups if one is not None), None)
    best = max(mine, key=lambda one: one.finding.images_per_s_point or 0.0)
    if base is None or best is base:
        return None
    between = next(
        (
            one
            for want in ((_driven(best), _numerics(base)), (_driven(base), _numerics(best)))
            for one in mine
            if (_driven(one), _numerics(one)) == want and one is not base and one is not best
        ),
        None,
    )
    return _Gain(base=base, best=best, between=between, ranked=len(mine))


def _factor(draft: Draft, ratio: RatioFinding) -> FactorFinding:
    kind, base, candidate = draft
    a, b = base.measured, candidate.measured
    calls = stats.paired_ratio(
        *one_unit(base.middle_calls(), candidate.middle_calls()), looks=all_looks([a.looks, b.looks])
    )
    back = pay_back(b, a, ratio)
    reasons = dict(ratio.reasons)
    if calls is None:
        reasons["calls"] = "fewer than two processes with single calls in common"
    if back.reason:
        reasons["pays_back"] = back.reason
    return FactorFinding(
        kind=kind,
        model=ratio.model,
        data=ratio.data,
        batch=ratio.batch,
        seed=ratio.seed,
        device_label=ratio.candidate_label,
        base_id=ratio.base_id,
        candidate_id=ratio.candidate_id,
        base_name=without_numerics(a.finding.tuning_name),
        candidate_name=without_numerics(b.finding.tuning_name),
        base_precision=ratio.precision_base,
        candidate_precision=ratio.precision_candidate,
        ratio=ratio.ratio,
        point=ratio.point,
        verdict=str(ratio.verdict) if ratio.verdict is not None else None,
        calls=calls.interval if calls else None,
        pays_back=back.steps,
        source=ratio.source,
        evidence=ratio.evidence,
        reasons=reasons,
    )


def _gain_finding(gain: _Gain, parts: Sequence[FactorFinding], mine: Sequence[Served]) -> GainFinding:
    whole, *steps = parts
    over = step_ratios([_pair(gain.base, one) for one in mine if one is not gain.base])
    by_kind = {part.kind: part for part in steps}
    reasons = {}
    if whole.kind == "precision":
        by_kind["precision"], reasons["runtime"] = whole, "the winner runs as the base does"
    elif whole.kind == "runtime":
        by_kind["runtime"], reasons["precision"] = whole, "the winner has the base's precision"
    elif gain.between is None:
        what = f"{gain.best.measured.preset} at {gain.base.measured.case.tuning.precision} has no number"
        reasons["between"] = f"the two cannot be told apart: {what}"
    first = gain.base.measured.case.work
    return GainFinding(
        model=first.model,
        data=first.data,
        batch=first.batch,
        seed=first.seed,
        device_label=whole.device_label,
        base_id=whole.base_id,
        best_id=whole.candidate_id,
        candidates=gain.ranked,
        whole=whole,
        between_id=gain.between.finding.case_id if gain.between else None,
        runtime=by_kind.get("runtime"),
        precision=by_kind.get("precision"),
        times={r.candidate_id: r.ratio for r in over if r.ratio is not None},
        points={r.candidate_id: r.point for r in over if r.point is not None},
        source=whole.source,
        evidence=tuple(dict.fromkeys(line for part in parts for line in part.evidence)),
        reasons=reasons,
    )
