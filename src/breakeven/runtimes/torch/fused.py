"""A convolutional net with batch norms folded, and sums and ReLUs done by the convolutions of cuDNN.

Knows nothing about cases, captured graphs or time. Between two convolutions no kernel reads or writes a map:
what a compiler makes a kernel of its own, which loads and stores all of it, is here the end of the kernel
that made it. torch's operators for it (`cudnn_convolution_relu`, `..._add_relu`) need a CUDA device.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from breakeven.errors import Unsupported, UserError
from breakeven.runtimes.torch import integer
from breakeven.workloads import fused
from breakeven.workloads.fused import IMAGES
from breakeven.workloads.layers import Model
from breakeven.workloads.weights import Weights

Convolved = Callable[
    [fused.Conv, torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None], torch.Tensor
]
"""relu(conv(x) + bias + added), the parts that the step has, of (step, x, weight, bias, added)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fused:
    """The net of `net`: images [n, c, h, w] -> scores [n, classes], in the type of its weights.

    `weights` and `biases` by step, `head` those of the linear layers after the last map. Who convolves is
    handed in.
    """

    net: fused.Fused
    weights: Mapping[str, torch.Tensor]
    biases: Mapping[str, torch.Tensor | None]
    head: Mapping[str, torch.Tensor]
    convolved: Convolved

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        kept, last = {IMAGES: images}, images
        for step, done in zip(self.net.steps, integer.last_uses(self.net), strict=True):
            last = kept[step.name] = self._made(step, kept)
            for name in done:
                del kept[name]
        for node in self.net.head:
            last = integer.headed(node, self.head, last)
        return last

    def held(self) -> nn.Module:
        """The same weights as parameters of a module: what is on the device."""
        biases = [bias for bias in self.biases.values() if bias is not None]
        return holding([*self.weights.values(), *biases, *self.head.values()])

    def _made(self, step: fused.Step, kept: Mapping[str, torch.Tensor]) -> torch.Tensor:
        x = kept[step.source]
        if isinstance(step, fused.Pool):
            pool = step.pool
            return functional.max_pool2d(x, pool.kernel, pool.stride, pool.padding)
        added = None if step.residual is None else kept[step.residual]
        return self.convolved(step, x, self.weights[step.name], self.biases[step.name], added)


def holding(tensors: Sequence[torch.Tensor]) -> nn.Module:
    """A module whose parameters are these very tensors."""
    return nn.ParameterList([nn.Parameter(tensor, requires_grad=False) for tensor in tensors])


def convolved(
    step: fused.Conv,
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    added: torch.Tensor | None,
) -> torch.Tensor:
    """As few kernels as cuDNN needs."""
    stride, padding = [step.conv.stride] * 2, [step.conv.padding] * 2
    if step.relu and added is not None:
        return torch.cudnn_convolution_add_relu(x, weight, added, 1.0, bias, stride, padding, [1, 1], 1)
    if step.relu:
        return torch.cudnn_convolution_relu(x, weight, bias, stride, padding, [1, 1], 1)
    made = functional.conv2d(x, weight, bias, stride=stride, padding=padding)
    return made if added is None else made + added


def fused_net(
    model: Model, weights: Weights, device: torch.device, dtype: torch.dtype, layout: torch.memory_format
) -> Fused:
    """The net on `device`. Raises Unsupported elsewhere than on CUDA, and for a net that no step covers."""
    if device.type != "cuda":
        raise Unsupported("fused convolutions are cuDNN's: they need a CUDA device")
    return net_of(model, weights, device, dtype, layout, convolved)


def net_of(
    model: Model,
    weights: Weights,
    device: torch.device,
    dtype: torch.dtype,
    layout: torch.memory_format,
    convolved: Convolved,
) -> Fused:
    """The net with another who convolves. Raises Unsupported for a net that no step covers."""
    try:
        net = fused.fused(model)
    except UserError as error:
        raise Unsupported(f"fused convolutions: {error}") from error
    own = {step.name: fused.parameters(step, weights) for step in net.steps if isinstance(step, fused.Conv)}
    return Fused(
        net=net,
        weights={
            name: torch.from_numpy(weight).to(device, dtype).contiguous(memory_format=layout)
            for name, (weight, _) in own.items()
        },
        biases={
            name: None if bias is None else torch.from_numpy(bias).to(device, dtype)
            for name, bias in moved_biases(net, {name: bias for name, (_, bias) in own.items()}).items()
        },
        head={name: tensor.to(dtype) for name, tensor in integer.head(net, weights, device).items()},
        convolved=convolved,
    )


def moved_biases(net: fused.Fused, biases: Mapping[str, fused.Array]) -> dict[str, fused.Array | None]:
    """The biases [out] by step, that of a convolution which is only added to another moved into the other's.

    A convolution without a ReLU has no fused form, and its bias would be a kernel that loads and stores the
    whole map: a ninth of a call of ResNet50.
    """
    made: dict[str, fused.Array | None] = dict(biases)
    convolutions = {step.name: step for step in net.steps if isinstance(step, fused.Conv)}
    for step in convolutions.values():
        shortcut = convolutions.get(step.residual or "")
        if shortcut is None or shortcut.relu or fused.readers(net, shortcut.name) != 1:
            continue
        mine, moved = made[step.name], made[shortcut.name]  # a shortcut may be a sum, with what it was given
        assert mine is not None and moved is not None
        made[step.name] = mine + moved
        made[shortcut.name] = None
    return made
