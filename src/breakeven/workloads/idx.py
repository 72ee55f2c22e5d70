"""Reads IDX files, the format of MNIST and its kin, plain or gzipped.

Knows nothing about which data set a file belongs to.
Format: http://yann.lecun.com/exdb/mnist/ (magic 0 0 type rank, big-endian 32-bit sizes, the values).
"""

from __future__ import annotations

import gzip
import struct
import zlib
from math import prod
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from breakeven.errors import UserError

UNSIGNED_BYTE = 0x08  # the only element type that MNIST-like sets use


def read_idx(path: Path, rank: int) -> NDArray[np.uint8]:
    """The array of an IDX file of unsigned bytes with `rank` dimensions; a name ending in .gz is unpacked.

    Raises UserError naming the file where it is truncated, too long, of another type or rank, or unreadable.
    """
    raw = _content(path)
    header = 4 + 4 * rank
    if raw[:4] != bytes((0, 0, UNSIGNED_BYTE, rank)):
        raise UserError(f"{path} is no IDX file of bytes with {rank} dimensions (wrong magic); get it again")
    if len(raw) < header:
        raise UserError(f"{path} is truncated inside its header; get it again")
    shape = struct.unpack(f">{rank}I", raw[4:header])
    if len(raw) - header != prod(shape):
        what = "truncated" if len(raw) - header < prod(shape) else "too long"
        raise UserError(f"{path} is {what}: {len(raw) - header} bytes for shape {shape}; get it again")
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)


def _content(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if path.suffix == ".gz" else raw
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path} is truncated or damaged ({error}); get it again") from error
    except OSError as error:
        raise UserError(f"can't read {path} ({error.strerror}); check that it is a readable file") from error
