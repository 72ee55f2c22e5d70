"""Contract, group 2: statistics. Simulated truth; `pytest -s` prints the measured figures."""

from __future__ import annotations

import math
import random
from statistics import fmean, median

import numpy as np
import pytest
from scipy.special import betaincinv

from analysis.conftest import a_case, sampled, spread, understood
from breakeven import stats
from breakeven.analysis.processes import Process, has_outlier, process
from breakeven.analysis.ratios import MARGIN
from breakeven.records.file import decode, encode
from breakeven.records.lines import Attempt, Block, steady_step_ns
from breakeven.runner.plan import schedule
from breakeven.stats import Verdict
from breakeven.timing import Plan, sample_training

from .worlds import MS, SECOND, World

TRIALS = 2000
TRUTH, OFFSET, NOISE = 10.0, 0.05, 0.005  # ms, between processes, within one


def rng(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def test_r10_raw_blocks_are_kept_and_outliers_stay() -> None:
    """3 % of the steps take seventy times as long: the mean is three times the usual step."""
    odd = random.Random(1)
    slow = {i for i in range(20_000) if odd.random() < 0.03}
    world = World(kernel_ns=lambda i: 700 * MS if i in slow else 10 * MS)
    samples = sample_training(world.prepared(), Plan(budget_s=600.0, tight=1e-9, max_blocks=400))
    steady = [b for b in samples.blocks if not b.warmup]
    means = [b.ns / b.n_steps for b in steady]
    assert fmean(means) > 2.5 * 10 * MS
    singles = World(kernel_ns=lambda i: 700 * MS if i in slow else 10 * MS)
    times = [singles.synced_ns() for _ in range(400)]
    assert fmean(times) > 2.5 * median(times)
    blocks = tuple(Block(n_steps=1, samples=128, ns=ns) for ns in times)
    line = sampled(a_case(), 0, 1.0, blocks=blocks)
    again = decode(encode(line))
    assert isinstance(again, Attempt) and again.blocks == blocks  # every one of them, in order
    assert steady_step_ns(again) == median(times) == pytest.approx(10 * MS, rel=0.001)
    assert has_outlier(again)


def test_r11_a_percentile_takes_enough_samples_and_pools_them() -> None:
    assert [stats.samples_for_percentile(p) for p in (0.9, 0.99, 0.999)] == [29, 299, 2995]
    assert stats.percentile(list(range(50)), 0.99) is None  # naive: the largest of fifty
    assert stats.percentile(list(range(300)), 0.99) == 296
    calm, rough = [10.0] * 299, [10.0] * 270 + [100.0] * 29
    tails = [stats.percentile(run, 0.99) for run in (calm, calm, calm, rough)]
    assert fmean(t for t in tails if t) == 32.5  # an average of percentiles is a latency that nobody saw
    assert stats.percentile([*calm, *calm, *calm, *rough], 0.99) == 100.0
    # Tails point the same way: the slow end of times is the low end of rates.
    rates = [1 / t for t in [*calm, *rough]]
    slow = stats.percentile([*calm, *rough], 0.99)
    assert slow is not None and stats.percentile(rates, 0.01) == pytest.approx(1 / slow)


def covered(seed: int, processes: int, samples: int = 41) -> float:
    generator = rng(seed)
    offsets = generator.normal(0, OFFSET, (TRIALS, processes, 1))
    times = TRUTH * np.exp(offsets + generator.normal(0, NOISE, (TRIALS, processes, samples)))
    intervals = [stats.case_interval(medians) for medians in np.median(times, axis=2).tolist()]
    return sum(i is not None and i.contains(TRUTH) for i in intervals) / TRIALS


@pytest.mark.parametrize("processes", [3, 5, 10])
def test_r12_the_interval_of_processes_covers_the_truth(processes: int) -> None:
    """2,000 trials each, processes 5 % apart: 95.4 %, 95.2 % and 93.9 % (standard error 0.5 %)."""
    found = covered(1200 + processes, processes)
    print(f"R12: {processes} processes cover in {found:.2%} of {TRIALS}")
    assert 0.92 <= found <= 0.98


def test_r12_pooled_samples_do_not_and_one_process_has_no_interval() -> None:
    """Pooling eight processes of a hundred steps: 14.6 % instead of 95 %."""
    generator = rng(1208)
    offsets = generator.normal(0, OFFSET, (TRIALS, 8, 1))
    pools = (TRUTH * np.exp(offsets + generator.normal(0, NOISE, (TRIALS, 8, 100)))).reshape(TRIALS, -1)
    half = 1.96 * pools.std(axis=1) / math.sqrt(800)
    pooled = float(np.mean(np.abs(pools.mean(axis=1) - TRUTH) <= half))
    print(f"R12: pooled samples cover in {pooled:.2%} of {TRIALS}")
    assert 0.08 < pooled < 0.20
    assert stats.case_interval([10.0]) is None
    found = understood(sampled(a_case(), 0, 10.0)).cases[0]
    assert found.step_s is None and found.reasons["step_s"] == "one process" and found.step_point_s


def test_r13_interleaved_cases_share_the_drift() -> None:
    """Two names of one and the same work on a machine that slows by 15 % after two seconds."""

    class Named:
        def __init__(self, name: str) -> None:
            self.case_id = name

    def run(order: list[str]) -> float:
        world = World(kernel_ns=lambda i: 10 * MS if i < 200 else 11.5 * MS)
        times: dict[str, list[float]] = {"a": [], "b": []}
        for name in order:
            times[name].append(fmean(world.synced_ns() for _ in range(20)))
        a, b = (dict(enumerate(times[name])) for name in "ab")
        ratio = stats.paired_ratio(a, b)
        assert ratio is not None
        return ratio.interval.estimate

    assert run(["a"] * 10 + ["b"] * 10) < 0.9  # all of one, then all of the other
    assert run([c.case_id for _, _, c in schedule([Named("a"), Named("b")], 10, 0)]) == pytest.approx(
        1, abs=0.02
    )
    firsts = [c.case_id for _, order, c in schedule([Named("a"), Named("b")], 40, 0) if order % 2 == 0]
    assert 10 < firsts.count("a") < 30  # shuffled anew in each replicate


def test_r14_samples_over_time_of_the_same_steps() -> None:
    case = a_case(batch=128)
    blocks = tuple(Block(n_steps=1, samples=128, ns=ns) for ns in (10 * MS, 10 * MS, 100 * MS))
    found = process(sampled(case, 0, 1.0, blocks=blocks))
    assert isinstance(found, Process)
    truth = 3 * 128 / 0.120
    assert fmean(128 / (b.ns / SECOND) for b in blocks) > 1.9 * truth  # a mean of rates
    assert found.samples_per_s == pytest.approx(truth)
    # Trimmed times under an untrimmed count, as a published tool divides: four times too fast.
    many = tuple(Block(n_steps=1, samples=128, ns=ns) for ns in [10 * MS] * 97 + [SECOND] * 3)
    found = process(sampled(case, 0, 1.0, blocks=many))
    assert isinstance(found, Process)
    trimmed = 100 * 128 / (sum(b.ns for b in many if b.ns <= 500 * MS) / SECOND)
    assert trimmed > 3.9 * found.samples_per_s
    assert found.samples_per_s == pytest.approx(100 * 128 / 3.97)
    # A runtime that does one sample where 128 were asked: the samples are those of the step.
    world = World()
    samples = sample_training(world.prepared(samples_per_step=1), Plan(budget_s=10.0))
    assert all(b.samples == b.n_steps for b in samples.blocks)


def false_alarms(trials: int, cases: int, n: int, sd: float, seed: int) -> tuple[int, int]:
    """Of unchanged cases: families with an alarm as breakeven judges; alarms of a 5 % gate on one pair."""
    data = np.exp(rng(seed).normal(0, sd, (trials, cases, 2, n)))
    alarms = 0
    for trial in data.tolist():
        ratios = [stats.paired_ratio(dict(enumerate(b)), dict(enumerate(c))) for b, c in trial]
        adjusted = stats.holm([r.p_value for r in ratios if r])
        found = [stats.verdict(r, margin=MARGIN, p_adjusted=p) for r, p in zip(ratios, adjusted, strict=True)]
        alarms += any(v in (Verdict.FASTER, Verdict.SLOWER) for v in found)
    naive = int(np.sum(np.abs(data[:, :, 0, 0] / data[:, :, 1, 0] - 1) > 0.05))
    return alarms, naive


@pytest.mark.parametrize("n", [3, 5])
def test_r15_forty_unchanged_cases_raise_few_false_alarms(n: int) -> None:
    """A/A with 4 % between processes, 1,000 families of forty cases. 54 had an alarm at three processes
    (upper 95 % bound 6.7 %), 52 at five (6.5 %); a gate of 5 % on single runs alarms in 15 cases of forty."""
    trials = 1000
    alarms, naive = false_alarms(trials, 40, n, 0.04, seed=1500 + n)
    bound = float(betaincinv(alarms + 1, trials - alarms, 0.95))  # Clopper and Pearson, one-sided
    print(f"R15: n={n}: {alarms} of {trials} families, bound {bound:.2%}; naive {naive / trials:.1f} of 40")
    assert naive / trials > 5
    assert alarms <= 0.05 * trials + 3.3 * math.sqrt(0.05 * 0.95 * trials)


def test_r15_a_ratio_has_an_interval_a_baseline_and_one_of_four_verdicts() -> None:
    base, cases = a_case(), {}
    for ms, word in ((5.0, "faster"), (20.0, "slower"), (10.0, "same")):
        other = a_case(device="cuda:0")
        found = understood(spread(base, 10.0, n=5, sd=0.005), spread(other, ms, n=5, sd=0.005)).ratios[0]
        cases[word] = found
        assert found.verdict == word and found.base_label == "cpu" and found.ratio is not None
    wide = understood(spread(base, 10.0, sd=0.05), spread(a_case(device="cuda:0"), 8.5, sd=0.05)).ratios[0]
    assert wide.verdict == "uncertain" and wide.processes_needed
    assert (
        fmean([4.0, 0.25]) > 2
    )  # "twice as fast on average": once four times faster, once four times slower
    assert stats.geometric_mean([4.0, 0.25]) == pytest.approx(1)
