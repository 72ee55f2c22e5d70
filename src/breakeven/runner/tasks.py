"""What a study means by its task: the defaults of inference, and what only the other task has.

Knows nothing about machines.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from breakeven.errors import UserError
from breakeven.records.case import Recipe
from breakeven.records.tuning import INFERENCE, preset, presets
from breakeven.runner.study import GROUPS, NamedTuning, Study

if TYPE_CHECKING:
    from breakeven.runner.schema import StudyKeys
    from breakeven.workloads.data import DataEntry


def weights(keys: "StudyKeys") -> dict[str, str]:
    """The sources of trained weights by model."""
    from breakeven.runner.values import ANY

    one = keys.model[0] if len(set(keys.model)) == 1 else ANY
    return {one if name == ANY else name: source for name, source in keys.weights.items()}


def settled(study: Study) -> Study:
    """The study with its files named by what they hold. A path would say who measured, and results may be
    mailed. Weights and calibration images are read, and kept where every runtime finds them.

    Raises UserError where a file cannot be read or does not fit.
    """
    from breakeven.workloads import calibration, data

    entries = [data.entry(name) for name in study.data]
    weights = {name: _kept(name, source, entries) for name, source in study.weights.items()}
    recipe = study.calibration
    if not calibration.RECIPE.fullmatch(recipe):
        if len({known.shape for known in entries}) > 1:
            raise UserError("a folder of calibration images serves data of one size: name one data set")
        recipe = calibration.keep(Path(recipe).expanduser(), entries[0])
    return dataclasses.replace(study, weights=weights, calibration=recipe)


def _kept(name: str, source: str, entries: Sequence["DataEntry"]) -> str:
    """`sha256:` of a model's weights, which must fit the classes and the image size of each data set."""
    from breakeven.workloads import sources
    from breakeven.workloads.models import model

    found = set()
    for known in entries:
        net = model(name, num_classes=known.classes, input_shape=known.shape)
        if sources.IDENTITY.fullmatch(source):
            sources.kept(source, net)
            found.add(source)
        else:
            found.add(sources.keep(sources.read(source, net)))
    (identity,) = found  # the same numbers whatever the data set
    return identity


def inference(keys: "StudyKeys", fields: Mapping[str, Any]) -> dict[str, Any]:
    """What an inference is where its study does not say.

    Each model gets images of its size; a runtime without tunings stands for the first preset that is its own.
    """
    given, found = keys.model_fields_set, dict[str, Any]()
    if "tuning" not in given:
        first = {preset(name, "cpu", task="infer").runtime: name for name in reversed(INFERENCE)}
        own = [first[name] for name in fields["runtime"] if name in first]
        whole = len(own) == len(fields["runtime"])
        names = own if whole else presets("infer")[:1]
        found["tuning"] = tuple(NamedTuning(name=name, preset=name) for name in names)
        found["runtime"] = (None,) if whole else fields["runtime"]
    return found


ANSWERING = (1, 8)
"""Batches that answer a load: MLPerf's SingleStream asks for one sample a query, MultiStream for eight."""


def images(keys: "StudyKeys", fields: Mapping[str, Any]) -> dict[str, Any]:
    """Data and batches where a study does not say: each model gets images that it is made for.

    A net that translates between domains gets one pair a step, as its paper; others the usual batch, or under
    load those that answer it.
    """
    from breakeven.workloads.models import for_imagenet, translates

    models = fields["model"]
    pairs = tuple(name for name in models if translates(name))
    large = tuple(name for name in models if keys.task == "infer" and for_imagenet(name))
    plain = tuple(name for name in models if name not in (*pairs, *large))
    found, given = dict[str, Any](), keys.model_fields_set
    exclude = list(fields["exclude"])
    if "data" not in given and (pairs or large):
        groups = [("photos", large), ("digits", plain), ("digits-3-8", pairs)]
        found["data"] = data = tuple(name for name, group in groups if group)
        exclude += [
            {"model": group, "data": tuple(other for other in data if other != name)}
            for name, group in groups
            if group and len(data) > 1
        ]
    if "batch" not in given and (pairs or keys.load):
        others = tuple(name for name in models if name not in pairs)
        usual = ANSWERING if keys.load else fields["batch"]
        found["batch"] = tuple(dict.fromkeys([*(usual if others else ()), *((1,) if pairs else ())]))
        if others and pairs:
            exclude.append({"model": pairs, "batch": tuple(size for size in usual if size != 1)})
            exclude += [] if 1 in usual else [{"model": others, "batch": (1,)}]
    return found | {"exclude": tuple(exclude)}


def recipe_of(study: Study, model: str) -> Recipe | None:
    """How a study trains a model: one recipe for classifiers, that of CycleGAN for CycleGAN."""
    from breakeven.workloads import cyclegan
    from breakeven.workloads.models import translates

    if study.task == "infer":
        return None
    return cyclegan.RECIPE if translates(model) and study.recipe.loss != cyclegan.NAME else study.recipe


def misfit(model: str, data: str) -> str | None:
    """Why a model has nothing to learn from a data set, whatever its size; None where it has."""
    from breakeven.workloads import data as data_sets
    from breakeven.workloads.models import translates

    if translates(model) and not data_sets.DATA[data].domains:
        known = " or ".join(name for name, entry in data_sets.DATA.items() if entry.domains)
        return f"{model} translates between two domains: use {known}"
    return None


def contradiction(study: Study) -> tuple[tuple[str | int, ...], str] | None:
    """What only the other task has: presets, whole runs, a recipe, trained weights."""
    known = (*presets(study.task), *(GROUPS if study.task == "train" else ()))
    word = {"train": "training", "infer": "inference"}[study.task]
    if odd := [tuning.preset for tuning in study.tuning if tuning.preset not in known]:
        return ("tuning",), f"{odd[0]!r} is no tuning of {word}; known: {', '.join(known)}"
    if study.task == "infer" and study.full:
        return ("full",), "whole runs are trained: inference has none"
    if study.task == "infer" and study.recipe != Recipe():
        return ("recipe",), "is how a model is trained: inference has none"
    if study.task == "train" and study.load:
        return ("load",), "is of inference: training answers no queries (--infer)"
    if "server" in study.load and study.p99_limit_ms is None:
        return ("load",), "server needs the limit that it has to keep: p99_limit_ms, --max-p99 20ms"
    if study.p99_limit_ms is not None and "server" not in study.load:
        return ("p99_limit_ms",), "is the server's: add load: server"
    if fault := _other_loss(study):
        return ("recipe",), fault
    if study.task == "train" and study.weights:
        return ("weights",), "are of inference: training draws its own from the seed"
    if odd := [name for name in study.weights if name not in study.model]:
        text = "name the model: {MODEL: SOURCE}" if odd[0] == "*" else f"{odd[0]!r} is no model of this study"
        return ("weights",), text
    return None


def _other_loss(study: Study) -> str | None:
    """A recipe that no model of the study, or not every one of them, can be trained by."""
    from breakeven.workloads.models import translates

    kinds = {translates(name): name for name in study.model}
    if study.recipe.loss == "cyclegan":
        fault = f"loss cyclegan is no loss of {kinds.get(False)}: make it a study of its own"
        return fault if False in kinds else None
    if study.recipe != Recipe() and False not in kinds:
        return f"is of classifiers; {kinds[True]} is trained by loss: cyclegan"
    return None
