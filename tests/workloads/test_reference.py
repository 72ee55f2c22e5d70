"""The FP64 reference against torch in FP64: every kind of layer, every family of models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from breakeven.workloads import layers, reference
from breakeven.workloads.models import model
from breakeven.workloads.philox import derive, uniform
from breakeven.workloads.vit import vit
from breakeven.workloads.weights import initial_weights

LEAVES: dict[str, tuple[layers.Leaf, tuple[int, ...]]] = {
    "conv": (
        layers.Conv2d(name="x", in_channels=4, out_channels=6, kernel=3, stride=2, padding=1),
        (4, 9, 8),
    ),
    "conv with bias": (
        layers.Conv2d(name="x", in_channels=4, out_channels=6, kernel=5, bias=True),
        (4, 9, 8),
    ),
    "conv 1x1, stride": (
        layers.Conv2d(name="x", in_channels=4, out_channels=6, kernel=1, stride=2),
        (4, 7, 7),
    ),
    "grouped": (
        layers.Conv2d(name="x", in_channels=4, out_channels=6, kernel=3, padding=1, groups=2),
        (4, 5, 5),
    ),
    "depthwise": (
        layers.Conv2d(name="x", in_channels=5, out_channels=5, kernel=3, stride=2, padding=1, groups=5),
        (5, 9, 9),
    ),
    "batch norm": (layers.BatchNorm2d(name="x", channels=3), (3, 4, 5)),
    "linear": (layers.Linear(name="x", in_features=7, out_features=3), (7,)),
    "linear of tokens": (layers.Linear(name="x", in_features=7, out_features=3, bias=False), (5, 7)),
    "relu": (layers.ReLU(name="x"), (3, 4, 5)),
    "relu6": (layers.ReLU6(name="x"), (3, 4, 5)),
    "max pool": (layers.MaxPool2d(name="x", kernel=3, stride=2, padding=1), (3, 8, 9)),
    "average pool": (layers.AdaptiveAvgPool2d(name="x"), (3, 4, 5)),
    "flatten": (layers.Flatten(name="x"), (3, 4, 5)),
    "subsample": (layers.Subsample(name="x", in_channels=4, out_channels=8, stride=2), (4, 7, 6)),
    "transposed": (
        layers.ConvTranspose2d(
            name="x", in_channels=4, out_channels=3, kernel=3, stride=2, padding=1, output_padding=1
        ),
        (4, 5, 6),
    ),
    "transposed without bias": (
        layers.ConvTranspose2d(name="x", in_channels=4, out_channels=3, kernel=4, stride=3, bias=False),
        (4, 5, 6),
    ),
    "instance norm": (layers.InstanceNorm2d(name="x", channels=3), (3, 4, 5)),
    "reflection": (layers.ReflectionPad2d(name="x", padding=3), (2, 4, 5)),
    "leaky relu": (layers.LeakyReLU(name="x"), (3, 4, 5)),
    "tanh": (layers.Tanh(name="x"), (3, 4, 5)),
    "layer norm": (layers.LayerNorm(name="x", features=7), (5, 7)),
    "gelu": (layers.GELU(name="x"), (5, 7)),
    "tokens": (layers.Tokens(name="x", channels=3, pixels=6), (3, 2, 3)),
    "attention": (layers.Attention(name="x", heads=2), (5, 3 * 8)),
    "class token": (layers.ClassToken(name="x"), (5, 7)),
}


def values(purpose: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    return (8 * uniform(derive(0, purpose), int(np.prod(shape))) - 3).reshape(shape)


def lively(declared: layers.Model) -> dict[str, NDArray[np.float32]]:
    """Weights in which no normalisation is the identity."""
    made = initial_weights(declared, 0)
    for leaf in layers.leaves(declared.nodes):
        if isinstance(leaf, layers.BatchNorm2d | layers.LayerNorm):
            for part in ("weight", "bias", "running_mean", "running_var"):
                if (name := f"{leaf.name}.{part}") in made:
                    made[name] = (0.5 + uniform(derive(1, name), made[name].size)).astype(np.float32)
    return made


def of_torch(declared: layers.Model, weights: dict[str, Any], images: NDArray[np.float64]) -> Any:
    import torch

    from breakeven.runtimes.torch import nets

    net = nets.build(declared, weights).double().eval()
    with torch.inference_mode():
        return net(torch.from_numpy(images.copy())).numpy()


def close(found: NDArray[np.float64], expected: NDArray[np.float64]) -> None:
    assert found.dtype == np.float64 and found.shape == expected.shape
    assert np.linalg.norm(found - expected) <= 1e-10 * np.linalg.norm(expected)


@pytest.mark.framework
@pytest.mark.parametrize("name", LEAVES)
def test_every_kind_of_layer_is_torchs(name: str) -> None:
    leaf, shape = LEAVES[name]
    declared = layers.Model(name="one", num_classes=1, input_shape=shape, nodes=(leaf,))  # type: ignore[arg-type]
    weights, x = lively(declared), values(name, (2, *shape))
    close(reference.run(declared.nodes, weights, x), of_torch(declared, weights, x))


@pytest.mark.framework
@pytest.mark.parametrize(
    "name",
    [
        "simple-cnn",
        "conv6-seed",
        "conv6",
        "vgg16",
        "resnet20",
        "resnet18",
        "resnet50",
        "resnet18-cifar",
        "mobilenetv2",
    ],
)
def test_every_family_is_torchs(name: str) -> None:
    declared = model(name)
    weights, x = lively(declared), values(name, (2, 3, 32, 32)) / 4
    close(reference.logits(declared, weights, x), of_torch(declared, weights, x))


@pytest.mark.framework
def test_a_vit_is_torchs() -> None:
    nodes = vit(10, (3, 32, 32), width=32, heads=2, depth=3, patch=8)
    declared = layers.Model(name="small", num_classes=10, input_shape=(3, 32, 32), nodes=nodes)
    weights, x = lively(declared), values("vit", (3, 3, 32, 32)) / 4
    close(reference.logits(declared, weights, x), of_torch(declared, weights, x))


def test_a_convolution_by_hand() -> None:
    """A 2x2 kernel over a 2x3 image, no framework: two windows."""
    leaf = layers.Conv2d(name="c", in_channels=1, out_channels=1, kernel=2, bias=True)
    weights = {"c.weight": np.float32([[[[1, 2], [3, 4]]]]), "c.bias": np.float32([10])}
    x = np.array([[[[1.0, 2, 3], [4, 5, 6]]]])
    assert reference.run((leaf,), weights, x).tolist() == [[[[47, 57]]]]


def test_dropout_lets_all_pass() -> None:
    x = values("dropout", (2, 5))
    assert reference.run((layers.Dropout(name="d"),), {}, x) is x
