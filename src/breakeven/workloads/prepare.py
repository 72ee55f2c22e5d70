"""How each data set becomes uint8 images, of 3x32x32 but for `photos` and those of two domains.

Knows nothing about hashes or the catalog: it finds files, reads and reshapes them.
Every reader takes (split, root, whether to download) and returns images uint8 [N, C, H, W] and
labels int64 [N], or None where the files are not here.
"""

from __future__ import annotations

import gzip
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from breakeven.errors import UserError
from breakeven.workloads import fetch, pairs, photos
from breakeven.workloads.cifar import ARCHIVE, find_cifar10, read_cifar10
from breakeven.workloads.idx import read_idx
from breakeven.workloads.philox import derive, integers, octets, permutation

Prepared: TypeAlias = tuple[NDArray[np.uint8], NDArray[np.int64]]

DIGITS_TRAIN = 1437  # of 1797: four fifths
SYNTHETIC = {"train": 50_000, "test": 10_000}  # CIFAR-10's sizes
# Upstream's own mirror, as its README links it (plain http: the content hash is what protects).
FASHION_URL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
FASHION_STEMS = {"train": "train", "test": "t10k"}
CIFAR10_URL = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"


def present(name: str, root: Path | None = None) -> bool:
    """Whether the files of a data set are found (not whether they are sound)."""
    match name:
        case "digits" | "digits-3-8":
            return find_spec("sklearn") is not None
        case "fashion-mnist":
            return all(_fashion_files(split, root) is not None for split in FASHION_STEMS)
        case "cifar10":
            return _cifar_source(root) is not None
        case "photos":
            return photos.present()
        case "pairs":
            return pairs.files(root) is not None and find_spec("PIL") is not None
    return True


def digits(split: str, root: Path | None = None, download: bool = False) -> Prepared | None:
    """scikit-learn's digits, 8x8 with values 0..16, scaled to 0..255 and enlarged four times."""
    table = _digits_table()
    if table is None:
        return None
    order = permutation(derive(0, "digits split"), len(table))
    rows = table[order[:DIGITS_TRAIN] if split == "train" else order[DIGITS_TRAIN:]]
    scaled = ((rows[:, :64] * 255 + 8) // 16).astype(np.uint8).reshape(-1, 8, 8)
    enlarged = scaled.repeat(4, axis=1).repeat(4, axis=2)
    return np.repeat(enlarged[:, None], 3, axis=1), rows[:, 64].copy()


def two_digits(split: str, root: Path | None = None, download: bool = False) -> Prepared | None:
    """Threes (A) and eights (B) of `digits`, each pixel 16x16: two domains that differ in one stroke."""
    prepared = digits(split)
    return None if prepared is None else pairs.of_digits(*prepared, (3, 8))


def fashion_mnist(split: str, root: Path | None = None, download: bool = False) -> Prepared | None:
    """Zalando's Fashion-MNIST from its IDX files, 28x28 padded to 32x32 with zeros."""
    files = _fashion_files(split, root)
    if files is None and download:
        target = root or fetch.data_dir() / "fashion-mnist"
        for name in _fashion_names(split):
            fetch.download(f"{FASHION_URL}{name}.gz", target / f"{name}.gz")
        files = _fashion_files(split, root)
    if files is None:
        return None
    images, labels = read_idx(files[0], 3), read_idx(files[1], 1)
    if images.shape[1:] != (28, 28) or len(images) != len(labels):
        raise UserError(f"{files[0]} holds no 28x28 image for each label of {files[1]}; get them again")
    padded = np.zeros((len(images), 3, 32, 32), np.uint8)
    padded[:, :, 2:30, 2:30] = images[:, None]
    return padded, labels.astype(np.int64)


def cifar10(split: str, root: Path | None = None, download: bool = False) -> Prepared | None:
    """CIFAR-10 from the extracted folder or the archive of its Python version."""
    source = _cifar_source(root)
    if source is None and download:
        fetch.download(CIFAR10_URL, (root or fetch.data_dir() / "cifar10") / ARCHIVE)
        source = _cifar_source(root)
    return read_cifar10(source, split) if source else None


def synthetic(split: str, root: Path | None = None, download: bool = False) -> Prepared | None:
    """Random bytes 1..255 with random labels, the same for every seed of a study.

    A drawn 0 becomes 1, so 1 is twice as likely as any other value: no matter for timing.
    """
    n = SYNTHETIC[split]
    images = octets(derive(0, f"synthetic images {split}"), n * 3 * 32 * 32)
    np.maximum(images, 1, out=images)
    return images.reshape(n, 3, 32, 32), integers(derive(0, f"synthetic labels {split}"), n, 10)


def _digits_table() -> NDArray[np.int64] | None:
    """[1797, 65]: 64 pixels and the label. None without scikit-learn.

    The file is read without importing the package, which takes a second and loads another OpenMP
    runtime into a process that may be about to time something.
    """
    spec = find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        return None
    path = Path(spec.submodule_search_locations[0]) / "datasets" / "data" / "digits.csv.gz"
    if path.is_file():
        with gzip.open(path, "rt") as file:
            return np.loadtxt(file, delimiter=",").astype(np.int64)
    from sklearn.datasets import load_digits  # the file has moved: ask the package

    data, target = load_digits(return_X_y=True)
    return np.column_stack([data, target]).astype(np.int64)


def _fashion_names(split: str) -> tuple[str, str]:
    stem = FASHION_STEMS[split]
    return f"{stem}-images-idx3-ubyte", f"{stem}-labels-idx1-ubyte"


def _fashion_files(split: str, root: Path | None) -> tuple[Path, Path] | None:
    """Images and labels of a split, from the first place that has both, packed or not."""
    for place in fetch.places("fashion-mnist", root):
        found = [_packed_or_not(place / name) for name in _fashion_names(split)]
        if found[0] is not None and found[1] is not None:
            return found[0], found[1]
    return None


def _packed_or_not(path: Path) -> Path | None:
    packed = path.with_name(f"{path.name}.gz")
    return next((file for file in (packed, path) if file.is_file()), None)


def _cifar_source(root: Path | None) -> Path | None:
    sources = (find_cifar10(place) for place in fetch.places("cifar10", root))
    return next((source for source in sources if source is not None), None)
