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
    percent,
    quotient,
    task_of,
)
from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.catalog.claims import Claim

WORDS = {"infer": "inference", "train": "training"}


def _fastest(claim: Claim, found: Understanding) -> Decision:
    """The largest ratio of a task at a precision against a CPU at any."""
    task, precision = claim.numbers["task"][0], claim.numbers["precision"][0]
    cases = {c.case_id: c.case for c in found.cases}
    rows = [
        r
        for r in found.ratios
        if r.candidate_id in cases
        and cases[r.candidate_id].work.task == task
        and r.precision_candidate == precision
        and is_gpu(r.candidate_label, found)
        and not is_gpu(r.base_label, found)
        and r.ratio is not None
    ]
    best = sorted(rows, key=lambda r: r.ratio.estimate if r.ratio else 0.0)[-1:]
    missing = f"{WORDS[task]} in {precision} on a GPU against a CPU"
    return all_of([bounded(r, claim) for r in best], missing=missing)


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
    """The time of a call in one runtime over that in another, of equal work on one device, by both
    intervals."""
    base, candidate, task = (claim.numbers[name][0] for name in ("base", "candidate", "task"))
    decided = []
    for c in (c for c in found.cases if c.case.tuning.runtime == candidate and c.step_s is not None):
        for b in (b for b in found.cases if b.case.tuning.runtime == base and b.step_s is not None):
            same = c.case.work == b.case.work and (c.device_label, c.source) == (b.device_label, b.source)
            if not same or c.case.work.task != task or c.step_s is None or b.step_s is None:
                continue
            share = quotient(c.step_s, b.step_s)
            text = f"{c.case.work.model} on {c.device_label}: {percent(share)} of the time"
            evidence = (*c.evidence, *b.evidence)
            decided.append(Decision(verdict=inside(share, claim), detail=text, evidence=evidence))
    return all_of(decided, missing=f"{WORDS[task]} in {base} and {candidate} on one device")


def _sweet_spot(claim: Claim, found: Understanding) -> Decision:
    """The smallest batch whose rate is near the best one, wherever batches on both sides were measured."""
    share, low, high = claim.number("share"), claim.low or 0.0, claim.high or math.inf
    curves: dict[tuple[str, str, str], list[CaseFinding]] = {}
    for c in found.cases:
        if c.case.work.task == "infer" and is_gpu(c.device_label, found) and c.samples_per_s is not None:
            curves.setdefault((c.case.work.model, c.device_label, c.tuning_name), []).append(c)
    decided = []
    for (model, device, tuning), curve in curves.items():
        batches = {c.case.work.batch: c.samples_per_s_point or 0.0 for c in curve}
        if not (min(batches) < low and max(batches) > high):
            continue
        spot = min(batch for batch, rate in batches.items() if rate >= share * max(batches.values()))
        decided.append(
            Decision(
                verdict="confirmed" if low <= spot <= high else "not confirmed",
                detail=f"{model} on {device}, {tuning}: {share:.0%} of the best rate from batch {spot}",
                evidence=tuple(line for c in curve for line in c.evidence),
            )
        )
    return all_of(decided, missing=f"inference on a GPU at batches from below {low:g} to above {high:g}")


TESTS: dict[str, Callable[[Claim, Understanding], Decision]] = {
    "fastest": _fastest,
    "gpu pair": _gpu_pair,
    "runtimes": _runtimes,
    "sweet spot": _sweet_spot,
}
