"""Initial weights of a declared model, equal bit for bit for every runtime and processor.

Knows nothing about frameworks: names and shapes are those of the declared layers.
Convolutions have the variance of Kaiming's normal initialisation (He et al. 2015: 2 / fan out for ReLU),
linear layers and biases torch's default (uniform within 1 / sqrt(fan in)), class token and positions the
usual standard deviation of 0.02. Distributions are uniform, not normal: that needs only exact IEEE
arithmetic, while the logarithm and cosine of a normal draw differ in the last bit between processors and
libraries. Normalisations start as the identity.
"""

from __future__ import annotations

import hashlib
from math import prod, sqrt

import numpy as np
from numpy.typing import NDArray

from breakeven.workloads.layers import (
    BatchNorm2d,
    Conv2d,
    LayerNorm,
    Leaf,
    Linear,
    Model,
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
            weights[name] = symmetric(key, prod(shape), _bound(leaf, part)).reshape(shape)
    return weights


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
        case Linear():
            return 1 / sqrt(leaf.in_features)
        case Tokens():
            return TOKEN_STD * sqrt(3)
    raise AssertionError(f"{leaf.name} has no random tensor")
