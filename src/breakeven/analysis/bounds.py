"""What bounds a step: input, the copy to the device, launches, memory or arithmetic; and the layers' floor.

Knows nothing about how parts were timed. The thresholds stand here and nowhere else, and are shown beside the
labels. They are those of the measurement contract (R8) where it has one.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from statistics import fmean

from breakeven import stats
from breakeven.analysis.cases import Measured
from breakeven.analysis.ceilings import Limits, net_of
from breakeven.analysis.findings import CaseFinding, Label, ShareFinding
from breakeven.analysis.processes import all_looks
from breakeven.analysis.ratios import busy, disturbed, one_unit
from breakeven.analysis.shares import Split, by_part, middle_ms, splits_of
from breakeven.records.case import Case
from breakeven.records.file import Results
from breakeven.workloads import roofline

BINDS = 0.3
"""A wait for input, a copy or launches that take more than this share of a step bound it: without them it
would need less than 70 % of its time (contract R8)."""
PACE = 0.9
"""Where the host enqueues for this share of the time that the work takes alone, the device waits for
launches: the rest is each part's last kernel and its synchronisation."""
CLEAR = 0.55
"""Share of the floor's time on one side of the roofline that tells memory from arithmetic: ceilings of two
processes differ by a few percent, which moves layers near the ridge."""
RULES = (
    f"Bound by input where over {BINDS:.0%} of a step goes by while the batch is waited for or made; by copy "
    f"where its way to the device takes over {BINDS:.0%}; by launch where the same tuning, captured, needs "
    f"less than {1 - BINDS:.0%} of the time, or, with none captured, the host enqueues for over {PACE:.0%} "
    f"of the time of the work and the floor is below {1 - BINDS:.0%} of the step; by memory or compute as "
    f"traffic or arithmetic bounds over {CLEAR:.0%} of the layers' floor: the sum over layers of "
    f"max(FLOPs / measured peak, bytes / measured bandwidth), where it is {BINDS:.0%} of the step or more."
)
SHARED = "something else used the machine in most processes"
MEMORY = ("triad", "copy")
"""Ceilings that are a bandwidth, the better known first."""
BYTES = {"fp16": 2, "bf16": 2, "int8": 1}
"""Of an activation or weight, by precision; else 4."""


def bounds_of(shown: Sequence[Measured], results: Results) -> list[ShareFinding]:
    """One finding for each case with a measured step."""
    by_id = {a.attempt_id: a for a in results.attempts}
    limits = Limits.of(results)
    captured = _captured(shown)
    found = []
    for m in shown:
        if m.finding.step_point_s is None:
            continue
        mine = [by_id[line] for line in m.finding.evidence if line in by_id and by_id[line].blocks]
        finding = _launched(_blank(m.finding), m, captured)
        finding = _floored(finding, m.finding, limits, mine[-1].fingerprint_id if mine else None)
        finding = _judged(finding, m.case, splits_of(mine))
        found.append(_untold(finding, SHARED) if disturbed(m.finding) else finding)
    return found


def _blank(case: CaseFinding) -> ShareFinding:
    return ShareFinding(
        case_id=case.case_id, step_s=case.step_point_s or 0.0, label="cannot tell", evidence=case.evidence,
        source=case.source,
    )  # fmt: skip


def _launched(finding: ShareFinding, m: Measured, twins: Mapping[Case, Measured]) -> ShareFinding:
    """Adds what launches cost: 1 - captured / eager, where the same resident tuning was captured as well."""
    tuning = m.case.tuning
    if tuning.execution != "eager":
        return _because(finding, launch_share="this tuning is no eager one")
    if tuning.residency != "device":
        return _because(finding, launch_share="only steps with data on the device can be captured")
    twin = twins.get(_as_captured(m.case))
    if twin is None:
        return _because(finding, launch_share="the same tuning was not captured")
    eager, captured = one_unit(m.steps, twin.steps)
    if busy(twin, [key for key in captured if key in eager] or captured):
        return _because(finding, launch_share="something else used the machine while it ran captured")
    if m.hashes != twin.hashes:
        return _because(finding, launch_share="the captured case did other work")
    ratio = stats.paired_ratio(eager, captured, looks=all_looks([m.looks, twin.looks]))
    point = 1 - (twin.finding.step_point_s or 0.0) / finding.step_s
    finding = dataclasses.replace(
        finding,
        launch_share=None if ratio is None else _saved(ratio.interval),
        launch_share_point=point if ratio is None else 1 - 1 / ratio.interval.estimate,
        captured_id=twin.finding.case_id,
        evidence=(*finding.evidence, *twin.finding.evidence),
    )
    return finding if ratio else _because(finding, launch_share="one pair of processes")


def _captured(shown: Sequence[Measured]) -> dict[Case, Measured]:
    """The captured cases with a measured step that nothing was compiled for, the first of each kind."""
    found: dict[Case, Measured] = {}
    for other in shown:
        if other.case.tuning.captured and other.case.tuning.compile_mode is None and other.steps:
            found.setdefault(_as_captured(other.case), other)
    return found


def _as_captured(case: Case) -> Case:
    """What an eager case and the same one captured share: capturing may need another optimizer's code."""
    alike = dataclasses.replace(case.tuning, execution="captured", optimizer_impl=None)
    return dataclasses.replace(case, tuning=alike)


def _saved(ratio: stats.Interval) -> stats.Interval:
    """The interval of eager / captured as that of the share which capturing saves."""
    return dataclasses.replace(
        ratio, low=1 - 1 / ratio.low, high=1 - 1 / ratio.high, estimate=1 - 1 / ratio.estimate
    )


def _floored(
    finding: ShareFinding, case: CaseFinding, limits: Limits, fingerprint_id: str | None
) -> ShareFinding:
    """Adds the layers' floor at the measured ceilings of the device."""
    if case.ceiling_tflop_per_s is None:
        missing = f"no measured ceiling on {case.device_label}"
        return _because(finding, floor_s=case.reasons.get("share_of_ceiling", missing))
    lines = [limits.ceilings.get((fingerprint_id, case.device_label, name)) for name in MEMORY]
    line = next((line for line in lines if line and line.value and not line.contended), None)
    if line is None or line.value is None:
        return _because(finding, floor_s=f"no measured bandwidth of {case.device_label}, undisturbed")
    work = case.case.work
    net = net_of(work)
    if net is None:
        return _because(finding, floor_s="the layers of this model are not known")
    floor = roofline.floor(
        net,
        work.batch,
        flop_per_s=1e12 * case.ceiling_tflop_per_s,
        byte_per_s=1e9 * line.value,
        dtype_bytes=BYTES.get(case.case.tuning.precision, 4),
        training=work.task == "train",
        fused=work.task == "infer",
    )
    return dataclasses.replace(
        finding,
        floor_s=floor.seconds,
        floor_memory_share=floor.memory_share,
        flops_per_byte=floor.flops_per_byte,
        bandwidth_gb_per_s=line.value,
        evidence=(*finding.evidence, *case.ceiling_evidence, line.ceiling_id),
    )


def _judged(finding: ShareFinding, case: Case, splits: list[Split] | str) -> ShareFinding:
    """Adds the shares and the label. A captured step has no parts, but no loader and no launches either."""
    if isinstance(splits, str):
        finding = _because(finding, shares=splits)
        if case.work.task == "infer":  # a call is one piece, with its data in place as a rule
            return _captured_or_roofline(finding)
        return _roofline(finding) if case.tuning.captured else _untold(finding, splits)
    parts = by_part(splits)
    finding = dataclasses.replace(
        finding,
        shares={name: fmean(shares) for name, shares in parts.items()},
        ranges={name: (min(shares), max(shares)) for name, shares in parts.items()},
        exposed_ms=middle_ms([split.exposed_ms for split in splits]),
        busy_ms=middle_ms([split.busy_ms for split in splits]),
        enqueue_share=None if case.device.kind == "cpu" else fmean(s.kept_busy() for s in splits),
        processes=len(splits),
    )
    fed = {_fed(split.shares) for split in splits}
    if len(fed) > 1:
        seen = " and ".join(sorted(label or "neither input nor copy" for label in fed))
        return _untold(finding, f"processes disagree: {seen}")
    if (label := fed.pop()) is not None:
        share = _input(finding.shares) if label == "input" else finding.shares["copy"]
        what = "waits for or makes the batch" if label == "input" else "copies it to the device"
        return _told(finding, label, f"{share:.0%} of a step {what}")
    return _launches(finding, case, splits)


def _fed(shares: Mapping[str, float]) -> Label | None:
    """`input` or `copy` if one of them takes more than BINDS, the larger of both."""
    both: dict[Label, float] = {"input": _input(shares), "copy": shares.get("copy", 0.0)}
    largest = max(both, key=lambda label: both[label])
    return largest if both[largest] > BINDS else None


def _input(shares: Mapping[str, float]) -> float:
    """Waiting for a batch, or cutting it from data that are there."""
    return shares.get("data_wait", 0.0) + shares.get("cut", 0.0)


def _launches(finding: ShareFinding, case: Case, splits: Sequence[Split]) -> ShareFinding:
    """`launch` where capturing wins, or the device waits for the host; else the roofline's side.

    A device that must work for most of the step is not bound by launches, however late they come.
    """
    if finding.launch_share_point is not None or case.device.kind == "cpu":
        return _captured_or_roofline(finding)
    slow = {split.kept_busy() > PACE for split in splits}
    if len(slow) > 1:
        return _untold(finding, f"the host enqueues for about {PACE:.0%} of the time of the work")
    least = (finding.floor_s or 0.0) / finding.step_s
    if slow.pop() and least <= 1 - BINDS:
        told = f"the host enqueues for {finding.enqueue_share:.0%} of the time of the work"
        return _told(finding, "launch", told)
    return _roofline(finding)


def _captured_or_roofline(finding: ShareFinding) -> ShareFinding:
    """`launch` where the same step, captured, needs clearly less; else the roofline's side."""
    interval, point = finding.launch_share, finding.launch_share_point
    if point is None:
        return _roofline(finding)
    if interval is not None and interval.low <= BINDS < interval.high:
        bounds = f"{interval.low:.0%} to {interval.high:.0%}"
        return _untold(finding, f"capturing saves {bounds} of a step: on both sides of {BINDS:.0%}")
    told = f"captured, the same step needs {1 - point:.0%} of the time"
    return _told(finding, "launch", told) if point > BINDS else _roofline(finding)


def _roofline(finding: ShareFinding) -> ShareFinding:
    """The side that bounds most of the floor's time."""
    share = finding.floor_memory_share
    if share is None or finding.floor_s is None:
        return _untold(finding, finding.reasons.get("floor_s", "no floor"))
    if finding.floor_s < BINDS * finding.step_s:
        return _untold(finding, f"the layers' floor is {finding.floor_s / finding.step_s:.0%} of the step")
    of = f"of the layers' floor, which is {finding.floor_s / finding.step_s:.0%} of the step"
    if max(share, 1 - share) < CLEAR:
        return _untold(finding, f"traffic bounds {share:.0%} {of}")
    if share > 0.5:
        return _told(finding, "memory", f"traffic bounds {share:.0%} {of}")
    return _told(finding, "compute", f"arithmetic bounds {1 - share:.0%} {of}")


def _told(finding: ShareFinding, label: Label, why: str) -> ShareFinding:
    return dataclasses.replace(finding, label=label, why=why)


def _untold(finding: ShareFinding, why: str) -> ShareFinding:
    return dataclasses.replace(finding, label="cannot tell", why=why)


def _because(finding: ShareFinding, **reasons: str) -> ShareFinding:
    if not reasons:
        return finding
    return dataclasses.replace(finding, reasons={**finding.reasons, **reasons})
