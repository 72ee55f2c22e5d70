"""What cases and tunings are called, and typed looks into the study's mapping.

Knows nothing about measured numbers.
"""

import dataclasses
from collections.abc import Mapping, Sequence
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
    precision has several.
    """
    groups: dict[tuple[str, str, str], list[Attempt]] = {}
    for attempts in cases:
        last = attempts[-1]
        groups.setdefault((last.work_id, last.device.label, preset_of(attempts)), []).append(last)
    labels = {}
    for (_, _, name), members in groups.items():
        for member in members:
            others = [m.tuning for m in members if m is not member]
            changed = _settings(member.tuning, others)
            alike = [other for other in others if other.precision == member.tuning.precision]
            if all(other.calibration == member.tuning.calibration for other in alike):
                changed = [(key, value) for key, value in changed if key != "calibration"]
            labels[member.case_id] = " ".join([name, *(_word(key, value) for key, value in changed)])
    return labels


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
