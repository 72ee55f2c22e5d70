"""A built case of training or inference as `Prepared`: the functions that the timing loop calls.

Knows nothing about clocks, files of results or other processes.
"""

import gc
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

from breakeven.errors import Unsupported
from breakeven.records.case import Case
from breakeven.runtimes import Prepared
from breakeven.runtimes.torch import (
    checks,
    inference,
    inference_checks,
    nets,
    place,
    profile,
    state,
    translated,
)  # fmt: skip
from breakeven.runtimes.torch.evaluation import evaluator, scored
from breakeven.runtimes.torch.session import Session, build, observe, observe_net, open_batches
from breakeven.workloads import data, models, order, splits, weights


def prepare(case: Case) -> Prepared:
    """The case as `Prepared`. Raises Unsupported where this machine lacks what it needs."""
    if case.work.task == "infer":
        return inference_handed_over(inference.build(case))
    if models.translates(case.work.model):
        return translated.handed_over(translated.build(case))
    return handed_over(build(case))


def inference_handed_over(session: inference.Session) -> Prepared:
    case, device = session.case, session.device

    def observed() -> Mapping[str, Any]:
        facts = observe_net(session.running, session.seen, device)
        return facts | {name: fact for name, fact in session.facts.items() if name != "build"}

    def unresumable(folder: Path) -> None:
        raise Unsupported("inference has no state to save or resume")

    def close() -> None:
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()

    return Prepared(
        step=session.step,
        sync=place.sync_of(device),
        samples_per_step=case.work.batch,
        steps_per_epoch=len(session.rows),
        next_epoch=lambda: None,
        evaluate=partial(scored, session),
        losses=tuple,
        checks=lambda: inference_checks.run(session, observed),
        observed=observed,
        counters=place.counters,
        memory=partial(place.memory, device),
        reset_memory=partial(place.reset_memory, device),
        save=unresumable,
        restore=unresumable,
        close=close,
        hashes={
            "weights": weights.weights_hash(session.weights),
            "order": order.order_hash(session.rows),
        },
        parameters=nets.parameter_count(session.net),
        eval_samples=len(session.test.images),
        device_span=place.span_of(device),
        build=session.build if session.calls.ready is not None else None,
        profile=partial(profile.profiled, session.step, place.sync_of(device), device),
        nulls={"phases": "a call is one piece"},
    )


def handed_over(session: Session) -> Prepared:
    case, device, net = session.case, session.device, session.training.net
    evaluate, close_test = evaluator(
        net,
        partial(open_batches, case, session.test, device, drop_last=False),
        device,
        precision=case.tuning.precision,
        labelled=data.entry(case.work.data).labelled,
    )

    def close() -> None:
        if session.batches is not None:
            session.batches.close()
        close_test()
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()

    observed = partial(observe, session)
    return Prepared(
        step=session.training.step,
        sync=place.sync_of(device),
        samples_per_step=case.work.batch,
        steps_per_epoch=session.train.n // case.work.batch,
        next_epoch=session.training.next_epoch,
        evaluate=evaluate,
        losses=session.training.losses,
        checks=lambda: checks.run(session, evaluate, observed),
        observed=observed,
        counters=place.counters,
        memory=partial(place.memory, device),
        reset_memory=partial(place.reset_memory, device),
        save=partial(state.save, session.training),
        restore=partial(state.restore, session.training),
        export=partial(state.export, session.training),
        close=close,
        hashes=_hashes(session),
        parameters=nets.parameter_count(net),
        eval_samples=session.test.n,
        device_span=place.span_of(device),
        parts=session.training.parts,
        build=session.training.build,
        profile=partial(profile.profiled, session.training.step, place.sync_of(device), device),
        nulls={} if session.training.parts else {"phases": _one_piece(case)},
    )


def _one_piece(case: Case) -> str:
    if case.tuning.captured:
        return "a captured step is one piece"
    return "gradients accumulate: forward and backward take turns"


def _hashes(session: Session) -> dict[str, str]:
    # Read back from the device: what the net starts from, not what it was meant to start from.
    started = weights.weights_hash(state.export(session.training))
    return {"weights": started, **splits.hashes([session.train])}
