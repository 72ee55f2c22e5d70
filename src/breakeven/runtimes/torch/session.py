"""A case built in this process: settings, data, net and training; and what can be read back of it.

Knows nothing about evaluation, checks or the protocol of runtimes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from breakeven.errors import Mismatch, Unsupported
from breakeven.records.case import Case
from breakeven.runtimes.torch import input, nets, place, precision
from breakeven.runtimes.torch.driven import driven
from breakeven.runtimes.torch.training import Plan, Seen, Training, resolved
from breakeven.workloads import models, splits, weights
from breakeven.workloads.layers import Model
from breakeven.workloads.splits import Split


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A case built: what its functions close over."""

    case: Case
    device: torch.device
    model: Model
    first_weights: weights.Weights
    train: Split
    test: Split
    batches: input.Batches | None
    training: Training


def build(case: Case, *, dtype: torch.dtype = torch.float32) -> Session:
    """Builds the case. Raises Unsupported where this machine lacks what it needs.

    With `dtype` float64 (for parity) only the training functions are of use.
    """
    work = case.work
    if work.recipe is None:
        raise Unsupported("training needs a recipe")
    device = place.resolve(case.device)
    set_up(case, device)
    train, test = splits.of(work)
    if train.n < work.batch:
        raise Unsupported(f"batch {work.batch} is larger than the {train.n} samples of {work.data}")
    model = models.model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
    first = weights.initial_weights(model, work.seed)
    net = nets.build(model, first).to(device=device, dtype=dtype, memory_format=memory_format(case))
    made, batches = trained(case, net, train, device)
    return Session(
        case=case,
        device=device,
        model=model,
        first_weights=first,
        train=train,
        test=test,
        batches=batches,
        training=made,
    )


def trained(
    case: Case, net: nn.Module, split: Split, device: torch.device
) -> tuple[Training, input.Batches | None]:
    """A net in training as the case drives it, and its batches of a split; nothing has run."""
    work, tuning = case.work, case.tuning
    assert work.recipe is not None
    plan = Plan(
        recipe=work.recipe,
        seed=work.seed,
        shape=(work.batch, *work.input_shape),
        steps_per_epoch=split.n // work.batch,
        precision=tuning.precision,
        optimizer_impl=tuning.optimizer_impl or "auto",
        loss_every_step=tuning.loss_sync != "epoch",
        captured=tuning.captured,
    )
    return driven(tuning, plan, net, split, loading(case, device, drop_last=True))


def observe(session: Session) -> Mapping[str, Any]:
    """Cheap facts read back. Raises Mismatch if parameters or the last output are on another device."""
    net, seen, device = session.training.net, session.training.seen, session.device
    return observe_net(net, seen, device) | {
        "autocast": precision.autocast_dtype(session.case.tuning.precision),
        "optimizer_impl": resolved(session.training.optimizer),
        "batch_norm_samples": _batch_norm_samples(session),
        "tail_dropped_samples": session.train.n % session.case.work.batch,
    }


def observe_net(net: nn.Module, seen: Seen, device: torch.device) -> dict[str, Any]:
    """Settings, devices, types and layouts as they are now; Mismatch as in `observe`."""
    same_device(net, seen.output if seen.output_on_device else None, device)
    settings = precision.read_back()
    backend = "cuda_matmul", "cudnn_conv"
    if device.type == "cpu":
        backend = "mkldnn_matmul", "mkldnn_conv"
    return place.facts(device) | {
        "device": str(next(net.parameters()).device),
        "output_device": None if seen.output is None else str(seen.output.device),
        "matmul_precision": settings[backend[0]],
        "conv_precision": settings[backend[1]],
        "fp32_precision": settings,
        "weights_dtype": str(next(net.parameters()).dtype).removeprefix("torch."),
        "output_dtype": None if seen.output is None else str(seen.output.dtype).removeprefix("torch."),
        "weights_layout": _layout([p for p in net.parameters() if p.dim() == 4]),
        "input_layout": _layout([] if seen.images is None else [seen.images]),
    }


def _batch_norm_samples(session: Session) -> int | None:
    """Samples that batch norm takes its statistics from: one part of a batch. None without any."""
    recipe = session.case.work.recipe
    if recipe is None or not any(isinstance(m, nn.BatchNorm2d) for m in session.training.net.modules()):
        return None
    return session.case.work.batch // recipe.accumulation


def same_device(net: nn.Module, output: torch.Tensor | None, device: torch.device) -> None:
    """Raises Mismatch unless parameters, buffers and the last output are all on `device`."""
    tensors = [*net.named_parameters(), *net.named_buffers()]
    if output is not None:
        tensors.append(("the output", output))
    for name, tensor in tensors:
        if tensor.device != device:
            raise Mismatch("device_mismatch", f"{name} is on {tensor.device}, asked was {device}")


def set_up(case: Case, device: torch.device) -> None:
    """Every global setting from scratch; those about determinism stay as they are, whatever the seed."""
    place.set_threads(case.tuning.threads, case.device.threads)
    supported, why = precision.hardware(case.tuning.precision, device)
    if not supported and case.tuning.precision == "tf32":
        raise Unsupported(f"{device} has no TF32: {why}")
    precision.set_precision(case.tuning.precision)
    torch.backends.cudnn.benchmark = case.tuning.autotune


def open_batches(case: Case, split: Split, device: torch.device, *, drop_last: bool) -> input.Batches:
    return input.batches_of(case.tuning.residency, split, loading(case, device, drop_last=drop_last))


def loading(case: Case, device: torch.device, *, drop_last: bool) -> input.Loading:
    """How batches of a case are made."""
    tuning = case.tuning
    return input.Loading(
        batch=case.work.batch,
        device=device,
        memory_format=memory_format(case),
        drop_last=drop_last,
        workers=tuning.workers or 0,
        prefetch=tuning.prefetch,
        pinned=bool(tuning.pinned) and device.type == "cuda",
    )


def memory_format(case: Case) -> torch.memory_format:
    return torch.channels_last if case.tuning.layout == "channels-last" else torch.contiguous_format


def _layout(tensors: list[nn.Parameter] | list[torch.Tensor]) -> str | None:
    """Layout of the first tensor that has only one: where some extent is 1 it may have both."""
    for tensor in tensors:
        first = tensor.is_contiguous()
        last = tensor.is_contiguous(memory_format=torch.channels_last)
        if first != last:
            return "channels-first" if first else "channels-last"
    return None
