"""Which cases are simulated, and a simulated case as the timing loop takes it.

Knows nothing about what is planted.
"""

from pathlib import Path

from breakeven.errors import Unsupported
from breakeven.records.case import Case
from breakeven.runtimes import Prepared
from breakeven.runtimes.sim import process
from breakeven.runtimes.sim.inference import inference
from breakeven.runtimes.sim.profile import profile_of
from breakeven.runtimes.sim.training import training

ONE_PIECE = "a captured step is one piece"
ONE_CALL = "a call is one piece"


def prepare(case: Case) -> Prepared:
    """A simulated case, ready to be timed. Raises Unsupported, or UserError for a bad device or workload."""
    if reason := supports(case):
        raise Unsupported(reason)
    return _inference(case) if case.work.task == "infer" else _training(case)


def supports(case: Case) -> str | None:
    """None if this case can be simulated, else why not. Raises UserError for a bad name, option or value."""
    if case.device.kind != "sim":
        return "the runtime sim computes on simulated devices only: use --device sim:cpu or sim:gpu"
    profile_of(case.device)
    if case.work.task == "train" and case.tuning.precision == "int8":
        return "int8 is for inference"
    if case.work.recipe is not None and case.work.recipe.accumulation != 1:
        return "gradient accumulation is not simulated"
    if case.device.world_size != 1:
        return "several devices are not simulated"
    return None


def _training(case: Case) -> Prepared:
    made = training(case)
    device = made.device
    return Prepared(
        step=made.step,
        sync=device.sync,
        samples_per_step=case.work.batch,
        steps_per_epoch=made.truth.steps_per_epoch,
        next_epoch=made.next_epoch,
        evaluate=made.evaluate,
        losses=made.losses,
        checks=made.checks,
        observed=made.observed,
        counters=made.counters,
        memory=made.memory,
        reset_memory=made.reset_memory,
        save=made.save,
        restore=made.restore,
        close=lambda: None,
        hashes=process.hashes(case, made.profile),
        parameters=made.truth.parameters,
        eval_samples=made.truth.test_samples,
        clock=None if device.real else device.clock,
        parts=made.parts(),
        simulated=True,
        nulls={"phases": ONE_PIECE} if case.tuning.captured else {},
        build=None if case.tuning.execution == "eager" else made.build,
    )


def _inference(case: Case) -> Prepared:
    made = inference(case)
    device = made.device
    return Prepared(
        step=made.step,
        sync=device.sync,
        samples_per_step=case.work.batch,
        steps_per_epoch=made.truth.steps_per_epoch,
        next_epoch=lambda: None,
        evaluate=made.evaluate,
        losses=tuple,
        checks=made.checks,
        observed=made.observed,
        counters=made.counters,
        memory=made.memory,
        reset_memory=made.reset_memory,
        save=_stateless,
        restore=_stateless,
        close=lambda: None,
        hashes=process.hashes(case, made.profile),
        parameters=made.truth.parameters,
        eval_samples=made.truth.test_samples,
        clock=None if device.real else device.clock,
        meter=None if made.profile.watts is None else made.meter,
        simulated=True,
        nulls={"phases": ONE_CALL},
        build=None if case.tuning.execution == "eager" else made.build,
    )


def _stateless(folder: Path) -> None:
    raise Unsupported("inference has no state to save")
