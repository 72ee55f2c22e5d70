"""Nets built from declared layers: names, sizes, initial weights, and one known answer."""

from __future__ import annotations

import numpy as np
import pytest

from breakeven.workloads.layers import parameter_count
from breakeven.workloads.models import MODELS, model
from breakeven.workloads.weights import initial_weights

pytestmark = pytest.mark.framework


@pytest.mark.parametrize("name", MODELS)
def test_names_and_parameters_are_those_declared(name: str) -> None:
    import torch

    from breakeven.runtimes.torch import nets

    declared = model(name)
    with torch.device("meta"):
        net = nets.Net(declared)
    assert nets.parameter_count(net) == parameter_count(declared)
    if name in ("simple-cnn", "resnet18", "resnet50"):
        assert set(nets.declared_state(net)) == set(initial_weights(declared, 0))


def test_resnet_names_are_torchvisions() -> None:
    from breakeven.runtimes.torch import nets

    declared = model("resnet18")
    state = nets.build(declared, initial_weights(declared, 0)).state_dict()
    assert {"conv1.weight", "bn1.running_var", "layer2.0.downsample.1.bias", "fc.weight"} <= set(state)
    assert state["layer4.1.bn2.num_batches_tracked"] == 0
    assert len(state) == 122  # torchvision.models.resnet18().state_dict()


def test_initial_weights_are_copied_in_and_draw_nothing() -> None:
    import torch

    from breakeven.runtimes.torch import nets

    declared = model("simple-cnn")
    first = initial_weights(declared, 3)
    before = torch.get_rng_state()
    net = nets.build(declared, first)
    assert torch.equal(torch.get_rng_state(), before)
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), first[name])
    with torch.no_grad():
        net.get_parameter("features.0.weight").zero_()
    assert first["features.0.weight"].any()  # a copy: training can't change what `hashes` was made of


def test_a_residual_block_adds_its_shortcut() -> None:
    import torch

    from breakeven.runtimes.torch import nets

    declared = model("resnet18")
    net = nets.build(declared, initial_weights(declared, 0)).eval()
    block = net.get_submodule("layer1.0")
    with torch.no_grad():
        net.get_parameter("layer1.0.bn2.weight").zero_()
        x = torch.randn(2, 64, 8, 8)
        assert torch.equal(block(x.clone()), x.relu())
