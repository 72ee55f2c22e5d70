"""Whether a step fits in a board's memory, from the declared layers, without having run it.

Knows nothing about time. Counted: what PyTorch keeps for the backward pass of these nets (ReLU in place, the
sum of a residual block into its main branch), weights, gradients and Adam's moments. What no layer declares,
workspaces and the driver's context, is a range that was measured; see the constants.
"""

from math import prod

from breakeven.analysis.predict.types import MemoryFit
from breakeven.catalog.gpus import Gpu
from breakeven.records.case import Case
from breakeven.workloads import costs, layers
from breakeven.workloads.data import entry

MIB = 2.0**20
PAD = 4
"""Pixels that a resident data set is padded with on each side for random crops."""
WORKSPACE_MIB = (-110.0, 66.0, 175.0)
"""Allocated beyond what the layers keep: least, at batch 1, and most, of the cases on an H200 with torch
2.11 (libraries' own buffers, algorithms' workspaces; less than 0 where a layer frees early)."""
CONTEXT_MIB = 1024.0
"""Of the device beyond what torch allocates: driver's context, kernels, the allocator's rounding. 779 to 977
MiB in the same cases."""
KEPT = ("Conv2d", "Linear", "LayerNorm", "Attention", "GELU", "Tokens")
SHORTCUT = ".downsample"
INDEX_BYTES = 8
"""torch's max pooling keeps where each maximum stood, as an int64."""
LARGEST = 2**16


def memory_fit(case: Case, board: Gpu, net: layers.Model, dtype_bytes: int) -> MemoryFit | None:
    """The memory of a case on a board that has `board.memory_mib`; None where a step trains several nets."""
    if case.work.task == "train" and len(costs.training_passes(net)) > 1:
        return None  # what several nets keep at once depends on their order, and was not measured
    state = _state(case, net, dtype_bytes) / MIB
    each = _activations(net, dtype_bytes, training=case.work.task == "train") / MIB
    batch = case.work.batch
    high = _high(state, each, batch)
    fits, least = high <= board.memory_mib, state + each * batch + WORKSPACE_MIB[0]
    largest, size = None, 1
    while size <= LARGEST and _high(state, each, size) <= board.memory_mib:
        largest, size = size, 2 * size
    return MemoryFit(
        state=state,
        activations=each * batch,
        peak=state + each * batch + WORKSPACE_MIB[1],
        peak_high=state + each * batch + WORKSPACE_MIB[2],
        device_high=high,
        memory=board.memory_mib,
        verdict="fits" if fits else "close" if least < board.memory_mib else "does not fit",
        largest_batch=largest,
    )


def _high(state: float, each: float, batch: int) -> float:
    return state + each * batch + WORKSPACE_MIB[2] + CONTEXT_MIB


def _state(case: Case, net: layers.Model, dtype_bytes: int) -> float:
    """Bytes that do not grow with the batch."""
    parameters = costs.parameter_count(net)
    if case.work.task == "infer":
        return float(dtype_bytes * parameters)
    # FP32 weights, gradients and Adam's two moments; autocast keeps a copy of the weights in its type.
    held = 16 * parameters + (dtype_bytes * parameters if dtype_bytes < 4 else 0)
    return float(held + (_resident(case) if case.tuning.residency == "device" else 0))


def _resident(case: Case) -> int:
    """Bytes of the training images where they lie on the device, one byte a value, padded for crops."""
    known = entry(case.work.data)
    channels, height, width = case.work.input_shape
    recipe = case.work.recipe
    pad = 2 * PAD if recipe is not None and recipe.augment == "crop-flip" else 0
    return known.n_train * channels * (height + pad) * (width + pad)


def _activations(net: layers.Model, dtype_bytes: int, *, training: bool) -> float:
    """Bytes a sample: in training what backward needs and the widest gradients; else the widest layer."""
    each = costs.layer_costs(net, dtype_bytes)
    widest = max(prod(cost.in_shape) + prod(cost.out_shape) for cost in each) * dtype_bytes
    if not training:
        return float(widest)
    kept = 0
    for cost in each:
        size = prod(cost.out_shape)
        # A shortcut's normalised output is added to the main branch and is gone.
        if cost.kind in KEPT or (cost.kind == "BatchNorm2d" and SHORTCUT not in cost.name):
            kept += size * dtype_bytes
        elif cost.kind == "MaxPool2d":
            kept += size * (dtype_bytes + INDEX_BYTES)
    return float(kept + 2 * widest)
