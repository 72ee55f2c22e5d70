"""Laws of size as one family: what chance alone finds at several tunings, and what a true law survives."""

from __future__ import annotations

import math
import random

import pytest

from breakeven import stats
from breakeven.analysis.findings import RatioFinding, ScaleFinding
from breakeven.analysis.scale import scale_of, told_law
from breakeven.records.case import Case
from breakeven.workloads.costs import parameter_count, training_flops
from breakeven.workloads.models import model

from .conftest import a_case

NAMES = ("simple-cnn-w0.5", "simple-cnn", "simple-cnn-w4", "resnet18", "resnet50")
SIZES = {name: (parameter_count(model(name)), training_flops(model(name), 128)) for name in NAMES}
CASES = {name: a_case(name, "cuda:0") for name in NAMES}
TRIALS = 400


def ratio_of(name: str, tuning: str, truth: float, rng: random.Random, noise: float) -> RatioFinding:
    """A measured ratio of three pairs of processes."""
    pairs = {i: 10.0 * truth * math.exp(rng.gauss(0, noise)) for i in range(3)}
    measured = stats.paired_ratio(pairs, dict.fromkeys(range(3), 1.0))
    assert measured is not None
    case = CASES[name]
    return RatioFinding(
        model=name,
        batch=128,
        base_id="base",
        candidate_id=case.case_id,
        base_label="cpu",
        candidate_label="cuda:0",
        tuning_name=tuning,
        tuning_base=tuning,
        of="step",
        ratio=measured.interval,
        point=measured.interval.estimate,
        verdict=stats.Verdict.FASTER,
        parameters=SIZES[name][0],
        flops_per_step=float(SIZES[name][1]),
    )


def laws(seed: int, *, tunings: int, exponent: float, scatter: float, noise: float) -> list[ScaleFinding]:
    """One study of five nets: ratios that go with their FLOPs as planted, and scatter between nets."""
    rng = random.Random(seed)
    cases: dict[str, Case] = {case.case_id: case for case in CASES.values()}
    ratios = [
        ratio_of(name, f"t{i}", math.exp(rng.gauss(0, scatter)) * SIZES[name][1] ** exponent, rng, noise)
        for i in range(tunings)
        for name in NAMES
    ]
    return scale_of(ratios, cases)


def by_itself(law: ScaleFinding) -> bool:
    """What each law says alone: the plain 95 % interval leaves out 0."""
    sizes, ratios = [size for _, size, _ in law.points], [ratio for *_, ratio in law.points]
    slope = stats.slope_of(sizes, ratios)
    return slope is not None and slope.p_value < 0.05


@pytest.mark.parametrize("tunings", [1, 2, 3])
@pytest.mark.parametrize(("scatter", "noise"), [(0.5, 0.02), (0.0, 0.05), (0.2, 0.1)])
def test_without_a_trend_few_studies_say_that_there_is_one(
    tunings: int, scatter: float, noise: float
) -> None:
    told = naive = 0
    for seed in range(TRIALS):
        found = laws(seed, tunings=tunings, exponent=0.0, scatter=scatter, noise=noise)
        assert len(found) == 2 * tunings == found[0].family
        told += any(law.verdict != "cannot be told" for law in found)
        naive += any(by_itself(law) for law in found)
    assert told / TRIALS <= 0.07
    if tunings == 3 and scatter == 0.5:
        assert naive / TRIALS > 0.18  # naive: one file in five has a law that nobody planted


@pytest.mark.parametrize("tunings", [1, 3])
def test_a_true_law_is_found_still(tunings: int) -> None:
    found = [laws(seed, tunings=tunings, exponent=0.5, scatter=0.1, noise=0.03) for seed in range(50)]
    flops = [law for study in found for law in study if law.against == "flops"]
    assert sum(law.verdict == "grows" for law in flops) / len(flops) >= 0.9
    assert all(law.verdict != "shrinks" for law in flops)
    covered = sum(law.exponent is not None and law.exponent.contains(0.5) for law in flops) / len(flops)
    assert covered >= 0.93


def test_interval_word_and_p_value_say_the_same() -> None:
    seen = set()
    for seed in range(60):
        for law in laws(seed, tunings=2, exponent=0.15, scatter=0.2, noise=0.03):
            assert law.exponent is not None and law.p_adjusted is not None
            decided = law.verdict != "cannot be told"
            assert decided == (law.p_adjusted < 0.05) == (not law.exponent.contains(0.0))
            assert law.exponent.confidence >= 0.95 and decided == (law.reason is None)
            seen.add(decided)
    assert seen == {True, False}


def test_the_law_that_is_spoken_of_is_one_that_the_family_decides() -> None:
    """Naive: of four laws with p = 0.33, 0.07, 0.17, 0.02 the last, by its own interval, "grows"."""
    for seed in range(TRIALS):
        found = laws(seed, tunings=2, exponent=0.0, scatter=0.5, noise=0.02)
        if any(by_itself(law) for law in found) and all(law.verdict == "cannot be told" for law in found):
            assert {told_law(law, found).verdict for law in found} == {"cannot be told"}
            assert any("Holm" in (law.reason or "") for law in found)
            return
    raise AssertionError("no trial has a law by itself alone")
