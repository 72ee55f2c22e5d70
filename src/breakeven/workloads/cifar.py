"""Reads CIFAR-10's Python batches from the published archive or its folder, running no pickled code.

Knows nothing about where data sets are kept.
Format: https://www.cs.toronto.edu/~kriz/cifar.html, a pickle (protocol 2, written by Python 2) of a dict with
`data` uint8 [n, 3072] (red, green, blue planes in row order) and `labels`, a list of n integers in 0..9.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import tarfile
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.errors import UserError

ARCHIVE = "cifar-10-python.tar.gz"
ARCHIVE_MD5 = "c58f30108f718f92721af3b95e74349a"  # published on the page above
FOLDER = "cifar-10-batches-py"
CLASSES = 10
# MD5 of each batch file, as torchvision/datasets/cifar.py lists them.
BATCHES: dict[str, dict[str, str]] = {
    "train": {
        "data_batch_1": "c99cafc152244af753f735de768cd75f",
        "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
        "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
        "data_batch_4": "634d18415352ddfa80567beed471001a",
        "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    },
    "test": {"test_batch": "40351d587109b95175f43aff81a1287e"},
}


def find_cifar10(place: Path) -> Path | None:
    """The extracted folder, else the archive, at `place` or one level below; None without either."""
    if place.is_file():
        return place
    for folder in (place, place / FOLDER):
        if (folder / "test_batch").is_file():
            return folder
    return place / ARCHIVE if (place / ARCHIVE).is_file() else None


def read_cifar10(source: Path, split: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images uint8 [n, 3, 32, 32] and labels int64 [n] of 'train' or 'test', from find_cifar10's answer.

    Raises UserError naming the file where a checksum, the pickle, a shape, a type or a label is wrong.
    """
    raws = _from_folder(source, split) if source.is_dir() else _from_archive(source, split)
    parts = []
    for name, md5 in BATCHES[split].items():
        where = f"{source}/{name}" if source.is_dir() else f"{name} in {source}"
        _check_md5(hashlib.md5(raws[name], usedforsecurity=False).hexdigest(), md5, where)
        parts.append(read_batch(raws[name], where))
    images, labels = zip(*parts, strict=True)
    return np.concatenate(images), np.concatenate(labels)


def read_batch(raw: bytes, where: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images uint8 [n, 3, 32, 32] and labels int64 [n] of one batch's bytes; `where` names it in errors."""
    try:
        batch = _BatchUnpickler(io.BytesIO(raw), encoding="bytes").load()
        data, labels = batch[b"data"], batch[b"labels"]
        images = data.array if isinstance(data, _PickledArray) else None
    except Exception as error:  # a hostile or damaged pickle can raise anything
        what = f"{type(error).__name__}: {error}"
        raise UserError(f"{where} is no CIFAR-10 batch ({what}); get it again") from error
    if images is None or images.ndim != 2 or images.shape[1] != 3072:
        raise UserError(f"{where} is no CIFAR-10 batch: its data is not [n, 3072]; get it again")
    fine = isinstance(labels, list) and all(type(label) is int and 0 <= label < CLASSES for label in labels)
    if not fine or len(labels) != len(images):
        raise UserError(f"{where} is no CIFAR-10 batch: it needs one label of 0..9 per image; get it again")
    return images.reshape(-1, 3, 32, 32), np.array(labels, dtype=np.int64)


def _from_folder(folder: Path, split: str) -> dict[str, bytes]:
    try:
        return {name: (folder / name).read_bytes() for name in BATCHES[split]}
    except OSError as error:
        raise UserError(f"can't read {error.filename} ({error.strerror}); extract {ARCHIVE} again") from error


def _from_archive(archive: Path, split: str) -> dict[str, bytes]:
    try:
        with archive.open("rb") as file:
            _check_md5(hashlib.file_digest(file, _md5).hexdigest(), ARCHIVE_MD5, str(archive))
        found: dict[str, bytes] = {}
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                name = member.name.removeprefix(f"{FOLDER}/")
                content = tar.extractfile(member) if name in BATCHES[split] else None
                if content is not None:
                    found[name] = content.read()
    except (OSError, EOFError, tarfile.TarError) as error:
        raise UserError(f"can't read {archive} ({error}); get it again") from error
    absent = [name for name in BATCHES[split] if name not in found]
    if absent:
        raise UserError(f"{archive} lacks {', '.join(absent)}; get {ARCHIVE} again")
    return found


def _md5() -> Any:
    return hashlib.md5(usedforsecurity=False)


def _check_md5(found: str, expected: str, where: str) -> None:
    if found != expected:
        raise UserError(f"{where} is not the published CIFAR-10 (MD5 {found}, not {expected}); get it again")


class _PickledDtype:
    """Stands in for numpy.dtype: only unsigned bytes pass, whatever state follows."""

    def __init__(self, code: bytes | str, *_: object) -> None:
        if code not in (b"u1", "u1"):
            raise ValueError(f"array of {code!r}")

    def __setstate__(self, state: object) -> None:
        """Byte order and the like mean nothing for one byte."""


class _PickledArray:
    """Stands in for numpy.ndarray, so that neither NumPy's unpickling nor its version is involved."""

    def __init__(self) -> None:
        self.array: NDArray[np.uint8] | None = None

    def __setstate__(self, state: tuple[object, ...]) -> None:
        _, shape, dtype, fortran, raw = state
        assert isinstance(shape, tuple)
        if not (isinstance(dtype, _PickledDtype) and isinstance(raw, bytes) and len(raw) == prod(shape)):
            raise ValueError("array whose bytes don't fit its shape")
        self.array = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


def _reconstruct(*_: object) -> _PickledArray:
    return _PickledArray()


def _latin1(text: str, encoding: str = "latin1") -> bytes:
    """How Python 3 writes bytes in protocol 2; no other codec is looked up."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"codec {encoding!r}")
    return text.encode("latin-1")


class _BatchUnpickler(pickle.Unpickler):
    """Knows four names, all of them ours; any other global a pickle asks for is refused unseen."""

    allowed: dict[tuple[str, str], Any] = {  # noqa: RUF012 (never written)
        ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
        ("numpy", "ndarray"): _PickledArray,
        ("numpy", "dtype"): _PickledDtype,
        ("_codecs", "encode"): _latin1,
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.allowed:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no batch needs")
        return self.allowed[module, name]
