"""The law t(x) = max(floor, fixed + x / rate): a time with a floor, which grows beyond a knee.

Knows nothing about what is timed. Fitted by least squares of relative errors: times spread by factors, and a
long one weighs no more than a short one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from breakeven.stats.intervals import logs_of

Law = Literal["flat", "line", "knee"]
"""`flat`: t = floor; `line`: t = fixed + x / rate; `knee`: the larger of both."""

PARAMETERS: Mapping[Law, int] = {"flat": 1, "line": 2, "knee": 4}
"""What each law may choose; the knee counts the place where its sides part besides three numbers."""

SIDE = 2
"""Points on either side of a knee: one point has no slope, and no floor either."""

FINEST = 0.01
"""Relative residual below which laws are told apart by nothing: times of processes agree no better."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """One law through one curve. What a law does not have is None. `misfit`: its largest relative error."""

    law: Law
    floor: float | None
    fixed: float | None
    rate: float | None
    misfit: float

    def at(self, x: float) -> float:
        """The law's time at `x`, in the unit of the times."""
        line = -math.inf if self.rate is None else (self.fixed or 0.0) + x / self.rate
        return max(line, -math.inf if self.floor is None else self.floor)

    @property
    def knee(self) -> float | None:
        """Where the floor ends, in the unit of x; None without both sides."""
        if self.floor is None or self.rate is None:
            return None
        return self.rate * (self.floor - (self.fixed or 0.0))


def fit(x: Sequence[float], t: Sequence[float], law: Law) -> Fit | None:
    """One law through the points, `x` ascending; None where they are too few or do not grow.

    ValueError for unequal lengths or a value that is not positive and finite.
    """
    if len(x) != len(t):
        raise ValueError(f"{len(x)} places but {len(t)} times")
    logs_of(x, "places")
    logs = logs_of(t, "times")
    if law == "flat":
        return None if not logs else _fitted("flat", _mean(logs), None, x, t)
    if law == "line":
        line = _line(x, t)
        return None if line is None else _fitted("line", None, line, x, t)
    found = []
    for k in range(SIDE, len(x) - SIDE + 1):
        line, floor = _line(x[k:], t[k:]), _mean(logs[:k])
        if line is not None and line[0] < floor:
            found.append(_fitted("knee", floor, line, x, t))
    # A floor that begins at the first of its own points, or ends beyond the last, is no knee of these points.
    inside = [f for f in found if f.knee is not None and x[SIDE - 1] < f.knee < x[-SIDE]]
    return min(inside, key=lambda f: squares(f, x, t), default=None)


def choose(x: Sequence[float], t: Sequence[float]) -> Fit | None:
    """The law that the points speak for, by Schwarz's criterion over their relative errors; None for fewer
    than three points.

    Differences below 1 % tell nothing. Reference: Schwarz, "Estimating the dimension of a model", Annals of
    Statistics 6 (1978).
    """
    if len(x) < 3:
        return None
    laws: tuple[Law, ...] = ("flat", "line", "knee")
    found = [made for law in laws if (made := fit(x, t, law)) is not None]
    return min(found, key=lambda f: _criterion(f, x, t), default=None)


def squares(made: Fit, x: Sequence[float], t: Sequence[float]) -> float:
    """Sum of the squared errors of the logs."""
    return math.fsum(math.log(made.at(a) / b) ** 2 for a, b in zip(x, t, strict=True))


def _criterion(made: Fit, x: Sequence[float], t: Sequence[float]) -> float:
    n = len(x)
    return n * math.log(squares(made, x, t) / n + FINEST**2) + PARAMETERS[made.law] * math.log(n)


def _line(x: Sequence[float], t: Sequence[float]) -> tuple[float, float] | None:
    """(fixed, rate) of the least relative errors with fixed >= 0; None where the time does not grow."""
    if len(x) < SIDE:
        return None
    # Both sides of fixed + x / rate = t divided by t.
    rows = [(1 / b, a / b) for a, b in zip(x, t, strict=True)]
    aa, ab, bb = (math.fsum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a1, b1 = (math.fsum(r[i] for r in rows) for i in (0, 1))
    determinant = aa * bb - ab * ab
    if determinant <= 1e-12 * aa * bb:
        return None
    fixed, slope = (a1 * bb - b1 * ab) / determinant, (b1 * aa - a1 * ab) / determinant
    if fixed < 0:
        fixed, slope = 0.0, b1 / bb
    return (fixed, 1 / slope) if slope > 0 else None


def _mean(logs: Sequence[float]) -> float:
    return math.exp(math.fsum(logs) / len(logs))


def _fitted(
    law: Law, floor: float | None, line: tuple[float, float] | None, x: Sequence[float], t: Sequence[float]
) -> Fit:
    fixed, rate = line if line is not None else (None, None)
    made = Fit(law=law, floor=floor, fixed=fixed, rate=rate, misfit=0.0)
    worst = max(abs(made.at(a) / b - 1) for a, b in zip(x, t, strict=True))
    return Fit(law=law, floor=floor, fixed=fixed, rate=rate, misfit=worst)
