"""Published claims against these rows: each test is code over findings, and says what it misses.

Knows nothing about records. A claim about a CPU and a GPU is tested where a candidate that is no CPU was
measured against one, on both sides as written, as in the papers.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from breakeven.analysis import own_numbers
from breakeven.analysis.findings import (
    CaseFinding,
    ClaimFinding,
    ClaimVerdict,
    RatioFinding,
    ScaleFinding,
    Understanding,
)
from breakeven.analysis.pairs import is_cpu
from breakeven.catalog.claims import PAPERS, Claim, claims
from breakeven.stats import Interval
from breakeven.units import format_ratio_interval

AS_WRITTEN = "as-written"
FLOAT_BYTES = 4
GB = 1e9


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """What one row, or all of them, say about a claim."""

    verdict: ClaimVerdict
    detail: str
    evidence: tuple[str, ...] = ()


def claims_against(found: Understanding) -> tuple[ClaimFinding, ...]:
    """Every claim of the catalog with what these findings say about it."""
    return tuple(_decided(claim, found) for claim in claims())


def _decided(claim: Claim, found: Understanding) -> ClaimFinding:
    finding = ClaimFinding(
        claim=claim.claim,
        paper=PAPERS[claim.paper],
        where=claim.where,
        says=claim.says,
        verdict="cannot be told",
        detail="",
    )
    if claim.test in OWN:
        verdict, detail = OWN[claim.test](claim)
        return dataclasses.replace(finding, verdict=verdict, detail=detail, own=True)
    made = TESTS[claim.test](claim, found)
    return dataclasses.replace(finding, verdict=made.verdict, detail=made.detail, evidence=made.evidence)


def _ratio(claim: Claim, found: Understanding) -> Decision:
    """Whether the ratio as written lies within the bounds of the claim."""
    rows = [r for r in _as_written(found) if r.model == claim.model and _at_batch(r.batch, claim)]
    return _all(
        [_bounded(r, claim) for r in rows],
        missing=f"{claim.model} as written on a CPU and a GPU{_batch_words(claim)}",
    )


def _bounded(r: RatioFinding, claim: Claim) -> Decision:
    where = f"{r.candidate_label} against {r.base_label}"
    if r.ratio is None or r.verdict is None:
        why = r.reasons.get("ratio") or r.reasons.get("verdict", "no verdict")
        return Decision(verdict="cannot be told", detail=f"{where}: {why}", evidence=r.evidence)
    text = f"{format_ratio_interval(r.ratio)} here ({where})"
    return Decision(verdict=_inside(r.ratio, claim), detail=text, evidence=r.evidence)


def _grows(claim: Claim, found: Understanding) -> Decision:
    """Whether the ratio as written goes with the size of the model as the claim says."""
    rows, others = _laws(found)
    said = {"grows": "grows", "shrinks": "shrinks"}[claim.test]

    def decide(law: ScaleFinding) -> Decision:
        if law.verdict == "cannot be told" or law.exponent is None:
            return _open(law)
        elsewhere = [o.tuning_name for o in others if o.verdict not in (law.verdict, "cannot be told")]
        text = f"{law.verdict} with size (exponent {_plain(law.exponent)})"
        text += f"; not so at {', '.join(dict.fromkeys(elsewhere))}" if elsewhere else ""
        verdict: ClaimVerdict = "confirmed" if law.verdict == said else "not confirmed"
        return Decision(verdict=verdict, detail=text, evidence=law.evidence)

    return _all([decide(law) for law in rows], missing="three models as written on a CPU and a GPU")


def _exponent_above(claim: Claim, found: Understanding) -> Decision:
    """Whether the exponent of the ratio against parameters, as written, surely passes the bound."""
    rows, _ = _laws(found)

    def decide(law: ScaleFinding) -> Decision:
        if law.exponent is None or claim.low is None or law.exponent.contains(claim.low):
            return _open(law)
        above = law.exponent.low > claim.low
        return Decision(
            verdict="confirmed" if above else "not confirmed",
            detail=f"exponent {_plain(law.exponent)} here",
            evidence=law.evidence,
        )

    return _all([decide(law) for law in rows], missing="three models as written on a CPU and a GPU")


def _open(law: ScaleFinding) -> Decision:
    shown = f"exponent {_plain(law.exponent)} here" if law.exponent else law.reason or "no exponent"
    return Decision(verdict="cannot be told", detail=f"{shown}: more models", evidence=law.evidence)


def _transfer(claim: Claim, found: Understanding) -> Decision:
    """The share of copies in a step as written: at most what the data set on the device removes, else the
    bytes of a batch over the slowest measured rate of the link."""
    inputs = [
        Decision(
            verdict="not confirmed",
            detail=f"the whole input takes {_percent(w.candidate_share)} of the step, copies included",
            evidence=w.evidence,
        )
        for w in found.what_if
        if w.model == claim.model
        and _at_batch(w.batch, claim)
        and w.candidate_share is not None
        and w.candidate_share.high < (claim.low or 0.0)
    ]
    rows = [c for c in _on_gpus(found, claim) if c.step_s is not None]
    links = [d for c in rows if (d := _link(c, claim, found)) is not None]
    return _all(
        inputs or links,
        missing=f"{claim.model} as written on a GPU{_batch_words(claim)}, with the measured rate of its link",
    )


def _link(case: CaseFinding, claim: Claim, found: Understanding) -> Decision | None:
    rates = [
        (c.value, c.evidence)
        for c in found.ceilings
        if c.device_label == case.device_label and c.name.startswith("host_to_device") and c.value
    ]
    if not rates or case.step_s is None:
        return None
    rate, evidence = min(rates)
    seconds = FLOAT_BYTES * math.prod(case.case.work.input_shape) * case.case.work.batch / (rate * GB)
    step = case.step_s
    share = dataclasses.replace(
        step, low=seconds / step.high, estimate=seconds / step.estimate, high=seconds / step.low
    )
    text = f"a batch takes {_percent(share)} of the step at the link's slowest measured rate"
    return Decision(verdict=_inside(share, claim), detail=text, evidence=(*case.evidence, *evidence))


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
        text = f"{_percent(share)} of the measured ceiling in {c.ceiling_precision}"
        evidence = (*c.evidence, *c.ceiling_evidence)
        decided.append(Decision(verdict=_inside(share, claim), detail=text, evidence=evidence))
    missing = f"{claim.model} as written on a GPU{_batch_words(claim)}, with its measured ceiling"
    return _all(decided, missing=missing)


def _accuracy(claim: Claim, found: Understanding) -> Decision:
    """Whether all models learn equally well on both devices."""
    rows = [p for p in found.parity if _is_gpu(p.candidate_label, found) and p.tuning_name == AS_WRITTEN]
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
    return _all(decided, missing="full runs over several seeds on a CPU and a GPU (--full)")


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
        and _is_gpu(r.candidate_label, found)
        and not _is_gpu(r.base_label, found)
        and r.ratio is not None
    ]
    best = sorted(rows, key=lambda r: r.ratio.estimate if r.ratio else 0.0)[-1:]
    missing = f"{task} in {precision} on a GPU against a CPU"
    return _all([_bounded(r, claim) for r in best], missing=missing)


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
        if (r.base_label, r.candidate_label) == wanted and r.ratio is not None and _task(r, found) == task
    ]
    best = sorted(rows, key=lambda r: r.ratio.estimate if r.ratio else 0.0)[-1:]
    missing = f"inference on one machine with a {base} and a {candidate}"
    return _all([_bounded(r, claim) for r in best], missing=missing)


def _sweet_spot(claim: Claim, found: Understanding) -> Decision:
    """The smallest batch whose rate is near the best one, wherever batches on both sides were measured."""
    share, low, high = claim.number("share"), claim.low or 0.0, claim.high or math.inf
    curves: dict[tuple[str, str, str], list[CaseFinding]] = {}
    for c in found.cases:
        if c.case.work.task == "infer" and _is_gpu(c.device_label, found) and c.samples_per_s is not None:
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
    return _all(decided, missing=f"inference on a GPU at batches from below {low:g} to above {high:g}")


OWN: dict[str, Callable[[Claim], own_numbers.Decided]] = {
    "own exponent above": own_numbers.exponent_above,
    "own units": own_numbers.units_reached,
    "own order": own_numbers.falls_with_size,
    "own ranks": own_numbers.same_ranks,
    "own peak": own_numbers.within_peaks,
}
TESTS: dict[str, Callable[[Claim, Understanding], Decision]] = {
    "ratio": _ratio,
    "grows": _grows,
    "shrinks": _grows,
    "exponent above": _exponent_above,
    "transfer share": _transfer,
    "share of ceiling": _of_ceiling,
    "accuracy": _accuracy,
    "fastest": _fastest,
    "gpu pair": _gpu_pair,
    "sweet spot": _sweet_spot,
}


def _all(decided: Sequence[Decision], *, missing: str) -> Decision:
    """One verdict of all rows: they must agree, or it cannot be told."""
    if not decided:
        return Decision(verdict="cannot be told", detail=f"missing: {missing}")
    details = "; ".join(dict.fromkeys(d.detail for d in decided))
    evidence = tuple(dict.fromkeys(line for d in decided for line in d.evidence))
    if len({d.verdict for d in decided}) > 1:
        return Decision(verdict="cannot be told", detail=f"the rows disagree: {details}", evidence=evidence)
    return Decision(verdict=decided[0].verdict, detail=details, evidence=evidence)


def _inside(interval: Interval, claim: Claim) -> ClaimVerdict:
    """Confirmed wholly within the claim's bounds, not confirmed wholly outside on one side."""
    low, high = (
        -math.inf if claim.low is None else claim.low,
        math.inf if claim.high is None else claim.high,
    )
    if low <= interval.low and interval.high <= high:
        return "confirmed"
    return "not confirmed" if interval.high < low or interval.low > high else "cannot be told"


def _as_written(found: Understanding) -> list[RatioFinding]:
    return [
        r
        for r in found.ratios
        if r.of == "step"
        and r.tuning_name == r.tuning_base == AS_WRITTEN
        and _is_gpu(r.candidate_label, found)
        and not _is_gpu(r.base_label, found)
        and _task(r, found) == "train"
    ]


def _task(ratio: RatioFinding, found: Understanding) -> str | None:
    return next((c.case.work.task for c in found.cases if c.case_id == ratio.candidate_id), None)


def _on_gpus(found: Understanding, claim: Claim) -> list[CaseFinding]:
    return [
        c
        for c in found.cases
        if c.case.work.model == claim.model
        and c.case.work.task == "train"
        and c.tuning_name == AS_WRITTEN
        and _at_batch(c.case.work.batch, claim)
        and _is_gpu(c.device_label, found)
    ]


def _laws(found: Understanding) -> tuple[list[ScaleFinding], list[ScaleFinding]]:
    """The laws against parameters as written, and those at other tunings."""
    mine = [s for s in found.scale if s.against == "parameters" and _is_gpu(s.candidate_label, found)]
    written = [s for s in mine if s.tuning_name == AS_WRITTEN]
    return written, [s for s in mine if s.tuning_name != AS_WRITTEN]


def _is_gpu(label: str, found: Understanding) -> bool:
    devices: Iterable[CaseFinding] = (c for c in found.cases if c.device_label == label)
    return any(not is_cpu(c.case.device) for c in devices)


def _at_batch(batch: int, claim: Claim) -> bool:
    return "batch" not in claim.numbers or batch == claim.number("batch")


def _batch_words(claim: Claim) -> str:
    return f" at batch {claim.number('batch'):g}" if "batch" in claim.numbers else ""


def _percent(share: Interval | None) -> str:
    if share is None:
        return "an unknown part"
    low, mid, high = (100 * x for x in (share.low, share.estimate, share.high))
    return f"{mid:.2g} % [{low:.2g}, {high:.2g}]"


def _plain(interval: Interval) -> str:
    return f"{interval.estimate:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
