"""Ratios of two cases, the verdict on them, and whether two accuracies are equivalent.

Knows nothing about which ratios may be formed: that two cases did equal work is the caller's business.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from breakeven.stats.intervals import Interval, from_logs, logs_of, mean_and_variance
from breakeven.stats.sequential import widening
from breakeven.stats.student import t_quantile, t_test, two_sided

K = TypeVar("K")

# Nobody starts more processes of one case to settle a comparison.
MOST_PROCESSES = 1000


class Verdict(StrEnum):
    """What a comparison found, of the candidate against the base."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    UNCERTAIN = "uncertain"


class EquivalenceOutcome(StrEnum):
    """Whether two accuracies differ by more than a margin."""

    EQUIVALENT = "equivalent"
    DIFFERENT = "different"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ratio:
    """base / candidate of two times: above 1 the candidate is faster (of two rates: swap the sides).

    `interval.n` counts pairs, or the processes of the smaller side. With n processes a side the standard
    error of the log ratio is log_sd / sqrt(n) with about (n - 1) * df_a_process degrees of freedom: what a
    larger run would have.
    """

    interval: Interval
    p_value: float  # two-sided, of ratio == 1, before any correction
    log_se: float
    df: float
    log_sd: float
    df_a_process: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Equivalence:
    """`difference` is candidate - base in the unit of the accuracies; None for fewer than two a side."""

    outcome: EquivalenceOutcome
    difference: Interval | None
    margin: float


@dataclass(frozen=True, kw_only=True, slots=True)
class _Welch:
    """A difference of two means, first - second."""

    difference: float
    se: float
    df: float
    variances: float  # sum of the sample variances of one value on either side
    balance: float  # degrees of freedom per (n - 1) if both sides had n values


def paired_ratio(
    base: Mapping[K, float], cand: Mapping[K, float], *, confidence: float = 0.95, looks: Sequence[int] = ()
) -> Ratio | None:
    """Ratio within one file: Student t on the log ratios of values with equal keys (replicates).

    What the replicates share (the hour, the temperature, a neighbour) cancels. A key found on one side only
    is left out. `looks`: where either side might have got more processes; the standard error is then larger
    by `sequential.widening`, for interval, p-value and verdict alike. None for fewer than two pairs;
    ValueError for a value that is not positive and finite.
    """
    keys = [key for key in base if key in cand]
    base_logs = logs_of((base[key] for key in keys), "base values")
    cand_logs = logs_of((cand[key] for key in keys), "candidate values")
    n = len(keys)
    if n < 2:
        return None
    mean, variance = mean_and_variance([b - c for b, c in zip(base_logs, cand_logs, strict=True)])
    sd = math.sqrt(variance)
    se = sd * widening(n, looks, confidence=confidence) / math.sqrt(n)
    # A larger run is widened too, but as its last look is: by less than a small one.
    sd *= widening(max(n, *looks), looks, confidence=confidence) if looks else 1.0
    return _ratio(mean, se, n - 1, n=n, confidence=confidence, log_sd=sd, df_a_process=1.0)


def welch_ratio(
    base: Iterable[float],
    cand: Iterable[float],
    *,
    confidence: float = 0.95,
    looks: tuple[Sequence[int], Sequence[int]] = ((), ()),
) -> Ratio | None:
    """Ratio across files: Welch's t on logs, spreads and counts may differ. None for fewer than two values a
    side.

    `looks` of either side: where it might have got more processes; its part of the standard error is then
    larger by `sequential.widening`. ValueError for a value that is not positive and finite.
    Reference: Welch, "The generalization of Student's problem", Biometrika 34 (1947); Satterthwaite (1946).
    """
    base_logs, cand_logs = logs_of(base, "base values"), logs_of(cand, "candidate values")
    n = min(len(base_logs), len(cand_logs))
    if n < 2:
        return None
    wider = [
        widening(len(logs), at, confidence=confidence) ** 2
        for logs, at in zip((base_logs, cand_logs), looks, strict=True)
    ]
    t = _welch(base_logs, cand_logs, *wider)
    log_sd = math.sqrt(t.variances)
    return _ratio(t.difference, t.se, t.df, n=n, confidence=confidence, log_sd=log_sd, df_a_process=t.balance)


def scaled(ratio: Ratio, factor: float) -> Ratio:
    """The ratio times a factor that is known without error, such as a ratio of prices; above 0."""
    mean = math.log(ratio.interval.estimate) + math.log(factor)
    return _ratio(
        mean, ratio.log_se, ratio.df, n=ratio.interval.n, confidence=ratio.interval.confidence,
        log_sd=ratio.log_sd, df_a_process=ratio.df_a_process,
    )  # fmt: skip


def ratio_interval(ratio: Ratio, *, confidence: float) -> Interval:
    """The interval of a ratio at another confidence: 1 - 0.05 / 40 for the first of forty cases."""
    half_width = t_quantile(two_sided(confidence), ratio.df) * ratio.log_se
    return from_logs(math.log(ratio.interval.estimate), half_width, confidence=confidence, n=ratio.interval.n)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the given order: comparing each with alpha keeps the family's error below
    alpha.

    ValueError for a p-value outside 0..1.
    Reference: Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Statist. 6 (1979).
    """
    for p in p_values:
        if not 0 <= p <= 1:
            raise ValueError(f"a p-value lies between 0 and 1, got {p!r}")
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return adjusted


def holm_confidences(p_values: Sequence[float], *, alpha: float = 0.05) -> list[float]:
    """The confidence of each interval at which it leaves out what was tested exactly where `holm` rejects.

    The smallest of m p-values takes 1 - alpha / m, the next 1 - alpha / (m - 1), and from the first that is
    not rejected on all take the same: so interval and verdict never say different things. Never below
    1 - alpha. ValueError as `holm`.
    """
    adjusted = holm(p_values)
    m, found, step = len(p_values), [0.0] * len(p_values), 0
    for index in sorted(range(m), key=p_values.__getitem__):
        found[index] = 1 - alpha / (m - step)
        step += adjusted[index] < alpha
    return found


def verdict(ratio: Ratio | None, *, margin: float, p_adjusted: float, alpha: float = 0.05) -> Verdict:
    """FASTER, SLOWER, SAME or UNCERTAIN.

    SAME comes first: two one-sided tests at `alpha`, the 1 - 2 * alpha interval lies within 1 / (1 + margin)
    and 1 + margin, so that a real but unimportant 1 % is SAME at a margin of 5 %. Else FASTER or SLOWER takes
    p_adjusted < alpha (after `holm` over all cases; `ratio.p_value` for a single one) and a 1 - alpha
    interval that excludes 1. SAME is a claim about one case and is not corrected. No ratio (None) is
    UNCERTAIN. ValueError for a negative margin or alpha outside 0..0.5.
    Reference: Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15 (1987), for the two one-sided tests.
    """
    _check_margin(margin, alpha)
    if ratio is None:
        return Verdict.UNCERTAIN
    inner = ratio_interval(ratio, confidence=1 - 2 * alpha)
    if 1 / (1 + margin) < inner.low and inner.high < 1 + margin:
        return Verdict.SAME
    outer = ratio_interval(ratio, confidence=1 - alpha)
    if p_adjusted >= alpha or outer.contains(1.0):
        return Verdict.UNCERTAIN
    return Verdict.FASTER if outer.low > 1 else Verdict.SLOWER


def processes_to_decide(
    ratio: Ratio, *, margin: float, tests: int = 1, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """Processes a side with which `verdict` would decide, with chance `power`, were the observed ratio the
    true one.

    Smallest n that gives FASTER or SLOWER at alpha / tests (Holm's first step) or SAME by two one-sided
    tests, the spread staying as observed; the t quantile depends on n, so n is searched. A plan, not a
    promise: at three processes the true spread may be half or six times the observed one (chi-square, 95 %).
    None where no count up to 1000 would do (a ratio of exactly 1 with no margin, or one on the edge of the
    margin). ValueError as `verdict`, for tests < 1 or power outside 0.5..1.
    """
    _check_margin(margin, alpha)
    if tests < 1 or not 0.5 <= power < 1:
        raise ValueError(f"tests must be 1 or more and power in 0.5..1, got {tests!r} and {power!r}")
    effect = abs(math.log(ratio.interval.estimate))
    room = math.log1p(margin) - effect
    for n in range(2, MOST_PROCESSES + 1):
        df = (n - 1) * ratio.df_a_process
        se = ratio.log_sd / math.sqrt(n)
        differs = (t_quantile(1 - alpha / tests / 2, df) + _t_or_zero(power, df)) * se
        # Both one-sided tests must succeed: half the chance of failing each (Chow, Shao and Wang, Sample Size
        # Calculations, 2003).
        same = (t_quantile(1 - alpha, df) + t_quantile(0.5 + power / 2, df)) * se
        if (effect > 0 and differs < effect) or same < room:
            return n
    return None


def accuracy_equivalence(
    base: Sequence[float], cand: Sequence[float], *, margin: float, alpha: float = 0.05
) -> Equivalence:
    """Whether the mean accuracies of k seeds a side differ by more than `margin` (same unit, say points).

    By the 1 - 2 * alpha Welch interval of candidate - base: wholly within -margin..margin it is EQUIVALENT
    (two one-sided tests at alpha), wholly outside on one side DIFFERENT (so significant as well as larger
    than the margin, wrong in at most alpha of the cases), else CANNOT_TELL, as with fewer than two seeds a
    side. A failed test of "no difference" is never taken for equivalence. ValueError for a margin that is not
    positive, alpha outside 0..0.5 or an accuracy that is not finite.
    """
    _check_margin(margin, alpha)
    if margin == 0:
        raise ValueError("no finite number of seeds shows a difference of exactly 0: give a margin above 0")
    for value in (*base, *cand):
        if not math.isfinite(value):
            raise ValueError(f"accuracies must be finite, got {value!r}")
    n = min(len(base), len(cand))
    if n < 2:
        return Equivalence(outcome=EquivalenceOutcome.CANNOT_TELL, difference=None, margin=margin)
    t = _welch(cand, base)
    half_width = t_quantile(1 - alpha, t.df) * t.se
    low, high = t.difference - half_width, t.difference + half_width
    if -margin < low and high < margin:
        outcome = EquivalenceOutcome.EQUIVALENT
    elif low > margin or high < -margin:
        outcome = EquivalenceOutcome.DIFFERENT
    else:
        outcome = EquivalenceOutcome.CANNOT_TELL
    difference = Interval(low=low, high=high, estimate=t.difference, confidence=1 - 2 * alpha, n=n)
    return Equivalence(outcome=outcome, difference=difference, margin=margin)


def _ratio(
    mean: float, se: float, df: float, *, n: int, confidence: float, log_sd: float, df_a_process: float
) -> Ratio:
    half_width = t_quantile(two_sided(confidence), df) * se
    interval = from_logs(mean, half_width, confidence=confidence, n=n)
    p_value = t_test(mean, se, df)
    return Ratio(
        interval=interval, p_value=p_value, log_se=se, df=df, log_sd=log_sd, df_a_process=df_a_process
    )


def _welch(
    first: Sequence[float], second: Sequence[float], wider_1: float = 1.0, wider_2: float = 1.0
) -> _Welch:
    """Welch's standard error and Satterthwaite's degrees of freedom; two or more values a side.

    `wider_1`, `wider_2`: factors on the variances.
    """
    (mean_1, var_1), (mean_2, var_2) = mean_and_variance(first), mean_and_variance(second)
    var_1, var_2 = wider_1 * var_1, wider_2 * var_2
    n_1, n_2 = len(first), len(second)
    largest = max(var_1, var_2)
    if largest == 0:
        return _Welch(difference=mean_1 - mean_2, se=0.0, df=n_1 + n_2 - 2, variances=0.0, balance=2.0)
    # Scaled by the larger variance: the square of a tiny one would underflow to 0 / 0.
    s_1, s_2 = var_1 / largest, var_2 / largest
    a, b = s_1 / n_1, s_2 / n_2
    return _Welch(
        difference=mean_1 - mean_2,
        se=math.sqrt(largest * (a + b)),
        df=(a + b) ** 2 / (a * a / (n_1 - 1) + b * b / (n_2 - 1)),
        variances=var_1 + var_2,
        balance=(s_1 + s_2) ** 2 / (s_1 * s_1 + s_2 * s_2),
    )


def _t_or_zero(probability: float, df: float) -> float:
    return 0.0 if probability == 0.5 else t_quantile(probability, df)


def _check_margin(margin: float, alpha: float) -> None:
    if not (margin >= 0 and math.isfinite(margin)):
        raise ValueError(f"a margin is 0 or more (0.05 for 5 %), got {margin!r}")
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, got {alpha!r}")
