"""Flags on top of a study's document: text as typed becomes values whose place is the flag.

Knows nothing about which values are valid: the study's keys are validated afterwards, flags included.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from breakeven.errors import UserError
from breakeven.runner.document import Document, Path, one_line, parse_value, show
from breakeven.runner.study import AXES

LISTS = (*AXES, "load")
"""Keys that hold several values."""
NAMED = {"p99_limit_ms": "max-p99"}
"""Keys whose flag has another name."""
VERBATIM = ("name", "title")
"""Keys whose text stays text: a study may be named 2026."""


def key_named(option: str) -> str | None:
    """The study key, dotted where it lies deeper, that a mistyped option most likely means; None if none."""
    from breakeven.runner.schema import RecipeKeys, StudyKeys

    if option in StudyKeys.model_fields:
        return option
    return f"recipe.{option}" if option in RecipeKeys.model_fields else None


def overridden(document: Document, overrides: Mapping[str, Any]) -> Document:
    """The document with every given override in place of what it held; None means not given."""
    values, where = dict(document.values), dict(document.where)
    for key, given in overrides.items():
        if given is None or key == "set":
            continue
        key = key.replace("-", "_")
        flag = "--" + NAMED.get(key, key.replace("_", "-"))
        typed = _typed(key, given, flag)
        if key == "tuning":
            excluded = _still_excluded(values, typed)
            typed = _defined(typed, values)
            if excluded is not None:
                _put(values, where, ("exclude",), excluded, flag)
        _put(values, where, (key,), typed, flag)
    for text in _texts(overrides.get("set")):
        path, value, flag = _assignment(text)
        _put(values, where, path, value, flag)
    return Document(values=values, where=where)


def _texts(given: Any) -> Sequence[str]:
    return () if given is None else (given,) if isinstance(given, str) else given


def _typed(key: str, given: Any, flag: str) -> Any:
    """Text as YAML; an axis given as text, or as several, is split at commas."""
    if key in VERBATIM:
        return given
    if key not in LISTS:
        return parse_value(given, flag) if isinstance(given, str) else given
    out: list[Any] = []
    for item in given if isinstance(given, (list, tuple)) else [given]:
        pieces = _pieces(item) if isinstance(item, str) else [item]
        for piece in pieces:
            value = parse_value(piece, flag) if isinstance(piece, str) else piece
            out += value if isinstance(value, list) else [value]
    return out


def _defined(names: Any, values: Mapping[str, Any]) -> Any:
    """The tunings that the document defines in place of their names: `--tuning fused` of `frameworks`."""
    own = {item["name"]: item for item in _listed(values) if isinstance(item, Mapping) and "name" in item}
    return [own.get(name, name) if isinstance(name, str) else name for name in names]


def _still_excluded(values: Mapping[str, Any], names: Any) -> list[Any] | None:
    """What the document excludes, without its tunings that are not among `names`; None: all of it."""
    excluded, before = values.get("exclude"), {_name_of(item) for item in _listed(values)}
    gone = before - set(map(_name_of, names))
    if not isinstance(excluded, list):
        return None
    kept: list[Any] = []
    for entry in excluded:
        meant = _listed(entry) if isinstance(entry, Mapping) else []
        left = [name for name in meant if _name_of(name) not in gone]
        if left == meant:
            kept.append(entry)
        elif left:
            kept.append({**entry, "tuning": left})
    return kept if kept != excluded else None


def _listed(values: Mapping[str, Any]) -> list[Any]:
    """The tunings of a document, or of what it excludes."""
    listed = values.get("tuning")
    return listed if isinstance(listed, list) else [] if listed is None else [listed]


def _name_of(item: Any) -> str:
    return str(item.get("name", item.get("preset"))) if isinstance(item, Mapping) else str(item)


def _pieces(text: str) -> list[str]:
    """`a,b` is two values; a YAML list or mapping is left whole."""
    return [text] if text.lstrip().startswith(("[", "{")) else text.split(",")


def _assignment(text: str) -> tuple[Path, Any, str]:
    key, equals, value = text.partition("=")
    parts = tuple(part.replace("-", "_") for part in key.strip().split("."))
    if not equals or not all(parts):
        raise UserError(f"--set {show(text)}: write KEY=VALUE, such as --set recipe.lr=0.01")
    flag = one_line(f"--set {key.strip()[:60]}")
    return parts, parse_value(value, flag), flag


def _put(values: dict[str, Any], where: dict[Path, str], path: Path, value: Any, flag: str) -> None:
    here = values
    for part in path[:-1]:
        inner = here.get(str(part), {})
        if not isinstance(inner, Mapping):
            raise UserError(f"{flag}: {show(part)} holds {show(inner)}, which has no keys")
        here[str(part)] = dict(inner)  # a copy: the document that was given stays as it is
        here = here[str(part)]
    here[str(path[-1])] = value
    for old in [old for old in where if old[: len(path)] == path]:
        del where[old]
    for end in range(1, len(path)):
        where.setdefault(path[:end], flag)
    where[path] = flag
