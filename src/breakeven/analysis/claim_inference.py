"""Tests of claims about inference: code over findings.

Knows nothing about which claims there are.
"""

import math
from collections.abc import Callable

from breakeven.analysis.claim_rows import (
    Decision,
    all_of,
    bounded,
    inside,
    is_gpu,
    quotient,
    task_of,
)
from breakeven.analysis.findings import ClaimVerdict, Understanding
from breakeven.analysis.inference_findings import Reach
from breakeven.analysis.inference_saturation import span
from breakeven.analysis.ratios import FEWEST
from breakeven.catalog.claims import Claim
from breakeven.units import format_ratio_interval

WORDS = {"infer": "inference", "train": "training"}


def _fastest(claim: Claim, found: Understanding) -> Decision:
    """The largest ratio of a task at a precision against a CPU at any; of inference also against the loop as
    people write it there, which is what such numbers quote: it is mixed, and said to be."""
    task, precision = claim.numbers["task"][0], claim.numbers["precision"][0]
    cases = {c.case_id: c.case for c in found.cases}
    rows = [
        (r.ratio.estimate, bounded(r, claim))
        for r in found.ratios
        if r.candidate_id in cases
        and cases[r.candidate_id].work.task == task
        and r.precision_candidate == precision
        and is_gpu(r.candidate_label, found)
        and not is_gpu(r.base_label, found)
        and r.ratio is not None
    ]
    rows += _mixed(claim, found, precision) if task == "infer" else []
    best = sorted(rows, key=lambda row: row[0])[-1:]
    missing = f"{WORDS[task]} in {precision} on a GPU against a CPU"
    return all_of([decision for _, decision in best], missing=missing)


def _mixed(claim: Claim, found: Understanding, precision: str) -> list[tuple[float, Decision]]:
    """Rates of a GPU at that precision over those of a CPU in eager FP32, equal work, by both intervals."""
    ranked = {(c.source, c.case_id) for c in found.inference.cases if c.ranked}
    mine = [c for c in found.cases if (c.source, c.case_id) in ranked and c.samples_per_s is not None]
    rows = []
    for base in mine:
        tuning = base.case.tuning
        eager = tuning.execution == "eager" and tuning.precision in ("fp32", "default")
        if not eager or is_gpu(base.device_label, found):
            continue
        for other in mine:
            same = (other.case.work, other.source) == (base.case.work, base.source)
            if not same or other.case.tuning.precision != precision or not is_gpu(other.device_label, found):
                continue
            assert other.samples_per_s is not None and base.samples_per_s is not None
            ratio = quotient(other.samples_per_s, base.samples_per_s)
            what = f"{other.device_label} {other.tuning_name} against {base.device_label} eager"
            text = f"{format_ratio_interval(ratio)} here ({what}, {tuning.precision}: mixed)"
            evidence = (*base.evidence, *other.evidence)
            decision = Decision(verdict=inside(ratio, claim), detail=text, evidence=evidence)
            rows.append((ratio.estimate, decision))
    return rows


def _gpu_pair(claim: Claim, found: Understanding) -> Decision:
    """The largest ratio between two GPUs of one machine, named by its fingerprint."""
    base, candidate = (claim.numbers[side][0] for side in ("base", "candidate"))
    task = claim.numbers["task"][0]
    gpus = {str(m.get("gpu", "")) for m in found.machines}
    boards = next(iter(gpus)).split(", ") if len(gpus) == 1 else []
    labels = {name: f"cuda:{i}" for i, board in enumerate(boards) for name in board.split()}
    wanted = labels.get(base), labels.get(candidate)
    rows = [
        r
        for r in found.ratios
        if (r.base_label, r.candidate_label) == wanted and r.ratio is not None and task_of(r, found) == task
    ]
    best = sorted(rows, key=lambda r: r.ratio.estimate if r.ratio else 0.0)[-1:]
    missing = f"{WORDS[task]} on one machine with both a {base} and a {candidate}"
    return all_of([bounded(r, claim) for r in best], missing=missing)


def _runtimes(claim: Claim, found: Understanding) -> Decision:
    """The time of a single call (pipelined where none was timed; of a step) in one framework as a multiple of
    another's, of pairs whose work is shown to be equal.

    The sentence has no condition: one pair that is surely elsewhere is enough against it. What the
    framework's own compiler wins there is told beside it, where that alone was changed.
    """
    base, candidate, task = (claim.numbers[name][0] for name in ("base", "candidate", "task"))
    pairs = [
        (pair, pair.calls or pair.share)
        for pair in found.frameworks.pairs
        if (pair.task, pair.base_runtime, pair.candidate_runtime) == (task, base, candidate) and pair.ranked
    ]
    rows = [
        (
            share,
            inside(share, claim),
            f"{pair.model} on {pair.device_label} {format_ratio_interval(share)}",
            pair.evidence,
        )
        for pair, share in pairs
        if share is not None and share.n >= FEWEST
    ]
    if not rows:
        return all_of([], missing=f"{WORDS[task]} in {base} and {candidate} on one device, shown to be equal")
    verdicts = [verdict for _, verdict, _, _ in rows]
    ends = [text for _, _, text, _ in sorted(rows, key=lambda row: row[0].estimate)]
    told = [f"{verdicts.count('confirmed')} of {len(rows)} pairs within, "]
    told.append(
        f"{verdicts.count('not confirmed')} surely not: {' to '.join(dict.fromkeys((ends[0], ends[-1])))}"
    )
    told.append(f" of {base}'s time{_fused(candidate, task, found)}")
    decided: ClaimVerdict = "cannot be told"
    if "not confirmed" in verdicts:
        decided = "not confirmed"
    elif set(verdicts) == {"confirmed"}:
        decided = "confirmed"
    return Decision(
        verdict=decided,
        detail="".join(told),
        evidence=tuple(dict.fromkeys(line for *_, lines in rows for line in lines)),
    )


def _fused(runtime: str, task: str, found: Understanding) -> str:
    """What the framework's compiler wins over its plain graph, at settings equal but for that."""
    rows = [
        (one.share, one)
        for one in found.frameworks.fusion
        if (one.runtime, one.task) == (runtime, task) and one.share and one.verdict and not one.also
    ]
    if not rows:
        return ""
    rows.sort(key=lambda row: row[0].estimate)
    ends = [
        f"{format_ratio_interval(share)} ({one.model} on {one.device_label})"
        for share, one in (rows[0], rows[-1])
    ]
    how = f"{rows[0][1].execution} takes {' to '.join(dict.fromkeys(ends))} of {rows[0][1].base_execution}'s"
    return f"; there {how}"


def _sweet_spot(claim: Claim, found: Understanding) -> Decision:
    """The least batch whose rate is near the best one, wherever batches on both sides were measured."""
    share, low, high = claim.number("share"), claim.low or 0.0, claim.high or math.inf
    decided = []
    for sweep in found.inference.saturation:
        batches = [p.batch for p in sweep.points]
        if not is_gpu(sweep.device_label, found) or not (min(batches) < low and max(batches) > high):
            continue
        if share not in {reach.share for reach in sweep.reaches}:
            continue
        reach = sweep.reach(share)
        where = f"{sweep.model} on {sweep.device_label}, {sweep.tuning_name} {sweep.precision}"
        text = f"{where}: {share:.0%} of the best rate from batch {span(reach)}"
        if reach.answer == "cannot be told":
            text = f"{where}: from which batch {share:.0%} of the best rate cannot be told: {reach.reason}"
        decided.append(Decision(verdict=_between(reach, low, high), detail=text, evidence=sweep.evidence))
    return all_of(decided, missing=f"inference on a GPU at batches from below {low:g} to above {high:g}")


def _between(reach: Reach, low: float, high: float) -> ClaimVerdict:
    """Whether a saturation batch surely lies within the bounds, surely without, or neither."""
    first, last = reach.low, math.inf if reach.high is None else reach.high
    if first is None:
        return "cannot be told"
    if low <= first and last <= high:
        return "confirmed"
    return "not confirmed" if first > high or last < low else "cannot be told"


TESTS: dict[str, Callable[[Claim, Understanding], Decision]] = {
    "fastest": _fastest,
    "gpu pair": _gpu_pair,
    "runtimes": _runtimes,
    "sweet spot": _sweet_spot,
}
