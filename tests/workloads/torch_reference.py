"""Declared nodes as torch modules, in the shortest way: proves that a declaration is complete.

Attention is written out, so that torch's counter sees its products whatever kernels a release has.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from breakeven.workloads import layers


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self, node: layers.Residual) -> None:
        super().__init__()
        self.main, self.shortcut = sequential(node.main), sequential(node.shortcut)
        self.end = torch.relu if node.relu else nn.Identity()

    def forward(self, x: Any) -> Any:
        return self.end(self.main(x) + self.shortcut(x))


class Tokens(nn.Module):  # type: ignore[misc]
    def __init__(self, node: layers.Tokens) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.zeros(1, 1, node.channels))
        self.where = nn.Parameter(torch.zeros(1, 1 + node.pixels, node.channels))

    def forward(self, x: Any) -> Any:
        pixels = x.reshape(*x.shape[:2], -1).mT
        return torch.cat([self.first.repeat(len(x), 1, 1), pixels], 1) + self.where


class Attention(nn.Module):  # type: ignore[misc]
    def __init__(self, node: layers.Attention) -> None:
        super().__init__()
        self.heads = node.heads

    def forward(self, x: Any) -> Any:
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in x.tensor_split(3, dim=2))
        scores = (q @ k.mT) / q.shape[3] ** 0.5
        return (scores.softmax(3) @ v).transpose(1, 2).flatten(2)


class ClassToken(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x[:, 0]


class Subsample(nn.Module):  # type: ignore[misc]
    def __init__(self, node: layers.Subsample) -> None:
        super().__init__()
        self.stride, self.more = node.stride, node.out_channels - node.in_channels

    def forward(self, x: Any) -> Any:
        x = x[..., :: self.stride, :: self.stride]
        zeros = torch.zeros_like(x[:, :1]).expand(-1, self.more // 2, -1, -1)
        return torch.cat([zeros, x, zeros], 1)


BUILD: dict[type, Any] = {
    layers.Conv2d: lambda node: nn.Conv2d(
        node.in_channels,
        node.out_channels,
        node.kernel,
        node.stride,
        node.padding,
        groups=node.groups,
        bias=node.bias,
    ),
    layers.BatchNorm2d: lambda node: nn.BatchNorm2d(node.channels, node.eps, node.momentum),
    layers.Linear: lambda node: nn.Linear(node.in_features, node.out_features, bias=node.bias),
    layers.ReLU: lambda node: nn.ReLU(),
    layers.ReLU6: lambda node: nn.ReLU6(),
    layers.MaxPool2d: lambda node: nn.MaxPool2d(node.kernel, node.stride, node.padding),
    layers.AdaptiveAvgPool2d: lambda node: nn.AdaptiveAvgPool2d(1),
    layers.Flatten: lambda node: nn.Flatten(),
    layers.LayerNorm: lambda node: nn.LayerNorm(node.features, node.eps),
    layers.GELU: lambda node: nn.GELU(),
    layers.Tokens: Tokens,
    layers.Attention: Attention,
    layers.ClassToken: lambda node: ClassToken(),
    layers.Subsample: Subsample,
    layers.ConvTranspose2d: lambda node: nn.ConvTranspose2d(
        node.in_channels,
        node.out_channels,
        node.kernel,
        node.stride,
        node.padding,
        node.output_padding,
        bias=node.bias,
    ),
    layers.InstanceNorm2d: lambda node: nn.InstanceNorm2d(node.channels, node.eps),
    layers.ReflectionPad2d: lambda node: nn.ReflectionPad2d(node.padding),
    layers.LeakyReLU: lambda node: nn.LeakyReLU(node.slope),
    layers.Tanh: lambda node: nn.Tanh(),
    layers.Residual: Block,
}


def sequential(nodes: tuple[layers.Node, ...]) -> Any:
    return nn.Sequential(*(BUILD[type(node)](node) for node in nodes))
