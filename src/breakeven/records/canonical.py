"""Canonical JSON and the ids made from it.

Knows nothing about which records exist: it turns frozen dataclasses into JSON and hashes.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

ID_VERSION = 1
"""Version of the id rule. It changes only if equal cases would get other ids; it is part of every id."""

ID_LENGTH = 16
"""Hex digits kept of the sha256: 64 bits, a collision chance below 1e-9 at 100,000 cases (birthday bound)."""

ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)

Json = None | bool | int | float | str | list[Any] | dict[str, Any]


def to_json(value: Any) -> Any:
    """A frozen dataclass, tuple or mapping as plain JSON values (tuples become lists), nothing omitted."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray)):
        return [to_json(item) for item in value]
    return value


def without_defaults(value: Any) -> Any:
    """Like `to_json`, but every field that equals its declared default is left out.

    That is why an axis added later leaves the ids of old cases as they are: its default is not hashed.
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        out: dict[str, Any] = {}
        for name, default, factory in _fields(type(value)):
            item = getattr(value, name)
            if default is not dataclasses.MISSING and item == default and type(item) is type(default):
                continue
            if factory is not dataclasses.MISSING and item == factory():
                continue
            out[name] = without_defaults(item)
        return out
    return to_json(value)


@lru_cache(maxsize=64)
def _fields(kind: type[Any]) -> tuple[tuple[str, Any, Any], ...]:
    """Name, default and maker of the default of every field."""
    return tuple((f.name, f.default, f.default_factory) for f in dataclasses.fields(kind))


def canonical(value: Any) -> str:
    """JSON with sorted keys, no spaces, no NaN: equal values give equal text on every machine.

    Raises ValueError for NaN and infinities: they have no place in an id or a record.
    """
    return ENCODER.encode(value)


def digest(kind: str, value: Any) -> str:
    """The id of `value`: the first 16 hex digits of sha256 over id version, kind and canonical JSON."""
    text = canonical([ID_VERSION, kind, without_defaults(value)])
    return hashlib.sha256(text.encode("ascii")).hexdigest()[:ID_LENGTH]
