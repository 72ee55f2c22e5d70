"""A whole training step as one CUDA graph: cut the batch, forward, backward, optimizer, keep the loss.

Knows nothing about loaders or evaluation. The host's part of a step is one replay: which batch comes next,
the learning rate and where the loss goes are tensors that the captured step reads and moves on by itself.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from breakeven.runtimes.torch.input import Cut
from breakeven.runtimes.torch.training import (
    Course,
    Gradients,
    Plan,
    Seen,
    Training,
    adam,
    apply_by,
)

WARM_UP_STEPS = 3
"""Steps on a side stream before the capture: they initialise and search for algorithms."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Batches as a captured step takes them. `epoch` gives the columns of an epoch, int64 [k, n] on the host;

    `cut` makes a batch on the device of k such columns of one batch's length.
    """

    epoch: Callable[[int], torch.Tensor]
    cut: Cut


@dataclass(kw_only=True, slots=True)
class _Tape:
    """What the captured step reads and moves on."""

    columns: torch.Tensor  # int64 [k, n]
    batch: torch.Tensor  # int64 [1], number of the next batch within the epoch
    losses: torch.Tensor  # [steps an epoch]
    kept: torch.Tensor  # int64 [1], losses kept since the start


def captured(
    plan: Plan,
    net: nn.Module,
    source: Source,
    gradients: Gradients,
    device: torch.device,
    scaler: torch.amp.GradScaler | None = None,
) -> Training:
    """A net in training whose step is a replay. `build` captures; nothing runs before it."""
    optimizer = adam(net, plan, device)
    apply, seen = apply_by(optimizer, scaler), Seen()
    tape = _tape(plan, source, next(net.parameters()).dtype, device)
    batch = plan.shape[0]
    lanes = torch.arange(batch, device=device)
    graph = torch.cuda.CUDAGraph()
    counted = [0]

    def body() -> None:
        rows = tape.columns.index_select(1, tape.batch * batch + lanes)
        images, labels = source.cut(*rows.unbind())
        loss, output = gradients(images, labels)
        apply()
        tape.losses.index_copy_(0, tape.kept % len(tape.losses), loss.detach().to(tape.losses.dtype).view(1))
        tape.kept.add_(1)
        tape.batch.add_(1)
        seen.images, seen.output = images, output.detach()

    def build() -> Mapping[str, Any]:
        side = torch.cuda.Stream(device)
        with kept_state(net, optimizer, scaler), _kept([tape.batch, tape.kept, tape.losses]):
            side.wait_stream(torch.cuda.current_stream(device))
            with torch.cuda.stream(side):
                for _ in range(WARM_UP_STEPS):
                    optimizer.zero_grad(set_to_none=True)
                    body()
            torch.cuda.current_stream(device).wait_stream(side)
        # Without gradients the captured backward makes them, in the graph's own memory, instead of adding to
        # what is there: so nothing has to be set to zero in the step.
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            body()
        return {"captured": True}

    def start(epoch: int, step: int) -> None:
        tape.columns.copy_(source.epoch(epoch))
        tape.batch.fill_(step)

    course = Course(plan=plan, optimizer=optimizer, start=start)

    def step() -> None:
        course.arrive()
        graph.replay()
        course.step += 1
        counted[0] += 1

    def losses() -> tuple[float, ...]:
        kept, buffer = int(tape.kept.item()), tape.losses.tolist()
        n, counted[0] = min(counted[0], len(buffer)), 0
        return tuple(float(buffer[i % len(buffer)]) for i in range(kept - n, kept))

    return Training(
        net=net,
        optimizer=optimizer,
        course=course,
        seen=seen,
        step=step,
        next_epoch=course.next_epoch,
        losses=losses,
        build=build,
        scaler=scaler,
    )


def _tape(plan: Plan, source: Source, dtype: torch.dtype, device: torch.device) -> _Tape:
    return _Tape(
        columns=source.epoch(0).to(device),
        batch=torch.zeros(1, dtype=torch.int64, device=device),
        losses=torch.zeros(plan.steps_per_epoch, dtype=dtype, device=device),
        kept=torch.zeros(1, dtype=torch.int64, device=device),
    )


@contextmanager
def kept_state(
    net: nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None = None
) -> Iterator[None]:
    """Puts weights, buffers, the optimizer's state and the scale back as they were, in the very same tensors.

    State that the optimizer did not have yet is set to zero, which is how Adam's starts.
    """
    before = {id(t): t.detach().clone() for t in _tensors(optimizer)}
    scaling = scaler.state_dict() if scaler else {}
    with _kept([*net.parameters(), *net.buffers()]):
        yield
    if scaler:
        scaler.load_state_dict(scaling)
    with torch.no_grad():
        for tensor in _tensors(optimizer):
            old = before.get(id(tensor))
            tensor.zero_() if old is None else tensor.copy_(old)


@contextmanager
def _kept(tensors: list[torch.Tensor]) -> Iterator[None]:
    before = [t.detach().clone() for t in tensors]
    yield
    with torch.no_grad():
        for tensor, old in zip(tensors, before, strict=True):
            tensor.copy_(old)


def _tensors(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [v for state in optimizer.state.values() for v in state.values() if isinstance(v, torch.Tensor)]
