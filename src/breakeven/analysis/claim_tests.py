"""Tests of claims about training: code over findings, which says what it misses.

Knows nothing about records or about which claims there are. A claim about a CPU and a GPU is tested where
both sides ran as written, as in the papers. Rows of a machine that others used meanwhile decide nothing.
"""

import dataclasses
import math
from collections.abc import Callable

from breakeven.analysis.claim_rows import (
    AS_WRITTEN,
    Decision,
    all_of,
    as_written,
    at_batch,
    batch_words,
    bounded,
    inside,
    is_gpu,
    percent,
    plain,
    quotient,
)
from breakeven.analysis.findings import CaseFinding, ClaimVerdict, ScaleFinding, Understanding
from breakeven.analysis.ratios import FEWEST, disturbed
from breakeven.analysis.scale import told_law
from breakeven.catalog.claims import Claim
from breakeven.stats import Interval
from breakeven.units import format_ratio_interval

FLOAT_BYTES = 4
GB = 1e9


def _ratio(claim: Claim, found: Understanding) -> Decision:
    """Whether the ratio as written lies within the bounds of the claim."""
    rows = [r for r in as_written(found) if r.model == claim.model and at_batch(r.batch, claim)]
    return all_of(
        [bounded(r, claim) for r in rows],
        missing=f"{claim.model} as written on a CPU and a GPU{batch_words(claim)}",
    )


def _grows(claim: Claim, found: Understanding) -> Decision:
    """Whether the ratio as written goes with the size of the model as the claim says: by its law against
    parameters, where that is open against FLOPs. Where no law is decided, the order may refute alone."""
    rows, others = _laws(found)

    def decide(law: ScaleFinding) -> Decision:
        law = told_law(law, found.scale)
        if law.verdict == "cannot be told" or law.exponent is None:
            return _ordered(law, claim, found)
        elsewhere = [o.tuning_name for o in others if o.verdict not in (law.verdict, "cannot be told")]
        text = f"{law.verdict} with {law.against} (exponent {plain(law.exponent)})"
        text += f"; not so at {', '.join(dict.fromkeys(elsewhere))}" if elsewhere else ""
        verdict: ClaimVerdict = "confirmed" if law.verdict == claim.test else "not confirmed"
        return Decision(verdict=verdict, detail=text, evidence=law.evidence)

    return all_of([decide(law) for law in rows], missing="three models as written on a CPU and a GPU")


def _ordered(law: ScaleFinding, claim: Claim, found: Understanding) -> Decision:
    """One pair that surely goes the other way is enough against the claim. That all go its way is no trend:
    of three models without any, one study in six has them in either order."""
    mine = [
        r
        for r in as_written(found)
        if (r.base_label, r.candidate_label, r.batch) == (law.base_label, law.candidate_label, law.batch)
        and (r.source, r.data) == (law.source, law.data)
        and r.ratio is not None
        and r.verdict is not None
        and r.parameters
    ]
    if len({r.unit for r in mine}) > 1:
        return _open(law)  # ratios of different machines have no order
    mine.sort(key=lambda r: r.parameters or 0)
    intervals = [r.ratio for r in mine if r.ratio is not None]
    signs = [_direction(a, b) for i, a in enumerate(intervals) for b in intervals[i + 1 :]]
    wanted = 1 if claim.test == "grows" else -1
    shown = ", ".join(f"{r.model} {format_ratio_interval(r.ratio)}" for r in mine if r.ratio is not None)
    evidence = tuple(line for r in mine for line in r.evidence)
    if -wanted in signs:
        return Decision(verdict="not confirmed", detail=shown, evidence=evidence)
    return _open(law)


def _direction(small: Interval, large: Interval) -> int:
    """1 where the second interval lies above the first, -1 below, 0 where they overlap."""
    return (large.low > small.high) - (large.high < small.low)


def _exponent_above(claim: Claim, found: Understanding) -> Decision:
    """Whether the exponent of the ratio against parameters, as written, surely passes the bound."""
    rows, _ = _laws(found)

    def decide(law: ScaleFinding) -> Decision:
        if law.exponent is None or claim.low is None or law.exponent.contains(claim.low):
            return _open(law)
        if law.verdict == "cannot be told" and not law.exponent.contains(0.0):
            return _open(law)  # its ratios have no verdict, or are of different machines
        above = law.exponent.low > claim.low
        return Decision(
            verdict="confirmed" if above else "not confirmed",
            detail=f"exponent {plain(law.exponent)} here",
            evidence=law.evidence,
        )

    return all_of([decide(law) for law in rows], missing="three models as written on a CPU and a GPU")


def _open(law: ScaleFinding) -> Decision:
    shown = f"exponent {plain(law.exponent)} here" if law.exponent else law.reason or "no exponent"
    why = "more models"
    if law.exponent and law.verdict == "cannot be told" and not law.exponent.contains(0.0):
        why = law.reason or why
    return Decision(verdict="cannot be told", detail=f"{shown}: {why}", evidence=law.evidence)


def _transfer(claim: Claim, found: Understanding) -> Decision:
    """The share of copies in a step as written: as the parts of a step were timed; else at most what the data
    set on the device removes, or the bytes of a batch over the slowest measured rate of the link."""
    inputs = [
        Decision(
            verdict="not confirmed",
            detail=f"the whole input takes {percent(w.candidate_share)} of the step, copies included",
            evidence=w.evidence,
        )
        for w in found.what_if
        if w.model == claim.model
        and at_batch(w.batch, claim)
        and w.candidate_share is not None
        and w.candidate_share.n >= FEWEST
        and not w.disturbed
        and w.candidate_share.high < (claim.low or 0.0)
    ]
    rows = [c for c in _on_gpus(found, claim) if c.step_s is not None]
    timed = [d for c in rows if (d := _copied(c, claim, found)) is not None]
    links = [d for c in rows if (d := _link(c, claim, found)) is not None]
    return all_of(
        timed or inputs or links,
        missing=f"{claim.model} as written on a GPU{batch_words(claim)}, with the measured rate of its link",
    )


def _copied(case: CaseFinding, claim: Claim, found: Understanding) -> Decision | None:
    """What the host spent in copies, in every process alike; None where a step was not split in enough."""
    mine = [s for s in found.shares if (s.case_id, s.source) == (case.case_id, case.source)]
    split = next((s for s in mine if "copy" in s.shares and s.processes >= FEWEST), None)
    if split is None:
        return None
    share = split.shares["copy"]
    low, high = split.ranges.get("copy", (share, share))
    text = (
        f"copies take {100 * share:.2g} % of the step as timed apart, {100 * low:.2g} to {100 * high:.2g} % "
        f"in {split.processes} processes"
    )
    every = Interval(low=low, estimate=share, high=high, confidence=0.0, n=split.processes)
    return Decision(
        verdict=inside(every, claim),
        detail=text,
        evidence=(*case.evidence, *split.evidence),
    )


def _link(case: CaseFinding, claim: Claim, found: Understanding) -> Decision | None:
    rates = [
        (c.value, c.evidence)
        for c in found.ceilings
        if c.device_label == case.device_label
        and c.name.startswith("host_to_device")
        and c.value
        and c.source in ("", case.source)
        and c.machine in (None, case.unit)
        and "contended" not in c.flags
    ]
    if not rates or case.step_s is None:
        return None
    rate, evidence = min(rates)
    seconds = FLOAT_BYTES * math.prod(case.case.work.input_shape) * case.case.work.batch / (rate * GB)
    step = case.step_s
    share = dataclasses.replace(
        step, low=seconds / step.high, estimate=seconds / step.estimate, high=seconds / step.low
    )
    text = f"a batch takes {percent(share)} of the step at the link's slowest measured rate"
    return Decision(verdict=inside(share, claim), detail=text, evidence=(*case.evidence, *evidence))


def _of_ceiling(claim: Claim, found: Understanding) -> Decision:
    """Whether the arithmetic rate as written is surely above, or below, a share of the measured ceiling."""
    decided = []
    for c in _on_gpus(found, claim):
        if c.share_of_ceiling is None or c.step_s is None or not c.step_point_s:
            continue
        scale = c.share_of_ceiling * c.step_point_s
        share = dataclasses.replace(
            c.step_s, low=scale / c.step_s.high, estimate=c.share_of_ceiling, high=scale / c.step_s.low
        )
        text = f"{percent(share)} of the measured ceiling in {c.ceiling_precision}"
        evidence = (*c.evidence, *c.ceiling_evidence)
        decided.append(Decision(verdict=inside(share, claim), detail=text, evidence=evidence))
    missing = f"{claim.model} as written on a GPU{batch_words(claim)}, with its measured ceiling"
    return all_of(decided, missing=missing)


def _growth(claim: Claim, found: Understanding) -> Decision:
    """How many times as long a step of one model takes a GPU as that of another, by both intervals."""
    other = claim.numbers["than"][0]
    decided = []
    for c in _on_gpus(found, claim):
        smaller = dataclasses.replace(claim, model=other)
        for small in _on_gpus(found, smaller):
            if (small.device_label, small.source, small.unit) != (c.device_label, c.source, c.unit):
                continue
            if dataclasses.replace(small.case.work, model=c.case.work.model) != c.case.work:
                continue  # another recipe, data or seed
            if c.step_s is None or small.step_s is None:
                continue
            growth = quotient(c.step_s, small.step_s)
            text = f"{format_ratio_interval(growth)} as long as {other} on {c.device_label}"
            evidence = (*c.evidence, *small.evidence)
            decided.append(Decision(verdict=inside(growth, claim), detail=text, evidence=evidence))
    missing = f"{claim.model} and {other} as written on a GPU{batch_words(claim)}"
    return all_of(decided, missing=missing)


def _accuracy(claim: Claim, found: Understanding) -> Decision:
    """Whether all models learn equally well on both devices."""
    rows = [p for p in found.parity if is_gpu(p.candidate_label, found) and p.tuning_name == AS_WRITTEN]
    words: dict[str, ClaimVerdict] = {"equivalent": "confirmed", "different": "not confirmed"}
    decided = [
        Decision(
            verdict=words.get(p.verdict, "cannot be told"),
            detail=f"{p.model}: {p.reason or p.verdict}",
            evidence=p.evidence,
        )
        for p in rows
    ]
    if any(d.verdict == "not confirmed" for d in decided):
        decided = [d for d in decided if d.verdict == "not confirmed"]
    return all_of(decided, missing="full runs over several seeds on a CPU and a GPU (--full)")


TESTS: dict[str, Callable[[Claim, Understanding], Decision]] = {
    "ratio": _ratio,
    "grows": _grows,
    "shrinks": _grows,
    "exponent above": _exponent_above,
    "transfer share": _transfer,
    "share of ceiling": _of_ceiling,
    "growth": _growth,
    "accuracy": _accuracy,
}


def _on_gpus(found: Understanding, claim: Claim) -> list[CaseFinding]:
    return [
        c
        for c in found.cases
        if c.case.work.model == claim.model
        and c.case.work.task == "train"
        and c.tuning_name == AS_WRITTEN
        and at_batch(c.case.work.batch, claim)
        and is_gpu(c.device_label, found)
        and c.processes >= FEWEST
        and not disturbed(c)
    ]


def _laws(found: Understanding) -> tuple[list[ScaleFinding], list[ScaleFinding]]:
    """The laws against parameters as written, and those at other tunings."""
    shared = {(r.base_label, r.candidate_label) for r in found.ratios if r.disturbed}
    mine = [
        s
        for s in found.scale
        if s.against == "parameters"
        and is_gpu(s.candidate_label, found)
        and (s.base_label, s.candidate_label) not in shared
    ]
    written = [s for s in mine if s.tuning_name == AS_WRITTEN]
    return written, [s for s in mine if s.tuning_name != AS_WRITTEN]
