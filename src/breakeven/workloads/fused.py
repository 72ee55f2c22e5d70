"""A declared convolutional net as a list of fused steps: what integer kernels compute in one piece each.

Knows nothing about number types or who computes. A step is a convolution with the batch norm, the residual
sum and the ReLU that follow it, or a max-pooling; what comes after the last map (mean, linear layers) is the
head.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from breakeven.errors import UserError
from breakeven.workloads import layers
from breakeven.workloads.layers import Model, Node, Shape
from breakeven.workloads.weights import Weights

IMAGES = "images"
"""Name of the value that goes in; every other value has the name of the layer that makes it."""

HEAD = (layers.AdaptiveAvgPool2d, layers.Flatten, layers.Linear, layers.ReLU, layers.Dropout)

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Conv:
    """relu(norm(conv(source)) + residual), each part but the convolution where there is one.

    `residual` names a value of `out_shape`; shapes are (channels, height, width).
    """

    name: str
    source: str
    conv: layers.Conv2d
    norm: layers.BatchNorm2d | None
    residual: str | None
    relu: bool
    in_shape: Shape
    out_shape: Shape


@dataclass(frozen=True, kw_only=True, slots=True)
class Pool:
    name: str
    source: str
    pool: layers.MaxPool2d
    in_shape: Shape
    out_shape: Shape


Step: TypeAlias = Conv | Pool


@dataclass(frozen=True, kw_only=True, slots=True)
class Fused:
    """Steps in order of execution, then `head` on the value `last`."""

    model: Model
    steps: tuple[Step, ...]
    last: str
    head: tuple[layers.Leaf, ...]


def fused(model: Model) -> Fused:
    """The net's steps. Raises UserError, one line, for a net with a layer that no step covers."""
    first = next((i for i, node in enumerate(model.nodes) if isinstance(node, HEAD[:3])), len(model.nodes))
    head: list[layers.Leaf] = []
    for node in model.nodes[first:]:
        if not isinstance(node, HEAD):
            raise _uncovered(node)
        head.append(node)
    steps, last, _ = _sequence(model.nodes[:first], IMAGES, model.input_shape)
    if not any(isinstance(step, Conv) for step in steps):
        raise UserError(f"{model.name} has no convolution that a fused step covers")
    return Fused(model=model, steps=tuple(steps), last=last, head=tuple(head))


def readers(net: Fused, name: str) -> int:
    """How often a value is read: by the steps, and by the head if it is the last."""
    sources = [step.source for step in net.steps]
    residuals = [step.residual for step in net.steps if isinstance(step, Conv)]
    return [*sources, *residuals, net.last].count(name)


def costliest(net: Fused) -> Conv:
    """The convolution with the most products."""
    convolutions = [step for step in net.steps if isinstance(step, Conv)]
    return max(
        convolutions, key=lambda s: prod(s.out_shape) * s.conv.in_channels * s.conv.kernel * s.conv.kernel
    )


def folded(
    weight: Array, bias: Array | None, norm: layers.BatchNorm2d, weights: Weights
) -> tuple[Array, Array]:
    """Weight and bias of the convolution that does what it and its batch norm do in evaluation, FP64."""
    parts = ("weight", "bias", "running_mean", "running_var")
    gain, shift, mean, variance = (weights[f"{norm.name}.{part}"].astype(np.float64) for part in parts)
    scale = gain / np.sqrt(variance + norm.eps)
    return weight * scale[:, None, None, None], shift + scale * ((0.0 if bias is None else bias) - mean)


def parameters(step: Conv, weights: Weights) -> tuple[Array, Array]:
    """(weight [out, in, k, k], bias [out]) of a step, its batch norm folded in, FP64."""
    node = step.conv
    weight = weights[f"{node.name}.weight"].astype(np.float64)
    bias = weights[f"{node.name}.bias"].astype(np.float64) if node.bias else None
    if step.norm is not None:
        return folded(weight, bias, step.norm, weights)
    return weight, np.zeros(node.out_channels) if bias is None else bias


def _sequence(nodes: Sequence[Node], x: str, shape: Shape) -> tuple[list[Step], str, Shape]:
    """(steps, name and shape of what they make of `x`)."""
    steps: list[Step] = []
    rest = list(nodes)
    while rest:
        node = rest.pop(0)
        match node:
            case layers.Residual():
                more = _residual(node, x, shape)
            case layers.Conv2d(groups=1):
                more = [_conv(node, rest, x, shape)]
            case layers.MaxPool2d():
                made = layers.out_shape(node, shape)
                more = [Pool(name=node.name, source=x, pool=node, in_shape=shape, out_shape=made)]
            case layers.Dropout():
                continue
            case _:
                raise _uncovered(node)
        steps += more
        x, shape = more[-1].name, more[-1].out_shape
    return steps, x, shape


def _conv(node: layers.Conv2d, rest: list[Node], x: str, shape: Shape) -> Conv:
    """The step that begins with this convolution; takes the layers that it covers off `rest`."""
    norm = rest.pop(0) if rest and isinstance(rest[0], layers.BatchNorm2d) else None
    # The greatest of some numbers and ReLU may change places: a ReLU after the pooling is done before it.
    after = 1 if rest and isinstance(rest[0], layers.MaxPool2d) else 0
    relu = len(rest) > after and isinstance(rest[after], layers.ReLU)
    if relu:
        rest.pop(after)
    return Conv(
        name=node.name,
        source=x,
        conv=node,
        norm=norm if isinstance(norm, layers.BatchNorm2d) else None,
        residual=None,
        relu=relu,
        in_shape=shape,
        out_shape=layers.out_shape(node, shape),
    )


def _residual(node: layers.Residual, x: str, shape: Shape) -> list[Step]:
    """The shortcut first: the branch that ends in the sum reads it."""
    shortcut, added, _ = _sequence(node.shortcut, x, shape)
    main, _, _ = _sequence(node.main, x, shape)
    end = main[-1] if main else None
    if not isinstance(end, Conv) or end.relu or end.residual is not None:
        raise UserError(f"layer {node.name}: a sum is fused with the convolution before it, and here is none")
    return [*shortcut, *main[:-1], dataclasses.replace(end, residual=added, relu=node.relu)]


def _uncovered(node: Node) -> UserError:
    kind = "grouped Conv2d" if isinstance(node, layers.Conv2d) else type(node).__name__
    return UserError(
        f"layer {node.name} ({kind}) is in no fused step: only convolutions, max-pooling and sums are"
    )
