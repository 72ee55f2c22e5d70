"""Nets as fused steps and in 8-bit integers: against the declared layers, and against plain integer loops."""

from __future__ import annotations

import numpy as np
import pytest

from breakeven.errors import UserError
from breakeven.workloads import fused, int8, layers, witness
from breakeven.workloads.fused import IMAGES
from breakeven.workloads.layers import Model
from breakeven.workloads.models import model
from breakeven.workloads.weights import initial_weights


def ones(net: fused.Fused) -> dict[str, float]:
    return {name: 1.0 for name in (IMAGES, *(step.name for step in net.steps))}


def test_the_steps_of_a_bottleneck_sum_up_in_its_last_convolution() -> None:
    steps = {step.name: step for step in fused.fused(model("resnet50")).steps}
    assert len(steps) == 54  # 53 convolutions and a pooling
    last, shortcut = steps["layer2.0.conv3"], steps["layer2.0.downsample.0"]
    assert isinstance(last, fused.Conv) and isinstance(shortcut, fused.Conv)
    assert (last.residual, last.relu, last.source) == (shortcut.name, True, "layer2.0.conv2")
    assert (shortcut.residual, shortcut.relu, shortcut.source) == (None, False, "layer1.2.conv3")
    same = steps["layer2.1.conv3"]
    assert isinstance(same, fused.Conv) and same.residual == "layer2.0.conv3"


def test_a_relu_after_a_pooling_is_done_before_it() -> None:
    net = fused.fused(model("conv6-seed"))
    assert [type(step).__name__ for step in net.steps] == ["Conv", "Pool"] * 3
    assert all(step.relu for step in net.steps if isinstance(step, fused.Conv))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mobilenetv2", r"layer features\.0\.2 \(ReLU6\)"),
        ("vit-tiny", r"layer embed \(Tokens\)"),
        ("resnet20", r"layer layer2\.0\.downsample \(Subsample\)"),
    ],
)
def test_a_net_with_another_layer_is_refused_by_its_name(name: str, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        fused.fused(model(name))


def test_grouped_convolutions_and_sums_without_one_are_refused() -> None:
    conv = layers.Conv2d(name="c", in_channels=4, out_channels=4, kernel=3, padding=1)
    relu = layers.ReLU(name="r")
    for nodes, reason in (
        ((layers.Conv2d(name="g", in_channels=4, out_channels=4, kernel=1, groups=4),), "grouped Conv2d"),
        ((layers.Residual(name="block", main=(conv, relu)),), "layer block: a sum is fused"),
        (
            (layers.Flatten(name="f"), layers.Linear(name="l", in_features=256, out_features=2)),
            "no convolution",
        ),
        ((conv, layers.AdaptiveAvgPool2d(name="a"), layers.Tanh(name="t")), r"t \(Tanh\)"),
    ):
        with pytest.raises(UserError, match=reason):
            fused.fused(Model(name="net", num_classes=2, input_shape=(4, 8, 8), nodes=nodes))


def test_a_dead_channel_and_an_empty_range_have_scales() -> None:
    net = fused.fused(model("simple-cnn"))
    weights = initial_weights(net.model, 0)
    first = net.steps[0].name
    weights[f"{first}.weight"][0] = 0
    made = int8.plan(net, weights, ones(net) | {IMAGES: 0.0})
    step = made.steps[0]
    assert isinstance(step, int8.Conv) and not step.weight[0].any()
    assert np.isfinite(step.bias).all() and np.isfinite(step.multiplier).all()
    with pytest.raises(UserError, match="has no range"):
        int8.plan(net, weights, ones(net) | {first: float("nan")})


def test_weights_reach_127_in_every_channel_and_ratios_multiply_exactly() -> None:
    net = fused.fused(model("resnet18"))
    made = int8.plan(net, initial_weights(net.model, 0), {n: 1.0 + i for i, n in enumerate(ones(net))})
    for step in made.steps:
        if not isinstance(step, int8.Conv):
            continue
        assert (np.abs(step.weight).max(axis=(1, 2, 3)) == int8.MOST).all()
        assert (step.ratio is None) == (step.step.residual is None)
        if step.ratio is not None:
            for q in (-128, 77, 127):
                product = step.ratio * np.float32(q)
                assert (product == step.ratio.astype(np.float64) * q).all()


def test_one_convolution_is_the_loop_of_integers_that_defines_it() -> None:
    """What a step computes, written out; the scales are those of the ranges, the weights rounded by hand."""
    block = layers.Residual(
        name="b",
        main=(
            layers.Conv2d(name="c", in_channels=3, out_channels=2, kernel=3, stride=2, padding=1, bias=True),
        ),
        shortcut=(layers.Conv2d(name="s", in_channels=3, out_channels=2, kernel=1, stride=2),),
    )
    net = fused.fused(Model(name="net", num_classes=2, input_shape=(3, 5, 5), nodes=(block,)))
    rng = np.random.Generator(np.random.Philox(3))
    shapes = {"c.weight": (2, 3, 3, 3), "c.bias": (2,), "s.weight": (2, 3, 1, 1)}
    weights = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    made = int8.plan(net, weights, {IMAGES: 2.54, "s": 5.08, "c": 12.7})
    main = made.steps[1]
    assert isinstance(main, int8.Conv) and main.ratio is not None
    unit = made.scales[IMAGES] * np.abs(weights["c.weight"]).max(axis=(1, 2, 3)).astype(np.float64) / 127
    assert np.allclose(main.bias * unit, weights["c.bias"]) and np.allclose(main.multiplier * 0.1, unit)
    assert np.allclose(main.ratio * unit, 0.04, rtol=2**-16)
    by_hand = np.rint(weights["c.weight"][1, 2, 0, 1] / (np.abs(weights["c.weight"][1]).max() / 127))
    assert main.weight[1, 2, 0, 1] == by_hand


def test_padding_adds_zeros_only() -> None:
    net = fused.fused(model("simple-cnn-w0.25"))
    made = int8.plan(net, initial_weights(net.model, 0), ones(net))
    wide = int8.padded(made, 16)
    assert wide.channels == 16 and wide.scales == made.scales
    for before, after in zip(made.steps, wide.steps, strict=True):
        if isinstance(before, int8.Conv) and isinstance(after, int8.Conv):
            out, taken = before.weight.shape[:2]
            assert after.weight.shape[0] % 16 == after.weight.shape[1] % 16 == 0
            assert (after.weight[:out, :taken] == before.weight).all()
            assert np.count_nonzero(after.weight) == np.count_nonzero(before.weight)
            assert not after.bias[out:].any() and not after.multiplier[out:].any()


def test_a_witness_is_there_where_sums_pass_24_bits_and_nowhere_else() -> None:
    for name, shape, layer in (
        ("simple-cnn", (3, 32, 32), None),  # at most 576 products a sum
        ("resnet18", (3, 32, 32), None),  # deep layers, whose windows all meet the padding
        ("resnet18-cifar", (3, 32, 32), "layer4.0.conv2"),
        ("resnet50", (3, 224, 224), "layer4.0.conv2"),
    ):
        net = fused.fused(model(name, input_shape=shape))
        found = witness.witness(int8.padded(int8.plan(net, initial_weights(net.model, 0), ones(net)), 16))
        assert (found and found.conv.step.name) == layer
        if found is None:
            continue
        sums = np.einsum("oikl,i->o", found.conv.weight.astype(np.int64), found.values.astype(np.int64))
        assert sums.min() > 2**24 and (np.float32(sums) + found.conv.bias == witness.ANSWER).all()
