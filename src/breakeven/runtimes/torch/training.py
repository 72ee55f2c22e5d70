"""One training step, its optimizer and schedule, and its place in the order of steps and epochs.

Knows nothing about where batches come from, about evaluation or about checks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from breakeven.errors import Mismatch
from breakeven.records.case import Recipe
from breakeven.runtimes.torch.input import Batches
from breakeven.runtimes.torch.precision import autocast
from breakeven.workloads.philox import derive

IMPLEMENTATIONS: dict[str, dict[str, bool]] = {
    "auto": {},
    "for-loop": {"foreach": False, "fused": False},
    "foreach": {"foreach": True, "fused": False},
    "fused": {"foreach": False, "fused": True},
}


@dataclass(kw_only=True, slots=True)
class Progress:
    """Where training stands: `step` batches of `epoch` are done. `begun`: its batches have been asked for."""

    epoch: int = 0
    step: int = 0
    begun: bool = False


@dataclass(kw_only=True, slots=True)
class Seen:
    """The last batch and output, kept to read back where they lived and how they lay."""

    images: torch.Tensor | None = None
    output: torch.Tensor | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """A net in training: `step`, `parts`, `next_epoch` and `losses` as in `Prepared`."""

    net: nn.Module
    optimizer: torch.optim.Optimizer
    progress: Progress
    seen: Seen
    step: Callable[[], None]
    next_epoch: Callable[[], None]
    losses: Callable[[], tuple[float, ...]]
    parts: Mapping[str, Callable[[], None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a training needs to know of its case."""

    recipe: Recipe
    seed: int
    shape: tuple[int, ...]
    steps_per_epoch: int
    precision: str
    optimizer_impl: str
    loss_every_step: bool


def adam(net: nn.Module, recipe: Recipe, implementation: str) -> torch.optim.Optimizer:
    """Adam with the recipe's constants. torch's formula is the recipe's: epsilon is added to sqrt(vhat)."""
    optimizer: torch.optim.Optimizer = torch.optim.Adam(
        net.parameters(),
        lr=recipe.lr,
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.eps,
        weight_decay=recipe.weight_decay,
        **IMPLEMENTATIONS[implementation],
    )
    return optimizer


def resolved(optimizer: torch.optim.Optimizer) -> str:
    """Which implementation an optimizer runs: torch's own rule where nothing was asked."""
    group = optimizer.param_groups[0]
    fused, foreach = group["fused"], group["foreach"]
    if fused is None and foreach is None:
        from torch.optim.optimizer import _default_to_fused_or_foreach

        fused, foreach = _default_to_fused_or_foreach(group["params"], False, use_fused=False)
    return "fused" if fused else "foreach" if foreach else "for-loop"


def learning_rate(recipe: Recipe, epoch: int) -> float:
    if recipe.schedule == "constant":
        return recipe.lr
    return recipe.lr * recipe.gamma ** (epoch // recipe.step_size)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """A tensor rate is written in place: a captured step reads that tensor and would miss a new number."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], torch.Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def forward(
    net: nn.Module, images: torch.Tensor, labels: torch.Tensor, precision: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """(loss, output) of a batch; reads nothing but its arguments."""
    with autocast(precision, images.device):
        output = net(images)
        return functional.cross_entropy(output, labels), output


def training(plan: Plan, net: nn.Module, batches: Batches, device: torch.device) -> Training:
    """Ties net, optimizer and batches together. Nothing runs until the first step."""
    optimizer = adam(net, plan.recipe, plan.optimizer_impl)
    progress, seen = Progress(), Seen()
    record, losses = (_read_every_step if plan.loss_every_step else _kept_on_device)(plan, net, device)
    net.train()

    def begin() -> None:
        # Dropout's draws are a function of (seed, epoch), like all else: a resumed epoch repeats them.
        torch.manual_seed(derive(plan.seed, "dropout", progress.epoch) % 2**63)
        set_learning_rate(optimizer, learning_rate(plan.recipe, progress.epoch))
        batches.begin(progress.epoch, progress.step)
        progress.begun = True

    def next_epoch() -> None:
        progress.epoch, progress.step = progress.epoch + 1, 0
        begin()

    def arrive() -> None:
        if progress.step == plan.steps_per_epoch:
            next_epoch()
        elif not progress.begun:
            begin()

    def finish(loss: torch.Tensor, images: torch.Tensor, output: torch.Tensor) -> None:
        record(loss)
        progress.step += 1
        seen.images, seen.output = images, output.detach()

    parts = eager_parts(plan, net, optimizer, batches, arrive, finish)
    fetch, place, ahead, back, update, read = parts.values()

    def step() -> None:
        fetch()
        place()
        ahead()
        back()
        update()
        read()

    return Training(
        net=net,
        optimizer=optimizer,
        progress=progress,
        seen=seen,
        step=step,
        next_epoch=next_epoch,
        losses=losses,
        parts=parts,
    )


def eager_parts(
    plan: Plan,
    net: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Batches,
    arrive: Callable[[], None],
    finish: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None],
) -> Mapping[str, Callable[[], None]]:
    """The parts of an eager step, in order: `arrive` begins the first, finish(loss, images, output) ends it.

    Nothing of a batch outlives the last part but what `finish` keeps.
    """
    fetched: Any
    images: torch.Tensor
    labels: torch.Tensor
    loss: torch.Tensor
    output: torch.Tensor

    def fetch() -> None:
        nonlocal fetched
        arrive()
        fetched = batches.fetch()

    def place() -> None:
        nonlocal fetched, images, labels
        images, labels = batches.place(fetched)
        del fetched
        if images.shape != plan.shape:
            raise Mismatch("invalid", f"a step got {tuple(images.shape)}, not {plan.shape}")

    def ahead() -> None:
        nonlocal loss, output
        optimizer.zero_grad(set_to_none=True)
        loss, output = forward(net, images, labels, plan.precision)

    def back() -> None:
        loss.backward()

    def update() -> None:
        optimizer.step()

    def read() -> None:
        nonlocal images, labels, loss, output
        finish(loss, images, output)
        del images, labels, loss, output

    return {
        "data_wait": fetch,
        batches.placing: place,
        "forward": ahead,
        "backward": back,
        "optimizer": update,
        "loss_read": read,
    }


Recorder = tuple[Callable[[torch.Tensor], None], Callable[[], tuple[float, ...]]]


def _read_every_step(plan: Plan, net: nn.Module, device: torch.device) -> Recorder:
    """`loss.item()` after each step, as people write it: it waits for the device."""
    values: list[float] = []

    def record(loss: torch.Tensor) -> None:
        values.append(loss.item())

    def losses() -> tuple[float, ...]:
        read = tuple(values)
        values.clear()
        return read

    return record, losses


def _kept_on_device(plan: Plan, net: nn.Module, device: torch.device) -> Recorder:
    """Losses stay in a buffer on the device of one epoch's length; when it is full the oldest are lost."""
    dtype = next(net.parameters()).dtype
    buffer = torch.zeros(plan.steps_per_epoch, dtype=dtype, device=device)
    count = [0]

    def record(loss: torch.Tensor) -> None:
        buffer[count[0] % len(buffer)] = loss.detach()
        count[0] += 1

    def losses() -> tuple[float, ...]:
        values: list[Any] = buffer.tolist()
        split = count[0] % len(buffer)
        read = values[:split] if count[0] < len(buffer) else values[split:] + values[:split]
        count[0] = 0
        return tuple(float(value) for value in read)

    return record, losses
