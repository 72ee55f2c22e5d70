"""Whether two frameworks did the same work: hashes, each side's check against FP64, the numerics that ran.

Knows nothing about times. What was not checked is not equal, and says so.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from breakeven.analysis.cases import Measured
from breakeven.analysis.framework_findings import Equality
from breakeven.analysis.naming import framework_name
from breakeven.analysis.pairs import refusal
from breakeven.records.case import Tuning
from breakeven.records.lines import Check

PROOF = {"train": "one_step_parity", "infer": "output"}
"""The check that holds a side to FP64: a first step's loss and gradients, or the logits of a few images."""
NUMERICS = "unequal numerics"
"""Shown, for people ask; never ranked."""
WORK = ("weights", "order", "augment")
OWN_WAYS = {
    "execution": "execution",
    "layout": "layout",
    "workers": "loader workers",
    "augment_on": "place of augmentation",
    "residency": "place of the data",
    "loss_sync": "reading of the loss",
    "optimizer_impl": "optimizer's kernels",
}
"""Settings in which frameworks may differ at equal work."""


def equality_of(base: Measured, candidate: Measured, checks: Mapping[str, Sequence[Check]]) -> Equality:
    """What is known of a pair. `checks`: those of each case by its id."""
    sides = (base, candidate)
    mine = [_here(m, checks.get(m.finding.case_id, ())) for m in sides]
    told = [_told(of_one) for of_one in mine]
    proof = PROOF[base.case.work.task]
    errors = [_errors(one.get(proof)) for one in told]
    kept = Equality(
        verdict="equal",
        hashes=tuple(
            name
            for name in WORK
            if (values := base.hashes.get(name))
            and values == candidate.hashes.get(name)
            and None not in values
        ),
        base_errors=errors[0],
        candidate_errors=errors[1],
        numerics=_agreed(*map(_numerics, told)),
        differs=tuple(_differs(base.case.tuning, candidate.case.tuning)),
        evidence=tuple(f"{c.case_id}/check/{c.fingerprint_id}" for of_one in mine for c in of_one),
    )
    if (why := _unequal(sides, told)) is not None:
        return dataclasses.replace(kept, verdict="unequal", why=why)
    if (why := _unchecked(sides, told, proof)) is not None:
        return dataclasses.replace(kept, verdict="not checked", why=why)
    return kept


def barred(base: Measured, candidate: Measured, equality: Equality) -> str | None:
    """Why no ratio of the two is formed at all; None where one may be shown, ranked or not."""
    for m in (base, candidate):
        if not m.steps:
            none = m.finding.failure or m.finding.reasons.get("step_s", "no number")
            return f"{framework_name(m.case.tuning)}: {none}"
    if (why := refusal(base, candidate)) is not None:
        return why
    hard = equality.verdict == "unequal" and not (equality.why or "").startswith(NUMERICS)
    return equality.why if hard else None


def _here(m: Measured, checks: Sequence[Check]) -> list[Check]:
    """The checks of the machine that the case's times come from."""
    return [c for c in checks if m.finding.unit in (None, c.fingerprint_id)]


def _told(checks: Sequence[Check]) -> dict[str, Any]:
    return {name: one for check in checks for name, one in check.checks.items()}


def _unequal(sides: Sequence[Measured], told: Sequence[Mapping[str, Any]]) -> str | None:
    for m, found in zip(sides, told, strict=True):
        if m.finding.failure:
            return f"{framework_name(m.case.tuning)}: {m.finding.failure}"
        missed = next(
            (n for n, one in found.items() if isinstance(one, Mapping) and one.get("ok") is False), None
        )
        if missed is not None:
            one = found[missed]
            what = f"asked {one.get('asked')}, found {one.get('found')}"
            return f"{framework_name(m.case.tuning)}: check {missed}: {what}"
    base, candidate = sides
    if base.steps and candidate.steps and (why := refusal(base, candidate)) is not None:
        return why
    first, second = map(_numerics, told)
    for kind in (kind for kind in first if kind in second and first[kind] != second[kind]):
        names = [framework_name(m.case.tuning) for m in sides]
        ran = f"{kind} ran as {first[kind]} in {names[0]} and as {second[kind]} in {names[1]}"
        return f"{NUMERICS}: {ran} (name a precision)"
    return None


def _unchecked(sides: Sequence[Measured], told: Sequence[Mapping[str, Any]], proof: str) -> str | None:
    for m, found in zip(sides, told, strict=True):
        if not isinstance(found.get(proof), Mapping):
            return f"{framework_name(m.case.tuning)} was not held to FP64 (no check {proof})"
    if not _agreed(*map(_numerics, told)):
        return "the precision that ran was not probed in both"
    return None


def _errors(one: Any) -> dict[str, float]:
    """The figures that a check found, by name."""
    found = one.get("found") if isinstance(one, Mapping) else None
    if isinstance(found, Mapping):
        return {str(k): float(v) for k, v in found.items() if isinstance(v, int | float)}
    if isinstance(found, int | float) and not isinstance(found, bool):
        return {"error": float(found)}
    return {}


def _numerics(told: Mapping[str, Any]) -> dict[str, str]:
    """Product -> the precision that the bit probe of a check found."""
    one = told.get("precision")
    found = one.get("found") if isinstance(one, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    each = ((kind, probe.get("precision")) for kind, probe in found.items() if isinstance(probe, Mapping))
    return {kind: precision for kind, precision in each if isinstance(precision, str)}


def _agreed(first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    return {kind: precision for kind, precision in first.items() if second.get(kind) == precision}


def _differs(base: Tuning, candidate: Tuning) -> Iterator[str]:
    for name, word in OWN_WAYS.items():
        one, other = getattr(base, name), getattr(candidate, name)
        if one != other:
            yield f"{word} {_word(one)} / {_word(other)}"


def _word(value: object) -> str:
    return "its own" if value is None else str(value)
