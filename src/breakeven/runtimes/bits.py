"""How many bits of a factor a product keeps, and so in which precision it really ran: for runtimes of arrays.

Knows nothing about frameworks: a product is a function of NumPy arrays.
"""

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.workloads import costs, layers
from breakeven.workloads.layers import Shape
from breakeven.workloads.weights import Weights

PROBE_BITS = 23
"""Explicit mantissa bits of an IEEE float32: the largest k for which 1 + 2^-k is a number of its own."""

BITS: dict[str, tuple[int, int]] = {"fp32": (20, 23), "tf32": (9, 11), "fp16": (9, 11), "bf16": (6, 8)}
"""Mantissa bits that a product keeps. FP32 starts at 20: Winograd's transforms round by some last places."""

CERTAIN = 64.0
"""Entry of a query and a key whose score, 4096 / sqrt(features a head), beats scores of 0 beyond FP32."""

FP16_OVERFLOW = 1e6
"""Above the largest half (65504) and below the largest TF32: infinite output means FP16."""

CPU_FLAGS = {"bf16": ("avx512_bf16", "amx_bf16"), "fp16": ("avx512_fp16", "amx_fp16")}
"""Instructions by which a processor computes in a type itself, as Linux names them."""

Product = Callable[[NDArray[np.float32]], NDArray[np.floating]]
"""Samples [rows, ...] in float32, of the probed layer's input shape -> its output, the first element of a
sample first."""


def probed(leaf: layers.Leaf, shape: Shape, rows: int, product: Product) -> tuple[int, str | None]:
    """Mantissa bits of its input that a layer with the weights of `unit` keeps, and that precision's name.

    One input element per sample is 1 + 2^-k and meets one weight of 1, all else is 0, so nothing is added up:
    the output is the product alone. A bit counts as kept if the output is nearer to 1 + 2^-k than 2^-(k+2),
    which lets Winograd's rounding pass and neither truncation nor rounding of the input.
    """
    place = _place(leaf, shape)

    def response(values: NDArray[np.float64]) -> NDArray[np.floating]:
        x: Any = np.zeros((rows, *shape), np.float32)
        if isinstance(leaf, layers.Attention):
            # Query and key agree so well that the softmax of the scores is 1 and zeros.
            x[:, 0, 0] = x[:, 0, shape[1] // 3] = CERTAIN
        x[(slice(None), *place)] = values
        return product(x).reshape(rows, -1)[:, 0]

    return kept(response, rows)


def kept(
    response: Callable[[NDArray[np.float64]], NDArray[np.floating]], rows: int
) -> tuple[int, str | None]:
    """Mantissa bits of its input that `response` keeps, and that precision's name.

    It takes `rows` values and returns each of them times 1, by the arithmetic in question.
    """
    bits = 0
    for first in range(1, PROBE_BITS + 1, rows):
        exponents = np.arange(first, min(first + rows, PROBE_BITS + 1))
        values = np.ones(rows)
        values[: len(exponents)] = 1 + 2.0**-exponents
        for k, value in zip(exponents.tolist(), response(values).tolist(), strict=False):
            if k == bits + 1 and abs(value - (1 + 2.0**-k)) <= 2.0 ** -(k + 2):
                bits = k
    return bits, classify(bits, not np.isfinite(response(np.full(rows, FP16_OVERFLOW))).all())


def unit(leaf: layers.Leaf) -> Weights:
    """Weights of a layer whose output channel 0 is its input channel 0, at a convolution's centre."""
    shapes = layers.parameter_shapes(leaf)
    weights = {f"{leaf.name}.{part}": np.zeros(shape, np.float32) for part, shape in shapes.items()}
    if "weight" in shapes:
        weight: Any = weights[f"{leaf.name}.weight"]
        weight[(0, 0, *(size // 2 for size in weight.shape[2:]))] = 1.0
    return weights


def costliest(model: layers.Model) -> dict[str, tuple[layers.Leaf, Shape]]:
    """The layer of each kind of product with the most FLOPs and its input shape, by the kind's name."""
    kinds = {layers.Conv2d: "conv", layers.Linear: "matmul", layers.Attention: "attention"}
    by_name = {leaf.name: leaf for leaf in layers.leaves(model.nodes)}
    best: dict[str, tuple[int, layers.Leaf, Shape]] = {}
    for cost in costs.layer_costs(model):
        leaf = by_name.get(cost.name)
        kind = None if leaf is None else kinds.get(type(leaf))
        if leaf is not None and kind is not None and cost.flops > best.get(kind, (-1,))[0]:
            best[kind] = cost.flops, leaf, cost.in_shape
    return {kind: (leaf, shape) for kind, (_, leaf, shape) in best.items()}


def classify(bits: int, overflows: bool) -> str | None:
    """Name of a precision by its mantissa bits; TF32 and FP16 have equally many and differ in range."""
    for name, (low, high) in BITS.items():
        if low <= bits <= high and not (name == "tf32" and overflows):
            return name
    return None


def same(asked: str, found: Mapping[str, str | None]) -> bool:
    """Whether probed precisions are what was asked. `default` is whatever the framework does: always true."""
    return asked == "default" or all(name == asked for name in found.values())


def agrees(asked: str, found: Mapping[str, str | None]) -> bool:
    """As `same`, but attention may be finer than asked, not rougher: a fused kernel follows no settings."""
    others = {kind: name for kind, name in found.items() if kind != "attention"}
    return same(asked, others) and (
        asked == "default" or "attention" not in found or rank(found["attention"]) <= rank(asked)
    )


def rank(name: str | None) -> int:
    """How rough a precision is; one that nobody knows is rougher than all."""
    return list(BITS).index(name) if name in BITS else len(BITS)


def roughest(found: Mapping[str, str | None]) -> str:
    """The roughest precision that the probes found: what parity can be held to."""
    return min(found.values(), key=lambda name: -rank(name), default="fp32") or "bf16"


def on_cpu(precision: str) -> tuple[bool, str]:
    """(whether this processor computes in a precision itself, what says so)."""
    if precision not in CPU_FLAGS:
        return precision != "tf32", "FP32 units"
    here = sorted(set(CPU_FLAGS[precision]) & _cpu_flags())
    if not here:
        return False, f"neither {' nor '.join(CPU_FLAGS[precision])}: emulated with FP32"
    return True, f"the processor has {', '.join(here)}"


def _cpu_flags() -> set[str]:
    listing = Path("/proc/cpuinfo")
    if sys.platform != "linux" or not listing.exists():
        return set()
    lines = listing.read_text(errors="replace").splitlines()
    return next((set(line.split()) for line in lines if line.startswith("flags")), set())


def _place(leaf: layers.Leaf, shape: Shape) -> tuple[int, ...]:
    """Where of a sample the element sits: below the centre of the first window, or in the first token."""
    match leaf:
        case layers.Conv2d():
            centre = leaf.kernel // 2 - leaf.padding
            return (0, centre, centre)
        case layers.Attention():
            return (0, 2 * shape[1] // 3)
        case _:
            return (0,) * len(shape)
