"""How many times as fast each candidate is as the baseline, with a verdict.

Knows nothing about which cases make a pair. Holm's correction runs over all ratios between devices of one
file; what is asked of one device is a family of its own (`ladder`).
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from breakeven import stats
from breakeven.analysis.cases import Measured
from breakeven.analysis.findings import CaseFinding, RatioFinding
from breakeven.analysis.pairs import Pair
from breakeven.analysis.processes import Key, trend_of
from breakeven.records.case import Case

MARGIN = 0.03
"""Ratios this close to 1 are SAME: two runs of one unchanged case may differ by that on a shared machine."""


PACES = 10.0
"""A verdict takes a ratio this many times as far from 1 (in logarithms) as its sides moved while timed.

At the pace seen, undoing it would take ten times as long again; warm-up slows down.
"""
MOVING = "times of a side still moved while they were measured, too far for the ratio"

FEWEST = 3
"""Processes a side that a verdict takes (contract R12)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Draft:
    """A ratio before the verdict, which needs all of them."""

    finding: RatioFinding
    ratio: stats.Ratio | None


def ratios_of(pairs: Sequence[Pair]) -> list[RatioFinding]:
    """A ratio of the step for every pair, and one of whole runs where both sides made some; one family."""
    drafts = [_draft(pair, "step") for pair in pairs if _has(pair, "step") or not _has(pair, "full")]
    drafts += [_draft(pair, "full") for pair in pairs if _has(pair, "full")]
    return _settled(drafts)


def step_ratios(pairs: Sequence[Pair]) -> list[RatioFinding]:
    """A ratio of the step for every pair, in their order; one family."""
    return _settled([_draft(pair, "step") for pair in pairs])


def _settled(drafts: Sequence[_Draft]) -> list[RatioFinding]:
    """Every ratio with its verdict, after Holm's correction over all of them."""
    known = [draft.ratio for draft in drafts if draft.ratio is not None]
    adjusted = iter(stats.holm([ratio.p_value for ratio in known]))
    return [
        draft.finding
        if draft.ratio is None
        else _judged(draft.finding, draft.ratio, next(adjusted), len(known))
        for draft in drafts
    ]


def one_unit(
    a: Mapping[Key, float], b: Mapping[Key, float]
) -> tuple[Mapping[Key, float], Mapping[Key, float]]:
    """Both sides on the unit where they share most replicates: a ratio across units is of neither.

    A process whose machine is unknown is on no unit: unknown never equals.
    """
    a, b = ({k: v for k, v in side.items() if k[0] is not None} for side in (a, b))
    shared = Counter(unit for unit, replicate in a if (unit, replicate) in b)
    if not shared:
        return a, b
    unit = max(shared, key=lambda u: shared[u])
    return tuple({k: v for k, v in side.items() if k[0] == unit} for side in (a, b))  # type: ignore[return-value]


def apart(base: Measured, candidate: Measured, shared: Sequence[Key]) -> bool:
    """Whether most paired processes came from different parents, so not in turn (R13)."""
    one = {(m.case.tuning.runtime, m.case.tuning.env) for m in (base, candidate)}
    if len(one) > 1 or not shared:
        return False  # other runtimes have parents of their own within one round
    strange = [key for key in shared if base.parents.get(key) != candidate.parents.get(key)]
    return 2 * len(strange) > len(shared)


def _differ(base: Case, candidate: Case) -> bool:
    """Whether the tunings differ in a setting that applies on both devices."""
    for field in dataclasses.fields(base.tuning):
        one, other = getattr(base.tuning, field.name), getattr(candidate.tuning, field.name)
        if field.name not in ("runtime", "threads") and None not in (one, other) and one != other:
            return True
    return False


def disturbed(case: CaseFinding) -> bool:
    """Whether something else used the machine in more than half of the processes of a case."""
    return shared(case.flag_counts.get("contended", 0), case.processes)


def busy(measured: Measured, keys: Collection[Key], of: Literal["step", "full"] = "step") -> bool:
    """The same of the given processes: whoever sets two sides against each other asks it of those it pairs.

    A side with many undisturbed processes beyond them would hide that all the paired ones were disturbed.
    """
    contended = measured.contended if of == "step" else measured.full_contended
    return shared(sum(key in contended for key in keys), len(keys))


def drift(sides: Sequence[tuple[Measured, Collection[Key]]]) -> float:
    """How far the steady steps of the given processes moved, each side's together, as a sum of logarithms."""
    return sum(abs(_trend(m, keys) or 0.0) for m, keys in sides)


def _trend(measured: Measured, keys: Collection[Key]) -> float | None:
    # All of them is what most ratios pair, and what the case itself was asked.
    if set(keys) == set(measured.blocks) and len(measured.blocks) == measured.finding.processes:
        return measured.trend
    return trend_of(measured.blocks[key] for key in keys if key in measured.blocks)


def outrun(ratio: stats.Ratio, moved: float) -> bool:
    """Whether sides that moved so far may have made the ratio (contract R4)."""
    low, high = math.log(ratio.interval.low), math.log(ratio.interval.high)
    distance = max(low, -high, 0.0)
    return moved > 0 and distance <= PACES * moved


def shared(contended: int, processes: int) -> bool:
    """Whether so many contended processes of all forbid a verdict: more than half."""
    return 2 * contended > max(1, processes)


def _has(pair: Pair, of: Literal["step", "full"]) -> bool:
    return bool(_values(pair.base, of)) and bool(_values(pair.candidate, of))


def _values(measured: Measured, of: Literal["step", "full"]) -> Mapping[Key, float]:
    return measured.steps if of == "step" else measured.totals


def _draft(pair: Pair, of: Literal["step", "full"]) -> _Draft:
    base, candidate = pair.base.finding, pair.candidate.finding
    precisions = base.case.tuning.precision, candidate.case.tuning.precision
    finding = RatioFinding(
        base_id=base.case_id,
        candidate_id=candidate.case_id,
        model=candidate.case.work.model,
        parameters=candidate.parameters,
        flops_per_step=candidate.flops_per_step,
        batch=candidate.case.work.batch,
        base_label=base.device_label,
        candidate_label=candidate.device_label,
        tuning_name=candidate.tuning_name,
        tuning_base=base.tuning_name,
        of=of,
        mixed=pair.base.preset != pair.candidate.preset or _differ(base.case, candidate.case),
        flags=tuple(sorted({*base.flags, *candidate.flags})),
        evidence=base.evidence + candidate.evidence,
        precision_base=precisions[0],
        precision_candidate=precisions[1],
        source=candidate.source,
        data=candidate.case.work.data,
        seed=candidate.case.work.seed,
        ceiling=_ceiling(base.ceiling_tflop_per_s, candidate.ceiling_tflop_per_s),
        ceiling_evidence=base.ceiling_evidence + candidate.ceiling_evidence,
        disturbed=disturbed(base) or disturbed(candidate),
        contrast=pair.contrast,
    )
    if pair.refused:
        return _Draft(finding=_because(finding, pair.refused), ratio=None)
    a, b = one_unit(_values(pair.base, of), _values(pair.candidate, of))
    used = [key for key in a if key in b]
    others = busy(pair.base, used or a, of) or busy(pair.candidate, used or b, of)
    finding = dataclasses.replace(finding, disturbed=others)
    if of == "step" and apart(pair.base, pair.candidate, used):
        finding = dataclasses.replace(
            finding, apart=True, flags=tuple(sorted({*finding.flags, "not_interleaved"}))
        )
    if not a or not b:
        return _Draft(finding=_because(finding, "not measured on both sides"), ratio=None)
    # Either side may have got more processes once it was seen.
    sides = [m.looks if of == "step" else m.full_looks for m in (pair.base, pair.candidate)]
    draft = _compared(finding, a, b, sorted({*sides[0], *sides[1]}))
    moved = drift([(pair.base, used), (pair.candidate, used)]) if of == "step" else 0.0
    if not moved:
        return draft
    finding = dataclasses.replace(
        draft.finding,
        flags=tuple(sorted({*draft.finding.flags, "not_steady"})),
        moving=draft.ratio is not None and outrun(draft.ratio, moved),
    )
    return dataclasses.replace(draft, finding=finding)


def _ceiling(base: float | None, candidate: float | None) -> float | None:
    return candidate / base if base and candidate else None


def _compared(
    finding: RatioFinding, a: Mapping[Key, float], b: Mapping[Key, float], looks: Sequence[int]
) -> _Draft:
    if not {unit for unit, _ in a} & {unit for unit, _ in b}:
        return _Draft(finding=_because(finding, "measured on different machines"), ratio=None)
    shared = [key for key in a if key in b]
    unit = shared[0][0] if shared else None
    ratio = stats.paired_ratio(a, b, looks=looks)
    if ratio is not None:
        finding = dataclasses.replace(finding, unit=unit, ratio=ratio.interval, point=ratio.interval.estimate)
        return _Draft(finding=finding, ratio=ratio)
    # A point takes processes of one unit: the replicates in common, else all of both sides.
    keys_a, keys_b = (shared, shared) if shared else (list(a), list(b))
    point = stats.geometric_mean(a[key] for key in keys_a) / stats.geometric_mean(b[key] for key in keys_b)
    few = min(len(a), len(b)) < 2
    why = "one process a side: no interval, no verdict" if few else "fewer than two replicates in common"
    return _Draft(finding=_because(dataclasses.replace(finding, unit=unit, point=point), why), ratio=None)


def _judged(finding: RatioFinding, ratio: stats.Ratio, p_adjusted: float, tests: int) -> RatioFinding:
    if finding.disturbed:
        # Others may have slowed one side alone; the interval knows nothing of that.
        reasons = {
            **finding.reasons,
            "verdict": "something else used the machine in most processes of a side",
        }
        return dataclasses.replace(finding, p_adjusted=p_adjusted, reasons=reasons)
    why = None
    if finding.apart:
        why = "the two sides were not measured in turn"
    elif ratio.interval.n < FEWEST:
        why = f"{ratio.interval.n} processes a side: {FEWEST} are the fewest for a verdict"
    if why is not None:
        return dataclasses.replace(
            finding, p_adjusted=p_adjusted, reasons={**finding.reasons, "verdict": why}
        )
    verdict = stats.verdict(ratio, margin=MARGIN, p_adjusted=p_adjusted)
    needed = None
    if finding.moving and verdict is not stats.Verdict.UNCERTAIN:  # which claims nothing
        reasons = {**finding.reasons, "verdict": MOVING}
        return dataclasses.replace(finding, p_adjusted=p_adjusted, reasons=reasons)
    if verdict is stats.Verdict.UNCERTAIN:
        needed = stats.processes_to_decide(ratio, margin=MARGIN, tests=tests)
    return dataclasses.replace(finding, verdict=verdict, p_adjusted=p_adjusted, processes_needed=needed)


def _because(finding: RatioFinding, reason: str) -> RatioFinding:
    return dataclasses.replace(finding, reasons={"ratio": reason})
