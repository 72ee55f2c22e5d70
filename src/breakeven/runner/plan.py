"""From a study to cases: the product of its axes, what is skipped and why, their order, a guess at the time.

Knows nothing about how a case is measured. It asks no machine: what is here comes in as arguments, so a plan
for another machine can be made.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from breakeven import runtimes
from breakeven.errors import UserError
from breakeven.records.case import Case, Tuning, Work, applicable
from breakeven.records.tuning import preset_used
from breakeven.runner.grid import Point, excluded, points, tuning_of
from breakeven.runner.study import NamedTuning, Study
from breakeven.workloads import data as data_sets
from breakeven.workloads.layers import forward_flops
from breakeven.workloads.models import model

INPUT_SHAPE = (3, 32, 32)
"""Every data set is prepared to this shape (workloads.data)."""

# Seconds besides measuring. On 2 cores a fork took 0.02 to 0.07 and a prepared parent 2.5 to 3.1;
# building the model, warm-up, checks and compilation are guesses.
ATTEMPT_OVERHEAD = (0.3, 1.5)
COMPILE_OVERHEAD = (5.0, 60.0)
PARENT_OVERHEAD = (2.0, 4.0)
# FLOP/s of training, as written to best: per core on 16 and on 2 cores, and on an H200 (runs made by hand).
CPU_CORE_RATE = (10e9, 70e9)
GPU_RATE = (0.3e12, 20e12)


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedCase:
    """A case and the name of its tuning: the preset that stands for it on its device, or the study's own."""

    case: Case
    tuning_name: str

    @property
    def case_id(self) -> str:
        return self.case.case_id


@dataclass(frozen=True, kw_only=True, slots=True)
class Skip:
    """What is not measured, and why."""

    what: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The cases of a study that can run here, in the order of its axes, with what was skipped.

    `notes` say what runs, but perhaps not as meant. `cores`: how many are offered.
    """

    study: Study
    cores: int
    cases: tuple[PlannedCase, ...]
    skips: tuple[Skip, ...] = ()
    notes: tuple[str, ...] = ()


Reason = Callable[[Any], str | None]
"""Asked about a case or a name: None if there is nothing against it, else the reason."""


def plan(
    study: Study,
    *,
    cores: int,
    gpus: int,
    supports: Reason | None = None,
    data_available: Reason | None = None,
) -> Plan:
    """The cases of `study` on a machine with so many cores offered and GPUs.

    `supports(case)` and `data_available(name)` return None or the reason against it; left out, nothing is
    asked (`supported` and `workloads.data.missing` ask what is installed). Raises UserError, one line, if no
    case is left.
    """
    cases: dict[str, PlannedCase] = {}
    skips: dict[Skip, None] = {}
    notes: dict[str, None] = {}
    missing = {name: data_available(name) if data_available else None for name in study.data}
    for point in points(study, cores=cores, gpus=gpus):
        if skip := _impossible(point, study, cores, gpus) or _lacking(point, missing):
            skips[skip] = None
            continue
        planned = _planned(point, study)
        if skip := _unsupported(planned, supports):
            skips[skip] = None
            continue
        if other := _stand_in(point):
            skips[other] = None
        notes |= dict.fromkeys(_doubts(planned.case, cores))
        cases.setdefault(planned.case_id, planned)
    if not cases:
        raise UserError(_nothing_left(study, list(skips)))
    notes |= dict.fromkeys(_idle_excludes(study, cores, gpus))
    if study.baseline != "auto" and study.baseline not in {p.case.device.label for p in cases.values()}:
        notes[f"baseline {study.baseline} is not measured here"] = None
    return Plan(study=study, cores=cores, cases=tuple(cases.values()), skips=tuple(skips), notes=tuple(notes))


def runtimes_of(study: Study) -> tuple[str, ...]:
    """The runtimes that a study may need, known before the machine is: what to look for on it."""
    sim = [text.startswith("sim:") for text in study.device]
    names = ["sim"] if any(sim) else []
    if not all(sim):
        own = [dict(tuning.changes).get("runtime", Tuning().runtime) for tuning in study.tuning]
        names += [name for axis in study.runtime for name in ([axis] if axis is not None else own)]
    return tuple(dict.fromkeys(names))


def supported(case: Case) -> str | None:
    """None if the case's runtime can run it on a suitable machine, else why not. Imports no framework."""
    return runtimes.load(case.tuning.runtime).supports(case)


def _idle_excludes(study: Study, cores: int, gpus: int) -> list[str]:
    """Excludes that leave nothing out: most likely a slip."""
    every = points(dataclasses.replace(study, exclude=()), cores=cores, gpus=gpus)
    return [
        f"exclude {number} leaves nothing out here"
        for number, item in enumerate(study.exclude, start=1)
        if not any(excluded(point, item) for point in every)
    ]


def _planned(point: Point, study: Study) -> PlannedCase:
    known = data_sets.entry(point.data)
    work = Work(
        task=study.task,
        model=point.model,
        num_classes=known.classes,
        input_shape=INPUT_SHAPE,
        data=point.data,
        data_version=known.version,
        data_hash=known.identity,
        batch=point.batch,
        recipe=study.recipe if study.task == "train" else None,
        seed=point.seed,
    )
    case = applicable(Case(work=work, tuning=tuning_of(point), device=point.device))
    return PlannedCase(case=case, tuning_name=_tuning_name(point))


def _tuning_name(point: Point) -> str:
    if _is_preset(point.tuning):
        return preset_used(point.tuning.name, point.device.kind)
    return point.tuning.name


def _is_preset(tuning: NamedTuning) -> bool:
    return tuning.name == tuning.preset


def _stand_in(point: Point) -> Skip | None:
    """A preset that this kind of device does not have, and what stands for it."""
    name, used = point.tuning.name, _tuning_name(point)
    if used == name:
        return None
    other = "CUDA" if point.device.kind == "cpu" else "CPU"
    return Skip(what=f"{name} on {point.device.label}", reason=f"{other} only; {used} stands for it")


def _impossible(point: Point, study: Study, cores: int, gpus: int) -> Skip | None:
    """What no runtime could change: a device that is not here, or a batch that never fills."""
    device = point.device
    if device.kind == "cuda" and device.index >= gpus:
        here = "no GPU here" if gpus == 0 else f"only {gpus} GPU{'s' if gpus > 1 else ''} here"
        return Skip(what=device.label, reason=here)
    if device.kind != "sim" and (device.threads or 0) > cores:
        return Skip(what=device.label, reason=f"only {cores} core{'s' if cores > 1 else ''} offered")
    if device.kind != "sim" and tuning_of(point).runtime == "sim":
        return Skip(what=f"runtime sim on {device.label}", reason="it runs sim: devices only")
    n_train = data_sets.entry(point.data).n_train
    if study.task == "train" and point.batch > n_train:
        reason = f"the training set holds {n_train} samples and the last, partial batch is dropped"
        return Skip(what=f"batch {point.batch} on {point.data}", reason=reason)
    return None


def _lacking(point: Point, missing: dict[str, str | None]) -> Skip | None:
    """Data that is not here. A simulated device reads none."""
    reason = None if point.device.kind == "sim" else missing[point.data]
    return Skip(what=f"data {point.data}", reason=reason) if reason else None


def _unsupported(planned: PlannedCase, supports: Reason | None) -> Skip | None:
    case = planned.case
    reason = supports(case) if supports else None
    if not reason:
        return None
    return Skip(what=f"{case.tuning.runtime} {planned.tuning_name} on {case.device.label}", reason=reason)


def _doubts(case: Case, cores: int) -> list[str]:
    """What runs as asked on fewer cores than it asks for: never changed, or ids would differ by machine."""
    offered = min(case.device.threads or cores, cores)
    asked = {"loader workers": case.tuning.workers, "threads": case.tuning.threads}
    return [
        f"{number} {what} on {case.device.label}: {offered} core{'s' if offered > 1 else ''} offered"
        for what, number in asked.items()
        if isinstance(number, int) and number > offered and case.device.kind != "sim"
    ]


def _nothing_left(study: Study, skips: list[Skip]) -> str:
    if not skips:
        return f"study {study.name}: nothing is left to measure: exclude leaves out every combination"
    reasons = "; ".join(f"{skip.what}: {skip.reason}" for skip in skips[:3])
    more = f"; and {len(skips) - 3} more" if len(skips) > 3 else ""
    return f"study {study.name}: no case can run here: {reasons}{more}"


class _HasCaseId(Protocol):
    @property
    def case_id(self) -> str: ...


T = TypeVar("T", bound=_HasCaseId)


def schedule(cases: Sequence[T], replicates: int, order_seed: int) -> list[tuple[int, int, T]]:
    """(replicate, order_index, case) in the order to run: replicate by replicate, each shuffled anew.

    Interleaving spreads drift of the machine over all cases instead of giving it to one. The order is a
    function of seed, replicate and case ids only: more replicates leave the first ones as they are, and two
    cases keep their order whatever else is measured.
    """
    out: list[tuple[int, int, T]] = []
    for replicate in range(replicates):
        shuffled = sorted(cases, key=lambda case: _draw(order_seed, replicate, case.case_id))
        out += [(replicate, len(out) + index, case) for index, case in enumerate(shuffled)]
    return out


def _draw(order_seed: int, replicate: int, case_id: str) -> bytes:
    return hashlib.sha256(f"{order_seed}/{replicate}/{case_id}".encode()).digest()


def estimate_seconds(plan: Plan, *, attempt_time: float | None = None) -> tuple[float, float]:
    """A rough estimate, never a promise: seconds the plan takes at least and at most, from counting attempts.

    The low end has every case done after `replicates`, the high end after `max_replicates`. Whole runs
    (`full`) are guessed from FLOPs, at rates between the slowest and the fastest that was seen.
    """
    study = plan.study
    seconds = study.attempt_time if attempt_time is None else attempt_time
    parents = len({(item.case.tuning.runtime, item.case.tuning.env) for item in plan.cases})
    whole = _full_runs(plan) if study.full else (0.0, 0.0)
    compiled = sum(item.case.tuning.compile_mode is not None for item in plan.cases)
    ends = []
    for end, replicates in enumerate((study.replicates, study.max_replicates)):
        once = parents * PARENT_OVERHEAD[end] + compiled * COMPILE_OVERHEAD[end]
        once += len(plan.cases) * (seconds + ATTEMPT_OVERHEAD[end])
        ends.append(replicates * once + whole[end])
    if study.max_time is not None:
        ends = [min(end, study.max_time) for end in ends]
    return ends[0], ends[1]


def _full_runs(plan: Plan) -> tuple[float, float]:
    """Seconds of all whole runs at the fastest and the slowest rate; a backward pass is two forward ones."""
    fast = slow = 0.0
    for item in plan.cases:
        work, device = item.case.work, item.case.device
        if work.recipe is None or device.kind == "sim":
            continue
        net = model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
        flops = 3.0 * forward_flops(net) * data_sets.entry(work.data).n_train * work.recipe.epochs
        scale = min(device.threads or plan.cores, plan.cores) if device.kind == "cpu" else 1
        low, high = CPU_CORE_RATE if device.kind == "cpu" else GPU_RATE
        fast += flops / (high * scale)
        slow += flops / (low * scale)
    return fast * plan.study.full_replicates, slow * plan.study.full_replicates
