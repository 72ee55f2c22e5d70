"""Whether a step fits in a board's memory, from the declared layers, without having run it.

Knows nothing about time. Counted: what PyTorch keeps for the backward pass of these nets (ReLU in place, the
sum of a residual block into its main branch), weights, gradients and Adam's moments; in inference the largest
sum of tensors that are alive at once, and the batches that take turns. What no layer declares, workspaces and
the driver's context, is a range that was measured; see the constants.
"""

from math import prod

from breakeven.analysis.predict.types import MemoryFit
from breakeven.catalog.gpus import Gpu
from breakeven.records.case import Case
from breakeven.workloads import costs, layers
from breakeven.workloads.data import entry
from breakeven.workloads.order import inference_turns

MIB = 2.0**20
PAD = 4
"""Pixels that a resident data set is padded with on each side for random crops."""
WORKSPACE_MIB = (-110.0, 66.0, 175.0)
"""Allocated beyond what the layers keep: least, at batch 1, and most, of the cases on an H200 with torch
2.11 (libraries' own buffers, algorithms' workspaces; less than 0 where a layer frees early)."""
CONTEXT_MIB = 1024.0
"""Of the device beyond what torch allocates: driver's context, kernels, the allocator's rounding. 779 to 977
MiB in the same cases."""
CACHED = 2.3
"""Of a device's use by inference: what the allocator holds over what the layers need, at most. The algorithms
that cuDNN tries ask for large workspaces that stay with the allocator: 1.2 to 2.2 times in eager, captured
and compiled calls of ResNet50 at 224x224 on an H200. It gives them back before it runs out of memory."""
KEPT = ("Conv2d", "Linear", "LayerNorm", "Attention", "GELU", "Tokens")
SHORTCUT = ".downsample"
INDEX_BYTES = 8
"""torch's max pooling keeps where each maximum stood, as an int64."""
LARGEST = 2**16


def memory_fit(case: Case, board: Gpu, net: layers.Model, dtype_bytes: int) -> MemoryFit | None:
    """The memory of a case on a board that has `board.memory_mib`; None where a step trains several nets."""
    trains = case.work.task == "train"
    if trains and len(costs.training_passes(net)) > 1:
        return None  # what several nets keep at once depends on their order, and was not measured
    if not trains and dtype_bytes == 1:
        return None  # INT8 is of a library of its own: cuDNN's graphs took up to twice what FP16 took
    state = _state(case, net, dtype_bytes) / MIB
    each = (_activations(net, dtype_bytes) if trains else _alive(net, dtype_bytes)) / MIB

    def kept(batch: int) -> float:
        return each * batch + (0.0 if trains else _inputs(net, batch, dtype_bytes) / MIB)

    def most(batch: int) -> float:
        return state + kept(batch) * (1.0 if trains else CACHED) + WORKSPACE_MIB[2] + CONTEXT_MIB

    batch = case.work.batch
    count, high = state + kept(batch), most(batch)
    fits, least = high <= board.memory_mib, count + WORKSPACE_MIB[0]
    largest, size = None, 1
    while size <= LARGEST and most(size) <= board.memory_mib:
        largest, size = size, 2 * size
    return MemoryFit(
        state=state,
        activations=kept(batch),
        peak=count + WORKSPACE_MIB[1],
        peak_high=count + WORKSPACE_MIB[2],
        device_high=high,
        memory=board.memory_mib,
        verdict="fits" if fits else "close" if least < board.memory_mib else "does not fit",
        largest_batch=largest,
    )


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


def _inputs(net: layers.Model, batch: int, dtype_bytes: int) -> float:
    """Bytes of the batches that calls take in turn, resident as a rule."""
    return float(inference_turns(batch, net.input_shape) * batch * prod(net.input_shape) * dtype_bytes)


def _alive(net: layers.Model, dtype_bytes: int) -> float:
    """Bytes a sample of the tensors that are alive at once in a forward pass without gradients, at most."""
    return float(dtype_bytes * _most_alive(net.nodes, net.input_shape, 0)[0])


def _most_alive(nodes: tuple[layers.Node, ...], shape: layers.Shape, held: int) -> tuple[int, layers.Shape]:
    """(elements at most, shape after the nodes), `held` of them being kept for later.

    A block's input lives until its sum; the main branch is computed first and waits for the shortcut.
    """
    most = 0
    for node in nodes:
        if isinstance(node, layers.Residual):
            kept = held + prod(shape)
            inside, after = _most_alive(node.main, shape, kept)
            beside, _ = _most_alive(node.shortcut, shape, kept + prod(after))
            most, shape = max(most, inside, beside), after
            continue
        made = layers.out_shape(node, shape)
        in_place = isinstance(node, layers.ReLU | layers.ReLU6 | layers.Flatten)
        most = max(most, held + prod(made) + (0 if in_place else prod(shape)))
        shape = made
    return most, shape


def _activations(net: layers.Model, dtype_bytes: int) -> float:
    """Bytes a sample in training: what backward needs, and the widest gradients."""
    each = costs.layer_costs(net, dtype_bytes)
    widest = max(prod(cost.in_shape) + prod(cost.out_shape) for cost in each) * dtype_bytes
    kept = 0
    for cost in each:
        size = prod(cost.out_shape)
        # A shortcut's normalised output is added to the main branch and is gone.
        if cost.kind in KEPT or (cost.kind == "BatchNorm2d" and SHORTCUT not in cost.name):
            kept += size * dtype_bytes
        elif cost.kind == "MaxPool2d":
            kept += size * (dtype_bytes + INDEX_BYTES)
    return float(kept + 2 * widest)
