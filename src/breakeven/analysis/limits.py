"""Numbers that cannot be right: faster than the hardware's theoretical peak allows.

Knows nothing about measured ceilings: a better kernel than ours may exceed those.
"""

from collections.abc import Sequence

from breakeven.analysis.processes import Process
from breakeven.catalog.peaks import peak_of
from breakeven.errors import UserError
from breakeven.records.case import Work
from breakeven.workloads import layers, models

SLACK = 1.10
"""A board may boost above the clock of its data sheet. Nominal FLOPs may exceed FP32's own peak (Winograd),
but the peaks listed are those of the fastest type, several times higher."""


def flops_of(work: Work) -> int | None:
    """FLOPs of one step, 2 a multiply-accumulate, counted from the layers; None for an unknown model."""
    try:
        net = models.model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
    except UserError:
        return None
    if work.task == "train":
        return layers.training_flops(net, work.batch)
    return work.batch * layers.forward_flops(net)


def faster_than_hardware(processes: Sequence[Process]) -> str | None:
    """Why the processes' times cannot be true, or None. One such process makes the case's times doubtful."""
    for p in processes:
        name = p.attempt.observed.get("device_name")
        peak = peak_of(name) if isinstance(name, str) and p.attempt.device.kind == "cuda" else None
        flops = flops_of(p.attempt.work)
        if peak is None or flops is None:
            continue
        rate = flops / p.step_s / 1e12
        if rate > SLACK * peak.tflop_per_s:
            return f"faster than the hardware: {rate:.0f} TFLOP/s where {name} has {peak.tflop_per_s:.0f}"
    return None
