"""How a case is named in a table: its model, device, tuning and whatever else tells two rows apart.

Knows nothing about numbers.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.analysis.naming import without_framework, without_numerics
from breakeven.records.tuning import PRESETS
from breakeven.report.machines import split
from breakeven.report.view import Cell, Column, clean, label, said

LONGEST_DEVICE = 14
SHORT_ID = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Names:
    """Short names of this study's devices, and which columns name its cases."""

    devices: dict[str, str]
    columns: tuple[Column, ...]
    common: tuple[str, ...]
    precision_by_tuning: dict[str, str]

    def device(self, full: str) -> Cell:
        short = self.devices.get(full, clean(full))
        return said(short, note=full if short != full else "")

    def footnotes(self) -> tuple[str, ...]:
        """What was shortened, written out once."""
        return tuple(f"{short} = {clean(full)}" for full, short in self.devices.items() if short != full)


AXES: dict[str, Callable[[CaseFinding], object]] = {
    "batch": lambda c: c.case.work.batch,
    "precision": lambda c: c.case.tuning.precision,
    "runtime": lambda c: c.case.tuning.runtime,
    "task": lambda c: c.case.work.task,
    "data": lambda c: c.case.work.data,
    "seed": lambda c: c.case.work.seed,
    "accumulation": lambda c: c.case.work.recipe.accumulation if c.case.work.recipe else 1,
}
QUIET = {"accumulation": 1}
"""What is not worth a word where every case has it."""


def names_of(understanding: Understanding) -> Names:
    """Names for every device and case of one study."""
    cases = understanding.cases
    labels = [c.device_label for c in cases]
    labels += [f.device_label for f in understanding.cores]
    labels += [x for r in understanding.ratios for x in (r.base_label, r.candidate_label)]
    axes = list(AXES)
    by_tuning: dict[str, set[str]] = {}
    for c in cases:
        by_tuning.setdefault(tuning_of(c), set()).add(c.case.tuning.precision)
    told = {name: next(iter(found)) for name, found in by_tuning.items() if len(found) == 1}
    if len(told) == len(by_tuning):
        axes.remove("precision")
    # What no case differs in is said once, for the whole report.
    fixed = [axis for axis in axes if len({AXES[axis](c) for c in cases}) == 1]
    axes = [a for a in axes if a not in fixed or AXES[a](cases[0]) != QUIET.get(a)]
    columns = [label("model"), label("device"), label("tuning")]
    columns += [label(axis) for axis in axes if axis not in fixed]
    rows = [_texts(c, axes) for c in cases]
    if len(set(rows)) < len(rows):
        columns.append(label("case"))
    return Names(
        devices=short_devices(labels),
        columns=tuple(columns),
        common=(
            *(f"{axis} {clean(AXES[axis](cases[0]))}" for axis in fixed if axis in axes),
            *(
                f"precision {name}"
                for name in set(told.values()) - {"default"}
                if len(set(told.values())) == 1
            ),
        ),
        precision_by_tuning=told if len(told) == len(by_tuning) else {},
    )


def _texts(case: CaseFinding, axes: Iterable[str]) -> tuple[str, ...]:
    head = (case.case.work.model, case.device_label, tuning_of(case))
    return (*head, *(str(AXES[axis](case)) for axis in axes))


def naming(case: CaseFinding, names: Names) -> tuple[Cell, ...]:
    """The cells that name a case, under `names.columns`."""
    cells = []
    for column in names.columns:
        match column.name:
            case "model":
                cells.append(said(case.case.work.model))
            case "device":
                cells.append(names.device(case.device_label))
            case "tuning":
                cells.append(said(tuning_of(case), tuning_rank(tuning_of(case))))
            case "case":
                cells.append(said(case.case_id[:SHORT_ID], note=case.case_id))
            case axis:
                value = AXES[axis](case)
                cells.append(said(value, value if isinstance(value, int) else None))
    return tuple(cells)


def tuning_of(case: CaseFinding) -> str:
    """The tuning's name without the framework, which has a column of its own where several ran.

    In inference, where precision is an axis of its own, without that too.
    """
    name = without_framework(case.tuning_name, case.case.tuning)
    return without_numerics(name) if case.case.work.task == "infer" else name


def served_as(case: CaseFinding) -> str:
    """The tuning's name in tables of inference, which have no column of the framework."""
    return without_numerics(case.tuning_name)


def tuning_rank(name: str) -> str:
    """Sorts tunings as the ladder climbs them, and other names behind."""
    return f"{PRESETS.index(name):02d}" if name in PRESETS else f"99 {name}"


def precision_note(names: Names) -> str:
    """Which precision each tuning ran at, where the tables have no column for it."""
    by_precision: dict[str, list[str]] = {}
    for tuning, precision in names.precision_by_tuning.items():
        by_precision.setdefault(precision, []).append(clean(tuning))
    if len(by_precision) == 1:
        return f"Precision: {next(iter(by_precision))}."
    parts = [f"{precision} ({', '.join(tunings)})" for precision, tunings in by_precision.items()]
    return f"Precision: {'; '.join(parts)}." if parts else ""


def short_devices(labels: Sequence[str]) -> dict[str, str]:
    """A short, unique name a device: `sim:gpu:step_ms=2:noise=0.01` becomes `sim:gpu`, or `sim:gpu#2`.

    The mark of its file stays whole.
    """
    out: dict[str, str] = {}
    for full in dict.fromkeys(labels):
        text, mark = split(clean(full))
        stem = text if len(text) <= LONGEST_DEVICE else ":".join(text.split(":")[:2])[:LONGEST_DEVICE]
        taken, short, number = set(out.values()), stem + mark, 1
        while short in taken:
            number += 1
            short = f"{stem[: LONGEST_DEVICE - 3]}#{number}{mark}"
        out[full] = short
    return out
