"""The law of a floor and a line: planted numbers come back, and no law is seen that was not planted."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from breakeven.stats.knee import choose, fit

BATCHES = [float(2**k) for k in range(10)]


def law(floor: float, fixed: float, rate: float, x: float) -> float:
    return max(floor, fixed + x / rate)


@pytest.mark.parametrize(
    ("floor", "fixed", "rate", "expected"),
    [
        (2e-3, 5e-4, 10_000.0, "knee"),
        (2e-3, 0.0, 16_000.0, "knee"),
        (7e-3, 1e-3, 30_000.0, "knee"),
        (0.0, 1e-3, 1_000.0, "line"),
        (5e-4, 5e-4, 3_000.0, "line"),
        (1.0, 0.0, 1e6, "flat"),
    ],
)
def test_the_planted_law_comes_back_exactly(floor: float, fixed: float, rate: float, expected: str) -> None:
    times = [law(floor, fixed, rate, x) for x in BATCHES]
    found = choose(BATCHES, times)
    assert found is not None and found.law == expected and found.misfit < 1e-9
    if expected == "knee":
        assert found.floor == pytest.approx(floor) and found.rate == pytest.approx(rate)
        assert found.fixed == pytest.approx(fixed, abs=1e-9)
        assert found.knee == pytest.approx(rate * (floor - fixed))
    elif expected == "line":
        assert found.floor is None and found.knee is None
        assert (found.fixed, found.rate) == (pytest.approx(fixed), pytest.approx(rate))
    assert [found.at(x) for x in BATCHES] == pytest.approx(times)


@pytest.mark.parametrize(
    ("floor", "fixed", "rate", "expected"),
    [(2e-3, 5e-4, 1e4, "knee"), (0.0, 1e-3, 2e3, "line"), (1.0, 0.0, 1e6, "flat")],
)
def test_noise_plants_no_other_law(floor: float, fixed: float, rate: float, expected: str) -> None:
    """Two percent on every point: at most one trial of ten tells another law."""
    rng = random.Random(1)
    seen: Counter[str] = Counter()
    for _ in range(200):
        times = [law(floor, fixed, rate, x) * math.exp(rng.gauss(0, 0.02)) for x in BATCHES]
        found = choose(BATCHES, times)
        assert found is not None
        seen[found.law] += 1
    assert seen[expected] >= 180


def test_a_single_point_is_neither_a_floor_nor_a_slope() -> None:
    """The naive split at any point fits a floor to one point, and any curve has a knee then."""
    bent = [1.0, 1.05, 2.0, 4.0, 8.0]
    found = fit([1, 2, 4, 8, 16], bent, "knee")
    assert found is None or (found.knee is not None and 2 < found.knee < 8)
    assert fit([1, 2, 4], [1.0, 1.0, 2.0], "knee") is None
    assert choose([1, 2], [1.0, 2.0]) is None


def test_a_time_that_falls_has_no_line() -> None:
    assert fit(BATCHES, [1 / x for x in BATCHES], "line") is None
    with pytest.raises(ValueError, match="times"):
        fit([1.0, 2.0], [1.0, 0.0], "flat")
    with pytest.raises(ValueError, match="2 places"):
        fit([1.0, 2.0], [1.0], "flat")


def test_the_cost_besides_the_images_is_not_negative() -> None:
    """Times that grow faster than the batch: no cost below nought explains them."""
    found = fit(BATCHES, [x**1.2 for x in BATCHES], "line")
    assert found is not None and found.fixed == 0.0 and found.misfit > 0.15
