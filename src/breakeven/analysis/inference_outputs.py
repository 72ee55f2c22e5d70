"""What a case's outputs are worth: the figures of its check, and which check was not passed.

Knows nothing about how outputs were computed or how fast.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from breakeven.analysis.inference_findings import Outputs
from breakeven.analysis.processes import Process
from breakeven.analysis.reasons import in_words
from breakeven.records.case import Case
from breakeven.records.lines import Check
from breakeven.records.selection import REFUTING

AGREEMENT, OUTPUT_ERROR, OUTPUT, ACCURACY = "agreement", "output_error", "output", "accuracy"
SHARES = ("agreement", "top1", "share", "accuracy", "value")
ERRORS = ("relative_l2", "l2", "error", "value")
PLAIN = ("fp32", "fp32_accuracy", "of_fp32", "reference")


ONE_CLASS = "FP32 gives every image the same class: agreement tells nothing"


def outputs_of(case: Case, checks: Sequence[Check], used: Sequence[Process]) -> Outputs:
    """The figures of the checks on the machines that the numbers come from; without one, of any."""
    here = {p.attempt.fingerprint_id for p in used}
    mine = [c for c in checks if c.fingerprint_id in here] or list(checks)
    found: dict[str, Any] = {}
    for check in mine:
        found |= check.checks
    failed = next((f"{c.outcome}: {in_words(c.reason or '')}" for c in mine if c.outcome in REFUTING), None)
    failed = failed or next((_words(name, one) for name, one in found.items() if _missed(one)), None)
    right = next((p.attempt.accuracy for p in used if p.attempt.accuracy is not None), None)
    accuracy = _number(found.get(ACCURACY), SHARES)
    nulls = {name: why for p in used for name, why in p.attempt.nulls.items() if name == ACCURACY}
    # A net that gives every image one class, as many with random weights do, agrees whatever its precision.
    empty = _number(found.get("answers"), ("value",)) == 1
    values: dict[str, Any] = {
        "agreement": None if empty else _number(found.get(AGREEMENT), SHARES),
        "output_error": _number(found.get(OUTPUT_ERROR), ERRORS),
        "reference_error": _number(found.get(OUTPUT), ERRORS),
        "accuracy": right if accuracy is None else accuracy,
        "fp32_accuracy": _plain_accuracy(found),
    }
    why = "no check of it came to its end" if not mine else "its check did not tell"
    return Outputs(
        **values,
        note=_note(found.get(AGREEMENT)) or "",
        images=_images(found.get(AGREEMENT)),
        labelled=_images(found.get(ACCURACY)) if accuracy is not None else None,
        random=case.work.weights is None,
        failed=failed,
        evidence=tuple(f"{c.case_id}/check/{c.fingerprint_id}" for c in mine),
        reasons={
            name: nulls.get(name)
            or (empty and name == AGREEMENT and ONE_CLASS)
            or _note(found.get(name))
            or why
            for name, value in values.items()
            if value is None
        },
    )


def _missed(one: Any) -> bool:
    return isinstance(one, Mapping) and one.get("ok") is False


def _words(name: str, one: Mapping[str, Any]) -> str:
    note = one.get("note")
    told = note or in_words(f"asked {one.get('asked')}, found {one.get('found')}")
    return f"{name}: {told}"


def _number(one: Any, keys: Sequence[str]) -> float | None:
    """What a check found, where that is a number, or the named number of several."""
    found = one.get("found") if isinstance(one, Mapping) else None
    if isinstance(found, Mapping):
        found = next((found[key] for key in keys if key in found), None)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _plain_accuracy(found: Mapping[str, Any]) -> float | None:
    """Accuracy of the runtime's own FP32: a check of its own, or told beside the case's."""
    apart = _number(found.get("fp32_accuracy"), SHARES)
    if apart is not None:
        return apart
    one = found.get(ACCURACY)
    if not isinstance(one, Mapping):
        return None
    own, asked = one.get("found"), one.get("asked")
    beside = own if isinstance(own, Mapping) else one
    value = next((beside[key] for key in PLAIN if isinstance(beside.get(key), int | float)), None)
    if value is None and isinstance(asked, int | float) and not isinstance(asked, bool):
        value = asked
    return None if value is None else float(value)


def _note(one: Any) -> str | None:
    note = one.get("note") if isinstance(one, Mapping) else None
    return note if isinstance(note, str) and note else None


def _images(one: Any) -> int | None:
    """Of how many images a check is: its note says so, in words ("of 1,024 images")."""
    told = re.search(r"(\d[\d,]*) images", _note(one) or "")
    return int(told[1].replace(",", "")) or None if told else None
