"""How GPUs have grown and what that allows to say of 2030: one metric over the boards of a segment.

Knows nothing about how it is shown. The boards come from the catalog, the curves from `trend_models`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from breakeven.analysis.trend_ceiling import Ceiling, ceiling
from breakeven.analysis.trend_models import (
    MODELS,
    ORIGIN,
    SPACES,
    Fit,
    Vector,
    covariance,
    fit,
    jacobian_of,
)
from breakeven.catalog.gpus import Gpu, gpus
from breakeven.errors import UserError
from breakeven.stats import Interval
from breakeven.stats.student import t_quantile, two_sided

Segment = Literal["datacenter", "consumer", "all"]
SEGMENTS: tuple[Segment, ...] = ("datacenter", "consumer", "all")
UNTIL = tuple(float(year) for year in range(2026, 2031))
LEAST_BOARDS, LEAST_YEARS = 8, 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """What grows: its name for people, its unit, and how a board has it."""

    name: str
    unit: str
    of: Callable[[Gpu], float | None]


METRICS: Mapping[str, Metric] = {
    "memory": Metric(name="memory", unit="GiB", of=lambda gpu: gpu.memory_gib),
    "bandwidth": Metric(name="memory bandwidth", unit="GB/s", of=lambda gpu: gpu.bandwidth_gb_per_s),
    "fp32": Metric(name="FP32 peak", unit="TFLOP/s", of=lambda gpu: gpu.rates.get("fp32")),
    "fp16": Metric(name="FP16 peak", unit="TFLOP/s", of=lambda gpu: gpu.fp16_products),
    "power": Metric(name="board power", unit="W", of=lambda gpu: gpu.board_w),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One board: its release as a year with a fraction, and the metric in its unit."""

    gpu: str
    segment: str
    year: float
    value: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Trend:
    """The history of one metric and what curves say of it.

    `doubling_years` holds a 95 % interval that takes boards of one year as relatives; a bound may be missing
    where growth itself is not certain (`reasons`). `fits` are every model in both spaces, `cubic` the plain
    polynomial of one degree more: how far a forecast moves with that choice alone.
    """

    metric: str
    segment: Segment
    frontier: bool
    points: tuple[Point, ...]
    doubling_years: Interval | None
    fits: tuple[Fit, ...]
    cubic: Fit
    ceiling: Ceiling
    reasons: Mapping[str, str]

    def fit(self, model: str, space: str) -> Fit:
        """The fit of that model in that space. KeyError for a name that is not one."""
        for found in self.fits:
            if (found.model, found.space) == (model, space):
                return found
        raise KeyError((model, space))

    @property
    def guide(self) -> Fit:
        """The curve to forecast by: steady doubling, or the logistic where the data tell its ceiling."""
        return self.fit("logistic" if self.ceiling.identifiable else "exponential", "log")

    @property
    def best(self) -> Fit:
        """The fit with the lowest AICc."""
        return min(self.fits, key=lambda found: found.aicc)


def trend(metric: str, segment: Segment = "datacenter", *, frontier: bool = False) -> Trend:
    """The trend of a metric over the catalog's boards.

    `frontier`: only boards that set a record in their segment. Raises UserError for a metric that is not one,
    and where there are too few boards.
    """
    if metric not in METRICS:
        raise UserError(f"no trend of {metric!r}: one of {', '.join(METRICS)}")
    return of_points(points(metric, segment, frontier=frontier), metric, segment, frontier=frontier)


def segment_named(name: str) -> Segment:
    """The segment of that name. UserError for another."""
    for segment in SEGMENTS:
        if segment == name:
            return segment
    raise UserError(f"no segment {name!r}: one of {', '.join(SEGMENTS)}")


def points(metric: str, segment: Segment, *, frontier: bool) -> tuple[Point, ...]:
    """The boards that have the metric, by release date."""
    found = [
        Point(gpu=gpu.name, segment=gpu.segment, year=gpu.year, value=value)
        for gpu in gpus()
        if (segment == "all" or gpu.segment == segment) and (value := METRICS[metric].of(gpu)) is not None
    ]
    found.sort(key=lambda point: (point.year, -point.value))
    if not frontier:
        return tuple(found)
    records: list[Point] = []
    for point in found:
        if not records or point.value > records[-1].value:
            records.append(point)
    return tuple(records)


def of_points(
    history: Sequence[Point], metric: str, segment: Segment = "all", *, frontier: bool = False
) -> Trend:
    """The trend of given points. UserError where they are too few or of too few years."""
    years = np.array([point.year for point in history])
    values = np.array([point.value for point in history])
    if len(history) < LEAST_BOARDS or len(np.unique(np.floor(years))) < LEAST_YEARS:
        which = "records" if frontier else "boards"
        raise UserError(f"{len(history)} {which} with {metric} in the segment {segment}: too few for a trend")
    doubling, reasons = _doubling(years, values)
    return Trend(
        metric=metric,
        segment=segment,
        frontier=frontier,
        points=tuple(history),
        doubling_years=doubling,
        fits=tuple(fit(model, space, years, values, UNTIL) for space in SPACES for model in MODELS),
        cubic=fit("polynomial", "linear", years, values, UNTIL, degree=3),
        ceiling=ceiling(years, values),
        reasons=reasons,
    )


def _doubling(years: Vector, values: Vector) -> tuple[Interval | None, dict[str, str]]:
    """Years a doubling takes: the inverse slope of log2 over years, intervals by year (CR1, t)."""
    t, z = years - ORIGIN, np.log2(values)
    straight = np.polynomial.polynomial.polyfit(t, z, 1)
    off = z - np.polynomial.polynomial.polyval(t, straight)
    shared, df = covariance(jacobian_of("exponential", "log", straight, t), off, np.floor(years))
    slope, half = float(straight[1]), t_quantile(two_sided(0.95), df) * float(np.sqrt(shared[1, 1]))
    if slope - half <= 0:
        return None, {"doubling_years": "growth is not certain: the slope's interval reaches zero"}
    bounds = {"low": 1 / (slope + half), "high": 1 / (slope - half)}
    interval = Interval(estimate=1 / slope, **bounds, n=df + 1, confidence=0.95)
    return interval, {}
