"""What the declared layers cost in parameters, FLOPs and bytes.

Knows nothing about frameworks, devices or time: it counts.
Convention: one multiply-accumulate is 2 FLOPs and only convolutions and matrix products count, as in
torch.utils.flop_counter (bias, normalisation, pooling and activation count 0 FLOPs but move bytes).
Attention counts the two products that it is made of and twice as many backward, as torch counts its `math`
kernel: fused kernels compute the scores again in the backward pass, which is their way and not the work.
"""

import dataclasses
from collections.abc import Generator
from dataclasses import dataclass
from math import prod

from breakeven.workloads.layers import (
    AdaptiveAvgPool2d,
    Attention,
    BatchNorm2d,
    ClassToken,
    Conv2d,
    ConvTranspose2d,
    Flatten,
    InstanceNorm2d,
    LayerNorm,
    Leaf,
    Linear,
    Model,
    Node,
    Pass,
    ReflectionPad2d,
    ReLU,
    Residual,
    Shape,
    Subsample,
    Tokens,
    leaves,
    out_shape,
    parameter_shapes,
)

FUSED = frozenset({"BatchNorm2d", "ReLU", "ReLU6", "LeakyReLU", "GELU", "Tanh", "Dropout", "Add"})
"""Kinds of layers that inference folds into the layer before, as every compiler of nets does."""

WINOGRAD_TILE = 4
"""Outputs along a side of a tile of the thriftiest convolution in use, F(4x4, 3x3): Lavin and Gray 2016."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerCost:
    """Cost of one layer per sample; but a pass touches `parameters` and `weight_bytes` once a batch.

    Bytes are the traffic of unfused kernels that read and write each tensor once: an estimate that
    fusion and caches undercut and that workspaces exceed. Attention is one kernel whose scores never
    leave the chip (Dao et al. 2022): one that writes them moves more.
    """

    name: str
    kind: str
    in_shape: Shape
    out_shape: Shape
    parameters: int = 0
    flops: int = 0  # forward
    input_grad_flops: int = 0  # 0 where nothing before this layer is trained
    weight_grad_flops: int = 0
    bytes_read: int  # activations, forward
    bytes_written: int
    backward_bytes_read: int  # gradients and saved activations
    backward_bytes_written: int
    weight_bytes: int = 0

    @property
    def training_flops(self) -> int:
        """Forward and backward of one sample."""
        return self.flops + self.input_grad_flops + self.weight_grad_flops


def layer_costs(model: Model, dtype_bytes: int = 4) -> list[LayerCost]:
    """Cost of every layer in order of execution; a Residual adds layers `NAME.add` and, with it, `NAME.relu`.

    `dtype_bytes` is the size of an activation and of a weight: 4 for FP32 and TF32, 2 for FP16 and BF16.
    """
    return list(_costs(model.nodes, model.input_shape, False, dtype_bytes))


def fused_costs(model: Model, dtype_bytes: int = 4) -> list[LayerCost]:
    """Cost of every layer in inference where what can ride along does: the least that can be true.

    Batch norm is part of the convolution's weights, activations and sums are made where the values are, and
    of a sum only the other branch is read from memory.
    """
    return [
        dataclasses.replace(cost, bytes_read=_rides(cost), bytes_written=0, weight_bytes=0)
        if cost.kind in FUSED
        else cost
        for cost in layer_costs(model, dtype_bytes)
    ]


def _rides(cost: LayerCost) -> int:
    """Bytes that a layer still reads when it is fused into the one before."""
    return cost.bytes_read // 2 if cost.kind == "Add" else 0


def training_passes(model: Model) -> tuple[Pass, ...]:
    """What a training step runs: the nodes once, unless the model says otherwise."""
    return model.passes or (Pass(net=model.name, input_shape=model.input_shape, nodes=model.nodes),)


def pass_costs(one: Pass, dtype_bytes: int = 4) -> list[LayerCost]:
    """Cost of every layer of a pass, run once; without gradients of the weights where it makes none."""
    costs = list(_costs(one.nodes, one.input_shape, one.input_gradient, dtype_bytes))
    if one.weight_gradient:
        return costs
    return [dataclasses.replace(cost, weight_grad_flops=0) for cost in costs]


def parameter_count(model: Model) -> int:
    """Parameters of the nodes (BatchNorm's running statistics are buffers, not parameters)."""
    return _parameters(model.nodes)


def trained_parameter_count(model: Model) -> int:
    """Parameters that a training step updates: those of the nodes, or of every net that it trains."""
    nets = {one.net: one.nodes for one in training_passes(model) if one.weight_gradient}
    return sum(map(_parameters, nets.values()))


def _parameters(nodes: tuple[Node, ...]) -> int:
    return sum(prod(shape) for leaf in leaves(nodes) for shape in parameter_shapes(leaf).values())


def forward_flops(model: Model) -> int:
    """FLOPs of the forward pass of one sample."""
    return sum(cost.flops for cost in layer_costs(model))


def training_flops(model: Model, batch: int = 1) -> int:
    """FLOPs of forward and backward of `batch` samples, without the optimizer.

    Three times the forward pass less the first layer's input gradient, which nobody asks for.
    """
    return batch * sum(
        one.times * cost.training_flops for one in training_passes(model) for cost in pass_costs(one)
    )


def least_flops(model: Model, batch: int = 1, *, training: bool) -> float:
    """FLOPs that a batch takes at least, whatever the algorithm: fewer than nominal where Winograd may run.

    m x m outputs of a k x k convolution with stride 1 take (m + k - 1)^2 multiplications instead of (m k)^2:
    a quarter at m = 4 and k = 3. Real kernels save less: this bounds what can be true.
    """
    if not training:
        saved = _saved(model.nodes)
        return batch * sum(c.flops * saved.get(c.name, 1.0) for c in layer_costs(model))
    flops = 0.0
    for one in training_passes(model):
        saved = _saved(one.nodes)
        flops += one.times * sum(c.training_flops * saved.get(c.name, 1.0) for c in pass_costs(one))
    return batch * flops


def _saved(nodes: tuple[Node, ...]) -> dict[str, float]:
    """Share of its multiplications that a layer needs at least, by name; 1 where none is given."""
    return {
        leaf.name: ((WINOGRAD_TILE + leaf.kernel - 1) / (WINOGRAD_TILE * leaf.kernel)) ** 2
        for leaf in leaves(nodes)
        if isinstance(leaf, Conv2d) and leaf.stride == 1
    }


def forward_bytes(model: Model, batch: int = 1, dtype_bytes: int = 4) -> int:
    """Bytes that unfused kernels move in the forward pass of a batch."""
    costs = layer_costs(model, dtype_bytes)
    return sum(batch * (cost.bytes_read + cost.bytes_written) + cost.weight_bytes for cost in costs)


def training_bytes(model: Model, batch: int = 1, dtype_bytes: int = 4) -> int:
    """Bytes that unfused kernels move in forward and backward of a batch, without the optimizer."""
    return sum(one.times * _pass_bytes(one, batch, dtype_bytes) for one in training_passes(model))


def _pass_bytes(one: Pass, batch: int, dtype_bytes: int) -> int:
    return sum(
        batch * (cost.bytes_read + cost.bytes_written)
        + cost.weight_bytes
        + batch * (cost.backward_bytes_read + cost.backward_bytes_written)
        + backward_weight_bytes(cost, one)
        for cost in pass_costs(one, dtype_bytes)
    )


def backward_weight_bytes(cost: LayerCost, one: Pass) -> int:
    """Backward reads the weights for the input gradient and writes as many weight gradients."""
    return cost.weight_bytes * ((cost.backward_bytes_written > 0) + one.weight_gradient)


def _costs(
    nodes: tuple[Node, ...], shape: Shape, trained: bool, size: int
) -> Generator[LayerCost, None, tuple[Shape, bool]]:
    """Yields costs; returns the shape after `nodes` and whether that tensor needs a gradient."""
    for node in nodes:
        if isinstance(node, Residual):
            after_main, main_trained = yield from _costs(node.main, shape, trained, size)
            after_shortcut, shortcut_trained = yield from _costs(node.shortcut, shape, trained, size)
            assert after_main == after_shortcut, f"{node.name}: {after_main} + {after_shortcut}"
            yield _add(node.name, after_main, shape, trained, size)
            shape, trained = after_main, main_trained or shortcut_trained
            if node.relu:
                yield _leaf(ReLU(name=f"{node.name}.relu"), shape, trained, size)
        else:
            cost = _leaf(node, shape, trained, size)
            yield cost
            shape, trained = cost.out_shape, trained or cost.parameters > 0
    return shape, trained


def _leaf(node: Leaf, shape: Shape, trained: bool, size: int) -> LayerCost:
    made = out_shape(node, shape)
    parameters = sum(prod(tensor) for tensor in parameter_shapes(node).values())
    forward, for_input, for_weights = _products(node, shape, made)
    view = isinstance(node, Flatten | ClassToken)  # nothing moves
    read, written = (0, 0) if view else (prod(shape) * size, prod(made) * size)
    backward_read, backward_written = _backward_bytes(node, prod(shape) * size, prod(made) * size, trained)
    return LayerCost(
        name=node.name,
        kind=type(node).__name__,
        in_shape=shape,
        out_shape=made,
        parameters=parameters,
        flops=forward,
        input_grad_flops=for_input if trained else 0,
        weight_grad_flops=for_weights,
        bytes_read=read,
        bytes_written=written,
        backward_bytes_read=backward_read,
        backward_bytes_written=backward_written,
        weight_bytes=parameters * size,
    )


def _products(node: Leaf, shape: Shape, made: Shape) -> tuple[int, int, int]:
    """FLOPs forward, for the gradient of the input and for that of the weights."""
    match node:
        case Conv2d():
            flops = 2 * prod(made) * (node.in_channels // node.groups) * node.kernel**2
            return flops, flops, flops
        case ConvTranspose2d():  # each pixel of the input meets the whole kernel
            flops = 2 * prod(shape) * node.out_channels * node.kernel**2
            return flops, flops, flops
        case Linear():
            flops = 2 * prod(made) * node.in_features
            return flops, flops, flops
        case Attention():  # scores and their product with v; each product has two factors to differentiate
            flops = 2 * 2 * shape[0] * prod(made)
            return flops, 2 * flops, 0
    return 0, 0, 0


def _backward_bytes(node: Leaf, taken: int, made: int, trained: bool) -> tuple[int, int]:
    """Bytes read and written backward by a layer with `taken` bytes of input and `made` of output."""
    wanted = taken if trained else 0  # the input's gradient, if anybody asks for it
    match node:
        case Flatten():
            return 0, 0  # a view of the gradient
        case (
            Conv2d() | ConvTranspose2d() | Linear()
        ):  # two kernels read the output's gradient, one the saved input
            return taken + made * (2 if trained else 1), wanted
        case BatchNorm2d() | LayerNorm():  # the output's gradient and the saved input
            return taken + made, wanted
        case InstanceNorm2d():
            return (taken + made, wanted) if trained else (0, 0)
        case Tokens():  # the output's gradient, summed over the batch for the two tensors
            return made, wanted
        case Attention():  # q, k, v, the saved output and its gradient
            return (taken + 2 * made, wanted) if trained else (0, 0)
        case AdaptiveAvgPool2d() | ClassToken() | ReflectionPad2d() | Subsample():
            return made if trained else 0, wanted
        case _:  # the output's gradient and a saved output, input, mask or index
            return 2 * made if trained else 0, wanted


def _add(name: str, made: Shape, taken: Shape, trained: bool, size: int) -> LayerCost:
    """The sum that ends a residual block; backward, the two branches' input gradients are summed."""
    moved = prod(taken) * size if trained else 0
    return LayerCost(
        name=f"{name}.add",
        kind="Add",
        in_shape=made,
        out_shape=made,
        bytes_read=2 * prod(made) * size,
        bytes_written=prod(made) * size,
        backward_bytes_read=2 * moved,
        backward_bytes_written=moved,
    )
