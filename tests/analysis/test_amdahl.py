"""More cores of one kind: planted parallel shares come back, an overhead is told from a serial part."""

import math
import random
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.analysis.amdahl import cores_findings, cores_of, fitted, karp_flatt, speedup
from breakeven.analysis.cases import measured_cases
from breakeven.analysis.curve_phrases import cores
from breakeven.analysis.curves import CoresFinding
from breakeven.records.case import parse_device
from breakeven.records.lines import Attempt

from .conftest import a_case, a_machine, a_study, again, file_of, sampled, understood

CORES = (1, 2, 4, 8)


def sweep(
    step_ms: Callable[[int], float],
    *,
    n: int = 3,
    sd: float = 0.0,
    seed: int = 0,
    counts: Sequence[int] = CORES,
) -> list[Attempt]:
    rng = random.Random(seed)
    return [
        sampled(a_case(device=f"cpu:threads={c}"), i, step_ms(c) * math.exp(rng.gauss(0, sd)))
        for c in counts
        for i in range(n)
    ]


def amdahl(parallel: float) -> Callable[[int], float]:
    return lambda c: 100.0 * ((1 - parallel) + parallel / c)


def found(lines: Sequence[Attempt], identical: int | None = None) -> CoresFinding:
    (finding,) = cores_findings(measured_cases(file_of(lines)), identical)
    return finding


@given(st.floats(-0.5, 1.0), st.floats(1e-3, 1e3))
def test_the_fit_is_exact_where_the_law_holds(parallel: float, scale: float) -> None:
    times = {c: scale * ((1 - parallel) + parallel / c) for c in (1, 3, 7, 20)}
    assert fitted(times) == pytest.approx(parallel, abs=1e-9)
    for c in (3, 7, 20):
        assert karp_flatt(times[1] / times[c], c) == pytest.approx(1 - parallel, abs=1e-9)


def test_the_limit_is_not_the_number_of_units() -> None:
    """At p = 0.9 a thousand units give 9.91 and no number of them 10."""
    assert speedup(0.9, 1000) == pytest.approx(9.910, abs=1e-3)
    assert speedup(0.9, math.inf) == pytest.approx(10.0)
    assert speedup(1.0, 64) == pytest.approx(64.0)


def test_the_planted_share_comes_back() -> None:
    finding = found(sweep(amdahl(0.9), sd=0.01))
    assert finding.parallel is not None and finding.parallel.contains(0.9) and finding.parallel.n == 3
    assert finding.parallel.relative_half_width < 0.03
    assert finding.limit == pytest.approx(10.0, rel=0.2)
    assert finding.limit_low is not None and finding.limit_high is not None
    assert finding.limit_low < 10.0 < finding.limit_high
    assert finding.trend == "no trend" and finding.misfit is not None and finding.misfit < 0.03
    assert [p.cores for p in finding.points] == list(CORES)
    assert len(finding.evidence) == 12
    assert "no number of cores gives more than" in cores(finding)


def test_the_interval_covers_the_planted_share() -> None:
    """95 % nominal, 200 trials of 3 processes: 99.9 % of such counts lie in 179..199."""
    hits = 0
    for trial in range(200):
        parallel = found(sweep(amdahl(0.9), sd=0.04, seed=trial)).parallel
        assert parallel is not None
        hits += parallel.contains(0.9)
    assert 179 <= hits <= 199


def test_an_overhead_that_grows_is_no_serial_part() -> None:
    finding = found(sweep(lambda c: 100.0 / c + 1.5 * (c - 1), sd=0.005))
    assert finding.trend == "grows"
    shares = [p.serial_point for p in finding.points if p.serial_point is not None]
    assert shares == sorted(shares) and len(shares) == 3
    assert "overhead" in cores(finding) and "more than" not in cores(finding)


def test_a_share_that_falls_is_said() -> None:
    shares = {1: 0.2, 2: 0.2, 4: 0.12, 8: 0.05}
    finding = found(sweep(lambda c: amdahl(1 - shares[c])(c), sd=0.005))
    assert finding.trend == "falls"
    # Naive: "no number of cores gives more than ...", by a law that the very next core may pass.
    assert "falls" in cores(finding) and "no number of cores" not in cores(finding)


def test_more_than_linear_has_no_limit() -> None:
    """Data that fits the caches of many cores only: the serial share is negative, and p passes 1."""
    finding = found(sweep(lambda c: 100.0 / c**1.3, sd=0.005))
    assert finding.trend == "super-linear" and finding.limit is None
    assert finding.parallel is not None and finding.parallel.low > 1.0
    assert "no limit can be told" in cores(finding)


def test_cores_that_slow_a_step_down_have_no_limit() -> None:
    slower = found(sweep(lambda c: 100.0 + 30.0 * c, sd=0.01))
    assert slower.parallel is not None and slower.parallel.high < 0 and slower.limit is None
    assert cores(slower).endswith("more cores make a step slower.")
    nothing = found(sweep(lambda c: 100.0, sd=0.05))
    assert cores(nothing).endswith("the parallel share cannot be told.")


def test_two_numbers_of_cores_show_no_trend() -> None:
    finding = found(sweep(amdahl(0.8), sd=0.01, counts=(1, 2)))
    assert finding.parallel is not None and finding.parallel.contains(0.8)
    assert finding.trend == "cannot be told" and "shows no trend" in finding.reasons["trend"]
    assert finding.misfit is finding.limit is finding.limit_low is None
    assert "fit any law" in finding.reasons["limit"]
    assert "no number of cores" not in cores(finding) and "should Amdahl's law hold" in cores(finding)


def test_the_measured_ratio_is_said_before_the_law() -> None:
    lines = sweep(amdahl(0.8), sd=0.01, counts=(1, 2, 4))
    cases = list({line.case_id: line.case for line in lines}.values())
    said = understood(a_study(cases, {"device": ["cpu:threads=1"]}), lines).sentences
    law = next(i for i, line in enumerate(said) if "no number of cores" in line)
    assert any("as fast as one core" in line for line in said[:law])


def test_one_process_has_a_point_and_no_interval() -> None:
    finding = found(sweep(amdahl(0.9), n=1))
    assert finding.parallel is None and finding.parallel_point == pytest.approx(0.9)
    assert finding.reasons["parallel"] == "one process: no interval"


def test_replicates_pair_and_cancel_what_they_share() -> None:
    drift = (1.0, 1.4, 0.7)
    lines = [
        sampled(a_case(device=f"cpu:threads={c}"), i, x * amdahl(0.9)(c))
        for c in CORES
        for i, x in enumerate(drift)
    ]
    parallel = found(lines).parallel
    assert parallel is not None and parallel.high - parallel.low < 1e-6


def test_a_shared_machine_gives_no_verdict() -> None:
    finding = found([again(line, flags=("contended",)) for line in sweep(amdahl(0.9), sd=0.01)])
    assert finding.trend == "cannot be told" and "something else" in finding.reasons["trend"]
    assert "no verdict (machine shared)" in cores(finding) and "more than" not in cores(finding)


def test_cores_that_were_not_measured_in_turn_have_no_limit() -> None:
    """Naive: one core on a slow day, eight on a fast one, and "no number of cores gives more than 5x"."""
    lines = sweep(amdahl(0.8), sd=0.005)
    days = [again(a, parent_id=f"{a.device.label}/{a.replicate}") for a in lines]
    finding = found(days)
    assert finding.apart and finding.trend == "cannot be told" and "in turn" in finding.reasons["trend"]
    assert "no number of cores" in cores(found(lines)) and "no number of cores" not in cores(finding)


def test_cores_of_another_kind_are_left_out() -> None:
    lines = sweep(lambda c: amdahl(0.9)(min(c, 4)) + (20.0 if c > 4 else 0.0), sd=0.005)
    mixed, alike = found(lines), found(lines, identical=4)
    assert mixed.trend == "grows" and alike.trend == "no trend"
    assert [p.cores for p in alike.points] == [1, 2, 4] and "8 cores" in alike.reasons["points"]
    hybrid = a_machine(cores=8)
    platform = {**hybrid.platform, "cpu": {**hybrid.platform["cpu"], "identical": 4}}
    whole = understood(again_machine(platform), lines)
    assert [p.cores for p in whole.cores[0].points] == [1, 2, 4]


def again_machine(platform: dict[str, object]) -> object:
    return a_machine(**{key: value for key, value in platform.items() if key != "python"})


def test_an_unlimited_cpu_and_a_gpu_are_no_number_of_cores() -> None:
    assert cores_of(parse_device("cpu")) is None
    assert cores_of(parse_device("cuda:0:threads=4")) is None
    assert cores_of(parse_device("cpu:threads=4")) == 4
    assert cores_of(parse_device("sim:cpu:serial=0.1:threads=8")) == 8
    lines = [*sweep(amdahl(0.9), counts=(1,)), *(sampled(a_case(), i, 20.0) for i in range(3))]
    assert cores_findings(measured_cases(file_of(lines))) == []


def test_a_study_that_may_add_processes_has_wider_intervals() -> None:
    lines = sweep(amdahl(0.9), sd=0.02)
    cases = list({line.case_id: line.case for line in lines}.values())
    fixed, open_ended = (
        cores_findings(
            measured_cases(file_of(a_study(cases, {"replicates": 3, "max_replicates": most}), lines))
        )[0]
        for most in (3, 10)
    )
    assert fixed.parallel is not None and open_ended.parallel is not None
    widths = [f.high - f.low for f in (open_ended.parallel, fixed.parallel)]
    assert widths[0] / widths[1] == pytest.approx(1.43, abs=0.01)
