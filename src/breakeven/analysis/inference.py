"""Cases of inference: rate, quantiles of single calls, cold start, energy an image, the worth of outputs.

Knows nothing about comparisons. The stream of blocks gives the rate, single calls give the latency, and
neither is made from the other (contract R3).
"""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from breakeven import stats
from breakeven.analysis.building import cost_of
from breakeven.analysis.cases import Measured, checks_of
from breakeven.analysis.findings import ShareFinding
from breakeven.analysis.inference_findings import InferenceFinding, Outputs, Quantile
from breakeven.analysis.inference_outputs import outputs_of
from breakeven.analysis.processes import NS, Key, Process, main_unit, process
from breakeven.records.file import Results
from breakeven.records.lines import Attempt, Check

QUANTILES = (0.5, 0.9, 0.99, 0.999)
NO_CALLS = "no single calls were timed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Served:
    """A case of inference with what a comparison needs besides: by process, the rate and the single calls.

    `rates` in images a second, total over total; `calls` in seconds, in their order.
    """

    measured: Measured
    finding: InferenceFinding
    rates: Mapping[Key, float]
    calls: Mapping[Key, tuple[float, ...]]

    @property
    def ranked(self) -> bool:
        return self.finding.ranked

    def middle_calls(self) -> dict[Key, float]:
        """The median single call of each process, in seconds."""
        return {key: statistics.median(calls) for key, calls in self.calls.items() if calls}


def served_cases(shown: Sequence[Measured], results: Results, shares: Sequence[ShareFinding]) -> list[Served]:
    """Every case of inference among `shown`, in their order. `shares` hold the floors of their layers."""
    by_id = {a.attempt_id: a for a in results.attempts}
    floors, by_case = {s.case_id: s for s in shares}, checks_of(results)
    found = []
    for m in shown:
        if m.case.work.task != "infer":
            continue
        mine = [by_id[line] for line in m.finding.evidence if line in by_id]
        checks = by_case.get(m.finding.case_id, [])
        found.append(_served(m, mine, checks, floors.get(m.finding.case_id)))
    return found


def _served(
    m: Measured, attempts: Sequence[Attempt], checks: Sequence[Check], share: ShareFinding | None
) -> Served:
    used = main_unit([p for a in attempts if isinstance(p := process(a), Process)]) if m.steps else []
    calls = {p.key: tuple(ns * NS for ns in p.attempt.calls_ns) for p in used if p.attempt.calls_ns}
    finding = _rated(m, used, outputs_of(m.case, checks, used))
    finding = _called(finding, used, calls, m.looks)
    finding = _with_cold(finding, used, m.looks)
    finding = _with_energy(finding, m, used)
    finding = _with_floor(finding, m, share)
    return Served(measured=m, finding=finding, rates={p.key: p.samples_per_s for p in used}, calls=calls)


def _rated(m: Measured, used: Sequence[Process], outputs: Outputs) -> InferenceFinding:
    """The finding with its rate, its build and whether it may be ranked."""
    case, cost = m.finding, cost_of(m)
    reasons = {}
    if case.samples_per_s is None:
        reasons["images_per_s"] = case.failure or case.reasons.get("samples_per_s", "no number")
    if cost is None:
        reasons["build_s"] = "nothing is built before the first call"
    unranked = case.failure or (f"check {outputs.failed}" if outputs.failed else None) or case.unproven
    if not used or unranked:
        reasons["ranked"] = unranked or reasons.get("images_per_s", "no number")
    return InferenceFinding(
        case_id=case.case_id,
        source=case.source,
        images_per_s=case.samples_per_s,
        images_per_s_point=case.samples_per_s_point,
        build_s=cost.seconds if cost else None,
        build_state=cost.state if cost else None,
        outputs=outputs,
        ranked="ranked" not in reasons,
        evidence=case.evidence,
        reasons=reasons,
    )


def _called(
    finding: InferenceFinding,
    used: Sequence[Process],
    calls: Mapping[Key, tuple[float, ...]],
    looks: Sequence[int],
) -> InferenceFinding:
    """Adds the quantiles of single calls."""
    if not calls:
        nulls = (why for p in used if (why := p.attempt.nulls.get("calls_ns")))
        why = next(nulls, NO_CALLS) if used else finding.reasons.get("images_per_s", NO_CALLS)
        return _because(finding, calls=why)
    return dataclasses.replace(
        finding,
        calls=sum(map(len, calls.values())),
        quantiles=tuple(quantile(p, list(calls.values()), looks) for p in QUANTILES),
    )


def quantile(p: float, calls: Sequence[Sequence[float]], looks: Sequence[int] = ()) -> Quantile:
    """A quantile of single calls in seconds, given by process: of all calls pooled, with the interval of the
    processes' own.

    None where calls are too few for it (`stats.samples_for_percentile`, contract R11).
    """
    needed = stats.samples_for_percentile(p)
    pooled = stats.percentile([call for mine in calls for call in mine], p)
    if pooled is None:
        return Quantile(p=p, reason=f"too few calls: {100 * p:g} % takes {needed:,}")
    own = [stats.percentile(mine, p) for mine in calls]
    known = [value for value in own if value is not None]
    if len(known) < len(own):
        why = f"a process has too few calls of its own ({needed:,} for {100 * p:g} %)"
        return Quantile(p=p, value_s=pooled, reason=why)
    interval = stats.case_interval(known, looks=looks)
    return Quantile(
        p=p, value_s=pooled, interval=interval, reason=None if interval else "one process: no interval"
    )


def _with_cold(finding: InferenceFinding, used: Sequence[Process], looks: Sequence[int]) -> InferenceFinding:
    """Adds the first call."""
    values = [ns * NS for p in used if (ns := p.attempt.cold_ns)]
    if not values:
        return _because(finding, cold_s="no first call was timed")
    return dataclasses.replace(
        finding,
        cold_s=stats.case_interval(values, looks=looks),
        cold_point_s=stats.geometric_mean(values),
    )


def _with_energy(finding: InferenceFinding, m: Measured, used: Sequence[Process]) -> InferenceFinding:
    """Adds gross energy an image: each process's mean power over its own rate.

    The window of the counter may hold more than the steady blocks, so the power counts and not the joules.
    """
    if m.finding.power_w is None:
        why = m.finding.reasons.get("energy_j_per_step", "energy was not read")
        return _because(finding, j_per_image=why)
    values = []
    for p in used:
        reading = p.attempt.energy or {}
        gross, window = reading.get("gross_j"), reading.get("window_ns")
        if isinstance(gross, int | float) and isinstance(window, int | float) and gross > 0 < window:
            values.append(gross / (window * NS) / p.samples_per_s)
    if not values:
        return _because(finding, j_per_image="energy was not read")
    return dataclasses.replace(
        finding,
        j_per_image=stats.case_interval(values, looks=m.looks),
        j_per_image_point=stats.geometric_mean(values),
    )


def _with_floor(finding: InferenceFinding, m: Measured, share: ShareFinding | None) -> InferenceFinding:
    """Adds the least time of the layers at the measured ceilings, as a share of the pipelined call."""
    if share is None or share.floor_s is None or m.finding.step_point_s is None:
        return _because(finding, floor_s=share.reasons.get("floor_s", "no floor") if share else "no number")
    return dataclasses.replace(
        finding, floor_s=share.floor_s, share_of_floor=share.floor_s / m.finding.step_point_s
    )


def _because(finding: InferenceFinding, **reasons: str) -> InferenceFinding:
    return dataclasses.replace(finding, reasons={**finding.reasons, **reasons})
