"""What a study means by its task: the defaults of inference, and what only the other task has.

Knows nothing about machines.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from breakeven.records.case import Recipe
from breakeven.records.tuning import INFERENCE, preset, presets
from breakeven.runner.study import LEAVE_ONE_OUT, NamedTuning, Study

if TYPE_CHECKING:
    from breakeven.runner.schema import StudyKeys


def weights(keys: "StudyKeys") -> dict[str, str]:
    """The sources of trained weights by model."""
    from breakeven.runner.values import ANY

    one = keys.model[0] if len(set(keys.model)) == 1 else ANY
    return {one if name == ANY else name: source for name, source in keys.weights.items()}


def kept_weights(study: Study) -> dict[tuple[str, str], str]:
    """Reads the trained weights that a study names, and keeps them where every runtime finds them.

    What they hash to, by model and data set: its classes and image size make the model. Raises UserError
    where a source cannot be read or does not fit.
    """
    from breakeven.workloads import data, sources
    from breakeven.workloads.models import model

    found = {}
    for name, source in study.weights.items():
        for known in map(data.entry, study.data):
            net = model(name, num_classes=known.classes, input_shape=known.shape)
            found[name, known.name] = sources.keep(sources.read(source, net))
    return found


def inference(keys: "StudyKeys", fields: Mapping[str, Any]) -> dict[str, Any]:
    """What an inference is where its study does not say.

    Each model gets images of its size; a runtime without tunings stands for the first preset that is its own.
    """
    from breakeven.workloads.models import for_imagenet

    given, found = keys.model_fields_set, dict[str, Any]()
    if "tuning" not in given:
        first = {preset(name, "cpu", task="infer").runtime: name for name in reversed(INFERENCE)}
        own = [first[name] for name in fields["runtime"] if name in first]
        whole = len(own) == len(fields["runtime"])
        names = own if whole else presets("infer")[:1]
        found["tuning"] = tuple(NamedTuning(name=name, preset=name) for name in names)
        found["runtime"] = (None,) if whole else fields["runtime"]
    if "data" not in given:
        large = [name for name in fields["model"] if for_imagenet(name)]
        small = [name for name in fields["model"] if name not in large]
        found["data"] = (*(("photos",) if large else ()), *(("digits",) if small else ()))
        if large and small:
            cross = [
                {"model": tuple(large), "data": ("digits",)},
                {"model": tuple(small), "data": ("photos",)},
            ]
            found["exclude"] = (*fields["exclude"], *cross)
    return found


def contradiction(study: Study) -> tuple[tuple[str | int, ...], str] | None:
    """What only the other task has: presets, whole runs, a recipe, trained weights."""
    known = (*presets(study.task), *((LEAVE_ONE_OUT,) if study.task == "train" else ()))
    word = {"train": "training", "infer": "inference"}[study.task]
    if odd := [tuning.preset for tuning in study.tuning if tuning.preset not in known]:
        return ("tuning",), f"{odd[0]!r} is no tuning of {word}; known: {', '.join(known)}"
    if study.task == "infer" and study.full:
        return ("full",), "whole runs are trained: inference has none"
    if study.task == "infer" and study.recipe != Recipe():
        return ("recipe",), "is how a model is trained: inference has none"
    if study.task == "train" and study.weights:
        return ("weights",), "are of inference: training draws its own from the seed"
    if odd := [name for name in study.weights if name not in study.model]:
        text = "name the model: {MODEL: SOURCE}" if odd[0] == "*" else f"{odd[0]!r} is no model of this study"
        return ("weights",), text
    return None
