"""Models declared as trees of layers: what a layer takes, makes and holds.

Knows nothing about frameworks, devices, time or cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import TypeAlias

from breakeven.errors import UserError

Shape: TypeAlias = tuple[int, ...]
"""Of one sample, no batch: (channels, height, width), (tokens, features) or (features,)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conv2d:
    """Square convolution, no dilation; weight [out, in / groups, kernel, kernel].

    Channels fall into `groups` that do not see each other; as many groups as channels is a depthwise one.
    """

    name: str
    in_channels: int
    out_channels: int
    kernel: int
    stride: int = 1
    padding: int = 0
    bias: bool = False
    groups: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class BatchNorm2d:
    """running = (1 - momentum) * running + momentum * batch: torch's convention (Keras's is 1 - momentum)."""

    name: str
    channels: int
    eps: float = 1e-5
    momentum: float = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class Linear:
    """y = x W^T + b over the last extent; weight [out, in]."""

    name: str
    in_features: int
    out_features: int
    bias: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class ReLU:
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ReLU6:
    """min(max(x, 0), 6)."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class MaxPool2d:
    """Padding counts as minus infinity; output size rounds down."""

    name: str
    kernel: int
    stride: int
    padding: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class AdaptiveAvgPool2d:
    """Global: (C, H, W) -> (C, 1, 1)."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Flatten:
    """(C, H, W) -> (C * H * W,) in that order."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Dropout:
    name: str
    p: float = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class Subsample:
    """Every `stride`-th row and column from the first; zeros for the new channels, half of them before the
    others and half after: the shortcut without parameters of He et al. 2016 (option A)."""

    name: str
    in_channels: int
    out_channels: int
    stride: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ConvTranspose2d:
    """The transpose of a square convolution, no dilation; weight [in, out, kernel, kernel].

    An extent n becomes (n - 1) * stride - 2 * padding + kernel + output_padding.
    """

    name: str
    in_channels: int
    out_channels: int
    kernel: int
    stride: int = 1
    padding: int = 0
    output_padding: int = 0
    bias: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class InstanceNorm2d:
    """(x - mean) / sqrt(var + eps) over the pixels of each channel of each image, with the biased variance.

    In training and in inference alike; no parameters, no running statistics (torch's default).
    """

    name: str
    channels: int
    eps: float = 1e-5


@dataclass(frozen=True, kw_only=True, slots=True)
class ReflectionPad2d:
    """`padding` more pixels on each side, mirrored at the edge pixel, which is not repeated."""

    name: str
    padding: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LeakyReLU:
    """max(x, 0) + slope * min(x, 0)."""

    name: str
    slope: float = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Tanh:
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerNorm:
    """Over the last extent, with the biased variance."""

    name: str
    features: int
    eps: float = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class GELU:
    """x * Phi(x) with the exact normal distribution function, not its tanh approximation."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """(C, H, W) -> (1 + H * W, C): a learned class token, then the pixels row by row; plus learned positions.

    cls_token [1, 1, C], pos_embed [1, 1 + H * W, C]; `pixels` is H * W.
    """

    name: str
    channels: int
    pixels: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """softmax(q k^T / sqrt(d)) v for each head: (tokens, 3 C) -> (tokens, C), d = C / heads, no mask.

    The last extent is q, k, v in that order, each of them head by head. The products that make q, k, v and
    that mix the heads are Linear layers before and after this one.
    """

    name: str
    heads: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassToken:
    """(tokens, C) -> (C,): the first token alone."""

    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Residual:
    """main(x) + shortcut(x), then ReLU unless `relu` is False; an empty shortcut is the identity."""

    name: str
    main: tuple[Node, ...]
    shortcut: tuple[Node, ...] = ()
    relu: bool = True


TokenLeaf: TypeAlias = LayerNorm | GELU | Tokens | Attention | ClassToken
ImageLeaf: TypeAlias = Subsample | ConvTranspose2d | InstanceNorm2d | ReflectionPad2d | LeakyReLU | Tanh
PlainLeaf: TypeAlias = (
    Conv2d | BatchNorm2d | Linear | ReLU | ReLU6 | MaxPool2d | AdaptiveAvgPool2d | Flatten | Dropout
)
Leaf: TypeAlias = PlainLeaf | ImageLeaf | TokenLeaf
Node: TypeAlias = Leaf | Residual


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """One way in which a training step runs a net: `times` forward and backward.

    `net` tells nets apart that have equal layers but weights of their own. `input_gradient`: what goes in has
    to be differentiated; `weight_gradient`: the weights have to.
    """

    net: str
    input_shape: tuple[int, int, int]
    nodes: tuple[Node, ...]
    times: int = 1
    input_gradient: bool = False
    weight_gradient: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A net: its nodes run in turn. Names are state-dict prefixes, each used once:
    torchvision's for convolutional nets, timm's for the ViTs.

    `passes`: what a training step runs where that is more than these nodes once. `weight_std`: standard
    deviation of all drawn weights, whose biases then begin at 0; None: each layer's own (see `weights`).
    """

    name: str
    num_classes: int
    input_shape: tuple[int, int, int]  # (channels, height, width)
    nodes: tuple[Node, ...]
    passes: tuple[Pass, ...] = ()
    weight_std: float | None = None


def leaves(nodes: tuple[Node, ...]) -> Iterator[Leaf]:
    """Every node that is no Residual, in order of execution (main before shortcut)."""
    for node in nodes:
        if isinstance(node, Residual):
            yield from leaves(node.main)
            yield from leaves(node.shortcut)
        else:
            yield node


def normed_away(nodes: tuple[Node, ...]) -> Iterator[str]:
    """Biases whose gradient in training is nothing but rounding: the norm after them takes them out again."""
    for node, after in pairwise(nodes):
        if isinstance(node, Conv2d | ConvTranspose2d) and isinstance(after, BatchNorm2d | InstanceNorm2d):
            yield f"{node.name}.bias"
    for node in nodes:
        if isinstance(node, Residual):
            yield from normed_away(node.main)
            yield from normed_away(node.shortcut)


def out_shape(node: Leaf, shape: Shape) -> Shape:
    """Shape that a leaf makes of `shape`. Raises UserError where the input doesn't fit."""
    match node:
        case Conv2d(in_channels=channels) if shape[0] == channels:
            return (node.out_channels, *_window(node, shape))
        case MaxPool2d():
            return (shape[0], *_window(node, shape))
        case Linear(in_features=features) if len(shape) < 3 and shape[-1] == features:
            return (*shape[:-1], node.out_features)
        case AdaptiveAvgPool2d():
            return (shape[0], 1, 1)
        case Flatten():
            return (prod(shape),)
        case ReLU() | ReLU6() | GELU() | Dropout():
            return shape
        case BatchNorm2d(channels=channels) if shape[0] == channels:
            return shape
        case LayerNorm() | Tokens() | Attention() | ClassToken():
            return _token_shape(node, shape)
        case Subsample() | ConvTranspose2d() | InstanceNorm2d() | ReflectionPad2d() | LeakyReLU() | Tanh():
            return _image_shape(node, shape)
    raise _misfit(node, shape)


def _image_shape(node: ImageLeaf, shape: Shape) -> Shape:
    match node:
        case Subsample(in_channels=channels) if shape[0] == channels:
            return (node.out_channels, *(-(-extent // node.stride) for extent in shape[1:]))
        case ConvTranspose2d(in_channels=channels) if shape[0] == channels:
            more = node.kernel + node.output_padding - 2 * node.padding
            return (node.out_channels, *((extent - 1) * node.stride + more for extent in shape[1:]))
        case InstanceNorm2d(channels=channels) if shape[0] == channels:
            return shape
        case ReflectionPad2d() if min(shape[1:]) <= node.padding:
            raise _too_small(node.name, shape)
        case ReflectionPad2d():
            return (shape[0], *(extent + 2 * node.padding for extent in shape[1:]))
        case LeakyReLU() | Tanh():
            return shape
    raise _misfit(node, shape)


def _token_shape(node: LayerNorm | Tokens | Attention | ClassToken, shape: Shape) -> Shape:
    match node:
        case LayerNorm(features=features) if shape[-1] == features:
            return shape
        case Tokens(channels=channels) if shape[0] == channels and prod(shape[1:]) == node.pixels:
            return (1 + node.pixels, channels)
        case Attention() if len(shape) == 2 and shape[1] % (3 * node.heads) == 0:
            return (shape[0], shape[1] // 3)
        case ClassToken() if len(shape) == 2:
            return shape[1:]
    raise _misfit(node, shape)


def _misfit(node: Leaf, shape: Shape) -> UserError:
    return UserError(f"layer {node.name} can't take an input of shape {shape}; use the model's own")


def parameter_shapes(node: Leaf) -> dict[str, Shape]:
    """Trained tensors of a leaf, as {'weight': shape, 'bias': shape}; empty for a layer without any."""
    match node:
        case Conv2d():
            weight: Shape = (node.out_channels, node.in_channels // node.groups, node.kernel, node.kernel)
            return {"weight": weight} | ({"bias": (node.out_channels,)} if node.bias else {})
        case Linear():
            weight = (node.out_features, node.in_features)
            return {"weight": weight} | ({"bias": (node.out_features,)} if node.bias else {})
        case ConvTranspose2d():
            weight = (node.in_channels, node.out_channels, node.kernel, node.kernel)
            return {"weight": weight} | ({"bias": (node.out_channels,)} if node.bias else {})
        case BatchNorm2d():
            return {"weight": (node.channels,), "bias": (node.channels,)}
        case LayerNorm():
            return {"weight": (node.features,), "bias": (node.features,)}
        case Tokens():
            return {
                "cls_token": (1, 1, node.channels),
                "pos_embed": (1, 1 + node.pixels, node.channels),
            }
        case _:
            return {}


def _window(node: Conv2d | MaxPool2d, shape: Shape) -> tuple[int, int]:
    sizes = [(extent + 2 * node.padding - node.kernel) // node.stride + 1 for extent in shape[1:]]
    if len(sizes) != 2 or min(sizes) < 1:
        raise _too_small(node.name, shape)
    return sizes[0], sizes[1]


def _too_small(name: str, shape: Shape) -> UserError:
    return UserError(f"input {shape} is too small for layer {name}; use larger images, as 3x32x32")
