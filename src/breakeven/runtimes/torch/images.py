"""The layers of nets that make images, and the shortcut without parameters, as torch modules.

Knows nothing about how they are put together.
"""

import torch
from torch import nn
from torch.nn import functional

from breakeven.workloads import layers


def leaf(node: layers.ImageLeaf) -> nn.Module:
    """The module of a declared layer."""
    match node:
        case layers.Subsample():
            return Subsample(node.out_channels - node.in_channels, node.stride)
        case layers.ConvTranspose2d():
            return nn.ConvTranspose2d(
                node.in_channels,
                node.out_channels,
                node.kernel,
                node.stride,
                node.padding,
                node.output_padding,
                bias=node.bias,
            )
        case layers.InstanceNorm2d():
            return InstanceNorm(node.channels, eps=node.eps)
        case layers.ReflectionPad2d():
            return nn.ReflectionPad2d(node.padding)
        case layers.LeakyReLU():
            return nn.LeakyReLU(node.slope, inplace=True)
        case layers.Tanh():
            return nn.Tanh()


class InstanceNorm(nn.InstanceNorm2d):
    """torch's own. Its backward pass wants a gradient in channels-first: of one image in the other it makes
    another gradient altogether, without a word (torch 2.13 on CPUs, off by 1.4 times its size)."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = super().forward(x)
        # What is compiled has a backward pass of its own.
        if y.requires_grad and not x.is_contiguous() and not torch.compiler.is_compiling():
            y.register_hook(torch.Tensor.contiguous)
        return y


class Subsample(nn.Module):
    """[n, c, h, w] -> [n, c + more, h / stride, w / stride]: zeros before and after the channels."""

    def __init__(self, more: int, stride: int) -> None:
        super().__init__()
        self.more, self.stride = more, stride

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = x[:, :, :: self.stride, :: self.stride]
        return functional.pad(kept, (0, 0, 0, 0, self.more // 2, self.more - self.more // 2))
