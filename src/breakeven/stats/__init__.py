"""Intervals, comparisons and percentiles whose coverage is checked by simulation (tests/test_stats.py).

Knows nothing about cases, files, clocks or units: numbers in, numbers out. `None` always means "cannot be
told".
"""

from breakeven.stats.comparisons import (
    Equivalence,
    EquivalenceOutcome,
    Ratio,
    Verdict,
    accuracy_equivalence,
    holm,
    holm_confidences,
    paired_ratio,
    processes_to_decide,
    ratio_interval,
    scaled,
    verdict,
    welch_ratio,
)
from breakeven.stats.gate import pooled_spread, processes_to_see, slowdowns, visible_slowdown
from breakeven.stats.intervals import (
    Interval,
    Slope,
    case_interval,
    geometric_mean,
    geometric_mean_ratio,
    mean_interval,
    prediction_interval,
    slope_of,
)
from breakeven.stats.proportions import change_of_shares, paired_change, share_interval
from breakeven.stats.samples import median_interval, percentile, samples_for_percentile, steady
from breakeven.stats.sequential import looks_between, nominal_confidence, widening
from breakeven.stats.student import t_quantile
from breakeven.stats.trends import common_trend

__all__ = [
    "Equivalence",
    "EquivalenceOutcome",
    "Interval",
    "Ratio",
    "Slope",
    "Verdict",
    "accuracy_equivalence",
    "case_interval",
    "change_of_shares",
    "common_trend",
    "geometric_mean",
    "geometric_mean_ratio",
    "holm",
    "holm_confidences",
    "looks_between",
    "mean_interval",
    "median_interval",
    "nominal_confidence",
    "paired_change",
    "paired_ratio",
    "percentile",
    "pooled_spread",
    "prediction_interval",
    "processes_to_decide",
    "processes_to_see",
    "ratio_interval",
    "samples_for_percentile",
    "scaled",
    "share_interval",
    "slope_of",
    "slowdowns",
    "steady",
    "t_quantile",
    "verdict",
    "visible_slowdown",
    "welch_ratio",
    "widening",
]
