"""Contract, group 4: is it what the label says?"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from analysis.conftest import a_case, sampled, spread, understood
from breakeven.analysis.comparable import Side, gate
from breakeven.errors import Mismatch, UserError
from breakeven.records.case import applicable
from breakeven.records.lines import Attempt, Ceiling, Check
from breakeven.records.tuning import preset
from breakeven.runner.child import classify
from breakeven.runtimes import bits, load
from breakeven.workloads.costs import forward_flops, layer_costs, training_flops
from breakeven.workloads.layers import Conv2d
from breakeven.workloads.models import model
from runtimes.torch_cases import case

from .worlds import QUIET, in_a_child, sim_case

SEEN = {"conv_precision": "ieee", "matmul_precision": "ieee"}


def checked(attempt: Attempt, outcome: str, reason: str) -> Check:
    return Check(
        case_id=attempt.case_id, fingerprint_id="f0", started_utc="t", outcome=outcome, reason=reason  # type: ignore[arg-type]
    )  # fmt: skip


def test_r21_a_silent_fallback_is_a_mismatch() -> None:
    asked = sim_case(f"sim:gpu:step_ms=5:{QUIET}:fault=mismatch")
    naive = in_a_child(asked)
    assert naive["outcome"] == "ok" and asked.device.label.startswith("sim:gpu")  # the label alone looks fine
    found = in_a_child(asked, "check")
    assert found["outcome"] == "device_mismatch" and "runs on sim:elsewhere" in found["reason"]
    gpu = a_case(device="cuda:0")
    lines = [sampled(c, i, ms) for c, ms in ((a_case(), 20.0), (gpu, 19.0)) for i in range(3)]
    ratio = understood(lines, checked(lines[-1], "device_mismatch", found["reason"])).ratios[0]
    assert ratio.point is None and "device_mismatch" in ratio.reasons["ratio"]


@pytest.mark.framework
def test_r21_every_parameter_and_the_output_are_asked_where_they_are() -> None:
    import torch

    from breakeven.runtimes.torch import session

    built = session.build(case(batch=16))
    session.observe(built)
    built.training.net.get_submodule("features.0").bias = torch.nn.Parameter(torch.zeros(32, device="meta"))
    assert (
        next(built.training.net.parameters()).device.type == "cpu"
    )  # naive: the first parameter speaks for all
    with pytest.raises(Mismatch) as raised:
        session.observe(built)
    assert raised.value.outcome == "device_mismatch"


BITS = {"bf16": (7, math.inf), "tf32": (10, math.inf), "fp16": (10, 65504.0), "fp32": (23, math.inf)}


@pytest.mark.framework
@pytest.mark.parametrize("unit", BITS)
def test_r22_the_probe_reads_what_the_unit_keeps(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Units that round their inputs, under settings that claim FP32 all the same."""
    import torch

    from breakeven.runtimes.torch import precision

    kept, largest = BITS[unit]

    def rounded(x: Any) -> Any:
        mantissa, exponent = torch.frexp(x.detach().double())
        out = torch.ldexp(torch.round(mantissa * 2 ** (kept + 1)) / 2 ** (kept + 1), exponent).float()
        return torch.where(out.abs() > largest, torch.full_like(out, math.inf), out)

    linear, conv2d = torch.nn.functional.linear, torch.nn.functional.conv2d
    monkeypatch.setattr(torch.nn.functional, "linear", lambda x, w, b=None: linear(rounded(x), rounded(w), b))
    monkeypatch.setattr(
        torch.nn.functional, "conv2d", lambda x, w, *rest: conv2d(rounded(x), rounded(w), *rest)
    )
    claimed = precision.read_back()  # naive: the settings, which know nothing of the unit
    layers = {
        "matmul": (torch.nn.Linear(64, 32), (32, 64)),
        "conv": (torch.nn.Conv2d(8, 8, 3), (32, 8, 6, 6)),
    }
    cpu = torch.device("cpu")
    found = {
        name: precision.probe(layer, shape, precision="fp32", device=cpu)
        for name, (layer, shape) in layers.items()
    }
    low, high = bits.BITS[unit]
    for probe in found.values():
        assert probe["precision"] == unit and low <= probe["bits"] <= high
    names = {name: probe["precision"] for name, probe in found.items()}
    assert bits.same("fp32", names) is (unit == "fp32")
    assert precision.read_back() == claimed


def test_r22_fp32_alone_is_no_label_and_unequal_numerics_are_named() -> None:
    half = a_case(device="cuda:0", tuning=dataclasses.replace(a_case().tuning, precision="bf16"))
    lines = [sampled(c, i, ms) for c, ms in ((a_case(), 20.0), (half, 5.0)) for i in range(3)]
    ratio = understood(lines).ratios[0]
    assert (ratio.precision_base, ratio.precision_candidate, ratio.mixed) == ("default", "bf16", True)
    one, other = (
        sampled(a_case(), 0, 10.0, observed=seen) for seen in (SEEN, SEEN | {"conv_precision": "tf32"})
    )
    assert one.tuning == other.tuning  # equal labels ...
    assert [d.field for d in gate(Side(attempt=one), Side(attempt=other)).blocked] == [
        "observed.conv_precision"
    ]


@pytest.mark.framework
def test_r23_emulation_is_named() -> None:
    import torch

    from breakeven.runtimes.torch import precision

    native, why = precision.hardware("bf16", torch.device("cpu"))
    assert native or "emulated" in why
    assert precision.hardware("tf32", torch.device("cpu"))[0] is False
    found = dict(load("torch").prepare(case(batch=16, precision="bf16")).checks())["dtype_in_hardware"]
    assert found["found"] == ("native" if native else "emulated") and found["note"] == why


def test_r23_a_type_slower_than_fp32_is_named_with_its_measured_speed() -> None:
    """Hardware may take a type and compute it slowly: half the bits, and five times the time."""
    rates = {"fp32": 0.10, "bf16": 0.02, "fp16": 0.15}

    def line(name: str, value: float | None, **changes: Any) -> Ceiling:
        told = {"device": "cpu"} | changes.pop("told", {})
        fixed = {"fingerprint_id": "f0", "started_utc": "t", "unit": "tflop_per_s", "conditions": told}
        return Ceiling(name=f"matmul_{name}", value=value, **(fixed | changes))

    lines = [line(name, value) for name, value in rates.items()]
    mine = spread(a_case(tuning=dataclasses.replace(a_case().tuning, precision="bf16")), 10.0)
    (found,) = [q for q in understood(lines, mine).quality if q.flag == "slow_type"]
    assert found.text == "bf16 on cpu: 20% of FP32's rate in a matrix product" and found.cases == 1
    assert set(found.evidence) == {lines[0].ceiling_id, lines[1].ceiling_id}
    for other in (
        [lines[0], line("bf16", None, reason="unsupported")],
        [line("fp32", 0.10, told={"flags": ["contended"]}), lines[1]],
        [line("fp32", 0.10, fingerprint_id="f1"), lines[1]],  # another machine's FP32
    ):
        assert not [q for q in understood(other, mine).quality if q.flag == "slow_type"]


def test_r23_what_a_device_has_not_is_unsupported_and_the_study_goes_on() -> None:
    error = RuntimeError("\"conv2d_cpu\" not implemented for 'Half'")
    assert classify(error)["outcome"] == "unsupported"  # naive: a crash that ends the sweep
    assert classify(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))["outcome"] == "error"
    told = load("torch").supports(case(precision="tf32"))
    assert told is not None and "tf32" in told


def test_r24_the_fastest_wrong_answer_is_not_ranked() -> None:
    base, right, wrong = a_case(), a_case(device="cuda:0"), a_case(device="cuda:1")
    lines = [sampled(c, i, ms) for c, ms in ((base, 20.0), (right, 5.0), (wrong, 1.0)) for i in range(3)]
    naive = min(lines, key=lambda a: a.blocks[2].ns)
    assert naive.device == wrong.device
    failed = checked(next(a for a in lines if a.device == wrong.device), "output_mismatch", "zeros")
    found = {r.candidate_label: r for r in understood(lines, failed).ratios}
    assert found["cuda:0"].point == pytest.approx(4)
    assert found["cuda:1"].point is None and "output_mismatch" in found["cuda:1"].reasons["ratio"]


@pytest.mark.framework
def test_r24_zeros_and_overflow_are_found_before_anything_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from breakeven.runtimes.torch import checks

    true = checks.forward

    def planted(factor: float) -> Any:
        def forward(net: Any, images: Any, labels: Any, precision: str) -> Any:
            loss, output = true(net, images, labels, precision)
            broken = images.dtype == torch.float32 and len(images) == checks.PARITY_BATCH
            return (loss * factor if broken else loss), output

        return forward

    for factor in (0.0, math.nan, 1.001):
        monkeypatch.setattr(checks, "forward", planted(factor))
        with pytest.raises(Mismatch, match="one_step_parity") as raised:
            load("torch").prepare(case(batch=16)).checks()
        assert raised.value.outcome == "output_mismatch"


@pytest.mark.framework
def test_r25_a_shared_parameter_counts_once() -> None:
    import torch

    from breakeven.runtimes.torch import nets

    head, body = torch.nn.Linear(64, 64, bias=False), torch.nn.Linear(64, 64, bias=False)
    tied = torch.nn.Sequential(head, body, torch.nn.Linear(64, 64, bias=False))
    tied[2].weight = head.weight
    assert sum(p.numel() for m in tied for p in m.parameters()) == 3 * 64 * 64
    assert nets.parameter_count(tied) == 2 * 64 * 64


def test_r25_flops_are_two_a_multiply_accumulate_and_stay_below_the_peak() -> None:
    net = model("simple-cnn")
    conv = next(node for node in net.nodes if isinstance(node, Conv2d))
    macs = conv.out_channels * 32 * 32 * conv.in_channels * 3 * 3
    assert layer_costs(net)[0].flops == 2 * macs  # naive: multiply-accumulates under the name FLOPs
    # Backward: as much for inputs and for weights, but the first layer needs no gradient of its input.
    assert 2.5 * forward_flops(net) < training_flops(net) <= 3 * forward_flops(net)
    step = training_flops(model("resnet18"), 128)
    assert step / (2.0e-4 * 67e12) > 1 > step / (1.5e-3 * 989e12)
    gpu = a_case(device="cuda:0")
    fast = [sampled(gpu, i, 0.02, observed={"device_name": "NVIDIA H200"}) for i in range(3)]
    assert "faster than the hardware" in (understood(fast).cases[0].failure or "")  # over 100 % is an error


@pytest.mark.framework
def test_r26_training_trains_and_evaluation_builds_no_graph() -> None:
    import torch

    from breakeven.runtimes.torch import session
    from breakeven.runtimes.torch.evaluation import _score

    built = session.build(case(batch=16))
    before = [p.detach().clone() for p in built.training.net.parameters()]
    built.training.step()
    assert not all(torch.equal(a, b) for a, b in zip(before, built.training.net.parameters(), strict=True))
    images, labels = torch.zeros(4, 3, 32, 32), torch.zeros(4, dtype=torch.int64)
    net = built.training.net.eval()
    assert net(
        images
    ).requires_grad  # naive inference: the graph is built and timed, its activations are kept
    with pytest.raises(Mismatch, match="autograd graph"):
        _score(net, iter([(images, labels)]), torch.device("cpu"), "default", True)
    with torch.inference_mode():
        assert _score(net, iter([(images, labels)]), torch.device("cpu"), "default", True).samples == 4


@pytest.mark.framework
def test_r26_inference_builds_no_graph() -> None:
    asked = case(batch=4)
    work = dataclasses.replace(asked.work, task="infer", recipe=None)
    tuning = preset("eager", "cpu", task="infer")
    prepared = load("torch").prepare(applicable(dataclasses.replace(asked, work=work, tuning=tuning)))
    prepared.step()
    assert prepared.checks()["evaluation"]["found"] == "inference mode"


def test_r27_layout_autotune_and_graphs_are_factors_equal_on_both_sides() -> None:
    plain = sampled(a_case(), 0, 10.0, observed=SEEN)
    for change in ({"autotune": True}, {"layout": "channels-last"}, {"execution": "cuda-graph"}):
        tuned = a_case(tuning=dataclasses.replace(a_case().tuning, **change))  # type: ignore[arg-type]
        other = sampled(tuned, 0, 6.0, observed=SEEN)
        assert 10.0 / 6.0 > 1.6  # naive: "the new version is 1.7 times as fast"
        (name,) = change
        found = gate(Side(attempt=plain), Side(attempt=other))
        assert not found.allowed and [d.field for d in found.blocked] == [f"tuning.{name}"]
        study = gate(Side(attempt=plain), Side(attempt=other), studied=frozenset({name}))
        assert study.allowed and f"tuning.{name}" in {d.field for d in study.shown}
    flags = [SEEN | {"cudnn_deterministic": value} for value in (False, True)]
    one, two = (Side(attempt=sampled(a_case(), 0, 10.0, observed=seen)) for seen in flags)
    assert [d.field for d in gate(one, two).blocked] == ["observed.cudnn_deterministic"]
    with pytest.raises(ValueError, match="no field of a tuning"):
        gate(one, two, studied=frozenset({"speed"}))


def test_r28_what_is_built_has_a_time_of_its_own_and_names_its_cache() -> None:
    """Naive: the first steps hold the compiler's time, so a short run ranks compiled code last."""
    device = f"sim:gpu:step_ms=5:build_ms=40000:{QUIET}"
    result = in_a_child(sim_case(device, execution="compile:default"))
    assert result["compile"]["ns"] == pytest.approx(40e9, rel=0.01)
    assert result["compile"]["cache_state"] == "cold" and not result["compile"]["captured"]
    assert result["cold_ns"] < 1e9  # the first step is a step
    assert (40e9 + 100 * 5e6) / 100 > 80 * 5e6  # naive: 100 steps over all the time
    with pytest.raises(UserError, match="unknown runtime"):
        load("tensorrt")
    result = in_a_child(sim_case(f"sim:gpu:step_ms=5:{QUIET}"))
    assert "compile" not in result and result["base_nulls"]["compile"] == "nothing is compiled"
