"""Deep checks of a case as the record has them, gathered until one fails; and errors of arrays.

Knows nothing about what is checked, or by whom.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.errors import Mismatch, MismatchOutcome
from breakeven.workloads.tolerances import DRAWS, PUSH, within
from breakeven.workloads.weights import Weights, pushed

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


def answers(scores: NDArray[np.floating]) -> Told:
    """How many classes FP32's own answers are of. With random weights it may be one, whatever the image."""
    found = len(set(scores.argmax(1).tolist()))
    return "answers", "output_mismatch", check(None, found, True, "classes among FP32's own answers")


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


def decided(
    limits: Mapping[str, float],
    compared: Callable[[int], Mapping[str, float]],
    turned: Callable[[int], float],
    note: str,
) -> Check:
    """What was found on the first of DRAWS batches that the reference is decided on, by the draw's number.

    A `gradient` beyond its limit may be a ReLU at zero, or a tie of maxima, that rounding broke the other
    way. The batch is passed over only where the reference's own gradient turns by half as much or more
    (`turned`, which never sees what is checked). Anything else beyond its limit fails at once, and so does
    the last draw.
    """
    others = {name: limit for name, limit in limits.items() if name != "gradient"}
    passed: list[str] = []
    for draw in range(DRAWS):
        found = compared(draw)
        if within(limits, found) or not within(others, found):
            break
        turn = turned(draw)
        if not turn >= found["gradient"] / 2:
            break
        passed.append(
            f"{found['gradient']:.1e} (the reference itself turns by {turn:.1e} when pushed by {PUSH:.1e})"
        )
    over = f"; passed over as undecided: {', '.join(passed)}" if passed else ""
    return check(dict(limits), dict(found), within(limits, found), note + over)


def turn(gradient: Callable[[Weights], NDArray[np.floating]], weights: Weights) -> float:
    """How far a gradient goes, relative L2, when each weight is pushed by PUSH, one way or the other."""
    here = gradient(weights)
    return max(relative_l2(gradient(pushed(weights, by)), here) for by in (PUSH, -PUSH))


def relative_l2(found: NDArray[np.floating], expected: NDArray[np.floating]) -> float:
    """|found - expected| / |expected| over all entries; HUGE if any is not a number."""
    if not np.isfinite(found).all():
        return HUGE
    size = max(float(np.linalg.norm(expected)), TINY)
    return float(np.linalg.norm(found.astype(np.float64) - expected) / size)
