"""Numeric precision: the setting, what it reads back as, and bit probes of what really runs.

Knows nothing about data, optimizers or the training loop.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from breakeven.runtimes.jax import nets
from breakeven.workloads import layers
from breakeven.workloads.layers import Shape

SETTINGS = {"fp32": "highest", "tf32": "tensorfloat32"}
"""Precision -> `jax_default_matmul_precision`, which convolutions follow as well. Others set nothing: JAX's
own default on an NVIDIA GPU from Ampere on is TF32."""

TYPES = {"bf16": jnp.bfloat16, "fp16": jnp.float16}

PROBE_BITS = 23
"""Explicit mantissa bits of an IEEE float32: the largest k for which 1 + 2^-k is a number of its own."""

BITS: dict[str, tuple[int, int]] = {"fp32": (20, 23), "tf32": (9, 11), "fp16": (9, 11), "bf16": (6, 8)}
"""Mantissa bits that a product keeps. FP32 starts at 20: Winograd's transforms round by some last places."""

CERTAIN = 64.0
"""Entry of a query and a key whose score, 4096 / sqrt(features a head), beats scores of 0 beyond FP32."""

FP16_OVERFLOW = 1e6
"""Above the largest half (65504) and below the largest TF32: infinite output means FP16."""


def set_precision(precision: str) -> None:
    """Sets what products of FP32 are computed in, from now traced programs on."""
    jax.config.update("jax_default_matmul_precision", SETTINGS.get(precision))


def compute_type(precision: str) -> Any:
    """The type that products are computed in; None: that of their factors."""
    return TYPES.get(precision)


def hardware(precision: str, device: jax.Device) -> tuple[bool, str]:
    """(whether the hardware computes in this precision itself, what says so)."""
    if device.platform != "cpu":
        capability = str(getattr(device, "compute_capability", "0"))
        # Tensor cores know TF32 and BF16 from Ampere (compute capability 8.0) on: CUDA C programming guide.
        newer = float(capability or 0) >= 8
        return precision not in ("tf32", "bf16") or newer, f"compute capability {capability}"
    if precision not in TYPES:
        return precision != "tf32", "FP32 units"
    used = _product_types(TYPES[precision], device)
    if "f32" in used:
        return False, f"XLA computes products of {np.dtype(TYPES[precision]).name} in FP32 on this processor"
    return True, f"XLA computes products in {', '.join(sorted(used)) or 'a library of its own'}"


def _product_types(dtype: Any, device: jax.Device) -> set[str]:
    """What XLA makes convolutions and matrix products of a type compute in, as HLO names types."""
    rows = jax.ShapeDtypeStruct((64, 64), dtype)
    images, filters = (jax.ShapeDtypeStruct(s, dtype) for s in ((8, 16, 16, 64), (3, 3, 64, 64)))

    def both(a: Any, x: Any, w: Any) -> Any:
        return a @ a, lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    with jax.default_device(device):
        text = str(jax.jit(both).lower(rows, images, filters).compile().as_text())
    return set(re.findall(r"= (\w+)\[\S* (?:convolution|dot)\(", text))


def costliest(model: layers.Model) -> dict[str, tuple[layers.Leaf, Shape]]:
    """The layer of each kind of product with the most FLOPs, and the shape of its input, by the kind."""
    kinds = {layers.Conv2d: "conv", layers.Linear: "matmul", layers.Attention: "attention"}
    by_name = {leaf.name: leaf for leaf in layers.leaves(model.nodes)}
    best: dict[str, tuple[int, layers.Leaf, Shape]] = {}
    for cost in layers.layer_costs(model):
        leaf = by_name.get(cost.name)
        kind = kinds.get(type(leaf)) if leaf is not None else None
        if leaf is not None and kind is not None and cost.flops > best.get(kind, (-1,))[0]:
            best[kind] = cost.flops, leaf, cost.in_shape
    return {kind: (leaf, shape) for kind, (_, leaf, shape) in best.items()}


def probe(
    leaf: layers.Leaf, shape: Shape, batch: int, *, how: nets.How, weights_type: Any, device: jax.Device
) -> dict[str, Any]:
    """Mantissa bits that a layer keeps at this shape, by the function and the compiler that run the net.

    One input element per sample is 1 + 2^-k and meets one weight of 1, all else is 0, so nothing is added up:
    the output is the product alone. Of attention the element is a value whose share is 1. A bit counts as
    kept if the output is nearer to 1 + 2^-k than 2^-(k+2), which lets Winograd's rounding pass and neither
    truncation nor rounding of the input.
    """
    model = layers.Model(name="probe", num_classes=1, input_shape=(1, 1, 1), nodes=(leaf,))
    weights = {
        f"{leaf.name}.{part}": np.zeros(s, np.float32) for part, s in layers.parameter_shapes(leaf).items()
    }
    if isinstance(leaf, layers.Conv2d | layers.Linear):
        weight = weights[f"{leaf.name}.weight"]
        centre: Any = (0, 0, *(size // 2 for size in weight.shape[2:]))
        weight[centre] = 1.0
    arrays = {
        name: jax.device_put(np.asarray(value).astype(weights_type), device)
        for name, value in nets.placed(weights, channels_last=how.channels_last).items()
    }
    run = jax.jit(lambda arrays, x: nets.forward(model, arrays, x, how)[0])
    place = _place(leaf, shape)

    def product(values: NDArray[np.float64]) -> NDArray[np.float64]:
        x = np.zeros((batch, *shape), np.float32)
        if isinstance(leaf, layers.Attention):
            x[:, 0, 0] = x[:, 0, shape[1] // 3] = CERTAIN
        where: Any = (slice(None), *place)
        x[where] = values
        if len(shape) == 3:
            x = nets.in_layout(x, channels_last=how.channels_last)
        if how.dtype is None:
            with np.errstate(over="ignore"):  # which is what it is looked for
                x = x.astype(weights_type)
        out = np.asarray(run(arrays, jax.device_put(x, device))).astype(np.float64)
        return out.reshape(batch, -1)[:, 0]  # of both layouts the first element is the first channel's

    bits, found = kept(product, batch)
    return {"bits": bits, "precision": found, "shape": [batch, *shape]}


def _place(leaf: layers.Leaf, shape: Shape) -> tuple[int, ...]:
    """Where of a sample the element sits: below the centre of the first window, or in the first token."""
    match leaf:
        case layers.Conv2d():
            centre = leaf.kernel // 2 - leaf.padding
            return (0, centre, centre)
        case layers.Attention():
            return (0, 2 * shape[1] // 3)
    return (0,) * len(shape)


def kept(product: Callable[[NDArray[np.float64]], NDArray[np.float64]], rows: int) -> tuple[int, str | None]:
    """Mantissa bits of its input that `product` keeps, and the name of that precision.

    `product` takes `rows` values and returns each of them times 1, by the arithmetic in question.
    """
    bits = 0
    for first in range(1, PROBE_BITS + 1, rows):
        exponents = np.arange(first, min(first + rows, PROBE_BITS + 1))
        values = np.ones(rows)
        values[: len(exponents)] = 1 + 2.0**-exponents
        for k, value in zip(exponents.tolist(), product(values).tolist(), strict=False):
            if k == bits + 1 and abs(value - (1 + 2.0**-k)) <= 2.0 ** -(k + 2):
                bits = k
    large = product(np.full(rows, FP16_OVERFLOW))
    return bits, classify(bits, not np.isfinite(large).all())


def classify(bits: int, overflows: bool) -> str | None:
    """Name of a precision by its mantissa bits; TF32 and FP16 have equally many and differ in range."""
    for name, (low, high) in BITS.items():
        if low <= bits <= high and not (name == "tf32" and overflows):
            return name
    return None


def agrees(asked: str, found: Mapping[str, str | None]) -> bool:
    """Whether probed precisions are what was asked. `default` is whatever the framework does: always true."""
    return asked == "default" or all(name == asked for name in found.values())


def roughest(found: Mapping[str, str | None]) -> str:
    """The roughest precision that the probes found: what parity can be held to."""
    return next((name for name in reversed(BITS) if name in found.values()), "bf16")
