"""Batches: the loader's path, the device's path and the workload's reference give the same ones."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from breakeven.records.case import Recipe
from breakeven.workloads import order

from .torch_cases import case

pytestmark = pytest.mark.framework


@pytest.fixture
def batches() -> Iterator[Any]:
    from breakeven.runtimes.torch import session

    opened = []

    def open_(epoch: int = 0, step: int = 0, n: int = 2, **changes: Any) -> list[tuple[Any, Any]]:
        asked = case(**changes)
        built = session.build(asked)
        opened.append(built.batches)
        built.batches.begin(epoch, step)
        return [built.batches.next() for _ in range(n)]

    yield open_
    for source in opened:
        source.close()


def test_host_and_device_batches_are_equal(batches: Any) -> None:
    import torch

    for epoch in (0, 3):
        host, device = batches(epoch), batches(epoch, residency="device")
        for (images, labels), (other, others) in zip(host, device, strict=True):
            torch.testing.assert_close(images, other, rtol=0, atol=1e-6)
            assert torch.equal(labels, others)


def test_batches_are_the_workloads_reference(batches: Any) -> None:
    from breakeven.workloads import data

    train, known = data.load("digits", "train"), data.entry("digits")
    chosen = order.epoch_order(0, 1, len(train.labels))[:64]
    table = order.augmentation_table(0, 1, len(train.labels))[chosen]
    pixels = order.apply_augmentation(train.images[chosen], table) / 255
    mean, std = (np.array(v)[:, None, None] for v in (known.mean, known.std))
    (images, labels), *_ = batches(1)
    np.testing.assert_allclose(images.numpy(), (pixels - mean) / std, atol=1e-6)
    np.testing.assert_array_equal(labels.numpy(), train.labels[chosen])


def test_workers_change_nothing_and_stop(batches: Any) -> None:
    import torch

    alone, together = batches(2, n=3), batches(2, n=3, workers=2)
    for (images, labels), (other, others) in zip(alone, together, strict=True):
        assert torch.equal(images, other) and torch.equal(labels, others)


def test_workers_outlive_an_epoch_and_see_the_next() -> None:
    import torch

    from breakeven.runtimes.torch import session

    built, alone = session.build(case(workers=2)), session.build(case())
    others = set(multiprocessing.active_children())
    seen = []
    for epoch in (0, 1):  # the rest of epoch 0 is dropped
        built.batches.begin(epoch, 0)
        alone.batches.begin(epoch, 0)
        assert torch.equal(built.batches.next()[0], alone.batches.next()[0])
        seen.append(set(multiprocessing.active_children()) - others)
    assert len(seen[0]) == 2 and seen[0] == seen[1]
    built.batches.close()
    assert not set(multiprocessing.active_children()) & seen[0]


def test_an_epoch_can_begin_at_a_step(batches: Any) -> None:
    import torch

    for tuning in ({}, {"residency": "device"}):
        assert torch.equal(batches(1, 0, 3, **tuning)[2][0], batches(1, 2, 1, **tuning)[0][0])


@pytest.mark.parametrize("residency", ["host", "device"])
def test_the_incomplete_batch_is_dropped(residency: str) -> None:
    """1437 samples in batches of 128: 11 steps, 29 samples left out."""
    from breakeven.runtimes.torch import session

    built = session.build(case(batch=128, residency=residency))
    built.batches.begin(0, 0)
    shapes = []
    with pytest.raises(StopIteration):
        while True:
            shapes.append(len(built.batches.next()[0]))
    assert shapes == [128] * 11


def test_without_augmentation_only_the_order_changes(batches: Any) -> None:
    import torch

    plain = Recipe(augment="none")
    (host, _), *_ = batches(0, n=1, recipe=plain)
    (device, _), *_ = batches(0, n=1, recipe=plain, residency="device")
    torch.testing.assert_close(host, device, rtol=0, atol=1e-6)
    (augmented, _), *_ = batches(0, n=1)
    assert not torch.equal(host, augmented)


def test_layout_of_batches(batches: Any) -> None:
    import torch

    for residency in ("host", "device"):
        (images, _), *_ = batches(n=1, layout="channels-last", residency=residency)
        assert images.is_contiguous(memory_format=torch.channels_last)
        assert not images.is_contiguous()
