"""A small CycleGAN for the tests of runtimes that train it. Imports no framework but in functions."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

from breakeven.records.case import Recipe, Tuning
from breakeven.workloads import cyclegan, data
from breakeven.workloads.splits import Split

WHOLE = cyclegan.model((3, 32, 32), base=4, blocks=1)
TINY = cyclegan.model((3, 128, 128), base=4, blocks=1)
"""Small, for images as `digits-3-8` has them."""

RECIPE = dataclasses.replace(cyclegan.RECIPE, epochs=4, pool=3)
SEED, STEPS = 2, 4
"""Steps an epoch: batches of a small part of the digits."""

# Recipe and batch of trainings that all must do alike.
WORKS = {
    "pool": (RECIPE, 1),
    "batch of two": (RECIPE, 2),
    "no pool": (dataclasses.replace(RECIPE, pool=0, augment="none"), 1),
}


def splits(recipe: Recipe, batch: int) -> tuple[Split, Split]:
    known, digits = data.entry("digits"), data.load("digits", "train")
    made = []
    for domain, digit in enumerate((3, 8)):
        chosen = digits.labels == digit
        few = dataclasses.replace(
            digits,
            images=digits.images[chosen][: STEPS * batch],
            labels=digits.labels[chosen][: STEPS * batch],
        )
        own = dataclasses.replace(known, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
        seed = cyclegan.domain_seed(SEED, domain)
        made.append(Split(data=few, known=own, seed=seed, augment=recipe.augment == "crop-flip"))
    return made[0], made[1]


def losses_of(training: Any, steps: int) -> list[float]:
    read: list[float] = []
    for _ in range(steps):
        training.step()
        read += training.losses()
    return read


@cache
def torch_losses(recipe: Recipe, batch: int) -> tuple[float, ...]:
    """Ten losses of torch in FP64: what other frameworks are held to. One thread: the nets are tiny."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return tuple(losses_of(in_torch(recipe, batch), 10))
    finally:
        torch.set_num_threads(before)


def in_torch(recipe: Recipe = RECIPE, batch: int = 1, **tuning: Any) -> Any:
    """The small CycleGAN in training with torch, in FP64 on the CPU."""
    import torch

    from breakeven.runtimes.torch import input
    from breakeven.runtimes.torch.training import Plan
    from breakeven.runtimes.torch.translation import Domains, Four, alternating

    how, device = Tuning(**tuning), torch.device("cpu")
    layout = torch.channels_last if how.layout == "channels-last" else torch.contiguous_format
    loading = input.Loading(
        batch=batch,
        device=device,
        memory_format=layout,
        drop_last=True,
        workers=how.workers or 0,
        prefetch=2 if how.workers else None,
        pinned=False,
    )
    made = Plan(
        recipe=recipe,
        seed=SEED,
        shape=(batch, 3, 32, 32),
        steps_per_epoch=STEPS,
        precision="default",
        optimizer_impl=how.optimizer_impl or "auto",
        loss_every_step=how.loss_sync != "epoch",
        memory_format=layout,
    )
    four = Four(WHOLE, cyclegan.first_weights(WHOLE, SEED), recipe, SEED).double().to(memory_format=layout)
    a, b = (input.batches_of(how.residency, split, loading) for split in splits(recipe, batch))
    return alternating(made, four, Domains(a=a, b=b, dtype=torch.float64), device, how.compile_mode)
