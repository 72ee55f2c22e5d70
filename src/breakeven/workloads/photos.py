"""Photographs as 224x224 images: random crops of the sample pictures that scikit-learn ships.

Knows nothing about hashes or the catalog.
Two scenes are not ImageNet: they show activations of a realistic range, for calibration and for agreement
between precisions, and have no labels. All arithmetic after the JPEG decoder is in integers, so that every
machine gets the same bytes.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from breakeven.workloads.philox import derive, words

SIDE = 224
COUNTS = {"train": 256, "test": 512}
PICTURES = ("china.jpg", "flower.jpg")
WEIGHTS = 256
"""Steps of an interpolation's weight: 255 * 256 and its rounding fit 16 bits."""


def present() -> bool:
    """Whether the pictures and Pillow, which decodes them, are here."""
    return _folder() is not None and find_spec("PIL") is not None


def photos(
    split: str, root: Path | None = None, download: bool = False
) -> tuple[NDArray[np.uint8], NDArray[np.int64]] | None:
    """Crops uint8 [N, 3, 224, 224] of a picture, 224 pixels to its height wide, every other one mirrored.

    Labels are all 0. Nothing is looked for in `root`. None where scikit-learn or Pillow is missing.
    """
    folder = _folder()
    if folder is None or not present():
        return None
    pictures = [decoded(folder / name) for name in PICTURES]
    n = COUNTS[split]
    draws = words(derive(0, f"photos {split}"), 5 * n).reshape(n, 5)
    images = np.empty((n, 3, SIDE, SIDE), np.uint8)
    for image, draw in zip(images, draws.tolist(), strict=True):
        picture = pictures[draw[0] % len(pictures)]
        height, width = picture.shape[1:]
        side = SIDE + draw[1] % (min(height, width) - SIDE + 1)
        top, left = draw[2] % (height - side + 1), draw[3] % (width - side + 1)
        crop = resized(picture[:, top : top + side, left : left + side])
        image[:] = crop[:, :, ::-1] if draw[4] >> 63 else crop
    return images, np.zeros(n, np.int64)


def _folder() -> Path | None:
    """scikit-learn's pictures, found without importing the package."""
    spec = find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0]) / "datasets" / "images"
    return folder if all((folder / name).is_file() for name in PICTURES) else None


def decoded(path: Path) -> NDArray[np.uint8]:
    """uint8 [3, H, W]."""
    from PIL import Image

    with Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"), np.uint8)
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def resized(pixels: NDArray[np.uint8], to: int = SIDE) -> NDArray[np.uint8]:
    """Bilinear with pixel centres aligned, [3, side, side] to [3, to, to]; weights in steps of 1/256."""
    low, high, weight = _taps(pixels.shape[1], to)
    rows = _mix(pixels[:, low], pixels[:, high], weight[:, None])
    return _mix(rows[:, :, low], rows[:, :, high], weight)


def _taps(side: int, to: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint16]]:
    """For each of `to` outputs its two neighbours along an extent of `side` and the second one's weight."""
    # The centre of output i lies at (i + 1/2) side / to - 1/2, here in units of 1 / (2 * to).
    centre = np.maximum((2 * np.arange(to) + 1) * side - to, 0)
    low, rest = centre // (2 * to), centre % (2 * to)
    weight = (rest * WEIGHTS) // (2 * to)
    return low, np.minimum(low + 1, side - 1), weight.astype(np.uint16)


def _mix(
    first: NDArray[np.uint8], second: NDArray[np.uint8], weight: NDArray[np.uint16]
) -> NDArray[np.uint8]:
    total = first * (np.uint16(WEIGHTS) - weight) + second * weight + np.uint16(WEIGHTS // 2)
    mixed: NDArray[np.uint8] = (total >> np.uint16(8)).astype(np.uint8)
    return mixed
