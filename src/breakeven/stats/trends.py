"""Whether what should stand at one level moved all the same, in several processes alike.

Knows nothing about clocks or blocks. What differs between processes widens the interval between them;
what all of them share does not, so only a common trend can lie.
"""

import math
from collections.abc import Sequence
from statistics import median

from breakeven.stats.samples import TREND_Z, kendall


def common_trend(processes: Sequence[Sequence[float]], *, tolerance: float) -> float | None:
    """By how much the values of all processes rose together (fell: below 0), as a logarithm; 0.0: no trend.

    Three conditions. The middle of the processes moved by more than `tolerance` between the medians of its
    first and its last third. The Mann-Kendall scores of all, added up, show that trend (1 % a direction; the
    seasonal test of Hirsch and Slack). No process by itself shows the other one: then each has its own, as
    neighbours cause it. None where the values are so few that not even a steady fall of all would show
    (one process of 5 values, two of 3). Values are times, above 0.
    Reference: Hirsch and Slack, "A nonparametric trend test for seasonal data", Water Resources Research 20
    (1984).
    """
    most = sum(len(p) * (len(p) - 1) // 2 for p in processes)
    variance = sum(len(p) * (len(p) - 1) * (2 * len(p) + 5) / 18 for p in processes)
    if not _significant(most, variance):
        return None
    move = median(map(_move, processes))
    if abs(move) <= math.log1p(tolerance):
        return 0.0
    scores = [(math.copysign(1.0, move) * score, var) for score, var in map(kendall, processes)]
    together = _significant(sum(s for s, _ in scores), sum(var for _, var in scores))
    against = any(_significant(-score, var) for score, var in scores)
    return move if together and not against else 0.0


def _significant(score: float, variance: float) -> bool:
    # The continuity correction, as in `samples`: a score moves in steps of two.
    return score - 1 > TREND_Z * math.sqrt(variance)


def _move(series: Sequence[float]) -> float:
    third = max(1, len(series) // 3)
    first, last = median(series[:third]), median(series[-third:])
    return math.log(last / first) if first > 0 and last > 0 else 0.0
