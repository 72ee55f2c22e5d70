"""The gate: which of many cases are slower, significantly and by more than a threshold; and what it can see.

Knows nothing about cases or files. Arrays throughout, cases along the last axis, so that the very decision
taken of a comparison is the one whose error rate and power are simulated (tests/test_gate.py).
"""

import math
from collections.abc import Sequence
from typing import Any

from breakeven.stats.student import t_quantile

MOST_PROCESSES = 1000


def slowdowns(log_ratio: Any, log_se: Any, df: Any, *, threshold: float, alpha: float = 0.05) -> Any:
    """True where a case fails: slower by Holm's test at `alpha` over the last axis, and its estimate by more
    than `threshold`.

    `log_ratio` is log(base time / new time), `log_se` its standard error with `df` degrees of freedom: arrays
    of one shape (..., cases). The test is two-sided, so that "slower" here is the verdict SLOWER: where
    nothing changed, at most alpha / 2 of the families have a failing case. ValueError for a threshold that is
    not positive.
    """
    import numpy as np  # see t_quantile: most commands need no interval
    from scipy.special import stdtr

    if not (threshold > 0 and math.isfinite(threshold)):
        raise ValueError(f"a threshold is above 0 (0.05 for 5 %), got {threshold!r}")
    ratio, se = np.asarray(log_ratio, float), np.asarray(log_se, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(se > 0, np.abs(ratio) / se, np.where(ratio == 0, 0.0, np.inf))
    adjusted = holm_last_axis(np.minimum(1.0, 2 * stdtr(np.asarray(df, float), -t)))
    return (adjusted < alpha) & (np.expm1(-ratio) > threshold)


def holm_last_axis(p_values: Any) -> Any:
    """`comparisons.holm` along the last axis of an array."""
    import numpy as np

    p = np.asarray(p_values, float)
    order = np.argsort(p, axis=-1, kind="stable")
    weights = np.arange(p.shape[-1], 0, -1)
    running = np.maximum.accumulate(np.minimum(1.0, np.take_along_axis(p, order, axis=-1) * weights), axis=-1)
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, running, axis=-1)
    return adjusted


def visible_slowdown(
    spread: float,
    n: int,
    *,
    tests: int,
    threshold: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
) -> float:
    """The least slowdown (0.1 for 10 %) that `slowdowns` finds in one of `tests` cases with chance `power`.

    `n` processes a side whose logs spread by `spread` each, at Holm's first step. An estimate has to pass the
    threshold as well, so what is seen always lies above it. ValueError for n below 2.
    """
    if n < 2:
        raise ValueError(f"one process has no spread, got n = {n!r}")
    from scipy.special import nctdtrinc

    # Welch's degrees of freedom are 2 (n - 1) at most; by how much less, equal spreads seen unequal tell: the
    # mean of (a + b)^2 / (a^2 + b^2) over two equal chi-squares is 2 - 2 / (n + 1) to the first order.
    df = (n - 1) * (2 - 2 / (n + 1))
    critical = t_quantile(1 - alpha / tests / 2, df)
    se = spread * math.sqrt(2 / n)
    significant = float(nctdtrinc(df, 1 - power, critical)) * se
    return math.expm1(max(significant, math.log1p(threshold) + t_quantile(power, df) * se))


def processes_to_see(
    slowdown: float,
    spread: float,
    *,
    tests: int,
    threshold: float = 0.0,
    alpha: float = 0.05,
    power: float = 0.8,
) -> int | None:
    """Processes a side with which `visible_slowdown` is `slowdown` or less; None beyond 1000."""
    for n in range(2, MOST_PROCESSES + 1):
        seen = visible_slowdown(spread, n, tests=tests, threshold=threshold, alpha=alpha, power=power)
        if seen <= slowdown:
            return n
    return None


def pooled_spread(spreads: Sequence[float]) -> float:
    """The spread of one process over several cases: the root of the mean of their variances."""
    return math.sqrt(math.fsum(s * s for s in spreads) / len(spreads)) if spreads else 0.0
