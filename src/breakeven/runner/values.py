"""The values a study may hold: words that must be known, numbers with their ranges, names that are safe.

Knows nothing about which keys they belong to, or about YAML.
"""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, Strict, WithJsonSchema

from breakeven import runtimes
from breakeven.errors import UserError
from breakeven.records.case import PRECISIONS, parse_device
from breakeven.records.lines import SCENARIOS, Scenario
from breakeven.records.tuning import INFERENCE, PRESETS
from breakeven.runner.document import nearest, show
from breakeven.runner.study import GROUPS, SEVERAL, THREAD_RANGE
from breakeven.units import parse_duration
from breakeven.workloads.calibration import RECIPE
from breakeven.workloads.data import DATA
from breakeven.workloads.models import MODELS

LONGEST_NAME = 64
ANY = "*"
"""Stands for the study's one model, where weights are named without it."""
MAX_SEED = 2**63 - 1
MAX_BATCH = 1_000_000
EXECUTIONS = (
    "eager",
    "cuda-graph",
    "fused",
    "cuda-graph+fused",
    "compile:default",
    "compile:reduce-overhead",
    "compile:max-autotune",
    "compile:max-autotune-no-cudagraphs",
    "cuda-graph+compile:default",
    "cuda-graph+compile:max-autotune-no-cudagraphs",
    "session",
    "session:tensorrt",
    "tf.function",
    "xla",
)

_SLUG = r"^[A-Za-z0-9_-][A-Za-z0-9._-]*$"
_RANGE = r"^[0-9]{1,7}\.\.[0-9]{1,7}$"
# A study may be mailed: it must not be able to choose which code a measuring process loads.
_REFUSED_ENV = re.compile(r"^(?:LD_.*|DYLD_.*|PYTHON.*|PATH|HOME|SHELL|BASH_ENV|ENV|IFS)$")


def _one_of(known: Callable[[], Iterable[str]]) -> AfterValidator:
    def check(word: str) -> str:
        words = list(known())
        if word not in words:
            raise ValueError(f"unknown {show(word)}{nearest(word, words)}")
        return word

    return AfterValidator(check)


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line without control characters")
    return text


def _slug(text: str) -> str:
    if not re.fullmatch(_SLUG, text):
        raise ValueError(
            f"must be letters, digits, '.', '_' or '-', not beginning with '.', not {show(text)}"
        )
    return text


def _tuning_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._+:-]*", text):
        raise ValueError(f"must be letters, digits, spaces or one of . _ + : -, not {show(text)}")
    return text


def _device(text: str) -> str:
    if text in SEVERAL:
        return text
    try:
        if found := re.fullmatch(THREAD_RANGE, text):
            before, low, high, after = found.groups()
            if int(low) >= int(high):
                raise ValueError(f"range {low}..{high} of threads must go up")
            parse_device(f"{before}{low}{after or ''}")
            return text
        return parse_device(text).label
    except UserError as error:
        raise ValueError(str(error)) from error


def _batches(value: object) -> object:
    """The batch sizes that an item stands for: `1..64` doubles from 1 as long as it is within 64."""
    if not isinstance(value, str):
        return [value]
    if not re.fullmatch(_RANGE, value):
        raise ValueError(f"must be a whole number or a range such as 1..64, not {show(value)}")
    low, high = (int(part) for part in value.split(".."))
    if not 0 < low <= high:
        raise ValueError(f"range {value} must go up from at least 1")
    return [low << step for step in range(high.bit_length()) if low << step <= high]


def _calibration(value: object) -> object:
    """A number of images is short for their extremes, taken from the training split."""
    return f"minmax/{value}/train" if isinstance(value, int) and not isinstance(value, bool) else value


def _recipe_of_ranges(text: str) -> str:
    if not RECIPE.fullmatch(text):
        hint = "must be a number of images, or a recipe such as minmax/256/train"
        raise ValueError(f"{hint}, not {show(text)}")
    return text


def _recipe_or_folder(text: str) -> str:
    """A folder is read when the study is planned."""
    return (
        text if Path(text).is_dir() or text.startswith(("/", "./", "../", "~")) else _recipe_of_ranges(text)
    )


def _sources(value: object) -> object:
    """One source is that of the study's one model."""
    return {ANY: value} if isinstance(value, str) else value


def _duration(value: object) -> object:
    if not isinstance(value, str):
        return value
    return parse_duration(value)


def _milliseconds(value: object) -> object:
    """A duration as text has its own unit."""
    return 1000 * parse_duration(value) if isinstance(value, str) else value


def _scenarios(value: object) -> object:
    return SCENARIOS if value in (["all"], ("all",)) else value


def _threads(value: object) -> object:
    if value != "auto" and (isinstance(value, bool) or not isinstance(value, int)):
        raise ValueError(f"must be a whole number or 'auto', not {show(value)}")
    return value


def _null(value: object) -> object:
    """A flag cannot write null but as the word."""
    return None if value == "null" else value


def environment(value: dict[str, str]) -> dict[str, str]:
    for name in value:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise ValueError(f"{show(name)} is no name of an environment variable")
        if _REFUSED_ENV.match(name.upper()):
            raise ValueError(f"{name} may not be set by a study")
    return value


def _env_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


Whole = Annotated[int, Strict()]  # neither true nor "1" is 1
Number = Annotated[float, Strict()]
Truth = Annotated[bool, Strict()]
Text = Annotated[str, Field(max_length=200), AfterValidator(_printable)]
Word = Annotated[str, Field(max_length=100)]
Slug = Annotated[
    str,
    Field(max_length=LONGEST_NAME),
    AfterValidator(_slug),
    WithJsonSchema({"type": "string", "pattern": _SLUG, "maxLength": LONGEST_NAME}),
]
TuningName = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME), AfterValidator(_tuning_name)]
ModelName = Annotated[Word, _one_of(lambda: MODELS)]
DataName = Annotated[Word, _one_of(lambda: DATA)]
RuntimeName = Annotated[Word, _one_of(runtimes.names)]
PresetName = Annotated[Word, _one_of(lambda: (*PRESETS, *INFERENCE, *GROUPS))]
Precision = Annotated[Word, _one_of(lambda: PRECISIONS)]
Execution = Annotated[Word, _one_of(lambda: EXECUTIONS)]
DeviceText = Annotated[str, Field(max_length=200), AfterValidator(_device)]
BatchSize = Annotated[Whole, Field(ge=1, le=MAX_BATCH)]
Batches = Annotated[
    tuple[BatchSize, ...],
    BeforeValidator(_batches, json_schema_input_type=BatchSize | Annotated[str, Field(pattern=_RANGE)]),
]
Seed = Annotated[Whole, Field(ge=0, le=MAX_SEED)]
Count = Annotated[Whole, Field(ge=1, le=1000)]
Share = Annotated[Number, Field(gt=0, lt=1)]
Factor = Annotated[Number, Field(ge=0, lt=1)]
Seconds = Annotated[
    Number, Field(gt=0, le=1e7), BeforeValidator(_duration, json_schema_input_type=float | str)
]
Milliseconds = Annotated[
    Number, Field(gt=0, le=1e9), BeforeValidator(_milliseconds, json_schema_input_type=float | str)
]
Scenarios = Annotated[
    tuple[Scenario, ...],
    BeforeValidator(_scenarios, json_schema_input_type=tuple[Scenario | Literal["all"], ...]),
]
Calibration = Annotated[
    Text,
    BeforeValidator(_calibration, json_schema_input_type=Annotated[int, Field(ge=1)] | str),
    AfterValidator(_recipe_of_ranges),
]
CalibrationSource = Annotated[
    Annotated[str, Field(max_length=1000), AfterValidator(_printable)],
    BeforeValidator(_calibration, json_schema_input_type=Annotated[int, Field(ge=1)] | str),
    AfterValidator(_recipe_or_folder),
]
Weights = Annotated[
    dict[Word, Annotated[str, Field(max_length=1000), AfterValidator(_printable)]],
    BeforeValidator(_sources, json_schema_input_type=dict[str, str] | str),
]
Threads = Annotated[
    Annotated[Whole, Field(ge=1, le=4096)] | Literal["auto"],
    BeforeValidator(_threads, json_schema_input_type=Annotated[Whole, Field(ge=1)] | Literal["auto"]),
]
ThreadCounts = Annotated[tuple[Threads, ...], Field(min_length=1)]
EnvValue = Annotated[Text, BeforeValidator(_env_text, json_schema_input_type=str | int)]

Models = Annotated[tuple[ModelName, ...], Field(min_length=1)]
Devices = Annotated[tuple[DeviceText, ...], Field(min_length=1)]
Runtimes = Annotated[
    tuple[Annotated[RuntimeName | None, BeforeValidator(_null)], ...],
    Field(min_length=1, description="null: the tuning's own"),
]
Precisions = Annotated[
    tuple[Annotated[Precision | None, BeforeValidator(_null)], ...],
    Field(min_length=1, description="null: the tuning's own"),
]
BatchSizes = Annotated[tuple[Batches, ...], Field(min_length=1)]
DataSets = Annotated[tuple[DataName, ...], Field(min_length=1)]
Seeds = Annotated[tuple[Seed, ...], Field(min_length=1)]
