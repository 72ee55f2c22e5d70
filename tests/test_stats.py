"""The statistics against truth: simulated coverage, published worked examples, scipy, and invariances."""

import itertools
import math
import random
import subprocess
import sys
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from breakeven import stats
from breakeven.stats import EquivalenceOutcome, Interval, Ratio, Verdict

TRUTH = 0.005  # seconds
TRIALS = 2000
OFFSET = 0.05  # between processes
NOISE = 0.03  # within a process

# Extra hours of sleep of ten patients with two drugs: Student 1908; data set `sleep` of R.
DRUG_1 = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
DRUG_2 = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]

positive = st.floats(min_value=1e-6, max_value=1e6)
scales = st.floats(min_value=1e-9, max_value=1e9)


def lists_of(n: int) -> st.SearchStrategy[list[float]]:
    return st.lists(positive, min_size=n, max_size=12)


def rng(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def process_times(seed: int, shape: tuple[int, ...], samples: int) -> NDArray[np.float64]:
    """Times of shape (*shape, samples): an offset a process, noise a sample, both log-normal around TRUTH."""
    generator = rng(seed)
    offsets = generator.normal(0, OFFSET, (*shape, 1))
    return TRUTH * np.exp(offsets + generator.normal(0, NOISE, (*shape, samples)))


def coverage(intervals: Sequence[Interval | None], truths: Sequence[float]) -> float:
    assert None not in intervals
    return sum(i is not None and i.contains(t) for i, t in zip(intervals, truths, strict=True)) / len(truths)


def slope_interval(x: Sequence[float], y: Sequence[float]) -> Interval | None:
    found = stats.slope_of(x, y)
    return found.interval() if found else None


def intervals_of(ratios: Sequence[Ratio | None]) -> list[Interval | None]:
    return [None if r is None else r.interval for r in ratios]


# ---- coverage of a known truth


@pytest.mark.parametrize("n", [3, 5, 10])
def test_case_interval_covers_the_truth_and_pooled_samples_do_not(n: int) -> None:
    times = process_times(n, (TRIALS, n), samples=41)
    medians = np.median(times, axis=2).tolist()
    assert 0.92 <= coverage([stats.case_interval(m) for m in medians], [TRUTH] * TRIALS) <= 0.98
    pooled = times[:300].reshape(300, -1).tolist()
    assert coverage([stats.case_interval(p) for p in pooled], [TRUTH] * 300) < 0.30


@pytest.mark.parametrize("n", [3, 5, 10])
def test_prediction_interval_covers_a_fresh_process(n: int) -> None:
    totals = process_times(100 + n, (TRIALS, n + 1), samples=20).sum(axis=2).tolist()
    known, fresh = [t[:n] for t in totals], [t[n] for t in totals]
    assert 0.92 <= coverage([stats.prediction_interval(k) for k in known], fresh) <= 0.98
    # The interval of the mean is no forecast of one run.
    assert coverage([stats.case_interval(k) for k in known], fresh) < 0.85


@pytest.mark.parametrize("n", [3, 5, 10])
def test_paired_ratio_covers_and_pairing_removes_what_replicates_share(n: int) -> None:
    generator = rng(200 + n)
    shared = generator.normal(0, 0.2, (TRIALS, n))  # a neighbour on the machine, say
    own = generator.normal(0, 0.02, (2, TRIALS, n))
    base, cand = np.exp(shared + own[0] + math.log(1.1)), np.exp(shared + own[1])
    paired, welch = [], []
    for b, c in zip(base.tolist(), cand.tolist(), strict=True):
        paired.append(stats.paired_ratio(dict(enumerate(b)), dict(enumerate(c))))
        welch.append(stats.welch_ratio(b, c))
    assert 0.92 <= coverage(intervals_of(paired), [1.1] * TRIALS) <= 0.98
    widths = [np.median([r.interval.relative_half_width for r in rs if r]) for rs in (paired, welch)]
    assert widths[0] < widths[1] / 2


@pytest.mark.parametrize(("n_base", "n_cand"), [(3, 3), (3, 10), (5, 5)])
def test_welch_ratio_covers_with_unequal_spreads(n_base: int, n_cand: int) -> None:
    generator = rng(300 + n_base + n_cand)
    base = np.exp(generator.normal(math.log(2), 0.08, (TRIALS, n_base))).tolist()
    cand = np.exp(generator.normal(0, 0.02, (TRIALS, n_cand))).tolist()
    ratios = [stats.welch_ratio(b, c) for b, c in zip(base, cand, strict=True)]
    assert 0.92 <= coverage(intervals_of(ratios), [2.0] * TRIALS) <= 0.985


def test_slope_interval_covers_the_exponent() -> None:
    x = [1e5, 5e5, 1e7, 2.5e7, 1e8]
    noise = rng(7).normal(0, 0.1, (TRIALS, len(x)))
    intervals = [slope_interval(x, (2 * np.power(x, 0.3) * np.exp(e)).tolist()) for e in noise]
    assert 0.92 <= coverage(intervals, [0.3] * TRIALS) <= 0.98


def test_a_slope_is_no_surer_than_its_points() -> None:
    """Three points that lie on a line by luck: their scatter says nothing, their own intervals do."""
    x, y, spreads = [1.0, 10.0, 100.0], [1.0, 2.0, 4.0], [0.5, 0.2, 0.3]
    errors = [(half / stats.t_quantile(0.975, 2), 2.0) for half in spreads]
    naive, slope = slope_interval(x, y), stats.slope_of(x, y, errors)
    assert naive is not None and slope is not None
    found = slope.interval()
    assert naive.low > 0.3  # naive: it grows, for certain
    # The ends weigh 1 / (2 log 10) each, the middle nothing.
    half = math.hypot(0.5, 0.3) / (2 * math.log(10))
    assert found.high - found.estimate == pytest.approx(half)
    assert found.estimate - found.low == pytest.approx(half) and found.estimate == naive.estimate
    scattered = [1.0, 4.0, 4.0]
    sure = stats.slope_of(x, scattered, [(1e-6, 2.0)] * 3)
    assert sure is not None and sure.interval() == slope_interval(x, scattered)
    with pytest.raises(ValueError, match="2 errors"):
        stats.slope_of(x, y, errors[:2])


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.2, 1.0])
def test_the_interval_of_a_slope_and_its_p_value_decide_alike(noise: float) -> None:
    x = [1e5, 5e5, 1e7, 2.5e7, 1e8]
    for scatter in rng(11).normal(0, noise, (50, len(x))):
        slope = stats.slope_of(x, np.exp(0.05 * np.log(x) + scatter).tolist(), [(0.05, 2.0)] * len(x))
        assert slope is not None
        for confidence in (0.9, 0.95, 0.9875):
            assert slope.interval(confidence=confidence).contains(0.0) == (slope.p_value >= 1 - confidence)


def test_intervals_at_the_confidence_of_holm_decide_as_holm_does() -> None:
    assert stats.holm_confidences([]) == []
    assert stats.holm_confidences([0.04]) == [0.95]
    # 0.01 passes 0.05 / 3, 0.03 does not pass 0.05 / 2: the last keeps the step at which it ended.
    assert stats.holm_confidences([0.04, 0.01, 0.03]) == pytest.approx([0.975, 1 - 0.05 / 3, 0.975])
    for p_values in rng(12).beta(0.5, 4, (300, 6)).tolist():
        decided = [p < 0.05 for p in stats.holm(p_values)]
        confidences = stats.holm_confidences(p_values)
        assert decided == [p < 1 - c for p, c in zip(p_values, confidences, strict=True)]
        assert min(confidences) >= 0.95


@pytest.mark.parametrize("n", [6, 25, 150])
def test_median_interval_covers_a_skewed_median(n: int) -> None:
    samples = rng(n).exponential(1.0, (TRIALS, n)).tolist()
    assert coverage([stats.median_interval(s) for s in samples], [math.log(2)] * TRIALS) >= 0.94


# ---- verdicts


def verdicts_of(ratios: Sequence[Ratio | None], margin: float = 0.0) -> list[Verdict]:
    adjusted = stats.holm([r.p_value for r in ratios if r])
    return [stats.verdict(r, margin=margin, p_adjusted=p) for r, p in zip(ratios, adjusted, strict=True)]


@pytest.mark.parametrize("across_files", [False, True])
def test_forty_unchanged_cases_raise_no_alarm_after_holm(across_files: bool) -> None:
    trials, cases, n = 300, 40, 5
    data = np.exp(rng(17).normal(0, 0.04, (trials, cases, 2, n))).tolist()
    alarms = naive = 0
    for trial in data:
        if across_files:
            ratios = [stats.welch_ratio(b, c) for b, c in trial]
        else:
            ratios = [stats.paired_ratio(dict(enumerate(b)), dict(enumerate(c))) for b, c in trial]
        alarms += any(v in (Verdict.FASTER, Verdict.SLOWER) for v in verdicts_of(ratios))
        naive += any(r is not None and r.p_value < 0.05 for r in ratios)
    # 99.9 % point of a binomial with p = 0.05: mean 15, standard deviation 3.8.
    assert alarms <= 28
    assert naive > 0.75 * trials


def test_a_planted_slowdown_is_found_among_forty_with_twelve_processes_a_side() -> None:
    found = false = 0
    for seed in range(50):
        data = np.exp(rng(seed).normal(0, 0.04, (40, 2, 12)))
        data[0, 1] *= 1.10
        verdicts = verdicts_of([stats.welch_ratio(b, c) for b, c in data.tolist()], margin=0.05)
        found += verdicts[0] is Verdict.SLOWER
        false += any(v in (Verdict.FASTER, Verdict.SLOWER) for v in verdicts[1:])
    assert found >= 40
    assert false <= 8  # 99.9 % point of a binomial with n = 50, p = 0.05


@pytest.mark.parametrize(
    ("values", "margin", "expected"),
    [
        ([1.20, 1.21, 1.19], 0.05, Verdict.FASTER),
        ([1 / 1.20, 1 / 1.21, 1 / 1.19], 0.05, Verdict.SLOWER),
        ([1.010, 1.011, 1.009], 0.05, Verdict.SAME),  # surely faster, but not by what matters
        ([1.010, 1.011, 1.009], 0.005, Verdict.FASTER),
        ([1.0, 1.3, 0.8], 0.05, Verdict.UNCERTAIN),
        ([1.0, 1.0, 1.0], 0.0, Verdict.UNCERTAIN),  # no margin, no claim of sameness
        ([1.0, 1.0, 1.0], 0.01, Verdict.SAME),
        ([2.0, 2.0, 2.0], 0.01, Verdict.FASTER),  # simulated times without noise
    ],
)
def test_verdicts(values: list[float], margin: float, expected: Verdict) -> None:
    ratio = stats.paired_ratio(dict(enumerate(values)), dict.fromkeys(range(3), 1.0))
    assert ratio is not None
    assert stats.verdict(ratio, margin=margin, p_adjusted=ratio.p_value) is expected


def test_correction_turns_a_lone_finding_into_uncertain_and_missing_ratios_are_uncertain() -> None:
    ratio = stats.paired_ratio({0: 1.20, 1: 1.22, 2: 1.15}, {0: 1.0, 1: 1.0, 2: 1.0})
    assert ratio is not None and 0.001 < ratio.p_value < 0.05
    assert stats.verdict(ratio, margin=0.05, p_adjusted=ratio.p_value) is Verdict.FASTER
    assert stats.verdict(ratio, margin=0.05, p_adjusted=min(1, 40 * ratio.p_value)) is Verdict.UNCERTAIN
    assert stats.verdict(None, margin=0.05, p_adjusted=1.0) is Verdict.UNCERTAIN


def test_same_is_claimed_of_a_ratio_on_the_margin_in_five_percent_at_most() -> None:
    data = np.exp(rng(23).normal(0, 0.02, (TRIALS, 5)) + math.log(1.05)).tolist()
    ones = dict.fromkeys(range(5), 1.0)
    same = 0
    for values in data:
        ratio = stats.paired_ratio(dict(enumerate(values)), ones)
        assert ratio is not None
        same += stats.verdict(ratio, margin=0.05, p_adjusted=ratio.p_value) is Verdict.SAME
    assert same <= 0.05 * TRIALS + 3 * math.sqrt(0.05 * 0.95 * TRIALS)


@pytest.mark.parametrize(("effect", "wanted"), [(1.06, Verdict.FASTER), (1.0, Verdict.SAME)])
def test_processes_to_decide_reach_the_power_they_promise(effect: float, wanted: Verdict) -> None:
    margin = 0.03
    # An observation whose spread is exactly 4 % a side and whose ratio is exactly `effect`.
    z = [math.exp(0.04 / math.sqrt(2) * s) for s in (-1, 1)]
    ratio = stats.welch_ratio([effect * v for v in z], z)
    assert ratio is not None and ratio.log_sd == pytest.approx(0.04 * math.sqrt(2))
    n = stats.processes_to_decide(ratio, margin=margin)
    assert n is not None
    base = np.exp(rng(5).normal(math.log(effect), 0.04, (600, n))).tolist()
    cand = np.exp(rng(6).normal(0, 0.04, (600, n))).tolist()
    hits = 0
    for b, c in zip(base, cand, strict=True):
        fresh = stats.welch_ratio(b, c)
        assert fresh is not None
        hits += stats.verdict(fresh, margin=margin, p_adjusted=fresh.p_value) is wanted
    assert 0.74 < hits / 600 < 0.92


def test_ten_percent_among_forty_cases_takes_about_twelve_processes() -> None:
    side = [math.exp(0.05 / math.sqrt(2) * s) for s in (-1, 1)]
    ratio = stats.welch_ratio([1.1 * v for v in side], side)
    assert ratio is not None
    assert 11 <= (stats.processes_to_decide(ratio, margin=0.0, tests=40) or 0) <= 16
    assert (stats.processes_to_decide(ratio, margin=0.0, tests=1) or 0) < 8


def test_processes_to_decide_is_none_where_no_count_would_do() -> None:
    even = stats.paired_ratio({0: 1.1, 1: 1.0}, {0: 1.0, 1: 1.1})
    assert even is not None and even.interval.estimate == 1.0
    assert stats.processes_to_decide(even, margin=0.0) is None
    assert stats.processes_to_decide(even, margin=0.05) is not None
    quiet = stats.paired_ratio({0: 2.0, 1: 2.0}, {0: 1.0, 1: 1.0})
    assert quiet is not None and stats.processes_to_decide(quiet, margin=0.0) == 2


@given(values=lists_of(2), margin=st.floats(0, 0.3))
def test_an_undecided_comparison_takes_more_processes_than_it_has(values: list[float], margin: float) -> None:
    ratio = stats.paired_ratio(dict(enumerate(values)), dict.fromkeys(range(len(values)), 1.0))
    assert ratio is not None
    if (
        stats.verdict(ratio, margin=margin, p_adjusted=ratio.p_value) is Verdict.UNCERTAIN
        and ratio.log_se > 1e-9
    ):
        n = stats.processes_to_decide(ratio, margin=margin)
        assert n is None or n > len(values)


# ---- equivalence of accuracies


def outcomes(true_difference: float, seeds: int) -> list[EquivalenceOutcome]:
    data = rng(31).normal(0, 0.2, (TRIALS, 2, seeds))
    data[:, 1] += true_difference
    return [stats.accuracy_equivalence(b, c, margin=0.5).outcome for b, c in data.tolist()]


def test_equivalence_and_difference_on_the_margin_are_claimed_in_five_percent_at_most() -> None:
    found = outcomes(0.5, seeds=5)
    allowed = 0.05 * TRIALS + 3 * math.sqrt(0.05 * 0.95 * TRIALS)
    assert found.count(EquivalenceOutcome.EQUIVALENT) <= allowed
    assert found.count(EquivalenceOutcome.DIFFERENT) <= allowed


def test_equal_and_far_apart_accuracies_are_told() -> None:
    assert outcomes(0.0, seeds=5).count(EquivalenceOutcome.EQUIVALENT) > 0.85 * TRIALS
    assert outcomes(1.2, seeds=5).count(EquivalenceOutcome.DIFFERENT) > 0.85 * TRIALS


def test_accuracies_that_cannot_be_told_apart_are_not_called_equivalent() -> None:
    few = stats.accuracy_equivalence([92.1], [92.1, 92.0], margin=0.5)
    assert (few.outcome, few.difference) == (EquivalenceOutcome.CANNOT_TELL, None)
    wide = stats.accuracy_equivalence([90, 93, 91], [91, 92.5, 90], margin=0.5)
    assert wide.outcome is EquivalenceOutcome.CANNOT_TELL
    # Significant, but not beyond the margin.
    real = stats.accuracy_equivalence([92.0, 92.1, 91.9], [92.4, 92.5, 92.3], margin=0.5)
    assert real.outcome is EquivalenceOutcome.CANNOT_TELL
    assert real.difference is not None and real.difference.low > 0
    worse = stats.accuracy_equivalence([92.0, 92.1, 91.9], [88.0, 88.1, 87.9], margin=0.5)
    assert worse.outcome is EquivalenceOutcome.DIFFERENT
    assert worse.difference is not None and worse.difference.estimate == pytest.approx(-4)


# ---- published examples and an independent implementation


@pytest.mark.parametrize(
    ("probability", "df", "expected"),
    [(0.975, 1, 12.706), (0.975, 2, 4.303), (0.975, 4, 2.776), (0.95, 9, 1.833), (0.995, 30, 2.750)],
)
def test_t_quantiles_of_the_printed_tables(probability: float, df: float, expected: float) -> None:
    assert stats.t_quantile(probability, df) == pytest.approx(expected, abs=5e-4)


def test_students_sleep_data() -> None:
    """R, t.test: df = 17.776, p = 0.07939, interval -3.3654832 to 0.2054832; paired p = 0.002833."""
    first, second = [math.exp(v) for v in DRUG_1], [math.exp(v) for v in DRUG_2]
    welch = stats.welch_ratio(first, second)
    assert welch is not None
    assert welch.df == pytest.approx(17.776, abs=5e-4)
    assert welch.p_value == pytest.approx(0.07939, abs=5e-6)
    assert math.log(welch.interval.low) == pytest.approx(-3.3654832, abs=5e-8)
    assert math.log(welch.interval.high) == pytest.approx(0.2054832, abs=5e-8)
    paired = stats.paired_ratio(dict(enumerate(first)), dict(enumerate(second)))
    assert paired is not None and paired.df == 9
    assert paired.p_value == pytest.approx(0.002833, abs=5e-7)
    assert math.log(paired.interval.estimate) == pytest.approx(-1.58)


def test_holm_by_arithmetic() -> None:
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert stats.holm([0.6, 0.9]) == [1.0, 1.0]
    assert stats.holm([]) == []


def test_forecast_of_three_processes_with_four_percent_spread_is_twenty_percent() -> None:
    interval = stats.prediction_interval([math.exp(0.04 * z) for z in (-1, 0, 1)])
    assert interval is not None
    assert interval.estimate == pytest.approx(1)
    assert interval.high - 1 == pytest.approx(math.expm1(4.3027 * 0.04 * math.sqrt(4 / 3)), rel=1e-4)
    assert interval.relative_half_width == pytest.approx(0.20, abs=0.005)


@given(base=lists_of(2), cand=lists_of(2))
def test_welch_agrees_with_scipy(base: list[float], cand: list[float]) -> None:
    from scipy.stats import ttest_ind

    assume(min(np.ptp(base) / max(base), np.ptp(cand) / max(cand)) > 1e-3)
    ratio = stats.welch_ratio(base, cand, confidence=0.9)
    reference = ttest_ind(np.log(base), np.log(cand), equal_var=False)
    interval = reference.confidence_interval(0.9)
    assert ratio is not None
    assert ratio.p_value == pytest.approx(float(reference.pvalue), rel=1e-6, abs=1e-12)
    assert ratio.df == pytest.approx(float(reference.df), rel=1e-6)
    assert math.log(ratio.interval.low) == pytest.approx(float(interval.low), rel=1e-6, abs=1e-9)
    if len(base) == len(cand):
        assert ratio.df == pytest.approx((len(base) - 1) * ratio.df_a_process)
        assert ratio.log_se == pytest.approx(ratio.log_sd / math.sqrt(len(base)))


def test_slope_agrees_with_scipy() -> None:
    from scipy.stats import linregress

    x, y = [1.0, 3.0, 10.0, 40.0], [2.0, 2.5, 4.4, 4.0]
    interval = slope_interval(x, y)
    reference = linregress(np.log(x), np.log(y))
    assert interval is not None
    assert interval.estimate == pytest.approx(reference.slope)
    assert interval.high - interval.estimate == pytest.approx(4.302653 * reference.stderr)  # t, 2 df


@pytest.mark.parametrize(
    ("n", "rank"), [(6, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6), (25, 8), (100, 40), (1000, 469)]
)
def test_median_ranks_of_the_printed_tables(n: int, rank: int) -> None:
    interval = stats.median_interval([float(i) for i in range(1, n + 1)])
    assert interval is not None
    assert (interval.low, interval.high) == (rank, n + 1 - rank)
    assert interval.estimate == (n + 1) / 2


@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_normal_ranks_stay_beside_the_exact_ones(confidence: float) -> None:
    from scipy.stats import binom

    for n in (1001, 1500, 4000, 20001):
        interval = stats.median_interval([float(i) for i in range(1, n + 1)], confidence=confidence)
        assert interval is not None
        exact = int(binom.ppf((1 - confidence) / 2, n, 0.5))
        assert abs(interval.low - exact) <= 1


# ---- percentiles, means, slopes


@pytest.mark.parametrize(("p", "needed"), [(0.9, 29), (0.99, 299), (0.999, 2995), (0.01, 299), (0.5, 5)])
def test_a_percentile_takes_enough_samples(p: float, needed: int) -> None:
    assert stats.samples_for_percentile(p) == needed
    samples = [float(i) for i in range(needed)]
    assert stats.percentile(samples, p) is not None
    assert stats.percentile(samples[1:], p) is None


def test_a_percentile_is_the_nearest_rank_of_what_occurred() -> None:
    samples = [float(i) for i in range(1, 101)]
    for percent in range(5, 96):
        assert stats.percentile(samples[::-1], percent / 100, confidence=0.9) == percent
    assert stats.percentile([3.0, 1.0, 2.0, 5.0, 4.0], 0.5) == 3.0
    assert stats.samples_for_percentile(0.9, confidence=0.9) == 22
    assert stats.samples_for_percentile(0.9, confidence=0.99) == 44


def test_geometric_means() -> None:
    assert stats.geometric_mean([4, 0.25]) == pytest.approx(1)
    assert stats.geometric_mean_ratio({"a": 8.0, "b": 1.0}, {"b": 2.0, "a": 1.0}) == pytest.approx(2)
    with pytest.raises(ValueError, match="one side only: 'b'"):
        stats.geometric_mean_ratio({"a": 1.0}, {"a": 1.0, "b": 1.0})


def test_slope_of_an_exact_power_law() -> None:
    interval = slope_interval([1, 10, 100], [3, 6, 12])
    assert interval is not None
    assert interval.estimate == pytest.approx(math.log10(2))
    assert interval.high - interval.low < 1e-6
    assert slope_interval([1, 2], [1, 2]) is None
    assert slope_interval([5, 5, 5], [1, 2, 3]) is None


# ---- warm-up


def level(seed: int, n: int = 20, noise: float = 0.005) -> list[float]:
    times: list[float] = (1 + rng(seed).normal(0, noise, n)).tolist()
    return times


def test_windows_of_one_level_are_steady() -> None:
    assert sum(stats.steady(level(2 * s), level(2 * s + 1), 0.02) for s in range(200)) >= 196


def test_a_level_that_still_falls_is_not_steady() -> None:
    slow = [1.5 * t for t in level(1)]
    assert not stats.steady(slow, level(2), 0.02)
    # 1.8 % over both windows: their medians agree, the trend gives it away; half a per mille is nothing.
    for fall, noise, expected in ((0.018, 5e-4, False), (0.0005, 1e-5, True)):
        times = [1 + fall * (1 - i / 40) + noise * z for i, z in enumerate(rng(3).normal(0, 1, 40))]
        assert stats.steady(times[:20], times[20:], 0.02) is expected
    times = [1 + 0.018 * i / 40 for i in range(40)]
    assert stats.steady(times[:20], times[20:], 0.02)  # throttling: more warm-up is no cure


def test_a_trend_that_all_processes_share_is_seen_and_others_are_not() -> None:
    falling = [675.0, 658.0, 657.0, 650.0, 642.0, 632.0, 622.0, 618.0]
    move = stats.common_trend([falling] * 3, tolerance=0.02)
    assert move == pytest.approx(math.log(620 / 666.5))
    rising = stats.common_trend([falling[::-1]] * 3, tolerance=0.02)
    assert rising == pytest.approx(-move)
    assert stats.common_trend([falling, falling[::-1], falling], tolerance=0.02) == 0.0  # each its own
    assert (
        stats.common_trend([[1 + x / 1e5 for x in falling]] * 3, tolerance=0.02) == 0.0
    )  # significant, small
    # Three blocks in three processes just suffice; fewer tell nothing, however they fall.
    assert stats.common_trend([[3.0, 2.9, 2.8]] * 3, tolerance=0.02) < 0  # type: ignore[operator]
    for few in ([[3.0, 2.9, 2.8]] * 2, [[5.0, 4.0, 3.0, 2.0, 1.0]], [[2.0]] * 10, []):
        assert stats.common_trend(few, tolerance=0.02) is None


def test_noise_alone_is_hardly_ever_a_trend() -> None:
    """Nominally at most 2 %: 99.9 % of such counts of 1000 are below 35."""
    rng = random.Random(4)
    for processes, blocks in ((1, 8), (3, 3), (3, 12), (5, 30)):
        noise = [
            [[math.exp(rng.gauss(0, 0.05)) for _ in range(blocks)] for _ in range(processes)]
            for _ in range(1000)
        ]
        assert sum(bool(stats.common_trend(one, tolerance=0.02)) for one in noise) < 35


def test_a_spike_in_the_last_window_is_not_steady() -> None:
    spiked = [*level(2)[:-1], 1.5]
    assert not stats.steady(level(1), spiked, 0.02)
    assert stats.steady(spiked, level(1), 0.02)
    assert not stats.steady([], level(1), 0.02)
    assert stats.steady([1.0], [1.0], 0.02)


# ---- invariances


@given(values=lists_of(2), scale=scales, order=st.randoms(use_true_random=False))
@pytest.mark.parametrize("interval_of", [stats.case_interval, stats.prediction_interval])
def test_intervals_scale_with_the_unit_and_ignore_order(
    interval_of: Callable[[list[float]], Interval | None], values: list[float], scale: float, order: object
) -> None:
    original = interval_of(values)
    shuffled = sorted(values, key=lambda _: order.random())  # type: ignore[attr-defined]
    scaled = interval_of([scale * v for v in shuffled])
    inverse = interval_of([1 / v for v in values])
    assert original is not None and scaled is not None and inverse is not None
    assert interval_of(shuffled) == original
    assert 0 < original.low <= original.estimate <= original.high < math.inf
    assume(original.high < 1e200 and original.low > 1e-200)  # beyond, the bounds are clipped
    assert scaled.low == pytest.approx(scale * original.low, rel=1e-6)
    assert scaled.high == pytest.approx(scale * original.high, rel=1e-6)
    assert inverse.low == pytest.approx(1 / original.high, rel=1e-6)


@given(base=lists_of(3), cand=lists_of(3), scale=scales)
def test_ratios_have_no_unit_and_turn_over_with_the_sides(
    base: list[float], cand: list[float], scale: float
) -> None:
    a, b = dict(enumerate(base)), dict(enumerate(cand))
    pairs = [
        (stats.welch_ratio(base, cand), stats.welch_ratio(cand, base)),
        (stats.paired_ratio(a, b), stats.paired_ratio(b, a)),
    ]
    for forward, backward in pairs:
        assert forward is not None and backward is not None
        assert forward.p_value == pytest.approx(backward.p_value)
        assert forward.interval.estimate == pytest.approx(1 / backward.interval.estimate)
    scaled = stats.welch_ratio([scale * v for v in base], [scale * v for v in cand])
    assert scaled is not None and pairs[0][0] is not None
    assert scaled.interval.estimate == pytest.approx(pairs[0][0].interval.estimate, rel=1e-6)


@given(p_values=st.lists(st.floats(0, 1), max_size=20), order=st.randoms(use_true_random=False))
def test_holm_keeps_order_and_never_lowers_a_p_value(p_values: list[float], order: object) -> None:
    adjusted = stats.holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    for (p, q), (r, s) in itertools.pairwise(sorted(zip(p_values, adjusted, strict=True))):
        assert p <= r and q <= s
    places = sorted(range(len(p_values)), key=lambda _: order.random())  # type: ignore[attr-defined]
    assert stats.holm([p_values[i] for i in places]) == [adjusted[i] for i in places]


@given(times=st.lists(positive, min_size=6, max_size=60), exponent=st.integers(-20, 20))
def test_order_statistics_and_steadiness_scale_with_the_unit(times: list[float], exponent: int) -> None:
    scale = 2.0**exponent  # exact, so that ties stay ties
    scaled = [scale * t for t in times]
    interval, other = stats.median_interval(times), stats.median_interval(scaled[::-1])
    assert interval is not None and other is not None
    assert (other.low, other.estimate, other.high) == tuple(
        scale * v for v in (interval.low, interval.estimate, interval.high)
    )
    half = len(times) // 2
    windows, scaled_windows = (times[:half], times[half:]), (scaled[:half], scaled[half:])
    assert stats.steady(*windows, 0.02) == stats.steady(*scaled_windows, 0.02)


# ---- what cannot be told, and what is refused


def test_pairs_are_made_by_key() -> None:
    base, cand = {1: 2.0, 2: 4.0, 3: 8.0}, {3: 4.0, 2: 2.0, 9: 1.0}
    ratio = stats.paired_ratio(base, cand)
    assert ratio is not None
    assert ratio.interval.n == 2
    assert (ratio.interval.low, ratio.interval.high) == pytest.approx((2, 2))


def test_too_little_is_none() -> None:
    assert stats.case_interval([]) is None
    assert stats.case_interval([1.0]) is None
    assert stats.prediction_interval([1.0]) is None
    assert stats.paired_ratio({0: 1.0, 1: 1.0}, {1: 1.0, 2: 1.0}) is None
    assert stats.welch_ratio([1.0], [1.0, 2.0, 3.0]) is None
    assert stats.median_interval([1.0] * 5) is None
    assert stats.median_interval([]) is None


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_time_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="process medians must be positive and finite"):
        stats.case_interval([1.0, bad])
    with pytest.raises(ValueError, match="process totals"):
        stats.prediction_interval([bad])
    with pytest.raises(ValueError, match="base values"):
        stats.paired_ratio({0: bad, 1: 1.0}, {0: 1.0, 1: 1.0})
    with pytest.raises(ValueError, match="candidate values"):
        stats.welch_ratio([1.0, 1.0], [1.0, bad])
    with pytest.raises(ValueError, match="geometric mean"):
        stats.geometric_mean([bad])
    with pytest.raises(ValueError, match="ratios must be"):
        slope_interval([1, 2, 3], [1, 2, bad])


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: stats.case_interval([1, 2], confidence=1.0), "confidence"),
    (lambda: stats.t_quantile(0.5, 0), "degrees of freedom"),
    (lambda: stats.geometric_mean([]), "at least one"),
    (lambda: slope_interval([1], [1, 2]), "1 sizes but 2 ratios"),
    (lambda: stats.percentile([1.0], 99), "0.99 for p99"),
    (lambda: stats.percentile([math.nan] * 29, 0.9), "finite"),
    (lambda: stats.median_interval([math.nan] * 9), "finite"),
    (lambda: stats.holm([1.5]), "p-value"),
    (lambda: stats.verdict(None, margin=-0.1, p_adjusted=1), "margin"),
    (lambda: stats.verdict(None, margin=0.1, p_adjusted=1, alpha=0.5), "alpha"),
    (lambda: stats.accuracy_equivalence([1, 2], [1, 2], margin=0), "margin above 0"),
    (lambda: stats.accuracy_equivalence([1, math.nan], [1, 2], margin=1), "finite"),
    (lambda: stats.steady([1.0], [1.0], 0), "tolerance"),
    (lambda: stats.steady([1.0], [-1.0], 0.1), "negative"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_what_makes_no_sense_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_bounds_stay_finite_however_far_apart_two_processes_are() -> None:
    interval = stats.case_interval([1e-100, 1e100])
    assert interval is not None and 0 < interval.low < interval.high < math.inf


def test_importing_the_statistics_imports_neither_numpy_nor_scipy() -> None:
    code = "import sys, breakeven.stats, breakeven.units; print({'numpy', 'scipy'} & set(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "set()"
