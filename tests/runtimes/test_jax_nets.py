"""Declared nets in JAX: FP64 scores equal to those of NumPy, in both layouts; what a product keeps."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from breakeven.workloads import layers, models, reference
from breakeven.workloads.weights import Weights, initial_weights

pytestmark = pytest.mark.framework
jax = pytest.importorskip("jax")

EQUAL = 1e-8


@cache
def known(name: str) -> tuple[layers.Model, Weights, Any, Any]:
    """Model, weights with running statistics that are not the identity, images, and their scores in FP64."""
    model, drawn = models.model(name), np.random.default_rng(7)
    weights = {
        key: (value + 0.2 * drawn.random(value.shape) - 0.1).astype(np.float32)
        if ".running_" in key
        else value
        for key, value in initial_weights(model, 3).items()
    }
    images = drawn.standard_normal((2, *model.input_shape)).astype(np.float32)
    return model, weights, images, reference.logits(model, weights, images)


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(
    "name", ["simple-cnn-w0.25", "resnet18", "resnet50", "mobilenetv2", "vit-tiny", "conv6", "resnet20"]
)
def test_scores_in_fp64_are_the_declared_ones(name: str, channels_last: bool) -> None:
    from breakeven.runtimes.jax import nets

    model, weights, images, expected = known(name)
    how = nets.How(channels_last=channels_last)
    with jax.enable_x64(True):
        arrays = {
            key: jax.device_put(value.astype(np.float64))
            for key, value in nets.placed(weights, channels_last=channels_last).items()
        }
        given = nets.in_layout(images.astype(np.float64), channels_last=channels_last)
        scores, moved = jax.jit(lambda arrays, x: nets.forward(model, arrays, x, how))(arrays, given)
        assert moved == {}
        assert np.abs(np.asarray(scores) - expected).max() <= EQUAL * np.abs(expected).max()
        back = nets.declared(arrays, channels_last=channels_last)
    assert all(np.array_equal(back[key], value) for key, value in weights.items())


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("net", ["g_ab", "d_a"])
def test_nets_that_make_images_are_the_declared_ones(net: str, channels_last: bool) -> None:
    from breakeven.runtimes.jax import nets
    from breakeven.workloads import cyclegan

    whole = cyclegan.model((3, 32, 32), base=4, blocks=2)
    images = np.random.default_rng(7).standard_normal((2, 3, 32, 32))
    model = cyclegan.nets(whole)[net]
    weights = {key: value + np.float32(0.01) for key, value in initial_weights(model, 3).items()}
    expected = reference.logits(model, weights, images)
    with jax.enable_x64(True):
        arrays = {
            key: jax.device_put(value.astype(np.float64))
            for key, value in nets.placed(weights, channels_last=channels_last).items()
        }
        given = nets.in_layout(images, channels_last=channels_last)
        made, _ = nets.forward(model, arrays, given, nets.How(channels_last=channels_last))
    found = nets.out_of_layout(np.asarray(made), channels_last=channels_last)
    assert np.abs(found - expected).max() <= EQUAL * np.abs(expected).max()


def test_relu6_has_torch_gradients_at_its_corners() -> None:
    from breakeven.runtimes.jax import nets

    model = layers.Model(name="one", num_classes=1, input_shape=(1, 1, 1), nodes=(layers.ReLU6(name="r"),))
    slope = jax.grad(lambda x: nets.forward(model, {}, x, nets.How(channels_last=False))[0].sum())
    assert slope(np.array([-1.0, 0.0, 3.0, 6.0, 7.0], np.float32)).tolist() == [0, 0, 1, 0, 0]


@pytest.mark.parametrize(
    ("kind", "bits", "name"),
    [(np.float32, 23, "fp32"), (np.float16, 10, "fp16"), ("bfloat16", 7, "bf16"), ("tf32", 10, "tf32")],
)
def test_the_probe_tells_planted_precisions(kind: Any, bits: int, name: str) -> None:
    from ml_dtypes import bfloat16

    from breakeven.runtimes.bits import kept

    def product(values: Any) -> Any:
        if kind == "tf32":  # rounds to 10 bits, with the range of FP32
            scale = 2.0 ** (10 - np.floor(np.log2(values)))
            return np.round(values * scale) / scale
        with np.errstate(over="ignore"):
            return values.astype(bfloat16 if kind == "bfloat16" else kind).astype(np.float64)

    assert kept(product, 5) == (bits, name)


def test_the_costliest_layers_are_found() -> None:
    from breakeven.runtimes import bits

    found = bits.costliest(models.model("vit-tiny"))
    assert {name: leaf.name for name, (leaf, _) in found.items()} == {
        "conv": "patch_embed.proj",
        "matmul": "blocks.0.mlp.fc1",
        "attention": "blocks.0.attn.heads",
    }


def test_emulated_types_are_told() -> None:
    """XLA computes products of BF16 in FP32 on most processors: what its program says decides."""
    from breakeven.runtimes.jax import precision

    native, why = precision.hardware("bf16", jax.devices("cpu")[0])
    assert ("FP32" in why) is not native
    assert precision.hardware("fp32", jax.devices("cpu")[0])[0]
