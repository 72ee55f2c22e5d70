"""A net of fused steps in 8-bit integers: scales, integer weights, and the arithmetic, to the last bit.

Knows nothing about frameworks. Symmetric throughout, no zero points: activations int8 with one scale a
tensor, weights int8 in -127..127 with one an output channel. What a step makes of the integers q:

    y = round((float32(conv(q, w)) + bias[c] + residual * ratio[c]) * multiplier[c]), then to -128..127

The convolution is exact, in 32-bit integers; what follows is float32, operation by operation, half to even.
Bias and residual are added in units of the sum, and `ratio` has so few digits that its product is exact: so a
compiler that fuses a product and a sum into one rounding changes no bit, and a GPU can be held to the same
integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from breakeven.errors import UserError
from breakeven.workloads import fused
from breakeven.workloads.fused import Fused
from breakeven.workloads.weights import Weights

MOST = 127
"""Greatest magnitude that a range is laid onto; -128 is left to what saturates."""

LEAST_SCALE = 2.0**-40
"""Of a tensor that is all 0, whose scale says nothing; far below any that says something."""

RATIO_BITS = 16
"""Significant bits of a residual's ratio: times the 8 bits of an int8 they fill float32's 24, exactly."""

Floats: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True, slots=True)
class Conv:
    """A fused convolution: weight int8 [out, in, k, k]; bias, ratio, multiplier float32 [out].

    `ratio` is there exactly where `step.residual` is. Channels may be more than the step's: see `padded`.
    """

    step: fused.Conv
    weight: NDArray[np.int8]
    bias: Floats
    ratio: Floats | None
    multiplier: Floats


Step: TypeAlias = Conv | fused.Pool


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """`scales`: what 1 stands for in each value, by name, images included; `channels`: of the images that the
    first step takes, their own and those that padding added."""

    net: Fused
    steps: tuple[Step, ...]
    scales: Mapping[str, float]
    channels: int


def plan(net: Fused, weights: Weights, ranges: Mapping[str, float]) -> Plan:
    """The net in int8 by the greatest magnitudes `ranges` of its values, by name.

    A max-pooling keeps its input's scale. Raises UserError for a range that is no number.
    """
    scales: dict[str, float] = {fused.IMAGES: _scale(fused.IMAGES, ranges)}
    steps: list[Step] = []
    for step in net.steps:
        if isinstance(step, fused.Pool):
            scales[step.name] = scales[step.source]
            steps.append(step)
        else:
            scales[step.name] = _scale(step.name, ranges)
            steps.append(_conv(step, weights, scales))
    return Plan(net=net, steps=tuple(steps), scales=scales, channels=net.model.input_shape[0])


def padded(made: Plan, multiple: int) -> Plan:
    """The same net with every tensor's channels filled up to a multiple: by zeros, which change no number."""
    steps = tuple(step if isinstance(step, fused.Pool) else _padded(step, multiple) for step in made.steps)
    channels = _up(made.channels, multiple)
    return Plan(net=made.net, steps=steps, scales=made.scales, channels=channels)


def _scale(name: str, ranges: Mapping[str, float]) -> float:
    reach = ranges[name]
    if not np.isfinite(reach):
        raise UserError(f"value {name} has no range: it reaches {reach} over the calibration images")
    # As float32 holds it: what divides the images is what the record says.
    return float(np.float32(max(reach / MOST, LEAST_SCALE)))


def _conv(step: fused.Conv, weights: Weights, scales: Mapping[str, float]) -> Conv:
    weight, bias = fused.parameters(step, weights)
    by_channel = np.maximum(np.abs(weight).max(axis=(1, 2, 3)) / MOST, LEAST_SCALE)
    unit = scales[step.source] * by_channel  # what 1 of the sum stands for
    integers = np.clip(np.rint(weight / by_channel[:, None, None, None]), -MOST, MOST)
    return Conv(
        step=step,
        weight=integers.astype(np.int8),
        bias=(bias / unit).astype(np.float32),
        ratio=None if step.residual is None else _short(scales[step.residual] / unit),
        multiplier=(unit / scales[step.name]).astype(np.float32),
    )


def _short(values: NDArray[np.float64]) -> Floats:
    """Rounded to RATIO_BITS significant bits."""
    fraction, exponent = np.frexp(values)
    made: Floats = np.ldexp(np.rint(np.ldexp(fraction, RATIO_BITS)), exponent - RATIO_BITS).astype(np.float32)
    return made


def _padded(made: Conv, multiple: int) -> Conv:
    out, taken = made.weight.shape[:2]
    more = _up(out, multiple) - out
    return Conv(
        step=made.step,
        weight=np.pad(made.weight, ((0, more), (0, _up(taken, multiple) - taken), (0, 0), (0, 0))),
        bias=np.pad(made.bias, (0, more)),
        ratio=None if made.ratio is None else np.pad(made.ratio, (0, more)),
        multiplier=np.pad(made.multiplier, (0, more)),
    )


def _up(n: int, multiple: int) -> int:
    return -(-n // multiple) * multiple
