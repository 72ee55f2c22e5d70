"""Weights of a declared model drawn from a seed, equal bit for bit for every runtime and processor.

Knows nothing about frameworks: names and shapes are those of the declared layers.
Convolutions have the variance of Kaiming's normal initialisation (He et al. 2015: 2 / fan out for ReLU),
linear layers and biases torch's default (uniform within 1 / sqrt(fan in)), class token and positions the
usual standard deviation of 0.02; a model may set one deviation for all, and biases of 0. Distributions are
uniform, not normal: that needs only exact IEEE arithmetic, while the logarithm and cosine of a normal draw
differ in the last bit between processors and libraries. Normalisations start as the identity.
"""

from __future__ import annotations

import hashlib
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from breakeven.workloads.layers import (
    BatchNorm2d,
    Conv2d,
    ConvTranspose2d,
    LayerNorm,
    Leaf,
    Linear,
    Model,
    Residual,
    Shape,
    Tokens,
    leaves,
    parameter_shapes,
)
from breakeven.workloads.philox import derive, symmetric

Weights = dict[str, NDArray[np.float32]]

TOKEN_STD = 0.02
"""Standard deviation of class token and positions, as in DeiT (Touvron et al. 2021)."""


def initial_weights(model: Model, seed: int) -> Weights:
    """Every tensor of the state dict but `num_batches_tracked`, float32, in order of execution.

    Each tensor has a key of its own, derived from (seed, tensor name): none depends on another.
    """
    weights: Weights = {}
    for leaf in leaves(model.nodes):
        if isinstance(leaf, BatchNorm2d):
            weights |= _identity(leaf, leaf.channels) | _running(leaf)
            continue
        if isinstance(leaf, LayerNorm):
            weights |= _identity(leaf, leaf.features)
            continue
        for part, shape in parameter_shapes(leaf).items():
            name = f"{leaf.name}.{part}"
            key = derive(seed, f"weights:{name}")
            if model.weight_std is not None and part == "bias":
                weights[name] = np.zeros(shape, np.float32)
                continue
            bound = _bound(leaf, part) if model.weight_std is None else model.weight_std * sqrt(3)
            weights[name] = symmetric(key, prod(shape), bound).reshape(shape)
    return weights


def declared_shapes(model: Model) -> dict[str, Shape]:
    """Name and shape of every tensor that `initial_weights` makes, in its order."""
    shapes: dict[str, Shape] = {}
    for leaf in leaves(model.nodes):
        shapes |= {f"{leaf.name}.{part}": shape for part, shape in parameter_shapes(leaf).items()}
        if isinstance(leaf, BatchNorm2d):
            shapes |= {f"{leaf.name}.running_{part}": (leaf.channels,) for part in ("mean", "var")}
    return shapes


def drawn_for_inference(model: Model, seed: int) -> Weights:
    """The initial weights, damped so that activations stay where trained ones are.

    Without statistics of real batches every residual block doubles the variance: activations of ResNet101
    reach 5e5 and overflow FP16. With each branch divided by the root of their number, all blocks together
    multiply it by e.
    """
    weights = initial_weights(model, seed)
    blocks = sum(isinstance(node, Residual) for node in model.nodes)
    return damped(model, weights, 1 / sqrt(blocks)) if blocks else weights


def damped(model: Model, weights: Weights, factor: float) -> Weights:
    """The weights with the last batch norm of each residual branch scaled; the same object without any."""
    blocks = [node for node in model.nodes if isinstance(node, Residual)]
    last = [[leaf.name for leaf in leaves(b.main) if isinstance(leaf, BatchNorm2d)][-1:] for b in blocks]
    scaled = {f"{name}.weight" for names in last for name in names}
    if not scaled:
        return weights
    return {name: value * np.float32(factor) if name in scaled else value for name, value in weights.items()}


def pushed(weights: Weights, by: float) -> Weights:
    """The weights, each times 1 + `by` u with its own u within -1 and 1, the same for every `by`."""
    return {
        name: (
            value
            * (
                1
                + by
                * symmetric(derive(0, f"push:{name}"), value.size, 1.0)
                .reshape(value.shape)
                .astype(np.float64)
            )
        ).astype(np.float32)
        for name, value in weights.items()
    }


def weights_hash(weights: Weights) -> str:
    """SHA-256 over names (sorted), shapes and little-endian float32 bytes, hexadecimal."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = np.ascontiguousarray(weights[name], dtype="<f4")
        digest.update(f"{name} {tensor.shape}\n".encode())
        digest.update(tensor.data)
    return digest.hexdigest()


def _identity(leaf: BatchNorm2d | LayerNorm, n: int) -> Weights:
    return {f"{leaf.name}.weight": np.ones(n, np.float32), f"{leaf.name}.bias": np.zeros(n, np.float32)}


def _running(leaf: BatchNorm2d) -> Weights:
    return {
        f"{leaf.name}.running_mean": np.zeros(leaf.channels, np.float32),
        f"{leaf.name}.running_var": np.ones(leaf.channels, np.float32),
    }


def _bound(leaf: Leaf, part: str) -> float:
    """Half the width of the uniform distribution of a leaf's tensor."""
    match leaf:
        case Conv2d() if part == "weight":
            # Variance bound^2 / 3 = 2 / fan out, of what one input reaches: its own group.
            return sqrt(6 / (leaf.out_channels // leaf.groups * leaf.kernel**2))
        case Conv2d():
            return 1 / sqrt(leaf.in_channels // leaf.groups * leaf.kernel**2)
        case ConvTranspose2d() if part == "weight":  # what one input reaches is its whole kernel
            return sqrt(6 / (leaf.out_channels * leaf.kernel**2))
        case ConvTranspose2d():
            return 1 / sqrt(leaf.out_channels * leaf.kernel**2)
        case Linear():
            return 1 / sqrt(leaf.in_features)
        case Tokens():
            return TOKEN_STD * sqrt(3)
    raise AssertionError(f"{leaf.name} has no random tensor")
