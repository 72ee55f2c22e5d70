"""Growth curves fitted to a history: exponential, polynomial, logistic, Gompertz; on logs or plain values.

Knows nothing about hardware: years and positive values in, fits with criteria, hold-out error, forecasts out.

A fit on logarithms weighs a doubling alike in 2000 and in 2025; one on plain values sees the last few years
only. Criteria of both are those of the values (the change of variable is in the likelihood), so they compare.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from breakeven.stats.student import t_quantile, two_sided

Model = Literal["exponential", "polynomial", "logistic", "gompertz"]
Space = Literal["log", "linear"]
MODELS: tuple[Model, ...] = ("exponential", "polynomial", "logistic", "gompertz")
SPACES: tuple[Space, ...] = ("log", "linear")
ORIGIN = 2013.0
"""Years are counted from the middle of the history: parameters are then of the order of one."""
HEADROOM = 40.0
"""A ceiling may lie up to this many doublings above the highest value: as good as none."""
SPLIT = 2016.0
LEAST_TRAINING, LEAST_TEST = 10, 5
Vector = Any
"""numpy.ndarray of floats."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Forecast:
    """What a fit says of a board released in `year`: the value and where 95 % of boards should lie."""

    year: float
    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fit:
    """One model in one space. `rms` is in doublings (log) or in the metric's unit (linear).

    `aicc` and `bic` are of the values, whatever the space: the lower the better. `holdout_rms` and
    `holdout_bias` are in doublings, of the boards from 2016 on by a fit to those before; None with the reason
    under `holdout`. `ceiling`: where a logistic or Gompertz curve levels off. `negative_until`: a year before
    which the curve is at or below zero within the history.
    """

    model: Model
    space: Space
    parameters: tuple[float, ...]
    rms: float
    aicc: float
    bic: float
    forecasts: tuple[Forecast, ...]
    holdout_rms: float | None = None
    holdout_bias: float | None = None
    ceiling: float | None = None
    negative_until: float | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)


def fit(
    model: Model, space: Space, years: Vector, values: Vector, until: Sequence[float], *, degree: int = 2
) -> Fit:
    """The least-squares fit of a model in a space, with forecasts for the years `until`. `values` > 0."""
    t, y = np.asarray(years) - ORIGIN, np.asarray(values)
    theta = parameters_of(model, space, t, y, degree=degree)
    off = _target(space, y) - curve(model, space, theta, t)
    n, rss = len(y), float(off @ off)
    reasons: dict[str, str] = {}
    error, bias, why = _holdout(model, space, t, y, degree)
    if why:
        reasons["holdout"] = why
    inside = np.linspace(t.min(), t.max(), 400)
    zeros = inside[_plain(space, curve(model, space, theta, inside)) <= 0]
    return Fit(
        model=model,
        space=space,
        parameters=tuple(float(p) for p in theta),
        rms=math.sqrt(rss / n),
        **_criteria(space, y, rss, len(theta)),
        forecasts=_forecasts(model, space, theta, t, off, until),
        holdout_rms=error,
        holdout_bias=bias,
        ceiling=float(2 ** theta[0]) if model in ("logistic", "gompertz") else None,
        negative_until=float(zeros.max() + ORIGIN) if len(zeros) else None,
        reasons=reasons,
    )


def curve(model: Model, space: Space, theta: Vector, t: Vector) -> Vector:
    """The fitted curve: logarithms to base 2 in the log space, values in the linear one."""
    if model == "polynomial":
        return np.polynomial.polynomial.polyval(t, theta)
    if model == "exponential":
        z = theta[0] + theta[1] * t
    elif model == "logistic":
        z = theta[0] - np.logaddexp(0.0, -(t - theta[1]) / theta[2]) / math.log(2)
    else:
        z = theta[0] - np.exp(np.minimum(-(t - theta[1]) / theta[2], 50.0)) / math.log(2)
    return z if space == "log" else 2.0 ** np.minimum(z, 500.0)


def parameters_of(
    model: Model, space: Space, t: Vector, y: Vector, *, degree: int = 2, ceiling: float | None = None
) -> Vector:
    """The parameters of the best fit; `ceiling` (log2) holds a logistic curve's first one fixed."""
    target = _target(space, y)
    if model == "polynomial":
        return np.polynomial.polynomial.polyfit(t, target, degree)
    if model == "exponential" and space == "log":
        return np.polynomial.polynomial.polyfit(t, target, 1)
    # 60 ms to import: listing and reports do without.
    from scipy.optimize import least_squares

    scale = 1.0 if space == "log" else float(np.abs(target).max())
    held = [] if ceiling is None else [ceiling]

    def off(free: Vector) -> Vector:
        return (curve(model, space, [*held, *free], t) - target) / scale

    tries = []
    for start, low, high in _starts(model, t, y, ceiling):
        tries.append(least_squares(off, start, bounds=(low, high), x_scale="jac", max_nfev=400))
    best = min(tries, key=lambda tried: float(tried.cost))
    return np.array([*held, *best.x])


def _starts(model: Model, t: Vector, y: Vector, ceiling: float | None) -> list[tuple[Any, Any, Any]]:
    z = np.log2(y)
    top = float(z.max())
    slope = max(float(np.polynomial.polynomial.polyfit(t, z, 1)[1]), 0.05)
    if model == "exponential":
        start = np.polynomial.polynomial.polyfit(t, z, 1)
        return [(start, [-60.0, -3.0], [60.0, 3.0])]
    # Far below its middle a logistic grows 2^(t / (s ln 2)): s follows from the slope.
    pace = 1 / (slope * math.log(2))
    out = []
    for above in (0.3, 2.0, 8.0):
        level = top + above if ceiling is None else ceiling
        for stretch in (0.6, 1.5):
            scale = min(max(pace * stretch, 0.3), 100.0)
            crossing = float(t.mean()) + scale * math.log(2) * (level - float(z.mean()) - 1)
            middle = min(max(crossing, -40.0), 900.0)
            free = [middle, scale]
            low, high = [-60.0, 0.2], [4000.0, 200.0]
            if ceiling is None:
                free = [level, *free]
                low, high = [float(np.median(z)), *low], [top + HEADROOM, *high]
            out.append((free, low, high))
        if ceiling is not None:
            break
    return out


def _target(space: Space, y: Vector) -> Vector:
    return np.log2(y) if space == "log" else y


def _plain(space: Space, fitted: Vector) -> Vector:
    return 2.0**fitted if space == "log" else fitted


def _criteria(space: Space, y: Vector, rss: float, parameters: int) -> dict[str, float]:
    """AICc and BIC of the values: Gaussian around the curve, or log-normal with its change of variable."""
    n, k = len(y), parameters + 1
    likelihood = -n / 2 * (math.log(2 * math.pi * rss / n) + 1)
    if space == "log":
        likelihood -= float(np.log(y * math.log(2)).sum())
    small = 2 * k * (k + 1) / (n - k - 1) if n > k + 1 else math.inf
    return {"aicc": 2 * k - 2 * likelihood + small, "bic": k * math.log(n) - 2 * likelihood}


def _holdout(
    model: Model, space: Space, t: Vector, y: Vector, degree: int
) -> tuple[float | None, float | None, str]:
    """Root mean square and mean of log2(forecast / truth) from 2016 on, by a fit to what came before."""
    early = t + ORIGIN < SPLIT
    if early.sum() < LEAST_TRAINING or (~early).sum() < LEAST_TEST:
        return None, None, f"{early.sum()} boards before 2016 and {(~early).sum()} from then on: too few"
    theta = parameters_of(model, space, t[early], y[early], degree=degree)
    said = _plain(space, curve(model, space, theta, t[~early]))
    if np.any(said <= 0):
        return None, None, f"forecasts {(said <= 0).sum()} of {len(said)} boards at or below zero"
    off = np.log2(said) - np.log2(y[~early])
    return float(np.sqrt((off**2).mean())), float(off.mean()), ""


def covariance(jacobian: Vector, off: Vector, groups: Vector) -> tuple[Vector, int]:
    """Covariance of parameters with residuals correlated within groups (CR1), and its degrees of freedom.

    Boards of one year are relatives: as independent points they would make an interval too narrow.
    """
    bread = np.linalg.pinv(jacobian.T @ jacobian)
    names = np.unique(groups)
    scores = np.array([jacobian[groups == name].T @ off[groups == name] for name in names])
    count, n, k = len(names), len(off), jacobian.shape[1]
    factor = count / (count - 1) * (n - 1) / (n - k)
    return factor * bread @ (scores.T @ scores) @ bread, count - 1


def jacobian_of(model: Model, space: Space, theta: Vector, t: Vector) -> Vector:
    """Derivatives of the curve by its parameters, one row a year: central differences."""
    columns = []
    for i, p in enumerate(theta):
        step = 1e-5 * max(abs(float(p)), 1e-2)
        up, down = np.array(theta, dtype=float), np.array(theta, dtype=float)
        up[i] += step
        down[i] -= step
        columns.append((curve(model, space, up, t) - curve(model, space, down, t)) / (2 * step))
    return np.column_stack(columns)


def _forecasts(
    model: Model, space: Space, theta: Vector, t: Vector, off: Vector, until: Sequence[float]
) -> tuple[Forecast, ...]:
    n, k = len(t), len(theta)
    if n <= k + 2:
        return tuple(Forecast(year=year, value=None, reason="too few boards") for year in until)
    rows = jacobian_of(model, space, theta, t)
    spread = float(off @ off) / (n - k)
    shared, df = covariance(rows, off, np.floor(t + ORIGIN))
    loose = bool(np.linalg.cond(rows / np.maximum(np.abs(rows).max(axis=0), 1e-300)) > 1e7)
    out = []
    for year in until:
        at = np.array([year - ORIGIN])
        middle = float(curve(model, space, theta, at)[0])
        value = float(_plain(space, np.array(middle)))
        if loose:
            why = "its parameters cannot be told apart, so no interval"
            out.append(Forecast(year=year, value=value if value > 0 else None, reason=why))
            continue
        slope = jacobian_of(model, space, theta, at)[0]
        half = t_quantile(two_sided(0.95), df) * math.sqrt(spread + float(slope @ shared @ slope))
        ends = _plain(space, np.array([middle - half, middle + half]))
        below = float(ends[0]) if ends[0] > 0 else None
        out.append(
            Forecast(
                year=year,
                value=value if value > 0 else None,
                low=below,
                high=float(ends[1]),
                reason="" if below else "the interval reaches zero or less: impossible values",
            )
        )
    return tuple(out)
