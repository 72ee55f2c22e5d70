"""Random numbers that stay the same on every machine, framework and NumPy version.

Knows nothing about what the numbers are for.
Only the raw words of NumPy's Philox4x64-10 (Salmon et al. 2011, counter-based) are used, whose stream NumPy
keeps fixed; its Generator's distributions may change between versions (NEP 19), so the mapping is ours.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np
from numpy.typing import NDArray

INTEGER_BOUND = 2**32


def derive(seed: int, purpose: str, *ints: int) -> int:
    """128-bit Philox key for one purpose: first 16 bytes of SHA-256 over the JSON list of the arguments.

    Keys of different purposes or integers are unrelated, so no draw depends on what was drawn before.
    """
    text = json.dumps([purpose, int(seed), *map(int, ints)], separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")


def words(key: int, n: int) -> NDArray[np.uint64]:
    """The first n raw 64-bit words of a key, uint64 [n]; words(key, m) is a prefix of words(key, n)."""
    raw: NDArray[np.uint64] = np.random.Philox(key=key).random_raw(n)
    return raw


def uniform(key: int, n: int) -> NDArray[np.float64]:
    """n numbers in [0, 1), float64 [n]: multiples of 2^-53, so the conversion is exact."""
    return (words(key, n) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permutation(key: int, n: int) -> NDArray[np.int64]:
    """A permutation of range(n), int64 [n]: the stable order of n raw words, so that a tie can't differ."""
    return np.argsort(words(key, n), kind="stable").astype(np.int64)


def integers(key: int, n: int, bound: int) -> NDArray[np.int64]:
    """n integers in range(bound), int64 [n], by remainder.

    A value's probability is off by less than bound * 2^-64 relative: under 2^-50 for bounds up to 2^14.
    """
    assert 0 < bound <= INTEGER_BOUND, f"bound {bound} is outside 1..2^32"
    return (words(key, n) % np.uint64(bound)).astype(np.int64)


def octets(key: int, n: int) -> NDArray[np.uint8]:
    """n bytes, uint8 [n]: the words' bytes, lowest first."""
    return words(key, -(-n // 8)).astype("<u8", copy=False).view(np.uint8)[:n]


def symmetric(key: int, n: int, bound: float) -> NDArray[np.float32]:
    """n numbers in [-bound, bound), float32 [n].

    The top 24 bits of each half word (low half first) less 2^23 are exact in float32; the one product rounds
    as IEEE 754 prescribes, so the bits are equal on every processor.
    """
    halves = words(key, -(-n // 2)).astype("<u8", copy=False).view("<u4")[:n]
    centred = (halves >> np.uint32(8)).astype(np.int32) - np.int32(2**23)
    return centred.astype(np.float32) * np.float32(bound * 2.0**-23)
