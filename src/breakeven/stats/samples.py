"""Order statistics within ONE process: percentiles, a median's interval, and whether warm-up is over.

Knows nothing about clocks or loops, and nothing here says how well a case is known: that is `case_interval`,
from several processes. No scipy and no numpy: the timing loop calls these between blocks.
"""

import math
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist, median

from breakeven.stats.intervals import Interval
from breakeven.stats.student import two_sided

# Above this many samples the normal approximation of the binomial gives the exact rank or one beside it.
EXACT_UP_TO = 1000

# One-sided 1 % point of the normal: a false alarm costs one more window of warm-up, a miss costs the
# measurement.
TREND_Z = 2.326

# On a quiet device every drift is significant; one below this share of the tolerance is not worth a longer
# warm-up.
NEGLIGIBLE_FALL = 0.25

# A spike is a sample this many tolerances above its window's median (a lazy import, a late autotune, a page
# fault).
SPIKE = 5.0


def samples_for_percentile(p: float, *, confidence: float = 0.95) -> int:
    """How many samples percentile `p` (0 < p < 1) takes: ceil(ln(1 - confidence) / ln(p)); mirrored below the
    median.

    With that many, the largest sample lies beyond the true percentile with the given confidence: 29 for p90,
    299 for p99, 2995 for p99.9 at 95 %. ValueError for p or confidence outside 0..1. Reference: Wilks,
    "Determination of sample sizes for setting tolerance limits", Annals of Mathematical Statistics 12 (1941).
    """
    if not 0 < p < 1:
        raise ValueError(f"a percentile is a share between 0 and 1 (0.99 for p99), got {p!r}")
    two_sided(confidence)
    # Rounded first, so that an exact quotient is not pushed up by the last bit.
    return math.ceil(round(math.log(1 - confidence) / math.log(max(p, 1 - p)), 9))


def percentile(samples: Sequence[float], p: float, *, confidence: float = 0.95) -> float | None:
    """Nearest-rank percentile `p` (0.99 for p99), or None where `samples_for_percentile` asks for more
    samples.

    Always a sample that occurred, in its unit. Pool raw samples first; never average percentiles. ValueError
    for a sample that is not finite or p outside 0..1.
    """
    needed = samples_for_percentile(p, confidence=confidence)
    n = len(samples)
    if n < needed:
        return None
    # 0.07 * 100 is 7.000000000000001: without rounding its rank would be 8.
    rank = max(1, math.ceil(round(p * n, 6)))
    return _sorted_finite(samples)[rank - 1]


def median_interval(samples: Sequence[float], *, confidence: float = 0.95) -> Interval | None:
    """Distribution-free interval of a median between two order statistics; for the stopping rule within a
    process.

    Exact binomial ranks up to 1000 samples, above it their normal approximation. Assumes independent samples,
    which those of one process are not: it tells when a process has nothing more to say, never how well a case
    is known. None where even the extremes do not reach the confidence (fewer than 6 samples at 95 %);
    ValueError for a sample that is not finite. Reference: Conover, Practical Nonparametric Statistics (3rd
    edition, 1999).
    """
    two_sided(confidence)
    n = len(samples)
    rank = _median_rank(n, confidence)
    if rank < 1:
        return None
    ordered = _sorted_finite(samples)
    return Interval(
        low=ordered[rank - 1], high=ordered[n - rank], estimate=median(ordered), confidence=confidence, n=n
    )


@lru_cache(maxsize=1024)
def _median_rank(n: int, confidence: float) -> int:
    """Largest k with P(Binomial(n, 1/2) < k) <= (1 - confidence) / 2; 0 where there is none."""
    tail = (1 - confidence) / 2
    if n > EXACT_UP_TO:
        return math.floor((n - NormalDist().inv_cdf(1 - tail) * math.sqrt(n)) / 2)
    allowed = tail * 2.0**n
    outcomes = below = 1
    k = 0
    while below <= allowed:
        k += 1
        outcomes = outcomes * (n - k + 1) // k  # math.comb(n, k), from the one before it
        below += outcomes
    return k


def steady(window_a: Sequence[float], window_b: Sequence[float], tolerance: float) -> bool:
    """Whether warm-up is over: the earlier window `window_a` and the later `window_b` hold step times of one
    level.

    Three conditions: the medians agree within `tolerance` (0.02 is 2 %); no spike is left in `window_b`, its
    maximum is at most (1 + 5 * tolerance) times its median; no significant downward trend runs through both
    windows (Mann-Kendall, one-sided 1 %), unless the fall is below a quarter of the tolerance. An upward
    trend is throttling, which more warm-up does not cure. An empty window is not steady; ValueError for a
    tolerance that is not positive or a time that is negative or not finite.
    Reference: Mann, "Nonparametric tests against trend", Econometrica 13 (1945).
    """
    if not tolerance > 0:
        raise ValueError(f"tolerance must be positive, got {tolerance!r}")
    if not window_a or not window_b:
        return False
    before, after = _sorted_finite(window_a), _sorted_finite(window_b)
    if before[0] < 0 or after[0] < 0:
        raise ValueError("a step time is negative")
    level_before, level = median(before), median(after)
    if abs(level_before - level) > tolerance * level:
        return False
    if after[-1] > (1 + SPIKE * tolerance) * level:
        return False
    falls = level_before - level > NEGLIGIBLE_FALL * tolerance * level
    return not (falls and _falling([*window_a, *window_b]))


def _falling(series: Sequence[float]) -> bool:
    score, variance = kendall(series)
    # The continuity correction: the score moves in steps of two.
    return score < 0 and -score - 1 > TREND_Z * math.sqrt(variance)


def kendall(series: Sequence[float]) -> tuple[int, float]:
    """Mann-Kendall: rises minus falls over all pairs, and its variance without a trend (ties counted)."""
    n = len(series)
    score = 0
    seen: list[float] = []
    for value in series:
        score += bisect_left(seen, value) + bisect_right(seen, value) - len(seen)
        insort(seen, value)
    variance = n * (n - 1) * (2 * n + 5)
    variance -= sum(ties * (ties - 1) * (2 * ties + 5) for ties in Counter(series).values())
    return score, variance / 18


def _sorted_finite(samples: Sequence[float]) -> list[float]:
    for sample in samples:
        if not math.isfinite(sample):
            raise ValueError(f"samples must be finite, got {sample!r}")
    return sorted(samples)
