"""The gate's error rate and power, by simulation of the very decision that `compare` takes."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from breakeven import stats
from breakeven.stats.gate import holm_last_axis

CASES, SPREAD, ALPHA = 40, 0.04, 0.05


def decided(rng: Any, trials: int, n: int, slower: dict[int, float], cases: int = CASES) -> Any:
    """What the gate says of `trials` comparisons of `n` processes a side: bools (trials, cases).

    Times spread by SPREAD on the log scale between processes; the new side of case i is slower by slower[i].
    """
    shift = np.array([math.log1p(slower.get(i, 0.0)) for i in range(cases)])
    base = rng.normal(0.0, SPREAD, (trials, cases, n))
    new = rng.normal(0.0, SPREAD, (trials, cases, n)) + shift[:, None]
    a, b = base.var(axis=-1, ddof=1) / n, new.var(axis=-1, ddof=1) / n
    df = (a + b) ** 2 / (a * a / (n - 1) + b * b / (n - 1))
    log_ratio = base.mean(axis=-1) - new.mean(axis=-1)
    return stats.slowdowns(log_ratio, np.sqrt(a + b), df, threshold=0.05)


@pytest.mark.parametrize("n", [3, 12])
def test_of_comparisons_where_nothing_changed_at_most_half_of_alpha_fail(n: int) -> None:
    """The stated share is 2.5 %: a two-sided 5 %, of which the faster half fails nothing."""
    trials = 8000
    failed = decided(np.random.default_rng(n), trials, n, {}).any(axis=-1).mean()
    noise = 4 * math.sqrt(0.025 * 0.975 / trials)
    assert failed <= ALPHA / 2 + noise
    # With 12 a side the test is about as sharp as it may be; with 3 Welch's is on the safe side.
    assert n < 12 or failed >= ALPHA / 2 - noise - 0.005
    naive = np.random.default_rng(n).normal(0.0, SPREAD * math.sqrt(2 / 3), (1000, CASES)) < -math.log(1.05)
    assert naive.any(axis=-1).mean() > 0.9  # a bare 5 % threshold on medians of three


def test_twelve_a_side_see_ten_percent_among_forty_cases() -> None:
    """The promise of docs/ci.md: 10 % slower, 4 % spread, 40 cases, 12 processes a side."""
    trials = 4000
    power = {n: decided(np.random.default_rng(7), trials, n, {17: 0.10})[:, 17].mean() for n in (3, 8, 12)}
    assert power[12] > 0.93
    assert power[3] < 0.1 < power[8] < 0.85  # three processes see nothing of it
    promised = {"tests": CASES, "threshold": 0.05, "power": 0.9}
    assert stats.visible_slowdown(SPREAD, 12, **promised) < 0.10  # type: ignore[arg-type]
    assert stats.processes_to_see(0.10, SPREAD, **promised) in (10, 11, 12)  # type: ignore[arg-type]


@pytest.mark.parametrize("n", [6, 12, 24])
def test_the_slowdown_that_is_promised_is_seen_as_often_as_promised(n: int) -> None:
    slowdown = stats.visible_slowdown(SPREAD, n, tests=CASES, threshold=0.05)
    seen = decided(np.random.default_rng(n), 3000, n, {0: slowdown})[:, 0].mean()
    assert abs(seen - 0.8) < 0.03


def test_the_page_tells_what_was_simulated() -> None:
    """docs/ci.md: processes a side, the share of 10 % slowdowns that fail, what is seen with 80 %."""
    page = (Path(__file__).parents[1] / "docs" / "ci.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| (\d+) \| at most 2.5 % of runs \| (?:below )?(\d+) % \| ([\d.]+) % \|$", page, re.M
    )
    assert [int(n) for n, *_ in rows] == [3, 8, 12]
    for n, fails, seen in rows:
        found = decided(np.random.default_rng(7), 4000, int(n), {17: 0.10})[:, 17].mean()
        assert 100 * found == pytest.approx(float(fails), abs=3) or (
            int(n) == 3 and 100 * found < float(fails)
        )
        visible = stats.visible_slowdown(SPREAD, int(n), tests=CASES, threshold=0.05)
        assert 100 * visible == pytest.approx(float(seen), rel=0.02)


def test_a_real_slowdown_below_the_threshold_passes() -> None:
    """3 % at 200 processes is sure and unimportant; a threshold on the estimate lets it through."""
    assert not decided(np.random.default_rng(1), 50, 200, {0: 0.03}, cases=4).any()


def test_the_arrays_decide_as_the_scalars_do() -> None:
    rng = np.random.default_rng(3)
    p = rng.uniform(0, 1, (50, 7)) ** 3
    assert np.allclose(holm_last_axis(p), [stats.holm(list(row)) for row in p])
    base, new = np.exp(rng.normal(0, 0.04, (6, 5))), np.exp(rng.normal(0.1, 0.04, (6, 5)))
    ratios = [stats.welch_ratio(a, b) for a, b in zip(base, new, strict=True)]
    known = [r for r in ratios if r is not None]
    fails = stats.slowdowns(
        [math.log(r.interval.estimate) for r in known],
        [r.log_se for r in known],
        [r.df for r in known],
        threshold=0.05,
    )
    adjusted = stats.holm([r.p_value for r in known])
    for one, p_value, fail in zip(known, adjusted, fails, strict=True):
        slower = stats.verdict(one, margin=0.03, p_adjusted=p_value) is stats.Verdict.SLOWER
        assert bool(fail) == (slower and 1 / one.interval.estimate - 1 > 0.05)


def test_noiseless_times_decide_and_a_threshold_of_nothing_is_refused() -> None:
    assert list(stats.slowdowns([0.0, math.log(0.8)], [0.0, 0.0], [4, 4], threshold=0.05)) == [False, True]
    with pytest.raises(ValueError, match="above 0"):
        stats.slowdowns([0.0], [0.1], [4], threshold=0.0)


def test_a_side_that_might_have_got_more_processes_is_wider() -> None:
    a, b = [1.0, 1.02, 0.98], [1.1, 1.12, 1.09]
    fixed, adding = stats.welch_ratio(a, b), stats.welch_ratio(a, b, looks=((3, 5, 10), ()))
    assert fixed is not None and adding is not None
    assert adding.interval.estimate == fixed.interval.estimate
    assert fixed.log_se < adding.log_se < 1.43 * fixed.log_se
