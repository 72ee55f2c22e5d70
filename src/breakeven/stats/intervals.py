"""Student t intervals on logarithms: of a case, of a forecast, of a power law's exponent.

Knows nothing about what a value measures. Times and rates spread by factors, not by amounts, so every
interval here is made on logs and back-transformed: it is equivariant under a change of unit and of direction
(time or rate).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from breakeven.stats.sequential import widening
from breakeven.stats.student import t_quantile, t_test, two_sided

K = TypeVar("K")

# exp() overflows at 709.8: two values 1e30 apart can give such a bound, and a record may hold no infinity.
LARGEST_LOG = 700.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """An estimate from `n` independent values with its confidence interval, in the unit of the estimate."""

    low: float
    high: float
    estimate: float
    confidence: float
    n: int

    @property
    def relative_half_width(self) -> float:
        """Half the width as a share of the estimate: 0.01 is "plus or minus 1 %"."""
        return (self.high - self.low) / (2 * abs(self.estimate)) if self.estimate else math.inf

    def contains(self, value: float) -> bool:
        """Whether `value` lies in the closed interval."""
        return self.low <= value <= self.high


def logs_of(values: Iterable[float], what: str) -> list[float]:
    """Natural logs. Raises ValueError naming `what` where a value is not positive and finite."""
    logs = []
    for value in values:
        if not (value > 0 and math.isfinite(value)):
            raise ValueError(f"{what} must be positive and finite, got {value!r}")
        logs.append(math.log(value))
    return logs


def mean_and_variance(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample variance (n - 1) of two or more values; fsum, so that their order never matters."""
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)


def from_logs(mean: float, half_width: float, *, confidence: float, n: int) -> Interval:
    """The back-transformed interval exp(mean +- half_width), its bounds kept finite."""
    low, estimate, high = (
        math.exp(max(-LARGEST_LOG, min(LARGEST_LOG, x))) for x in (mean - half_width, mean, mean + half_width)
    )
    return Interval(low=low, high=high, estimate=estimate, confidence=confidence, n=n)


def _log_t_interval(
    values: Iterable[float], what: str, confidence: float, one_more: float, looks: Sequence[int]
) -> Interval | None:
    probability = two_sided(confidence)
    logs = logs_of(values, what)
    n = len(logs)
    if n < 2:
        return None
    mean, variance = mean_and_variance(logs)
    half_width = t_quantile(probability, n - 1) * math.sqrt(variance * (1 / n + one_more))
    half_width *= widening(n, looks, confidence=confidence)
    return from_logs(mean, half_width, confidence=confidence, n=n)


def case_interval(
    process_medians: Iterable[float], *, confidence: float = 0.95, looks: Sequence[int] = ()
) -> Interval | None:
    """Interval of a case from one median a process (any unit): Student t on their logs, back-transformed.

    The process is the unit of repetition: samples of one process share its memory layout, tuned kernels and
    clocks, and an interval pooled from them misses the truth nearly always. The estimate is the geometric
    mean. A bootstrap of 3-10 values covers 74-88 % instead of 95 %. `looks`: the numbers of processes at
    which it was asked whether to add more (`sequential.widening`); none for a number fixed beforehand. None
    for fewer than two processes; ValueError for a median that is not positive and finite. Reference: Student,
    "The probable error of a mean", Biometrika 6 (1908).
    """
    return _log_t_interval(process_medians, "process medians", confidence, one_more=0.0, looks=looks)


def prediction_interval(
    process_totals: Iterable[float], *, confidence: float = 0.95, looks: Sequence[int] = ()
) -> Interval | None:
    """Interval for the total of one further process, from the totals of n processes (any unit, not their
    logs).

    t on logs with the factor sqrt(1 + 1/n): the next run deviates itself, whatever is known of the mean. With
    4 % spread and n = 3 it is about plus or minus 20 %. `looks`, None and ValueError as `case_interval`.
    Reference: Hahn and Meeker, Statistical Intervals (1991).
    """
    return _log_t_interval(process_totals, "process totals", confidence, one_more=1.0, looks=looks)


def mean_interval(
    values: Iterable[float], *, confidence: float = 0.95, looks: Sequence[int] = ()
) -> Interval | None:
    """Student t on the values themselves, one a process: for what may be 0 or negative, such as a share or a
    slope.

    `looks` as `case_interval`. None for fewer than two values; ValueError for one that is not finite.
    """
    probability = two_sided(confidence)
    known = list(values)
    for value in known:
        if not math.isfinite(value):
            raise ValueError(f"values must be finite, got {value!r}")
    n = len(known)
    if n < 2:
        return None
    mean, variance = mean_and_variance(known)
    half_width = t_quantile(probability, n - 1) * math.sqrt(variance / n)
    half_width *= widening(n, looks, confidence=confidence)
    return Interval(low=mean - half_width, high=mean + half_width, estimate=mean, confidence=confidence, n=n)


def geometric_mean(values: Iterable[float]) -> float:
    """Geometric mean, in the unit of the values. ValueError for none, or one not positive and finite."""
    logs = logs_of(values, "values of a geometric mean")
    if not logs:
        raise ValueError("a geometric mean needs at least one value")
    return math.exp(math.fsum(logs) / len(logs))


def geometric_mean_ratio(base: Mapping[K, float], cand: Mapping[K, float]) -> float:
    """Geometric mean over cases of base / candidate: the only mean of ratios that ignores which side is the
    base.

    ValueError when the cases differ (a mean over other cases is another quantity) or are none.
    Reference: Fleming and Wallace, "How not to lie with statistics", CACM 29 (1986).
    """
    if base.keys() != cand.keys():
        odd = sorted(map(repr, base.keys() ^ cand.keys()))
        raise ValueError(f"cases on one side only: {', '.join(odd)}")
    denominator = geometric_mean(cand.values())
    return geometric_mean(base.values()) / denominator


@dataclass(frozen=True, kw_only=True, slots=True)
class Slope:
    """Exponent b of y = a * x**b, before it is said how sure it has to be.

    `errors` are its standard errors with their degrees of freedom: by the scatter about the line, and by what
    the points' own intervals leave open. The larger half width counts, so a slope is no surer than either.
    """

    estimate: float
    n: int
    errors: tuple[tuple[float, float], ...]

    @property
    def p_value(self) -> float:
        """Two-sided, of no slope, before any correction."""
        return max(t_test(self.estimate, se, df) for se, df in self.errors)

    def interval(self, *, confidence: float = 0.95) -> Interval:
        """Without 0 exactly where the p-value is below 1 - confidence."""
        probability = two_sided(confidence)
        half_width = max(t_quantile(probability, df) * se for se, df in self.errors)
        return Interval(
            low=self.estimate - half_width,
            high=self.estimate + half_width,
            estimate=self.estimate,
            confidence=confidence,
            n=self.n,
        )


def slope_of(
    x: Sequence[float], y: Sequence[float], errors: Sequence[tuple[float, float]] = ()
) -> Slope | None:
    """Exponent b of y = a * x**b by least squares on logs.

    For a speed-up against model size: b > 0 means that it grows with size. The scatter about the line has
    n - 2 degrees of freedom; it does not tell whether a power law is right. `errors` are standard errors of
    log(y) with their degrees of freedom: three uncertain points lie on a line by luck often enough, so the
    slope is never surer than what they leave open, by the least degrees of freedom of any. None for fewer
    than three points or when all x are equal; ValueError for unequal lengths or a value that is not positive
    and finite.
    """
    if len(x) != len(y) or (errors and len(errors) != len(y)):
        raise ValueError(f"{len(x)} sizes but {len(y)} ratios and {len(errors)} errors")
    u, v = logs_of(x, "sizes"), logs_of(y, "ratios")
    n = len(u)
    if n < 3 or min(u) == max(u):
        return None
    u_mean, v_mean = math.fsum(u) / n, math.fsum(v) / n
    u_squares = math.fsum((a - u_mean) ** 2 for a in u)
    slope = math.fsum((a - u_mean) * (b - v_mean) for a, b in zip(u, v, strict=True)) / u_squares
    residual = math.fsum((b - v_mean - slope * (a - u_mean)) ** 2 for a, b in zip(u, v, strict=True))
    found = [(math.sqrt(residual / (n - 2) / u_squares), float(n - 2))]
    if errors:
        # The slope is a sum of the logs of y, each with the weight (u - u_mean) / u_squares.
        squares = (((a - u_mean) / u_squares * se) ** 2 for a, (se, _) in zip(u, errors, strict=True))
        found.append((math.sqrt(math.fsum(squares)), min(df for _, df in errors)))
    return Slope(estimate=slope, n=n, errors=tuple(found))
