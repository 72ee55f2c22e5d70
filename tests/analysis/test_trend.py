"""Trends against planted growth: steady doubling, a logistic with a known ceiling, boards related by year."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from breakeven.analysis.trend import METRICS, Point, Trend, of_points, points, segment_named, trend
from breakeven.analysis.trend_models import MODELS, ORIGIN, SPACES, curve, fit, parameters_of
from breakeven.analysis.trend_words import quantity, sentences
from breakeven.errors import UserError
from breakeven.report import text, write_trend
from breakeven.report import trend as trend_report


def history(
    value: object, *, sd: float = 0.4, n: int = 80, seed: int = 0, shared: float = 0.0
) -> list[Point]:
    """Boards of 2001 to 2026, log-normal around a curve (doublings); `shared`: what those of a year share."""
    rng = np.random.default_rng(seed)
    years = np.sort(rng.uniform(2001, 2026, n))
    common = {year: rng.normal(0, shared) for year in range(2001, 2027)}
    return [
        Point(
            gpu=f"g{i}",
            segment="datacenter",
            year=float(year),
            value=float(value(year) * 2 ** (rng.normal(0, sd) + common[int(year)])),  # type: ignore[operator]
        )
        for i, year in enumerate(years)
    ]


def doubling(every: float) -> object:
    return lambda year: 2.0 ** ((year - 2013) / every)


def logistic(ceiling: float, middle: float, pace: float) -> object:
    return lambda year: ceiling / (1 + math.exp(-(year - middle) / pace))


@pytest.fixture(scope="module")
def datacenter() -> Trend:
    return trend("memory", "datacenter")


@pytest.fixture(scope="module")
def consumer() -> Trend:
    return trend("memory", "consumer")


@pytest.mark.parametrize("every", [1.5, 3.0, 10.0])
def test_planted_doubling_is_found(every: float) -> None:
    found = of_points(history(doubling(every)), "memory").doubling_years
    assert found is not None
    assert found.low < every < found.high
    assert found.estimate == pytest.approx(every, rel=0.1)


def test_intervals_of_the_doubling_time_hold_where_boards_of_a_year_are_relatives() -> None:
    """95 % asked; intervals that took boards as independent hold in three quarters of these trials."""
    from breakeven.analysis.trend import _doubling

    held = 0
    for seed in range(200):
        made = history(doubling(3.0), sd=0.3, shared=0.5, seed=seed)
        found, _ = _doubling(np.array([p.year for p in made]), np.array([p.value for p in made]))
        held += found is not None and found.low <= 3.0 <= found.high
    assert 0.90 <= held / 200 <= 0.985


def test_a_ceiling_that_was_passed_is_told_and_steady_doubling_has_none() -> None:
    bends = of_points(history(logistic(100.0, 2012.0, 2.0), sd=0.3), "memory").ceiling
    assert bends.identifiable
    assert bends.low is not None and bends.high is not None and bends.low <= 100 <= bends.high
    steady = of_points(history(doubling(3.0), sd=0.3), "memory").ceiling
    assert not steady.identifiable
    assert steady.high is None
    assert steady.near.rms == pytest.approx(steady.far.rms, rel=0.15)


def test_bounds_of_a_ceiling_lie_on_both_sides_of_it_and_are_those_of_the_profile() -> None:
    """Ceilings are tried a quarter of a doubling apart: on those alone a bound could equal the estimate."""
    for found in (
        of_points(history(logistic(100.0, 2012.0, 2.0), sd=0.1), "memory"),
        trend("power", "consumer"),
    ):
        c = found.ceiling
        assert c.identifiable and c.best is not None and c.low is not None and c.high is not None
        assert c.low < 0.99 * c.best and c.high > 1.01 * c.best
        assert c.at is not None and c.at.ceiling == c.best
        # What scipy finds with the ceiling free is the best of those held.
        free = found.fit("logistic", "log")
        assert free.ceiling == pytest.approx(c.best, rel=0.01)
        n, least = len(found.points), c.at.rms**2
        years, values = (np.array([getattr(p, name) for p in found.points]) for name in ("year", "value"))
        for bound in (c.low, c.high):
            theta = parameters_of("logistic", "log", years - ORIGIN, values, ceiling=math.log2(bound))
            off = np.log2(values) - curve("logistic", "log", theta, years - ORIGIN)
            statistic = n * math.log(float(off @ off) / n / least) / c.inflation
            assert statistic == pytest.approx(3.84, abs=0.25)


def test_the_best_ceiling_is_in_the_table_and_large_numbers_are_words() -> None:
    found = trend("power", "consumer")
    section = next(s for s in trend_report.report(found).sections if s.key == "ceiling")
    assert section.table is not None and found.ceiling.best is not None
    assert section.table.rows[0][0].text == quantity(found.ceiling.best, "W")
    assert "e+" not in text(trend_report.report(trend("memory", "datacenter")), 80)


def test_a_ceiling_far_ahead_cannot_be_told_although_there_is_one() -> None:
    """Before the inflection a logistic is steady doubling."""
    ahead = of_points(history(logistic(1e5, 2045.0, 4.3), sd=0.4), "memory")
    assert not ahead.ceiling.identifiable


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("space", SPACES)
def test_every_model_recovers_its_own_curve(model: str, space: str) -> None:
    """Values off a curve by nothing come back, whatever the parameters are called."""
    planted = {
        "exponential": [2.0, 0.3],
        "polynomial": [3.0, 0.3, 0.004] if space == "log" else [60.0, 4.0, 0.3],
        "logistic": [6.0, 1.0, 2.5],
        "gompertz": [6.0, -2.0, 5.0],
    }[model]
    t = np.linspace(-8.0, 12.0, 60)
    exact = curve(model, space, np.array(planted), t)  # type: ignore[arg-type]
    y = 2.0**exact if space == "log" else exact
    theta = parameters_of(model, space, t, y)  # type: ignore[arg-type]
    again = curve(model, space, theta, t)  # type: ignore[arg-type]
    assert np.allclose(again, exact, rtol=1e-3, atol=1e-3)


def test_criteria_of_both_spaces_are_of_one_scale() -> None:
    """Log-normal values are better told on logarithms, Gaussian ones on plain values."""
    rng = np.random.default_rng(3)
    t = np.linspace(2001, 2025, 90)
    spread_by_ratio = 2.0 ** ((t - 2013) / 3 + rng.normal(0, 0.5, 90))
    spread_by_amount = 50 + 3 * (t - 2013) + rng.normal(0, 2.0, 90)
    by = {
        (name, space): fit("polynomial", space, t, y, [2030.0]).aicc
        for name, y in (("ratio", spread_by_ratio), ("amount", spread_by_amount))
        for space in SPACES
    }
    assert by["ratio", "log"] < by["ratio", "linear"] - 10
    assert by["amount", "linear"] < by["amount", "log"] - 10


def test_prediction_intervals_hold_the_boards_to_come() -> None:
    """Of boards of 2030 drawn from the planted growth, about 95 % lie inside."""
    inside = total = 0
    rng = np.random.default_rng(5)
    for seed in range(40):
        made = history(doubling(3.0), sd=0.5, seed=seed)
        years, values = (np.array([getattr(p, f) for p in made]) for f in ("year", "value"))
        said = fit("exponential", "log", years, values, [2030.0]).forecasts[0]
        drawn = 2.0 ** ((2030 - 2013) / 3.0 + rng.normal(0, 0.5, 50))
        assert said.low is not None and said.high is not None
        inside += int(((drawn >= said.low) & (drawn <= said.high)).sum())
        total += 50
    assert 0.92 <= inside / total <= 0.985


def test_the_hold_out_trains_on_what_came_before_2016() -> None:
    """A history that breaks in 2016: the error is how far it went another way."""
    made = history(lambda y: 2.0 ** ((min(y, 2016) - 2013) / 2), sd=0.01)  # type: ignore[arg-type]
    years, values = (np.array([getattr(p, f) for p in made]) for f in ("year", "value"))
    off = fit("exponential", "log", years, values, [2030.0])
    late = years[years >= 2016]
    assert off.holdout_bias == pytest.approx(float((late - 2016).mean()) / 2, rel=0.05)
    early = years < 2016
    alone = fit("exponential", "log", years[early], values[early], [2030.0])
    assert alone.holdout_rms is None
    assert "too few" in alone.reasons["holdout"]


def test_a_plain_polynomial_through_growth_is_negative_early() -> None:
    found = of_points(history(doubling(2.5), sd=0.2), "memory")
    assert found.fit("polynomial", "linear").negative_until is not None
    assert found.fit("polynomial", "log").negative_until is None


def test_datacenter_memory_has_no_ceiling_that_could_be_told(datacenter: Trend) -> None:
    """300 GiB and a million GiB fit alike, and 2030 differs by half."""
    assert not datacenter.ceiling.identifiable
    near, far = datacenter.ceiling.near, datacenter.ceiling.far
    assert near.ceiling == pytest.approx(302, rel=0.02) and far.ceiling > 1e6
    assert near.rms == pytest.approx(far.rms, rel=0.05)
    assert far.value_2030 > 1.5 * near.value_2030
    pace = datacenter.doubling_years
    assert pace is not None and 2.4 < pace.low < pace.estimate < pace.high < 3.8
    assert datacenter.guide.model == "exponential"


def test_consumer_memory_bends(consumer: Trend) -> None:
    assert consumer.ceiling.identifiable
    assert consumer.ceiling.best is not None and 10 < consumer.ceiling.best < 40
    assert consumer.best.model == "logistic"
    assert consumer.guide.model == "logistic"
    assert trend("memory", "consumer", frontier=True).ceiling.identifiable


def test_the_frontier_holds_records_only() -> None:
    records = points("memory", "all", frontier=True)
    values = [point.value for point in records]
    assert values == sorted(set(values))
    assert len(records) < len(points("memory", "all", frontier=False))


def test_what_amin_et_al_fit_is_said_with_what_it_gets_wrong(datacenter: Trend) -> None:
    said = sentences(datacenter)
    assert "at or below zero until" in said[-1]
    assert "of degree 2 and 3" in said[-1]
    square, cubic = datacenter.fit("polynomial", "linear").forecasts[-1], datacenter.cubic.forecasts[-1]
    assert square.value is not None and cubic.value is not None
    assert abs(math.log2(cubic.value / square.value)) > 0.5


def test_the_document_has_what_programs_ask_for(datacenter: Trend) -> None:
    found = json.loads(json.dumps(trend_report.document(datacenter), allow_nan=False))
    assert found["doubling_time_years"] == pytest.approx(2.9, abs=0.1)
    assert found["interval"][0] < found["doubling_time_years"] < found["interval"][1]
    assert found["ceiling_identifiable"] is False
    assert {(one["model"], one["space"]) for one in found["fits"]} == {(m, s) for m in MODELS for s in SPACES}
    assert [year["year"] for year in found["forecast"]["years"]][-1] == 2030
    assert any("Epoch AI" in credit and "CC BY 4.0" in credit for credit in found["credits"])


def test_a_trend_is_printed_within_80_columns(datacenter: Trend) -> None:
    printed = text(trend_report.report(datacenter), width=80)
    assert max(map(len, printed.splitlines())) <= 80
    assert "cannot be told" in printed and "not identifiable" in printed


@pytest.mark.parametrize("suffix", [".svg", ".png", ".html", ".md", ".csv", ".json", ".txt"])
def test_a_trend_is_written_in_every_format(consumer: Trend, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"trend{suffix}"
    write_trend(consumer, path)
    assert path.stat().st_size > 500
    if suffix == ".html":
        assert "GeForce RTX 5090" in path.read_text()


@pytest.mark.parametrize("metric", METRICS)
def test_every_metric_has_a_trend(metric: str) -> None:
    found = trend(metric, "datacenter")
    assert len(found.points) >= 20
    assert sentences(found)


def test_what_cannot_be_done_is_one_line() -> None:
    with pytest.raises(UserError, match="one of memory"):
        trend("price")
    with pytest.raises(UserError, match="no segment 'laptops'"):
        segment_named("laptops")
    with pytest.raises(UserError, match="too few"):
        of_points(history(doubling(3.0), n=5), "memory")


def test_shrinking_has_no_doubling_time() -> None:
    found = of_points(history(doubling(-4.0)), "power")
    assert found.doubling_years is None
    assert "not certain" in found.reasons["doubling_years"]
    assert "not certain" in sentences(found)[0]


def test_quantities_are_readable() -> None:
    assert quantity(302.4, "GiB") == "302 GiB"
    assert quantity(1.21e6, "GiB") == "1.21 million GiB"
    assert quantity(4690.0, "GiB") == "4,690 GiB"
    assert ORIGIN == 2013.0
