"""What can be named, and what is here: the rows behind `list` and `doctor`.

Knows nothing about how they are shown.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from breakeven import __version__, runtimes
from breakeven.errors import UserError
from breakeven.records.tuning import INFERENCE, LADDERS, PRESETS, preset_used
from breakeven.runner import facts
from breakeven.runner.document import nearest
from breakeven.runner.estimate import best_attempts, estimate_seconds
from breakeven.runner.plan import Plan, PlannedCase
from breakeven.runner.study import BEST, LADDER, LEAVE_ONE_OUT, resolved
from breakeven.runner.survey import Survey, survey

Row = dict[str, Any]


def rows(what: str, *, brief: bool = False) -> list[Row]:
    """The rows of `breakeven list WHAT`; `brief`: what fits a screen. UserError for another WHAT."""
    if what not in LISTS:
        raise UserError(f"nothing to list under {what!r}{nearest(what, LISTS)}")
    return SCREENS[what]() if brief and what in SCREENS else LISTS[what]()


def studies() -> list[Row]:
    """Built-in studies by name and title."""
    from breakeven.runner.study import builtin_studies

    return [{"study": name, "title": study.title} for name, study in builtin_studies().items()]


def models() -> list[Row]:
    """Models with exact parameter counts and forward FLOPs of one sample (1 MAC = 2 FLOPs)."""
    from breakeven.workloads.models import describe

    return [
        {
            "model": facts.name,
            "parameters": facts.parameters,
            "with_1000_classes": facts.parameters_1000,
            "flops_at_32x32": facts.forward_flops_32,
            "flops_at_224x224": facts.forward_flops_224,
        }
        for facts in describe()
    ]


def tunings() -> list[Row]:
    """Presets in their order: what each adds to those before it, on either kind of device."""
    ladders = {kind: dict(LADDERS[kind]) for kind in ("cpu", "cuda")}

    def adds(kind: str, name: str) -> str:
        if name not in ladders[kind]:
            return f"(stands for {preset_used(name, kind)})"
        change = ladders[kind][name]
        return settings(change)

    groups = {
        LADDER: "(all of the above, in their order)",
        LEAVE_ONE_OUT: "(the last of them, less one step each)",
        BEST: "(the fastest at equal work, measured again)",
    }

    def settings(change: Mapping[str, object]) -> str:
        return ", ".join(f"{key}={value}" for key, value in change.items()) or "-"

    training = [(name, adds("cuda", name), adds("cpu", name)) for name in PRESETS]
    training += [(name, text, text) for name, text in groups.items()]
    inference = [(name, settings(change), settings(change)) for name, change in INFERENCE.items()]
    return [
        {"task": task, "tuning": name, "adds_on_cuda": on_cuda, "adds_on_cpu": on_cpu}
        for task, rows in (("train", training), ("infer", inference))
        for name, on_cuda, on_cpu in rows
    ]


def data_sets() -> list[Row]:
    """Data sets, whether they are here, and how to get those that are not."""
    from breakeven.workloads.data import DATA, entry, missing

    return [
        {
            "data": name,
            "train": known.n_train,
            "test": known.n_test,
            "labelled": known.labelled,
            "here": (why := missing(name)) is None,
            "how_to_get": None if why is None else why,
        }
        for name, known in ((name, entry(name)) for name in DATA)
    ]


def devices() -> list[Row]:
    """Devices that a case can run on here, and the simulated ones."""
    found = survey(runtimes.names())
    seen: dict[str, Row] = {}
    for name, answer in found.runtimes.items():
        for place in answer.places:
            row = seen.setdefault(
                place.label,
                {
                    "device": place.label,
                    "name": place.name,
                    "memory_mib": place.memory_mib,
                    "runtimes": [],
                    "facts": facts.of_device(place.label, place.name, place.memory_mib),
                },
            )
            row["runtimes"].append(name)
    return [row | {"runtimes": ", ".join(row["runtimes"])} for row in seen.values()]


def runtime_rows() -> list[Row]:
    """Runtimes, whether they can be used here, and their versions."""
    found = survey(runtimes.names())
    return [
        {
            "runtime": name,
            "here": answer.reason is None,
            "versions": ", ".join(f"{library} {version}" for library, version in answer.versions.items()),
            "reason": answer.reason,
        }
        for name, answer in found.runtimes.items()
    ]


LISTS: dict[str, Callable[[], list[Row]]] = {
    "studies": studies,
    "models": models,
    "tunings": tunings,
    "devices": devices,
    "runtimes": runtime_rows,
    "data": data_sets,
    "gpus": facts.gpu_rows,
    "cpus": facts.cpu_rows,
    "published": facts.published_rows,
}
SCREENS: dict[str, Callable[[], list[Row]]] = {
    "gpus": facts.gpus_on_a_screen,
    "cpus": facts.cpus_on_a_screen,
    "published": facts.published_on_a_screen,
}
CREDITS: Mapping[str, str] = {"gpus": facts.CREDIT, "cpus": facts.CREDIT}


def doctor(*, ceilings: bool = False, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """What is here, what is missing, and what would spoil a measurement; JSON values only.

    `ceilings`: measures also what every device does at best, and keeps it for later runs.
    """
    from breakeven.records.canonical import to_json
    from breakeven.runner.ceilings import measure_machine
    from breakeven.runner.survey import fingerprint_of
    from breakeven.timing.machine import findings_for_doctor

    found: Survey = survey(runtimes.names())
    line = fingerprint_of(found)
    return {
        "breakeven": __version__,
        "cores_offered": found.cores,
        "gpus": found.gpus,
        "runtimes": runtime_rows(),
        "devices": devices(),
        "data": data_sets(),
        "concerns": [to_json(concern) for concern in findings_for_doctor()],
        "platform": dict(line.platform),
        "platform_id": line.platform_id,
        "unreadable": dict(line.nulls),
    } | ({"ceilings": [to_json(found) for found in measure_machine(say)]} if ceilings else {})


def ceiling_rows(found: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The ceilings of `doctor` as rows for people."""
    return [
        {
            "device": line["conditions"]["device"],
            "ceiling": line["name"],
            "value": line["value"],
            "unit": CEILING_UNITS[line["unit"]],
            "bytes_each": line["conditions"].get("bytes_per_element"),
            "shape": "x".join(map(str, line["conditions"].get("shape", ()))),
            "threads": line["conditions"].get("threads"),
            "n": line["conditions"].get("n"),
            "notes": line["reason"] or ", ".join(line["conditions"].get("flags", ())),
        }
        for line in found
    ]


CEILING_UNITS = {"tflop_per_s": "TFLOP/s", "top_per_s": "TOP/s", "gb_per_s": "GB/s"}


def plan_document(plan: Plan) -> dict[str, Any]:
    """A plan as JSON: cases with their ids, skips and notes with reasons, and the estimated seconds."""
    low, high = estimate_seconds(plan)
    return {
        "study": resolved(plan.study),
        "cases": plan_rows(plan),
        "candidates": [_plan_row(planned) for planned in plan.candidates],
        "skips": [{"what": skip.what, "reason": skip.reason} for skip in plan.skips],
        "notes": list(plan.notes),
        "estimate_s": {"low": low, "high": high},
    }


def plan_rows(plan: Plan) -> list[Row]:
    """One row for each case: what a person calls it, and its id."""
    return [_plan_row(planned) for planned in plan.cases]


def _plan_row(planned: PlannedCase) -> Row:
    return {
        "model": planned.case.work.model,
        "device": planned.case.device.label,
        "runtime": planned.case.tuning.runtime,
        "tuning": planned.tuning_name,
        "precision": planned.case.tuning.precision,
        "batch": planned.case.work.batch,
        "data": planned.case.work.data,
        "seed": planned.case.work.seed,
        "case_id": planned.case_id,
    }


def plan_heading(plan: Plan) -> str:
    """One line: the grid, the processes, and a range for the time; it is an estimate and says so."""
    from breakeven.units import format_duration

    def several(number: int, name: str) -> str:
        return f"{number} {name}{'' if number == 1 else 'es' if name.endswith('s') else 's'}"

    cases = [planned.case for planned in plan.cases]
    axes = [
        several(len({case.work.model for case in cases}), "model"),
        several(len({case.device.label for case in cases}), "device"),
        several(len({planned.tuning_name for planned in plan.cases}), "tuning"),
    ]
    low, high = estimate_seconds(plan)
    study = plan.study
    processes = f"{several(study.replicates, 'process')} each"
    if study.max_replicates > study.replicates:
        processes = f"{study.replicates} to {study.max_replicates} processes each"
    if study.best:
        few, many = best_attempts(plan)
        processes += f"; {few} to {many} more to choose the best and confirm it"
    time = f"estimated {format_duration(low)} to {format_duration(high)}"
    return f"{study.name}: {several(len(cases), 'case')} ({', '.join(axes)}), {processes}; {time}"
