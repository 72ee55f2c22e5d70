"""Intervals of shares: coverage by exact enumeration, published examples, and their limits."""

import math

import numpy as np
import pytest

from breakeven import stats


@pytest.mark.parametrize("p", [0.5, 0.9, 0.98, 0.995])
def test_a_share_is_covered(p: float) -> None:
    n = 360
    chances = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
    covered = sum(c for k, c in enumerate(chances) if stats.share_interval(k, n).contains(p))
    assert covered > 0.92


@pytest.mark.parametrize(("lost", "gained"), [(0.002, 0.002), (0.03, 0.01), (0.2, 0.1), (0.0, 0.0)])
@pytest.mark.parametrize("n", [64, 360])
def test_a_paired_change_is_covered(lost: float, gained: float, n: int) -> None:
    rng = np.random.default_rng(7)
    draws = rng.multinomial(n, [lost, gained, 1 - lost - gained], size=4000)
    hits = sum(stats.paired_change(a, b, n).contains(gained - lost) for a, b, _ in draws.tolist())
    assert hits / len(draws) > 0.94


@pytest.mark.parametrize(("p", "q"), [(0.98, 0.98), (0.98, 0.9), (0.1, 0.1)])
def test_a_change_without_pairs_is_covered(p: float, q: float) -> None:
    rng = np.random.default_rng(7)
    base, now = (rng.binomial(360, share, size=4000).tolist() for share in (p, q))
    found = [stats.change_of_shares(a, b, 360).contains(q - p) for a, b in zip(base, now, strict=True)]
    assert sum(found) / len(found) > 0.94


def test_wilson_by_hand() -> None:
    """0 of 10: 0 to z^2 / (n + z^2)."""
    found = stats.share_interval(0, 10)
    assert (found.low, found.high) == (0.0, pytest.approx(1.959964**2 / (10 + 1.959964**2), rel=1e-6))


def test_nothing_that_differs_still_leaves_room() -> None:
    found = stats.paired_change(0, 0, 360)
    assert found.estimate == 0 and found.low == pytest.approx(-found.high) and 0.007 < found.high < 0.008


def test_pairs_are_narrower_than_none() -> None:
    paired, free = stats.paired_change(6, 2, 360), stats.change_of_shares(350, 346, 360)
    assert paired.estimate == pytest.approx(free.estimate) and paired.high - paired.low < free.high - free.low


@pytest.mark.parametrize(("count", "n"), [(-1, 10), (11, 10), (0, 0)])
def test_a_count_that_is_none_is_refused(count: int, n: int) -> None:
    with pytest.raises(ValueError, match="from 0 to n"):
        stats.share_interval(count, n)
