"""How many bits of an FP32 factor a session's products keep: FP32 and TF32 are one type to look at.

Knows nothing about the case's own layers.
"""

from typing import Any

import numpy as np

from breakeven.records.case import Case
from breakeven.runtimes import host
from breakeven.runtimes.checks import Check, check
from breakeven.runtimes.onnx import graph
from breakeven.runtimes.onnxruntime import providers
from breakeven.workloads import layers

WIDTH, SIDE = 256, 14
"""Channels and pixels as in the middle of a ResNet: wide enough for tensor cores."""

BITS = {"fp32": 23, "tf32": 10}
"""Explicit bits of the significand."""


def kept(case: Case) -> Check:
    """Bits of 1 + 2^-k that a convolution and a linear layer by the identity keep, in the case's options."""
    asked = case.tuning.precision
    found = {
        "conv": _bits(case, layers.Conv2d(name="probe", in_channels=WIDTH, out_channels=WIDTH, kernel=1)),
        "matmul": _bits(case, layers.Linear(name="probe", in_features=WIDTH, out_features=WIDTH, bias=False)),
    }
    ok = asked == "default" or set(found.values()) == {BITS[asked]}
    return check(BITS.get(asked), found, ok, "bits of the significand, products by one")


def _bits(case: Case, layer: layers.Conv2d | layers.Linear) -> int:
    shape = (WIDTH, SIDE, SIDE) if isinstance(layer, layers.Conv2d) else (WIDTH,)
    model = layers.Model(name="probe", num_classes=WIDTH, input_shape=shape, nodes=(layer,))  # type: ignore[arg-type]
    identity = np.eye(WIDTH, dtype=np.float32)
    weights = {"probe.weight": identity[:, :, None, None] if len(shape) == 3 else identity}
    steps = np.arange(1, BITS["fp32"] + 1)
    factors = (1 + 2.0**-steps).astype(np.float32)
    images = np.ones((case.work.batch, *shape), np.float32)
    images[:, : len(steps)] = factors.reshape(-1, *(1,) * (len(shape) - 1))
    proto = graph.graph(model, weights, batch=case.work.batch)
    session: Any = providers.session(proto, case, providers.session_options(host.threads_of(case)))
    (output,) = session.run(None, {graph.INPUT: images})
    same = output[:, : len(steps)] == images[:, : len(steps)]
    exact = same.reshape(case.work.batch, len(steps), -1).all(axis=(0, 2))
    return int(np.cumprod(exact).sum())
