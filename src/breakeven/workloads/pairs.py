"""Images of two domains, 128x128: two of scikit-learn's digits, or two folders of the user's.

Knows nothing about hashes of the catalog or about nets. Label 0 is domain A, 1 is B. The domains are not
paired: which image of one meets which of the other is an order's to say.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from breakeven.errors import UserError
from breakeven.workloads import fetch, photos
from breakeven.workloads.philox import derive, permutation

SIDE = 128
SUFFIXES = (".jpg", ".jpeg", ".png")
TEST_SHARE = 5
"""Of two plain folders A and B every fifth image is for testing."""

Found = dict[str, tuple[tuple[Path, ...], tuple[Path, ...]]]
"""Split -> its files of A and of B."""


def of_digits(
    images: NDArray[np.uint8], labels: NDArray[np.int64], digits: tuple[int, int]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The two digits of [N, C, 32, 32] images enlarged four times; labels 0 and 1."""
    chosen = np.isin(labels, digits)
    enlarged = images[chosen].repeat(SIDE // 32, axis=2).repeat(SIDE // 32, axis=3)
    return enlarged, (labels[chosen] == digits[1]).astype(np.int64)


def of_folders(
    split: str, root: Path | None = None, download: bool = False
) -> tuple[NDArray[np.uint8], NDArray[np.int64]] | None:
    """The largest centred square of each image, bilinear to 128x128; A before B, each by name of file."""
    found = files(root)
    if found is None or find_spec("PIL") is None:
        return None
    images, labels = [], []
    for label, names in enumerate(found[split]):
        images += [_prepared(path) for path in names]
        labels += [label] * len(names)
    return np.stack(images), np.array(labels, np.int64)


def files(root: Path | None = None) -> Found | None:
    """The files of each split and domain: folders trainA, trainB, testA and testB, else A and B, of the first
    place that has them. Raises UserError where one of them is empty.
    """
    for place in fetch.places("pairs", root):
        if all((place / f"{split}{domain}").is_dir() for split in ("train", "test") for domain in "AB"):
            found = {
                split: (_images(place / f"{split}A"), _images(place / f"{split}B"))
                for split in ("train", "test")
            }
        elif all((place / domain).is_dir() for domain in "AB"):
            parts = [_parted(_images(place / domain)) for domain in "AB"]
            found = {split: (parts[0][split], parts[1][split]) for split in ("train", "test")}
        else:
            continue
        if not all(names for split in found.values() for names in split):
            raise UserError(f"{place} holds a folder with too few images ({', '.join(SUFFIXES)})")
        return found
    return None


def identity(found: Found) -> str:
    """SHA-256 over split, domain and bytes of every file, in order; names do not count."""
    told = tuple(
        (f"{split}{domain}", str(path), path.stat().st_size, path.stat().st_mtime_ns)
        for split, domains in found.items()
        for domain, names in zip("AB", domains, strict=True)
        for path in names
    )
    return _hashed(told)


@lru_cache(maxsize=4)
def _hashed(told: tuple[tuple[str, str, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for where, path, size, _ in told:
        digest.update(f"{where} {size}\n".encode())
        digest.update(Path(path).read_bytes())
    return digest.hexdigest()


def _images(folder: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES))


def _parted(names: tuple[Path, ...]) -> dict[str, tuple[Path, ...]]:
    order = permutation(derive(0, "pairs split"), len(names)).tolist()
    tests = set(order[: -(-len(names) // TEST_SHARE)]) if len(names) > 1 else set()
    return {
        "train": tuple(path for index, path in enumerate(names) if index not in tests),
        "test": tuple(path for index, path in enumerate(names) if index in tests),
    }


def _prepared(path: Path) -> NDArray[np.uint8]:
    pixels = photos.decoded(path)
    height, width = pixels.shape[1:]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    return photos.resized(pixels[:, top : top + side, left : left + side], SIDE)
