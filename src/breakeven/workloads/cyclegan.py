"""CycleGAN: its four nets as declared layers, and one alternating training step in words that all follow.

Knows nothing about frameworks. Zhu et al. 2017 (arXiv:1703.10593) as its authors' code has it: instance norm
without parameters, so every convolution has a bias; least-squares losses; weights of variance 0.02^2 (uniform
here, as `weights` says), biases 0; the generator of nine residual blocks, the discriminator of 70x70 patches.

One step on a batch of pairs (a, b), a of domain A and b of domain B, images within -1..1; `mean` over all
elements, so a batch counts as one image does:

1. fake_b = g_ab(a), rec_a = g_ba(fake_b), fake_a = g_ba(b), rec_b = g_ab(fake_a),
   same_b = g_ab(b), same_a = g_ba(a); six passes of generators.
2. Generator loss, without gradients of the discriminators' weights:
     mean((d_b(fake_b) - 1)^2) + mean((d_a(fake_a) - 1)^2)
     + cycle * (mean|rec_a - a| + mean|rec_b - b|)
     + cycle * identity * (mean|same_b - b| + mean|same_a - a|)
   One Adam step of g_ab and g_ba.
3. old_b = pool of B asked with fake_b, old_a = pool of A asked with fake_a: those of 1., without gradients;
   the generators that have just moved make no new ones.
4. For each domain X, with real x: half of mean((d_x(x) - 1)^2) + mean(d_x(old_x)^2).
   Both summed, one Adam step of d_a and d_b.

The learning rate of both is `schedule.learning_rate`. `losses` are the generator losses of 2., in order.
A pool holds the first `pool` images it is asked with and gives each back; then, by the draws of `pool_draws`,
it either gives the image back or swaps it for the one in a slot. Without a pool the image comes back.
Pair number i of an epoch is sample order_a[i] of A and order_b[i] of B, each domain in an order of its own
(`domain_seed`); an epoch has as many pairs as the smaller domain has images.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from breakeven.errors import UserError
from breakeven.records.case import Recipe
from breakeven.workloads.layers import (
    Conv2d,
    ConvTranspose2d,
    InstanceNorm2d,
    LeakyReLU,
    Model,
    Node,
    Pass,
    ReflectionPad2d,
    ReLU,
    Residual,
    Tanh,
)
from breakeven.workloads.philox import derive, words
from breakeven.workloads.weights import Weights, initial_weights

InputShape = tuple[int, int, int]

NAME = "cyclegan"
GENERATORS = ("g_ab", "g_ba")
DISCRIMINATORS = ("d_a", "d_b")
NETS = (*GENERATORS, *DISCRIMINATORS)
"""What the nets are called; names of their tensors begin with it and a dot."""

WEIGHT_STD = 0.02
BASE, BLOCKS = 64, 9
"""Channels after the first layer of either net, and residual blocks of a generator."""

RECIPE = Recipe(
    loss="cyclegan",
    lr=2e-4,
    beta1=0.5,
    schedule="linear",
    epochs=200,
    cycle=10.0,
    identity=0.5,
    pool=50,
)
"""The paper's, but for what is done to the images: cropped and mirrored as everywhere, at one size."""


def model(input_shape: InputShape, *, base: int = BASE, blocks: int = BLOCKS) -> Model:
    """The generator from A to B, with the passes of the whole training step.

    Raises UserError for extents that are no multiples of 4.
    """
    if any(extent % 4 for extent in input_shape[1:]):
        raise UserError(f"model {NAME} halves images twice: their extents must be multiples of 4")
    made = generator(input_shape[0], base=base, blocks=blocks)
    return Model(
        name=NAME,
        num_classes=input_shape[0],
        input_shape=input_shape,
        nodes=made,
        passes=_passes(input_shape, made, discriminator(input_shape[0], base=base)),
        weight_std=WEIGHT_STD,
    )


def nets(whole: Model) -> dict[str, Model]:
    """The four nets of a model by name, each by itself: what runtimes build."""
    nodes = {one.net: one.nodes for one in whole.passes}
    return {name: replace(whole, name=name, nodes=nodes[name], passes=()) for name in NETS}


def first_weights(whole: Model, seed: int) -> Weights:
    """Where training begins: every tensor of the four nets, named `NET.TENSOR`; those of g_ab are the very
    ones that inference with the same seed draws."""
    made: Weights = {}
    for net, declared in nets(whole).items():
        own = seed if net == GENERATORS[0] else derive(seed, f"net:{net}")
        made |= {f"{net}.{name}": tensor for name, tensor in initial_weights(declared, own).items()}
    return made


def part(weights: Weights, net: str) -> Weights:
    """Of tensors of the four nets those of one, by its own names."""
    own = f"{net}."
    return {name.removeprefix(own): tensor for name, tensor in weights.items() if name.startswith(own)}


def generator(channels: int, *, base: int = BASE, blocks: int = BLOCKS) -> tuple[Node, ...]:
    """c7s1-64, d128, d256, R256 times nine, u128, u64, c7s1-3 in the paper's words; output within -1..1."""
    nodes: list[Node] = [
        ReflectionPad2d(name="pad0", padding=3),
        *_normed("down0", Conv2d(name="down0", in_channels=channels, out_channels=base, kernel=7, bias=True)),
    ]
    for index, wide in enumerate((2 * base, 4 * base), start=1):
        name = f"down{index}"
        nodes += _normed(name, _conv(name, wide // 2, wide, kernel=3, stride=2))
    nodes += [_block(f"block{index}", 4 * base) for index in range(blocks)]
    for index, wide in enumerate((4 * base, 2 * base)):
        name = f"up{index}"
        nodes += _normed(name, _up(name, wide, wide // 2))
    return (
        *nodes,
        ReflectionPad2d(name="pad1", padding=3),
        Conv2d(name="out", in_channels=base, out_channels=channels, kernel=7, bias=True),
        Tanh(name="tanh"),
    )


def discriminator(channels: int, *, base: int = BASE) -> tuple[Node, ...]:
    """C64, C128, C256, C512 in the paper's words, then one score for each patch of 70x70 pixels."""
    nodes: list[Node] = [_conv("conv0", channels, base, kernel=4, stride=2), LeakyReLU(name="relu0")]
    for index, (taken, made, stride) in enumerate(
        ((base, 2 * base, 2), (2 * base, 4 * base, 2), (4 * base, 8 * base, 1)), start=1
    ):
        nodes += [
            _conv(f"conv{index}", taken, made, kernel=4, stride=stride),
            InstanceNorm2d(name=f"norm{index}", channels=made),
            LeakyReLU(name=f"relu{index}"),
        ]
    return (*nodes, _conv("conv4", 8 * base, 1, kernel=4, stride=1))


def domain_seed(seed: int, domain: int) -> int:
    """The seed of a domain's order and augmentation: 0 is A, whose is the case's own, 1 is B."""
    return seed if domain == 0 else derive(seed, "domain", domain)


def pool_draws(seed: int, domain: int, first: int, n: int, pool: int) -> NDArray[np.int64]:
    """(swap, slot) of images number first..first + n - 1 that a domain's pool is asked with, int64 [n, 2].

    Whether an image is swapped for the one in `slot`, each with probability 1/2; without meaning while the
    pool is not full. Numbers count from the start of training.
    """
    if pool < 1:
        return np.zeros((n, 2), np.int64)
    raw = np.stack([words(derive(seed, "pool", domain, first + i), 2) for i in range(n)])
    return np.stack([raw[:, 0] >> np.uint64(63), raw[:, 1] % np.uint64(pool)], axis=1).astype(np.int64)


def _passes(shape: InputShape, made: tuple[Node, ...], judge: tuple[Node, ...]) -> tuple[Pass, ...]:
    """By the steps of the module's text: real and identity images, cycles, judged for either update."""
    first = [Pass(net=net, input_shape=shape, nodes=made, times=2) for net in GENERATORS]
    cycles = [Pass(net=net, input_shape=shape, nodes=made, input_gradient=True) for net in GENERATORS]
    fooled = [
        Pass(net=net, input_shape=shape, nodes=judge, input_gradient=True, weight_gradient=False)
        for net in DISCRIMINATORS
    ]
    judged = [Pass(net=net, input_shape=shape, nodes=judge, times=2) for net in DISCRIMINATORS]
    return (*first, *cycles, *fooled, *judged)


def _normed(name: str, product: Conv2d | ConvTranspose2d) -> tuple[Node, ...]:
    norm = InstanceNorm2d(name=f"{name}_norm", channels=product.out_channels)
    return product, norm, ReLU(name=f"{name}_relu")


def _block(name: str, channels: int) -> Residual:
    main: list[Node] = []
    for index in (1, 2):
        main += [
            ReflectionPad2d(name=f"{name}.pad{index}", padding=1),
            Conv2d(
                name=f"{name}.conv{index}", in_channels=channels, out_channels=channels, kernel=3, bias=True
            ),
            InstanceNorm2d(name=f"{name}.norm{index}", channels=channels),
        ]
        if index == 1:
            main.append(ReLU(name=f"{name}.relu1"))
    return Residual(name=name, main=tuple(main), relu=False)


def _conv(name: str, channels: int, out: int, *, kernel: int, stride: int) -> Conv2d:
    return Conv2d(
        name=name,
        in_channels=channels,
        out_channels=out,
        kernel=kernel,
        stride=stride,
        padding=1,
        bias=True,
    )


def _up(name: str, channels: int, out: int) -> ConvTranspose2d:
    return ConvTranspose2d(
        name=name, in_channels=channels, out_channels=out, kernel=3, stride=2, padding=1, output_padding=1
    )
