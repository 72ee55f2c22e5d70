"""Which cases may be compared: the baseline device, and each candidate's partner on it.

Knows nothing about times.
"""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from breakeven.analysis.cases import Measured
from breakeven.analysis.findings import Contrast
from breakeven.errors import UserError
from breakeven.records.case import Case, Device, Work, applicable, parse_device
from breakeven.records.tuning import PRESETS, preset_used


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """A candidate case and its partner on the baseline device. `refused`: why no ratio may be formed."""

    base: Measured
    candidate: Measured
    refused: str | None
    contrast: Contrast = "tuning"


def pairs_of(cases: Sequence[Measured], base: Device) -> list[Pair]:
    """Every case on another device with the one of equal work and tuning on `base`, where there is one."""
    here = [m for m in cases if m.case.device == base]
    found = []
    for candidate in cases:
        if candidate.case.device == base:
            continue
        equal = [m for m in here if m.work_id == candidate.work_id]
        partner = _partner(candidate, [m for m in equal if _same_axis(m, candidate)])
        if partner is not None:
            found.append(Pair(base=partner, candidate=candidate, refused=refusal(partner, candidate)))
        elif not equal and (other := _other_work(candidate, here)) is not None:
            differs = _differing(other.case.work, candidate.case.work)
            found.append(Pair(base=other, candidate=candidate, refused=f"unequal work: {differs}"))
    return found


def _same_axis(base: Measured, candidate: Measured) -> bool:
    """In inference precision is an axis, not a step of a tuning: int8 is set against int8 alone.

    Two devices are compared in one framework; what a framework wins is asked on one device (`frameworks`).
    """
    a, b = base.case.tuning, candidate.case.tuning
    if a.runtime != b.runtime and "sim" not in (a.runtime, b.runtime):
        return False
    return candidate.case.work.task == "train" or (a.precision, a.calibration) == (b.precision, b.calibration)


def baseline(devices: Sequence[Device], wanted: str | None) -> Device | None:
    """The device that ratios are against: the one named, else the slower kind; None where there is none.

    Without a name: a CPU before a GPU. Beside a GPU the CPU with most cores (one core is no fair opponent),
    among CPUs alone the one with fewest, then the first of the study.
    """
    if wanted and wanted != "auto":
        named = [d for d in devices if d.label == wanted or d == _device(wanted)]
        if named:
            return named[0]
    cpus = [d for d in devices if is_cpu(d)]
    if not cpus:
        return devices[0] if devices else None
    sign = 1 if len(cpus) == len(devices) else -1
    return min(cpus, key=lambda d: sign * (d.threads or math.inf))


def is_cpu(device: Device) -> bool:
    """A CPU, or a simulated device that plays one."""
    return device.kind == "cpu" or (device.kind == "sim" and (device.name or "").startswith("cpu"))


def _device(text: str) -> Device | None:
    try:
        return parse_device(text)
    except UserError:
        return None


def _partner(candidate: Measured, equal: Sequence[Measured]) -> Measured | None:
    """Of the cases with equal work the one at the tuning of that name, or at the preset in its place."""
    for names in _names(candidate, equal):
        matches = [m for m in equal if m.preset in names]
        if matches:
            return max(matches, key=lambda m: _likeness(m, candidate))
    # Two names of one tuning share a case (`threads` without a sweep is `no-sync`): the settings tell.
    for m in equal:
        moved = applicable(Case(work=m.case.work, tuning=candidate.case.tuning, device=m.case.device))
        if moved.tuning == m.case.tuning:
            return m
    return None


def _names(candidate: Measured, equal: Sequence[Measured]) -> Iterator[set[str]]:
    yield {candidate.preset}
    if candidate.preset in PRESETS:
        yield {preset_used(candidate.preset, m.case.device.kind) for m in equal}


def _likeness(base: Measured, candidate: Measured) -> tuple[int, int]:
    """Numerics first: equal precision and calibration; then how many other settings are equal."""
    a, b = base.case.tuning, candidate.case.tuning
    numerics = (a.precision == b.precision) + (a.calibration == b.calibration)
    return numerics, sum(getattr(a, f.name) == getattr(b, f.name) for f in dataclasses.fields(a))


def _other_work(candidate: Measured, here: Sequence[Measured]) -> Measured | None:
    same = [m for m in here if m.case.work.model == candidate.case.work.model]
    return next((m for m in same if m.preset == candidate.preset), None)


def _differing(base: Work, candidate: Work) -> str:
    names = [f.name for f in dataclasses.fields(Work)]
    changed = [name for name in names if getattr(base, name) != getattr(candidate, name)]
    said = [f"{name} {getattr(base, name)} against {getattr(candidate, name)}" for name in changed[:2]]
    # A recipe's text fills a screen; its name is enough.
    return ", ".join("recipe" if text.startswith("recipe ") else text for text in said) or "see the work ids"


def refusal(base: Measured, candidate: Measured) -> str | None:
    """Why two cases of equal work may not be set against each other, None if they may."""
    for m in (base, candidate):
        if not m.steps and not m.totals:
            why = m.finding.failure or m.finding.reasons.get("step_s", "no number")
            return f"{m.finding.device_label}: {why}"
    for m in (base, candidate):
        if m.finding.unproven:
            return f"{m.finding.device_label}: {m.finding.unproven}"
    if base.finding.region != candidate.finding.region:
        return f"unequal regions: {base.finding.region} against {candidate.finding.region}"
    names: list[str] = [*base.hashes, *candidate.hashes]
    if base.case.work.task == "infer":
        # Which images a call takes changes none of its work: runtimes need not tell, but may not differ.
        names = ["weights", *(name for name in base.hashes if name in candidate.hashes)]
    for name in dict.fromkeys(names):
        if not _agree(base.hashes.get(name), candidate.hashes.get(name)):
            return f"unequal work: the {name} hashes differ or are not known on both sides"
    return None


def _agree(a: frozenset[str | None] | None, b: frozenset[str | None] | None) -> bool:
    """One value, known, the same in every process of both sides."""
    return a == b and a is not None and len(a) == 1 and None not in a
