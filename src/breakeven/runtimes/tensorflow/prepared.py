"""A built case as `Prepared`: the functions that the timing loop calls.

Knows nothing about clocks, files of results or other processes.
"""

import gc
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from breakeven.records.case import Case
from breakeven.runtimes import Evaluation, Prepared
from breakeven.runtimes.checks import Check
from breakeven.runtimes.tensorflow import (
    checks,
    evaluation,
    inference,
    place,
    profile,
    state,
    translated,
    translation,
    translation_checks,
)
from breakeven.runtimes.tensorflow.session import Session, build, observe
from breakeven.runtimes.tensorflow.training import traces
from breakeven.workloads import models, splits
from breakeven.workloads.costs import trained_parameter_count
from breakeven.workloads.weights import Weights, weights_hash


def prepare(case: Case) -> Prepared:
    """The case as `Prepared`. Raises Unsupported where this machine lacks what it needs."""
    if case.work.task == "infer":
        return inference.prepare(case)
    if models.translates(case.work.model):
        return _pairs(translated.build(case))
    return _images(build(case))


def _images(session: Session) -> Prepared:
    eager = session.case.tuning.execution == "eager"
    return _training(
        session,
        started=session.training.net.weights(),
        evaluated=evaluation.evaluator(session),
        check=checks.run,
        observed=partial(observe, session),
        untimed="parts of an eager step are not timed" if eager else "a step is one program",
    )


def _pairs(session: Session) -> Prepared:
    return _training(
        session,
        started=translation.weights_of(session.training.nets),
        evaluated=translated.evaluator(session),
        check=translation_checks.run,
        observed=partial(translated.observe_pairs, session),
        untimed="two updates take turns: forward, backward and optimizer come twice",
    )


def _training(
    session: Session,
    *,
    started: Weights,
    evaluated: tuple[Callable[[int | None], Evaluation], Callable[[], None]],
    check: Callable[..., dict[str, Check]],
    observed: Callable[[], Mapping[str, Any]],
    untimed: str,
) -> Prepared:
    """A session of training handed over. `started`: weights read back from the device, what nets start from
    and not what they were meant to start from; `untimed`: why a step has no parts."""
    case, made = session.case, session.training
    evaluate, close_test = evaluated

    def close() -> None:
        made.source.close()
        close_test()
        gc.collect()

    return Prepared(
        step=made.step,
        sync=place.sync_of(case.device),
        samples_per_step=case.work.batch,
        steps_per_epoch=made.plan.steps_per_epoch,
        next_epoch=made.next_epoch,
        evaluate=evaluate,
        losses=made.losses,
        checks=lambda: check(session, evaluate, observed),
        observed=observed,
        counters=lambda: {"tf_traces": traces(made.program)},
        memory=partial(place.memory, case.device),
        reset_memory=partial(place.reset_memory, case.device),
        save=partial(state.save, made),
        restore=partial(state.restore, made),
        export=made.net.weights,
        close=close,
        hashes={"weights": weights_hash(started), **splits.hashes(session.train)},
        parameters=trained_parameter_count(session.model),
        eval_samples=session.test.n,
        build=None if case.tuning.execution == "eager" else made.build,
        profile=partial(profile.profiled, made.step, place.sync_of(case.device), case.device),
        nulls={"phases": untimed},
    )
