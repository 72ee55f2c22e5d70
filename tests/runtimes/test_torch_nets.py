"""Nets built from declared layers: names, sizes, initial weights, and one known answer."""

from __future__ import annotations

import numpy as np
import pytest

from breakeven.workloads.costs import parameter_count
from breakeven.workloads.layers import Model
from breakeven.workloads.models import MODELS, model
from breakeven.workloads.order import epoch_order
from breakeven.workloads.vit import vit
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
    if name in ("simple-cnn", "simple-cnn-w0.25", "resnet18", "resnet50", "vit-tiny"):
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


def test_a_transformer_block_is_torchs_own() -> None:
    """Against torch's encoder layer with the same weights, in FP64: other code for the same formula."""
    import torch

    from breakeven.runtimes.torch import nets

    declared = model("vit-tiny")
    net = nets.build(declared, initial_weights(declared, 0)).double()
    theirs = torch.nn.TransformerEncoderLayer(
        192, 3, 768, dropout=0.0, activation="gelu", batch_first=True, norm_first=True, layer_norm_eps=1e-6
    ).double()
    names = {
        "self_attn.in_proj_": "attn.qkv.",
        "self_attn.out_proj.": "attn.proj.",
        "linear1.": "mlp.fc1.",
        "linear2.": "mlp.fc2.",
        "norm1.": "norm1.",
        "norm2.": "norm2.",
    }
    state = net.get_submodule("blocks.4").state_dict()
    theirs.load_state_dict(
        {their + part: state[our + part] for their, our in names.items() for part in ("weight", "bias")}
    )
    x = torch.randn(2, 65, 192, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    blocks = [net.get_submodule(f"blocks.4.{part}") for part in ("attn", "mlp")]
    with torch.no_grad():
        ours = blocks[1](blocks[0](x))
        assert (ours - x).abs().max() > 0.1
        torch.testing.assert_close(ours, theirs(x), rtol=1e-12, atol=1e-12)


def test_tokens_are_the_pixels_row_by_row_after_the_class_token() -> None:
    import torch

    from breakeven.runtimes.torch.tokens import ClassToken, Tokens

    tokens = Tokens(2, 6)
    with torch.no_grad():
        tokens.cls_token.fill_(0.5)
        tokens.pos_embed.copy_(torch.arange(7.0)[None, :, None].expand(1, 7, 2) * 100)
        images = torch.arange(24.0).reshape(2, 2, 2, 3)
        made = tokens(images)
    assert made.shape == (2, 7, 2)
    assert made[1, :, 0].tolist() == [0.5, 112, 213, 314, 415, 516, 617]
    assert made[0, :, 1].tolist() == [0.5, 106, 207, 308, 409, 510, 611]
    assert torch.equal(ClassToken()(made), made[:, 0])


def test_a_small_vit_learns_the_digits() -> None:
    """Two blocks of width 32 over 16 patches: from chance (2.3) to well below it in two epochs."""
    import torch

    from breakeven.runtimes.torch import nets
    from breakeven.runtimes.torch.training import forward
    from breakeven.workloads import data

    nodes = vit(10, (3, 32, 32), width=32, heads=2, depth=2, patch=8)
    declared = Model(name="small", num_classes=10, input_shape=(3, 32, 32), nodes=nodes)
    net = nets.build(declared, initial_weights(declared, 0)).train()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    split = data.load("digits", "train")
    images, labels = torch.from_numpy(split.images / np.float32(127.5) - 1), torch.from_numpy(split.labels)
    losses = []
    for epoch in range(2):
        for chosen in torch.from_numpy(epoch_order(0, epoch, len(labels))).split(32):
            loss, _ = forward(net, images[chosen], labels[chosen], precision="default")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert abs(losses[0] - np.log(10)) < 0.5
    assert np.mean(losses[-20:]) < 0.9 * np.log(10)
