"""A case of a CPU on another CPU: its layers' floor there, at the efficiency that was measured here.

Knows nothing about GPUs. No two CPUs whose facts are known were published with equal work, so that no
error of this can be stated: there is no interval.
"""

from collections.abc import Sequence

from breakeven.analysis.findings import CaseFinding, ShareFinding
from breakeven.analysis.predict.rows import net_of
from breakeven.analysis.predict.types import Forecast
from breakeven.catalog.cpus import Cpu
from breakeven.workloads import roofline

METHOD = "floor at the efficiency measured here"
NO_ERROR = (
    "one pair of CPUs tells how wrong this is: on eight times the cores, steps took 1.7 to 4.7 times as long"
)
"""Two cores of a virtual machine to sixteen of a Xeon, simple-cnn at batches of 1 to 256 and ResNet18 at 128:
the more cores, the less of each is reached. One pair is no rate of coverage."""


def on_cpu(case: CaseFinding, cpu: Cpu, shares: Sequence[ShareFinding]) -> Forecast:
    """The case on one socket of `cpu`, all cores of a kind, at its base clock."""
    work, tuning = case.case.work, case.case.tuning
    floor, why = _floors(case, cpu, shares)
    step = None if floor is None else (case.step_point_s or 0.0) / floor[0] * floor[1]
    return Forecast(
        case_id=case.case_id,
        model=work.model,
        task=work.task,
        batch=work.batch,
        tuning_name=case.tuning_name,
        precision=tuning.precision,
        here=case.device_label,
        here_s=case.step_point_s or 0.0,
        device=cpu.name,
        method=METHOD,
        step_s=step,
        rate=None if step is None else work.batch / step,
        floor_s=None if floor is None else floor[1],
        board_w=cpu.tdp_w,
        outside=() if step is None else (f"{cpu.cores} cores as efficient as these",),
        evidence=case.evidence,
        reasons={"low_s": NO_ERROR, "step_s": why} if why else {"low_s": NO_ERROR},
    )


def _floors(
    case: CaseFinding, cpu: Cpu, shares: Sequence[ShareFinding]
) -> tuple[tuple[float, float] | None, str]:
    """((floor here, floor there) in seconds, "") or (None, why)."""
    work, tuning = case.case.work, case.case.tuning
    if case.case.device.kind != "cpu":
        return None, "measured on a GPU here: its efficiency is no CPU's"
    if tuning.precision not in ("default", "fp32"):
        return None, f"what {cpu.name} does in {tuning.precision} is not known"
    if work.task == "train" and tuning.residency != "device":
        return None, "its batches are made apart from the step, at a rate that is not known there"
    peak = cpu.fp32_tflop_per_s(cpu.base_mhz)
    if peak is None or cpu.bandwidth_gb_per_s is None:
        return None, f"no source tells cores, width and memory bandwidth of {cpu.name}"
    share = next((s for s in shares if s.case_id == case.case_id and s.floor_s), None)
    net = net_of(work.model, work.input_shape, work.num_classes)
    if share is None or share.floor_s is None or net is None:
        return None, "no measured ceilings of the CPU here (breakeven doctor --ceilings)"
    there = roofline.floor(
        net,
        work.batch,
        flop_per_s=1e12 * peak,
        byte_per_s=1e9 * cpu.bandwidth_gb_per_s,
        training=work.task == "train",
        fused=work.task == "infer",  # as the share's own floor
    )
    return (share.floor_s, there.seconds), ""
