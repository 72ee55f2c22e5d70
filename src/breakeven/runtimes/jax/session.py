"""A training case built in this process: settings, data, net and training; and what can be read back of it.

Knows nothing about checks or the protocol of runtimes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from breakeven.errors import Mismatch, Unsupported
from breakeven.records.case import Case, Tuning
from breakeven.runtimes.jax import input, nets, place, precision, training
from breakeven.runtimes.jax.evaluation import Scoring, scored
from breakeven.runtimes.jax.training import Plan, Training
from breakeven.workloads import models, sources, splits
from breakeven.workloads.layers import Model
from breakeven.workloads.philox import derive
from breakeven.workloads.splits import Split
from breakeven.workloads.weights import Weights


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A case built: what its functions close over. `train`: one split, or one of either domain."""

    case: Case
    device: jax.Device
    plan: Plan
    weights: Weights
    train: tuple[Split, ...]
    training: Training
    scoring: Scoring


def build(case: Case, *, dtype: Any = np.float32) -> Session:
    """Builds the case. Raises Unsupported where this machine lacks what it needs.

    With `dtype` float64, which needs JAX's 64-bit mode, for parity only.
    """
    work, tuning = case.work, case.tuning
    assert work.recipe is not None  # `supports` has asked
    device = set_up(case)
    train, test = splits.of(work)
    if train.n < work.batch:
        raise Unsupported(f"batch {work.batch} is larger than the {train.n} samples of {work.data}")
    model = models.model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
    weights = sources.of(work, model)
    plan = plan_of(case, model, samples=train.n, dtype=dtype)
    made = _training(plan, weights, train, device, tuning)

    def arrays() -> Mapping[str, Any]:
        return {**made.carry["params"], **made.carry["buffers"]}

    return Session(
        case=case,
        device=device,
        plan=plan,
        weights=weights,
        train=(train,),
        training=made,
        scoring=Scoring(plan=plan, split=test, device=device, arrays=arrays, score=scored),
    )


def plan_of(case: Case, model: Model, *, samples: int, dtype: Any) -> Plan:
    """What the case asks of a step; an epoch has so many samples."""
    work, tuning = case.work, case.tuning
    assert work.recipe is not None
    last, (channels, height, width) = tuning.layout == "channels-last", model.input_shape
    return Plan(
        model=model,
        recipe=work.recipe,
        seed=work.seed,
        shape=(work.batch, height, width, channels) if last else (work.batch, *model.input_shape),
        steps_per_epoch=samples // work.batch,
        how=nets.How(channels_last=last, dtype=precision.compute_type(tuning.precision)),
        scaled=tuning.precision == "fp16",
        resident=tuning.residency == "device",
        loss_every_step=tuning.loss_sync != "epoch",
        jitted=tuning.execution == "jit",
        dtype=dtype,
    )


def set_up(case: Case) -> jax.Device:
    """Every global setting from scratch; the device of the case."""
    device = place.set_up(case)
    if case.tuning.precision == "tf32":
        supported, why = precision.hardware("tf32", device)
        if not supported:
            raise Unsupported(f"{case.device.label} has no TF32: {why}")
    precision.set_precision(case.tuning.precision)
    return device


def _training(plan: Plan, weights: Weights, split: Split, device: jax.Device, tuning: Tuning) -> Training:
    loader = None if plan.resident else input.loader_of(split, plan.batch, tuning)
    arrays = nets.placed(weights, channels_last=plan.how.channels_last)
    return Training(
        plan=plan,
        device=device,
        carry=training.first_carry(plan, arrays, device),
        fixed=input.resident(split, device, channels_last=plan.how.channels_last) if plan.resident else {},
        source=_source(plan, split, loader),
        program=partial(training.resident_step if plan.resident else training.update, plan),
    )


def _source(plan: Plan, split: Split, loader: input.Loader | None) -> input.Source:
    def begin(epoch: int, step: int) -> Mapping[str, Any]:
        # A function of (seed, epoch), like all else: a resumed epoch repeats them.
        drawn = derive(plan.seed, "dropout", epoch)
        key = np.array([drawn >> 32 & 0xFFFFFFFF, drawn & 0xFFFFFFFF], np.uint32)
        if loader is None:
            return {"key": key, "columns": input.columns(split, epoch)}
        loader.begin(epoch, step)
        return {"key": key}

    if loader is None:
        return input.Source(begin=begin, next=tuple, close=lambda: None, given=())
    labels = jax.ShapeDtypeStruct((plan.batch,), np.int32)
    given = jax.ShapeDtypeStruct(plan.shape, np.float32), labels
    return input.Source(begin=begin, next=loader.next, close=loader.close, given=given)


def observe(session: Session) -> Mapping[str, Any]:
    """Cheap facts read back. Raises Mismatch if arrays or the last loss are on another device."""
    made, case = session.training, session.case
    samples = [split.n for split in session.train]
    domains = {"domain_samples": samples} if len(samples) > 1 else {}
    same_device(made.carry, session.device)
    if made.last_loss is not None:
        same_device(made.last_loss, session.device)
    return place.facts(session.device) | {
        "device": device_label(case, session.device),
        "output_device": None if made.last_loss is None else device_label(case, session.device),
        "matmul_precision": read_precision(case, session.device),
        "conv_precision": read_precision(case, session.device),
        "autocast": None if session.plan.how.dtype is None else np.dtype(session.plan.how.dtype).name,
        "weights_dtype": next(iter(made.carry["params"].values())).dtype.name,
        "weights_layout": case.tuning.layout,
        "input_layout": case.tuning.layout,
        "optimizer_impl": "the recipe's formula, in the step's program",
        # Of the larger of two domains others are left out each epoch.
        "tail_dropped_samples": min(samples) % case.work.batch,
        "donated": session.plan.jitted,
        **domains,
    }


def device_label(case: Case, device: jax.Device) -> str:
    """As the record names devices."""
    return "cpu" if device.platform == "cpu" else f"{case.device.kind}:{device.local_hardware_id or 0}"


def read_precision(case: Case, device: jax.Device) -> str:
    """What products of FP32 may be computed in, by the setting as it reads back: `ieee`, `tf32` or `default`.

    On a CPU XLA has nothing but IEEE arithmetic for FP32.
    """
    setting = jax.config.jax_default_matmul_precision
    if setting == precision.SETTINGS["fp32"] or device.platform == "cpu":
        return "ieee"
    return "tf32" if setting == precision.SETTINGS["tf32"] else "default"


def same_device(arrays: Any, device: jax.Device) -> None:
    """Raises Mismatch unless all arrays of a tree are on `device` alone."""
    for array in jax.tree.leaves(arrays):
        if array.devices() != {device}:
            raise Mismatch("device_mismatch", f"an array is on {array.devices()}, asked was {device}")
