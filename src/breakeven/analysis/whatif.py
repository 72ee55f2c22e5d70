"""CPU against GPU, where Amdahl's law has nothing to fit: what the part that no device shortens allows.

Knows nothing about why a part is not shortened. The part is what the next tuning removes from the base's
step; the finding says whether the ratio keeps to the bound, for the share may cost the candidate less.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence

from breakeven import stats
from breakeven.analysis.curves import WhatIfFinding
from breakeven.analysis.pairs import Pair, is_cpu
from breakeven.analysis.processes import Key, all_looks, shared_keys
from breakeven.analysis.ratios import FEWEST, apart, busy
from breakeven.stats import Interval

AS_WRITTEN, NEXT = "as-written", "on-device"
"""The tunings with and without an input made on the host: what the second removes, no device shortens."""


def what_if_of(pairs: Sequence[Pair]) -> list[WhatIfFinding]:
    """One finding for every accelerator that was measured against a CPU at both tunings."""
    found = []
    for pair in pairs:
        if pair.candidate.preset != AS_WRITTEN or not _unlike(pair):
            continue
        after = next((p for p in pairs if _follows(pair, p)), None)
        if after is not None and not pair.refused and not after.refused:
            found.append(_finding(pair, after))
    return found


def _unlike(pair: Pair) -> bool:
    """A CPU as the base, something else as the candidate."""
    return is_cpu(pair.base.case.device) and not is_cpu(pair.candidate.case.device)


def _follows(pair: Pair, other: Pair) -> bool:
    """Whether `other` is the same work on the same devices, both sides at the next tuning."""
    same = pair.candidate.work_id == other.candidate.work_id
    same &= pair.candidate.case.device == other.candidate.case.device
    return same and other.candidate.preset == other.base.preset == NEXT


def _finding(pair: Pair, after: Pair) -> WhatIfFinding:
    sides = [pair.base, pair.candidate, after.base, after.candidate]
    base, candidate, base_after, candidate_after = _common([m.steps for m in sides])
    looks = all_looks(m.looks for m in sides)
    work = pair.candidate.case.work
    finding = WhatIfFinding(
        model=work.model,
        batch=work.batch,
        data=work.data,
        seed=work.seed,
        base_label=pair.base.finding.device_label,
        candidate_label=pair.candidate.finding.device_label,
        tuning_name=pair.candidate.finding.tuning_name,
        next_tuning=after.candidate.finding.tuning_name,
        disturbed=any(busy(m, base or m.steps) for m in sides),
        source=pair.candidate.finding.source,
        evidence=tuple(line for m in sides for line in m.finding.evidence),
    )
    if len(base) < 2:
        return dataclasses.replace(finding, reasons={"share": "fewer than two replicates in common"})
    removed = {key: base[key] - base_after[key] for key in base}
    finding = dataclasses.replace(
        finding,
        share=_share(base, base_after, looks),
        candidate_share=_share(candidate, candidate_after, looks),
        ratio=_ratio(base, candidate, looks),
        next_ratio=_ratio(base_after, candidate_after, looks),
    )
    if finding.share is None or finding.share.low <= 0:
        why = f"{finding.next_tuning} removes nothing from the base's step that can be told from 0"
        return dataclasses.replace(finding, reasons={"bound": why})
    share = finding.share
    bound = Interval(
        low=1 / share.high, estimate=1 / share.estimate, high=1 / share.low,
        confidence=share.confidence, n=share.n,
    )  # fmt: skip
    finding = dataclasses.replace(finding, bound=bound)
    if any(apart(sides[0], other, list(base)) for other in sides[1:]):
        return dataclasses.replace(finding, reasons={"holds": "the sides were not measured in turn"})
    return _held(finding, candidate, removed, looks)


def _held(
    finding: WhatIfFinding,
    candidate: Mapping[Key, float],
    removed: Mapping[Key, float],
    looks: Sequence[int],
) -> WhatIfFinding:
    """Whether the candidate's step is at least as long as what was removed from the base's.

    That is the same as a ratio below its bound, without a base time on both sides.
    """
    if finding.disturbed:
        why = "something else used the machine in most processes of a side"
    elif len(candidate) < FEWEST:
        why = f"{len(candidate)} processes a side: {FEWEST} are the fewest for a verdict"
    elif min(removed.values()) <= 0:
        why = "in one replicate nothing was removed"
    else:
        room = _ratio(candidate, removed, looks)
        if room is not None and not room.contains(1.0):
            return dataclasses.replace(finding, holds="within" if room.low > 1 else "exceeded")
        why = "the ratio lies at its bound"
    return dataclasses.replace(finding, reasons={"holds": why})


def _common(sides: Sequence[Mapping[Key, float]]) -> list[dict[Key, float]]:
    """The replicates that all sides have."""
    keys = shared_keys(sides)
    return [{key: side[key] for key in keys} for side in sides]


def _ratio(
    base: Mapping[Key, float], candidate: Mapping[Key, float], looks: Sequence[int]
) -> Interval | None:
    found = stats.paired_ratio(base, candidate, looks=looks)
    return found.interval if found else None


def _share(before: Mapping[Key, float], after: Mapping[Key, float], looks: Sequence[int]) -> Interval | None:
    """1 - after / before; negative where the next tuning is the slower one."""
    left = _ratio(after, before, looks)
    if left is None or not math.isfinite(left.high):
        return None
    return Interval(
        low=1 - left.high, estimate=1 - left.estimate, high=1 - left.low,
        confidence=left.confidence, n=left.n,
    )  # fmt: skip
