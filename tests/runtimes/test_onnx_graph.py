"""Graphs built from declared layers compute what the FP64 reference does, for any batch and precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from breakeven.workloads import models, reference
from breakeven.workloads.layers import (
    GELU,
    AdaptiveAvgPool2d,
    Attention,
    BatchNorm2d,
    ClassToken,
    Conv2d,
    ConvTranspose2d,
    Dropout,
    Flatten,
    InstanceNorm2d,
    LayerNorm,
    LeakyReLU,
    Linear,
    MaxPool2d,
    Model,
    Node,
    ReflectionPad2d,
    ReLU,
    ReLU6,
    Residual,
    Subsample,
    Tanh,
    Tokens,
    leaves,
)
from breakeven.workloads.weights import Weights, initial_weights

pytestmark = pytest.mark.framework
ort = pytest.importorskip("onnxruntime")
graph = pytest.importorskip("breakeven.runtimes.onnx.graph", exc_type=ImportError)

CONVOLUTIONAL: tuple[Node, ...] = (
    BatchNorm2d(name="bn0", channels=3, eps=1e-3),  # no convolution before it to fold into
    Conv2d(name="conv1", in_channels=3, out_channels=8, kernel=3, padding=1, stride=2, bias=True),
    BatchNorm2d(name="bn1", channels=8),
    ReLU6(name="relu1"),
    Conv2d(name="depthwise", in_channels=8, out_channels=8, kernel=3, padding=1, groups=8),
    BatchNorm2d(name="bn2", channels=8),
    Residual(
        name="block",
        main=(Conv2d(name="block.conv", in_channels=8, out_channels=4, kernel=1), ReLU(name="block.relu1")),
        shortcut=(Conv2d(name="block.down", in_channels=8, out_channels=4, kernel=1, bias=True),),
    ),
    MaxPool2d(name="pool", kernel=3, stride=2, padding=1),
    AdaptiveAvgPool2d(name="avgpool"),
    Flatten(name="flatten"),
    Dropout(name="drop"),
    Linear(name="fc", in_features=4, out_features=5, bias=False),
)
TRANSFORMER: tuple[Node, ...] = (
    Conv2d(name="patches", in_channels=3, out_channels=12, kernel=4, stride=4, bias=True),
    Tokens(name="embed", channels=12, pixels=9),
    Residual(
        name="attn",
        main=(
            LayerNorm(name="norm", features=12),
            Linear(name="qkv", in_features=12, out_features=36, bias=False),
            Attention(name="heads", heads=3),
            Linear(name="proj", in_features=12, out_features=12),
        ),
        relu=False,
    ),
    GELU(name="gelu"),
    ClassToken(name="first"),
    Linear(name="head", in_features=12, out_features=5),
)
IMAGES: tuple[Node, ...] = (
    ReflectionPad2d(name="pad", padding=3),
    Conv2d(name="conv", in_channels=3, out_channels=4, kernel=7, stride=2, bias=True),
    InstanceNorm2d(name="norm", channels=4),
    LeakyReLU(name="leaky"),
    Residual(
        name="block",
        main=(Conv2d(name="block.conv", in_channels=4, out_channels=6, kernel=3, padding=1, stride=2),),
        shortcut=(Subsample(name="block.down", in_channels=4, out_channels=6, stride=2),),
        relu=False,
    ),
    ConvTranspose2d(
        name="up", in_channels=6, out_channels=3, kernel=3, stride=2, padding=1, output_padding=1
    ),
    Tanh(name="tanh"),
    Flatten(name="flatten"),
    Linear(name="fc", in_features=108, out_features=5),
)
LAYERS = {
    name: Model(name=name, num_classes=5, input_shape=(3, 12, 12), nodes=nodes)
    for name, nodes in {"convolutional": CONVOLUTIONAL, "transformer": TRANSFORMER, "images": IMAGES}.items()
}
NAMED = ("simple-cnn", "conv6-seed", "resnet20", "resnet18", "mobilenetv2", "vit-tiny")


def drawn(model: Model) -> Weights:
    """Weights whose normalisations do something, in order of execution."""
    random = np.random.default_rng(0)
    weights = initial_weights(model, 0)
    norms = {leaf.name for leaf in leaves(model.nodes) if isinstance(leaf, BatchNorm2d | LayerNorm)}
    for name, array in weights.items():
        if name.rpartition(".")[0] in norms:
            weights[name] = (array + random.uniform(0, 0.5, array.shape)).astype(np.float32)
    return weights


def off(made: Any, images: NDArray[np.float32], expected: NDArray[np.float64]) -> float:
    session = ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {graph.INPUT: images})
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("model", [*LAYERS.values(), *map(models.model, NAMED)], ids=lambda m: m.name)
def test_a_graph_computes_what_is_declared(model: Model) -> None:
    weights = drawn(model)
    images = np.random.default_rng(1).normal(size=(3, *model.input_shape)).astype(np.float32)
    expected = reference.logits(model, weights, images)
    assert off(graph.graph(model, weights), images, expected) < 1e-5
    half = graph.graph(model, weights, precision="fp16")
    assert 1e-5 < off(half, images.astype(np.float16), expected) < 1e-2


def test_a_graph_for_any_batch_can_be_fixed_to_one() -> None:
    model = LAYERS["transformer"]
    fixed = graph.with_batch(graph.graph(model, drawn(model)), 2)
    session = ort.InferenceSession(fixed.SerializeToString(), providers=["CPUExecutionProvider"])
    assert session.get_inputs()[0].shape == [2, 3, 12, 12]
    assert session.get_outputs()[0].shape == [2, 5]
    with pytest.raises(Exception, match="invalid dimensions"):
        session.run(None, {graph.INPUT: np.zeros((3, 3, 12, 12), np.float32)})


def test_every_number_of_an_fp16_graph_is_fp16() -> None:
    model = LAYERS["convolutional"]
    made = graph.graph(model, drawn(model), precision="fp16")
    kinds = {tensor.data_type for tensor in made.graph.initializer}
    assert kinds == {graph.TYPES["fp16"]}
    assert {v.type.tensor_type.elem_type for v in (*made.graph.input, *made.graph.output)} == kinds
