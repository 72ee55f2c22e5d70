"""What the tests of claims share: which rows they take, and one decision of several rows.

Knows nothing about any one claim. A candidate that is no CPU counts as a GPU.
"""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from breakeven.analysis.findings import ClaimVerdict, RatioFinding, Understanding
from breakeven.analysis.pairs import is_cpu
from breakeven.catalog.claims import Claim
from breakeven.records.case import Case
from breakeven.stats import Interval
from breakeven.units import format_ratio_interval

AS_WRITTEN = "as-written"


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What one row, or all of them, say about a claim."""

    verdict: ClaimVerdict
    detail: str
    evidence: tuple[str, ...] = ()


def bounded(r: RatioFinding, claim: Claim) -> Decision:
    """Whether one ratio lies within the bounds of the claim; none without a verdict of its own does."""
    where = f"{r.candidate_label} against {r.base_label}"
    if r.ratio is None or r.verdict is None:
        why = r.reasons.get("ratio") or r.reasons.get("verdict", "no verdict")
        return Decision(verdict="cannot be told", detail=f"{where}: {why}", evidence=r.evidence)
    text = f"{format_ratio_interval(r.ratio)} here ({where})"
    return Decision(verdict=inside(r.ratio, claim), detail=text, evidence=r.evidence)


def all_of(decided: Sequence[Decision], *, missing: str) -> Decision:
    """One verdict of all rows: they must agree, or it cannot be told."""
    if not decided:
        return Decision(verdict="cannot be told", detail=f"missing: {missing}")
    details = "; ".join(dict.fromkeys(d.detail for d in decided))
    evidence = tuple(dict.fromkeys(line for d in decided for line in d.evidence))
    if len({d.verdict for d in decided}) > 1:
        return Decision(verdict="cannot be told", detail=f"the rows disagree: {details}", evidence=evidence)
    return Decision(verdict=decided[0].verdict, detail=details, evidence=evidence)


def inside(interval: Interval, claim: Claim) -> ClaimVerdict:
    """Confirmed wholly within the claim's bounds, not confirmed wholly outside on one side."""
    low, high = (
        -math.inf if claim.low is None else claim.low,
        math.inf if claim.high is None else claim.high,
    )
    if low <= interval.low and interval.high <= high:
        return "confirmed"
    return "not confirmed" if interval.high < low or interval.low > high else "cannot be told"


def quotient(over: Interval, under: Interval) -> Interval:
    """One time over another, as wide as both intervals allow: they may come from other processes."""
    return dataclasses.replace(
        over,
        low=over.low / under.high,
        estimate=over.estimate / under.estimate,
        high=over.high / under.low,
    )


def as_written(found: Understanding) -> list[RatioFinding]:
    """Ratios of a training step, a GPU against a whole CPU, both sides as written.

    One core is no CPU of any paper, and a step that accumulates is another loop than theirs.
    """
    gpus = {c.device_label for c in found.cases if not is_cpu(c.case.device)}
    cases: dict[str, list[Case]] = {}
    for c in found.cases:
        cases.setdefault(c.case_id, []).append(c.case)
    return [
        r
        for r in found.ratios
        if r.of == "step"
        and r.tuning_name == r.tuning_base == AS_WRITTEN
        and r.candidate_label in gpus
        and r.base_label not in gpus
        and any(case.work.task == "train" for case in cases.get(r.candidate_id, ()))
        and _is_usual([*cases.get(r.base_id, ()), *cases.get(r.candidate_id, ())])
    ]


def _is_usual(sides: Iterable[Case]) -> bool:
    return not any(
        one.device.threads == 1 or (one.work.recipe is not None and one.work.recipe.accumulation > 1)
        for one in sides
    )


def task_of(ratio: RatioFinding, found: Understanding) -> str | None:
    """What was timed: `train` or `infer`."""
    return next((c.case.work.task for c in found.cases if c.case_id == ratio.candidate_id), None)


def is_gpu(label: str, found: Understanding) -> bool:
    """Whether the device of that label is no CPU."""
    return any(not is_cpu(c.case.device) for c in found.cases if c.device_label == label)


def at_batch(batch: int, claim: Claim) -> bool:
    """Whether the batch is that of the claim, if it names one."""
    return "batch" not in claim.numbers or batch == claim.number("batch")


def batch_words(claim: Claim) -> str:
    """The claim's batch in words, empty where it names none."""
    return f" at batch {claim.number('batch'):g}" if "batch" in claim.numbers else ""


def percent(share: Interval) -> str:
    """A share with its interval, "2.1 % [1.9, 2.3]"."""
    low, mid, high = (100 * x for x in (share.low, share.estimate, share.high))
    return f"{mid:.2g} % [{low:.2g}, {high:.2g}]"


def plain(interval: Interval) -> str:
    """A number that may be negative, with its interval."""
    return f"{interval.estimate:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
