"""Published claims: every test comes out both ways on planted rows, and says what it misses without them."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence

import pytest

from breakeven.analysis import understand
from breakeven.analysis.claims import OWN, TESTS, claims_against
from breakeven.analysis.findings import (
    CaseFinding,
    CeilingFinding,
    ClaimFinding,
    ParityFinding,
    RatioFinding,
    ShareFinding,
    Understanding,
)
from breakeven.catalog.claims import PAPERS, Claim, claims
from breakeven.records.case import Case
from breakeven.records.lines import Attempt
from breakeven.stats import Interval, Verdict
from breakeven.workloads import models
from breakeven.workloads.costs import training_flops

from .conftest import a_case, a_check, again, file_of, sampled, spread, understood
from .inference_lines import infer_case, processes

CLAIMS = {claim.claim: claim for claim in claims()}
Steps = Mapping[tuple[str, str, str], float]
"""(model, device, tuning) -> step in milliseconds."""


def lines_of(steps: Steps, *, sd: float = 0.005, n: int = 3) -> list[Attempt]:
    rng = random.Random(0)
    return [
        sampled(
            a_case(model, device, tuning), i, ms * math.exp(rng.gauss(0, sd)), name=tuning, parameters=None
        )
        for (model, device, tuning), ms in steps.items()
        for i in range(n)
    ]


def said(found: Understanding, claim: str) -> ClaimFinding:
    (finding,) = (c for c in claims_against(found) if c.claim == claim)
    return finding


def against(steps: Steps, claim: str, **options: float) -> ClaimFinding:
    return said(understood(lines_of(steps, **options)), claim)  # type: ignore[arg-type]


def two(model: str, ratio: float, tuning: str = "as-written") -> Steps:
    return {(model, "cpu", tuning): 100.0, (model, "cuda:0", tuning): 100.0 / ratio}


def three(ratios: Sequence[float]) -> Steps:
    steps: dict[tuple[str, str, str], float] = {}
    for model, ratio in zip(("simple-cnn", "resnet18", "resnet50"), ratios, strict=True):
        steps |= two(model, ratio)
    return steps


def test_the_catalog_is_whole() -> None:
    assert len(CLAIMS) == len(claims()) >= 20
    for claim in claims():
        assert claim.paper in PAPERS and claim.says and claim.where
        assert (claim.test in OWN) != (claim.test in TESTS)
        if claim.test == "ratio":
            assert claim.value is not None and claim.low is not None and claim.high is not None
            assert claim.low == pytest.approx(claim.value / 1.25, rel=0.005)
            assert claim.high == pytest.approx(claim.value * 1.25, rel=0.005)


def test_without_rows_only_arithmetic_decides() -> None:
    for finding in claims_against(understood()):
        assert finding.detail and not finding.evidence
        assert finding.own == (CLAIMS[finding.claim].test in OWN)
        if not finding.own:
            assert finding.verdict == "cannot be told" and finding.detail.startswith("missing: ")


@pytest.mark.parametrize(
    ("ratio", "verdict"), [(2.0, "confirmed"), (6.0, "not confirmed"), (2.5, "cannot be told")]
)
def test_a_ratio(ratio: float, verdict: str) -> None:
    finding = against(two("simple-cnn", ratio), "s1-ratio-simple-cnn", sd=0.02)
    assert finding.verdict == verdict and "here (cuda:0 against cpu)" in finding.detail
    assert len(finding.evidence) == 6


def test_a_ratio_takes_the_tuning_of_the_paper_and_a_verdict() -> None:
    assert "missing" in against(two("simple-cnn", 2.0, "on-device"), "s1-ratio-simple-cnn").detail
    assert against(two("simple-cnn", 2.0), "s1-ratio-simple-cnn", n=1).verdict == "cannot be told"
    shared = [again(x, flags=("contended",)) for x in lines_of(two("simple-cnn", 2.0))]
    assert said(understood(shared), "s1-ratio-simple-cnn").verdict == "cannot be told"
    one_core = {
        ("simple-cnn", "cpu:threads=1", "as-written"): 100.0,
        ("simple-cnn", "cpu", "as-written"): 50.0,
    }
    assert "missing" in against(one_core, "s1-ratio-simple-cnn").detail


def test_rows_that_disagree_decide_nothing() -> None:
    found = understood(lines_of(two("simple-cnn", 2.0)))
    (ratio,) = found.ratios
    interval = Interval(low=8.0, high=9.0, estimate=8.5, confidence=0.95, n=3)
    other = dataclasses.replace(ratio, ratio=interval, point=8.5)
    finding = said(dataclasses.replace(found, ratios=(ratio, other)), "s1-ratio-simple-cnn")
    assert finding.verdict == "cannot be told" and "disagree" in finding.detail


@pytest.mark.parametrize(
    ("exponent", "grows", "shrinks", "above"),
    [
        (1.5, "confirmed", "not confirmed", "confirmed"),
        (0.5, "confirmed", "not confirmed", "not confirmed"),
        (-0.5, "not confirmed", "confirmed", "not confirmed"),
    ],
)
def test_a_law_of_size(exponent: float, grows: str, shrinks: str, above: str) -> None:
    sizes = (488_586, 11_181_642, 23_528_522)
    steps = three([2.0 * (size / sizes[0]) ** exponent for size in sizes])
    found = understood(lines_of(steps, sd=0.001))
    assert said(found, "s1-larger-gains-more").verdict == grows
    assert said(found, "s2-smaller-gains-more").verdict == shrinks
    assert said(found, "s1-superlinear").verdict == above


@pytest.mark.parametrize(
    ("ratios", "grows", "shrinks"),
    [
        ((2.0, 7.3, 40.6), "cannot be told", "not confirmed"),
        ((40.0, 30.0, 2.0), "not confirmed", "cannot be told"),
        ((5.0, 2.0, 9.0), "not confirmed", "not confirmed"),
        ((5.0, 5.0, 5.0), "cannot be told", "cannot be told"),
    ],
)
def test_the_order_of_three_sizes_refutes_where_they_have_no_law(
    ratios: Sequence[float], grows: str, shrinks: str
) -> None:
    """Naive: in order, so it grows; three models without any trend lie so in one study of six."""
    found = understood(lines_of(three(ratios), sd=0.01))
    assert said(found, "s1-larger-gains-more").verdict == grows
    assert said(found, "s2-smaller-gains-more").verdict == shrinks


def test_rows_of_a_shared_machine_decide_nothing() -> None:
    steps = three((2.0, 7.3, 40.6)) | {
        ("simple-cnn", "cpu", "on-device"): 95.0,
        ("simple-cnn", "cuda:0", "on-device"): 45.0,
    }
    lines = lines_of(steps)
    decided = {
        c.claim for c in claims_against(understood(lines)) if c.verdict != "cannot be told" and not c.own
    }
    assert {"s1-transfer", "s2-smaller-gains-more", "s1-ratio-resnet50"} <= decided
    shared = understood([again(line, flags=("contended",)) for line in lines])
    assert [c.claim for c in claims_against(shared) if c.verdict != "cannot be told" and not c.own] == []


def undecided(lines: Sequence[Attempt], claim: str) -> bool:
    return said(understood(lines), claim).verdict == "cannot be told"


def test_simulated_devices_decide_nothing() -> None:
    """Naive: all that a study of planted truth planted is "confirmed"."""
    steps = {(m, f"sim:{'gpu' if d == 'cuda:0' else d}", t): ms
             for (m, d, t), ms in three((2.0, 7.3, 40.6)).items()}  # fmt: skip
    found = understood(lines_of(steps))
    assert len(found.ratios) == 3
    assert [c.claim for c in claims_against(found) if c.verdict != "cannot be told" and not c.own] == []


def test_one_core_or_an_accumulating_loop_is_not_what_a_paper_compared() -> None:
    one_core = {("simple-cnn", "cpu:threads=1", "as-written"): 100.0,
                ("simple-cnn", "cuda:0", "as-written"): 50.0}  # fmt: skip
    assert undecided(lines_of(one_core), "s1-ratio-simple-cnn")
    lines = []
    for device, ms in (("cpu", 100.0), ("cuda:0", 50.0)):
        lines += spread(accumulating("simple-cnn", device), ms)
    assert undecided(lines, "s1-ratio-simple-cnn")


def accumulating(model: str, device: str) -> Case:
    case = a_case(model, device)
    assert case.work.recipe is not None
    recipe = dataclasses.replace(case.work.recipe, accumulation=4)
    return dataclasses.replace(case, work=dataclasses.replace(case.work, recipe=recipe))


def test_steps_of_other_work_machines_or_of_two_processes_show_no_growth() -> None:
    claim, small = "s1-medium-for-free", spread(a_case("simple-cnn", "cuda:0"), 10.0, sd=0.001)
    medium = spread(a_case("resnet18", "cuda:0"), 11.0, sd=0.001)
    assert not undecided([*small, *medium], claim)
    assert undecided([*small[:2], *medium[:2]], claim)
    assert undecided([*small, *(again(a, fingerprint_id="f1") for a in medium)], claim)
    assert undecided([*small, *spread(accumulating("resnet18", "cuda:0"), 11.0, sd=0.001)], claim)


def test_ratios_of_two_machines_have_no_order_and_no_law() -> None:
    """Naive: the large model's ratio on the other machine makes the order, or the exponent."""
    sizes = (488_586, 11_181_642, 23_528_522)
    here = lines_of(three([2.0 * (size / sizes[0]) ** 0.5 for size in sizes]), sd=0.001)
    assert not undecided(here, "s1-larger-gains-more") and not undecided(here, "s1-superlinear")
    there = [again(a, fingerprint_id="f1") if a.work.model == "resnet50" else a for a in here]
    assert undecided(there, "s1-larger-gains-more") and undecided(there, "s1-superlinear")


def test_ratios_of_another_file_do_not_enter_the_order_of_this_one() -> None:
    """Naive: the large model's ratio there lies below the medium one's here, which refutes growth."""
    here = file_of(lines_of(three((2.0, 7.3, 40.6))), path="here")
    there = file_of(lines_of(two("resnet50", 4.0)), path="there")
    assert said(understand([here, there]), "s1-larger-gains-more").verdict == "cannot be told"
    assert said(understand([here, there]), "s2-smaller-gains-more").verdict == "not confirmed"


def test_processes_that_disagree_about_copies_decide_nothing() -> None:
    """Naive: 0.1, 0.1 and 0.85 are 35 % in the mean, as published."""
    found = understood(lines_of(two("simple-cnn", 2.0)))
    gpu = next(c for c in found.cases if c.device_label == "cuda:0")
    split = ShareFinding(
        case_id=gpu.case_id, source=gpu.source, step_s=0.05, label="copy", processes=3,
        shares={"copy": 0.35}, ranges={"copy": (0.1, 0.85)},
    )  # fmt: skip
    assert said(dataclasses.replace(found, shares=(split,)), "s1-transfer").verdict == "cannot be told"


def test_the_link_of_another_machine_tells_nothing() -> None:
    link = CeilingFinding(
        device_label="cuda:0",
        name="host_to_device_pageable",
        value=20.0,
        unit="gb_per_s",
        machine="f1",
        evidence=("link",),
    )
    found = dataclasses.replace(understood(lines_of(two("simple-cnn", 2.0))), ceilings=(link,))
    assert "missing" in said(found, "s1-transfer").detail


def test_a_law_against_flops_stands_in_for_one_against_parameters() -> None:
    """Planted: the ratio follows the FLOPs, of which ResNet18 has fewer than its parameters let think."""
    nets = {name: models.model(name) for name in ("simple-cnn", "resnet18", "resnet50")}
    ratios = [
        2.0 * (training_flops(net, 1) / training_flops(nets["simple-cnn"], 1)) ** 0.8 for net in nets.values()
    ]
    found = understood(lines_of(three(ratios), sd=0.02))
    laws = {s.against: s.verdict for s in found.scale}
    assert laws == {"parameters": "cannot be told", "flops": "grows"}
    finding = said(found, "s1-larger-gains-more")
    assert finding.verdict == "confirmed" and "with flops" in finding.detail
    said_so = [line for line in found.sentences if "with FLOPs" in line]
    assert said_so and "grows with FLOPs (exponent 0.8" in said_so[0] and "with parameters that" in said_so[0]
    assert not any("no trend" in line for line in found.sentences)


def test_three_scattered_sizes_have_no_law() -> None:
    found = understood(lines_of(three((2.0, 7.3, 40.6))))
    finding = said(found, "s1-superlinear")
    assert finding.verdict == "cannot be told" and "exponent" in finding.detail


def test_an_input_too_small_for_the_copies_refutes_them() -> None:
    steps = two("simple-cnn", 2.0) | {
        ("simple-cnn", "cpu", "on-device"): 95.0,
        ("simple-cnn", "cuda:0", "on-device"): 45.0,
    }
    finding = against(steps, "s1-transfer")
    assert finding.verdict == "not confirmed" and "whole input" in finding.detail


@pytest.mark.parametrize(("rate", "verdict"), [(1.573 / 17.5, "confirmed"), (20.0, "not confirmed")])
def test_the_link_tells_what_copies_take(rate: float, verdict: str) -> None:
    """A batch of 128 x 3 x 32 x 32 floats is 1.573 MB: 17.5 ms of a step of 50 at 0.09 GB/s."""
    link = CeilingFinding(
        device_label="cuda:0", name="host_to_device_pageable", value=rate, unit="gb_per_s", evidence=("link",)
    )
    found = dataclasses.replace(understood(lines_of(two("simple-cnn", 2.0))), ceilings=(link,))
    finding = said(found, "s1-transfer")
    assert finding.verdict == verdict and "link" in finding.evidence


@pytest.mark.parametrize(("share", "verdict"), [(0.35, "confirmed"), (0.02, "not confirmed")])
def test_copies_that_were_timed_apart_tell_at_once(share: float, verdict: str) -> None:
    found = understood(lines_of(two("simple-cnn", 2.0)))
    gpu = next(c for c in found.cases if c.device_label == "cuda:0")
    split = ShareFinding(
        case_id=gpu.case_id, source=gpu.source, step_s=0.05, label="copy", processes=3, shares={"copy": share}
    )
    finding = said(dataclasses.replace(found, shares=(split,)), "s1-transfer")
    assert finding.verdict == verdict and "timed apart" in finding.detail
    few = dataclasses.replace(split, processes=2)
    assert "missing" in said(dataclasses.replace(found, shares=(few,)), "s1-transfer").detail


@pytest.mark.parametrize(("share", "verdict"), [(0.9, "confirmed"), (0.2, "not confirmed")])
def test_near_the_peak(share: float, verdict: str) -> None:
    found = understood(lines_of(two("resnet50", 40.0)))
    cases = tuple(
        dataclasses.replace(c, share_of_ceiling=share, ceiling_precision="tf32") for c in found.cases
    )
    finding = said(dataclasses.replace(found, cases=cases), "s1-near-peak")
    assert finding.verdict == verdict and "tf32" in finding.detail


@pytest.mark.parametrize(("factor", "verdict"), [(1.1, "confirmed"), (4.0, "not confirmed")])
def test_how_much_longer_a_larger_model_takes(factor: float, verdict: str) -> None:
    steps = {
        ("simple-cnn", "cuda:0", "as-written"): 10.0,
        ("resnet18", "cuda:0", "as-written"): 10.0 * factor,
    }
    finding = against(steps, "s1-medium-for-free")
    assert finding.verdict == verdict and "as long as simple-cnn" in finding.detail


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        (("equivalent", "equivalent"), "confirmed"),
        (("equivalent", "different"), "not confirmed"),
        (("equivalent", "cannot tell"), "cannot be told"),
    ],
)
def test_accuracy(verdicts: Sequence[str], expected: str) -> None:
    parity = tuple(
        ParityFinding(
            model=f"m{i}",
            tuning_name="as-written",
            base_label="cpu",
            candidate_label="cuda:0",
            verdict=verdict,  # type: ignore[arg-type]
            margin=0.01,
        )
        for i, verdict in enumerate(verdicts)
    )
    found = dataclasses.replace(understood(lines_of(two("simple-cnn", 2.0))), parity=parity)
    assert said(found, "s1-accuracy").verdict == expected


def inferring(batch: int, rate: float, device: str = "cuda:0") -> CaseFinding:
    (case,) = understood([sampled(a_case(device=device, batch=batch), i, 10.0) for i in range(3)]).cases
    work = dataclasses.replace(case.case.work, task="infer", recipe=None)
    interval = Interval(low=0.99 * rate, high=1.01 * rate, estimate=rate, confidence=0.95, n=3)
    return dataclasses.replace(
        case,
        case=dataclasses.replace(case.case, work=work),
        samples_per_s=interval,
        samples_per_s_point=rate,
    )


def swept(knee: int, *, device: str = "cuda:0", last: int = 256) -> Understanding:
    """A sweep at whose knee the rate stops to grow."""
    lines = []
    for batch in (b for b in (1, 4, 16, 64, 256, 1024) if b <= last):
        case = infer_case(device=device, batch=batch)
        lines += processes(case, 1e3 * batch / (100.0 * min(batch, knee)), sd=0.001)
    return understood(lines)


@pytest.mark.parametrize(
    ("knee", "last", "verdict"),
    [(16, 256, "confirmed"), (64, 256, "not confirmed"), (1024, 256, "not confirmed")],
)
def test_a_sweet_spot_of_inference(knee: int, last: int, verdict: str) -> None:
    """At 1024 the sweep ends before the knee: the batch is known to be at least the last one."""
    finding = said(swept(knee, last=last), "s3-sweet-spot")
    assert finding.verdict == verdict and f"{min(knee, last)}" in finding.detail
    assert "missing" in said(swept(16, last=16), "s3-sweet-spot").detail
    assert "missing" in said(swept(16, device="cpu"), "s3-sweet-spot").detail


@pytest.mark.parametrize(("times", "verdict"), [(58.0, "confirmed"), (5.0, "not confirmed")])
def test_int8_on_a_gpu_against_eager_fp32_on_a_cpu(times: float, verdict: str) -> None:
    """What papers quote: another precision and another runtime on another device."""
    base = infer_case(device="cpu", precision="fp32", batch=8)
    other = infer_case(device="cuda:0", tuning="tensorrt", precision="int8", batch=8)
    lines = [*processes(base, 58.0), *processes(other, 58.0 / times, name="tensorrt")]
    finding = said(understood(lines), "s3-int8")
    assert finding.verdict == verdict and "mixed" in finding.detail
    refuted = dataclasses.replace(a_check(other), outcome="output_mismatch", reason="wrong scale")
    assert "missing" in said(understood(lines, refuted), "s3-int8").detail


def inferred_ratio(value: float, base: str, candidate: str, precision: str) -> Understanding:
    """Two devices, one of them at `value` times the rate of the other, in inference."""
    sides = inferring(8, 100.0, base), inferring(8, 100.0 * value, candidate)
    ratio = RatioFinding(
        base_id=sides[0].case_id,
        candidate_id=sides[1].case_id,
        model="resnet18",
        parameters=None,
        flops_per_step=None,
        batch=8,
        base_label=base,
        candidate_label=candidate,
        tuning_name="as-written",
        tuning_base="as-written",
        of="step",
        ratio=Interval(low=0.98 * value, high=1.02 * value, estimate=value, confidence=0.95, n=3),
        point=value,
        verdict=Verdict.FASTER,
        precision_candidate=precision,
        evidence=("row",),
    )
    return dataclasses.replace(understood(), cases=sides, ratios=(ratio,))


@pytest.mark.parametrize(("value", "verdict"), [(58.0, "confirmed"), (5.0, "not confirmed")])
def test_int8_against_a_cpu(value: float, verdict: str) -> None:
    assert said(inferred_ratio(value, "cpu", "cuda:0", "int8"), "s3-int8").verdict == verdict
    assert "missing" in said(inferred_ratio(value, "cpu", "cuda:0", "fp16"), "s3-int8").detail


@pytest.mark.parametrize(("value", "verdict"), [(4.4, "confirmed"), (2.1, "not confirmed")])
def test_two_gpus_of_one_machine(value: float, verdict: str) -> None:
    found = inferred_ratio(value, "cuda:0", "cuda:1", "default")
    both = dataclasses.replace(found, machines=({"gpu": "Tesla T4, NVIDIA L4"},))
    assert said(both, "s3-l4-t4").verdict == verdict
    turned = dataclasses.replace(found, machines=({"gpu": "NVIDIA L4, Tesla T4"},))
    assert "missing" in said(turned, "s3-l4-t4").detail


OTHER_NUMBERS: dict[str, dict[str, object]] = {
    "s1-superlinear-own": {"large_ratio": 400.0},
    "s1-amdahl-units": {"units": 42.0},
    "s2-order-own": {"sizes": (1e6, 4e6, 3e6, 2e6)},
    "s2-order-inference": {"base": (9.0, 8.0, 7.0, 6.0), "candidate": (1.0, 1.0, 1.0, 1.0)},
    "s2-within-hardware": {"candidate_tflop": 810.0},
    "s2-link": {"limit": 450.0},
    "s3-bandwidth": {"candidate": "H200"},
}


@pytest.mark.parametrize("name", [name for name, claim in CLAIMS.items() if claim.test in OWN])
def test_arithmetic_decides_by_the_numbers_and_not_by_the_name(name: str) -> None:
    claim = CLAIMS[name]
    verdict, detail = OWN[claim.test](claim)
    assert verdict == "wrong by arithmetic" and any(c.isdigit() for c in detail)
    changed = {
        key: tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)
        for key, value in OTHER_NUMBERS[name].items()
    }
    other: Claim = dataclasses.replace(claim, numbers={**claim.numbers, **changed})
    assert OWN[claim.test](other)[0] != "wrong by arithmetic"


def test_what_the_arithmetic_says() -> None:
    assert "exponent 0.76" in OWN["own exponent above"](CLAIMS["s1-superlinear-own"])[1]
    units = OWN["own units"](CLAIMS["s1-amdahl-units"])[1]
    assert "1.6 % of 2560 units" in units and "= 41.2" in units
    assert "11 times" in OWN["own peak"](CLAIMS["s2-within-hardware"])[1]
    assert "31.9x" in OWN["own ranks"](CLAIMS["s2-order-inference"])[1]
