"""Declared nets in Keras: FP64 outputs are those of the declared layers; weights come back as they went."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from breakeven.workloads import layers, models, reference
from breakeven.workloads.weights import drawn_for_inference, initial_weights

from .tensorflow_cases import train

pytestmark = pytest.mark.framework
pytest.importorskip("tensorflow")

IMAGES = layers.Model(
    name="images",
    num_classes=10,
    input_shape=(3, 10, 12),
    nodes=(
        layers.ReflectionPad2d(name="pad", padding=2),
        layers.Conv2d(name="down", in_channels=3, out_channels=6, kernel=3, stride=2, padding=1, bias=True),
        layers.InstanceNorm2d(name="norm", channels=6),
        layers.LeakyReLU(name="leaky"),
        layers.Residual(
            name="block",
            main=(layers.Conv2d(name="block.c", in_channels=6, out_channels=9, kernel=1, stride=2),),
            shortcut=(layers.Subsample(name="block.s", in_channels=6, out_channels=9, stride=2),),
            relu=False,
        ),
        layers.ConvTranspose2d(
            name="up", in_channels=9, out_channels=4, kernel=3, stride=2, padding=1, output_padding=1
        ),
        layers.Tanh(name="tanh"),
        layers.MaxPool2d(name="pool", kernel=3, stride=2, padding=1),
        layers.Flatten(name="flatten"),
        layers.Linear(name="fc", in_features=4 * 4 * 4, out_features=10),
    ),
)
"""Every layer of nets that make images, a pooling with negative values at its padded edge, and a map that is
flattened."""


@pytest.fixture(autouse=True, scope="module")
def threads_set() -> None:
    """TensorFlow takes its threads before its first operation only; later modules ask for the same."""
    from breakeven.runtimes.tensorflow import place

    place.set_up(train())


def scores(model: layers.Model, weights: Any, images: Any, policy: str = "float64") -> Any:
    from breakeven.runtimes.tensorflow import nets

    made = nets.build(model, weights, policy)
    back = made.weights()
    assert list(back) == list(weights)
    assert all(np.array_equal(back[name], weights[name]) for name in weights)
    return made(nets.channels_last(images), training=False).numpy()


@pytest.mark.parametrize("name", ["simple-cnn", "conv6-seed", "resnet20", "mobilenetv2", "vit-tiny"])
def test_fp64_scores_are_those_of_the_declared_layers(name: str) -> None:
    model = models.model(name)
    weights = drawn_for_inference(model, 3)
    images = np.random.default_rng(0).normal(size=(2, 3, 32, 32))
    expected = reference.logits(model, weights, images)
    assert scores(model, weights, images) == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_layers_of_nets_that_make_images() -> None:
    weights = initial_weights(IMAGES, 0)
    images = np.random.default_rng(1).normal(size=(2, *IMAGES.input_shape))
    expected = reference.run(IMAGES.nodes, weights, images)
    assert scores(IMAGES, weights, images) == pytest.approx(expected, rel=1e-8, abs=1e-10)


def test_narrow_policies_keep_normalisations_in_float32() -> None:
    from breakeven.runtimes.tensorflow import nets

    model = models.model("resnet20")
    made = nets.build(model, initial_weights(model, 0), "mixed_bfloat16")
    assert {v.dtype for v in made.trained} == {"float32"}
    kinds = {layer.compute_dtype for layer in made.model.layers if layer.weights}
    assert kinds == {"bfloat16"}
    assert {str(v.dtype) for layer in made.model.layers for v in layer.non_trainable_weights} == {"float32"}
