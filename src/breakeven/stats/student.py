"""Quantiles of Student's t.

Knows nothing about what they are used for.
"""

from functools import lru_cache


@lru_cache(maxsize=4096)
def t_quantile(probability: float, df: float) -> float:
    """Quantile of Student's t; `df` need not be whole (Welch-Satterthwaite).

    Raises ValueError outside 0 < probability < 1 or df > 0.
    """
    if not 0 < probability < 1 or not df > 0:
        raise ValueError(f"no t quantile at probability {probability!r} with {df!r} degrees of freedom")
    # Not scipy.stats, whose import takes twice as long, and not at import time: most commands need no
    # quantile.
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def two_sided(confidence: float) -> float:
    """Upper probability of a central interval: 0.975 for 0.95. ValueError outside 0 < confidence < 1."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence!r}")
    return 0.5 + confidence / 2


def t_test(mean: float, se: float, df: float) -> float:
    """Two-sided p-value of a mean of 0."""
    if se == 0:  # simulated times without noise
        return 1.0 if mean == 0 else 0.0
    from scipy.special import stdtr  # see t_quantile

    return min(1.0, 2 * float(stdtr(df, -abs(mean) / se)))
