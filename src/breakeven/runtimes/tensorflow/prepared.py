"""A built case as `Prepared`: the functions that the timing loop calls.

Knows nothing about clocks, files of results or other processes.
"""

import gc
from collections.abc import Mapping
from functools import partial

from breakeven.records.case import Case
from breakeven.runtimes import Prepared
from breakeven.runtimes.tensorflow import checks, inference, place, profile, state, translated
from breakeven.runtimes.tensorflow.evaluation import evaluator
from breakeven.runtimes.tensorflow.session import Session, build, observe
from breakeven.runtimes.tensorflow.training import traces
from breakeven.workloads import models, splits
from breakeven.workloads.costs import parameter_count
from breakeven.workloads.weights import weights_hash


def prepare(case: Case) -> Prepared:
    """The case as `Prepared`. Raises Unsupported where this machine lacks what it needs."""
    if case.work.task == "infer":
        return inference.prepare(case)
    if models.translates(case.work.model):
        return translated.handed_over(translated.build(case))
    return handed_over(build(case))


def handed_over(session: Session) -> Prepared:
    case, made = session.case, session.training
    evaluate, close_test = evaluator(session)
    observed = partial(observe, session)

    def close() -> None:
        made.source.close()
        close_test()
        gc.collect()

    def counters() -> Mapping[str, int]:
        return {"tf_traces": traces(made.program)}

    # Read back from the device: what the net starts from, not what it was meant to start from.
    hashes = {"weights": weights_hash(made.net.weights()), **splits.hashes([session.train])}
    eager = case.tuning.execution == "eager"
    return Prepared(
        step=made.step,
        sync=place.sync_of(case.device),
        samples_per_step=case.work.batch,
        steps_per_epoch=made.plan.steps_per_epoch,
        next_epoch=made.next_epoch,
        evaluate=evaluate,
        losses=made.losses,
        checks=lambda: checks.run(session, evaluate, observed),
        observed=observed,
        counters=counters,
        memory=partial(place.memory, case.device),
        reset_memory=partial(place.reset_memory, case.device),
        save=partial(state.save, made),
        restore=partial(state.restore, made),
        export=made.net.weights,
        close=close,
        hashes=hashes,
        parameters=parameter_count(session.model),
        eval_samples=session.test.n,
        build=None if eager else made.build,
        profile=partial(profile.profiled, made.step, place.sync_of(case.device), case.device),
        nulls={"phases": "parts of an eager step are not timed" if eager else "a step is one program"},
    )
