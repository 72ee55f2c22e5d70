"""Philox numbers, order, augmentation and weights: golden values, purity, distribution.

A changed golden value means that every published result's seeds mean something else: raise id_version then.
"""

from __future__ import annotations

import hashlib
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.workloads import philox
from breakeven.workloads.layers import Conv2d, Linear, leaves
from breakeven.workloads.models import model
from breakeven.workloads.order import (
    apply_augmentation,
    augment_hash,
    augmentation_table,
    epoch_order,
    order_hash,
)
from breakeven.workloads.weights import initial_weights, weights_hash

keys = st.integers(min_value=0, max_value=2**128 - 1)
seeds = st.integers(min_value=0, max_value=2**63)
sizes = st.integers(min_value=0, max_value=300)


def test_golden_numbers() -> None:
    assert philox.derive(0, "order", 1) == int.from_bytes(
        hashlib.sha256(b'["order",0,1]').digest()[:16], "little"
    )
    assert philox.words(philox.derive(0, "test"), 3).tolist() == [
        4924685415798862862,
        5433053434629732689,
        15395672236453269120,
    ]
    unit = ["0x1.36da89edd58a0p-2", "0x1.b289f407757c1p-1"]
    assert [value.hex() for value in philox.uniform(1, 2).tolist()] == unit
    both_sides = ["-0x1.53afc00000000p-4", "-0x1.924af00000000p-2", "0x1.d5f0700000000p-2"]
    assert [value.hex() for value in philox.symmetric(1, 3, 1.0).tolist()] == both_sides
    assert philox.permutation(1, 8).tolist() == [3, 5, 2, 7, 0, 6, 1, 4]
    assert philox.integers(1, 5, 10).tolist() == [7, 5, 8, 6, 4]
    assert philox.octets(1, 11).tolist() == [223, 130, 98, 117, 123, 162, 182, 77, 47, 14, 190]


def test_golden_tables_and_weights() -> None:
    order, table = epoch_order(0, 0, 100), augmentation_table(0, 0, 100)
    assert order_hash(order) == "fd8b397f1daebbdf6cf957b9b30ab46ca1dc213e19fb55b8dd0a529136ee839b"
    assert augment_hash(table) == "e212a222527c4b853936a224a8221e09f0517bef70e078c787afa5fff428285f"
    golden = {
        "simple-cnn": "b416ff9818f07e7dc6b8351f60ab0628b57d08e1920765e93e205ff0e0d5fee6",
        "simple-cnn-w0.25": "0df704eee741f6e84fa42e7a6ba87bbbc3d3f4e4b058d6796edf6f70f2f4647b",
        "resnet18": "bceb20614dbd625e50382f74254f355ce20d1e2e3e076fbe8cdc0c8bdfacedb8",
        "vit-tiny": "1d968a563d2601eac39536b768ace3ea23ca179fcd9c7cbadc0b7625b0082dc5",
    }
    assert {name: weights_hash(initial_weights(model(name), 0)) for name in golden} == golden


@given(keys, sizes, sizes)
def test_a_shorter_draw_is_a_prefix(key: int, n: int, m: int) -> None:
    n, m = sorted((n, m))
    for draw in (philox.words, philox.uniform, philox.octets):
        assert np.array_equal(draw(key, m)[:n], draw(key, n))
    assert np.array_equal(philox.integers(key, m, 7)[:n], philox.integers(key, n, 7))
    assert np.array_equal(philox.symmetric(key, m, 0.1)[:n], philox.symmetric(key, n, 0.1))


@given(keys, sizes)
def test_a_permutation_has_every_index_once(key: int, n: int) -> None:
    assert sorted(philox.permutation(key, n).tolist()) == list(range(n))


@given(keys, st.integers(1, 2**32))
def test_ranges(key: int, bound: int) -> None:
    unit = philox.uniform(key, 64)
    assert ((unit >= 0) & (unit < 1)).all()
    drawn = philox.integers(key, 64, bound)
    assert ((drawn >= 0) & (drawn < bound)).all()
    symmetric = philox.symmetric(key, 65, 0.25)
    assert symmetric.dtype == np.float32
    assert ((symmetric >= -0.25) & (symmetric < 0.25)).all()


@given(st.text(max_size=8), st.text(max_size=8), st.lists(st.integers(0, 99), max_size=3), seeds)
def test_keys_differ_unless_all_is_equal(one: str, other: str, ints: list[int], seed: int) -> None:
    key = philox.derive(seed, one, *ints)
    assert (key == philox.derive(seed, other, *ints)) == (one == other)
    assert key != philox.derive(seed + 1, one, *ints)
    assert key != philox.derive(seed, one, *ints, 0)
    assert 0 <= key < 2**128


def test_numpy_integers_make_the_same_key() -> None:
    assert philox.derive(3, "a", 4) == philox.derive(int(np.int64(3)), "a", int(np.int32(4)))


def test_numbers_are_spread_evenly() -> None:
    """Mean and variance of 100,000 uniforms within 5 standard errors."""
    unit = philox.uniform(philox.derive(0, "spread"), 100_000)
    assert abs(unit.mean() - 0.5) < 5 * (1 / 12 / 1e5) ** 0.5
    assert abs(unit.var() - 1 / 12) < 5 * (1 / 180 / 1e5) ** 0.5
    counts = np.bincount(philox.integers(philox.derive(0, "spread"), 90_000, 9), minlength=9)
    assert abs(counts - 10_000).max() < 5 * 10_000**0.5


@given(seeds, st.integers(0, 1000), sizes, sizes)
def test_augmentation_depends_on_seed_epoch_and_index_only(seed: int, epoch: int, n: int, m: int) -> None:
    n, m = sorted((n, m))
    table = augmentation_table(seed, epoch, m)
    assert table.dtype == np.int8 and table.shape == (m, 3)
    assert np.array_equal(table[:n], augmentation_table(seed, epoch, n))
    assert ((table >= 0) & (table <= np.array([8, 8, 1]))).all()


def test_every_crop_and_flip_occurs_about_equally_often() -> None:
    table = augmentation_table(0, 3, 81_000)
    for column, values in ((0, 9), (1, 9), (2, 2)):
        expected = 81_000 / values
        assert abs(np.bincount(table[:, column]) - expected).max() < 5 * expected**0.5


@given(seeds, st.integers(0, 1000))
def test_epochs_and_seeds_differ(seed: int, epoch: int) -> None:
    order = epoch_order(seed, epoch, 100)
    assert order.dtype == np.int64
    assert np.array_equal(order, epoch_order(seed, epoch, 100))
    assert not np.array_equal(order, epoch_order(seed, epoch + 1, 100))
    assert not np.array_equal(order, epoch_order(seed + 1, epoch, 100))
    assert order_hash(order) != order_hash(epoch_order(seed, epoch + 1, 100))


def test_augmentation_moves_pixels_as_said() -> None:
    image = np.arange(1, 3 * 32 * 32 + 1, dtype=np.uint32).astype(np.uint8).reshape(1, 3, 32, 32)
    images = image.repeat(4, axis=0)
    rows = np.array([[4, 4, 0], [4, 4, 1], [0, 8, 0], [8, 0, 1]], dtype=np.int8)
    out = apply_augmentation(images, rows)
    assert out.dtype == np.uint8 and out.shape == images.shape
    assert np.array_equal(out[0], image[0])  # the centre
    assert np.array_equal(out[1], image[0, :, :, ::-1])
    assert not out[2, :, :, :4].any() and not out[2, :, -4:].any()  # dx 0: from the left rim; dy 8: to below
    assert np.array_equal(out[2, :, :28, 4:], image[0, :, 4:, :28])
    assert np.array_equal(out[3, :, 4:, 4:][:, :, ::-1], image[0, :, :28, 4:])  # flip comes last


@pytest.mark.parametrize("name", ["simple-cnn", "simple-cnn-w0.5", "resnet18", "resnet50-cifar", "vit-tiny"])
def test_weights_have_the_declared_bounds_and_variance(name: str) -> None:
    net = model(name)
    weights = initial_weights(net, 1)
    drawn = [leaf for leaf in leaves(net.nodes) if isinstance(leaf, Conv2d | Linear)]
    for leaf in drawn:
        weight = weights[f"{leaf.name}.weight"]
        assert weight.dtype == np.float32
        if isinstance(leaf, Conv2d):
            variance = 2 / (leaf.out_channels * leaf.kernel**2)
        else:
            variance = 1 / (3 * leaf.in_features)
        assert abs(weight).max() <= (3 * variance) ** 0.5 * (1 + 1e-6)
        # The variance of a uniform sample's variance is 4/5 of its square over n.
        assert abs(weight.var() / variance - 1) < 5 * (0.8 / weight.size) ** 0.5


def test_weights_cover_the_state_dict() -> None:
    weights = initial_weights(model("resnet18"), 0)
    assert len(weights) == 62 + 2 * 20  # parameters, and mean and variance of 20 BatchNorms
    assert (weights["bn1.running_var"] == 1).all() and (weights["bn1.weight"] == 1).all()
    assert not weights["bn1.running_mean"].any() and not weights["bn1.bias"].any()
    assert weights["fc.bias"].any()


def test_a_vit_starts_with_small_tokens_and_identical_normalisation() -> None:
    weights = initial_weights(model("vit-tiny"), 0)
    assert len(weights) == 2 + 2 + 12 * 12 + 2 + 2  # patches, tokens, blocks, norm, head
    assert (weights["blocks.11.norm2.weight"] == 1).all() and not weights["norm.bias"].any()
    for name, shape in {"embed.cls_token": (1, 1, 192), "embed.pos_embed": (1, 65, 192)}.items():
        assert weights[name].shape == shape
        assert abs(weights[name]).max() <= 0.02 * 3**0.5 * (1 + 1e-6)
        # The variance of a uniform sample's variance is 4/5 of its square over n.
        assert abs(weights[name].var() / 0.02**2 - 1) < 5 * (0.8 / weights[name].size) ** 0.5


def test_a_tensor_depends_on_its_name_and_seed_only() -> None:
    small, large = initial_weights(model("resnet18"), 0), initial_weights(model("resnet34"), 0)
    assert np.array_equal(small["layer1.0.conv1.weight"], large["layer1.0.conv1.weight"])
    other = initial_weights(model("resnet18"), 1)
    assert not np.array_equal(small["conv1.weight"], other["conv1.weight"])
    assert weights_hash(small) != weights_hash(other)
    assert weights_hash(small) == weights_hash(dict(reversed(small.items())))


def test_the_hash_sees_names_and_shapes() -> None:
    zeros = np.zeros(4, np.float32)
    hashes = {
        weights_hash(w) for w in ({"a": zeros}, {"b": zeros}, {"a": zeros.reshape(2, 2)}, {"a": zeros + 1})
    }
    assert len(hashes) == 4


def test_resnet50_is_quick() -> None:
    net = model("resnet50")
    began = time.process_time()
    initial_weights(net, 0)
    assert time.process_time() - began < 2.0  # seconds; 0.3 measured
