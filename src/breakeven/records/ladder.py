"""The ladder as a whole: its steps by kind of device, and the full stack less some of them.

Knows nothing about what a step wins. A step is static: it stays in the ladder where it loses.
"""

import dataclasses
from collections.abc import Collection

from breakeven.records.case import Case, Tuning, applicable
from breakeven.records.tuning import LADDERS, preset

NUMERICS = ("precision", "calibration")
"""The settings that make two tunings compute with other numbers: equal ones are "the same numerics"."""


def steps(device_kind: str) -> tuple[str, ...]:
    """The names of the presets of this kind of device, in the order in which the ladder climbs them."""
    return tuple(name for name, _ in LADDERS[device_kind])


def numerics(tuning: Tuning) -> tuple[object, ...]:
    """What two tunings must share to have the same numerics."""
    return tuple(getattr(tuning, name) for name in NUMERICS)


def changes_numerics(device_kind: str) -> tuple[str, ...]:
    """The steps that leave the numerics of the first one."""
    return tuple(name for name, change in LADDERS[device_kind] if set(NUMERICS) & set(change))


def less(removed: Collection[str], device_kind: str, base: Tuning | None = None) -> Tuning:
    """All steps of the ladder but those `removed`.

    A later step's execution may hold what an earlier one brought in (`cuda-graph+compile:default` holds the
    graph): that part goes with its step.
    """
    tuning = base or Tuning()
    gone: set[str] = set()
    for name, change in LADDERS[device_kind]:
        wanted = _parts(str(change.get("execution", tuning.execution)))
        if name in removed:
            gone |= wanted - _parts(tuning.execution)
            continue
        execution = "+".join(part for part in str(change.get("execution", "")).split("+") if part not in gone)
        kept = {**change, "execution": execution or "eager"} if "execution" in change else change
        tuning = dataclasses.replace(tuning, **kept)  # type: ignore[arg-type]
    return tuning


def less_name(removed: Collection[str], device_kind: str) -> str:
    """What the full stack less some steps is called: "compile less workers, channels-last"."""
    names = [name for name in steps(device_kind) if name in removed]
    return f"{steps(device_kind)[-1]} less {', '.join(names)}"


def removed_by(name: str) -> tuple[str, ...]:
    """The steps that a name of `less_name` leaves out; empty for any other name."""
    top, found, rest = name.partition(" less ")
    known = {step for ladder in LADDERS.values() for step, _ in ladder}
    parts = tuple(rest.split(", ")) if found and top in known else ()
    return parts if set(parts) <= known else ()


def idle(step: str, case: Case) -> bool:
    """Whether leaving `step` out of the full stack changes nothing for this work on this device."""
    kind = case.device.kind
    base = Tuning(runtime=case.tuning.runtime)
    top = applicable(dataclasses.replace(case, tuning=preset(steps(kind)[-1], kind, base)))
    return applicable(dataclasses.replace(case, tuning=less([step], kind, base))) == top


def _parts(execution: str) -> set[str]:
    return set() if execution == "eager" else set(execution.split("+"))
