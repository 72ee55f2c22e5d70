"""Inference: planted rates, quantiles, factors, knees and faults come back; what cannot be told is not."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

import pytest

from breakeven.analysis.findings import Understanding
from breakeven.analysis.inference import quantile
from breakeven.analysis.inference_findings import FrontierFinding, InferenceFinding, SaturationFinding
from breakeven.analysis.inference_frontier import beats
from breakeven.analysis.inference_saturation import span
from breakeven.records.case import Case
from breakeven.records.lines import Attempt, Ceiling

from .conftest import a_study, again, understood
from .inference_lines import checked, infer_case, law_ms, processes, served

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def one(found: Understanding) -> InferenceFinding:
    (finding,) = found.inference.cases
    return finding


def sweep(
    floor: float = 2.0,
    fixed: float = 0.5,
    a_second: float = 10_000.0,
    *,
    device: str = "cuda:0",
    batches: Sequence[int] = BATCHES,
    n: int = 3,
    sd: float = 0.0,
    seed: int = 0,
    oom: int | None = None,
) -> list[Attempt]:
    """One sweep over the batch with the planted law; from batch `oom` on nothing fits."""
    lines = []
    for batch in batches:
        case = infer_case(device=device, batch=batch)
        if oom is not None and batch >= oom:
            lines.append(served(case, 0, 1.0, outcome="oom", reason="out of memory", blocks=(), calls_ns=()))
            continue
        lines += processes(case, law_ms(floor, fixed, a_second, batch), n=n, sd=sd, seed=seed)
    return lines


def swept(*args: float, **options: object) -> SaturationFinding:
    (finding,) = understood(sweep(*args, **options)).inference.saturation  # type: ignore[arg-type]
    return finding


# Rate and latency


def test_rate_and_latency_are_two_measurements() -> None:
    """Pipelined calls take 1 ms, single ones 2 ms: neither is made from the other (R3)."""
    case = infer_case(batch=8)
    lines = [served(case, i, 1.0, calls_ms=[2.0] * 400) for i in range(3)]
    finding = one(understood(lines, checked(case)))
    assert finding.images_per_s is not None and finding.images_per_s.estimate == pytest.approx(8000.0)
    assert finding.quantile(0.5).interval is not None
    assert finding.quantile(0.5).interval.estimate == pytest.approx(2e-3)
    assert finding.calls == 1200 and finding.ranked
    naive = 8 / finding.quantile(0.5).interval.estimate  # what dividing the batch by the latency would say
    assert naive == pytest.approx(4000.0)


def test_a_quantile_takes_enough_calls() -> None:
    """p99 takes 299 calls and p99.9 2,995 (R11): pooled they may be there where no process has its own."""
    rng = random.Random(0)
    many = [[rng.lognormvariate(0, 0.1) for _ in range(200)] for _ in range(3)]
    tail = quantile(0.99, many)
    assert tail.value_s == pytest.approx(1.262, rel=0.05) and tail.interval is None
    assert "299" in (tail.reason or "")
    rare = quantile(0.999, many)
    assert rare.value_s is None and "2,995" in (rare.reason or "")
    usual = quantile(0.9, many)
    assert usual.interval is not None and usual.interval.contains(usual.value_s or 0.0)


def test_tails_are_pooled_and_never_averaged() -> None:
    """One process in three is slow: the mean of the three p99 is a time that hardly any call took."""
    calls = [[1.0] * 990 + [1.1] * 10, [1.0] * 990 + [1.1] * 10, [1.0] * 900 + [50.0] * 100]
    assert quantile(0.99, calls).value_s == 50.0  # over 3 % of all calls took as long
    assert quantile(0.9, calls).value_s == 1.0


def test_one_process_has_no_interval_of_its_latency() -> None:
    finding = one(understood(served(infer_case(), 0, 1.0, calls_ms=[1.0] * 300)))
    middle = finding.quantile(0.5)
    assert middle.value_s == 1e-3 and middle.interval is None and middle.reason == "one process: no interval"
    assert finding.images_per_s is None and finding.images_per_s_point == pytest.approx(1000.0)


def test_without_single_calls_the_reason_stands() -> None:
    case = infer_case()
    told = {"calls_ns": "the attempt's time was over"}
    finding = one(understood([served(case, i, 1.0, calls_ms=[], nulls=told) for i in range(3)]))
    assert finding.quantiles == () and finding.reasons["calls"] == told["calls_ns"]
    assert finding.ranked  # a rate is there


def test_cold_start_and_build_are_told_apart() -> None:
    case = infer_case(tuning="compiled")
    built = {"ns": 8_000_000_000, "captured": False, "cache_state": "cold"}
    finding = one(understood([served(case, i, 1.0, compile=built) for i in range(3)]))
    assert finding.build_s == pytest.approx(8.0) and finding.build_state == "cold"
    assert finding.cold_s is not None and finding.cold_s.estimate == pytest.approx(0.05)


def test_joules_an_image_are_power_over_rate() -> None:
    """100 W at 4,000 images a second: 25 mJ, whatever else the counter's window holds."""
    case = infer_case(batch=4)
    energy = {"scope": "gpu_board", "gross_j": 250.0, "window_ns": 2_500_000_000}
    finding = one(understood([served(case, i, 1.0, energy=energy) for i in range(3)]))
    assert finding.j_per_image_point == pytest.approx(0.025)
    without = one(understood([served(case, i, 1.0, nulls={"energy": "no counter"}) for i in range(3)]))
    assert without.j_per_image is None and without.reasons["j_per_image"] == "no counter"


# What outputs are worth


def test_the_figures_of_the_check_come_along() -> None:
    case = infer_case(precision="int8", weights="sha256:ab")
    checks = {"accuracy": {"asked": 0.9, "found": 0.88, "ok": None, "note": "asked is of fp32"}}
    outputs = one(understood(processes(case, 1.0), checked(case, checks))).outputs
    assert (outputs.agreement, outputs.output_error, outputs.reference_error) == (0.998, 0.02, 2e-7)
    assert (outputs.accuracy, outputs.fp32_accuracy) == (0.88, 0.9)
    assert not outputs.random and outputs.note == "1024 images"
    bare = one(understood(processes(infer_case(), 1.0))).outputs
    assert bare.agreement is None and bare.random
    assert bare.reasons["agreement"] == "no check of it came to its end"


@pytest.mark.parametrize(
    "checks",
    [
        {"outcome": "output_mismatch", "reason": "agreement of 60 %"},
        {"checks": {"agreement": {"asked": 0.9, "found": 0.6, "ok": False, "note": "wrong scale"}}},
    ],
)
def test_a_wrong_int8_is_never_ranked(checks: Mapping[str, object]) -> None:
    """Five times as fast and wrong: no winner, no factor, no frontier; whatever the outcome says."""
    right, wrong = infer_case(), infer_case(precision="int8")
    line = dataclasses.replace(checked(wrong), **checks)  # type: ignore[arg-type]
    slower = infer_case(tuning="compiled")
    lines = [*processes(right, 5.0), *processes(wrong, 1.0), *processes(slower, 6.0, name="compiled")]
    found = understood(lines, checked(right), line, checked(slower))
    assert {f.case_id for f in found.inference.cases if not f.ranked} == {wrong.case_id}
    for factor in found.inference.factors:
        assert wrong.case_id not in (factor.base_id, factor.candidate_id)
    assert found.inference.gains == ()  # eager is the fastest of the right ones
    (frontier,) = found.inference.frontier
    assert {p.case_id for p in frontier.points} == {right.case_id}
    assert [case_id for case_id, _ in frontier.left_out] == [wrong.case_id]
    assert any("failed a check" in sentence for sentence in found.sentences)


def test_a_silent_fall_back_is_no_fp16() -> None:
    case = infer_case(precision="fp16")
    line = dataclasses.replace(checked(case), outcome="precision_mismatch", reason="fp32 ran")
    finding = one(understood(processes(case, 1.0), line))
    assert not finding.ranked and finding.images_per_s_point is None
    assert finding.reasons["ranked"] == "precision_mismatch: fp32 ran"


# Saturation


def test_the_planted_knee_comes_back() -> None:
    """t = max(2 ms, 0.5 ms + B / 10,000): the knee lies at batch 15, and 90 % are reached at batch 64."""
    finding = swept()
    assert finding.law is not None and finding.law.law == "knee"
    assert finding.law.knee == pytest.approx(15.0)
    assert finding.floor_s is not None and finding.floor_s.estimate == pytest.approx(2e-3)
    assert finding.fixed_s is not None and finding.fixed_s.estimate == pytest.approx(5e-4)
    assert finding.limit_per_s is not None and finding.limit_per_s.estimate == pytest.approx(1e4)
    assert (finding.reach(0.9).batch, finding.reach(0.95).batch) == (64, 128)
    assert finding.reach(0.9).answer == "reached" and span(finding.reach(0.9)) == "64"
    assert finding.balanced == 16 and finding.largest == finding.best_batch == 512
    assert [p.law_s for p in finding.points] == pytest.approx(
        [law_ms(2.0, 0.5, 1e4, b) / 1e3 for b in BATCHES]
    )


def test_the_intervals_cover_the_planted_truth() -> None:
    """95 % nominal, 100 trials of five processes: knee and B90 are covered in 89 or more (99.5 % do)."""
    knees = reaches = 0
    for trial in range(100):
        finding = swept(n=5, sd=0.02, seed=trial)
        knees += finding.knee is not None and finding.knee.contains(15.0)
        reach = finding.reach(0.9)
        # Of the best rate measured: that at 512 is 9,903 images a second, so batch 64 has 93.7 % of it.
        reaches += (reach.low or 0) <= 64 <= (reach.high or 10**9)
    assert knees >= 89 and reaches >= 89


def test_a_sweep_that_ends_too_early_says_so() -> None:
    finding = swept(batches=(1, 2, 4, 8))
    reach = finding.reach(0.9)
    assert reach.answer == "not swept far enough" and reach.batch is None and reach.low == 8
    assert "still gains 100%" in (reach.reason or "") and span(reach) == "at least 8"
    assert finding.law is not None and finding.law.law == "flat"


def test_what_does_not_fit_ends_the_sweep_and_answers_it() -> None:
    """Out of memory at 64: the best rate is that of 32, the largest that fits, and B90 is of it."""
    finding = swept(oom=64)
    assert (finding.oom_at, finding.largest) == (64, 32)
    reach = finding.reach(0.9)
    assert reach.answer == "reached" and reach.batch == 32 and "largest that fits" in (reach.reason or "")
    assert dict(finding.missing)["64"].startswith("oom")


def test_two_processes_locate_nothing() -> None:
    finding = swept(n=2)
    assert finding.reach(0.9).answer == "cannot be told" and finding.reach(0.9).batch == 64
    assert "2 processes in common" in (finding.reach(0.9).reason or "")
    alone = swept(n=1)
    assert alone.law is not None and alone.knee is None and "1 process" in alone.reasons["law_interval"]
    # The law behind it is no surer than the batch: from three on it has intervals, and the sentence a batch.
    assert finding.law is not None and finding.limit_per_s is finding.knee is finding.floor_s is None
    assert "3 are the fewest" in finding.reasons["law_interval"]
    assert span(finding.reach(0.9)) == span(alone.reach(0.9)) == "cannot be told"
    assert swept(n=3).limit_per_s is not None


def test_a_shared_machine_locates_nothing() -> None:
    lines = [again(a, flags=("contended",)) for a in sweep()]
    (finding,) = understood(lines).inference.saturation
    assert finding.disturbed and finding.reach(0.9).answer == "cannot be told"


def test_a_law_that_is_off_is_not_shown() -> None:
    """A step at batch 32, where some buffer leaves the cache: no floor and no line."""
    lines = []
    for batch in BATCHES:
        ms = batch / 10.0 * (1.0 if batch < 32 else 2.5)
        lines += processes(infer_case(batch=batch), ms)
    (finding,) = understood(lines).inference.saturation
    assert finding.law is None and "is off by" in finding.reasons["law"]
    assert all(p.law_s is None for p in finding.points)


@pytest.mark.parametrize(
    ("floor_of_faster", "answer"), [(2.0, "later"), (0.02, "earlier"), (0.2, "at the same batch")]
)
def test_whether_the_faster_device_saturates_later(floor_of_faster: float, answer: str) -> None:
    """Equal floors and ten times the rate: ten times the knee. With a tenth of the floor: the same."""
    lines = [
        *sweep(2.0, 0.0, 1_000.0, device="cpu"),
        *sweep(floor_of_faster, 0.0, 10_000.0, device="cuda:0"),
    ]
    (finding,) = understood(lines).inference.later
    assert finding.answer == answer and (finding.faster, finding.slower) == ("cuda:0", "cpu")
    assert finding.rates == pytest.approx(10.0, rel=0.01)


def test_what_a_faster_device_needs_is_said() -> None:
    found = understood(sweep(2.0, 0.0, 1_000.0, device="cpu"), sweep(2.0, 0.0, 10_000.0))
    assert any("saturates later: B90 32 against 2" in sentence for sentence in found.sentences)


# Factors


PLANTED = {
    ("eager", "fp32"): 6.0,
    ("eager", "int8"): 3.0,
    ("openvino", "fp32"): 3.0,
    ("openvino", "int8"): 1.0,
}
"""The runtime wins 2x in fp32, 3x in int8, the precision 2x in eager mode, 3x in OpenVINO: 6x in all."""


def planted(times: Mapping[tuple[str, str], float] = PLANTED, **options: object) -> Understanding:
    lines: list[object] = []
    for (name, precision), ms in times.items():
        case = infer_case(tuning=name, precision=precision)
        lines += [*processes(case, ms, name=name, **options), checked(case)]  # type: ignore[arg-type]
    return understood(*lines)  # type: ignore[arg-type]


def test_precision_and_runtime_are_kept_apart() -> None:
    found = planted(sd=0.01)
    factors = {
        (f.kind, f.base_name, f.base_precision, f.candidate_name, f.candidate_precision): f
        for f in found.inference.factors
    }
    expected = {
        ("precision", "eager", "fp32", "eager", "int8"): 2.0,
        ("precision", "openvino", "fp32", "openvino", "int8"): 3.0,
        ("runtime", "eager", "fp32", "openvino", "fp32"): 2.0,
        ("runtime", "eager", "int8", "openvino", "int8"): 3.0,
    }
    assert factors.keys() == expected.keys()
    for key, value in expected.items():
        ratio = factors[key].ratio
        assert ratio is not None and ratio.estimate == pytest.approx(value, rel=0.03)
        assert factors[key].verdict == "faster" and ratio.n == 3
    (gain,) = found.inference.gains
    assert gain.whole.kind == "mixed" and gain.whole.point == pytest.approx(6.0, rel=0.05)
    assert gain.runtime is not None and gain.precision is not None
    assert gain.runtime.point == pytest.approx(2.0, rel=0.05)
    assert gain.precision.point == pytest.approx(3.0, rel=0.05)
    # The two multiply to the mixed number: they are paired by the same replicates.
    product = (gain.runtime.point or 0) * (gain.precision.point or 0)
    assert product == pytest.approx(gain.whole.point)


def test_the_headline_names_both_factors_and_what_the_precision_costs() -> None:
    (first, *_) = planted().sentences
    assert first == (
        "On cpu, resnet18 batch 1: openvino int8 is 6.00x [6.00, 6.00] as fast as eager fp32: 3.0x by "
        "precision, 2.0x by runtime; 99.8 % same top-1 (random weights)."
    )


def test_what_a_precision_costs_is_never_dropped() -> None:
    """A long name leaves no room for it: it gets a sentence of its own."""
    lines: list[object] = []
    for (name, precision), ms in PLANTED.items():
        case = infer_case("resnet18-cifar-with-a-rather-long-name", tuning=name, precision=precision)
        lines += [*processes(case, ms, name=name), checked(case)]
    sentences = understood(*lines).sentences  # type: ignore[arg-type]
    assert sentences[1] == "openvino int8 on cpu, batch 1: 99.8 % same top-1 (random weights)."


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"flags": ("contended",)}, "no verdict (machine shared)"),
        ({"n": 2}, "no verdict, 2 processes a side"),
        ({"n": 1}, "about 6.0x as fast as eager fp32: no verdict, one process a side"),
    ],
)
def test_a_doubtful_number_is_no_headline_without_its_doubt(
    options: dict[str, object], expected: str
) -> None:
    (first, *others) = planted(**options).sentences
    assert expected in first and "by precision" not in first
    assert not any("beaten by none" in sentence for sentence in others) or "flags" not in options


def test_a_mixed_number_without_a_case_between_is_named_mixed() -> None:
    """Eager FP32 against a TensorRT of INT8 alone: the confound of published comparisons."""
    ends = {key: PLANTED[key] for key in (("eager", "fp32"), ("openvino", "int8"))}
    found = planted(ends)
    (gain,) = found.inference.gains
    assert gain.whole.kind == "mixed" and gain.runtime is gain.precision is None
    assert "openvino at fp32 has no number" in gain.reasons["between"]
    assert found.inference.factors == ()
    assert "mixed: precision and runtime cannot be told apart" in found.sentences[0]


def test_the_way_between_may_lead_over_the_precision() -> None:
    """OpenVINO was not run in FP32, but eager mode was in INT8."""
    found = planted({key: ms for key, ms in PLANTED.items() if key != ("openvino", "fp32")})
    (gain,) = found.inference.gains
    assert gain.precision is not None and gain.precision.point == pytest.approx(2.0)
    assert gain.runtime is not None and gain.runtime.point == pytest.approx(3.0)


def test_one_factor_alone_is_the_whole() -> None:
    found = planted({key: PLANTED[key] for key in (("eager", "fp32"), ("openvino", "fp32"))})
    (gain,) = found.inference.gains
    assert gain.whole.kind == "runtime" and gain.runtime is not None and gain.precision is None
    assert gain.runtime.point == gain.whole.point and "(runtime alone)" in found.sentences[0]


def test_other_weights_are_other_work() -> None:
    """Equal cases whose weights' hashes differ are no factor, however fast."""
    eager, tuned = infer_case(), infer_case(tuning="openvino")
    other = {"weights": "w1", "order": "o0"}
    found = understood(processes(eager, 6.0), processes(tuned, 3.0, name="openvino", hashes=other))
    (factor,) = found.inference.factors
    assert factor.ratio is None and "hashes differ" in factor.reasons["ratio"]


@pytest.mark.parametrize(("hashes", "compared"), [({"weights": "w0"}, True), ({"order": "o0"}, False)])
def test_a_runtime_must_tell_its_weights_and_need_not_tell_its_images(
    hashes: dict[str, str], compared: bool
) -> None:
    eager, tuned = infer_case(), infer_case(tuning="openvino")
    found = understood(processes(eager, 6.0), processes(tuned, 3.0, name="openvino", hashes=hashes))
    (factor,) = found.inference.factors
    assert (factor.ratio is not None) == compared


def test_what_is_built_pays_back_in_calls() -> None:
    """8 s of building, 1 ms saved a call: 8,000 calls."""
    eager, tuned = infer_case(), infer_case(tuning="compiled")
    built = {"ns": 8_000_000_000, "captured": False, "cache_state": "cold"}
    lines = [*processes(eager, 3.0), *processes(tuned, 2.0, name="compiled", compile=built)]
    (factor,) = understood(lines).inference.factors
    assert factor.pays_back is not None and factor.pays_back.estimate == pytest.approx(8000.0)
    slower = [*processes(eager, 2.0), *processes(tuned, 3.0, name="compiled", compile=built)]
    (factor,) = understood(slower).inference.factors
    assert factor.pays_back is None and factor.reasons["pays_back"].startswith("never")


def test_other_batches_do_not_blur_what_one_shows() -> None:
    """Holm's correction over a whole grid would leave three processes no verdict at all."""
    lines: list[Attempt] = []
    for batch in range(1, 41):
        lines += processes(infer_case(batch=batch), 2.0 * batch, sd=0.01)
        tuned = infer_case(tuning="compiled", batch=batch)
        lines += processes(tuned, 1.0 * batch, sd=0.01, name="compiled")
    grid = understood(lines).inference.factors
    (alone,) = understood([a for a in lines if a.work.batch == 7]).inference.factors
    assert len(grid) == 40 and {f.verdict for f in grid} == {"faster"}
    assert next(f for f in grid if f.batch == 7) == alone


def test_a_single_call_gains_otherwise_than_the_stream() -> None:
    eager, tuned = infer_case(), infer_case(tuning="cuda-graph")
    lines = [
        *processes(eager, 4.0, calls_ms=[8.0] * 50),
        *processes(tuned, 1.0, name="cuda-graph", calls_ms=[4.0] * 50),
    ]
    (factor,) = understood(lines).inference.factors
    assert factor.point == pytest.approx(4.0)
    assert factor.calls is not None and factor.calls.estimate == pytest.approx(2.0)


def test_two_devices_are_compared_at_one_precision() -> None:
    """FP16 on the GPU against FP32 on the CPU is mixed: no ratio, rather than one with a mark."""
    lines: list[Attempt] = []
    for device, precision, ms in (("cpu", "fp32", 8.0), ("cuda:0", "fp32", 2.0), ("cuda:0", "fp16", 1.0)):
        lines += processes(infer_case(device=device, precision=precision), ms)
    (ratio,) = understood(lines).ratios
    assert (ratio.precision_base, ratio.precision_candidate) == ("fp32", "fp32")
    assert ratio.point == pytest.approx(4.0)


# The frontier


def test_the_frontier_is_what_nothing_beats() -> None:
    """Batch 4 serves more than batch 1 at the same latency; at batch 64 one tuning beats the other."""
    times: dict[Case, float] = {
        infer_case(batch=1): 2.0,
        infer_case(batch=4): 2.0,
        infer_case(batch=64): 7.0,
        infer_case(batch=64, tuning="compiled"): 5.0,
    }
    lines = [line for case, ms in times.items() for line in processes(case, ms, name=case.tuning.execution)]
    (frontier,) = understood(lines).inference.frontier
    assert [p.batch for p in frontier.points] == [4, 64]
    assert [p.call_s for p in frontier.points] == pytest.approx([2e-3, 5e-3])
    assert frontier.candidates == 4 and frontier.axes == ("latency", "rate")
    assert frontier.reasons["energy"] == "energy was not read"


def test_energy_keeps_what_latency_and_rate_would_not() -> None:
    case, frugal = infer_case(batch=8), infer_case(batch=8, precision="fp16")
    fast = {"scope": "gpu_board", "gross_j": 700.0, "window_ns": 1_000_000_000}
    slow = {"scope": "gpu_board", "gross_j": 100.0, "window_ns": 1_000_000_000}
    lines = [*processes(case, 1.0, energy=fast), *processes(frugal, 2.0, energy=slow)]
    (frontier,) = understood(lines).inference.frontier
    assert {p.case_id for p in frontier.points} == {case.case_id, frugal.case_id}
    assert frontier.axes == ("latency", "rate", "energy")
    deaf = [*processes(case, 1.0, energy=fast), *processes(frugal, 2.0)]
    (frontier,) = understood(deaf).inference.frontier
    assert {p.case_id for p in frontier.points} == {case.case_id}


def test_less_than_three_percent_is_no_difference() -> None:
    lines = [*processes(infer_case(batch=64), 10.0), *processes(infer_case(batch=128), 19.9)]
    (frontier,) = understood(lines).inference.frontier
    (point,) = frontier.points
    assert point.batch == 64
    assert not beats(point, point)


def chosen(**processes_of: int) -> tuple[FrontierFinding, str]:
    """Batch 1 for latency and 64 for rate; batch 128 serves 1.5 % more and takes twice as long."""
    times = {"small": (1, 2.0), "middle": (64, 5.0), "large": (128, 9.85)}
    lines = [
        line
        for name, (batch, ms) in times.items()
        for line in processes(infer_case(batch=batch), ms, n=processes_of.get(name, 3))
    ]
    found = understood(lines)
    (frontier,) = found.inference.frontier
    assert [p.batch for p in frontier.points] == [1, 64]
    (said,) = (s for s in found.sentences if "beaten by none" in s or "to choose" in s)
    return frontier, said


def test_the_ends_of_the_frontier_take_three_processes_beside_their_rivals() -> None:
    frontier, said = chosen()
    assert "choice" not in frontier.reasons
    assert said.startswith(
        "2 of 3 cases on cpu are beaten by none; for latency eager fp32 at batch 1 (2.0 ms)"
    )
    assert said.endswith("at batch 64 (12,800 images/s, most 13,000).")  # the tables have the higher one
    frontier, said = chosen(middle=2)
    assert [p.processes for p in frontier.points] == [3, 2]
    assert said == (
        "Which of 3 cases on cpu to choose cannot be told: 1 of the 2 that none beats has fewer than 3 "
        "processes."
    )
    frontier, said = chosen(large=2)
    assert "the best in rate and the next have 2 processes in common" in said
    assert frontier.reasons["choice"] in said


# Training beside inference


def test_training_says_nothing_of_inference() -> None:
    from .conftest import a_case, spread

    found = understood(spread(a_case(), 10.0), a_study([a_case()]))
    assert found.inference.cases == found.inference.factors == found.inference.saturation == ()


def test_inference_makes_no_ladder() -> None:
    """Its tunings stand side by side: `channels-last` and `cuda-graph` are names of training's steps too."""
    lines = []
    for name in ("eager", "channels-last", "cuda-graph"):
        lines += processes(infer_case(device="cuda:0", tuning=name), 2.0, name=name)
    assert understood(lines).ladders == ()


def test_the_floor_is_that_of_a_forward_pass() -> None:
    """A third of a training step's arithmetic at most, no optimizer, and no traffic of what is fused."""
    from breakeven.workloads import costs, models, roofline

    net = models.model("resnet18", num_classes=10, input_shape=(3, 32, 32))
    rates = {"flop_per_s": 1e12, "byte_per_s": 1e11}
    whole, part = (roofline.floor(net, 8, training=t, **rates) for t in (True, False))
    assert part.seconds == part.forward_s == whole.forward_s
    fused = roofline.floor(net, 8, training=False, fused=True, **rates)
    assert 0.3 * part.seconds < fused.seconds < part.seconds and fused.flops == part.flops
    # Of the first block: both convolutions in and out, and the sum's other branch.
    kept = [c for c in costs.fused_costs(net) if c.bytes_read + c.bytes_written]
    assert {c.kind for c in kept} == {"Conv2d", "Add", "MaxPool2d", "AdaptiveAvgPool2d", "Linear"}
    block = [c for c in kept if c.name.startswith("layer1.0")]
    assert sum(c.bytes_read + c.bytes_written for c in block) == 5 * block[0].bytes_read
    assert part.backward_s == part.optimizer_s == 0.0
    assert part.flops < 0.4 * whole.flops


@pytest.mark.parametrize(("precision", "size"), [("fp32", 4), ("fp16", 2), ("int8", 1)])
def test_the_share_of_the_floor_is_at_the_precision_that_ran(precision: str, size: int) -> None:
    """Ceilings of one precision each, and a call that takes twice its floor."""
    from breakeven.workloads import models, roofline

    case = infer_case(device="cuda:0", precision=precision, batch=8)
    net = models.model("resnet18", num_classes=10, input_shape=(3, 32, 32))
    rate = {"fp32": 50.0, "fp16": 800.0, "int8": 1500.0}[precision]
    floor = roofline.floor(
        net, 8, flop_per_s=1e12 * rate, byte_per_s=4e12, dtype_bytes=size, training=False, fused=True
    )
    told = {"fingerprint_id": "f0", "started_utc": "t", "conditions": {"device": "cuda:0", "n": 2}}
    unit = "top_per_s" if precision == "int8" else "tflop_per_s"
    ceilings = [
        Ceiling(name=f"matmul_{precision}", value=rate, unit=unit, **told),  # type: ignore[arg-type]
        Ceiling(name="copy", value=4000.0, unit="gb_per_s", **told),  # type: ignore[arg-type]
    ]
    finding = one(understood(processes(case, 2e3 * floor.seconds), ceilings))
    assert finding.floor_s == pytest.approx(floor.seconds)
    assert finding.share_of_floor == pytest.approx(0.5, rel=1e-3)
    without = one(understood(processes(case, 1.0), ceilings[:1]))
    assert without.floor_s is None and "no measured bandwidth" in without.reasons["floor_s"]
