"""A declared model with its weights as an ONNX graph, node by node: no framework and no exporter between.

Knows nothing about who runs it. Batch norm after a convolution is folded into it in FP64, as torch's own
exporter and every optimising runtime do. No node holds the batch, so that a graph serves any.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod, sqrt
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from breakeven.workloads import layers
from breakeven.workloads.fused import folded
from breakeven.workloads.layers import Model, Node, Shape
from breakeven.workloads.weights import Weights

OPSET = 20
"""The first with Gelu (exact); what ONNX Runtime 1.17, OpenVINO 2024 and TensorRT 10 read."""

IR_VERSION = 10
"""What came with opset 21: later ones say nothing more about such graphs and shut older readers out."""

INPUT, OUTPUT = "images", "logits"
TYPES = {"fp32": TensorProto.FLOAT, "fp16": TensorProto.FLOAT16}
NUMPY: dict[str, np.dtype[Any]] = {"fp32": np.dtype(np.float32), "fp16": np.dtype(np.float16)}

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Draft:
    """A graph that grows: nodes and constants so far, all numbers of one type."""

    weights: Weights
    dtype: np.dtype[Any]
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    tensors: list[onnx.TensorProto] = field(default_factory=list)

    def add(self, op: str, name: str, *inputs: str, **attributes: Any) -> str:
        """Appends a node; returns its output's name, which is the layer's."""
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def number(self, name: str, array: Array) -> str:
        """A constant in the graph's type."""
        return self.constant(name, np.asarray(array).astype(self.dtype))

    def constant(self, name: str, array: Array) -> str:
        self.tensors.append(numpy_helper.from_array(np.array(array, order="C"), name))
        return name

    def shape(self, name: str, *extents: int) -> str:
        """The constant that a Reshape asks for; an extent of 0 is the input's own."""
        return self.constant(name, np.asarray(extents, np.int64))


def graph(model: Model, weights: Weights, *, precision: str = "fp32", batch: int | None = None) -> Any:
    """The model as a checked `onnx.ModelProto`: input `images` [batch, C, H, W], output `logits` [batch, N].

    `precision`: fp32 or fp16, of weights, activations, input and output alike. `batch` None: any.
    """
    draft = _Draft(weights=weights, dtype=NUMPY[precision])
    name, shape = _sequence(draft, model.nodes, INPUT, model.input_shape)
    assert draft.nodes[-1].output[0] == name
    draft.nodes[-1].output[0] = OUTPUT
    kind = TYPES[precision]
    made = helper.make_graph(
        draft.nodes,
        model.name,
        [helper.make_tensor_value_info(INPUT, kind, [batch or "batch", *model.input_shape])],
        [helper.make_tensor_value_info(OUTPUT, kind, [batch or "batch", *shape])],
        draft.tensors,
    )
    proto = helper.make_model(
        made,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="breakeven",
    )
    onnx.checker.check_model(proto)
    return proto


def attention_products(name: str) -> tuple[str, str]:
    """Names of the two nodes of an Attention layer that multiply activations: q k^T and what it weighs."""
    return f"{name}.scores", f"{name}.mixed"


def with_batch(proto: Any, batch: int) -> Any:
    """A copy of a graph for any batch that takes `batch` only: runtimes plan better for a shape they know."""
    made = onnx.ModelProto()
    made.CopyFrom(proto)
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].dim_value = batch
    # Shapes of inner tensors that a quantiser noted are those of any batch.
    del made.graph.value_info[:]
    return made


def parse(text: bytes) -> Any:
    """The ModelProto in `text`."""
    return onnx.load_model_from_string(text)


def _sequence(draft: _Draft, nodes: Sequence[Node], x: str, shape: Shape) -> tuple[str, Shape]:
    """Appends the nodes in turn; returns the name and shape of what they make of `x`."""
    index = 0
    while index < len(nodes):
        node, after = nodes[index], nodes[index + 1] if index + 1 < len(nodes) else None
        if isinstance(node, layers.Residual):
            x, shape = _residual(draft, node, x, shape)
        elif isinstance(node, layers.Conv2d) and isinstance(after, layers.BatchNorm2d):
            x, shape = _conv(draft, node, x, after), layers.out_shape(node, shape)
            index += 1
        else:
            x, shape = _leaf(draft, node, x, shape), layers.out_shape(node, shape)
        index += 1
    return x, shape


def _residual(draft: _Draft, node: layers.Residual, x: str, shape: Shape) -> tuple[str, Shape]:
    main, made = _sequence(draft, node.main, x, shape)
    shortcut, _ = _sequence(draft, node.shortcut, x, shape)
    x = draft.add("Add", f"{node.name}.add", main, shortcut)
    return (draft.add("Relu", f"{node.name}.relu", x) if node.relu else x), made


def _leaf(draft: _Draft, node: layers.Leaf, x: str, shape: Shape) -> str:
    match node:
        case layers.LayerNorm() | layers.GELU() | layers.Tokens() | layers.Attention() | layers.ClassToken():
            return _token_leaf(draft, node, x, shape)
        case (
            layers.Subsample()
            | layers.ConvTranspose2d()
            | layers.InstanceNorm2d()
            | layers.ReflectionPad2d()
            | layers.LeakyReLU()
            | layers.Tanh()
        ):
            return _image_leaf(draft, node, x)
        case _:
            return _plain_leaf(draft, node, x, shape)


def _plain_leaf(draft: _Draft, node: layers.PlainLeaf, x: str, shape: Shape) -> str:
    name = node.name
    match node:
        case layers.Conv2d():
            return _conv(draft, node, x)
        case layers.BatchNorm2d():
            parts = ("weight", "bias", "running_mean", "running_var")
            tensors = [draft.number(f"{name}.{part}", draft.weights[f"{name}.{part}"]) for part in parts]
            return draft.add("BatchNormalization", name, x, *tensors, epsilon=node.eps)
        case layers.Linear():
            return _linear(draft, node, x, shape)
        case layers.ReLU():
            return draft.add("Relu", name, x)
        case layers.ReLU6():
            limits = [draft.number(f"{name}.{limit}", np.asarray(limit)) for limit in (0, 6)]
            return draft.add("Clip", name, x, *limits)
        case layers.MaxPool2d():
            return draft.add(
                "MaxPool",
                name,
                x,
                kernel_shape=[node.kernel] * 2,
                strides=[node.stride] * 2,
                pads=[node.padding] * 4,
            )
        case layers.AdaptiveAvgPool2d():
            return draft.add("GlobalAveragePool", name, x)
        case layers.Flatten():
            return draft.add("Flatten", name, x, axis=1)
        case _:  # dropout
            return x


def _image_leaf(draft: _Draft, node: layers.ImageLeaf, x: str) -> str:
    name = node.name
    match node:
        case layers.Subsample():
            end, by = np.iinfo(np.int64).max, node.stride
            edges = [
                draft.constant(f"{name}.{what}", np.asarray(numbers, np.int64))
                for what, numbers in (
                    ("from", (0, 0)),
                    ("to", (end, end)),
                    ("axes", (2, 3)),
                    ("by", (by, by)),
                )
            ]
            kept = draft.add("Slice", f"{name}.kept", x, *edges)
            more = node.out_channels - node.in_channels
            pads = draft.shape(f"{name}.pads", 0, more // 2, 0, 0, 0, more - more // 2, 0, 0)
            return draft.add("Pad", name, kept, pads)
        case layers.ConvTranspose2d():
            parts = ("weight", "bias") if node.bias else ("weight",)
            return draft.add(
                "ConvTranspose",
                name,
                x,
                *(draft.number(f"{name}.{part}", draft.weights[f"{name}.{part}"]) for part in parts),
                kernel_shape=[node.kernel] * 2,
                strides=[node.stride] * 2,
                pads=[node.padding] * 4,
                output_padding=[node.output_padding] * 2,
            )
        case layers.InstanceNorm2d():
            same = [
                draft.number(f"{name}.{part}", np.full(node.channels, value))
                for part, value in (("scale", 1.0), ("shift", 0.0))
            ]
            return draft.add("InstanceNormalization", name, x, *same, epsilon=node.eps)
        case layers.ReflectionPad2d():
            sides = (0, 0, node.padding, node.padding)
            return draft.add("Pad", name, x, draft.shape(f"{name}.pads", *sides, *sides), mode="reflect")
        case layers.LeakyReLU():
            return draft.add("LeakyRelu", name, x, alpha=node.slope)
        case layers.Tanh():
            return draft.add("Tanh", name, x)


def _token_leaf(draft: _Draft, node: layers.TokenLeaf, x: str, shape: Shape) -> str:
    name = node.name
    match node:
        case layers.LayerNorm():
            tensors = [draft.number(f"{name}.{p}", draft.weights[f"{name}.{p}"]) for p in ("weight", "bias")]
            return draft.add("LayerNormalization", name, x, *tensors, axis=-1, epsilon=node.eps)
        case layers.GELU():
            return draft.add("Gelu", name, x, approximate="none")
        case layers.Tokens():
            return _tokens(draft, node, x, shape)
        case layers.Attention():
            return _attention(draft, node, x, shape)
        case layers.ClassToken():
            first = draft.constant(f"{name}.first", np.asarray(0, np.int64))
            return draft.add("Gather", name, x, first, axis=1)


def _conv(draft: _Draft, node: layers.Conv2d, x: str, norm: layers.BatchNorm2d | None = None) -> str:
    weights, name = draft.weights, node.name
    weight = weights[f"{name}.weight"].astype(np.float64)
    bias = weights[f"{name}.bias"].astype(np.float64) if node.bias else None
    if norm is not None:
        weight, bias = folded(weight, bias, norm, weights)
        name = norm.name
    inputs = [draft.number(f"{node.name}.weight", weight)]
    if bias is not None:
        inputs.append(draft.number(f"{node.name}.bias", bias))
    return draft.add(
        "Conv",
        name,
        x,
        *inputs,
        kernel_shape=[node.kernel] * 2,
        strides=[node.stride] * 2,
        pads=[node.padding] * 4,
        group=node.groups,
    )


def _linear(draft: _Draft, node: layers.Linear, x: str, shape: Shape) -> str:
    name, weight = node.name, draft.weights[f"{node.name}.weight"]
    bias = [draft.number(f"{name}.bias", draft.weights[f"{name}.bias"])] if node.bias else []
    if len(shape) == 1:
        return draft.add("Gemm", name, x, draft.number(f"{name}.weight", weight), *bias, transB=1)
    product = f"{name}.product" if bias else name
    x = draft.add("MatMul", product, x, draft.number(f"{name}.weight", weight.T))
    return draft.add("Add", name, x, *bias) if bias else x


def _tokens(draft: _Draft, node: layers.Tokens, x: str, shape: Shape) -> str:
    """Pixels become tokens after an empty one, which the positions' first row fills with the class token."""
    name, weights = node.name, draft.weights
    flat = draft.shape(f"{name}.flat", 0, shape[0], prod(shape[1:]))
    x = draft.add("Reshape", f"{name}.pixels", x, flat)
    x = draft.add("Transpose", f"{name}.tokens", x, perm=[0, 2, 1])
    x = draft.add("Pad", f"{name}.padded", x, draft.shape(f"{name}.pads", 0, 1, 0, 0, 0, 0))
    positions = weights[f"{name}.pos_embed"].astype(np.float64)
    positions[:, :1] += weights[f"{name}.cls_token"]
    return draft.add("Add", name, x, draft.number(f"{name}.positions", positions))


def _attention(draft: _Draft, node: layers.Attention, x: str, shape: Shape) -> str:
    name, (tokens, width) = node.name, shape
    width //= 3
    depth = width // node.heads
    heads = draft.shape(f"{name}.by_head", 0, tokens, node.heads, depth)
    parts = [f"{name}.{part}" for part in ("q", "k", "v")]
    draft.nodes.append(helper.make_node("Split", [x], parts, name=f"{name}.qkv", axis=-1, num_outputs=3))
    q, k, v = (draft.add("Reshape", f"{part}.heads", part, heads) for part in parts)
    q = draft.add("Transpose", f"{name}.q_rows", q, perm=[0, 2, 1, 3])
    k = draft.add("Transpose", f"{name}.k_columns", k, perm=[0, 2, 3, 1])
    v = draft.add("Transpose", f"{name}.v_rows", v, perm=[0, 2, 1, 3])
    q = draft.add("Mul", f"{name}.q_scaled", q, draft.number(f"{name}.scale", np.asarray(1 / sqrt(depth))))
    first, second = attention_products(name)
    scores = draft.add("MatMul", first, q, k)
    mixed = draft.add("MatMul", second, draft.add("Softmax", f"{name}.shares", scores, axis=-1), v)
    mixed = draft.add("Transpose", f"{name}.rows", mixed, perm=[0, 2, 1, 3])
    return draft.add("Reshape", name, mixed, draft.shape(f"{name}.width", 0, tokens, width))
