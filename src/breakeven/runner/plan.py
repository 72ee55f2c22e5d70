"""From a study to cases: the product of its axes, what is skipped and why, their order.

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
from breakeven.records import ladder
from breakeven.records.case import Case, Task, Tuning, Work, applicable
from breakeven.records.tuning import preset, preset_used
from breakeven.runner import tasks
from breakeven.runner.grid import Point, excluded, points, tuning_of, without
from breakeven.runner.study import CPU_THREADS, NamedTuning, Study
from breakeven.workloads import data as data_sets


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

    `notes` say what runs, but perhaps not as meant. `cores`: how many are offered. `candidates` are measured
    only to choose the best; a case is never in both.
    """

    study: Study
    cores: int
    cases: tuple[PlannedCase, ...]
    skips: tuple[Skip, ...] = ()
    notes: tuple[str, ...] = ()
    candidates: tuple[PlannedCase, ...] = ()


Reason = Callable[[Any], str | None]
"""Asked about a case or a name: None if there is nothing against it, else the reason."""


def plan(
    study: Study,
    *,
    cores: int,
    gpus: int,
    identical: int | None = None,
    supports: Reason | None = None,
    data_available: Reason | None = None,
) -> Plan:
    """The cases of `study` on a machine with so many cores offered and GPUs.

    `identical`: how many of the cores are of one kind (None: all), where `cpu-threads` ends.

    `supports(case)` and `data_available(name)` return None or the reason against it; left out, nothing is
    asked (`supported` and `workloads.data.missing` ask what is installed). A study that names
    files must be settled (`tasks.settled`). Raises UserError, one line, if no case is left.
    """
    cases: dict[str, PlannedCase] = {}
    skips: dict[Skip, None] = {}
    notes: dict[str, None] = {}
    missing = {name: data_available(name) if data_available else None for name in study.data}
    for point in points(study, cores=cores, gpus=gpus, identical=identical):
        if skip := _impossible(point, study, cores, gpus) or _lacking(point, missing):
            skips[skip] = None
            continue
        planned = _planned(point, study)
        if skip := _idle_removal(planned) or _unsupported(planned, supports):
            skips[skip] = None
            continue
        if other := _stand_in(point):
            skips[other] = None
        notes |= dict.fromkeys(_doubts(planned.case, cores))
        cases.setdefault(planned.case_id, planned)
    if not cases:
        raise UserError(_nothing_left(study, list(skips)))
    notes |= dict.fromkeys(_idle_excludes(study, cores, gpus, identical))
    if CPU_THREADS in study.device and (identical or cores) < cores:
        notes[f"cpu-threads ends at {identical}: only so many of {cores} cores are alike"] = None
    if study.baseline != "auto" and study.baseline not in {p.case.device.label for p in cases.values()}:
        notes[f"baseline {study.baseline} is not measured here"] = None
    return Plan(
        study=study,
        cores=cores,
        cases=tuple(cases.values()),
        skips=tuple(skips),
        notes=tuple(notes),
        candidates=tuple(candidates_of(study, tuple(cases.values()), supports)) if study.best else (),
    )


def runtimes_of(study: Study) -> tuple[str, ...]:
    """The runtimes that a study may need, known before the machine is: what to look for on it."""
    sim = [text.startswith("sim:") for text in study.device]
    names = ["sim"] if any(sim) else []
    if not all(sim):
        own = [
            dict(tuning.changes).get("runtime", _runtime_of(tuning.preset, study.task))
            for tuning in study.tuning
        ]
        names += [name for axis in study.runtime for name in ([axis] if axis is not None else own)]
    return tuple(dict.fromkeys(names))


def _runtime_of(name: str, task: Task) -> str:
    """The runtime of a preset; groups of presets exist in training only, where all have the same."""
    return preset(name, "cpu", task=task).runtime if task == "infer" else Tuning().runtime


def supported(case: Case) -> str | None:
    """None if the case's runtime can run it on a suitable machine, else why not. Imports no framework."""
    return runtimes.load(case.tuning.runtime).supports(case)


def _idle_excludes(study: Study, cores: int, gpus: int, identical: int | None) -> list[str]:
    """Excludes that leave nothing out: most likely a slip."""
    every = points(dataclasses.replace(study, exclude=()), cores=cores, gpus=gpus, identical=identical)
    return [
        f"exclude {number} leaves nothing out here"
        for number, item in enumerate(study.exclude, start=1)
        if not any(excluded(point, item) for point in every)
    ]


def candidates_of(study: Study, cases: Sequence[PlannedCase], supports: Reason | None) -> list[PlannedCase]:
    """What else may be the best where the study's cases run: presets not among them, and the full stack
    without what changes numerics. A study that sets the precision itself has no others.
    """
    found: dict[str, PlannedCase] = {}
    if study.precision != (None,):
        return []
    for case in {(item.case.work_id, item.case.device): item.case for item in cases}.values():
        kind = case.device.kind
        names = [NamedTuning(name=name, preset=name) for name in ladder.steps(kind)]
        if lossy := ladder.changes_numerics(kind):
            names.append(without(lossy, kind))
        for named in names:
            other = stacked(case, named)
            if supports is None or not supports(other.case):
                found.setdefault(other.case_id, other)
    return [item for case_id, item in found.items() if case_id not in {known.case_id for known in cases}]


def stacked(case: Case, named: NamedTuning) -> PlannedCase:
    """The same work on the same device, by the same runtime, at another tuning."""
    base = Tuning(runtime=case.tuning.runtime, env=case.tuning.env)
    changed = dataclasses.replace(preset(named.preset, case.device.kind, base), **dict(named.changes))
    return PlannedCase(
        case=applicable(dataclasses.replace(case, tuning=changed)),
        tuning_name=named.name,
    )


def _idle_removal(planned: PlannedCase) -> Skip | None:
    """A step that changes nothing on top of the others, or stands among them by another name."""
    removed = ladder.removed_by(planned.tuning_name)
    if len(removed) != 1 or not ladder.idle(removed[0], planned.case):
        return None
    where = f"{planned.tuning_name} on {planned.case.device.label}"
    return Skip(what=where, reason=f"the later steps leave nothing of {removed[0]} to take away")


def _planned(point: Point, study: Study) -> PlannedCase:
    known = data_sets.entry(point.data)
    work = Work(
        task=study.task,
        model=point.model,
        num_classes=known.classes,
        input_shape=known.shape,
        data=point.data,
        data_version=known.version,
        data_hash=known.identity,
        batch=point.batch,
        recipe=tasks.recipe_of(study, point.model),
        seed=point.seed,
        weights=study.weights.get(point.model),
    )
    case = applicable(Case(work=work, tuning=tuning_of(point), device=point.device))
    return PlannedCase(case=case, tuning_name=_tuning_name(point))


def _tuning_name(point: Point) -> str:
    if _is_preset(point.tuning):
        return preset_used(point.tuning.name, point.device.kind, task=point.task)
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
    """What no runtime could change: a device that is not here, or in training a batch that never fills."""
    device = point.device
    if device.kind == "cuda" and device.index >= gpus:
        here = "no GPU here" if gpus == 0 else f"only {gpus} GPU{'s' if gpus > 1 else ''} here"
        return Skip(what=device.label, reason=here)
    if device.kind != "sim" and (device.threads or 0) > cores:
        return Skip(what=device.label, reason=f"only {cores} core{'s' if cores > 1 else ''} offered")
    if device.kind != "sim" and tuning_of(point).runtime == "sim":
        return Skip(what=f"runtime sim on {device.label}", reason="it runs sim: devices only")
    if reason := tasks.misfit(point.model, point.data):
        return Skip(what=f"{point.model} on {point.data}", reason=reason)
    n_train = data_sets.entry(point.data).n_train or point.batch  # unknown of folders that are not here
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
