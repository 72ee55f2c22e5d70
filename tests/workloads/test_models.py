"""Declared models: parameter counts against published ones, costs against torch's own FLOP counter."""

from __future__ import annotations

from typing import Any

import pytest

from breakeven.errors import UserError
from breakeven.workloads import layers
from breakeven.workloads.layers import Residual, layer_costs, leaves, parameter_count, training_flops
from breakeven.workloads.models import MODELS, describe, model

# 1000 classes: torchvision's documentation of each model ("num_params").
PARAMETERS = {
    "simple-cnn": (488_586, 679_656),
    "resnet18": (11_181_642, 11_689_512),
    "resnet34": (21_289_802, 21_797_672),
    "resnet50": (23_528_522, 25_557_032),
    "resnet101": (42_520_650, 44_549_160),
    "resnet152": (58_164_298, 60_192_808),
    "resnet18-cifar": (11_173_962, 11_681_832),
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_counts_are_the_published_ones(name: str) -> None:
    counts = tuple(parameter_count(model(name, num_classes=classes)) for classes in (10, 1000))
    assert counts == PARAMETERS[name]


@pytest.mark.parametrize("name", MODELS)
def test_each_name_is_used_once(name: str) -> None:
    names = [leaf.name for leaf in leaves(model(name).nodes)]
    assert len(names) == len(set(names))


def test_torchvision_names() -> None:
    names = {leaf.name for leaf in leaves(model("resnet50").nodes)}
    assert {"conv1", "bn1", "layer1.0.downsample.0", "layer1.0.downsample.1", "layer4.2.conv3", "fc"} <= names
    assert "layer1.1.downsample.0" not in names


def test_bottleneck_strides_in_its_3x3() -> None:
    strided = [leaf.name for leaf in leaves(model("resnet50").nodes) if getattr(leaf, "stride", 1) == 2]
    assert [name for name in strided if name.startswith("layer2")] == [
        "layer2.0.conv2",
        "layer2.0.downsample.0",
    ]


def test_forward_flops_at_224_match_torchvision() -> None:
    """torchvision's documentation counts multiply-accumulates ("GFLOPS"): 1.81, 3.66, 4.09, 7.80, 11.51."""
    gmacs = {f.name: f.forward_flops_224 / 2e9 for f in describe() if f.forward_flops_224}
    assert gmacs == pytest.approx(
        {"resnet18": 1.81, "resnet34": 3.66, "resnet50": 4.09, "resnet101": 7.80, "resnet152": 11.51},
        abs=0.006,
    )


def test_costs_of_the_small_net_by_hand() -> None:
    costs = {cost.name: cost for cost in layer_costs(model("simple-cnn"), dtype_bytes=2)}
    first, second, linear = costs["features.0"], costs["features.3"], costs["classifier.0"]
    assert first.flops == 2 * 32 * 32 * 32 * 3 * 9
    assert (first.input_grad_flops, first.weight_grad_flops) == (0, first.flops)
    assert (second.input_grad_flops, second.weight_grad_flops) == (second.flops, second.flops)
    assert (first.bytes_read, first.bytes_written) == (3 * 32 * 32 * 2, 32 * 32 * 32 * 2)
    assert first.weight_bytes == (32 * 27 + 32) * 2
    assert (linear.in_shape, linear.out_shape, linear.flops) == ((2048,), (192,), 2 * 2048 * 192)
    assert costs["features.1"].flops == 0
    assert costs["features.1"].bytes_read == costs["features.1"].bytes_written == 32 * 32 * 32 * 2


def test_bytes_scale_with_type_and_batch_but_weights_are_read_once() -> None:
    net = model("resnet18")
    assert layers.forward_bytes(net, 3, 4) == 2 * layers.forward_bytes(net, 3, 2)
    weights = parameter_count(net) * 4
    assert layers.forward_bytes(net, 7) - weights == 7 * (layers.forward_bytes(net) - weights)
    assert layers.training_bytes(net, 7) > 2 * layers.forward_bytes(net, 7)


def test_residual_costs_name_their_sum_and_relu() -> None:
    names = [cost.name for cost in layer_costs(model("resnet18"))]
    assert names.index("layer1.0.bn2") + 1 == names.index("layer1.0.add")
    assert names.index("layer1.0.add") + 1 == names.index("layer1.0.relu")
    assert len(names) == len(set(names))


def test_unknown_model_names_the_nearest() -> None:
    with pytest.raises(UserError, match="resnet50"):
        model("resnet5")


@pytest.mark.parametrize("name", ["simple-cnn"])
def test_too_small_input_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="too small"):
        model(name, input_shape=(3, 4, 4))


def test_no_class_is_refused() -> None:
    with pytest.raises(UserError, match="at least one class"):
        model("resnet18", num_classes=0)


def test_a_layer_refuses_other_channels() -> None:
    with pytest.raises(UserError, match="conv1"):
        layers.out_shape(layers.Conv2d(name="conv1", in_channels=3, out_channels=8, kernel=3), (4, 8, 8))


@pytest.mark.framework
@pytest.mark.parametrize("name", ["simple-cnn", "resnet18", "resnet18-cifar", "resnet50"])
def test_flops_equal_torchs_counter(name: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    declared, batch = model(name), 2
    with torch.device("meta"):  # shapes only: no arithmetic, no memory
        net = torch_net(torch, declared.nodes)
        images = torch.empty(batch, *declared.input_shape)
        assert sum(p.numel() for p in net.parameters()) == parameter_count(declared)
        with FlopCounterMode(display=False) as forward:
            scores = net(images)
        with FlopCounterMode(display=False) as backward:
            scores.sum().backward()
    assert scores.shape == (batch, 10)
    assert forward.get_total_flops() == batch * layers.forward_flops(declared)
    total = forward.get_total_flops() + backward.get_total_flops()
    assert total == training_flops(declared, batch)


def torch_net(torch: Any, nodes: tuple[layers.Node, ...]) -> Any:
    """The declared nodes as a torch module: the shortest builder that proves the declaration complete."""
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self, node: Residual) -> None:
            super().__init__()
            self.main, self.shortcut = torch_net(torch, node.main), torch_net(torch, node.shortcut)

        def forward(self, x: Any) -> Any:
            return torch.relu(self.main(x) + self.shortcut(x))

    def build(node: layers.Node) -> Any:
        match node:
            case layers.Conv2d():
                return nn.Conv2d(
                    node.in_channels,
                    node.out_channels,
                    node.kernel,
                    node.stride,
                    node.padding,
                    bias=node.bias,
                )
            case layers.BatchNorm2d():
                return nn.BatchNorm2d(node.channels, node.eps, node.momentum)
            case layers.Linear():
                return nn.Linear(node.in_features, node.out_features, bias=node.bias)
            case layers.MaxPool2d():
                return nn.MaxPool2d(node.kernel, node.stride, node.padding)
            case layers.AdaptiveAvgPool2d():
                return nn.AdaptiveAvgPool2d(1)
            case layers.Residual():
                return Block(node)
            case _:
                return {"ReLU": nn.ReLU, "Flatten": nn.Flatten}[type(node).__name__]()

    return nn.Sequential(*map(build, nodes))
