"""Whether a history tells where a logistic curve levels off: the profile of its likelihood over the ceiling.

Knows nothing about hardware. Debecker and Modis (1994): a ceiling is known to a fifth only once half of the
S-curve and more has been seen; Sandberg et al. (2021): before the inflection, forecasts of ceilings are poor.
"""

import math
from dataclasses import dataclass

import numpy as np

from breakeven.analysis.trend_models import ORIGIN, Vector, covariance, curve, jacobian_of, parameters_of

CHI_SQUARED = 3.84
"""95 % point of chi squared with one degree of freedom."""
BELOW, ABOVE, STEPS = 5.0, 24.0, 117
"""The ceilings that are tried: doublings below and above the highest value, in steps of a quarter."""
FINE = 0.001
"""Doublings to which the best ceiling and its bounds are then found between the steps."""

JUST_ABOVE, FAR_ABOVE = 1.05, 4000.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """A logistic curve held to a ceiling: how far off it is in doublings, and what it says of 2030."""

    ceiling: float
    rms: float
    value_2030: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Ceiling:
    """What the data say of a logistic ceiling, in the metric's unit.

    `identifiable`: whether an upper bound exists at 95 %. `low` and `high` bound the ceiling, `high` is None
    where steady doubling (no ceiling) fits as well. `against_none` is the likelihood-ratio statistic of the
    best ceiling against none, divided by `inflation` (what boards of one year have in common), to be held
    against 3.84. `seen` is the highest value as a share of the best ceiling. `at` is the curve at the best
    ceiling, `near` and `far` are two ceilings to compare.
    """

    identifiable: bool
    best: float | None
    low: float | None
    high: float | None
    against_none: float
    inflation: float
    seen: float | None
    at: Trial | None
    near: Trial
    far: Trial


def ceiling(years: Vector, values: Vector) -> Ceiling:
    """Profiles the logistic curve, fitted on logarithms, over its ceiling.

    `near` is the lowest ceiling above all boards that the data allow, `far` lies thousands of times higher.
    """
    t, z = np.asarray(years) - ORIGIN, np.log2(np.asarray(values))
    top, n = float(z.max()), len(z)
    straight = np.polynomial.polynomial.polyfit(t, z, 1)
    off = z - np.polynomial.polynomial.polyval(t, straight)
    none = float(off @ off)
    inflation = _inflation(straight, t, off)
    levels = np.linspace(top - BELOW, top + ABOVE, STEPS)
    sums = np.array([_trial(t, z, float(level))[0] for level in levels])
    best_level, best_sum = _best(t, z, levels, sums)
    least = min(best_sum, none)

    def statistic(rss: float) -> float:
        return n * math.log(rss / least) / inflation

    def edge(allowed: float, step: float) -> float:
        """Where the data cease to allow a ceiling, from one that they allow to the next that is tried."""
        beyond = allowed + step
        while abs(beyond - allowed) > FINE:
            middle = (allowed + beyond) / 2
            if statistic(_trial(t, z, middle)[0]) <= CHI_SQUARED:
                allowed = middle
            else:
                beyond = middle
        return allowed

    inside = [float(k) for k, rss in zip(levels, sums, strict=True) if statistic(float(rss)) <= CHI_SQUARED]
    if statistic(best_sum) <= CHI_SQUARED:
        # Bounds may be nearer to the best than a step.
        inside.append(best_level)
    lowest, highest = (min(inside), max(inside)) if inside else (None, None)
    bounded = statistic(none) > CHI_SQUARED and highest is not None and highest < float(levels[-1])
    if lowest is not None and lowest > float(levels[0]):
        lowest = edge(lowest, max(levels[levels < lowest]) - lowest)
    if bounded and highest is not None:
        highest = edge(highest, min(levels[levels > highest]) - highest)
    best = float(2**best_level) if best_sum < none else None
    near = max(JUST_ABOVE * 2**top, 2**lowest if lowest is not None else 0.0)
    return Ceiling(
        identifiable=bounded,
        best=best,
        low=None if lowest is None else float(2**lowest),
        high=float(2**highest) if bounded and highest is not None else None,
        against_none=statistic(none),
        inflation=inflation,
        seen=float(2**top) / best if best else None,
        at=None if best is None else _told(t, z, best),
        near=_told(t, z, near),
        far=_told(t, z, FAR_ABOVE * near),
    )


def _best(t: Vector, z: Vector, levels: Vector, sums: Vector) -> tuple[float, float]:
    """The ceiling (log2) that fits best and its sum of squares, found between the steps that were tried."""
    from scipy.optimize import minimize_scalar

    place = int(sums.argmin())
    bounds = (float(levels[max(place - 1, 0)]), float(levels[min(place + 1, len(levels) - 1)]))
    found = minimize_scalar(
        lambda level: _trial(t, z, float(level))[0], bounds=bounds, method="bounded", options={"xatol": FINE}
    )
    if float(found.fun) < float(sums[place]):
        return float(found.x), float(found.fun)
    return float(levels[place]), float(sums[place])


def _inflation(straight: Vector, t: Vector, off: Vector) -> float:
    """How much more the slope varies than with independent boards; at least 1."""
    rows = jacobian_of("exponential", "log", straight, t)
    shared, _ = covariance(rows, off, np.floor(t + ORIGIN))
    alone = float(off @ off) / (len(t) - 2) * np.linalg.inv(rows.T @ rows)[1, 1]
    return max(1.0, float(shared[1, 1] / alone))


def _trial(t: Vector, z: Vector, level: float) -> tuple[float, Vector]:
    theta = parameters_of("logistic", "log", t, 2.0**z, ceiling=level)
    off = z - curve("logistic", "log", theta, t)
    return float(off @ off), theta


def _told(t: Vector, z: Vector, value: float) -> Trial:
    rss, theta = _trial(t, z, math.log2(value))
    at = curve("logistic", "log", theta, np.array([2030.0 - ORIGIN]))
    return Trial(ceiling=value, rms=math.sqrt(rss / len(z)), value_2030=float(2 ** at[0]))
