"""Declared models as Keras models, and their weights as Keras lays them out.

Knows nothing about data, devices or training. Images are channels last: TensorFlow has no other convolutions
on a CPU.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from breakeven.runtimes.tensorflow import layers as own
from breakeven.runtimes.tensorflow.library import keras
from breakeven.workloads import layers
from breakeven.workloads.layers import Shape
from breakeven.workloads.weights import Weights

Array = np.ndarray[Any, Any]

CONV, DEPTHWISE = (2, 3, 1, 0), (2, 3, 0, 1)
"""Axes of a declared weight [out, in, k, k] in Keras's order [k, k, in, out]; of a depthwise one
[C, 1, k, k] in [k, k, C, 1]. The transpose's [in, out, k, k] becomes [k, k, out, in] by the former, too."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Held:
    """Where a declared tensor is held: a variable of Keras's, and its layout there and back."""

    variable: Any
    to_keras: Callable[[Array], Array]
    to_declared: Callable[[Array], Array]


@dataclass(frozen=True, kw_only=True, slots=True)
class Net:
    """A Keras model of images [n, H, W, C], and its variables by declared names, in declared order."""

    model: Any
    held: Mapping[str, Held]

    def __call__(self, images: Any, *, training: bool) -> Any:
        return self.model(images, training=training)

    @property
    def trained(self) -> list[Any]:
        return [held.variable for name, held in self.held.items() if ".running_" not in name]

    def load(self, weights: Weights) -> None:
        """Copies declared weights in. Raises ValueError for one that does not fit."""
        for name, held in self.held.items():
            held.variable.assign(held.to_keras(weights[name]))

    def weights(self) -> Weights:
        """The variables as they are now, as declared, float32."""
        found = {name: held.to_declared(held.variable.numpy()) for name, held in self.held.items()}
        return {name: np.ascontiguousarray(array, np.float32) for name, array in found.items()}


@dataclass(kw_only=True, slots=True)
class _Building:
    """A model under way. `flat`: shape of the map that was flattened last, for the next Linear's kernel."""

    policy: Any
    held: dict[str, Held] = field(default_factory=dict)
    flat: Shape | None = None

    def layer(self, kind: Any, node: layers.Node, *args: Any, **options: Any) -> Any:
        return kind(*args, name=node.name, dtype=self.policy, **options)

    def hold(
        self,
        node: layers.Leaf,
        part: str,
        variable: Any,
        to_keras: Callable[[Array], Array] = np.asarray,
        to_declared: Callable[[Array], Array] = np.asarray,
    ) -> None:
        name = f"{node.name}.{part}"
        self.held[name] = Held(variable=variable, to_keras=to_keras, to_declared=to_declared)

    def hold_transposed(self, node: layers.Leaf, part: str, variable: Any, axes: tuple[int, ...]) -> None:
        back = tuple(int(axis) for axis in np.argsort(axes))
        self.hold(node, part, variable, lambda a: a.transpose(axes), lambda a: a.transpose(back))


def build(model: layers.Model, weights: Weights, policy: Any) -> Net:
    """The model under a dtype policy of Keras's, with `weights` copied in."""
    channels, height, width = model.input_shape
    building = _Building(policy=policy)
    images = keras.Input((height, width, channels), dtype=keras.DTypePolicy(policy).compute_dtype)
    made = Net(model=keras.Model(images, _run(building, model.nodes, images)), held=building.held)
    made.load(weights)
    return made


def layer(leaf: layers.Leaf, shape: Shape, weights: Weights, policy: Any) -> Callable[[Any], Any]:
    """A net of one layer for inputs of a declared shape, as a function."""
    building = _Building(policy=policy)
    last = (*shape[1:], shape[0]) if len(shape) == 3 else shape
    x = keras.Input(last, dtype=keras.DTypePolicy(policy).compute_dtype)
    made = Net(model=keras.Model(x, _leaf(building, leaf, x)), held=building.held)
    made.load(weights)
    return lambda images: made(images, training=False)


def channels_last(images: Array) -> Array:
    """[n, C, H, W] -> [n, H, W, C]."""
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1))


def channels_first(made: Array) -> Array:
    """What a net makes as it is declared: images [n, H, W, C] -> [n, C, H, W], scores as they are."""
    return np.ascontiguousarray(made.transpose(0, 3, 1, 2)) if made.ndim == 4 else made


def _run(building: _Building, nodes: tuple[layers.Node, ...], x: Any) -> Any:
    for node in nodes:
        if isinstance(node, layers.Residual):
            pair = [_run(building, node.main, x), _run(building, node.shortcut, x)]
            x = keras.layers.Add(name=f"{node.name}.add", dtype=building.policy)(pair)
            if node.relu:
                x = keras.layers.ReLU(name=f"{node.name}.relu", dtype=building.policy)(x)
        else:
            x = _leaf(building, node, x)
    return x


def _leaf(building: _Building, node: layers.Leaf, x: Any) -> Any:
    match node:
        case layers.LayerNorm() | layers.GELU() | layers.Tokens() | layers.Attention() | layers.ClassToken():
            return _token_leaf(building, node, x)
        case (
            layers.Subsample()
            | layers.ConvTranspose2d()
            | layers.InstanceNorm2d()
            | layers.ReflectionPad2d()
            | layers.LeakyReLU()
            | layers.Tanh()
        ):
            return _image_leaf(building, node, x)
        case layers.Conv2d():
            return _conv(building, node, x)
        case layers.Linear():
            return _linear(building, node, x)
        case layers.BatchNorm2d():
            return _batch_norm(building, node, x)
        case _:
            return _plain(building, node, x)


def _plain(
    building: _Building,
    node: layers.ReLU
    | layers.ReLU6
    | layers.MaxPool2d
    | layers.AdaptiveAvgPool2d
    | layers.Flatten
    | layers.Dropout,
    x: Any,
) -> Any:
    match node:
        case layers.ReLU():
            return building.layer(keras.layers.ReLU, node)(x)
        case layers.ReLU6():
            return building.layer(keras.layers.ReLU, node, max_value=6.0)(x)
        case layers.MaxPool2d():
            return building.layer(own.PaddedMaxPool, node, node.kernel, node.stride, node.padding)(x)
        case layers.AdaptiveAvgPool2d():
            return building.layer(keras.layers.GlobalAveragePooling2D, node, keepdims=True)(x)
        case layers.Flatten():
            _, height, width, channels = x.shape
            building.flat = (channels, height, width)
            return building.layer(keras.layers.Flatten, node)(x)
        case _:
            return building.layer(keras.layers.Dropout, node, node.p)(x)


def _conv(building: _Building, node: layers.Conv2d, x: Any) -> Any:
    """'same' where it means the declared padding; else the edge is padded first, as Keras's own nets do.

    At a stride of 2 'same' pads the right and the lower edge only.
    """
    same = node.stride == 1 and 2 * node.padding == node.kernel - 1
    if node.padding and not same:
        x = keras.layers.ZeroPadding2D(node.padding, name=f"{node.name}.pad", dtype=building.policy)(x)
    options = {"strides": node.stride, "padding": "same" if same else "valid", "use_bias": node.bias}
    depthwise = node.groups == node.in_channels and node.groups > 1
    if depthwise:
        multiplier = node.out_channels // node.groups
        made = building.layer(
            keras.layers.DepthwiseConv2D, node, node.kernel, depth_multiplier=multiplier, **options
        )
    else:
        made = building.layer(
            keras.layers.Conv2D, node, node.out_channels, node.kernel, groups=node.groups, **options
        )
    out = made(x)
    if depthwise and node.out_channels != node.in_channels:
        raise NotImplementedError(f"{node.name}: a depthwise convolution with more channels out than in")
    building.hold_transposed(node, "weight", made.kernel, DEPTHWISE if depthwise else CONV)
    if node.bias:
        building.hold(node, "bias", made.bias)
    return out


def _linear(building: _Building, node: layers.Linear, x: Any) -> Any:
    """Rows of the kernel in the order of the map that was flattened: ours is channels first, Keras's last."""
    made = building.layer(keras.layers.Dense, node, node.out_features, use_bias=node.bias)
    out = made(x)
    flat, building.flat = building.flat, None
    if flat is None or flat[1] * flat[2] == 1:
        building.hold_transposed(node, "weight", made.kernel, (1, 0))
    else:
        channels, height, width = flat

        def to_keras(weight: Array) -> Array:
            maps = weight.reshape(-1, channels, height, width)
            return maps.transpose(2, 3, 1, 0).reshape(-1, node.out_features)

        def to_declared(kernel: Array) -> Array:
            maps = kernel.reshape(height, width, channels, -1)
            return maps.transpose(3, 2, 0, 1).reshape(node.out_features, -1)

        building.hold(node, "weight", made.kernel, to_keras, to_declared)
    if node.bias:
        building.hold(node, "bias", made.bias)
    return out


def _batch_norm(building: _Building, node: layers.BatchNorm2d, x: Any) -> Any:
    made = building.layer(own.BatchNorm, node, epsilon=node.eps, momentum=1 - node.momentum)
    out = made(x)
    for part, variable in (
        ("weight", made.gamma),
        ("bias", made.beta),
        ("running_mean", made.moving_mean),
        ("running_var", made.moving_variance),
    ):
        building.hold(node, part, variable)
    return out


def _token_leaf(building: _Building, node: layers.TokenLeaf, x: Any) -> Any:
    match node:
        case layers.LayerNorm():
            made = building.layer(keras.layers.LayerNormalization, node, epsilon=node.eps)
            out = made(x)
            building.hold(node, "weight", made.gamma)
            building.hold(node, "bias", made.beta)
            return out
        case layers.GELU():
            return building.layer(own.Gelu, node)(x)
        case layers.Tokens():
            made = building.layer(own.Tokens, node, node.channels, node.pixels)
            out = made(x)
            building.hold(node, "cls_token", made.cls_token)
            building.hold(node, "pos_embed", made.pos_embed)
            return out
        case layers.Attention():
            return building.layer(own.Attention, node, node.heads)(x)
        case layers.ClassToken():
            return building.layer(own.ClassToken, node)(x)


def _image_leaf(building: _Building, node: layers.ImageLeaf, x: Any) -> Any:
    match node:
        case layers.Subsample():
            more = node.out_channels - node.in_channels
            return building.layer(own.Subsample, node, more, node.stride)(x)
        case layers.ConvTranspose2d():
            return _transposed(building, node, x)
        case layers.InstanceNorm2d():
            return building.layer(own.InstanceNorm, node, node.eps)(x)
        case layers.ReflectionPad2d():
            return building.layer(own.ReflectionPad, node, node.padding)(x)
        case layers.LeakyReLU():
            return building.layer(own.LeakyReLU, node, node.slope)(x)
        case layers.Tanh():
            return building.layer(keras.layers.Activation, node, "tanh")(x)


def _transposed(building: _Building, node: layers.ConvTranspose2d, x: Any) -> Any:
    """The whole product, of which the padding is cut off: below less by what `output_padding` asks for."""
    if node.output_padding > node.padding:
        raise NotImplementedError(f"{node.name}: more output padding than padding")
    made = building.layer(
        keras.layers.Conv2DTranspose,
        node,
        node.out_channels,
        node.kernel,
        strides=node.stride,
        padding="valid",
        use_bias=node.bias,
    )
    out = made(x)
    building.hold_transposed(node, "weight", made.kernel, CONV)
    if node.bias:
        building.hold(node, "bias", made.bias)
    if not node.padding:
        return out
    cut = (node.padding, node.padding - node.output_padding)
    return keras.layers.Cropping2D((cut, cut), name=f"{node.name}.crop", dtype=building.policy)(out)
