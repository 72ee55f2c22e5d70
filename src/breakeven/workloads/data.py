"""The data sets that can be named, each prepared as uint8 images of one shape and verified by its hash.

Knows nothing about frameworks, loaders or normalisation on a device: it ships the statistics only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from breakeven.errors import UserError
from breakeven.workloads import pairs, photos, prepare
from breakeven.workloads.cifar import ARCHIVE, ARCHIVE_MD5, FOLDER

Channels = tuple[float, float, float]
Reader = Callable[[str, Path | None, bool], prepare.Prepared | None]

SPLITS = ("train", "test")


@dataclass(frozen=True, kw_only=True, slots=True)
class DataEntry:
    """What is known about a data set without having it."""

    name: str
    version: str
    preparation: str
    split_hashes: tuple[str, str] | None  # content_hash of the prepared train and test split; None: unknown
    archive_md5: str | None = None  # of the one archive that everything is read from
    files_hash: str | None = None  # of the user's own files, known where they are only
    domains: bool = False  # two classes are two domains, A and B, between which a net may translate
    n_train: int
    n_test: int
    classes: int
    shape: tuple[int, int, int] = (3, 32, 32)  # channels, height, width of an image
    mean: Channels  # of the prepared train images / 255; of `photos` those of ImageNet
    std: Channels
    labelled: bool  # False: labels are noise and no accuracy is ever reported
    how_to_get: tuple[str, ...]

    @property
    def content_hash(self) -> str | None:
        """SHA-256 that covers both prepared splits, None where we never had the data to compute it."""
        if self.split_hashes is None:
            return None
        return hashlib.sha256("\n".join(self.split_hashes).encode()).hexdigest()

    @property
    def identity(self) -> str:
        """What a case hashes: 'sha256:...' of the prepared data or the files, else 'md5:...' of the archive.

        `sha256:None` for files of the user's that are not here.
        """
        if self.split_hashes is None and self.archive_md5 is None:
            return f"sha256:{self.files_hash}"
        return f"sha256:{self.content_hash}" if self.split_hashes else f"md5:{self.archive_md5}"


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSet:
    """One prepared split: images uint8 [N, C, H, W], labels int64 [N], content_hash of just this split."""

    name: str
    split: str
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    content_hash: str


def entry(name: str) -> DataEntry:
    """The catalog's entry. Raises UserError with the nearest names for an unknown one."""
    if name not in DATA:
        near = get_close_matches(name, DATA, n=2, cutoff=0.4) or sorted(DATA)
        raise UserError(f"unknown data set '{name}'; did you mean {' or '.join(near)}?")
    return _of_folders(DATA[name]) if name == "pairs" else DATA[name]


def _of_folders(known: DataEntry) -> DataEntry:
    """The entry with what is known of the user's files, where they are."""
    found = pairs.files()
    if found is None:
        return known
    n_train, n_test = (sum(map(len, found[split])) for split in SPLITS)
    return replace(known, n_train=n_train, n_test=n_test, files_hash=pairs.identity(found))


def load(name: str, split: str, *, root: Path | None = None, download: bool = False) -> DataSet:
    """A split ('train' or 'test') of a data set, prepared and verified.

    `root` is the folder to look in instead of the usual places. Nothing is downloaded unless asked.
    Raises UserError for an unknown name, a missing set (with every way to get it), a damaged file, or
    content other than the catalog's.
    """
    known = entry(name)
    if split not in SPLITS:
        raise UserError(f"unknown split '{split}' of {name}; use train or test")
    prepared = _READERS[name](split, root, download)
    if prepared is None:
        raise UserError(missing_message(name, root))
    images, labels = prepared
    if name == "pairs":  # in any number: what a case hashes are the files
        return DataSet(
            name=name, split=split, images=images, labels=labels, content_hash=content_hash(images, labels)
        )
    found = content_hash(images, labels)
    _verify(known, split, images, labels, found)
    return DataSet(name=name, split=split, images=images, labels=labels, content_hash=found)


def of_domain(stored: DataSet, domain: int) -> DataSet:
    """The images of one of two domains, 0 is A and 1 is B; the hash stays that of the whole split."""
    chosen = stored.labels == domain
    return replace(stored, images=stored.images[chosen], labels=stored.labels[chosen])


def normalized(known: DataEntry, images: NDArray[np.uint8]) -> NDArray[np.float32]:
    """(image / 255 - mean) / std by channel, uint8 [N, C, H, W] -> float32: what every net is given."""
    mean, std = (np.asarray(v, np.float32)[:, None, None] for v in (known.mean, known.std))
    return (images.astype(np.float32) / np.float32(255) - mean) / std


def missing(name: str, *, root: Path | None = None) -> str | None:
    """Why a data set can't be loaded here, in one line with every way to get it; None where it is found."""
    entry(name)
    return None if prepare.present(name, root) else missing_message(name, root)


def missing_message(name: str, root: Path | None = None) -> str:
    """One line that names all the ways to get a data set."""
    where = f" in {root}" if root else ""
    ways = "; ".join(f"({index}) {way}" for index, way in enumerate(entry(name).how_to_get, start=1))
    return f"data set {name} is not here{where}; get it by one of: {ways}"


def content_hash(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> str:
    """SHA-256 of a prepared split: its shape, the images' bytes, the labels as little-endian int64."""
    digest = hashlib.sha256(f"uint8 {images.shape} int64 {labels.shape}\n".encode())
    digest.update(np.ascontiguousarray(images).data)
    digest.update(np.ascontiguousarray(labels, dtype="<i8").data)
    return digest.hexdigest()


def _verify(
    known: DataEntry, split: str, images: NDArray[np.uint8], labels: NDArray[np.int64], found: str
) -> None:
    n = known.n_train if split == "train" else known.n_test
    if images.shape != (n, *known.shape) or labels.shape != (n,):
        raise UserError(f"{known.name} {split} has {len(images)} images, not {n}; get the files again")
    if known.split_hashes and found != known.split_hashes[SPLITS.index(split)]:
        raise UserError(f"{known.name} {split} is not version {known.version}; get the original files again")


_LOAD_IT = "add --download to breakeven run"

DATA: dict[str, DataEntry] = {
    known.name: known
    for known in (
        DataEntry(
            name="digits",
            version="UCI optdigits 1998, test part, as in scikit-learn",
            preparation="8x8, 0..16 to 0..255, nearest x4, 3 equal channels, 1437/360 by our permutation",
            split_hashes=(
                "51d355c70a17e48e1d2493840ff14ea650d7b08495f92cbbbdd2c2f0cec49a2f",
                "a2e9f041e45f2b49e8ae76b82e1e0afc8a48f1a198bb9301289cfc9616339d9b",
            ),
            n_train=1437,
            n_test=360,
            classes=10,
            mean=(0.3054, 0.3054, 0.3054),
            std=(0.3760, 0.3760, 0.3760),
            labelled=True,
            how_to_get=("pip install scikit-learn (it ships the file)",),
        ),
        DataEntry(
            name="fashion-mnist",
            version="2017, arXiv:1708.07747",
            preparation="28x28 padded to 32x32 with zeros, 3 equal channels",
            split_hashes=(
                "16002714b3915509ade3002f9e16a3cb55dadd87f95990730e530642c610d458",
                "c235c64441b2026dd19862ebad9aa8d84afbd16ddb5cdf12ff107bfab09aad76",
            ),
            n_train=60_000,
            n_test=10_000,
            classes=10,
            mean=(0.2190, 0.2190, 0.2190),
            std=(0.3318, 0.3318, 0.3318),
            labelled=True,
            how_to_get=(
                "apt install dataset-fashion-mnist (Debian, Ubuntu)",
                "put the four *-ubyte.gz files of https://github.com/zalandoresearch/fashion-mnist into "
                "~/.cache/breakeven/data/fashion-mnist, or into $BREAKEVEN_DATA/fashion-mnist",
                _LOAD_IT,
            ),
        ),
        DataEntry(
            name="cifar10",
            version="2009, python version",
            preparation="32x32 in 3 channels as published",
            # The prepared bytes were never at hand when this was written; the MD5s of the archive and of
            # its batches, published by its authors and by torchvision, are checked instead.
            split_hashes=None,
            archive_md5=ARCHIVE_MD5,
            n_train=50_000,
            n_test=10_000,
            classes=10,
            mean=(0.4914, 0.4822, 0.4465),  # of the train images; the values in common use
            std=(0.2470, 0.2435, 0.2616),
            labelled=True,
            how_to_get=(
                f"put {ARCHIVE} of https://www.cs.toronto.edu/~kriz/cifar.html, or its folder {FOLDER}, into "
                "~/.cache/breakeven/data/cifar10, or into $BREAKEVEN_DATA/cifar10",
                _LOAD_IT,
            ),
        ),
        DataEntry(
            name="synthetic",
            version="1",
            preparation="Philox bytes 1..255 (a zero would let sparsity tricks pass), labels at random",
            split_hashes=(
                "259b81ecbd4b4c3659f74b63986f0f330575a5d51dd3f2fe8e6d7bfc98f78bba",
                "3c84e6a96346af1f9c986f00972c3abc6db03376255ac57cd73d8309485919ae",
            ),
            n_train=50_000,
            n_test=10_000,
            classes=10,
            mean=(0.5000, 0.5000, 0.5000),
            std=(0.2898, 0.2898, 0.2898),
            labelled=False,
            how_to_get=("it is computed: nothing to get",),
        ),
        DataEntry(
            name="photos",
            version="1, of scikit-learn's china.jpg and flower.jpg",
            preparation="crops of 224 pixels to the height, bilinear to 224x224, half of them mirrored",
            split_hashes=(
                "2ddaad1df873270cc48a7fdacce3995303160f8da75320cd5795742dcb5decb1",
                "76987a07bdefbb63c345cc5ab4d999023058ed2a69bb5c7e6b57b75c270c455d",
            ),
            n_train=256,
            n_test=512,
            classes=1000,
            shape=(3, 224, 224),
            # ImageNet's, as torchvision's: what nets trained on it expect.
            mean=(0.485, 0.456, 0.406),
            std=(0.229, 0.224, 0.225),
            labelled=False,
            how_to_get=(
                "pip install scikit-learn pillow (the one ships the pictures, the other reads them)",
            ),
        ),
        DataEntry(
            name="digits-3-8",
            version="UCI optdigits 1998, test part, as in scikit-learn",
            preparation="the threes (A) and eights (B) of digits, four times enlarged again to 128x128",
            split_hashes=(
                "b51dfc237a37a6d21c691e4ba9ec89ea6b06b3d32f054d0edcf3166d4c8b1f5c",
                "af703ee48d736495f520a386c6cd35acd3f8e09fbdc683cb59a9b58e1ce9c9f9",
            ),
            n_train=289,
            n_test=68,
            classes=2,
            domains=True,
            shape=(3, 128, 128),
            mean=(0.5, 0.5, 0.5),  # to -1..1, where a generator's images lie
            std=(0.5, 0.5, 0.5),
            labelled=True,
            how_to_get=("pip install scikit-learn (it ships the file)",),
        ),
        DataEntry(
            name="pairs",
            version="two folders",
            preparation="the largest centred square of each image, bilinear to 128x128",
            split_hashes=None,
            n_train=0,  # unknown until the folders are here
            n_test=0,
            classes=2,
            domains=True,
            shape=(3, 128, 128),
            mean=(0.5, 0.5, 0.5),
            std=(0.5, 0.5, 0.5),
            labelled=True,
            how_to_get=(
                "put folders of images into ~/.cache/breakeven/data/pairs, or into $BREAKEVEN_DATA/pairs: "
                "A and B, or trainA, trainB, testA and testB as of horse2zebra "
                "(https://people.eecs.berkeley.edu/~taesung_park/CycleGAN/datasets), and pip install pillow",
            ),
        ),
    )
}

_READERS: dict[str, Reader] = {
    "digits": prepare.digits,
    "fashion-mnist": prepare.fashion_mnist,
    "cifar10": prepare.cifar10,
    "synthetic": prepare.synthetic,
    "photos": photos.photos,
    "digits-3-8": prepare.two_digits,
    "pairs": pairs.of_folders,
}
