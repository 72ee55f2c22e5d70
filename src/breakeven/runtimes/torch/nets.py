"""Declared models as torch modules whose state-dict names are the declared ones.

Knows nothing about data, devices, precision or training.
"""

from collections.abc import Iterable

import torch
from torch import nn

from breakeven.runtimes.torch import images, tokens
from breakeven.workloads import layers
from breakeven.workloads.weights import Weights


class Net(nn.Module):
    """Runs its nodes one after the other. Modules are registered under their declared, dotted names."""

    def __init__(self, model: layers.Model) -> None:
        super().__init__()
        # A tuple of modules is no registration: the names come from `_register` alone.
        self.steps = _modules(self, model.nodes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in self.steps:
            x = step(x)
        return x


class Sum(nn.Module):
    """main(x) + shortcut(x), a new tensor as in the ViTs people write: under autocast of the wider type."""

    def __init__(self) -> None:
        super().__init__()
        self.main: tuple[nn.Module, ...] = ()
        self.shortcut: tuple[nn.Module, ...] = ()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.add(*self.branches(x))

    def branches(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shortcut = x
        for step in self.main:
            x = step(x)
        for step in self.shortcut:
            shortcut = step(shortcut)
        return x, shortcut


class Block(Sum):
    """relu(main(x) + shortcut(x)), added in place as torchvision's blocks do."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, shortcut = self.branches(x)
        x += shortcut
        return self.relu(x)


def build(model: layers.Model, weights: Weights) -> Net:
    """The net on the CPU in FP32 with `weights` copied in.

    Built on `meta` first: torch's own initialisation would cost time and draw from the global generator.
    """
    with torch.device("meta"):
        net = Net(model)
    net.to_empty(device="cpu")
    load_weights(net, weights)
    return net


def load_weights(net: nn.Module, weights: Weights) -> None:
    """Copies a declared state dict in, and sets BatchNorm's step counters, which are not declared, to 0."""
    state = {name: torch.from_numpy(array.copy()) for name, array in weights.items()}
    for name, value in net.state_dict().items():
        if name.endswith(".num_batches_tracked"):
            state[name] = torch.zeros_like(value)
    net.load_state_dict(state, strict=True)


def declared_state(net: nn.Module) -> list[str]:
    """State-dict names without BatchNorm's step counters: what `initial_weights` has to name."""
    return [name for name in net.state_dict() if not name.endswith(".num_batches_tracked")]


def parameter_count(net: nn.Module) -> int:
    """Numbers that are trained. A shared parameter counts once, as `parameters()` lists it once."""
    return sum(p.numel() for p in net.parameters() if p.requires_grad)


def _modules(root: nn.Module, nodes: Iterable[layers.Node]) -> tuple[nn.Module, ...]:
    return tuple(_module(root, node) for node in nodes)


def _module(root: nn.Module, node: layers.Node) -> nn.Module:
    if isinstance(node, layers.Residual):
        # Registered before its parts, so that they become its children: layer1.0.conv1 inside layer1.0.
        block = Block() if node.relu else Sum()
        _register(root, node.name, block)
        block.main, block.shortcut = _modules(root, node.main), _modules(root, node.shortcut)
        return block
    leaf = _leaf(node)
    _register(root, node.name, leaf)
    return leaf


def _leaf(node: layers.Leaf) -> nn.Module:
    match node:
        case layers.LayerNorm() | layers.GELU() | layers.Tokens() | layers.Attention() | layers.ClassToken():
            return tokens.leaf(node)
        case (
            layers.Subsample()
            | layers.ConvTranspose2d()
            | layers.InstanceNorm2d()
            | layers.ReflectionPad2d()
            | layers.LeakyReLU()
            | layers.Tanh()
        ):
            return images.leaf(node)
        case _:
            return _plain(node)


def _plain(node: layers.PlainLeaf) -> nn.Module:
    match node:
        case layers.Conv2d():
            return nn.Conv2d(
                node.in_channels,
                node.out_channels,
                node.kernel,
                node.stride,
                node.padding,
                groups=node.groups,
                bias=node.bias,
            )
        case layers.BatchNorm2d():
            return nn.BatchNorm2d(node.channels, eps=node.eps, momentum=node.momentum)
        case layers.Linear():
            return nn.Linear(node.in_features, node.out_features, bias=node.bias)
        case layers.ReLU():
            # In place, as torchvision's: no layer before a ReLU keeps its output for the backward pass.
            return nn.ReLU(inplace=True)
        case layers.ReLU6():
            return nn.ReLU6(inplace=True)
        case layers.MaxPool2d():
            return nn.MaxPool2d(node.kernel, node.stride, node.padding)
        case layers.AdaptiveAvgPool2d():
            return nn.AdaptiveAvgPool2d(1)
        case layers.Flatten():
            return nn.Flatten()
        case _:
            return nn.Dropout(node.p)


def _register(root: nn.Module, name: str, module: nn.Module) -> None:
    """Puts `module` at a dotted path below `root`, making the plain containers on the way."""
    *path, last = name.split(".")
    parent = root
    for part in path:
        if part not in dict(parent.named_children()):
            parent.add_module(part, nn.Module())
        parent = parent.get_submodule(part)
    parent.add_module(last, module)
