"""A built case as `Prepared`: the functions that the timing loop calls.

Knows nothing about clocks, files of results or other processes.
"""

import dataclasses
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax

from breakeven.records.case import Case
from breakeven.runtimes import Prepared
from breakeven.runtimes.checks import Check
from breakeven.runtimes.inference.handed import handed_over
from breakeven.runtimes.jax import (
    checks,
    inference,
    nets,
    place,
    profile,
    state,
    translated,
    translation_checks,
)
from breakeven.runtimes.jax.session import Session, build, observe
from breakeven.runtimes.jax.training import Training
from breakeven.workloads import models, splits
from breakeven.workloads.costs import trained_parameter_count
from breakeven.workloads.weights import Weights, weights_hash

NO_PEAK = "JAX cannot restart its peak: it holds compiling and start-up as well"


def prepare(case: Case) -> Prepared:
    """The case as `Prepared`. Raises Unsupported where this machine lacks what it needs."""
    if case.work.task == "infer":
        return _inference(case)
    if models.translates(case.work.model):
        return _training(translated.build(case), translation_checks.run, translated.export)
    return _training(build(case), checks.run, state.export)


def _inference(case: Case) -> Prepared:
    inputs, making, device = inference.opened(case)
    made = handed_over(inputs, making)
    assert made.build is not None
    memory, reset = _memory(device)
    return dataclasses.replace(
        made,
        build=_noting_caches(made.build) if case.tuning.execution == "jit" else None,
        counters=place.counters,
        memory=memory,
        reset_memory=reset,
        profile=partial(profile.profiled, made.step, made.sync, device),
        nulls={**made.nulls, "memory.jax_peak_bytes_in_use_mib": NO_PEAK},
    )


def _training(
    session: Session,
    check: Callable[..., dict[str, Check]],
    export: Callable[[Training], Weights],
) -> Prepared:
    case, made, plan = session.case, session.training, session.plan
    memory, reset = _memory(session.device)

    def compile() -> Mapping[str, Any]:
        made.compile()
        session.scoring.compile()
        return {"programs": 2}

    def close() -> None:
        made.source.close()
        made.carry, made.fixed, session.scoring.data = {}, {}, {}

    observed = partial(observe, session)
    return Prepared(
        step=made.step,
        sync=made.sync,
        samples_per_step=case.work.batch,
        steps_per_epoch=plan.steps_per_epoch,
        next_epoch=made.next_epoch,
        evaluate=session.scoring.evaluate,
        losses=made.losses,
        checks=lambda: check(session, session.scoring.evaluate, observed),
        observed=observed,
        counters=place.counters,
        memory=memory,
        reset_memory=reset,
        save=partial(state.save, made),
        restore=partial(state.restore, made),
        export=partial(export, made),
        close=close,
        hashes=_hashes(session),
        parameters=trained_parameter_count(plan.model),
        eval_samples=session.scoring.split.n,
        build=_noting_caches(compile) if plan.jitted else None,
        profile=partial(profile.profiled, made.step, made.sync, session.device),
        nulls={
            "phases": "a jitted step is one program" if plan.jitted else "operations are enqueued ahead",
            "memory.jax_peak_bytes_in_use_mib": NO_PEAK,
        },
    )


def _noting_caches(build: Callable[[], Mapping[str, Any]]) -> Callable[[], Mapping[str, Any]]:
    def noting() -> Mapping[str, Any]:
        before = place.cache_counts()
        return {**build(), **place.cache_facts(before)}

    return noting


def _memory(device: jax.Device) -> tuple[Callable[[], Mapping[str, float]], Callable[[], None]]:
    """(memory, reset). After a reset the peak is left out: it is not restarted, so it would be a cold one."""
    again: list[bool] = []

    def memory() -> Mapping[str, float]:
        found = place.memory(device)
        return {name: mib for name, mib in found.items() if not (again and "peak" in name)}

    return memory, lambda: again.append(True)


def _hashes(session: Session) -> dict[str, str]:
    made = session.training
    # Read back from the device: what the net starts from, not what it was meant to start from.
    arrays = {**made.carry["params"], **made.carry["buffers"]}
    weights = nets.declared(arrays, channels_last=session.plan.how.channels_last)
    return {"weights": weights_hash(weights), **splits.hashes(session.train)}
