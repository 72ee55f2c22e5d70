"""The model of a step: a floor with measured efficiencies, and what devices and settings do beside it.

Knows nothing about where rows come from. First a handful of efficiencies, fitted to all rows at once:

    t = (h^p + d^p)^(1/p)
    h = launches x microseconds a launch
    d = sum over bins of hypot(F / (a P), M / (b W))

with F, M the FLOPs and bytes of the bin's layers, P and W the board's datasheet peak and bandwidth, a and b
the shares of them that are reached. It is the layers' roofline, its corner rounded (hypot for max), which a
step that the host must launch cannot beat. Then the logarithms that this leaves are smoothed by kernel ridge
regression (a Gaussian process' mean) over settings and devices. scikit-learn has the same (`KernelRidge` on a
precomputed kernel: a test holds this to it); what it has not, and importing it costs half a second, is the
closed form of leaving a whole group out (Rasmussen and Williams 2006, section 5.4.2), which chooses the
kernel's widths here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from breakeven.analysis.predict.rows import FUSIONS, KINDS, LAUNCHES, Row

Array = NDArray[np.float64]

START = np.log([50, 30, 15, 10, 10, 0.6, 0.4, 0.5, 0.5, 0.7, 1.3, 2.5, 1.5, 1.2])
"""Efficiencies to start from and to be drawn to: microseconds a launch by LAUNCHES, shares of the peak by
KINDS, of the bandwidth by FUSIONS (above 1 where fused layers move less than the floor counts), the
exponent p, and what channels-last is worth. A captured launch has no published row: 10 us is an engine's."""
SPREAD = np.array([0.7] * 5 + [0.4] * 4 + [0.4] * 3 + [0.3, 0.2])
"""How far each may be from there, on the logarithm: a factor of two for launches, of 1.5 for the rest."""
AT_KIND, AT_FUSION, AT_POWER, AT_LAST = 5, 9, 12, 13
SCATTER = 0.3
"""A row is off by this (on the logarithm) before it counts less: boards differ by as much."""
NOISE = 0.08
"""Rows of one board and setting scatter by this: what two of one board's own tables differ by."""
CLASHES = {"launch": 1.0, "kind": 1.0, "source": 0.5, "task": 1.0, "last": 0.5}
"""By how much another setting halves what two rows have in common: exp(-clash)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Widths:
    """Standard deviations on the logarithm: settings, settings by device, devices, one product; and how near
    devices are alike (`length`, on the logarithm of their features)."""

    settings: float
    crossed: float
    devices: float
    product: float
    length: float


GRID = (
    Widths(settings=0.2, crossed=0.0, devices=0.0, product=0.2, length=1.0),
    Widths(settings=0.4, crossed=0.0, devices=0.0, product=0.2, length=1.0),
    Widths(settings=0.4, crossed=0.3, devices=0.0, product=0.2, length=1.0),
    Widths(settings=0.4, crossed=0.3, devices=0.2, product=0.2, length=1.0),
    Widths(settings=0.3, crossed=0.3, devices=0.2, product=0.1, length=2.0),
    Widths(settings=0.3, crossed=0.3, devices=0.2, product=0.3, length=0.7),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Stack:
    """Rows as arrays: n rows, FLOPs and bytes [n, bins], device features [n, 4] on logarithms."""

    flops: Array
    bytes: Array
    launches: Array
    peak: Array
    bandwidth: Array
    launch: NDArray[np.intp]
    kind: NDArray[np.intp]
    fusion: NDArray[np.intp]
    last: NDArray[np.intp]
    source: NDArray[np.intp]
    task: NDArray[np.intp]
    batch: Array
    device: Array
    product: NDArray[np.intp]
    model: NDArray[np.intp]

    @staticmethod
    def of(rows: Sequence[Row]) -> "Stack":
        sources, products, names = (
            {name: place for place, name in enumerate(dict.fromkeys(values))}
            for values in (
                (row.source for row in rows),
                (row.product for row in rows),
                (row.model for row in rows),
            )
        )
        return Stack(
            flops=np.array([row.effort.flops for row in rows]),
            bytes=np.array([row.effort.bytes for row in rows]),
            launches=np.array([float(row.effort.launches) for row in rows]),
            peak=np.array([row.peak for row in rows]),
            bandwidth=np.array([1e9 * row.board.bandwidth_gb_per_s for row in rows]),
            launch=np.array([LAUNCHES.index(row.launch) for row in rows]),
            kind=np.array([KINDS.index(row.kind) for row in rows]),
            fusion=np.array([FUSIONS.index(row.fusion) for row in rows]),
            last=np.array([int(row.channels_last) for row in rows]),
            source=np.array([sources[row.source] for row in rows]),
            task=np.array([int(row.task == "train") for row in rows]),
            batch=np.log2([row.batch for row in rows]),
            device=np.array([_features(row) for row in rows]),
            product=np.array([products[row.product] for row in rows]),
            model=np.array([names[row.model] for row in rows]),
        )


def _features(row: Row) -> tuple[float, ...]:
    """Bandwidth, peak, watts a TFLOP and lanes of a board at the row's arithmetic, on the logarithm."""
    watts, lanes = row.board.board_w or np.nan, row.board.fp32_lanes or np.nan
    return (
        float(np.log(row.board.bandwidth_gb_per_s / 1e3)),
        float(np.log(row.peak / 1e14)),
        float(np.log(watts * 1e12 / row.peak)),
        float(np.log(lanes / 5e3)),
    )


def physics(theta: Array, stack: Stack, index: NDArray[np.intp]) -> Array:
    """The logarithm of the seconds by the efficiencies `theta` alone."""
    host, device, power = _sides(theta, stack, index)
    logs = np.log(np.stack([host, device])) * power
    return np.asarray(np.logaddexp(logs[0], logs[1]) / power)


def launch_share(theta: Array, stack: Stack, index: NDArray[np.intp]) -> Array:
    """The launches' time over that of launches and work: above a half the host binds."""
    host, device, _ = _sides(theta, stack, index)
    return np.asarray(host / (host + device))


def _sides(theta: Array, stack: Stack, index: NDArray[np.intp]) -> tuple[Array, Array, float]:
    e = np.exp(theta)
    host = 1e-6 * e[stack.launch[index]] * stack.launches[index]
    reached = e[AT_KIND + stack.kind[index]] * stack.peak[index]
    moved = e[AT_FUSION + stack.fusion[index]] * stack.bandwidth[index]
    moved = moved * np.where(stack.last[index] == 1, e[AT_LAST], 1.0)
    parts = np.hypot(stack.flops[index] / reached[:, None], stack.bytes[index] / moved[:, None])
    return host, parts.sum(axis=1), float(e[AT_POWER])


def fit_physics(stack: Stack, logs: Array, index: NDArray[np.intp]) -> Array:
    """Efficiencies from the rows `index`; a product with many rows does not drown the others."""
    from scipy.optimize import least_squares

    _, inverse, counts = np.unique(stack.product[index], return_inverse=True, return_counts=True)
    weights = counts[inverse] ** -0.5
    weights = weights / weights.mean()

    def residuals(theta: Array) -> Array:
        off = (logs[index] - physics(theta, stack, index)) / SCATTER
        # Pseudo-Huber: square near 0, straight beyond one SCATTER.
        off = np.sign(off) * np.sqrt(2 * (np.sqrt(1 + off * off) - 1))
        return np.concatenate([weights * off, (theta - START) / SPREAD])

    return np.asarray(least_squares(residuals, START, max_nfev=30, ftol=1e-4, xtol=1e-4, gtol=1e-6).x)


def kernel(a: Stack, b: Stack, widths: Widths) -> Array:
    """What the residuals of the rows of `a` and `b` share [len(a), len(b)], without their product."""
    apart = 2.0 * 2.0  # two doublings of the batch
    near = -0.5 * (a.batch[:, None] - b.batch[None]) ** 2 / apart
    alike = np.zeros_like(near)
    for name, clash in CLASHES.items():
        alike -= clash * (getattr(a, name)[:, None] != getattr(b, name)[None])
    scaled = (a.device[:, None, :] - b.device[None]) / widths.length
    device = np.exp(-0.5 * (scaled**2).sum(axis=2))
    settings = np.exp(alike)
    return np.asarray(
        widths.settings**2 * settings * np.exp(near)
        + widths.crossed**2 * settings * device
        + widths.devices**2 * device
    )


def covariance(stack: Stack, widths: Widths) -> Array:
    """The kernel of all rows with what rows of one product share, and the noise."""
    full = kernel(stack, stack, widths)
    full += widths.product**2 * (stack.product[:, None] == stack.product[None])
    return full + NOISE**2 * np.eye(len(full))


def left_out(inverse: Array, residuals: Array, groups: NDArray[np.intp]) -> tuple[Array, Array]:
    """What each group's residuals leave when forecast from the others, and the standard deviations."""
    weighted = inverse @ residuals
    off, spread = np.empty_like(residuals), np.empty_like(residuals)
    for group in np.unique(groups):
        mine = np.flatnonzero(groups == group)
        block = np.linalg.inv(inverse[np.ix_(mine, mine)])
        off[mine] = block @ weighted[mine]
        spread[mine] = np.sqrt(np.maximum(np.diag(block), NOISE**2))
    return off, spread


@dataclass(frozen=True, kw_only=True, slots=True)
class Fitted:
    """A model of the rows `index`: `off` and `spread` as by `left_out`, on the logarithm."""

    theta: Array
    widths: Widths
    index: NDArray[np.intp]
    weights: Array
    inverse: Array
    off: Array
    spread: Array


def without(inverse: Array, kept: NDArray[np.intp]) -> Array:
    """The inverse of the rows and columns `kept` of the matrix whose inverse is given (Schur complement)."""
    gone = np.setdiff1d(np.arange(len(inverse)), kept)
    if not len(gone):
        return inverse
    cross = inverse[np.ix_(kept, gone)]
    return np.asarray(
        inverse[np.ix_(kept, kept)] - cross @ np.linalg.solve(inverse[np.ix_(gone, gone)], cross.T)
    )


def fit(stack: Stack, logs: Array, index: NDArray[np.intp], inverses: Sequence[Array]) -> Fitted:
    """Efficiencies, then the widths of the grid that forecast left-out products best, then the weights.

    `inverses`: of the covariances of all rows, by the grid.
    """
    theta = fit_physics(stack, logs, index)
    residuals = logs[index] - physics(theta, stack, index)
    groups = stack.product[index]
    best: tuple[float, Widths, Array, Array, Array] | None = None
    for widths, full in zip(GRID, inverses, strict=True):
        inverse = without(full, index)
        off, spread = left_out(inverse, residuals, groups)
        # The mean of the groups' medians: each device counts once.
        loss = float(np.mean([np.median(np.abs(off[groups == group])) for group in np.unique(groups)]))
        if best is None or loss < best[0]:
            best = loss, widths, inverse, off, spread
    assert best is not None
    _, widths, inverse, off, spread = best
    return Fitted(
        theta=theta, widths=widths, index=index, weights=inverse @ residuals, inverse=inverse,
        off=off, spread=spread,
    )  # fmt: skip


def forecast(fitted: Fitted, known: Stack, wanted: Stack) -> tuple[Array, Array]:
    """(logarithm of seconds, standard deviation) of the rows of `wanted`, whose products count as unseen."""
    every = np.arange(len(wanted.launches))
    shared = kernel(wanted, known, fitted.widths)[:, fitted.index]
    w = fitted.widths
    own = w.settings**2 + w.crossed**2 + w.devices**2 + w.product**2 + NOISE**2
    spread = own - ((shared @ fitted.inverse) * shared).sum(axis=1)
    mean = physics(fitted.theta, wanted, every) + shared @ fitted.weights
    return mean, np.sqrt(np.maximum(spread, NOISE**2))
