"""CycleGAN built as a case of training: its data of two domains, its nets and their training.

Knows nothing about checks or the protocol of runtimes.
"""

import dataclasses
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

from breakeven.errors import Unsupported
from breakeven.records.case import Case, Tuning
from breakeven.runtimes.jax import input, nets, state, translation
from breakeven.runtimes.jax.evaluation import Scoring, translated
from breakeven.runtimes.jax.session import Session, plan_of, set_up
from breakeven.runtimes.jax.training import Plan, Training
from breakeven.runtimes.jax.translation import DOMAINS
from breakeven.workloads import cyclegan, models, splits
from breakeven.workloads.splits import Split
from breakeven.workloads.weights import Weights


def build(case: Case, *, dtype: Any = np.float32) -> Session:
    """Builds the case. Raises Unsupported where this machine lacks what it needs.

    With `dtype` float64, which needs JAX's 64-bit mode, for parity only.
    """
    work = case.work
    assert work.recipe is not None  # `supports` has asked
    device = set_up(case)
    *train, test = splits.of_domains(work)
    pairs = min(split.n for split in train)
    if pairs < work.batch:
        raise Unsupported(f"batch {work.batch} is larger than the {pairs} pairs of {work.data}")
    whole = models.model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
    plan = plan_of(case, whole, samples=pairs, dtype=dtype)
    first = cyclegan.first_weights(whole, work.seed)
    made = alternating(plan, first, tuple(train), device, case.tuning)
    # Nobody knows the right answer to them.
    test = dataclasses.replace(test, known=dataclasses.replace(test.known, labelled=False))

    def generator() -> Mapping[str, Any]:
        return cyclegan.part(made.carry["params"], cyclegan.GENERATORS[0])

    return Session(
        case=case,
        device=device,
        plan=plan,
        weights=first,
        train=tuple(train),
        training=made,
        scoring=Scoring(plan=plan, split=test, device=device, arrays=generator, score=translated),
    )


def alternating(
    plan: Plan, first: Weights, train: tuple[Split, ...], device: jax.Device, tuning: Tuning
) -> Training:
    """The four nets in training on the splits of A and of B, from their first weights."""
    last = plan.how.channels_last
    there = {}
    if plan.resident:
        there["data"] = {
            x: input.resident(split, device, channels_last=last)
            for x, split in zip(DOMAINS, train, strict=True)
        }
    return Training(
        plan=plan,
        device=device,
        carry=translation.first_carry(plan, nets.placed(first, channels_last=last), device),
        fixed=there,
        source=_source(plan, train, tuning),
        program=partial(translation.resident_step if plan.resident else translation.update, plan),
    )


def export(made: Training) -> Weights:
    """The generator from A to B by the names of the declared layers: what inference is given."""
    return cyclegan.part(state.export(made), cyclegan.GENERATORS[0])


def _source(plan: Plan, train: tuple[Split, ...], tuning: Tuning) -> input.Source:
    loaders = [] if plan.resident else [input.loader_of(split, plan.batch, tuning) for split in train]
    pairs, pool = plan.steps_per_epoch * plan.batch, plan.recipe.pool or 0

    def begin(epoch: int, step: int) -> Mapping[str, Any]:
        before = epoch * pairs
        draws = {
            x: cyclegan.pool_draws(plan.seed, domain, before, pairs, pool).astype(np.int32)
            for domain, x in enumerate(DOMAINS)
        }
        own = {"draws": draws, "before": np.int32(before)}
        if plan.resident:
            return own | {
                "columns": {x: input.columns(split, epoch) for x, split in zip(DOMAINS, train, strict=True)}
            }
        for loader in loaders:
            loader.begin(epoch, step)
        return own

    def close() -> None:
        for loader in loaders:
            loader.close()

    images = jax.ShapeDtypeStruct(plan.shape, np.float32)
    return input.Source(
        begin=begin,
        next=lambda: tuple(loader.next()[0] for loader in loaders),
        close=close,
        given=tuple(images for _ in loaders),
    )
