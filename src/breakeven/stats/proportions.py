"""Intervals of shares: of one share, and of the difference of two on the same images or on others.

Knows nothing about what was counted. Normal approximations that add pseudo-counts: unlike the plain ones they
have a width at 0 % and 100 %, where most agreements lie. Coverage by simulation: tests/test_proportions.py.
"""

import math
from statistics import NormalDist

from breakeven.stats.intervals import Interval


def share_interval(count: float, n: int, *, confidence: float = 0.95) -> Interval:
    """The share count / n with Wilson's score interval (1927). ValueError for n < 1, a count outside 0..n."""
    _check(count, n)
    z, p = _z(confidence), count / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
    low = 0.0 if count <= 0 else middle - half
    high = 1.0 if count >= n else middle + half
    return Interval(low=low, high=high, estimate=p, confidence=confidence, n=n)


def paired_change(lost: float, gained: float, n: int, *, confidence: float = 0.95) -> Interval:
    """The change of a share over the same n images: (gained - lost) / n.

    `lost`: images right before and wrong now, `gained`: the other way round; those that stayed add nothing.
    Reference: Bonett and Price, "Adjusted Wald confidence interval for a difference of binomial proportions
    based on paired data", Journal of Educational and Behavioral Statistics 37 (2012). ValueError as above.
    """
    _check(lost + gained, n)
    _check(min(lost, gained), n)
    p, q = (gained + 1) / (n + 2), (lost + 1) / (n + 2)
    half = _z(confidence) * math.sqrt((p + q - (p - q) ** 2) / (n + 2))
    low, high = max(-1.0, p - q - half), min(1.0, p - q + half)
    return Interval(low=low, high=high, estimate=(gained - lost) / n, confidence=confidence, n=n)


def change_of_shares(base: float, now: float, n: int, *, confidence: float = 0.95) -> Interval:
    """now - base, counts of n images each whose pairs nobody knows: wider than paired where the two go
    together. Reference: Agresti and Caffo, The American Statistician 54 (2000). ValueError as above."""
    _check(base, n)
    _check(now, n)
    p, q = (now + 1) / (n + 2), (base + 1) / (n + 2)
    half = _z(confidence) * math.sqrt((p * (1 - p) + q * (1 - q)) / (n + 2))
    low, high = max(-1.0, p - q - half), min(1.0, p - q + half)
    return Interval(low=low, high=high, estimate=(now - base) / n, confidence=confidence, n=n)


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _check(count: float, n: int) -> None:
    if n < 1 or not 0 <= count <= n:
        raise ValueError(f"a count is from 0 to n, n at least 1: got {count!r} of {n!r}")
