"""Findings along an axis: the step against the number of cores, the ratio against batch or model size.

Knows nothing about how they are worked out or shown. As in `findings`, what cannot be defended is None and
the reason stands in `reasons`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from breakeven.stats import Interval

Trend = Literal["grows", "falls", "no trend", "super-linear", "cannot be told"]
Answer = Literal["always", "never", "between", "several", "cannot be told"]
Axis = Literal["batch", "flops", "parameters"]


@dataclass(frozen=True, kw_only=True, slots=True)
class CoresPoint:
    """One number of cores: the step in seconds, T(1)/T(n), and the serial share after Karp and Flatt."""

    cores: int
    step_s: float
    speedup: Interval | None = None
    serial: Interval | None = None
    serial_point: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class CoresFinding:
    """How a step on identical cores gets faster with their number, by Amdahl's law.

    `parallel` is the share p of T(n) = T(1) ((1 - p) + p / n), one fit a replicate; `limit` is 1 / (1 - p),
    what no number of cores passes, known for p between 0 and 1 from three numbers of cores on, as two fit any
    law; an end is None where the interval of p lies beyond. `misfit` is the largest
    relative error of the law at a measured point. `per_doubling` is the slope of the Karp-Flatt share against
    log2 n: where it grows, what limits is an overhead that comes with the cores and no serial part. It is
    negative where the speed-up passes the number of cores (`super-linear`). `apart`: not measured in
    turn.
    """

    model: str
    batch: int
    tuning_name: str
    device_label: str
    points: tuple[CoresPoint, ...]
    processes: int
    parallel: Interval | None = None
    parallel_point: float | None = None
    limit: float | None = None
    limit_low: float | None = None
    limit_high: float | None = None
    misfit: float | None = None
    per_doubling: Interval | None = None
    trend: Trend = "cannot be told"
    data: str = ""
    seed: int = 0
    simulated: bool = False
    disturbed: bool = False
    apart: bool = False
    source: str = ""
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class WhatIfFinding:
    """What the ratio at `tuning_name` could be if the candidate made all but the input free.

    `share` is the part of the base's step that `next_tuning` removes, 1 - T(next)/T(this): the input, which
    no faster device shortens. It bounds the ratio by `bound` = 1 / share, if it takes both devices as long.
    `ratio` is what was measured, `next_ratio` the ratio once both sides have removed it. `holds`: whether
    the measured ratio stays within the bound; `exceeded` says that the share costs the candidate less.
    """

    model: str
    batch: int
    base_label: str
    candidate_label: str
    tuning_name: str
    next_tuning: str
    share: Interval | None = None
    candidate_share: Interval | None = None
    bound: Interval | None = None
    ratio: Interval | None = None
    next_ratio: Interval | None = None
    holds: Literal["within", "exceeded", "cannot be told"] = "cannot be told"
    disturbed: bool = False
    data: str = ""
    seed: int = 0
    source: str = ""
    evidence: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class CurvePoint:
    """The ratio at one batch or model. `side`: 1 the candidate is faster, -1 slower, 0 cannot be told.

    `side` is the verdict on the ratio, corrected as every verdict over all ratios of the file.
    """

    x: float
    name: str
    ratio: float
    low: float | None
    high: float | None
    side: Literal[-1, 0, 1]


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakEvenFinding:
    """The batch or model size at which the candidate starts to win over the base (`wins_above`), or stops.

    `at` is where the ratio, interpolated on logarithms, passes 1; `low` and `high` are the ends of its
    interval, None where it is open: it lies below all that was measured, or above. `after` and `before` are
    the measured values that surely lie on its two sides. `changes` lists all sure changes of side. `missing`
    are the values without a ratio, each with its reason.
    """

    axis: Axis
    base_label: str
    candidate_label: str
    tuning_name: str
    tuning_base: str
    answer: Answer
    points: tuple[CurvePoint, ...]
    model: str | None = None
    batch: int | None = None
    wins_above: bool = True
    at: float | None = None
    low: float | None = None
    high: float | None = None
    after: float | None = None
    before: float | None = None
    changes: tuple[tuple[float, float], ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    processes: int = 0
    mixed: bool = False
    data: str = ""
    seed: int = 0
    source: str = ""
    evidence: tuple[str, ...] = ()
    reason: str | None = None
