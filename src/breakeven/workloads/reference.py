"""Forward pass of declared layers in FP64 with NumPy: the answer that every runtime is held against.

Knows nothing about frameworks or speed. Inference: batch norm by its running statistics, no dropout; nothing
is folded or fused.
"""

from __future__ import annotations

from math import prod, sqrt

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from breakeven.workloads import layers
from breakeven.workloads.weights import Weights

Tensor = NDArray[np.float64]


def logits(model: layers.Model, weights: Weights, images: NDArray[np.floating]) -> Tensor:
    """Scores [n, num_classes] of normalised images [n, C, H, W], in FP64 throughout."""
    return run(model.nodes, weights, np.asarray(images, np.float64))


def run(nodes: tuple[layers.Node, ...], weights: Weights, x: Tensor) -> Tensor:
    """Nodes in turn on a batch [n, C, H, W], [n, tokens, features] or [n, features], as they take it."""
    for node in nodes:
        if isinstance(node, layers.Residual):
            total = run(node.main, weights, x) + run(node.shortcut, weights, x)
            x = np.maximum(total, 0) if node.relu else total
        else:
            x = _leaf(node, weights, x)
    return x


def _leaf(node: layers.Leaf, weights: Weights, x: Tensor) -> Tensor:
    parts = layers.parameter_shapes(node)
    own = {part: weights[f"{node.name}.{part}"].astype(np.float64) for part in parts}
    match node:
        case layers.LayerNorm() | layers.GELU() | layers.Tokens() | layers.Attention() | layers.ClassToken():
            return _token_leaf(node, own, x)
        case (
            layers.Subsample()
            | layers.ConvTranspose2d()
            | layers.InstanceNorm2d()
            | layers.ReflectionPad2d()
            | layers.LeakyReLU()
            | layers.Tanh()
        ):
            return _image_leaf(node, own, x)
        case _:
            return _plain_leaf(node, weights, own, x)


def _plain_leaf(node: layers.PlainLeaf, weights: Weights, own: dict[str, Tensor], x: Tensor) -> Tensor:
    match node:
        case layers.Conv2d():
            return _conv(node, own["weight"], own.get("bias"), x)
        case layers.BatchNorm2d():
            mean, var = (
                weights[f"{node.name}.running_{part}"].astype(np.float64) for part in ("mean", "var")
            )
            scale = own["weight"] / np.sqrt(var + node.eps)
            return (x - _by_channel(mean)) * _by_channel(scale) + _by_channel(own["bias"])
        case layers.Linear():
            return x @ own["weight"].T + own.get("bias", 0.0)
        case layers.ReLU():
            return np.maximum(x, 0)
        case layers.ReLU6():
            return np.clip(x, 0, 6)
        case layers.MaxPool2d():
            largest: Tensor = _windows(node, x, -np.inf).max(axis=(4, 5))
            return largest
        case layers.AdaptiveAvgPool2d():
            pooled: Tensor = x.mean(axis=(2, 3), keepdims=True)
            return pooled
        case layers.Flatten():
            return x.reshape(len(x), -1)
        case _:  # dropout
            return x


def _image_leaf(node: layers.ImageLeaf, own: dict[str, Tensor], x: Tensor) -> Tensor:
    match node:
        case layers.Subsample():
            more = node.out_channels - node.in_channels
            kept = x[:, :, :: node.stride, :: node.stride]
            return np.pad(kept, ((0, 0), (more // 2, more - more // 2), (0, 0), (0, 0)))
        case layers.ConvTranspose2d():
            return _transposed(node, own["weight"], own.get("bias"), x)
        case layers.InstanceNorm2d():
            centred = x - x.mean(axis=(2, 3), keepdims=True)
            variance = np.square(centred).mean(axis=(2, 3), keepdims=True)
            normed: Tensor = centred / np.sqrt(variance + node.eps)
            return normed
        case layers.ReflectionPad2d():
            pad = (node.padding, node.padding)
            return np.pad(x, ((0, 0), (0, 0), pad, pad), mode="reflect")
        case layers.LeakyReLU():
            return np.where(x > 0, x, node.slope * x)
        case layers.Tanh():
            return np.asarray(np.tanh(x), np.float64)


def _transposed(node: layers.ConvTranspose2d, weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """Each pixel adds its kernel, scaled, to the output, of which padding is cut off."""
    n, _, height, width = x.shape
    rows, columns = (
        (extent - 1) * node.stride + node.kernel + node.output_padding for extent in (height, width)
    )
    made = np.zeros((n, node.out_channels, rows, columns))
    for i in range(node.kernel):
        for j in range(node.kernel):
            # [n, in, h, w] and [in, out] -> [n, h, w, out]
            part = np.tensordot(x, weight[:, :, i, j], axes=(1, 0))
            last = i + (height - 1) * node.stride + 1, j + (width - 1) * node.stride + 1
            made[:, :, i : last[0] : node.stride, j : last[1] : node.stride] += part.transpose(0, 3, 1, 2)
    made = made[:, :, node.padding : rows - node.padding, node.padding : columns - node.padding]
    return made if bias is None else made + _by_channel(bias)


def _token_leaf(node: layers.TokenLeaf, own: dict[str, Tensor], x: Tensor) -> Tensor:
    match node:
        case layers.LayerNorm():
            centred = x - x.mean(axis=-1, keepdims=True)
            variance = np.square(centred).mean(axis=-1, keepdims=True)
            normed: Tensor = centred / np.sqrt(variance + node.eps)
            return normed * own["weight"] + own["bias"]
        case layers.GELU():
            from scipy.special import ndtr  # the normal distribution function

            return x * np.asarray(ndtr(x), np.float64)
        case layers.Tokens():
            tokens = x.reshape(len(x), node.channels, -1).transpose(0, 2, 1)
            first = np.broadcast_to(own["cls_token"], (len(x), 1, node.channels))
            return np.concatenate([first, tokens], axis=1) + own["pos_embed"]
        case layers.Attention():
            return _attention(node.heads, x)
        case layers.ClassToken():
            token: Tensor = x[:, 0]
            return token


def _attention(heads: int, x: Tensor) -> Tensor:
    n, tokens, extent = x.shape
    width = extent // 3 // heads
    # [n, tokens, 3 * heads * width] -> three of [n, heads, tokens, width]
    q, k, v = x.reshape(n, tokens, 3, heads, width).transpose(2, 0, 3, 1, 4)
    scores = q @ k.transpose(0, 1, 3, 2) / sqrt(width)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed: Tensor = scores / scores.sum(axis=-1, keepdims=True) @ v
    return mixed.transpose(0, 2, 1, 3).reshape(n, tokens, heads * width)


def _conv(node: layers.Conv2d, weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """As one matrix product a group: [out / g, in / g * k * k] times the windows as columns."""
    windows = _windows(node, x, 0.0)
    n, _, height, width = windows.shape[:4]
    depth = prod(weight.shape[1:])
    # [n, c, h, w, k, k] -> [n, g, c / g * k * k, h * w]
    columns = windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, node.groups, depth, height * width)
    made: Tensor = weight.reshape(node.groups, -1, depth) @ columns
    made = made.reshape(n, node.out_channels, height, width)
    return made if bias is None else made + _by_channel(bias)


def _windows(node: layers.Conv2d | layers.MaxPool2d, x: Tensor, fill: float) -> Tensor:
    """A view [n, c, h, w, k, k]: the padded input below each window."""
    pad = (node.padding, node.padding)
    padded = np.pad(x, ((0, 0), (0, 0), pad, pad), constant_values=fill)
    every = sliding_window_view(padded, (node.kernel, node.kernel), axis=(2, 3))
    return every[:, :, :: node.stride, :: node.stride]


def _by_channel(values: Tensor) -> Tensor:
    return values[:, None, None]
