"""Cases for the tests of the torch runtime. Imports no framework."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import breakeven
from breakeven.records.case import Case, Device, Recipe, Tuning, Work, applicable
from breakeven.workloads import data

# Cases of one work that must train alike: one change each from the loop people write.
TUNINGS: dict[str, dict[str, Any]] = {
    "as-written": {},
    "workers": {"workers": 2},
    "on-device": {"residency": "device"},
    "no-sync": {"residency": "device", "loss_sync": "epoch"},
    "channels-last": {"residency": "device", "layout": "channels-last"},
    "one-thread": {"threads": 1},
    "fused": {"optimizer_impl": "fused"},
}

# The same on a GPU only, driven as the host cannot.
CAPTURED: dict[str, Any] = {
    "residency": "device", "loss_sync": "epoch", "optimizer_impl": "fused", "execution": "cuda-graph",
}  # fmt: skip
COMPILED: dict[str, Any] = {"residency": "device", "layout": "channels-last", "execution": "compile:default"}


def case(
    model: str = "simple-cnn",
    *,
    batch: int = 64,
    seed: int = 0,
    data_set: str = "digits",
    device: Device | None = None,
    recipe: Recipe | None = None,
    drop_last: bool = True,
    **tuning: Any,
) -> Case:
    known = data.entry(data_set)
    work = Work(
        task="train",
        model=model,
        data=data_set,
        data_version=known.version,
        data_hash=known.identity,
        batch=batch,
        drop_last=drop_last,
        recipe=recipe or Recipe(),
        seed=seed,
    )
    return applicable(Case(work=work, tuning=Tuning(**tuning), device=device or Device(kind="cpu")))


def calls(
    model: str = "simple-cnn",
    *,
    batch: int = 4,
    seed: int = 0,
    data_set: str = "digits",
    device: Device | None = None,
    weights: str | None = None,
    **tuning: Any,
) -> Case:
    """A case of inference; the batches are on the device unless the tuning says else."""
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
        seed=seed,
        weights=weights,
    )
    asked = Tuning(**({"residency": "device"} | tuning))
    return applicable(Case(work=work, tuning=asked, device=device or Device(kind="cpu")))


@cache
def fp64_losses(model: str, batch: int, recipe: Recipe | None = None) -> tuple[float, ...]:
    """Ten losses of torch in FP64: what other frameworks are held to."""
    from breakeven.runtimes.torch import parity

    return parity.fp64_losses(case(model, batch=batch, recipe=recipe))


def cuda(index: int = 0) -> Device:
    return Device(kind="cuda", index=index)


def environment() -> dict[str, str]:
    """For a fresh interpreter that has to import this package and `runtimes.torch_cases`."""
    folders = Path(breakeven.__file__).parents[1], Path(__file__).parents[1]
    return dict(os.environ) | {"PYTHONPATH": os.pathsep.join(map(str, folders))}
