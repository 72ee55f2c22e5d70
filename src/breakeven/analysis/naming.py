"""What cases and tunings are called, and typed looks into the study's mapping.

Knows nothing about measured numbers.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from breakeven.records.case import PRECISIONS, Tuning
from breakeven.records.lines import Attempt


def preset_of(attempts: Sequence[Attempt]) -> str:
    """The tuning's name in the study; of a nameless one, what it changes: "precision=bf16 workers=4"."""
    named = next((a.tuning_name for a in reversed(attempts) if a.tuning_name), None)
    if named:
        return named
    changed = _settings(attempts[-1].tuning, [Tuning()])
    return " ".join(f"{key}={value}" for key, value in changed) or "as-written"


def tuning_labels(cases: Sequence[Sequence[Attempt]]) -> dict[str, str]:
    """Case_id -> a name of its tuning that no other tuning of the same work on the same device has.

    Where an axis such as precision varies under one preset, its value is added; a calibration only where one
    precision has several; and the framework's name where it is neither the only nor the first one of that
    preset.
    """
    groups: dict[tuple[str, str, str], list[Attempt]] = {}
    runtimes: dict[str, list[str]] = {}
    for attempts in cases:
        last = attempts[-1]
        groups.setdefault((last.work_id, last.device.label, preset_of(attempts)), []).append(last)
        if last.tuning.runtime != "sim":  # a simulated device is no framework
            runtimes.setdefault(preset_of(attempts), []).append(last.tuning.runtime)
    labels = {}
    for (_, _, preset), members in groups.items():
        plain = {"sim", base_runtime(runtimes.get(preset, ["sim"]))}
        for member in members:
            # Each runtime carries a preset out in its own way: its name says that, not its settings.
            own = member.tuning.runtime
            name = preset if own in plain else f"{preset} {framework_name(member.tuning)}"
            others = [m.tuning for m in members if m is not member and m.tuning.runtime == own]
            changed = _settings(member.tuning, others)
            alike = [other for other in others if other.precision == member.tuning.precision]
            if all(other.calibration == member.tuning.calibration for other in alike):
                changed = [(key, value) for key, value in changed if key != "calibration"]
            labels[member.case_id] = " ".join([name, *(_word(key, value) for key, value in changed)])
    return labels


BASE_RUNTIME = "torch"
"""What other frameworks are set against where it was measured."""
EXECUTIONS = {
    "tensorflow": {"tf.function": "", "xla": "xla"},
    "jax": {"jit": ""},
    "torch": {"eager": ""},
}
"""What is said of an execution beside its framework's name: nothing of the usual one."""


def base_runtime(runtimes: Iterable[str], first: str | None = None) -> str:
    """Of these the one that the others are set against: torch, else the study's `first`, else the first."""
    found = list(dict.fromkeys(runtimes))
    return next((name for name in (BASE_RUNTIME, first) if name in found), found[0])


def framework_name(tuning: Tuning) -> str:
    """ "jax", "tensorflow" (a graph), "tensorflow xla", "torch compiled": who computes, and how."""
    said = EXECUTIONS.get(tuning.runtime, {}).get(tuning.execution)
    if said is None:
        said = tuning.execution.replace("compile:default", "compiled").replace("+", " ")
    return f"{tuning.runtime} {said}".rstrip()


def without_framework(label: str, tuning: Tuning) -> str:
    """The label of a tuning without the framework that tells it from others of its preset."""
    first, _, rest = label.partition(" ")
    name = framework_name(tuning)
    if rest == name or rest.startswith(f"{name} "):
        return f"{first} {rest.removeprefix(name).strip()}".rstrip()
    return label


def _word(key: str, value: Any) -> str:
    """A setting in a label: a precision says by itself what it is."""
    return str(value) if key == "precision" and value != "default" else f"{key}={value}"


def without_numerics(label: str) -> str:
    """The label of a tuning without the precision and calibration that tell it from others."""
    first, *rest = label.split(" ")
    added = ("precision=", "calibration=")
    return " ".join([first, *(w for w in rest if w not in PRECISIONS and not w.startswith(added))])


def _settings(tuning: Tuning, others: Sequence[Tuning]) -> list[tuple[str, Any]]:
    """The settings of `tuning` that some of the others do not share; not those that do not apply (None)."""
    names = [f.name for f in dataclasses.fields(Tuning)]
    found = [(name, getattr(tuning, name)) for name in names]
    return [
        (name, value)
        for name, value in found
        if value is not None and any(getattr(other, name) != value for other in others)
    ]


def asks_for_best(study: Mapping[str, Any]) -> bool:
    """Whether a study wants the fastest tuning chosen and measured again."""
    tunings = study.get("tuning")
    return isinstance(tunings, list | tuple) and "best" in tunings


def number(study: Mapping[str, Any], key: str) -> float | None:
    """A positive number of the study, None where there is none."""
    value = study.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if value > 0 else None


def text(study: Mapping[str, Any], key: str) -> str | None:
    """A text of the study, None where there is none."""
    value = study.get(key)
    return value if isinstance(value, str) and value else None


def short(label: str) -> str:
    """A simulated device without its options: they fill a line and say nothing in a sentence."""
    return ":".join(label.split(":")[:2]) if label.startswith("sim:") else label
