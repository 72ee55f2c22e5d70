"""A convolution that tells whether its sums are 32-bit integers, at the shape of a net's deepest layer.

Knows nothing about frameworks. Every int8 is exact in FP16, BF16 and FP32 too, so right answers of ordinary
sums say nothing about who computed them. Sums beyond 2^24 do: an integer holds each of their units, and
float32, in which every kernel for those types adds up, drops some on the way.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from breakeven.workloads.int8 import MOST, Conv, Plan
from breakeven.workloads.philox import derive, integers

ANSWER = 64
"""What every output must be where the window is whole: a multiple of 4, so that the bias is exact."""

LEAST = 112
"""Least factor, up to MOST. A sum of so many products of two has to pass BEYOND."""

BEYOND, BELOW = 3 * 2**23, 2**26
"""Every sum's bounds: beyond 2^24 a third of it is added, and below 2^26 float32 is at most 4 apart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Witness:
    """A step with weights and bias of its own. Input: `values` int8 [in], the same at every pixel; output:
    ANSWER in `rows` and `columns`, where no window meets the padding.
    """

    conv: Conv
    values: NDArray[np.int8]
    rows: slice
    columns: slice


def witness(plan: Plan) -> Witness | None:
    """Of the layer with the most products a sum; None where no layer has sums and whole windows enough."""
    able = [made for made in plan.steps if isinstance(made, Conv) and _deep(made) and _whole(made)]
    if not able:
        return None
    return _of(max(able, key=_products))


def _of(made: Conv) -> Witness:
    step, (out, taken, kernel, _) = made.step, made.weight.shape
    drawn = LEAST + integers(derive(0, "witness"), made.weight.size + taken, MOST - LEAST + 1)
    weight, values = drawn[taken:].reshape(made.weight.shape), drawn[:taken]
    weight[:, BELOW // (kernel**2 * MOST**2) :] = 0
    sums = np.einsum("oikl,i->o", weight, values)
    assert sums.min() > BEYOND and sums.max() < BELOW
    conv = Conv(
        step=dataclasses.replace(step, residual=None, relu=True),
        weight=weight.astype(np.int8),
        bias=-(sums.astype(np.float32) - np.float32(ANSWER)),
        ratio=None,
        multiplier=np.ones(out, np.float32),
    )
    rows, columns = _range(made, 1), _range(made, 2)
    return Witness(conv=conv, values=values.astype(np.int8), rows=slice(*rows), columns=slice(*columns))


def _products(made: Conv) -> int:
    return int(np.prod(made.weight.shape[1:]))


def _deep(made: Conv) -> bool:
    return _products(made) * LEAST**2 > BEYOND


def _whole(made: Conv) -> bool:
    return all(first < end for first, end in (_range(made, 1), _range(made, 2)))


def _range(made: Conv, axis: int) -> tuple[int, int]:
    """First output whose window is whole along an axis of the shapes, and the one after the last."""
    node, extent = made.step.conv, made.step.in_shape[axis]
    first = -(-node.padding // node.stride)
    return first, (extent + node.padding - node.kernel) // node.stride + 1
