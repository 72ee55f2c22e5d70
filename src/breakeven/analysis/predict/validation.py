"""How wrong forecasts are: whole devices and whole models left out, naive scaling beside, intervals counted.

Knows nothing about the user's case. Everything that is chosen by looking at errors (the widths of the
kernel, the width of the interval) is chosen anew for each left-out group from the other groups alone.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from breakeven.analysis.predict.model import (
    GRID,
    Array,
    Fitted,
    Stack,
    covariance,
    fit,
    forecast,
)
from breakeven.analysis.predict.rows import Row
from breakeven.analysis.predict.types import Score

CONFIDENCE = 0.9
TARGET = ("resnet50", "infer")
"""The rows that published tables have most of: the errors that are stated are of these."""
NAIVE: dict[str, Callable[[Row], float]] = {
    "ratio of peaks": lambda row: row.peak,
    "ratio of bandwidths": lambda row: row.board.bandwidth_gb_per_s,
    "ratio of board powers": lambda row: row.board.board_w or math.nan,
}
OURS = "floor and learned rest"


@dataclass(frozen=True, kw_only=True, slots=True)
class Learned:
    """The model of all rows; quantiles of its standardised left-out errors, by device and by model."""

    rows: tuple[Row, ...]
    stack: Stack
    fitted: Fitted
    device_quantile: float
    model_quantile: float
    scores: tuple[Score, ...]


def learn(rows: Sequence[Row], *, validate: bool = True) -> Learned:
    """Fits the rows (all with `seconds`); with `validate` also scores the method on left-out groups."""
    stack, logs = Stack.of(rows), np.log([row.seconds or math.nan for row in rows])
    inverses = [np.asarray(np.linalg.inv(covariance(stack, widths)), dtype=np.float64) for widths in GRID]
    every = np.arange(len(rows))
    fitted = fit(stack, logs, every, inverses)
    by_model = _group_scores(stack, logs, inverses, stack.model)
    scores: tuple[Score, ...] = ()
    if validate:
        by_device = _group_scores(stack, logs, inverses, stack.product)
        scores = (
            _score(OURS, "device", rows, by_device),
            _score(OURS, "model", rows, by_model, only=None),
            *_naive_scores(rows, logs),
            _score(OURS, "device, all rows", rows, by_device, only=None),
        )
    return Learned(
        rows=tuple(rows),
        stack=stack,
        fitted=fitted,
        device_quantile=quantile(np.abs(fitted.off) / fitted.spread, stack.product, CONFIDENCE),
        model_quantile=quantile(np.abs(by_model.off) / by_model.spread, stack.model, CONFIDENCE),
        scores=scores,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Left:
    """Errors on the logarithm, their standard deviations, and the bound that each had to keep."""

    off: Array
    spread: Array
    bound: Array


def _group_scores(stack: Stack, logs: Array, inverses: Sequence[Array], groups: NDArray[np.intp]) -> _Left:
    off, spread, bound = (np.full(len(logs), np.nan) for _ in range(3))
    for group in np.unique(groups):
        mine, others = np.flatnonzero(groups == group), np.flatnonzero(groups != group)
        # Inside, it is always devices that are left out: that is what the quantile is for.
        fitted = fit(stack, logs, others, inverses)
        mean, spread[mine] = forecast(fitted, stack, _part(stack, mine))
        off[mine] = logs[mine] - mean
        limit = quantile(np.abs(fitted.off) / fitted.spread, stack.product[others], CONFIDENCE)
        bound[mine] = limit * spread[mine]
    return _Left(off=off, spread=spread, bound=bound)


def _part(stack: Stack, index: NDArray[np.intp]) -> Stack:
    return Stack(**{name: getattr(stack, name)[index] for name in Stack.__dataclass_fields__})


def quantile(scores: Array, groups: NDArray[np.intp], confidence: float) -> float:
    """The bound that a score of a new group keeps with this confidence, each group counting once.

    Conformal: the new group itself stands for one more, at infinity. With too few groups the bound is the
    largest score seen, for infinity bounds nothing: what that covers is counted, not promised.
    """
    names, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.argsort(scores)
    mass = np.cumsum(1 / counts[inverse][order]) / (len(names) + 1)
    place = int(np.searchsorted(mass, confidence - 1e-12))
    return float(scores[order][min(place, len(order) - 1)])


def _score(
    name: str, left: str, rows: Sequence[Row], found: _Left, only: tuple[str, str] | None = TARGET
) -> Score:
    index = [i for i, row in enumerate(rows) if only is None or (row.model, row.task) == only]
    groups = [rows[i].model if left == "model" else rows[i].product for i in index]
    errors = np.abs(np.expm1(found.off[index]))
    inside = (np.abs(found.off[index]) <= found.bound[index]).astype(float)
    return Score(
        name=name,
        left_out=left,
        rows=len(index),
        groups=len(set(groups)),
        error=float(np.median(errors)),
        error_p90=float(np.quantile(errors, 0.9)),
        by_group=_by(groups, errors, np.median),
        covered=float(np.mean(inside)),
        covered_groups=float(np.mean(list(_by(groups, inside, np.mean).values()))),
    )


def _by(groups: Sequence[str], values: Array, of: Callable[[Array], object]) -> dict[str, float]:
    names = np.array(groups)
    return {name: float(of(values[names == name])) for name in dict.fromkeys(groups)}  # type: ignore[arg-type]


def _naive_scores(rows: Sequence[Row], logs: Array) -> list[Score]:
    """Another device's row of the most alike setting, scaled; the geometric mean of equally alike ones."""
    index = [i for i, row in enumerate(rows) if (row.model, row.task) == TARGET]
    nearest = {i: _nearest(i, rows) for i in index}
    groups = [rows[i].product for i in index]
    scores = []
    for name, of in NAIVE.items():
        each = np.array([logs[i] - math.log(row.batch) + math.log(of(row)) for i, row in enumerate(rows)])
        off = np.array([each[i] - each[nearest[i]].mean() for i in index])
        errors = np.abs(np.expm1(off))
        scores.append(
            Score(
                name=name,
                left_out="device",
                rows=len(index),
                groups=len(set(groups)),
                error=float(np.median(errors)),
                error_p90=float(np.quantile(errors, 0.9)),
                by_group=_by(groups, errors, np.median),
            )
        )
    return scores


def _nearest(place: int, rows: Sequence[Row]) -> list[int]:
    wanted = rows[place]
    others = [i for i, row in enumerate(rows) if row.product != wanted.product]
    unlike = np.array([_unlike(wanted, rows[i]) for i in others])
    return [others[k] for k in np.flatnonzero(unlike <= unlike.min() + 1e-9)]


def _unlike(a: Row, b: Row) -> float:
    """What matters most weighs most: model and task, arithmetic, launches, layout, source, batch."""
    return (
        100 * ((a.model, a.task) != (b.model, b.task))
        + 20 * (a.kind != b.kind)
        + 5 * ((a.launch, a.fusion) != (b.launch, b.fusion))
        + 2 * (a.channels_last != b.channels_last)
        + (a.source != b.source)
        + abs(math.log2(a.batch / b.batch))
    )
