"""Reads a state dict that torch has saved, without torch: both its formats, tensors only.

Knows nothing about models. The pickle inside may name containers and tensors and nothing else, so that no
code of a file is ever run (what `weights_only=True` means in torch). So other runtimes need no torch for
their weights.
"""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from breakeven.errors import UserError

Tensors = dict[str, NDArray[Any]]

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
"""How a file of torch before 1.6 begins: torch.serialization's MAGIC_NUMBER and PROTOCOL_VERSION."""

BF16 = "bfloat16"
DTYPES = {
    "DoubleStorage": "<f8",
    "FloatStorage": "<f4",
    "HalfStorage": "<f2",
    "BFloat16Storage": BF16,
    "LongStorage": "<i8",
    "IntStorage": "<i4",
    "ShortStorage": "<i2",
    "CharStorage": "<i1",
    "ByteStorage": "<u1",
    "BoolStorage": "?",
}


@dataclass(frozen=True, slots=True)
class _Lazy:
    """A tensor whose numbers come later in the file: elements of storage `key` from `offset` by `stride`."""

    key: str
    dtype: str
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def read(path: Path) -> Tensors:
    """Name -> array, of a flat state dict or one under the key `state_dict`; BF16 becomes float32.

    Raises UserError for a file that is no such thing or holds more than tensors.
    """
    try:
        with path.open("rb") as file:
            stored, storage = (_from_zip if zipfile.is_zipfile(file) else _from_stream)(file)
        if isinstance(stored, dict) and isinstance(stored.get("state_dict"), dict):
            stored = stored["state_dict"]
        if not isinstance(stored, dict) or not stored:
            raise pickle.UnpicklingError("it holds no state dict")
        return {str(name): _tensor(value, storage) for name, value in stored.items()}
    except OSError as error:
        raise UserError(f"can't read weights {path}: {error.strerror or error}") from error
    except Exception as error:  # a hostile or damaged pickle can raise anything
        why = " ".join(str(error).split())
        raise UserError(f"{path} is no state dict of tensors that torch saved: {why}") from error


class _Unpickler(pickle.Unpickler):
    """Knows tensors, their storages and OrderedDict; refuses any other name."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(file, encoding="utf-8")

    def find_class(self, module: str, name: str) -> Any:
        known: dict[tuple[str, str], Callable[..., Any]] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
            ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
        }
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is no tensor")
        return known[module, name]

    def persistent_load(self, pid: Any) -> tuple[str, str]:
        kind, dtype, key = pid[:3]
        if kind != "storage" or dtype not in DTYPES.values():
            raise pickle.UnpicklingError(f"unknown storage {kind} {dtype}")
        if len(pid) > 5 and pid[5] is not None:
            raise pickle.UnpicklingError("a storage that is a view of another")
        return str(key), dtype


def _rebuild_tensor(
    storage: tuple[str, str], offset: int, shape: tuple[int, ...], stride: tuple[int, ...], *_: Any
) -> _Lazy:
    return _Lazy(*storage, offset, tuple(shape), tuple(stride))


def _rebuild_parameter(data: _Lazy, *_: Any) -> _Lazy:
    return data


Storage = Callable[[str, str], NDArray[Any]]
"""(key, dtype) -> the storage's elements, flat."""


def _from_zip(file: BinaryIO) -> tuple[Any, Storage]:
    archive = zipfile.ZipFile(file)
    (pickled,) = (name for name in archive.namelist() if name.endswith("/data.pkl"))
    folder = pickled.removesuffix("data.pkl")
    if f"{folder}byteorder" in archive.namelist() and archive.read(f"{folder}byteorder") != b"little":
        raise ValueError("written on a big-endian machine")
    contents = {
        name.removeprefix(f"{folder}data/"): archive.read(name)
        for name in archive.namelist()
        if name.startswith(f"{folder}data/")
    }
    stored = _Unpickler(io.BytesIO(archive.read(pickled))).load()
    return stored, lambda key, dtype: _elements(contents[key], dtype)


def _from_stream(file: BinaryIO) -> tuple[Any, Storage]:
    file.seek(0)
    if (_Unpickler(file).load(), _Unpickler(file).load()) != (MAGIC, PROTOCOL):
        raise ValueError("it does not begin as one")
    if not _Unpickler(file).load().get("little_endian", True):  # facts about the machine that wrote it
        raise ValueError("written on a big-endian machine")
    unpickler = _Unpickler(file)
    stored = unpickler.load()
    keys = _Unpickler(file).load()
    dtypes = {value.key: value.dtype for value in _values(stored) if isinstance(value, _Lazy)}
    contents: dict[str, bytes] = {}
    for key in map(str, keys):
        (n,) = struct.unpack("<q", file.read(8))
        contents[key] = file.read(n * _size(dtypes.get(key, "<f4")))
    return stored, lambda key, dtype: _elements(contents[key], dtype)


def _values(stored: Any) -> list[Any]:
    if not isinstance(stored, dict):
        return [stored]
    return [inner for value in stored.values() for inner in _values(value)]


def _size(dtype: str) -> int:
    return 2 if dtype == BF16 else np.dtype(dtype).itemsize


def _elements(content: bytes, dtype: str) -> NDArray[Any]:
    if dtype != BF16:
        return np.frombuffer(content, dtype)
    return (np.frombuffer(content, "<u2").astype("<u4") << np.uint32(16)).view("<f4")


def _tensor(value: Any, storage: Storage) -> NDArray[Any]:
    if not isinstance(value, _Lazy):
        raise pickle.UnpicklingError(f"a {type(value).__name__} where a tensor should be")
    flat = storage(value.key, value.dtype)
    last = value.offset + sum((n - 1) * step for n, step in zip(value.shape, value.stride, strict=True))
    if min(value.shape, default=1) < 1 or not 0 <= value.offset <= last < len(flat):
        raise ValueError("a tensor reaches beyond its storage")
    strides = tuple(step * flat.itemsize for step in value.stride)
    view = np.lib.stride_tricks.as_strided(flat[value.offset :], value.shape, strides, writeable=False)
    return view.copy()
