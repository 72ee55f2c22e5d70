"""Deep checks of a case as the record has them, gathered until one fails; and errors of arrays.

Knows nothing about what is checked, or by whom.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.errors import Mismatch, MismatchOutcome

Check = dict[str, Any]
"""What was asked and found, whether that is well (`ok`), and a note."""

Told = tuple[str, MismatchOutcome, Check]
"""A check's name, what a case is called that fails it, and the check."""

HUGE = float(np.finfo(np.float64).max)
"""Stands for an error that is infinite or no number, as a record holds neither."""

TINY = 1e-30
"""Stands for the norm of what is all 0."""


def check(asked: Any, found: Any, ok: bool, note: str | None = None) -> Check:
    return {"asked": asked, "found": found, "ok": ok, "note": note}


def equal(asked: Any, found: Any, note: str | None = None) -> Check:
    return check(asked, found, asked == found, note)


def native(precision: str, hardware: tuple[bool, str]) -> Told:
    """Whether the `hardware` has the type. Emulation is named, not refused: it is what a device can do."""
    here, why = hardware
    return (
        "dtype_in_hardware",
        "precision_mismatch",
        check(precision, "native" if here else "emulated", True, why),
    )


def gathered(told: Iterable[Told]) -> dict[str, Check]:
    """All checks by name. Raises Mismatch at the first that shows another device, precision or output."""
    found: dict[str, Check] = {}
    for name, outcome, one in told:
        found[name] = one
        if not one["ok"]:
            raise Mismatch(outcome, f"{name}: asked {one['asked']}, found {one['found']}")
    return found


def relative_l2(found: NDArray[np.floating], expected: NDArray[np.floating]) -> float:
    """|found - expected| / |expected| over all entries; HUGE if any is not a number."""
    if not np.isfinite(found).all():
        return HUGE
    return float(np.linalg.norm(found.astype(np.float64) - expected) / np.linalg.norm(expected))
