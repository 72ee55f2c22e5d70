"""The keys of a study file as pydantic models, the JSON Schema of them, and their faults in plain words.

Knows nothing about YAML, built-in studies or what a plan does with the values.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    model_validator,
)

from breakeven.records.canonical import to_json
from breakeven.records.case import Recipe, Task, Tuning
from breakeven.records.tuning import INFERENCE, PRESETS, presets
from breakeven.runner.document import nearest, show
from breakeven.runner.study import AXES, GROUPS
from breakeven.runner.values import (
    BatchSizes,
    Calibration,
    CalibrationSource,
    Count,
    DataSets,
    Devices,
    DeviceText,
    EnvValue,
    Execution,
    Factor,
    Milliseconds,
    Models,
    Number,
    Precision,
    Precisions,
    PresetName,
    RuntimeName,
    Runtimes,
    Scenarios,
    Seconds,
    Seed,
    Seeds,
    Share,
    Slug,
    Text,
    ThreadCounts,
    Truth,
    TuningName,
    Weights,
    Whole,
    Word,
    environment,
)
from breakeven.timing import MOST_CALLS
from breakeven.workloads import cyclegan

_RECIPE = Recipe()
_TUNING = Tuning()


class Keys(BaseModel):
    """Strict types (no text for numbers, no true for 1), nothing unknown, a scalar where a list may stand."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)
    axes: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def listed(cls, values: object) -> object:
        """Axes written as one value become lists of one."""
        if not isinstance(values, Mapping):
            return values
        return {
            key: [item] if key in cls.axes and not isinstance(item, (list, tuple)) else item
            for key, item in values.items()
        }


class RecipeKeys(Keys):
    """How a model is trained: the fields of `records.case.Recipe`.

    With `loss: cyclegan` what is left out is as in its paper.
    """

    optimizer: Literal["adam"] = _RECIPE.optimizer
    lr: Annotated[Number, Field(gt=0, le=1e6)] = _RECIPE.lr
    beta1: Factor = _RECIPE.beta1
    beta2: Factor = _RECIPE.beta2
    eps: Annotated[Number, Field(gt=0, lt=1)] = _RECIPE.eps
    weight_decay: Annotated[Number, Field(ge=0, le=1e6)] = _RECIPE.weight_decay
    schedule: Literal["step", "constant", "linear"] = _RECIPE.schedule
    step_size: Annotated[Whole, Field(ge=1, le=1_000_000)] = _RECIPE.step_size
    gamma: Annotated[Number, Field(gt=0, le=1)] = _RECIPE.gamma
    augment: Literal["crop-flip", "none"] = _RECIPE.augment
    epochs: Annotated[Whole, Field(ge=1, le=100_000)] = _RECIPE.epochs
    accumulation: Annotated[Whole, Field(ge=1, le=10_000)] = _RECIPE.accumulation
    loss: Literal["cross-entropy", "cyclegan"] = _RECIPE.loss
    cycle: Annotated[Number, Field(gt=0, le=1e6)] | None = _RECIPE.cycle
    identity: Annotated[Number, Field(gt=0, le=1e6)] | None = _RECIPE.identity
    pool: Annotated[Whole, Field(ge=0, le=10_000)] | None = _RECIPE.pool

    @model_validator(mode="before")
    @classmethod
    def completed(cls, values: object) -> object:
        """What a recipe of CycleGAN leaves out is its paper's."""
        if not isinstance(values, Mapping) or values.get("loss") != cyclegan.NAME:
            return values
        return to_json(cyclegan.RECIPE) | dict(values)

    @model_validator(mode="after")
    def of_its_loss(self) -> "RecipeKeys":
        """Weights and pool are CycleGAN's alone, whose gradients do not accumulate."""
        theirs = {"cycle": self.cycle, "identity": self.identity, "pool": self.pool}
        if self.loss == cyclegan.NAME:
            if missing := [key for key, value in theirs.items() if value is None]:
                raise ValueError(f"{missing[0]} may not be null with loss cyclegan")
            if self.accumulation != 1:
                raise ValueError("gradients of loss cyclegan do not accumulate")
        elif given := [key for key, value in theirs.items() if value is not None]:
            raise ValueError(f"{given[0]} is of loss cyclegan only")
        return self


class TuningKeys(Keys):
    """A named tuning: a preset and what is changed on top, by the fields of `records.case.Tuning`.

    Several numbers of threads are several tunings.
    """

    axes = ("threads",)
    name: TuningName
    preset: PresetName = PRESETS[0]
    runtime: RuntimeName = _TUNING.runtime
    execution: Execution = _TUNING.execution
    precision: Precision = _TUNING.precision
    calibration: Calibration | None = _TUNING.calibration
    layout: Literal["channels-first", "channels-last"] = _TUNING.layout
    autotune: Truth = _TUNING.autotune
    workers: Annotated[Whole, Field(ge=0, le=1024)] | None = _TUNING.workers
    pinned: Truth | None = _TUNING.pinned
    prefetch: Annotated[Whole, Field(ge=1, le=1024)] | None = _TUNING.prefetch
    residency: Literal["host", "device"] = _TUNING.residency
    augment_on: Literal["host", "device"] | None = _TUNING.augment_on
    loss_sync: Literal["every-step", "epoch"] | None = _TUNING.loss_sync
    optimizer_impl: Slug | None = _TUNING.optimizer_impl
    threads: ThreadCounts = (_TUNING.threads,)
    env: Annotated[dict[Word, EnvValue], AfterValidator(environment)] = Field(default_factory=dict)


def tunings_of(task: Task) -> tuple[str, ...]:
    """The names that may stand for a tuning of the task: presets, and in training what stands for several."""
    return (*presets(task), *(GROUPS if task == "train" else ()))


def _tuning(value: object, info: ValidationInfo) -> object:
    """A preset's name is short for a mapping. A mapping may not give a preset's name to something else."""
    task = (info.data or {}).get("task", "train")
    taken = (*presets(task), *GROUPS)
    if isinstance(value, str):
        if value not in (*PRESETS, *INFERENCE, *GROUPS):
            raise ValueError(f"unknown {show(value)}{nearest(value, tunings_of(task))}")
        return {"name": value, "preset": value}
    if not isinstance(value, Mapping):
        raise ValueError(f"must be a preset's name or a mapping, not {show(value)}")
    if value.get("name") in taken and dict(value) != {
        "name": value["name"],
        "preset": value["name"],
    }:
        raise ValueError(f"name {value['name']!r} is a preset's; choose another")
    if (group := value.get("preset")) in GROUPS and value.get("name") != group:
        raise ValueError(f"preset '{group}' stands for many; write it alone or name one preset")
    return value


TuningItem = Annotated[TuningKeys, BeforeValidator(_tuning, json_schema_input_type=Word | TuningKeys)]


class ExcludeKeys(Keys):
    """Values of some axes: every combination that has all of them is left out."""

    axes = AXES
    model: Models | None = None
    device: Devices | None = None
    runtime: Runtimes | None = None
    precision: Precisions | None = None
    batch: BatchSizes | None = None
    tuning: Annotated[tuple[TuningName, ...], Field(min_length=1)] | None = None
    data: DataSets | None = None
    seed: Seeds | None = None


class StudyKeys(Keys):
    """A study: what to measure (axes), how the work is trained, and how well to measure it (protocol)."""

    axes = (*AXES, "exclude", "load")
    name: Slug | None = Field(None, description="names the results folder; the file's name if left out")
    title: Text | None = Field(None, description="one line for people")
    task: Literal["train", "infer"] = "train"
    model: Models = Field(description="see: breakeven list models")
    device: Devices = Field(("auto",), description="cpu, cpu:threads=N, cuda:N, sim:NAME or auto")
    runtime: Runtimes = (None,)
    precision: Precisions = (None,)
    batch: BatchSizes = Field(
        default_factory=lambda: ((128,),), description="samples a step; 1..64 doubles; 128"
    )
    tuning: Annotated[tuple[TuningItem, ...], Field(min_length=1)] = Field(
        default_factory=lambda: (TuningKeys(name=PRESETS[0], preset=PRESETS[0]),),
        description="presets, 'ladder' for all of them, 'leave-one-out', 'best', or mappings; as-written, "
        "in inference eager",
    )
    data: DataSets = Field(("digits",), description="in inference photos for models of 224x224 images")
    seed: Seeds = (0,)
    exclude: tuple[ExcludeKeys, ...] = ()
    recipe: RecipeKeys = Field(RecipeKeys(), description="how the models are trained")
    weights: Weights = Field(
        default_factory=dict,
        description="of inference: {MODEL: SOURCE}, or SOURCE of the one model; else drawn from the seed",
    )
    calibration: CalibrationSource = Field(
        "minmax/256/train",
        description="how int8 finds its ranges: a number of training images, a recipe, or a folder",
    )
    load: Scenarios = Field(
        (),
        description="of inference: MLPerf's LoadGen asks; single-stream, multi-stream, server, offline, all",
    )
    p99_limit_ms: Milliseconds | None = Field(
        None, description="the server's: the greatest rate is searched at which 99 % are answered in time"
    )
    load_time: Seconds = Field(10.0, description="seconds LoadGen asks at least; MLPerf asks 600")
    load_minimums: Literal["shortened", "full"] = Field(
        "shortened", description="full: MLPerf's least durations and queries instead of load_time"
    )
    load_wait_ms: Annotated[Number, Field(ge=0, le=1e6)] = Field(
        0.0, description="how long the server waits at most for a batch to fill"
    )
    full: Truth = Field(False, description="train whole runs instead of sampling steps")
    profile: Truth = Field(
        False, description="afterwards a few steps of each case under its framework's profiler"
    )
    bandwidth: Truth = Field(
        False, description="before, copies by size within and between the memories of the devices"
    )
    accuracy_margin: Share = Field(
        0.01, description="accuracies this close are the same (share of right answers)"
    )
    baseline: DeviceText = Field(
        "auto", description="the device that ratios are against; auto: the slower one"
    )
    replicates: Count = Field(3, description="fresh processes a case")
    max_replicates: Count = Field(10, description="processes a case may get until relative_ci is met")
    full_replicates: Count = Field(1, description="processes a case when whole runs are trained")
    relative_ci: Share = Field(0.03, description="half-width of the interval that ends a case, relative")
    attempt_time: Seconds = Field(10.0, description="seconds a process measures")
    calls: Annotated[Whole, Field(ge=1, le=MOST_CALLS)] = Field(
        MOST_CALLS, description="single calls of inference that a process keeps at most"
    )
    max_time: Seconds | None = Field(None, description="of the whole run, such as 20min")
    order_seed: Seed = Field(0, description="shuffles the order in which cases run")
    timeout: Seconds | None = Field(
        None, description="of one process over all; default 5 min and 10 x attempt_time"
    )


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a study file, for editors: looser than the reader only where words are concerned."""
    schema: dict[str, Any] = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    schema |= {**StudyKeys.model_json_schema(mode="validation"), "title": "breakeven study"}
    defined = schema["$defs"]
    parts = {"ExcludeKeys": ExcludeKeys.axes, "TuningKeys": TuningKeys.axes}
    for part, axes in ((schema, StudyKeys.axes), *((defined[name], axes) for name, axes in parts.items())):
        for axis in axes:
            part["properties"][axis] = _one_or_many(part["properties"][axis])
    for field in schema["$defs"]["TuningKeys"]["properties"].values():
        field.pop("default", None)  # what is left out is the preset's
    return schema


def _one_or_many(axis: dict[str, Any]) -> dict[str, Any]:
    many = axis if "items" in axis else axis["anyOf"][0]
    about: dict[str, Any] = {key: axis[key] for key in ("default", "description", "title") if key in axis}
    array = {key: item for key, item in many.items() if key not in about}
    return about | {"anyOf": [many["items"], array]}


def fault(error: Mapping[str, Any]) -> str:
    """What is wrong, from one of pydantic's errors, in words that say what to write instead."""
    kind, given, limits = error["type"], error["input"], error.get("ctx", {})
    if kind == "value_error":
        return str(limits["error"])
    if kind == "extra_forbidden":
        return f"unknown{nearest(error['loc'][-1], _keys_at(error['loc'][:-1]))}"
    if kind == "literal_error":
        words = re.findall(r"'([^']*)'", limits["expected"])
        return f"unknown {show(given)}{nearest(given, words)}"
    if kind in _LIMITS:
        word, limit = _LIMITS[kind]
        return f"must be {word} {_number(limits[limit])}, not {show(given)}"
    if kind in _SHOULD:
        return f"must be {_SHOULD[kind]}, not {show(given)}"
    return _OTHER.get(kind, str(error["msg"]))


def first_fault(errors: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The error to show: a slip in a key explains what is missing, and a bad item why a list is too short."""
    rank = {"extra_forbidden": 0, "missing": 2, "too_short": 3}
    return min(errors, key=lambda error: rank.get(error["type"], 1))


def _number(limit: float) -> str:
    return str(int(limit)) if limit == int(limit) else str(limit)


_LIMITS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}
_SHOULD = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_OTHER = {"missing": "is missing", "too_short": "must name at least one", "string_too_long": "is too long"}


def _keys_at(path: tuple[str | int, ...]) -> Iterable[str]:
    models: dict[str, type[Keys]] = {"recipe": RecipeKeys, "tuning": TuningKeys, "exclude": ExcludeKeys}
    return (models[str(path[0])] if path else StudyKeys).model_fields
