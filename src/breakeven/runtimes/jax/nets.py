"""Declared models as pure functions of JAX arrays, and their weights in the layout that these take.

Knows nothing about data, devices or training. Arrays go by the declared names; with `channels_last` images
are [n, H, W, C] and the weights of convolutions [k, k, in / groups, out], else [n, C, H, W] and as declared.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from breakeven.workloads import layers
from breakeven.workloads.weights import Weights

Array = Any  # jax.Array, or what stands for one while a program is traced
Arrays = dict[str, Array]

TO_LAST, FROM_LAST = (2, 3, 1, 0), (3, 2, 0, 1)
"""Axes of a convolution's weights: [out, in, k, k] to [k, k, in, out] and back."""


@dataclass(frozen=True, kw_only=True, slots=True)
class How:
    """How a net is run. `dtype`: what convolutions, linear layers and attention compute in; None, in the type
    of their weights. `key`: of dropout's draws, in training only.
    """

    channels_last: bool
    training: bool = False
    dtype: Any = None
    key: Array | None = None


@dataclass(slots=True)
class _Net:
    """A forward pass under way: `updated` gathers the running statistics that training moves on."""

    arrays: Mapping[str, Array]
    how: How
    updated: Arrays = field(default_factory=dict)
    drawn: int = 0

    def of(self, node: layers.Leaf, part: str) -> Array:
        return self.arrays[f"{node.name}.{part}"]


def forward(
    model: layers.Model, arrays: Mapping[str, Array], images: Array, how: How
) -> tuple[Array, Arrays]:
    """(scores [n, classes] or images made, running statistics that changed, by name) of normalised images."""
    net = _Net(arrays=arrays, how=how)
    scores = _run(net, model.nodes, images)
    return scores, net.updated


def placed(weights: Weights, *, channels_last: bool) -> dict[str, np.ndarray[Any, Any]]:
    """Declared weights in the layout that `forward` takes, on the host."""
    return {
        name: np.ascontiguousarray(array.transpose(TO_LAST)) if channels_last and array.ndim == 4 else array
        for name, array in weights.items()
    }


def declared(arrays: Mapping[str, Array], *, channels_last: bool) -> Weights:
    """Arrays back as they are declared, float32, on the host."""
    host = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
    return {
        name: np.ascontiguousarray(array.transpose(FROM_LAST)) if channels_last and array.ndim == 4 else array
        for name, array in host.items()
    }


def trained(name: str) -> bool:
    """Whether an array is a parameter; batch norm's running statistics are not."""
    return not name.endswith((".running_mean", ".running_var"))


def in_layout(images: np.ndarray[Any, Any], *, channels_last: bool) -> np.ndarray[Any, Any]:
    """Images [n, C, H, W] on the host as `forward` takes them."""
    return np.ascontiguousarray(images.transpose(0, 2, 3, 1)) if channels_last else images


def out_of_layout(made: np.ndarray[Any, Any], *, channels_last: bool) -> np.ndarray[Any, Any]:
    """What a net made, on the host, as it is declared: images [n, C, H, W], or scores as they are."""
    turned = channels_last and made.ndim == 4
    return np.ascontiguousarray(made.transpose(0, 3, 1, 2)) if turned else made


def _run(net: _Net, nodes: tuple[layers.Node, ...], x: Array) -> Array:
    for node in nodes:
        if isinstance(node, layers.Residual):
            total = _run(net, node.main, x) + _run(net, node.shortcut, x)
            x = jax.nn.relu(total) if node.relu else total
        else:
            x = _leaf(net, node, x)
    return x


def _leaf(net: _Net, node: layers.Leaf, x: Array) -> Array:
    match node:
        case layers.LayerNorm() | layers.GELU() | layers.Tokens() | layers.Attention() | layers.ClassToken():
            return _token_leaf(net, node, x)
        case (
            layers.Subsample()
            | layers.ConvTranspose2d()
            | layers.InstanceNorm2d()
            | layers.ReflectionPad2d()
            | layers.LeakyReLU()
            | layers.Tanh()
        ):
            return _image_leaf(net, node, x)
        case _:
            return _plain_leaf(net, node, x)


def _plain_leaf(net: _Net, node: layers.PlainLeaf, x: Array) -> Array:
    last = net.how.channels_last
    match node:
        case layers.Conv2d():
            return _conv(net, node, x)
        case layers.BatchNorm2d():
            return _batch_norm(net, node, x)
        case layers.Linear():
            weight, x = _in_type(net, net.of(node, "weight"), x)
            made = x @ weight.T
            return made + net.of(node, "bias").astype(made.dtype) if node.bias else made
        case layers.ReLU():
            return jax.nn.relu(x)
        case layers.ReLU6():
            # Unlike a minimum of a maximum, its gradient at 0 and 6 is 0, as torch's.
            return jnp.where(x <= 0, 0, jnp.where(x >= 6, 6, x)).astype(x.dtype)
        case layers.MaxPool2d():
            window, edge = _spatial(node.kernel, last), (node.padding, node.padding)
            pads = ((0, 0), edge, edge, (0, 0)) if last else ((0, 0), (0, 0), edge, edge)
            return lax.reduce_window(x, -jnp.inf, lax.max, window, _spatial(node.stride, last), pads)
        case layers.AdaptiveAvgPool2d():
            return jnp.mean(x, axis=(1, 2) if last else (2, 3), keepdims=True)
        case layers.Flatten():
            # Declared as channels, rows, columns.
            return (x.transpose(0, 3, 1, 2) if last and x.ndim == 4 else x).reshape(len(x), -1)
        case layers.Dropout():
            return _dropout(net, node, x)


def _image_leaf(net: _Net, node: layers.ImageLeaf, x: Array) -> Array:
    last, rows = net.how.channels_last, 1 if net.how.channels_last else 2
    match node:
        case layers.Subsample():
            every, more = slice(None, None, node.stride), node.out_channels - node.in_channels
            kept = x[:, every, every] if last else x[:, :, every, every]
            pads = [(0, 0)] * 4
            pads[3 if last else 1] = (more // 2, more - more // 2)
            return jnp.pad(kept, pads)
        case layers.ConvTranspose2d():
            return _conv_transpose(net, node, x)
        case layers.InstanceNorm2d():
            wide = _wide(x)
            centred = wide - wide.mean(axis=(rows, rows + 1), keepdims=True)
            variance = jnp.square(centred).mean(axis=(rows, rows + 1), keepdims=True)
            return (centred * lax.rsqrt(variance + node.eps)).astype(x.dtype)
        case layers.ReflectionPad2d():
            pads = [(0, 0)] * 4
            pads[rows] = pads[rows + 1] = (node.padding, node.padding)
            return jnp.pad(x, pads, mode="reflect")
        case layers.LeakyReLU():
            return jnp.where(x > 0, x, node.slope * x)
        case layers.Tanh():
            return jnp.tanh(x)


def _token_leaf(net: _Net, node: layers.TokenLeaf, x: Array) -> Array:
    match node:
        case layers.LayerNorm():
            weight, wide = net.of(node, "weight"), _wide(x)
            centred = wide - wide.mean(axis=-1, keepdims=True)
            normed = centred / jnp.sqrt(jnp.square(centred).mean(axis=-1, keepdims=True) + node.eps)
            made = normed * weight.astype(wide.dtype) + net.of(node, "bias").astype(wide.dtype)
            return made.astype(jnp.promote_types(x.dtype, weight.dtype))
        case layers.GELU():
            return jax.nn.gelu(x, approximate=False)
        case layers.Tokens():
            pixels = x if net.how.channels_last else x.transpose(0, 2, 3, 1)
            tokens = pixels.reshape(len(x), node.pixels, node.channels)
            first = net.of(node, "cls_token")
            first = jnp.broadcast_to(first, (len(x), 1, node.channels))
            return jnp.concatenate([first, tokens], axis=1) + net.of(node, "pos_embed")
        case layers.Attention():
            return _attention(net, node.heads, x)
        case layers.ClassToken():
            return x[:, 0]


def _attention(net: _Net, heads: int, x: Array) -> Array:
    """Softmax in FP32 at least; jax.nn.dot_product_attention has it in FP32 at most."""
    n, tokens, extent = x.shape
    width = extent // 3 // heads
    (x,) = _in_type(net, x)
    q, k, v = (part.reshape(n, tokens, heads, width) for part in jnp.split(x, 3, axis=-1))
    wide = jnp.promote_types(x.dtype, jnp.float32)
    scores = jnp.einsum("nqhw,nkhw->nhqk", q, k, preferred_element_type=wide) / width**0.5
    shares = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
    return jnp.einsum("nhqk,nkhw->nqhw", shares, v).reshape(n, tokens, extent // 3)


def _conv(net: _Net, node: layers.Conv2d, x: Array) -> Array:
    weight, x = _in_type(net, net.of(node, "weight"), x)
    last = net.how.channels_last
    edge = (node.padding, node.padding)
    made = lax.conv_general_dilated(
        x,
        weight,
        (node.stride, node.stride),
        (edge, edge),
        dimension_numbers=("NHWC", "HWIO", "NHWC") if last else ("NCHW", "OIHW", "NCHW"),
        feature_group_count=node.groups,
    )
    return made + _by_channel(net, net.of(node, "bias").astype(made.dtype)) if node.bias else made


def _conv_transpose(net: _Net, node: layers.ConvTranspose2d, x: Array) -> Array:
    """As the convolution that it is: of the input with zeros between its pixels, by the mirrored kernel."""
    weight, x = _in_type(net, net.of(node, "weight"), x)
    last, edge = net.how.channels_last, node.kernel - 1 - node.padding
    made = lax.conv_general_dilated(
        x,
        lax.rev(weight, (0, 1) if last else (2, 3)),
        (1, 1),
        ((edge, edge + node.output_padding),) * 2,
        lhs_dilation=(node.stride, node.stride),
        # Its weights are declared as [in, out, k, k], and laid out as a convolution's are.
        dimension_numbers=("NHWC", "HWOI", "NHWC") if last else ("NCHW", "IOHW", "NCHW"),
    )
    return made + _by_channel(net, net.of(node, "bias").astype(made.dtype)) if node.bias else made


def _batch_norm(net: _Net, node: layers.BatchNorm2d, x: Array) -> Array:
    """In FP32 at least, whatever the type of its input. In training the running variance is moved by the
    unbiased estimate, as torch does; the batch itself is divided by the biased one."""
    wide = _wide(x)
    mean, var = (net.of(node, f"running_{part}") for part in ("mean", "var"))
    if net.how.training:
        axes = (0, 1, 2) if net.how.channels_last else (0, 2, 3)
        n = x.size // node.channels
        batch_mean = wide.mean(axis=axes)
        batch_var = jnp.square(wide - _by_channel(net, batch_mean)).mean(axis=axes)
        for part, old, new in (("mean", mean, batch_mean), ("var", var, batch_var * (n / (n - 1)))):
            moved = (1 - node.momentum) * old + node.momentum * lax.stop_gradient(new).astype(old.dtype)
            net.updated[f"{node.name}.running_{part}"] = moved
        mean, var = batch_mean, batch_var
    scale = lax.rsqrt(var.astype(wide.dtype) + node.eps) * net.of(node, "weight").astype(wide.dtype)
    centred = wide - _by_channel(net, mean.astype(wide.dtype))
    bias = net.of(node, "bias").astype(wide.dtype)
    return (centred * _by_channel(net, scale) + _by_channel(net, bias)).astype(x.dtype)


def _dropout(net: _Net, node: layers.Dropout, x: Array) -> Array:
    if not net.how.training or net.how.key is None or node.p == 0:
        return x
    key = jax.random.fold_in(net.how.key, net.drawn)
    net.drawn += 1
    kept = jax.random.bernoulli(key, 1 - node.p, x.shape)
    return jnp.where(kept, x / (1 - node.p), 0).astype(x.dtype)


def _in_type(net: _Net, *arrays: Array) -> tuple[Array, ...]:
    """The arrays in the type that products are computed in."""
    return arrays if net.how.dtype is None else tuple(array.astype(net.how.dtype) for array in arrays)


def _wide(x: Array) -> Array:
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def _by_channel(net: _Net, values: Array) -> Array:
    return values if net.how.channels_last else values[:, None, None]


def _spatial(extent: int, last: bool) -> tuple[int, int, int, int]:
    return (1, extent, extent, 1) if last else (1, 1, extent, extent)
