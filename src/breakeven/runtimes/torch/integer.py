"""A net of fused steps in int8, step by step: who convolves is handed in, all else is the same everywhere.

Knows nothing about cases, time or cuDNN. `exact` convolves on the CPU in FP64, in which sums of products of
int8 are exact: slow, and what a GPU's integers are held to, bit for bit.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from breakeven.workloads import fused, int8, layers
from breakeven.workloads.fused import IMAGES, Fused
from breakeven.workloads.int8 import Plan
from breakeven.workloads.weights import Weights

Convolve = Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor]
"""(values int8 [n, in, h, w], residual int8 of the output's shape or None) -> int8 [n, out, h', w']."""

LOW, HIGH = -128, 127

LAST = torch.channels_last


@dataclass(frozen=True, kw_only=True, slots=True)
class Integer:
    """The net of `plan`: images float32 [n, c, h, w] -> scores float32 [n, classes].

    `convolve` by step, `head` the weights of the linear layers after the last map: all on the images' device.
    """

    plan: Plan
    convolve: Mapping[str, Convolve]
    head: Mapping[str, torch.Tensor]

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        last = images
        for _, value in self.values(images):
            last = value
        return self.scores(last)

    def values(self, images: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
        """(name, int8 value) of the quantised images, then of each step.

        A value that no later step reads is let go at once: a captured net keeps a few maps, not all of them.
        """
        kept = {IMAGES: quantised(images, self.plan)}
        yield IMAGES, kept[IMAGES]
        for step, done in zip(self.plan.net.steps, last_uses(self.plan.net), strict=True):
            if isinstance(step, fused.Pool):
                made = pooled(kept[step.source], step.pool)
            else:
                added = None if step.residual is None else kept[step.residual]
                made = self.convolve[step.name](kept[step.source], added)
            kept[step.name] = made
            for name in done:
                del kept[name]
            yield step.name, made

    def scores(self, value: torch.Tensor) -> torch.Tensor:
        """The head, in FP32, on the last int8 value."""
        net = self.plan.net
        scale = self.plan.scales[net.last]
        own = value[:, : net.steps[-1].out_shape[0]]
        head = list(net.head)
        if head and isinstance(head[0], layers.AdaptiveAvgPool2d):
            # Of integers, which FP32 adds up exactly in any order.
            x = own.sum((2, 3), keepdim=True, dtype=torch.float32) * (scale / own[0, 0].numel())
            del head[0]
        else:
            x = own.float() * scale
        for node in head:
            x = headed(node, self.head, x)
        return x


def last_uses(net: Fused) -> list[list[str]]:
    """For each step the values that it is the last to read. The net's own last value is the head's."""
    last: dict[str, int] = {}
    for index, step in enumerate(net.steps):
        last[step.source] = index
        if isinstance(step, fused.Conv) and step.residual is not None:
            last[step.residual] = index
    return [[name for name, at in last.items() if at == index] for index in range(len(net.steps))]


def quantised(images: torch.Tensor, plan: Plan) -> torch.Tensor:
    """int8 [n, plan.channels, h, w], channels last; channels that padding added are 0."""
    n, channels, height, width = images.shape
    # One rounding: a product with the reciprocal, on every device.
    inverse = float(np.float32(1 / plan.scales[IMAGES]))
    values = (images * inverse).round_().clamp_(LOW, HIGH)
    shape = (n, plan.channels, height, width)
    made = torch.empty(shape, dtype=torch.int8, device=images.device, memory_format=LAST).zero_()
    made[:, :channels].copy_(values)
    return made


def pooled(value: torch.Tensor, node: layers.MaxPool2d) -> torch.Tensor:
    """Max-pooling of int8; in FP16, which holds every int8, as CUDA has no kernel for int8."""
    made: torch.Tensor = functional.max_pool2d(value.half(), node.kernel, node.stride, node.padding)
    return made.to(torch.int8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Finish:
    """What follows the sums of a convolution, as separate operations in float32: tensors [out, 1, 1]."""

    bias: torch.Tensor
    ratio: torch.Tensor | None
    multiplier: torch.Tensor
    relu: bool

    def __call__(self, sums: torch.Tensor, residual: torch.Tensor | None) -> torch.Tensor:
        """int8 of exact sums [n, out, h, w] in int32, or in a float type that holds them."""
        x = sums.float() + self.bias
        if self.ratio is not None and residual is not None:
            x = x + residual.float() * self.ratio
        x = x * self.multiplier
        if self.relu:
            x = x.relu()
        return x.round().clamp(LOW, HIGH).to(torch.int8)


def finish(made: int8.Conv, device: torch.device | None = None) -> Finish:
    def column(values: NDArray[np.float32]) -> torch.Tensor:
        return torch.from_numpy(values.copy()).to(device).view(-1, 1, 1)

    return Finish(
        bias=column(made.bias),
        ratio=None if made.ratio is None else column(made.ratio),
        multiplier=column(made.multiplier),
        relu=made.step.relu,
    )


def exact(made: int8.Conv) -> Convolve:
    """The step on the CPU, exactly."""
    weight, after, node = torch.from_numpy(made.weight).double(), finish(made), made.step.conv

    def convolve(values: torch.Tensor, residual: torch.Tensor | None) -> torch.Tensor:
        sums = functional.conv2d(values.double(), weight, stride=node.stride, padding=node.padding)
        return after(sums, residual).contiguous(memory_format=LAST)

    return convolve


def on_cpu(plan: Plan, weights: Weights) -> Integer:
    """The net with exact steps."""
    steps = {made.step.name: exact(made) for made in plan.steps if isinstance(made, int8.Conv)}
    return Integer(plan=plan, convolve=steps, head=head(plan.net, weights, torch.device("cpu")))


def head(net: Fused, weights: Weights, device: torch.device) -> dict[str, torch.Tensor]:
    """Weights and biases of the head's linear layers by their declared names, FP32."""
    return {
        f"{node.name}.{part}": torch.from_numpy(weights[f"{node.name}.{part}"].copy()).to(device)
        for node in net.head
        for part in layers.parameter_shapes(node)
    }


def reaches(
    net: Fused, weights: Weights, images: NDArray[np.float32], batch: int, device: torch.device
) -> dict[str, float]:
    """Greatest magnitude of every value over the images, by name, as the net in FP32 has them on `device`."""
    convolve = {
        step.name: _plain(step, weights, device) for step in net.steps if isinstance(step, fused.Conv)
    }
    found: dict[str, float] = {}
    with torch.inference_mode():
        for first in range(0, len(images), batch):
            kept = {IMAGES: torch.from_numpy(images[first : first + batch]).to(device, memory_format=LAST)}
            for step in net.steps:
                x = kept[step.source]
                if isinstance(step, fused.Pool):
                    pool = step.pool
                    kept[step.name] = functional.max_pool2d(x, pool.kernel, pool.stride, pool.padding)
                else:
                    added = None if step.residual is None else kept[step.residual]
                    kept[step.name] = convolve[step.name](x, added)
            for name, value in kept.items():
                found[name] = max(found.get(name, 0.0), float(value.abs().max()))
    return found


def _plain(step: fused.Conv, weights: Weights, device: torch.device) -> Convolve:
    """The step in FP32."""
    weight, bias = (torch.from_numpy(a).float().to(device) for a in fused.parameters(step, weights))
    weight = weight.contiguous(memory_format=LAST)

    def convolve(values: torch.Tensor, residual: torch.Tensor | None) -> torch.Tensor:
        x: torch.Tensor = functional.conv2d(
            values, weight, bias, stride=step.conv.stride, padding=step.conv.padding
        )
        if residual is not None:
            x = x + residual
        return x.relu() if step.relu else x

    return convolve


def headed(node: layers.Leaf, own: Mapping[str, torch.Tensor], x: torch.Tensor) -> torch.Tensor:
    match node:
        case layers.AdaptiveAvgPool2d():
            return x.mean((2, 3), keepdim=True)
        case layers.Flatten():
            return x.flatten(1)
        case layers.Linear():
            return functional.linear(x, own[f"{node.name}.weight"], own.get(f"{node.name}.bias"))
        case layers.ReLU():
            return x.relu()
        case _:  # dropout
            return x
