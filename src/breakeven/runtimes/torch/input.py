"""Training and test batches: from a loader, as people write it, or from a data set that lives on the device.

Knows nothing about models, optimizers or precision.
Both paths apply the same order and augmentation tables of `workloads.order`, so their batches are equal.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageOps
from torch.utils.data import DataLoader, Dataset, Sampler

from breakeven.workloads.order import PAD
from breakeven.workloads.splits import Split

Batch = tuple[torch.Tensor, torch.Tensor]  # images float32 [B, C, H, W], labels int64 [B], on the device
Cut = Callable[..., Batch]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loading:
    """How batches are made and where they go."""

    batch: int
    device: torch.device
    memory_format: torch.memory_format
    drop_last: bool
    workers: int
    prefetch: int | None
    pinned: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Batches:
    """A source of batches. begin(epoch, step) starts an epoch at a step; next() ends with StopIteration.

    next() is place(fetch()): what the host waits for, and the work that makes a batch on the device of it.
    `placing` names the latter: a copy from the host, or the cut from data that are there.
    """

    begin: Callable[[int, int], None]
    fetch: Callable[[], Any]
    place: Callable[[Any], Batch]
    placing: Literal["copy", "cut"]
    close: Callable[[], None]

    def next(self) -> Batch:
        return self.place(self.fetch())


class Samples(Dataset[tuple[torch.Tensor, int]]):
    """Per-sample work of torchvision's RandomCrop(32, padding=4), RandomHorizontalFlip, ToTensor, Normalize.

    Bit for bit what torchvision 0.26 makes of a PIL image, by the calls of a loop written by hand: random
    numbers are looked up, mean and deviation are made once. It costs less than torchvision's own classes,
    which draw them and call modules (115 against 269 us a sample, seen once).
    A key is (epoch, index): so the epoch reaches workers that outlive it.
    """

    def __init__(self, split: Split) -> None:
        self.split = split
        self.pixels = np.ascontiguousarray(split.data.images.transpose(0, 2, 3, 1))  # as CIFAR10 holds them
        self.labels: list[int] = split.data.labels.tolist()
        self.mean, self.std = (
            torch.tensor(v, dtype=torch.float32).view(-1, 1, 1) for v in (split.known.mean, split.known.std)
        )
        self.epoch: int | None = None
        self.table: NDArray[np.int8] | None = None

    def __len__(self) -> int:
        return self.split.n

    def __getitem__(self, key: tuple[int, int]) -> tuple[torch.Tensor, int]:
        epoch, index = key
        image = Image.fromarray(self.pixels[index])
        table = self.offsets(epoch)
        if table is not None:
            dx, dy, flip = table[index].tolist()
            width, height = image.size
            image = ImageOps.expand(image, border=PAD, fill=0)
            image = image.crop((dx, dy, dx + width, dy + height))
            if flip:
                image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return self.normalized(image), self.labels[index]

    def offsets(self, epoch: int) -> NDArray[np.int8] | None:
        if epoch != self.epoch:
            self.epoch, self.table = epoch, self.split.offsets(epoch)
        return self.table

    def normalized(self, image: Image.Image) -> torch.Tensor:
        pixels = torch.from_numpy(np.array(image, np.uint8, copy=True))
        tensor = pixels.permute(2, 0, 1).contiguous().to(torch.float32).div(255)
        return tensor.sub_(self.mean).div_(self.std)


class EpochOrder(Sampler[tuple[int, int]]):
    """Yields (epoch, sample index) in the order of the workload, from sample number `first` of the epoch."""

    def __init__(self, split: Split) -> None:
        self.split = split
        self.epoch = 0
        self.first = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        epoch = self.epoch
        return ((epoch, index) for index in self.split.order(epoch)[self.first :].tolist())

    def __len__(self) -> int:
        return self.split.n - self.first


def batches_of(residency: str, split: Split, loading: Loading) -> Batches:
    """Batches from where the data set lives: `host` or `device`."""
    return (device_batches if residency == "device" else host_batches)(split, loading)


def host_batches(split: Split, loading: Loading) -> Batches:
    """Batches from a DataLoader, copied to the device as they are asked for."""
    order = EpochOrder(split)
    with _quiet():
        loader: list[DataLoader[Any]] = [_loader(Samples(split), order, loading)]
    running: list[Iterator[Any]] = []

    def begin(epoch: int, step: int) -> None:
        order.epoch, order.first = epoch, step * loading.batch
        with _quiet():
            running[:] = [iter(loader[0])]

    def fetch() -> Any:
        return next(running[0])

    def place(fetched: Any) -> Batch:
        images, labels = fetched
        # An asynchronous copy is one only from page-locked memory; asked for elsewhere it just blocks.
        return (
            images.to(loading.device, non_blocking=loading.pinned, memory_format=loading.memory_format),
            labels.to(loading.device, non_blocking=loading.pinned),
        )

    def close() -> None:
        # The iterator stops its workers when its last reference goes; the loader holds one, too.
        running.clear()
        loader.clear()

    return Batches(begin=begin, fetch=fetch, place=place, placing="copy", close=close)


def device_batches(split: Split, loading: Loading) -> Batches:
    """Batches cut from a data set on the device: gather, crop, flip and normalise there."""
    device = loading.device
    cut = resident(split, loading)
    epoch_rows: list[tuple[torch.Tensor, ...]] = []
    position = [0]

    def begin(epoch: int, step: int) -> None:
        epoch_rows[:] = [tuple(torch.from_numpy(split.columns(epoch)).to(device))]
        position[0] = step * loading.batch

    def fetch() -> tuple[torch.Tensor, ...]:
        first = position[0]
        last = min(first + loading.batch, split.n)
        if last <= first or (loading.drop_last and last - first < loading.batch):
            raise StopIteration
        position[0] = last
        return tuple(column[first:last] for column in epoch_rows[0])

    def place(rows: tuple[torch.Tensor, ...]) -> Batch:
        return cut(*rows)

    return Batches(begin=begin, fetch=fetch, place=place, placing="cut", close=epoch_rows.clear)


def resident(split: Split, loading: Loading) -> Cut:
    """Puts the split on the device; returns cut(index, dx, dy, flip) or, without augmentation, cut(index).

    `cut` reads tensors on the device only and never the host, so that it can be part of a captured step.
    """
    device = loading.device
    labels = torch.from_numpy(split.data.labels).to(device)
    images = torch.from_numpy(split.data.images).to(device)
    mean, std = (
        torch.tensor(v, dtype=torch.float32, device=device).view(1, -1, 1, 1)
        for v in (split.known.mean, split.known.std)
    )

    def normalized(pixels: torch.Tensor) -> torch.Tensor:
        made = pixels.to(torch.float32).div_(255).sub_(mean).div_(std)
        return made.contiguous(memory_format=loading.memory_format)

    if split.offsets(0) is None:
        return lambda index: (normalized(images[index]), labels[index])

    height, width = images.shape[2:]
    padded = torch.nn.functional.pad(images, (PAD, PAD, PAD, PAD))
    sample, channel, row, column = padded.stride()
    # Every crop as a view: windows[i, dy, dx] is sample i cut at row dy and column dx.
    windows = padded.as_strided(
        (split.n, 2 * PAD + 1, 2 * PAD + 1, padded.shape[1], height, width),
        (sample, row, column, channel, row, column),
    )

    def cut(index: torch.Tensor, dx: torch.Tensor, dy: torch.Tensor, flip: torch.Tensor) -> Batch:
        crops = windows[index, dy, dx]
        flipped = torch.where(flip.view(-1, 1, 1, 1) != 0, crops.flip(3), crops)
        return normalized(flipped), labels[index]

    return cut


def _loader(samples: Samples, order: EpochOrder, loading: Loading) -> DataLoader[Any]:
    workers: dict[str, Any] = {}
    if loading.workers:
        workers = {"persistent_workers": True, "prefetch_factor": loading.prefetch}
    return DataLoader(
        samples,
        batch_size=loading.batch,
        sampler=order,
        drop_last=loading.drop_last,
        num_workers=loading.workers,
        pin_memory=loading.pinned,
        # Its own generator: drawing the workers' base seed from the global one would shift dropout.
        generator=torch.Generator(),
        **workers,
    )


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences what is known and meant: as many workers as the tuning says, forked after torch has threads.

    A worker sets its threads to 1 before any operation, so it waits for no thread that the fork left behind.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create", category=UserWarning)
        warnings.filterwarnings(
            "ignore", message="This process .* is multi-threaded", category=DeprecationWarning
        )
        yield
