"""The saved state of a full run: a crash at any moment leaves the old one or the new one whole.

Knows nothing about what a runtime saves, or about attempts.

    FOLDER/state       the last whole state: the runtime's files, and epochs.json that names and hashes them
    FOLDER/state.new   one that is being written; whole once it holds epochs.json
    FOLDER/state.old   the one before, for the moment of the exchange
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakeven.errors import UserError
from breakeven.records.canonical import to_json
from breakeven.records.lines import Epoch

INDEX = "epochs.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved:
    """A whole state: whose it is, the attempt that saved it, and the epochs trained up to it."""

    case_id: str
    replicate: int
    attempt: int
    epochs: tuple[Epoch, ...]


def save(folder: Path, saved: Saved, write: Callable[[Path], None]) -> None:
    """Saves a state: `write` puts the runtime's files into the folder that it is given."""
    fresh, state, old = folder / "state.new", folder / "state", folder / "state.old"
    for left in (fresh, old):
        shutil.rmtree(left, ignore_errors=True)
    fresh.mkdir(parents=True)
    write(fresh)
    files = {path.name: _digest(path) for path in sorted(fresh.iterdir())}
    part = fresh / f"{INDEX}.part"
    part.write_text(json.dumps({**to_json(saved), "files": files}, allow_nan=False), encoding="utf-8")
    for path in fresh.iterdir():
        _sync(path)
    part.rename(fresh / INDEX)  # what makes the new state a whole one
    _sync(fresh)
    if state.exists():
        state.rename(old)
    fresh.rename(state)
    _sync(folder)
    shutil.rmtree(old, ignore_errors=True)


def save_weights(path: Path, weights: Mapping[str, Any]) -> str:
    """Writes trained weights as a file that `--weights` reads, whole or not at all; returns `sha256:...`."""
    import numpy as np

    from breakeven.workloads.weights import weights_hash

    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    with part.open("wb") as file:
        np.savez(file, **weights)
    _sync(part)
    part.replace(path)
    return f"sha256:{weights_hash(dict(weights))}"


def load(folder: Path, case_id: str, replicate: int) -> Saved | None:
    """The last whole state of this run, checked to the last byte; None if there is none.

    Raises UserError, one line, for a state that is damaged or another run's.
    """
    state, fresh = folder / "state", folder / "state.new"
    if not state.exists() and (fresh / INDEX).exists():
        fresh.rename(state)  # killed between the two renames of an exchange
    if not state.exists():
        return None
    try:
        saved, files = _read(state)
        damaged = next((name for name, digest in files.items() if _digest(state / name) != digest), None)
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise UserError(_refused(state, f"is damaged ({type(error).__name__})")) from error
    if damaged is not None:
        raise UserError(_refused(state, f"is damaged ({damaged})"))
    if (saved.case_id, saved.replicate) != (case_id, replicate):
        raise UserError(_refused(state, "is of another case or replicate"))
    return saved


def _refused(state: Path, what: str) -> str:
    return f"saved state {state} {what}: delete {state.parent} to train from the start, or use --fresh"


def _read(state: Path) -> tuple[Saved, dict[str, str]]:
    from pydantic import TypeAdapter

    text = (state / INDEX).read_text(encoding="utf-8")
    value = TypeAdapter(dict[str, Any]).validate_python(json.loads(text))
    files = TypeAdapter(dict[str, str]).validate_python(value.pop("files"))
    saved = TypeAdapter(Saved).validate_python(value)
    if [epoch.index for epoch in saved.epochs] != list(range(len(saved.epochs))):
        raise ValueError("an epoch is missing")
    if any(Path(name).name != name for name in files):
        raise ValueError("a file outside the folder")
    return saved, files


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
