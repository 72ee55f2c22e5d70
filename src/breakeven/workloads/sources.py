"""Trained weights: found in a file or a package, renamed as the model declares them, verified, and kept.

Knows nothing about frameworks. What is kept is canonical (our names, float32), so that one hash names the
weights whatever file they came from: `sha256:` of names, shapes and numbers.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import zipfile
from pathlib import Path

import numpy as np

from breakeven.errors import UserError
from breakeven.records.case import Work
from breakeven.workloads import state_dict
from breakeven.workloads.fetch import cache_dir
from breakeven.workloads.layers import Model
from breakeven.workloads.weights import (
    Weights,
    declared_shapes,
    drawn_for_inference,
    initial_weights,
    weights_hash,
)

PACKAGE = "package:"
SUFFIXES = (".npz", ".pth", ".pt", ".bin")
IDENTITY = re.compile(r"sha256:[0-9a-f]{64}")

# Names of torchvision's and timm's vision transformers -> the declared ones.
RENAMED = tuple(
    (re.compile(pattern), ours)
    for pattern, ours in (
        (r"class_token|cls_token", "embed.cls_token"),
        (r"encoder\.pos_embedding|pos_embed", "embed.pos_embed"),
        (r"conv_proj\.(.*)", r"patch_embed.proj.\1"),
        (r"encoder\.layers\.encoder_layer_(\d+)\.ln_([12])\.(.*)", r"blocks.\1.norm\2.\3"),
        (
            r"encoder\.layers\.encoder_layer_(\d+)\.self_attention\.in_proj_(weight|bias)",
            r"blocks.\1.attn.qkv.\2",
        ),
        (
            r"encoder\.layers\.encoder_layer_(\d+)\.self_attention\.out_proj\.(.*)",
            r"blocks.\1.attn.proj.\2",
        ),
        (r"encoder\.layers\.encoder_layer_(\d+)\.mlp\.(?:0|linear_1)\.(.*)", r"blocks.\1.mlp.fc1.\2"),
        (r"encoder\.layers\.encoder_layer_(\d+)\.mlp\.(?:3|linear_2)\.(.*)", r"blocks.\1.mlp.fc2.\2"),
        (r"encoder\.ln\.(.*)", r"norm.\1"),
        (r"heads\.head\.(.*)", r"head.\1"),
    )
)


def of(work: Work, model: Model) -> Weights:
    """The weights that a case begins with: kept ones where the work names them, else drawn from its seed.

    Raises UserError where named ones are not kept on this machine, or do not fit the model.
    """
    if work.weights is not None:
        return kept(work.weights, model)
    return (drawn_for_inference if work.task == "infer" else initial_weights)(model, work.seed)


def read(source: str, model: Model) -> Weights:
    """Weights of a model from a source, float32 under the declared names.

    `source` is a file of ours (.npz), a state dict that torch saved (with torchvision's names, or timm's of a
    vision transformer), or `package:DISTRIBUTION`: the one such file within an installed distribution.
    Raises UserError for a file that is not there, is something else, or does not fit.
    """
    path = (
        _in_package(source.removeprefix(PACKAGE)) if source.startswith(PACKAGE) else Path(source).expanduser()
    )
    named = _npz(path) if path.suffix == ".npz" else state_dict.read(path)
    return _fitting(named, model, str(path))


def keep(weights: Weights) -> str:
    """Puts weights into the cache, whole or not at all; returns what a case calls them: `sha256:...`."""
    name = weights_hash(weights)
    path = _cache(name)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        with part.open("wb") as file:
            np.savez(file, **weights)  # type: ignore[arg-type]  # its stub takes a name for an option
        part.replace(path)
    return f"sha256:{name}"


def kept(identity: str, model: Model) -> Weights:
    """Weights of the cache by what a case calls them, verified by their hash."""
    if IDENTITY.fullmatch(identity) is None:
        raise UserError(f"weights {identity!r} are named by no sha256: give a file or package:DISTRIBUTION")
    name = identity.removeprefix("sha256:")
    path = _cache(name)
    if not path.is_file():
        raise UserError(f"weights {identity[:19]}... are not kept here: name their file again with --weights")
    weights = _fitting(_npz(path), model, str(path))
    if weights_hash(weights) != name:
        raise UserError(f"{path} was changed: delete it and name the weights' file again with --weights")
    return weights


def _cache(name: str) -> Path:
    return cache_dir() / "weights" / f"{name}.npz"


def _npz(path: Path) -> state_dict.Tensors:
    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    except OSError as error:
        raise UserError(f"can't read weights {path}: {error.strerror or error}") from error
    except (ValueError, zipfile.BadZipFile, EOFError) as error:
        raise UserError(f"{path} is no .npz of arrays: {' '.join(str(error).split())}") from error


def _in_package(distribution: str) -> Path:
    try:
        files = importlib.metadata.files(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        raise UserError(
            f"no package {distribution} is installed: pip install --no-deps {distribution}"
        ) from None
    found = [file for file in files if file.suffix in SUFFIXES]
    if len(found) != 1:
        names = ", ".join(map(str, found[:5])) or "none"
        raise UserError(f"package {distribution} holds {len(found)} files of weights, not one: {names}")
    return Path(str(found[0].locate()))


def _fitting(named: state_dict.Tensors, model: Model, where: str) -> Weights:
    """The arrays as float32 under the declared names, in the declared order; all of them and no other."""
    # Batch norm's count of steps is no weight; `module.` is what torch's data parallelism puts in front.
    ours = {
        _renamed(name.removeprefix("module.")): array
        for name, array in named.items()
        if not name.endswith(".num_batches_tracked")
    }
    expected = declared_shapes(model)
    wrong = [f"{name} is missing" for name in expected if name not in ours]
    wrong += [f"{name} is none of its tensors" for name in ours if name not in expected]
    wrong += [
        f"{name} is {_by(ours[name].shape)}, not {_by(shape)}"
        for name, shape in expected.items()
        if name in ours and ours[name].shape != shape
    ]
    if wrong:
        more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
        raise UserError(
            f"weights {where} do not fit {model.name} with {model.num_classes} classes: "
            f"{'; '.join(wrong[:3])}{more}"
        )
    weights = {name: np.ascontiguousarray(ours[name], np.float32) for name in expected}
    if bad := next((name for name, array in weights.items() if not np.isfinite(array).all()), None):
        raise UserError(f"weights {where}: {bad} is not finite")
    return weights


def _renamed(name: str) -> str:
    for pattern, ours in RENAMED:
        if match := pattern.fullmatch(name):
            return match.expand(ours)
    return name


def _by(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape)) or "a number"
