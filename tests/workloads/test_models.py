"""Declared models: parameter counts against published ones, costs against torch's own FLOP counter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from breakeven import cli
from breakeven.errors import UserError
from breakeven.workloads import costs, layers
from breakeven.workloads.costs import layer_costs, parameter_count, training_flops
from breakeven.workloads.layers import leaves
from breakeven.workloads.models import MODELS, describe, model, simple_cnn
from breakeven.workloads.vit import vit

# 1000 classes: torchvision's documentation of each ResNet ("num_params").
PARAMETERS = {
    "simple-cnn": (488_586, 679_656),
    "conv6-seed": (374_282, 628_712),
    "vgg16": (33_638_218, 37_694_248),
    "resnet18": (11_181_642, 11_689_512),
    "resnet34": (21_289_802, 21_797_672),
    "resnet50": (23_528_522, 25_557_032),
    "resnet101": (42_520_650, 44_549_160),
    "resnet152": (58_164_298, 60_192_808),
    "resnet18-cifar": (11_173_962, 11_681_832),
    "mobilenetv2": (2_236_682, 3_504_872),
}
# 224x224, patch 16, 1000 classes: timm's and torchvision's (vit_b_16) documentation.
VIT_PARAMETERS = {(192, 3): 5_717_416, (384, 6): 22_050_664, (768, 12): 86_567_656}
IMAGE = (3, 32, 32)
WIDTHS = {"simple-cnn-w0.25": 8, "simple-cnn-w0.5": 16, "simple-cnn": 32} | {
    f"simple-cnn-w{times}": 32 * times for times in (2, 4, 8)
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_counts_are_the_published_ones(name: str) -> None:
    counts = tuple(parameter_count(model(name, num_classes=classes)) for classes in (10, 1000))
    assert counts == PARAMETERS[name]


def test_both_nets_called_conv6_have_their_papers_parameters() -> None:
    """arXiv:2603.20920, Table II: 397 K of 100 classes, 371 K of them in convolutions; arXiv:1803.03635,
    Figure 2: 2.3 M, 1.1 M of them in convolutions."""
    seed, six = model("conv6-seed", num_classes=100), model("conv6")
    assert (parameter_count(seed), in_convolutions(seed)) == (397_412, 370_816)
    assert (parameter_count(six), in_convolutions(six)) == (2_262_602, 1_145_408)
    kinds = [type(leaf) for leaf in leaves(six.nodes)]
    assert (kinds.count(layers.Conv2d), kinds.count(layers.MaxPool2d), kinds.count(layers.Linear)) == (
        6,
        3,
        3,
    )


def test_vgg16_has_torchvisions_parameters_and_names_at_224() -> None:
    shape = (3, 224, 224)
    large, ten = model("vgg16", num_classes=1000, input_shape=shape), model("vgg16", input_shape=shape)
    assert (parameter_count(large), parameter_count(ten)) == (138_357_544, 134_301_514)
    assert in_convolutions(large) == in_convolutions(model("vgg16")) == 14_714_688
    parts = [leaf.name for leaf in leaves(large.nodes) if layers.parameter_shapes(leaf)]
    convolutions = [0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28]
    assert parts == [f"features.{n}" for n in convolutions] + [f"classifier.{n}" for n in (0, 3, 6)]
    first = next(leaf for leaf in leaves(large.nodes) if leaf.name == "classifier.0")
    small = next(leaf for leaf in leaves(model("vgg16").nodes) if leaf.name == "classifier.0")
    assert (first.in_features, small.in_features) == (25_088, 512)  # type: ignore[union-attr]


def test_resnet20_has_its_papers_parameters() -> None:
    """He et al. 2016, Table 6: 0.27 M; the count is that of its shortcuts without parameters."""
    net = model("resnet20")
    assert parameter_count(net) == 269_722
    shortcuts = [leaf for leaf in leaves(net.nodes) if isinstance(leaf, layers.Subsample)]
    assert [(leaf.in_channels, leaf.out_channels, leaf.stride) for leaf in shortcuts] == [
        (16, 32, 2),
        (32, 64, 2),
    ]
    assert sum(isinstance(leaf, layers.Conv2d) for leaf in leaves(net.nodes)) == 19


def in_convolutions(net: layers.Model) -> int:
    return sum(cost.parameters for cost in layer_costs(net) if cost.kind == "Conv2d")


@pytest.mark.parametrize("size", VIT_PARAMETERS)
def test_vits_of_published_sizes_have_the_published_parameters(size: tuple[int, int]) -> None:
    shape = (3, 224, 224)
    nodes = vit(1000, shape, width=size[0], heads=size[1], patch=16)
    made = layers.Model(name="published", num_classes=1000, input_shape=shape, nodes=nodes)
    assert parameter_count(made) == VIT_PARAMETERS[size]


def test_the_vits_that_have_a_name() -> None:
    """Of width w: 12 blocks of 12 w^2 + 13 w, 49 w patches, 66 w tokens, 2 w norm, 10 w + 10 head."""
    for name, width in {"vit-tiny": 192, "vit-small": 384, "vit-base": 768}.items():
        assert parameter_count(model(name)) == 144 * width**2 + (156 + 49 + 66 + 2 + 10) * width + 10
        attention = [leaf for leaf in leaves(model(name).nodes) if isinstance(leaf, layers.Attention)]
        assert [leaf.heads for leaf in attention] == [width // 64] * 12


@given(st.integers(1, 400), st.integers(1, 1000))
def test_a_wider_net_grows_as_its_square(base: int, classes: int) -> None:
    """By hand from the layers' extents: all is square in the channels b, activations are linear."""
    nodes = simple_cnn(classes, IMAGE, base=base)
    made = layers.Model(name="net", num_classes=classes, input_shape=IMAGE, nodes=nodes)
    assert parameter_count(made) == 474 * base**2 + (40 + 6 * classes) * base + classes
    forward = 19_200 * base**2 + (55_296 + 12 * classes) * base
    assert costs.forward_flops(made) == forward
    assert training_flops(made) == 3 * forward - 55_296 * base  # nobody asks for the images' gradient
    a_sample = costs.forward_bytes(made, 2) - costs.forward_bytes(made)
    assert a_sample == 4 * (3 * 32 * 32 + 8_088 * base + classes)


@given(st.sampled_from(sorted(WIDTHS)), st.integers(1, 1000))
def test_the_width_series_is_the_net_at_that_width(name: str, classes: int) -> None:
    made = model(name, num_classes=classes)
    assert made.name == name
    assert made.nodes == simple_cnn(classes, IMAGE, base=WIDTHS[name])


def test_the_width_series_by_size() -> None:
    series = [name for name in MODELS if name.startswith("simple-cnn")]
    assert series == list(WIDTHS)
    sizes = [parameter_count(model(name)) for name in series]
    assert sizes == sorted(sizes) and sizes[-1] / sizes[0] > 900


def test_models_are_listed_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = CliRunner().invoke(cli.app, ["list", "models"]).output.splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines[-len(MODELS) :]] == list(MODELS)


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
    """torchvision's documentation counts multiply-accumulates and calls them GFLOPS."""
    gmacs = {f.name: f.forward_flops_224 / 2e9 for f in describe() if f.forward_flops_224}
    assert gmacs == pytest.approx(
        {
            "resnet18": 1.81,
            "resnet34": 3.66,
            "resnet50": 4.09,
            "resnet101": 7.80,
            "resnet152": 11.51,
            "mobilenetv2": 0.30,
            "vgg16": 15.47,
            "vit-base-16": 17.56,
        },
        abs=0.006,
    )


def test_nets_for_imagenet_are_listed_with_their_size_there() -> None:
    counts = {facts.name: facts.parameters_1000 for facts in describe()}
    assert (counts["vit-base-16"], counts["mobilenetv2"]) == (86_567_656, 3_504_872)


def test_mobilenetv2_names_are_torchvisions() -> None:
    net = model("mobilenetv2")
    names = {leaf.name for leaf in leaves(net.nodes)}
    assert {"features.0.0", "features.1.conv.0.0", "features.1.conv.1", "features.1.conv.2"} <= names
    assert {"features.17.conv.1.0", "features.17.conv.3", "features.18.1", "classifier.1"} <= names
    sums = [node.name for node in net.nodes if isinstance(node, layers.Residual)]
    assert [int(name.removeprefix("features.")) for name in sums] == [3, 5, 6, 8, 9, 10, 12, 13, 15, 16]


def test_costs_of_a_depthwise_convolution_by_hand() -> None:
    net = model("mobilenetv2", num_classes=1000, input_shape=(3, 224, 224))
    cost = {cost.name: cost for cost in layer_costs(net)}["features.1.conv.0.0"]
    assert (cost.in_shape, cost.out_shape) == ((32, 112, 112), (32, 112, 112))
    assert (cost.parameters, cost.flops) == (32 * 9, 2 * 32 * 112 * 112 * 9)


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
    assert costs.forward_bytes(net, 3, 4) == 2 * costs.forward_bytes(net, 3, 2)
    weights = parameter_count(net) * 4
    assert costs.forward_bytes(net, 7) - weights == 7 * (costs.forward_bytes(net) - weights)
    assert costs.training_bytes(net, 7) > 2 * costs.forward_bytes(net, 7)


def test_residual_costs_name_their_sum_and_relu() -> None:
    names = [cost.name for cost in layer_costs(model("resnet18"))]
    assert names.index("layer1.0.bn2") + 1 == names.index("layer1.0.add")
    assert names.index("layer1.0.add") + 1 == names.index("layer1.0.relu")
    assert len(names) == len(set(names))


def test_costs_of_attention_by_hand() -> None:
    """65 tokens of 192 features in 3 heads of 64."""
    costs = {cost.name: cost for cost in layer_costs(model("vit-tiny"), dtype_bytes=2)}
    heads = costs["blocks.3.attn.heads"]
    assert (heads.in_shape, heads.out_shape, heads.parameters) == ((65, 576), (65, 192), 0)
    products = 3 * (2 * 65 * 64 * 65) + 3 * (2 * 65 * 65 * 64)  # q k^T, then its softmax times v
    assert heads.flops == products
    assert (heads.input_grad_flops, heads.weight_grad_flops) == (2 * products, 0)
    assert (heads.bytes_read, heads.bytes_written) == (65 * 576 * 2, 65 * 192 * 2)
    assert (heads.backward_bytes_read, heads.backward_bytes_written) == (
        65 * (576 + 2 * 192) * 2,
        65 * 576 * 2,
    )
    qkv = costs["blocks.3.attn.qkv"]
    assert (qkv.flops, qkv.weight_bytes) == (2 * 65 * 192 * 576, (192 * 576 + 576) * 2)
    token, embed = costs["class_token"], costs["embed"]
    assert (token.bytes_read, token.bytes_written, token.backward_bytes_written) == (0, 0, 65 * 192 * 2)
    assert (embed.bytes_read, embed.bytes_written) == (64 * 192 * 2, 65 * 192 * 2)
    assert "blocks.3.attn.add" in costs and "blocks.3.attn.relu" not in costs


@pytest.mark.parametrize("name", [name for name in MODELS if name != "cyclegan"])
def test_layers_follow_each_other_and_add_up(name: str) -> None:
    net = model(name)
    costs = layer_costs(net)
    assert costs[0].in_shape == net.input_shape and costs[-1].out_shape == (10,)
    assert len({cost.name for cost in costs}) == len(costs)
    assert sum(cost.parameters for cost in costs) == parameter_count(net)
    assert sum(cost.weight_bytes for cost in costs) == 4 * parameter_count(net)
    for cost in costs:
        if cost.kind not in ("Flatten", "ClassToken"):
            assert cost.bytes_read > 0 and cost.bytes_written > 0, cost
        assert cost.backward_bytes_read + cost.backward_bytes_written > 0 or cost.kind == "Flatten", cost


def test_tokens_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UserError, match="embed"):
        layers.out_shape(layers.Tokens(name="embed", channels=8, pixels=4), (8, 3, 2))
    with pytest.raises(UserError, match="heads"):
        layers.out_shape(layers.Attention(name="heads", heads=3), (65, 3 * 64))


def test_unknown_model_names_the_nearest() -> None:
    with pytest.raises(UserError, match="resnet50"):
        model("resnet5")


@pytest.mark.parametrize("name", ["simple-cnn", "simple-cnn-w8", "vit-tiny"])
def test_too_small_input_is_refused(name: str) -> None:
    with pytest.raises(UserError, match="too small"):
        model(name, input_shape=(3, 3, 3))


def test_no_class_is_refused() -> None:
    with pytest.raises(UserError, match="at least one class"):
        model("resnet18", num_classes=0)


def test_a_layer_refuses_other_channels() -> None:
    with pytest.raises(UserError, match="conv1"):
        layers.out_shape(layers.Conv2d(name="conv1", in_channels=3, out_channels=8, kernel=3), (4, 8, 8))


@pytest.mark.framework
@pytest.mark.parametrize(
    "name",
    [
        "simple-cnn",
        "simple-cnn-w0.25",
        "conv6-seed",
        "conv6",
        "vgg16",
        "resnet20",
        "resnet18",
        "resnet18-cifar",
        "resnet50",
        "mobilenetv2",
        "vit-tiny",
    ],
)
def test_flops_equal_torchs_counter(name: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    from .torch_reference import sequential

    declared, batch = model(name), 2
    with torch.device("meta"):  # shapes only: no arithmetic, no memory
        net = sequential(declared.nodes)
        images = torch.empty(batch, *declared.input_shape)
        assert sum(p.numel() for p in net.parameters()) == parameter_count(declared)
        with FlopCounterMode(display=False) as forward:
            scores = net(images)
        with FlopCounterMode(display=False) as backward:
            scores.sum().backward()
    assert scores.shape == (batch, 10)
    assert forward.get_total_flops() == batch * costs.forward_flops(declared)
    if name == "mobilenetv2":
        return  # of a depthwise convolution's weights torch 2.13 counts the gradient as if it had no groups
    total = forward.get_total_flops() + backward.get_total_flops()
    assert total == training_flops(declared, batch)


@pytest.mark.framework
@pytest.mark.parametrize("name", ["vgg16", "resnet18", "resnet50", "mobilenetv2", "vit-base-16"])
def test_forward_flops_at_224_equal_torchs_counter(name: str) -> None:
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    from .torch_reference import sequential

    declared = model(name, num_classes=1000, input_shape=(3, 224, 224))
    with torch.device("meta"), FlopCounterMode(display=False) as forward, torch.no_grad():
        scores = sequential(declared.nodes)(torch.empty(3, *declared.input_shape))
    assert scores.shape == (3, 1000)
    assert forward.get_total_flops() == 3 * costs.forward_flops(declared)
