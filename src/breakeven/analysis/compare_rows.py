"""The rows of a comparison: for each case of both results base time / new time, and a verdict.

Knows nothing about which cases are compared or what is made of the rows.
"""

import dataclasses
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from breakeven import stats
from breakeven.analysis.cases import Measured
from breakeven.analysis.comparable import Difference, gate, other_machine
from breakeven.analysis.compare_findings import CaseComparison, Of
from breakeven.analysis.compare_sides import SAME_LINES, OneSide, shared, unranked
from breakeven.analysis.compare_words import not_comparable, told_of
from breakeven.analysis.processes import NS, Key
from breakeven.analysis.ratios import FEWEST, MOVING, disturbed, drift, outrun


@dataclass(frozen=True, kw_only=True, slots=True)
class Draft:
    """A row before its verdict, which needs all of them."""

    row: CaseComparison
    ratio: stats.Ratio | None
    moving: bool = False


def drafts_of(a: OneSide, b: OneSide, key: str, across: bool, shown: dict[str, Difference]) -> list[Draft]:
    """The rows of one case: its step, and of inference single calls too."""
    one, two = a.cases[key], b.cases[key]
    row = dataclasses.replace(_bare(two, "step"), processes=(len(one.steps), len(two.steps)))
    row = dataclasses.replace(row, outputs=(a.outputs.get(key), b.outputs.get(key)))
    for m, side in ((one, a), (two, b)):
        why = unranked(side.outputs.get(key)) or m.finding.unproven
        if why or not m.steps or not side.used(m):
            why = why or m.finding.failure or m.finding.reasons.get("step_s", "no number")
            return [Draft(row=_because(row, ratio=f"{side.path}: {why}"), ratio=None)]
    if n := shared(a, one, b, two):
        return [Draft(row=_because(row, ratio=f"{SAME_LINES} ({n} processes)"), ratio=None)]
    for m, side in ((one, a), (two, b)):
        if own := side.disagreements(m):
            why = f"{side.path}: its processes differ: {told_of(own)}"
            row = _because(dataclasses.replace(row, blocked=own), ratio=why)
            return [Draft(row=row, ratio=None)]
    sides = a.side(one), b.side(two)
    found, elsewhere = gate(*sides), other_machine(*sides)
    blocked = found.blocked if across else (*found.blocked, *elsewhere)
    shown |= {d.field: d for d in (*elsewhere, *found.shown) if d.field not in shown}
    if blocked:
        why = not_comparable(blocked, elsewhere)
        row = _because(dataclasses.replace(row, blocked=blocked), ratio=why)
        return [Draft(row=row, ratio=None)]
    flags = tuple(sorted({*one.finding.flags, *two.finding.flags}))
    evidence = one.finding.evidence + two.finding.evidence
    drafts = []
    timed: tuple[Of, ...] = ("step", "call") if two.case.work.task == "infer" else ("step",)
    for of in timed:
        before, after = (_seconds(side, m, of) for side, m in ((a, one), (b, two)))
        if of == "step" or (before and after):
            timed_row = dataclasses.replace(_bare(two, of), outputs=row.outputs)
            drafts.append(_draft(timed_row, before, after, (one, two), flags, evidence))
    return drafts


def _bare(m: Measured, of: Of) -> CaseComparison:
    return CaseComparison(
        case_id=m.finding.case_id,
        case=m.case,
        tuning_name=m.finding.tuning_name,
        device_label=m.finding.device_label,
        of=of,
        processes=(0, 0),
    )


def _seconds(side: OneSide, m: Measured, of: Of) -> list[float]:
    """One value a process, in seconds: of the unit that the case's numbers are of."""
    if of == "step":
        return [m.steps[key] for key in _keys(m)]
    calls = [a.calls_ns for a in side.used(m) if a.fingerprint_id == m.finding.unit]
    return [statistics.median(mine) * NS for mine in calls if mine and statistics.median(mine) > 0]


def _keys(m: Measured) -> list[Key]:
    """The processes of the unit that the case's numbers are of."""
    return sorted((key for key in m.steps if key[0] == m.finding.unit), key=lambda key: key[1])


def _draft(
    row: CaseComparison,
    before: Sequence[float],
    after: Sequence[float],
    pair: tuple[Measured, Measured],
    flags: tuple[str, ...],
    evidence: tuple[str, ...],
) -> Draft:
    base_s, new_s = stats.geometric_mean(before), stats.geometric_mean(after)
    ratio = stats.welch_ratio(before, after, looks=(pair[0].looks, pair[1].looks))
    row = dataclasses.replace(
        row,
        processes=(len(before), len(after)),
        base_s=base_s,
        new_s=new_s,
        point=base_s / new_s,
        slower_by=new_s / base_s - 1,
        ratio=ratio.interval if ratio else None,
        log_sd=ratio.log_sd / math.sqrt(2) if ratio else None,
        flags=flags,
        evidence=evidence,
    )
    if ratio is None:
        return Draft(row=_because(row, ratio="one process a side: no interval, no verdict"), ratio=None)
    if any(disturbed(m.finding) for m in pair):
        row = _because(row, verdict="something else used the machine in most processes of a side")
    elif min(row.processes) < FEWEST:
        row = _because(
            row, verdict=f"{min(row.processes)} processes a side: {FEWEST} are the fewest for a verdict"
        )
    moving = row.of == "step" and outrun(ratio, drift([(m, _keys(m)) for m in pair]))
    return Draft(row=row, ratio=ratio, moving=moving)


def settled(drafts: Sequence[Draft], margin: float, threshold: float | None) -> list[CaseComparison]:
    """Every row with its verdict, after Holm's correction over all of them; and what the gate says."""
    known = [d.ratio for d in drafts if d.ratio is not None]
    adjusted = iter(stats.holm([r.p_value for r in known]))
    rows = [
        d.row if d.ratio is None else _judged(d, d.ratio, next(adjusted), len(known), margin) for d in drafts
    ]
    if threshold is None or not known:
        return rows
    slow = iter(
        stats.slowdowns(
            [math.log(r.interval.estimate) for r in known],
            [r.log_se for r in known],
            [r.df for r in known],
            threshold=threshold,
        )
    )
    return [
        row
        if d.ratio is None
        # No verdict, no failure: the machine was shared, or processes are too few.
        else dataclasses.replace(row, fails=bool(next(slow)) and row.verdict is not None)
        for row, d in zip(rows, drafts, strict=True)
    ]


def _judged(draft: Draft, ratio: stats.Ratio, p_adjusted: float, tests: int, margin: float) -> CaseComparison:
    row = dataclasses.replace(draft.row, p_adjusted=p_adjusted)
    if "verdict" in row.reasons:
        return row
    verdict = stats.verdict(ratio, margin=margin, p_adjusted=p_adjusted)
    needed = None
    if draft.moving and verdict is not stats.Verdict.UNCERTAIN:
        return _because(row, verdict=MOVING)
    if verdict is stats.Verdict.UNCERTAIN:
        needed = stats.processes_to_decide(ratio, margin=margin, tests=tests)
    return dataclasses.replace(row, verdict=verdict, processes_needed=needed)


def _because(row: CaseComparison, **reasons: str) -> CaseComparison:
    return dataclasses.replace(row, reasons={**row.reasons, **reasons})
