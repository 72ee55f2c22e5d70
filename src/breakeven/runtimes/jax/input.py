"""Training and test batches: made by the host as they are asked for, or cut from data on the device.

Knows nothing about models, optimizers or precision.
Both ways apply the same order and augmentation tables of `workloads.order`, so their batches are equal.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from breakeven.records.case import Tuning
from breakeven.runtimes.jax.nets import Array, in_layout
from breakeven.workloads.data import normalized
from breakeven.workloads.order import PAD
from breakeven.workloads.splits import Split

HostBatch = tuple[NDArray[np.float32], NDArray[np.int32]]
"""Normalised images in the layout of the net, and labels."""


def batch_of(
    split: Split, rows: NDArray[np.int64], table: NDArray[np.int8] | None, *, channels_last: bool
) -> HostBatch:
    """The samples `rows`, cropped and flipped by their rows of the table, on the host."""
    images = split.data.images[rows]
    if table is not None:
        images = cropped(images, table[rows])
    scaled = normalized(split.known, images)
    return in_layout(scaled, channels_last=channels_last), split.data.labels[rows].astype(np.int32)


def cropped(images: NDArray[np.uint8], table: NDArray[np.int8]) -> NDArray[np.uint8]:
    """`apply_augmentation` for a batch at once: [n, C, H, W] and [n, 3] of dx, dy, flip."""
    n, _, height, width = images.shape
    padded = np.pad(images, ((0, 0), (0, 0), (PAD, PAD), (PAD, PAD)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (height, width), axis=(2, 3))
    dx, dy, flip = table.T
    crops = windows[np.arange(n), :, dy, dx]  # [n, C, H, W]
    return np.where(flip[:, None, None, None] != 0, crops[..., ::-1], crops)


@dataclass(frozen=True, kw_only=True, slots=True)
class Loader:
    """Batches of the host. begin(epoch, step) starts an epoch at a step; next() ends with StopIteration."""

    begin: Callable[[int, int], None]
    next: Callable[[], HostBatch]
    close: Callable[[], None]


def loader(split: Split, *, batch: int, workers: int, prefetch: int, channels_last: bool) -> Loader:
    """Whole batches of an epoch in order. Without workers each is made when it is asked for; with them as
    many threads make `prefetch` each ahead. Threads, as JAX must not be forked once it has computed: NumPy
    lets go of the interpreter's lock where it moves and converts many numbers.
    """
    pool = ThreadPoolExecutor(workers) if workers else None
    ahead: deque[Future[HostBatch]] = deque()
    left: list[Iterator[Callable[[], HostBatch]]] = []

    def begin(epoch: int, step: int) -> None:
        drop(ahead)
        order, table = split.order(epoch), split.offsets(epoch)
        starts = range(step * batch, split.n - batch + 1, batch)
        left[:] = [_deferred(split, [order[first : first + batch] for first in starts], table, channels_last)]
        for _ in range(workers * prefetch):
            fill()

    def fill() -> None:
        make = next(left[0], None)
        if pool is not None and make is not None:
            ahead.append(pool.submit(make))

    def following() -> HostBatch:
        if pool is None:
            return next(left[0])()
        if not ahead:
            raise StopIteration
        made = ahead.popleft()
        fill()
        return made.result()

    def close() -> None:
        drop(ahead)
        if pool is not None:
            pool.shutdown(cancel_futures=True)

    return Loader(begin=begin, next=following, close=close)


def loader_of(split: Split, batch: int, tuning: Tuning) -> Loader:
    """The loader that a tuning asks for."""
    workers, prefetch = tuning.workers or 0, tuning.prefetch or 2
    last = tuning.layout == "channels-last"
    return loader(split, batch=batch, workers=workers, prefetch=prefetch, channels_last=last)


def _deferred(
    split: Split, rows: list[NDArray[np.int64]], table: NDArray[np.int8] | None, channels_last: bool
) -> Iterator[Callable[[], HostBatch]]:
    for chosen in rows:
        yield partial(batch_of, split, chosen, table, channels_last=channels_last)


def drop(ahead: deque[Future[HostBatch]]) -> None:
    for future in ahead:
        future.cancel()
    ahead.clear()


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """What the program of a step is given besides its carry.

    begin(epoch, step) starts an epoch at a step and returns what stays through it, by name; next() is a batch
    of the host, as `given` declares it: nothing where the program cuts its own.
    """

    begin: Callable[[int, int], Mapping[str, Any]]
    next: Callable[[], tuple[NDArray[Any], ...]]
    close: Callable[[], None]
    given: tuple[jax.ShapeDtypeStruct, ...]


def resident(split: Split, device: jax.Device, *, channels_last: bool) -> dict[str, Array]:
    """The split on the device, with the numbers that normalise it."""
    mean, std = (np.asarray(v, np.float32) for v in (split.known.mean, split.known.std))
    there = {
        "images": in_layout(split.data.images, channels_last=channels_last),
        "labels": split.data.labels.astype(np.int32),
        "white": np.float32(255),
        "mean": mean if channels_last else mean[:, None, None],
        "std": std if channels_last else std[:, None, None],
    }
    return {name: jax.device_put(value, device) for name, value in there.items()}


def columns(split: Split, epoch: int) -> NDArray[np.int32]:
    """What `cut` takes for each sample of an epoch, as JAX counts without its 64-bit mode."""
    return split.columns(epoch).astype(np.int32)


def cut(data: dict[str, Array], rows: Array, *, channels_last: bool) -> tuple[Array, Array]:
    """(images float32, labels) of columns [1 or 4, batch], all of it on the device and part of a program."""
    images = jnp.take(data["images"], rows[0], axis=0, mode="clip")
    if len(rows) == 4:
        images = _crop(images, *rows[1:], channels_last=channels_last)
    scaled = _divided(_divided(images.astype(jnp.float32), data["white"]) - data["mean"], data["std"])
    return scaled, jnp.take(data["labels"], rows[0], mode="clip")


def _divided(images: Array, by: Array) -> Array:
    """A division. XLA multiplies by the reciprocal of a divisor that it can see is one for many, which
    differs in the last bit from what every other runtime does."""
    return images / lax.optimization_barrier(jnp.broadcast_to(by, images.shape))


def _crop(images: Array, dx: Array, dy: Array, flip: Array, *, channels_last: bool) -> Array:
    rows, row_axis = images.shape[1:], 1 if channels_last else 2
    pads = [(0, 0)] * 4
    pads[row_axis] = pads[row_axis + 1] = (PAD, PAD)
    padded, none = jnp.pad(images, pads), jnp.zeros_like(dx)
    starts = (dy, dx, none) if channels_last else (none, dy, dx)
    crops = jax.vmap(lambda image, *start: lax.dynamic_slice(image, start, rows))(padded, *starts)
    return jnp.where(flip[:, None, None, None] != 0, jnp.flip(crops, row_axis + 1), crops)
