"""Training and test batches: from a tf.data pipeline, as people write it, or cut from data on the device.

Knows nothing about models, optimizers or precision.
Both ways apply the same order and augmentation tables of `workloads.order`, so their batches are equal.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.records.case import Case
from breakeven.runtimes.tensorflow import nets
from breakeven.runtimes.tensorflow.library import tf
from breakeven.workloads.order import PAD
from breakeven.workloads.splits import Split

Tensor = Any
HOST = "/device:CPU:0"


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """A source of batches. begin(epoch, step) starts an epoch at a step.

    next()        what the host hands to a step: an image and a label tensor on the device, or nothing
    take(*next()) images float32 [B, H, W, C] and labels int64 [B]; part of the step, on the device
    blank()       as next(), of zeros, for building the step
    state         variables of the device that `take` moves on
    """

    begin: Callable[[int, int], None]
    next: Callable[[], tuple[Tensor, ...]]
    take: Callable[..., tuple[Tensor, Tensor]]
    blank: Callable[[], tuple[Tensor, ...]]
    state: tuple[Any, ...]
    close: Callable[[], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loading:
    """How batches are made and where they go. The last, incomplete one is dropped or filled up."""

    batch: int
    device: str
    drop_last: bool
    workers: int
    prefetch: int | None

    def steps(self, split: Split) -> int:
        return split.n // self.batch if self.drop_last else -(-split.n // self.batch)


def loading_of(case: Case, device: str, *, drop_last: bool) -> Loading:
    tuning = case.tuning
    return Loading(
        batch=case.work.batch,
        device=device,
        drop_last=drop_last,
        workers=tuning.workers or 0,
        prefetch=tuning.prefetch,
    )


def source_of(residency: str, split: Split, loading: Loading) -> Source:
    """Batches from where the data set lives: `host` or `device`."""
    return (device_source if residency == "device" else host_source)(split, loading)


def host_source(split: Split, loading: Loading) -> Source:
    """A tf.data pipeline: each sample looked up, cropped, flipped and normalised, then batched.

    Workers are calls in parallel, in order; with them batches are made ahead. An epoch's table is a variable,
    so that the pipeline is traced once. A batch is copied to the device as it is asked for.
    """
    running: list[Iterator[Any]] = []
    _, height, width = split.known.shape
    with tf.device(HOST):
        table = tf.Variable(_rows(split, loading, 0).T, trainable=False)
        sample = tf.autograph.experimental.do_not_convert(_sample(split, table))
    rows = loading.steps(split) * loading.batch

    def dataset(first: int) -> Any:
        parallel = {"num_parallel_calls": loading.workers, "deterministic": True} if loading.workers else {}
        made = tf.data.Dataset.range(first, rows).map(sample, **parallel)
        made = made.batch(loading.batch, drop_remainder=True)
        return made.prefetch(loading.prefetch or 2) if loading.workers else made

    whole = dataset(0)

    def begin(epoch: int, step: int) -> None:
        running.clear()  # what it made ahead goes with it: it reads the table, which changes
        table.assign(_rows(split, loading, epoch).T)
        running[:] = [iter(dataset(step * loading.batch) if step else whole)]

    def next_() -> tuple[Tensor, ...]:
        images, labels = next(running[0])
        if loading.device == HOST:
            return images, labels
        with tf.device(loading.device):
            return tf.identity(images), tf.identity(labels)

    def blank() -> tuple[Tensor, ...]:
        with tf.device(loading.device):
            shape = [loading.batch, height, width, split.known.shape[0]]
            return tf.zeros(shape), tf.zeros([loading.batch], tf.int64)

    return Source(
        begin=begin,
        next=next_,
        take=lambda images, labels: (images, labels),
        blank=blank,
        state=(),
        close=running.clear,
    )


def device_source(split: Split, loading: Loading) -> Source:
    """Batches cut from a data set on the device, as part of the step: the host hands over nothing."""
    batch = loading.batch
    with tf.device(loading.device):
        cut = _cut(split, loading.device)
        columns = tf.Variable(_rows(split, loading, 0), trainable=False)
        # int64: TensorFlow keeps small integers of 32 bits on the host, whatever device is asked.
        position = tf.Variable(tf.zeros([], tf.int64), trainable=False)

    def begin(epoch: int, step: int) -> None:
        columns.assign(_rows(split, loading, epoch))
        position.assign(step * batch)

    def take() -> tuple[Tensor, Tensor]:
        rows = tf.gather(columns, position + tf.range(batch, dtype=tf.int64), axis=1)
        position.assign_add(batch)
        return cut(*tf.unstack(rows))

    return Source(
        begin=begin,
        next=lambda: (),
        take=take,
        blank=lambda: (),
        state=(position,),
        close=lambda: None,
    )


def _rows(split: Split, loading: Loading, epoch: int) -> NDArray[np.int64]:
    """The columns of an epoch for whole batches: without the tail, or filled up with the first samples."""
    columns = split.columns(epoch)
    return columns[:, np.arange(loading.steps(split) * loading.batch) % split.n]


def _statistics(split: Split) -> tuple[Tensor, Tensor, Tensor]:
    """255, mean and deviation as variables: TensorFlow divides by a constant by multiplying by its inverse,
    which rounds otherwise."""
    values = (255.0, split.known.mean, split.known.std)
    one, mean, std = (tf.Variable(np.asarray(v, np.float32), trainable=False) for v in values)
    return one, mean, std


def _sample(split: Split, table: Any) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """(image, label) of a row of the table, as a pipeline makes one sample."""
    pixels, labels = tf.constant(nets.channels_last(split.data.images)), tf.constant(split.data.labels)
    whole, mean, std = _statistics(split)
    edge = [PAD, PAD]

    def sample(index: Tensor) -> tuple[Tensor, Tensor]:
        row = table[index]
        image = pixels[row[0]]
        shape = image.shape
        if split.augmented:
            image = tf.pad(image, [edge, edge, [0, 0]])
            image = tf.slice(image, tf.stack([row[2], row[1], 0]), shape)
            image = tf.cond(row[3] > 0, lambda: tf.reverse(image, [1]), lambda: image)
        image = (tf.cast(image, tf.float32) / whole - mean) / std
        return tf.ensure_shape(image, shape), labels[row[0]]

    return sample


def _cut(split: Split, device: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """Puts the split on the device; returns cut(index, dx, dy, flip) or, without augmentation, cut(index).

    Crop and flip are one look-up, pixel by pixel. On a GPU pixels are halves, which hold 0 to 255 exactly:
    TensorFlow looks no bytes up there.
    """
    edge = (PAD, PAD) if split.augmented else (0, 0)
    images = np.pad(nets.channels_last(split.data.images), ((0, 0), edge, edge, (0, 0)))
    _, rows, columns, channels = images.shape
    kept = np.uint8 if device == HOST else np.float16
    # A variable and no constant: one would be built into the program.
    pixels = tf.Variable(images.reshape(-1, channels).astype(kept), trainable=False)
    labels = tf.Variable(split.data.labels, trainable=False)
    whole, mean, std = _statistics(split)
    _, height, width = split.known.shape

    def cut(index: Tensor, *offsets: Tensor) -> tuple[Tensor, Tensor]:
        row = tf.range(height, dtype=tf.int64)[None]
        column = tf.range(width, dtype=tf.int64)[None]
        if offsets:
            dx, dy, flip = (offset[:, None] for offset in offsets)
            column = dx + tf.where(flip > 0, width - 1 - column, column)
            row = dy + row
        # [B, height, width] of places in the list of all pixels
        place = ((index[:, None] * rows + row) * columns)[:, :, None] + column[:, None, :]
        images = (tf.cast(tf.gather(pixels, place), tf.float32) / whole - mean) / std
        return images, tf.gather(labels, index)

    return cut
