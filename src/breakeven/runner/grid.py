"""The grid of a study: the product of its axes on the devices that `auto` stands for, minus what it excludes.

Knows nothing about what can run: every combination that the study declares is a point.
"""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from breakeven.records import ladder
from breakeven.records.case import Device, Task, Tuning, parse_device
from breakeven.records.tuning import preset
from breakeven.runner.study import CPU_THREADS, LEAVE_ONE_OUT, THREAD_RANGE, NamedTuning, Study


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One combination of the axes."""

    model: str
    device: Device
    runtime: str | None
    precision: str | None
    batch: int
    tuning: NamedTuning
    data: str
    seed: int
    task: Task = "train"
    calibration: str | None = None


def auto_devices(cores: int, gpus: int) -> tuple[str, ...]:
    """What `auto` stands for: CPU against GPU, else one core against all of them, else the one core."""
    if gpus > 0:
        return ("cpu", "cuda:0")
    return ("cpu:threads=1", "cpu") if cores > 1 else ("cpu",)


def devices(study: Study, *, cores: int, gpus: int, identical: int | None = None) -> tuple[Device, ...]:
    """The devices of a study with `auto`, `cpu-threads` and ranges of threads resolved, each once.

    `identical`: how many of the cores are alike; None: all of them.
    """
    labels: list[str] = []
    for text in study.device:
        if text == "auto":
            labels += auto_devices(cores, gpus)
        elif text == CPU_THREADS:
            labels += [f"cpu:threads={n}" for n in doubled(1, identical or cores)]
        else:
            labels += ranged(text)
    return tuple(parse_device(label) for label in dict.fromkeys(labels))


def doubled(low: int, high: int) -> list[int]:
    """low, 2 low, 4 low, ... and `high` itself: both ends of a range of cores are measured."""
    return [*(n for step in range(high.bit_length()) if (n := low << step) < high), high]


def ranged(text: str) -> list[str]:
    """The devices that `cpu:threads=1..8` stands for, or the one that is named."""
    found = re.fullmatch(THREAD_RANGE, text)
    if found is None:
        return [text]
    before, low, high, after = found.groups()
    return [f"{before}{n}{after or ''}" for n in doubled(int(low), int(high))]


def points(study: Study, *, cores: int, gpus: int, identical: int | None = None) -> list[Point]:
    """The product of the axes in their order, minus what the study excludes."""
    product = itertools.product(
        study.model,
        devices(study, cores=cores, gpus=gpus, identical=identical),
        study.runtime,
        study.precision,
        study.batch,
        study.tuning,
        study.data,
        study.seed,
    )
    every = [
        Point(
            model=m,
            device=d,
            runtime=r,
            precision=p,
            batch=b,
            tuning=t,
            data=s,
            seed=n,
            task=study.task,
            calibration=study.calibration,
        )
        for m, d, r, p, b, group, s, n in product
        for t in expanded(group, d.kind)
    ]
    return [point for point in every if not any(excluded(point, item) for item in study.exclude)]


def expanded(tuning: NamedTuning, device_kind: str) -> tuple[NamedTuning, ...]:
    """What a tuning of a study stands for on a kind of device: itself, or the full stack less a step each."""
    if tuning.preset != LEAVE_ONE_OUT:
        return (tuning,)
    climbed = ladder.steps(device_kind)
    return tuple(without([step], device_kind) for step in climbed[1:])


def without(removed: Sequence[str], device_kind: str) -> NamedTuning:
    """The full stack of a kind of device less some of its steps, as changes on top of its last preset."""
    top = ladder.steps(device_kind)[-1]
    full, left = preset(top, device_kind), ladder.less(removed, device_kind)
    changes = {
        field.name: getattr(left, field.name)
        for field in dataclasses.fields(Tuning)
        if getattr(left, field.name) != getattr(full, field.name)
    }
    name = ladder.less_name(removed, device_kind)
    return NamedTuning(name=name, preset=top, changes=tuple(sorted(changes.items())))


def excluded(point: Point, exclude: Mapping[str, tuple[Any, ...]]) -> bool:
    """Whether the point has every value: of the axis, or what the axis left to the tuning."""
    tuning = tuning_of(point)
    has = {
        "model": (point.model,),
        "device": (point.device.label,),
        "runtime": (point.runtime, tuning.runtime),
        "precision": (point.precision, tuning.precision),
        "batch": (point.batch,),
        "tuning": (point.tuning.name,),
        "data": (point.data,),
        "seed": (point.seed,),
    }
    return all(any(value in values for value in has[axis]) for axis, values in exclude.items())


def tuning_of(point: Point) -> Tuning:
    """The preset on this kind of device, the study's changes on top, then the axes; sim devices need sim.

    INT8 without a recipe of its own for its ranges gets the study's.
    """
    changes: dict[str, Any] = dict(point.tuning.changes)
    if point.precision is not None:
        changes["precision"] = point.precision
    if point.device.kind == "sim":
        changes["runtime"] = "sim"
    elif point.runtime is not None:
        changes["runtime"] = point.runtime
    base = Tuning(runtime=changes.get("runtime", Tuning().runtime))
    made = dataclasses.replace(
        preset(point.tuning.preset, point.device.kind, base, task=point.task), **changes
    )
    if point.task == "infer" and made.precision == "int8" and made.calibration is None:
        made = dataclasses.replace(made, calibration=point.calibration)
    return made
