"""What the input allows: the planted share bounds the ratio, and a bound that does not hold is said."""

import math
import random
from collections.abc import Mapping

import pytest

from breakeven.analysis.curves import WhatIfFinding
from breakeven.records.lines import Attempt

from .conftest import a_case, again, sampled, understood

Steps = Mapping[tuple[str, str], float]
"""(device, tuning) -> step in milliseconds."""
SAME_INPUT: Steps = {
    ("cpu", "as-written"): 100.0, ("cpu", "on-device"): 60.0,
    ("cuda:0", "as-written"): 45.0, ("cuda:0", "on-device"): 5.0,
}  # fmt: skip


def lines_of(steps: Steps, *, sd: float = 0.005, n: int = 3) -> list[Attempt]:
    rng = random.Random(0)
    return [
        sampled(a_case(device=device, tuning=tuning), i, ms * math.exp(rng.gauss(0, sd)), name=tuning)
        for (device, tuning), ms in steps.items()
        for i in range(n)
    ]


def found(steps: Steps, **options: float) -> WhatIfFinding:
    (finding,) = understood(lines_of(steps, **options)).what_if  # type: ignore[arg-type]
    return finding


def test_the_input_bounds_the_ratio_as_written() -> None:
    """40 ms of input on either side: 2.5x at most as written, 12x without it."""
    finding = found(SAME_INPUT)
    assert finding.share is not None and finding.share.contains(0.4)
    assert finding.bound is not None and finding.bound.contains(2.5)
    assert finding.ratio is not None and finding.ratio.contains(100 / 45)
    assert finding.next_ratio is not None and finding.next_ratio.contains(12.0)
    assert finding.candidate_share is not None and finding.candidate_share.contains(40 / 45)
    assert finding.holds == "within" and len(finding.evidence) == 12


def test_an_input_that_costs_the_gpu_less_exceeds_the_bound() -> None:
    finding = found(SAME_INPUT | {("cuda:0", "as-written"): 25.0})
    assert finding.holds == "exceeded"
    assert finding.ratio is not None and finding.bound is not None
    assert finding.ratio.low > finding.bound.high


def test_nothing_removed_bounds_nothing() -> None:
    finding = found(SAME_INPUT | {("cpu", "on-device"): 101.0})
    assert finding.bound is None and "removes nothing" in finding.reasons["bound"]
    assert finding.holds == "cannot be told"


def test_two_processes_are_no_verdict_and_one_no_interval() -> None:
    assert "fewest" in found(SAME_INPUT, n=2).reasons["holds"]
    one = found(SAME_INPUT, n=1)
    assert one.share is None and one.reasons["share"] == "fewer than two replicates in common"


def test_a_shared_machine_gives_no_verdict() -> None:
    (finding,) = understood([again(x, flags=("contended",)) for x in lines_of(SAME_INPUT)]).what_if
    assert finding.holds == "cannot be told" and finding.bound is not None


@pytest.mark.parametrize("missing", list(SAME_INPUT))
def test_it_takes_both_tunings_on_both_devices(missing: tuple[str, str]) -> None:
    steps = {key: ms for key, ms in SAME_INPUT.items() if key != missing}
    assert understood(lines_of(steps)).what_if == ()


def test_cores_against_cores_are_no_accelerator() -> None:
    steps = {("cpu:threads=1" if d == "cpu" else "cpu:threads=2", t): ms for (d, t), ms in SAME_INPUT.items()}
    assert understood(lines_of(steps)).what_if == ()
