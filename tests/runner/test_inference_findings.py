"""Whole studies of inference on simulated devices: the findings are what was planted in the device."""

from pathlib import Path

import pytest

from breakeven import api
from breakeven.analysis import understand
from breakeven.analysis.findings import Understanding
from breakeven.records import file
from breakeven.runner.study import read_study
from breakeven.workloads import costs, models

FIXED_S, RATE, LAUNCH_S = 300e-6, 10_000.0, 200e-6
GPU = "sim:gpu:images_per_s=10000:call_us=300:launch_us=200:int8=3:session=2:noise=0.005:process=0.01:drift=1"


def found_in(text: str, folder: Path) -> Understanding:
    whole = f"name: t\ntask: infer\nmodel: simple-cnn\nattempt_time: 1\ncalls: 100\n{text}"
    api.measure(read_study(f"{whole}\nreplicates: 3\nmax_replicates: 3", "t.yaml"), folder)
    return understand([file.read(folder)])


@pytest.mark.slow
def test_the_planted_knee_factors_and_limit_are_found(tmp_path: Path) -> None:
    """Eager launches every layer: that is the floor. A session launches once, and wins 2x, INT8 3x."""
    batches = [1, 8, 16, 64, 256, 512]
    found = found_in(
        f"device: {GPU}:oom_batch=512\ntuning: [eager, onnxruntime]\nprecision: [fp32, int8]\n"
        f"batch: {batches}",
        tmp_path,
    )
    inferred = found.inference
    net = models.model("simple-cnn", num_classes=10, input_shape=(3, 32, 32))
    floor = LAUNCH_S * len(costs.layer_costs(net))
    sweeps = {(s.tuning_name, s.precision): s for s in inferred.saturation}
    eager = sweeps["eager", "fp32"]
    assert eager.law is not None and eager.law.law == "knee"
    assert eager.law.knee == pytest.approx(RATE * (floor - FIXED_S), rel=0.05)
    assert eager.law.floor == pytest.approx(floor, rel=0.03)
    assert eager.law.rate == pytest.approx(RATE, rel=0.05)
    assert (eager.oom_at, eager.largest, eager.best_batch) == (512, 256, 256)
    session = sweeps["onnxruntime", "fp32"]
    assert session.law is not None and session.law.law == "line"
    assert session.law.rate == pytest.approx(2 * RATE, rel=0.05)
    assert session.law.fixed == pytest.approx(FIXED_S, rel=0.1)
    # 256 images take 0.3 + 12.8 ms: 19,542 a second, of which batch 64 has 93.6 % and 16 has 74.4 %.
    reach = session.reach(0.9)
    assert (reach.batch, reach.low, reach.high) == (64, 64, 64)

    at_one = {(f.kind, f.base_name, f.base_precision): f for f in inferred.factors if f.batch == 1}
    # At batch 1 eager mode waits for its launches, so a precision wins nothing there.
    assert at_one["precision", "eager", "fp32"].point == pytest.approx(1.0, rel=0.03)
    one_call = floor / (FIXED_S + 1 / (2 * RATE))
    assert at_one["runtime", "eager", "fp32"].point == pytest.approx(one_call, rel=0.05)
    at_many = {(f.kind, f.base_name): f for f in inferred.factors if f.batch == 256}
    whole, third = FIXED_S + 256 / (2 * RATE), FIXED_S + 256 / (6 * RATE)
    assert at_many["precision", "onnxruntime"].point == pytest.approx(whole / third, rel=0.05)
    gain = next(g for g in inferred.gains if g.batch == 256)
    assert (gain.whole.candidate_name, gain.whole.candidate_precision) == ("onnxruntime", "int8")
    assert gain.runtime is not None and gain.precision is not None
    both = (gain.runtime.point or 0) * (gain.precision.point or 0)
    assert both == pytest.approx(gain.whole.point)
    (frontier,) = inferred.frontier
    on = {c.case_id: c.case for c in found.cases}
    assert {on[p.case_id].tuning.execution for p in frontier.points} == {"session"}
    assert max(p.batch for p in frontier.points) == 256


def test_a_wrong_int8_and_a_silent_fall_back_are_left_out(tmp_path: Path) -> None:
    found = found_in(
        "device: [sim:cpu:agreement=0.6:session=2, sim:gpu:step_ms=2:fallback=fp32]\n"
        "tuning: [eager, onnxruntime]\nprecision: [fp32, int8]\nbatch: 1",
        tmp_path,
    )
    labels = {c.case_id: c.case.device.name for c in found.cases}
    out = {
        (labels[f.case_id], f.reasons["ranked"].split(":")[0]) for f in found.inference.cases if not f.ranked
    }
    assert out == {("cpu", "output_mismatch"), ("gpu", "precision_mismatch")}
    assert all(f.candidate_precision == f.base_precision == "fp32" for f in found.inference.factors)
    wrong = [f for f in found.inference.cases if labels[f.case_id] == "cpu" and not f.ranked]
    assert {f.outputs.agreement for f in wrong} == {0.6} and len(wrong) == 2
    (gain,) = [g for g in found.inference.gains if "cpu" in g.device_label]
    assert (gain.whole.kind, gain.whole.candidate_name) == ("runtime", "onnxruntime")
    assert any("failed a check and are not ranked" in sentence for sentence in found.sentences)
