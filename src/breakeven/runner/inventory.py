"""What can be named, and what is here: the rows behind `list` and `doctor`.

Knows nothing about how they are shown.
"""

from collections.abc import Callable
from typing import Any

from breakeven import __version__, runtimes
from breakeven.errors import UserError
from breakeven.runner.document import nearest
from breakeven.runner.survey import Survey, survey

Row = dict[str, Any]


def rows(what: str) -> list[Row]:
    """The rows of `breakeven list WHAT`. Raises UserError for a WHAT that does not exist."""
    if what not in LISTS:
        raise UserError(f"nothing to list under {what!r}{nearest(what, LISTS)}")
    return LISTS[what]()


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
            "parameters_1000_classes": facts.parameters_1000,
            "forward_flops_32x32": facts.forward_flops_32,
            "forward_flops_224x224": facts.forward_flops_224,
        }
        for facts in describe()
    ]


def data_sets() -> list[Row]:
    """Data sets, whether they are here, and how to get those that are not."""
    from breakeven.workloads.data import DATA, missing

    return [
        {
            "data": name,
            "train": entry.n_train,
            "test": entry.n_test,
            "labelled": entry.labelled,
            "here": (why := missing(name)) is None,
            "how_to_get": None if why is None else why,
        }
        for name, entry in DATA.items()
    ]


def devices() -> list[Row]:
    """Devices that a case can run on here, and the simulated ones."""
    found = survey(runtimes.names())
    seen: dict[str, Row] = {}
    for name, answer in found.runtimes.items():
        for place in answer.places:
            row = seen.setdefault(
                place.label,
                {"device": place.label, "name": place.name, "memory_mib": place.memory_mib, "runtimes": []},
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
    "devices": devices,
    "runtimes": runtime_rows,
    "data": data_sets,
}


def doctor() -> dict[str, Any]:
    """What is here, what is missing, and what would spoil a measurement; JSON values only."""
    from breakeven.records.canonical import to_json
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
    }
