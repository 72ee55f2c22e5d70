"""Which sample comes when, and how it is cropped and flipped: tables that every runtime applies.

Knows nothing about frameworks, loaders or images beyond their shape.
Every entry is a pure function of (seed, epoch, sample index), so workers and devices can't disagree.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from breakeven.workloads.philox import derive, permutation, words

PAD = 4  # pixels of zeros on each side before the crop, as in He et al. 2016, section 4.2


def epoch_order(seed: int, epoch: int, n: int) -> NDArray[np.int64]:
    """Sample indices of one epoch in order of use, int64 [n]; the caller drops what fills no batch."""
    return permutation(derive(seed, "order", epoch), n)


INFERENCE_BATCHES = (2, 8)
"""Fewest and most distinct batches that calls of inference take in turn."""

INFERENCE_BYTES = 2**30
"""Bytes that the distinct batches of inference may take together, as float32."""


def inference_turns(batch: int, shape: tuple[int, ...]) -> int:
    """How many distinct batches of images of `shape` take turns: eight, fewer where they are large."""
    size = batch * int(np.prod(shape)) * 4
    fewest, most = INFERENCE_BATCHES
    return max(fewest, min(most, INFERENCE_BYTES // size))


def inference_batches(seed: int, n: int, batch: int, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Samples of the batches that calls take in turn, int64 [k, batch], of n images of `shape`.

    Eight of them, fewer where they would be large. No two are equal, even where the images are fewer than the
    batch and come again.
    """
    k = inference_turns(batch, shape)
    apart = batch if k * batch <= n else max(1, n // k)
    places = np.arange(k)[:, None] * apart + np.arange(batch)
    rows: NDArray[np.int64] = epoch_order(seed, 0, n)[places % n]
    return rows


def augmentation_table(seed: int, epoch: int, n: int) -> NDArray[np.int8]:
    """(dx, dy, flip) per sample index, int8 [n, 3]: dx and dy in 0..8 (4 is the centre), flip 0 or 1.

    Indexed by sample, not by position in the epoch: take rows table[order[i:j]]. A shorter table is a prefix.
    """
    raw = words(derive(seed, "augment", epoch), 3 * n).reshape(n, 3)
    table = np.empty((n, 3), dtype=np.int8)
    table[:, :2] = raw[:, :2] % np.uint64(2 * PAD + 1)  # bias below 2^-60
    table[:, 2] = raw[:, 2] >> np.uint64(63)
    return table


def apply_augmentation(images: NDArray[np.uint8], table: NDArray[np.int8]) -> NDArray[np.uint8]:
    """Reference semantics: pad by 4 zeros, crop at row dy and column dx, then mirror left-right if flip.

    images uint8 [B, C, H, W] and the B rows of the table that belong to them -> uint8 [B, C, H, W].
    """
    _, _, height, width = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)))
    out = np.empty_like(images)
    for index, (dx, dy, flip) in enumerate(table.tolist()):
        crop = padded[index, :, dy : dy + height, dx : dx + width]
        out[index] = crop[:, :, ::-1] if flip else crop
    return out


def order_hash(order: NDArray[np.int64]) -> str:
    """SHA-256 of an order (or of several, concatenated), hexadecimal."""
    return _hash("order", order, "<i8")


def augment_hash(table: NDArray[np.int8]) -> str:
    """SHA-256 of an augmentation table, hexadecimal."""
    return _hash("augment", table, "<i1")


def _hash(what: str, values: NDArray[np.int64] | NDArray[np.int8], dtype: str) -> str:
    digest = hashlib.sha256(f"{what} {values.shape}".encode())
    digest.update(np.ascontiguousarray(values, dtype=dtype).tobytes())
    return digest.hexdigest()
