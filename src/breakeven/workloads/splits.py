"""A split as a training uses it: which samples come when, cropped and flipped how.

Knows nothing about frameworks: NumPy arrays that every runtime only applies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from breakeven.records.case import Work
from breakeven.workloads import cyclegan, data, order, philox
from breakeven.workloads.data import DataEntry, DataSet, normalized
from breakeven.workloads.fitting import known_data

HASHED_EPOCHS = 2
"""Orders and augmentation tables of the first epochs that hashes cover: one would miss a frozen epoch."""


MOVED = 64
"""Levels of 256, the first by which a byte is not moved. Where pictures are flat, or enlarged as `digits` is,
whole patches are equal: their maxima tie, rounding alone says which of them a gradient goes to, and says the
same all over the picture. FP32 gradients of conv6-seed on `digits` were 0.5 % off FP64's by that, at batch
32 0.7 to 0.9 %. Few levels leave near ties: of 16 batches one was 0.3 % off with 8, none by 1e-5 with 64."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """One split and how it is prepared. `seed`: order and augmentation of training; None: in order, as is."""

    data: DataSet
    known: DataEntry
    seed: int | None
    augment: bool

    @property
    def n(self) -> int:
        return len(self.data.labels)

    @property
    def augmented(self) -> bool:
        return self.augment and self.seed is not None

    def order(self, epoch: int) -> NDArray[np.int64]:
        """Sample indices in order of use, int64 [n]."""
        return np.arange(self.n) if self.seed is None else order.epoch_order(self.seed, epoch, self.n)

    def offsets(self, epoch: int) -> NDArray[np.int8] | None:
        """(dx, dy, flip) by sample index; None without augmentation."""
        if not self.augmented or self.seed is None:
            return None
        return order.augmentation_table(self.seed, epoch, self.n)

    def columns(self, epoch: int) -> NDArray[np.int64]:
        """What each sample of an epoch is cut by, in order of use: [1 or 4, n] of index, dx, dy, flip."""
        chosen, table = self.order(epoch), self.offsets(epoch)
        return np.stack([chosen] if table is None else [chosen, *table[chosen].astype(np.int64).T])

    def first(self, n: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        """Images [n, C, H, W], normalised and not augmented, and labels of the first samples of epoch 0."""
        chosen = self.order(0)[:n]
        return normalized(self.known, self.data.images[chosen]), self.data.labels[chosen]

    def untied(self, n: int, draw: int = 0) -> Split:
        """The `draw`-th n samples as a split of their own, each byte moved by less than MOVED to the middle.

        For comparing gradients of two arithmetics. A split that is too small begins again.
        """
        chosen = np.resize(self.order(0), n * (draw + 1))[n * draw :]
        pixels = self.data.images[chosen]
        moves = philox.octets(philox.derive(draw, "untied"), pixels.size).reshape(pixels.shape) % MOVED
        moved = np.where(pixels < 128, pixels + moves, pixels - moves)
        return replace(self, data=replace(self.data, images=moved, labels=self.data.labels[chosen]))


def of(work: Work) -> tuple[Split, Split]:
    """(training's split, the test split) of a work. Raises Unsupported where its data are others here."""
    assert work.recipe is not None
    known, augment = known_data(work), work.recipe.augment == "crop-flip"
    train, test = data.load(work.data, "train"), data.load(work.data, "test")
    return (
        Split(data=train, known=known, seed=work.seed, augment=augment),
        Split(data=test, known=known, seed=None, augment=False),
    )


def of_domains(work: Work) -> tuple[Split, Split, Split]:
    """(A's and B's for training, A's for testing) of a work that translates, each domain in its own order."""
    assert work.recipe is not None
    known, augment = known_data(work), work.recipe.augment == "crop-flip"
    train, test = data.load(work.data, "train"), data.load(work.data, "test")
    a, b = (
        Split(
            data=data.of_domain(train, domain),
            known=known,
            seed=cyclegan.domain_seed(work.seed, domain),
            augment=augment,
        )
        for domain in (0, 1)
    )
    return a, b, Split(data=data.of_domain(test, 0), known=known, seed=None, augment=False)


def hashes(splits: Sequence[Split]) -> Mapping[str, str]:
    """Of the orders of the first epochs and, where images are augmented, of their tables."""
    epochs = range(HASHED_EPOCHS)
    orders = [split.order(epoch) for split in splits for epoch in epochs]
    tables = [table for split in splits for table in map(split.offsets, epochs) if table is not None]
    found = {"order": order.order_hash(np.concatenate(orders))}
    return found | ({"augment": order.augment_hash(np.concatenate(tables))} if tables else {})
