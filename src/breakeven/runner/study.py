"""A study: the declared grid and how well to measure it, from YAML, from built-in studies and from flags.

Knows nothing about the machine: which cases can run here is the plan's to say.
"""

import difflib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from breakeven import catalog
from breakeven.errors import UserError
from breakeven.records.canonical import to_json
from breakeven.records.case import Recipe, Task
from breakeven.records.ladder import removed_by
from breakeven.records.lines import Scenario
from breakeven.records.tuning import PRESETS, presets

if TYPE_CHECKING:
    from breakeven.runner.document import Document
    from breakeven.runner.schema import ExcludeKeys, StudyKeys, TuningKeys

DEFAULT_STUDY = "quick"
AXES = ("model", "device", "runtime", "precision", "batch", "tuning", "data", "seed")
LADDER = "ladder"
"""The tuning that stands for every preset, in their order."""
LEAVE_ONE_OUT = "leave-one-out"
"""The tuning that stands for the top of each device's ladder, less one step at a time."""
BEST = "best"
"""No tuning: the fastest of those measured, chosen afterwards and measured again."""
GROUPS = (LADDER, LEAVE_ONE_OUT, BEST)
CPU_THREADS = "cpu-threads"
"""The device that stands for 1, 2, 4, ... and all of the cores that are alike."""
THREAD_RANGE = r"((?:cpu|cuda|sim:).*?\bthreads=)([1-9][0-9]{0,3})\.\.([1-9][0-9]{0,3})(:.*)?"
"""A device with a range of threads, which doubles and ends with the larger number: `cpu:threads=1..6`."""
SEVERAL = ("auto", CPU_THREADS)
"""Devices whose labels are known on a machine only."""
MAX_COMBINATIONS = 20_000


@dataclass(frozen=True, kw_only=True, slots=True)
class NamedTuning:
    """A tuning as a study names it: a preset, and fields of `records.case.Tuning` changed on top of it."""

    name: str
    preset: str
    changes: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """What to measure and how well. Axes are tuples without repetition; durations are seconds.

    `device` holds device labels, ranges of them, `auto` and `cpu-threads`. None in `runtime` and `precision`:
    the tuning's own. Each of `exclude` maps axes to values: a combination that has one of them on every axis
    is left out. The tuning LEAVE_ONE_OUT stands for several, known once the device is. `best`: choose the
    fastest too, and measure it again. `weights`: where those of a model come from; `calibration`: how INT8
    finds its ranges. `load`: scenarios in which MLPerf's LoadGen asks, for `load_time` seconds at least.
    `profile`: a few steps of each case under its framework's profiler too; `bandwidth`:
    copies by size within and between the memories of its devices.
    """

    name: str
    title: str | None = None
    task: Task = "train"
    model: tuple[str, ...]
    device: tuple[str, ...] = ("auto",)
    runtime: tuple[str | None, ...] = (None,)
    precision: tuple[str | None, ...] = (None,)
    batch: tuple[int, ...] = (128,)
    tuning: tuple[NamedTuning, ...] = (NamedTuning(name=PRESETS[0], preset=PRESETS[0]),)
    best: bool = False
    data: tuple[str, ...] = ("digits",)
    seed: tuple[int, ...] = (0,)
    exclude: tuple[Mapping[str, tuple[Any, ...]], ...] = ()
    recipe: Recipe = field(default_factory=Recipe)
    weights: Mapping[str, str] = field(default_factory=dict)
    calibration: str = "minmax/256/train"
    load: tuple[Scenario, ...] = ()
    p99_limit_ms: float | None = None
    load_time: float = 10.0
    load_minimums: Literal["shortened", "full"] = "shortened"
    load_wait_ms: float = 0.0
    full: bool = False
    profile: bool = False
    bandwidth: bool = False
    accuracy_margin: float = 0.01
    baseline: str = "auto"
    replicates: int = 3
    max_replicates: int = 10
    full_replicates: int = 1
    relative_ci: float = 0.03
    attempt_time: float = 10.0
    calls: int = 5000
    max_time: float | None = None
    order_seed: int = 0
    timeout: float = 400.0


def read_study(what: Path | str | bytes, source: str | None = None) -> Study:
    """The study in a file (a Path) or a text. Raises UserError, one line that begins with file and line."""
    from breakeven.runner.document import parse

    if isinstance(what, Path):
        return _checked(parse(_file_bytes(what), source or str(what)), what.stem)
    return _checked(parse(what, source or "study"), Path(source or "study").stem)


def builtin_studies() -> dict[str, Study]:
    """The studies that ship with breakeven, by name."""
    return {name: read_study(catalog.study_text(name), f"{name}.yaml") for name in catalog.study_names()}


def load_study(what: Sequence[str] = (), overrides: Mapping[str, Any] | None = None) -> Study:
    """The study that the words of a command line name, with its flags on top.

    `what`: one built-in study or one YAML file, or models; nothing means `quick`. `overrides`: study keys to
    values, text as typed or lists of it (None: not given), and `set` to a list of KEY=VALUE whose KEY may be
    dotted (`recipe.lr`). Raises UserError, one line that begins with the file and line or the flag.
    """
    from breakeven.runner.flags import overridden

    document, name = _named(tuple(what) or (DEFAULT_STUDY,))
    return _checked(overridden(document, overrides or {}), name)


def resolved(study: Study) -> dict[str, Any]:
    """The study as plain JSON for the results file, everything filled in; `read_study` reads it back."""
    out: dict[str, Any] = to_json(study)
    out["tuning"] = [*map(_plain_tuning, study.tuning), *([BEST] if out.pop("best") else [])]
    return out


def _plain_tuning(tuning: NamedTuning) -> Any:
    if tuning == NamedTuning(name=tuning.preset, preset=tuning.preset):
        return tuning.name
    changes = {key: dict(value) if key == "env" else value for key, value in tuning.changes}
    return {"name": tuning.name, "preset": tuning.preset, **changes}


def _file_bytes(path: Path) -> bytes:
    from breakeven.runner.document import MAX_BYTES, one_line

    try:
        with path.open("rb") as file:
            return file.read(
                MAX_BYTES + 1
            )  # one more, so that what is too large is seen and never read whole
    except IsADirectoryError as error:
        raise UserError(one_line(f"{path}: is a folder; name the study file in it")) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        hint = _builtin_instead(path) if isinstance(error, FileNotFoundError) else ""
        raise UserError(one_line(f"{path}: cannot be read: {reason}{hint}")) from error


def _builtin_instead(path: Path) -> str:
    """What a file that is not there may have meant: built-in studies have no suffix."""
    names = catalog.study_names()
    near = difflib.get_close_matches(path.stem[:100].lower(), names, n=3, cutoff=0.4)
    if not near:
        return "; write it, or run a built-in study (breakeven list studies)"
    return f"; built-in studies need no file: {', '.join(near)} (all: breakeven list studies)"


def _named(what: tuple[str, ...]) -> tuple["Document", str]:
    """The document that the words name and the name it gets if it gives none."""
    from breakeven.runner.document import Document, one_line, parse, show
    from breakeven.workloads.models import MODELS

    if all(word in MODELS for word in what):
        models = list(dict.fromkeys(what))
        return Document(values={"model": models}, where={(): what[0]}), "-".join(models)[:64]
    if len(what) > 1:
        known = (*catalog.study_names(), *MODELS)
        odd = next(word for word in what if word not in MODELS)
        if odd not in known and not _is_path(odd):
            raise _unknown(odd)
        raise UserError(f"{show(odd)} is a study: name it alone, or models only (--model changes its models)")
    word = what[0]
    if word in catalog.study_names():
        return parse(catalog.study_text(word), f"{word}.yaml"), word
    if _is_path(word):
        return parse(_file_bytes(Path(word)), one_line(word)), Path(word).stem
    raise _unknown(word)


def _is_path(word: str) -> bool:
    return "/" in word or word.lower().endswith((".yaml", ".yml")) or "\0" in word or Path(word).exists()


def _unknown(word: str) -> UserError:
    from breakeven.runner.document import nearest, show
    from breakeven.workloads.models import MODELS

    known = (*catalog.study_names(), *MODELS)
    near = nearest(word, known)
    if near.startswith("; known"):  # too many to name them all
        near = f"{nearest('', catalog.study_names())}; for models: breakeven list models"
    return UserError(f"unknown study or model {show(word)}{near}")


def _checked(document: "Document", default_name: str) -> Study:
    from pydantic import TypeAdapter, ValidationError

    from breakeven.runner import tasks
    from breakeven.runner.schema import StudyKeys, fault, first_fault
    from breakeven.runner.values import Slug

    try:
        keys = StudyKeys.model_validate(document.values)
    except ValidationError as error:
        first = first_fault(error.errors(include_url=False))
        raise _fault(document, first["loc"], fault(first)) from error
    name = keys.name
    if name is None:
        try:
            name = TypeAdapter(Slug).validate_python(default_name)
        except ValidationError as error:
            raise _fault(
                document, ("name",), "is missing, and the file's name cannot stand for it"
            ) from error
    study = _study(keys, name)
    if found := tasks.contradiction(study) or _contradiction(study, keys.model_fields_set):
        raise _fault(document, *found)
    return study


def _fault(document: "Document", path: Sequence[str | int], text: str) -> UserError:
    """One line: the flag, or file, line and key, then what is wrong there."""
    from breakeven.runner.document import one_line, place, show

    where = place(document.where, path)
    key = ".".join(part for part in path if isinstance(part, str))
    return UserError(
        one_line(f"{where}: {text}" if where.startswith("--") else f"{where}: key {show(key)}: {text}")
    )


def _study(keys: "StudyKeys", name: str) -> Study:
    """The study of valid keys: ranges and the ladder written out, repetitions dropped, defaults derived."""
    from breakeven.runner import tasks

    fields: dict[str, Any] = keys.model_dump(exclude={"batch", "tuning", "exclude", "recipe"})
    fields |= {axis: _unique(fields[axis]) for axis in (*AXES, "load") if axis in fields}
    if "max_replicates" not in keys.model_fields_set:
        fields["max_replicates"] = max(keys.max_replicates, keys.replicates)
    if keys.timeout is None:
        # Compilation of a large step takes minutes; a process that hangs must still end.
        fields["timeout"] = 300 + 10 * keys.attempt_time
    fields |= {
        "name": name,
        "batch": _unique(size for sizes in keys.batch for size in sizes),
        "tuning": _unique(spec for tuning in keys.tuning for spec in _tunings(tuning, keys.task)),
        "best": keys.task == "train" and any(tuning.preset == BEST for tuning in keys.tuning),
        "exclude": tuple(_exclude(item) for item in keys.exclude),
        "recipe": Recipe(**keys.recipe.model_dump()),
        "weights": tasks.weights(keys),
    }
    fields |= tasks.images(keys, fields)
    return Study(**fields | (tasks.inference(keys, fields) if keys.task == "infer" else {}))


def _unique(items: Iterable[Any]) -> tuple[Any, ...]:
    out: list[Any] = []
    for item in items:
        if item not in out:
            out.append(item)
    return tuple(out)


def _tunings(keys: "TuningKeys", task: Task) -> list[NamedTuning]:
    """The tunings that one item stands for: every preset, or one for each of several threads."""
    if task == "train" and keys.preset == LADDER:
        return [NamedTuning(name=preset, preset=preset) for preset in PRESETS]
    if task == "train" and keys.preset == BEST:
        return []
    start = keys.preset if "preset" in keys.model_fields_set else presets(task)[0]
    given = keys.model_dump(include=keys.model_fields_set - {"name", "preset"})
    if "env" in given:
        given["env"] = tuple(sorted(given["env"].items()))
    if len(keys.threads) == 1:
        given |= {"threads": keys.threads[0]} if "threads" in given else {}
        return [NamedTuning(name=keys.name, preset=start, changes=tuple(sorted(given.items())))]
    return [
        NamedTuning(
            name=f"{keys.name} {threads} thread{'' if threads == 1 else 's'}",
            preset=start,
            changes=tuple(sorted((given | {"threads": threads}).items())),
        )
        for threads in dict.fromkeys(keys.threads)
    ]


def _exclude(keys: "ExcludeKeys") -> dict[str, tuple[Any, ...]]:
    out: dict[str, tuple[Any, ...]] = {}
    for axis in AXES:
        values = getattr(keys, axis)
        if values is not None:
            out[axis] = (
                _unique(size for sizes in values for size in sizes) if axis == "batch" else _unique(values)
            )
    return out


def _names(names: Sequence[str], name: str) -> bool:
    """Whether some tuning of the study has this name, on one of its devices at least."""
    return name in names or (LEAVE_ONE_OUT in names and bool(removed_by(name)))


def _contradiction(study: Study, given: set[str]) -> tuple[tuple[str | int, ...], str] | None:
    """The first fault that no key has by itself: where it is, and what."""
    from breakeven.runner.values import LONGEST_NAME

    names = [tuning.name for tuning in study.tuning]
    if not names:
        return ("tuning",), f"{BEST!r} alone has nothing to be better than; add as-written, or ladder"
    if long := [name for name in names if len(name) > LONGEST_NAME]:
        return ("tuning",), f"{long[0]!r} is too long a name, threads included (at most {LONGEST_NAME})"
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        return ("tuning",), f"two tunings are named {twice!r}"
    for index, excluded in enumerate(study.exclude):
        if not excluded:
            return ("exclude", index), "names no axis, so it would exclude everything"
        if odd := [name for name in excluded.get("tuning", ()) if not _names(names, name)]:
            return ("exclude", index, "tuning"), f"{odd[0]!r} is no tuning of this study"
    if study.max_replicates < study.replicates:
        key = "max_replicates" if "max_replicates" in given else "replicates"
        return (key,), f"max_replicates {study.max_replicates} is less than replicates {study.replicates}"
    if fault := _no_baseline(study):
        return ("baseline",), fault
    size = math.prod(len(getattr(study, axis)) for axis in AXES)
    if size > MAX_COMBINATIONS:
        return (), f"{size:,} combinations are too many for a study (at most {MAX_COMBINATIONS:,})"
    return None


def _no_baseline(study: Study) -> str | None:
    """Why ratios cannot be against the baseline that is named; None where they can, or on some machine."""
    if study.baseline == CPU_THREADS or re.fullmatch(THREAD_RANGE, study.baseline):
        return f"{study.baseline!r} is more than one device"
    several = any(text in SEVERAL or re.fullmatch(THREAD_RANGE, text) for text in study.device)
    if study.baseline == "auto" or several or study.baseline in study.device:
        return None
    return f"{study.baseline!r} is no device of this study ({', '.join(study.device)})"
