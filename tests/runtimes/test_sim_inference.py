"""Simulated inference: what is planted in a call, and the faults that checks must see."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from statistics import median

import pytest

from breakeven.errors import Mismatch, Unsupported
from breakeven.records.case import Case, Work, applicable, parse_device
from breakeven.records.tuning import preset
from breakeven.runtimes import sim
from breakeven.timing import Plan, Samples, sample_inference
from breakeven.workloads import costs, models

QUIET = "noise=0:process=0:cold_ms=0:drift=1"
TRAINED = "sha256:" + "0" * 64


def case_of(
    options: str = "",
    *,
    batch: int = 8,
    tuning: str = "cuda-graph",
    precision: str = "default",
    data: str = "photos",
    weights: str | None = None,
    **settings: object,
) -> Case:
    device = parse_device(":".join(filter(None, ["sim:gpu", QUIET, options])))
    work = Work(
        task="infer", model="resnet18", num_classes=10, data=data, data_version="1", data_hash="d",
        batch=batch, weights=weights,
    )  # fmt: skip
    driven = {"runtime": "sim", "precision": precision} | settings
    made = dataclasses.replace(preset(tuning, "sim", task="infer"), **driven)  # type: ignore[arg-type]
    return applicable(Case(work=work, tuning=made, device=device))


def sampled(case: Case) -> Samples:
    return sample_inference(sim.prepare(case), Plan(budget_s=10.0))


def call_us(samples: Samples) -> float:
    steady = [b.ns / b.n_steps for b in samples.blocks if not b.warmup]
    return median(steady) / 1e3


@pytest.mark.parametrize(("batch", "us"), [(1, 1000), (8, 1000), (10, 1200), (64, 6600)])
def test_a_call_takes_its_launches_or_its_images(batch: int, us: float) -> None:
    """t = max(1 ms, 0.2 ms + B / 10,000 a second), in the stream and alone."""
    case = case_of("images_per_s=10000:call_us=200:launch_us=1000:channels_last=1", batch=batch)
    samples = sampled(case)
    assert call_us(samples) == pytest.approx(us, rel=0.01)
    assert median(samples.calls_ns) / 1e3 == pytest.approx(us, rel=0.01)
    truth = sim.inference_truth(case, sim.profile_of(case.device), "default")
    assert truth.step_ns / 1e3 == pytest.approx(us, rel=1e-9)


def test_launches_are_one_a_layer_in_eager_mode_only() -> None:
    net = models.model("resnet18")
    options = "images_per_s=1e6:launch_us=50"
    eager, graph = sampled(case_of(options, tuning="eager")), sampled(case_of(options))
    assert call_us(eager) == pytest.approx(50 * len(costs.layer_costs(net)), rel=0.01)
    assert call_us(graph) == pytest.approx(50, rel=0.01)


@pytest.mark.parametrize(
    ("tuning", "precision", "factor"),
    [
        ("eager", "default", 1), ("eager", "fp16", 2), ("eager", "bf16", 2), ("eager", "int8", 4),
        ("eager", "fp32", 0.5), ("eager", "tf32", 1), ("channels-last", "default", 1.5),
        ("compiled", "default", 1.5 * 1.25), ("onnxruntime", "default", 3), ("tensorrt", "int8", 12),
    ],
)  # fmt: skip
def test_factors_of_precision_and_runtime_are_apart(tuning: str, precision: str, factor: float) -> None:
    options = "images_per_s=1000:launch_us=0:bf16=2:int8=4:fp32=0.5:channels_last=1.5:compile=1.25:session=3"
    found = call_us(sampled(case_of(options, tuning=tuning, precision=precision)))
    assert found == pytest.approx(8000 / factor, rel=0.01)


def test_a_tail_is_in_the_single_calls() -> None:
    ns = sampled(case_of("step_ms=1:tail=0.02:tail_factor=7:channels_last=1")).calls_ns
    slow = [value for value in ns if value > 6e6]
    assert len(slow) / len(ns) == pytest.approx(0.02, abs=0.01)
    assert median(ns) == pytest.approx(1e6, rel=0.01) and max(ns) == pytest.approx(7e6, rel=0.01)


def test_a_batch_beyond_the_memory_ends_in_out_of_memory() -> None:
    needs = sim.inference_truth(case_of(batch=64), sim.profile_of(case_of().device), "default").memory_mib
    fits = sim.prepare(case_of(f"memory_mib={needs + 1:.0f}", batch=64))
    fits.step()
    with pytest.raises(MemoryError, match="batch 64 needs"):
        sim.prepare(case_of(f"memory_mib={needs - 1:.0f}", batch=64)).step()
    half = sim.inference_truth(case_of(batch=64), sim.profile_of(case_of().device), "fp16").memory_mib
    assert half < 0.7 * needs


def test_a_silent_fallback_is_refused_and_as_slow_as_it_is() -> None:
    options = "fallback=fp32:images_per_s=1000:bf16=4:launch_us=0:channels_last=1"
    prepared = sim.prepare(case_of(options, precision="fp16"))
    with pytest.raises(Mismatch, match="asked for fp16, fp32 runs") as raised:
        prepared.checks()
    assert raised.value.outcome == "precision_mismatch"
    assert prepared.observed()["matmul_precision"] == "fp32"
    assert call_us(sampled(case_of(options, precision="fp16"))) == pytest.approx(8000, rel=0.01)
    assert sim.prepare(case_of(options, precision="fp32")).checks()["precision"]["ok"]


def test_a_wrong_int8_fails_its_checks_and_a_sound_one_passes() -> None:
    wrong = sim.prepare(case_of("agreement=0.6", precision="int8")).checks()
    assert {name for name, found in wrong.items() if found["ok"] is False} == {
        "output", "output_error", "agreement"
    }  # fmt: skip
    assert wrong["agreement"]["found"] == 0.6
    sound = sim.prepare(case_of("agreement=0.98", precision="int8")).checks()
    assert not [name for name, found in sound.items() if found["ok"] is False]
    assert "random weights" in sound["agreement"]["note"]
    assert sim.prepare(case_of("agreement=0.6", precision="fp16")).checks()["agreement"]["ok"]


def test_accuracy_needs_labels_and_trained_weights() -> None:
    assert sim.prepare(case_of()).evaluate(None).accuracy is None  # photographs have no labels
    options, digits = "accuracy=0.9:acc_sd=0:agreement=0.95", "digits"
    drawn = sim.prepare(case_of(options, data=digits)).evaluate(None)
    assert drawn.accuracy == pytest.approx(0.1, abs=0.01)
    trained = sim.prepare(case_of(options, data=digits, weights=TRAINED))
    assert trained.evaluate(None).accuracy == pytest.approx(0.9, abs=0.01)
    int8 = sim.prepare(case_of(options, data=digits, weights=TRAINED, precision="int8"))
    assert int8.checks()["accuracy"]["found"] == pytest.approx(0.9 * 0.95, abs=0.01)


def test_the_meter_reads_the_planted_power() -> None:
    prepared = sim.prepare(case_of("step_ms=10:watts=500:idle_w=100:channels_last=1"))
    assert prepared.meter is not None and prepared.clock is not None
    read = prepared.meter()
    for _ in range(100):
        prepared.step()
    prepared.sync()
    found = read()
    assert found["gross_j"] == pytest.approx(500.0, rel=0.01)  # one second at work
    assert (found["idle_w"], found["window_ns"]) == (100.0, pytest.approx(1e9, rel=0.01))
    # Waiting for launches it draws less: at work for a tenth of the time.
    waiting = sim.prepare(case_of("step_ms=1:launch_us=10000:watts=500:idle_w=100:channels_last=1"))
    assert waiting.meter is not None
    read = waiting.meter()
    for _ in range(100):
        waiting.step()
    waiting.sync()
    assert read()["gross_j"] == pytest.approx(100 + 0.1 * 400, rel=0.02)
    assert sim.prepare(case_of()).meter is None


def test_copies_are_in_a_call_on_the_host_only() -> None:
    options = "step_ms=1:copy_ms=2:channels_last=1:launch_us=1"
    assert call_us(sampled(case_of(options))) == pytest.approx(1000, rel=0.01)
    assert call_us(sampled(case_of(options, residency="host"))) == pytest.approx(3000, rel=0.01)


def test_inference_has_no_state_and_no_parts(tmp_path: Path) -> None:
    prepared = sim.prepare(case_of())
    assert prepared.parts is None and prepared.nulls["phases"] == "a call is one piece"
    assert prepared.losses() == ()
    with pytest.raises(Unsupported, match="no state"):
        prepared.save(tmp_path)
