"""Cases for the tests of runtimes that are given whole nets. Imports no framework."""

from __future__ import annotations

import dataclasses
from typing import Any

from breakeven.records.case import Case, Device, Tuning, Work, applicable
from breakeven.records.tuning import preset
from breakeven.workloads import data

CUDA = Device(kind="cuda", index=0)


def case(
    preset_name: str,
    precision: str = "default",
    *,
    model: str = "simple-cnn",
    data_set: str = "digits",
    batch: int = 4,
    device: Device | None = None,
    **tuning: Any,
) -> Case:
    known = data.entry(data_set)
    work = Work(
        task="infer",
        model=model,
        num_classes=known.classes,
        input_shape=known.shape,
        data=data_set,
        data_version=known.version,
        data_hash=known.identity,
        batch=batch,
    )
    chosen = preset(preset_name, "cpu", task="infer")
    changes = {"precision": precision, "calibration": "minmax/64/train", **tuning}
    chosen = dataclasses.replace(chosen, **changes)
    return applicable(Case(work=work, tuning=chosen, device=device or Device(kind="cpu")))


def own_way(
    runtime: str,
    model: str,
    *,
    data_set: str = "digits",
    batch: int = 4,
    device: Device | None = None,
    **tuning: Any,
) -> Case:
    """Eager inference as a runtime means it, changed."""
    made = case("eager", model=model, data_set=data_set, batch=batch, device=device)
    chosen = preset("eager", "cpu", Tuning(runtime=runtime), task="infer")
    return applicable(dataclasses.replace(made, tuning=dataclasses.replace(chosen, **tuning)))
