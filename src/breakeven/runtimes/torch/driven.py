"""The step of a case as its tuning drives it: eager, compiled, captured, or compiled and captured.

Knows nothing about checks, evaluation or the settings of torch.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from breakeven.records.case import Tuning
from breakeven.runtimes.torch import input
from breakeven.runtimes.torch.compiled import compiled, noting_caches
from breakeven.runtimes.torch.graph import Source, captured, kept_state
from breakeven.runtimes.torch.training import (
    Forward,
    Gradients,
    Plan,
    Training,
    forward,
    gradients_by,
    scaler_for,
    training,
)
from breakeven.workloads.splits import Split


def driven(
    tuning: Tuning, plan: Plan, net: nn.Module, split: Split, loading: input.Loading
) -> tuple[Training, input.Batches | None]:
    """(training, its batches). A captured step cuts its batches itself: it has none."""
    mode, dtype = tuning.compile_mode, next(net.parameters()).dtype
    whole: Forward = partial(forward, net, precision=plan.precision)
    run = whole if mode is None else compiled(whole, mode)
    scaler = scaler_for(plan.precision, loading.device)
    gradients = gradients_by(run, plan.recipe.accumulation, scaler)
    if tuning.captured:
        cut = input.resident(split, loading)
        if dtype != torch.float32:
            cut = _cast(cut, dtype)
        source = Source(
            epoch=lambda epoch: torch.from_numpy(split.columns(epoch)),
            cut=cut if mode is None else compiled(cut, mode),
        )
        made = captured(plan, net, source, gradients, loading.device, scaler)
        return (made if mode is None else noting(made)), None
    batches = input.batches_of(tuning.residency, split, loading)
    if dtype != torch.float32:
        batches = dataclasses.replace(batches, place=_cast(batches.place, dtype))
    made = training(plan, net, batches, run, loading.device, scaler)
    if mode is not None:
        made = noting(dataclasses.replace(made, build=_first_call(made, plan, gradients, loading)))
    return made, batches


def _cast(take: input.Cut, dtype: torch.dtype) -> input.Cut:
    def cast(*rows: torch.Tensor) -> input.Batch:
        images, labels = take(*rows)
        return images.to(dtype), labels

    return cast


def _first_call(
    made: Training, plan: Plan, gradients: Gradients, loading: input.Loading
) -> Callable[[], Mapping[str, Any]]:
    """Compiles forward and backward by calling them once, and leaves the training as it was."""

    def build() -> Mapping[str, Any]:
        dtype = next(made.net.parameters()).dtype
        images = torch.zeros(plan.shape, dtype=dtype, device=loading.device)
        labels = torch.zeros(plan.shape[0], dtype=torch.int64, device=loading.device)
        with kept_state(made.net, made.optimizer, made.scaler):
            gradients(images.contiguous(memory_format=loading.memory_format), labels)
        made.optimizer.zero_grad(set_to_none=True)
        return {"captured": False}

    return build


def noting(made: Training) -> Training:
    """The same; `build` also tells whether the compiler found its kernels in a cache."""
    inner = made.build
    assert inner is not None

    def build() -> Mapping[str, Any]:
        with noting_caches() as found:
            facts = dict(inner())
        return facts | found

    return dataclasses.replace(made, build=build)
