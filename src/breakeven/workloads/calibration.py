"""The images that INT8 takes its ranges from: real ones, named so that a case says which.

Knows nothing about how a runtime quantises. A recipe is `minmax/IMAGES/ORIGIN`: the extremes over so many
images of the training split (`train`), or of a folder of the user's, kept by its content (`sha256:...`).
"""

from __future__ import annotations

import hashlib
import os
import re
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from breakeven.errors import UserError
from breakeven.workloads import data
from breakeven.workloads.data import DataEntry
from breakeven.workloads.fetch import cache_dir

RECIPE = re.compile(r"minmax/([1-9][0-9]{0,5})/(train|sha256:[0-9a-f]{64})")
PICTURES = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
MOST = 1024
"""Images of a folder that are taken, the first by name: extremes move little beyond some hundreds."""

Bytes = NDArray[np.uint8]


def images(recipe: str, known: DataEntry) -> Bytes:
    """The images of a recipe, uint8 [N, channels, height, width] as those of the data set.

    Raises UserError for a recipe that is none, images that are not kept here, or a training split too small.
    """
    found = RECIPE.fullmatch(recipe)
    if found is None:
        raise UserError(f"no calibration {recipe!r}: use minmax/IMAGES/train, such as minmax/256/train")
    asked, origin = int(found[1]), found[2]
    every = data.load(known.name, "train").images if origin == "train" else _kept(origin, known)
    if len(every) < asked:
        of_training = "training " if origin == "train" else ""
        raise UserError(f"calibration {recipe}: {known.name} has {len(every)} {of_training}images")
    return every[:asked]


def keep(folder: Path, known: DataEntry) -> str:
    """Reads the pictures of a folder, keeps them where every runtime finds them, and returns their recipe.

    Each is cut to its central square and scaled. Raises UserError, one line, for a folder without pictures or
    one that cannot be read.
    """
    if not folder.is_dir():
        raise UserError(f"no folder {folder}: --calibration takes a number, a recipe or a folder of pictures")
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in PICTURES)[:MOST]
    if not paths:
        raise UserError(f"{folder} holds no picture ({', '.join(PICTURES)})")
    if find_spec("PIL") is None:
        raise UserError("reading pictures needs Pillow: pip install pillow")
    whole = np.stack([_read(path, known.shape) for path in paths])
    name = _hash(whole)
    path = _cache(name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        with part.open("wb") as file:
            np.save(file, whole)
        part.replace(path)
    return f"minmax/{len(whole)}/sha256:{name}"


def _kept(origin: str, known: DataEntry) -> Bytes:
    path = _cache(origin.removeprefix("sha256:"))
    if not path.is_file():
        raise UserError(f"images {origin[:19]}... are not kept here: name their folder with --calibration")
    whole: Bytes = np.load(path, allow_pickle=False)
    if f"sha256:{_hash(whole)}" != origin:
        raise UserError(f"{path} was changed: delete it and name the folder again with --calibration")
    if whole.shape[1:] != known.shape:
        raise UserError(f"images {origin[:19]}... are not of the size of {known.name}")
    return whole


def _read(path: Path, shape: tuple[int, int, int]) -> Bytes:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path) as picture:
            side = min(picture.size)
            left, top = ((extent - side) // 2 for extent in picture.size)
            square = picture.convert("RGB").crop((left, top, left + side, top + side))
            scaled = square.resize((shape[2], shape[1]), Image.Resampling.BILINEAR)
    except (OSError, UnidentifiedImageError) as error:
        raise UserError(f"{path} is no picture that can be read: {' '.join(str(error).split())}") from error
    return np.asarray(scaled, np.uint8).transpose(2, 0, 1)


def _hash(whole: Bytes) -> str:
    return hashlib.sha256(f"{whole.shape}\n".encode() + whole.tobytes()).hexdigest()


def _cache(name: str) -> Path:
    return cache_dir() / "calibration" / f"{name}.npy"
