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
from breakeven.workloads.schedule import learning_rate

IMPLEMENTATIONS: dict[str, dict[str, bool]] = {
    "auto": {},
    "for-loop": {"foreach": False, "fused": False},
    "foreach": {"foreach": True, "fused": False},
    "fused": {"foreach": False, "fused": True},
}


@dataclass(kw_only=True, slots=True)
class Seen:
    """The last batch and output, kept to read back where they lived and how they lay."""

    images: torch.Tensor | None = None
    output: torch.Tensor | None = None
    output_on_device: bool = True  # False where a call copies it to the host


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a training needs to know of its case. `shape`: of a step's images, [batch, C, H, W]."""

    recipe: Recipe
    seed: int
    shape: tuple[int, ...]
    steps_per_epoch: int
    precision: str
    optimizer_impl: str
    loss_every_step: bool
    captured: bool = False
    memory_format: torch.memory_format = torch.contiguous_format


@dataclass(kw_only=True, slots=True)
class Course:
    """Where training stands: `step` batches of `epoch` are done. `begun`: its batches have been asked for.

    `start(epoch, step)` makes the batches ready from there. `others`: optimizers with the same rate.
    """

    plan: Plan
    optimizer: torch.optim.Optimizer
    start: Callable[[int, int], None]
    others: tuple[torch.optim.Optimizer, ...] = ()
    epoch: int = 0
    step: int = 0
    begun: bool = False

    def begin(self) -> None:
        """What an epoch starts with on every tuning: dropout's draws, the learning rate, its batches."""
        # Dropout's draws are a function of (seed, epoch), like all else: a resumed epoch repeats them.
        torch.manual_seed(derive(self.plan.seed, "dropout", self.epoch) % 2**63)
        for optimizer in (self.optimizer, *self.others):
            set_learning_rate(optimizer, learning_rate(self.plan.recipe, self.epoch))
        self.begun = True
        self.start(self.epoch, self.step)

    def next_epoch(self) -> None:
        self.epoch, self.step = self.epoch + 1, 0
        self.begin()

    def arrive(self) -> None:
        """Comes before every step: begins an epoch where none has begun, or the last one is done."""
        if self.step == self.plan.steps_per_epoch:
            self.next_epoch()
        elif not self.begun:
            self.begin()


@dataclass(frozen=True, kw_only=True, slots=True)
class Training:
    """A net in training: `step`, `next_epoch`, `losses`, `build` and `parts` as in `Prepared`.

    `others`: the optimizers of other parts of the net, in turn after `optimizer`.
    """

    net: nn.Module
    optimizer: torch.optim.Optimizer
    course: Course
    seen: Seen
    step: Callable[[], None]
    next_epoch: Callable[[], None]
    losses: Callable[[], tuple[float, ...]]
    build: Callable[[], Mapping[str, Any]] | None = None
    parts: Mapping[str, Callable[[], None]] | None = None
    scaler: torch.amp.GradScaler | None = None
    others: tuple[torch.optim.Optimizer, ...] = ()


def adam(net: nn.Module, plan: Plan, device: torch.device) -> torch.optim.Optimizer:
    """Adam with the recipe's constants. torch's formula is the recipe's: epsilon is added to sqrt(vhat).

    For a captured step the learning rate is a tensor and the count of steps lives on the device.
    """
    recipe = plan.recipe
    rate = torch.tensor(recipe.lr, device=device) if plan.captured else recipe.lr
    optimizer: torch.optim.Optimizer = torch.optim.Adam(
        net.parameters(),
        lr=rate,
        betas=(recipe.beta1, recipe.beta2),
        eps=recipe.eps,
        weight_decay=recipe.weight_decay,
        capturable=plan.captured,
        **IMPLEMENTATIONS[plan.optimizer_impl],
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


Forward = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""(loss, output) of images and labels."""

Gradients = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]
"""The same, with the gradients of the mean loss added to those that the parameters have."""


def scaler_for(precision: str, device: torch.device) -> torch.amp.GradScaler | None:
    """FP16's gradients underflow unless the loss is scaled up: Micikevicius et al. 2018. Others need none."""
    return torch.amp.GradScaler(device.type) if precision == "fp16" else None


def backward(loss: torch.Tensor, scaler: torch.amp.GradScaler | None) -> None:
    (loss if scaler is None else scaler.scale(loss)).backward()


def gradients_by(
    forward: Forward, accumulation: int, scaler: torch.amp.GradScaler | None = None
) -> Gradients:
    """Forward and backward of a batch, in `accumulation` equal parts. Batch norm sees each part by itself.

    With a `scaler` the gradients are its factor too large, until `apply` steps.
    """

    def whole(images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss, output = forward(images, labels)
        backward(loss, scaler)
        return loss, output

    def in_parts(images: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        done = []
        for part in zip(images.chunk(accumulation), labels.chunk(accumulation), strict=True):
            loss, output = forward(*part)
            loss = loss / accumulation
            backward(loss, scaler)
            done.append((loss.detach(), output.detach()))
        return torch.stack([loss for loss, _ in done]).sum(), torch.cat([output for _, output in done])

    return whole if accumulation == 1 else in_parts


def apply_by(optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None) -> Callable[[], None]:
    """The optimizer's step; with a scaler left out where a gradient overflowed, and its factor adapted."""
    if scaler is None:

        def plain() -> None:
            optimizer.step()

        return plain

    def scaled() -> None:
        scaler.step(optimizer)
        scaler.update()

    return scaled


def training(
    plan: Plan,
    net: nn.Module,
    batches: Batches,
    run: Forward,
    device: torch.device,
    scaler: torch.amp.GradScaler | None = None,
) -> Training:
    """Ties net, optimizer and batches together. Nothing runs until the first step."""
    optimizer = adam(net, plan, device)
    course, seen = Course(plan=plan, optimizer=optimizer, start=batches.begin), Seen()
    record, losses = recorder(plan, net, device)
    net.train()

    def finish(loss: torch.Tensor, images: torch.Tensor, output: torch.Tensor) -> None:
        record(loss)
        course.step += 1
        seen.images, seen.output = images, output.detach()

    parts = parts_of(plan, run, optimizer, scaler, batches, course.arrive, finish)
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
        course=course,
        seen=seen,
        step=step,
        next_epoch=course.next_epoch,
        losses=losses,
        parts=parts if plan.recipe.accumulation == 1 else None,
        scaler=scaler,
    )


def parts_of(
    plan: Plan,
    run: Forward,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler | None,
    batches: Batches,
    arrive: Callable[[], None],
    finish: Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None],
) -> Mapping[str, Callable[[], None]]:
    """The parts of a step, in order: `arrive` begins the first, finish(loss, images, output) ends it.

    Nothing of a batch outlives the last part but what `finish` keeps. Where gradients accumulate, forward and
    backward take turns: all of it is then the part `forward`.
    """
    accumulation = plan.recipe.accumulation
    gradients, update = gradients_by(run, accumulation, scaler), apply_by(optimizer, scaler)
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
        loss, output = run(images, labels)

    def back() -> None:
        backward(loss, scaler)

    def accumulate() -> None:
        nonlocal loss, output
        optimizer.zero_grad(set_to_none=True)
        loss, output = gradients(images, labels)

    def nothing() -> None:
        """Backward took turns with forward."""

    def read() -> None:
        nonlocal images, labels, loss, output
        finish(loss, images, output)
        del images, labels, loss, output

    return {
        "data_wait": fetch,
        batches.placing: place,
        "forward": ahead if accumulation == 1 else accumulate,
        "backward": back if accumulation == 1 else nothing,
        "optimizer": update,
        "loss_read": read,
    }


Recorder = tuple[Callable[[torch.Tensor], None], Callable[[], tuple[float, ...]]]


def recorder(plan: Plan, net: nn.Module, device: torch.device) -> Recorder:
    """(record a step's loss, read those recorded since the last time)."""
    return (_read_every_step if plan.loss_every_step else _kept_on_device)(plan, net, device)


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
