"""Whether two devices learn equally well: final accuracies of full runs, pooled over seeds.

Knows nothing about times.
"""

from collections.abc import Sequence
from typing import Literal

from breakeven import stats
from breakeven.analysis.findings import ParityFinding
from breakeven.analysis.pairs import Pair
from breakeven.analysis.runs import SYNTHETIC
from breakeven.analysis.seeds import by_seed

MARGIN = 0.01
"""Share of right answers; `accuracy_margin` of the study stands in its place."""


def parity_of(pairs: Sequence[Pair], margin: float, *, full: bool = False) -> list[ParityFinding]:
    """One verdict for each model, data, tuning and two devices; its cases differ in the seed only.

    `full`: the study asks for full runs, so a missing one is unfinished, not unasked.
    """
    pools: dict[tuple[object, ...], list[Pair]] = {}
    for pair in pairs:
        base, candidate = pair.base, pair.candidate
        # A pair of unequal work was refused before; its accuracies say nothing either.
        if candidate.case.work.task == "train" and base.work_id == candidate.work_id:
            key = (
                candidate.case.pool_id,
                base.tuning_id,
                candidate.tuning_id,
                candidate.case.device.label,
            )
            pools.setdefault(key, []).append(pair)
    return [_parity(pool, margin, full) for pool in pools.values()]


def _parity(pool: Sequence[Pair], margin: float, full: bool) -> ParityFinding:
    base = by_seed([pair.base for pair in pool])
    candidate = by_seed([pair.candidate for pair in pool])
    tested = stats.accuracy_equivalence(base, candidate, margin=margin)
    first = pool[0]
    return ParityFinding(
        model=first.candidate.case.work.model,
        tuning_name=first.candidate.finding.tuning_name,
        base_label=first.base.finding.device_label,
        candidate_label=first.candidate.finding.device_label,
        verdict=_word(tested.outcome),
        margin=margin,
        difference=tested.difference,
        base_accuracies=base,
        candidate_accuracies=candidate,
        evidence=tuple(
            line for pair in pool for m in (pair.base, pair.candidate) for r in m.runs for line in r.evidence
        ),
        reason=_why(first, base, candidate, tested, full),
    )


def _word(outcome: stats.EquivalenceOutcome) -> Literal["equivalent", "different", "cannot tell"]:
    match outcome:
        case stats.EquivalenceOutcome.EQUIVALENT:
            return "equivalent"
        case stats.EquivalenceOutcome.DIFFERENT:
            return "different"
        case _:
            return "cannot tell"


def _why(
    pair: Pair, base: Sequence[float], candidate: Sequence[float], tested: stats.Equivalence, full: bool
) -> str | None:
    if pair.candidate.case.work.data == SYNTHETIC:
        return "synthetic data: there is nothing to learn"
    if not base or not candidate:
        begun = full or base or candidate
        return "its full runs are not finished" if begun else "sampled; add --full"
    if min(len(base), len(candidate)) < 2:
        return "one seed a device; more seeds can: --full --set 'seed=[0, 1, 2]'"
    if tested.outcome is stats.EquivalenceOutcome.CANNOT_TELL:
        return "the interval reaches across the margin; add seeds"
    return None
