"""Inference with torch: calls, batches, precisions, trained weights; each planted fault is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from breakeven.errors import Mismatch, Unsupported
from breakeven.runtimes import Prepared, load
from breakeven.workloads import data, order, reference, sources
from breakeven.workloads.models import model

from .test_torch_training import settings_as_before
from .torch_cases import calls, case, cuda

__all__ = ["settings_as_before"]  # the fixture: used by every test here
pytestmark = pytest.mark.framework

COMPILED = {"execution": "compile:default", "layout": "channels-last"}


def prepare(name: str = "simple-cnn", **changes: Any) -> Prepared:
    prepared = load("torch").prepare(calls(name, **changes))
    if prepared.build is not None:
        prepared.build()
    return prepared


def session_of(name: str = "simple-cnn", **changes: Any) -> Any:
    from breakeven.runtimes.torch import inference

    return inference.build(calls(name, **changes))


def test_batches_of_inference_differ_and_come_in_turn() -> None:
    for n, batch in ((360, 4), (360, 128), (512, 512), (10, 64)):
        rows = order.inference_batches(3, n, batch, (3, 32, 32))
        assert rows.shape == (8, batch) and rows.max() < n
        assert len({row.tobytes() for row in rows}) == 8
    assert len(order.inference_batches(0, 512, 512, (3, 224, 224))) == 3  # of 294 MiB each
    assert len(order.inference_batches(0, 512, 2048, (3, 224, 224))) == 2


@pytest.mark.parametrize("residency", ["device", "host"])
@pytest.mark.parametrize("name", ["simple-cnn", "resnet18", "mobilenetv2", "vit-tiny"])
def test_a_call_is_the_declared_net_on_the_next_batch(name: str, residency: str) -> None:
    import torch

    session = session_of(name, residency=residency)
    for chosen in session.rows[:2]:
        session.step()
        images = data.normalized(session.known, session.test.images[chosen])
        expected = reference.logits(session.model, session.weights, images)
        found = session.seen.output.double().numpy()
        assert np.linalg.norm(found - expected) < 1e-5 * np.linalg.norm(expected)
        assert not session.seen.output.requires_grad
    output = session.seen.output
    session.step()
    assert torch.equal(output, output.clone())  # a later call leaves an answer alone


def test_what_is_handed_over() -> None:
    prepared = prepare(batch=100)
    assert (prepared.samples_per_step, prepared.steps_per_epoch, prepared.eval_samples) == (100, 8, 360)
    assert prepared.build is None and prepared.parts is None and "one piece" in prepared.nulls["phases"]
    assert prepared.losses() == () and prepared.next_epoch() is None  # type: ignore[func-returns-value]
    assert prepared.parameters == 488_586 and set(prepared.hashes) == {"weights", "order"}
    for state in (prepared.save, prepared.restore):
        with pytest.raises(Unsupported, match="no state"):
            state(Path("nowhere"))
    for _ in range(9):  # one more than there are batches
        prepared.step()
    prepared.sync()
    seen = prepared.observed()
    assert (seen["device"], seen["output_device"], seen["output_dtype"]) == ("cpu", "cpu", "float32")
    before = prepared.counters()
    prepared.step()
    assert prepared.counters() == before
    prepared.close()


def test_evaluation_scores_the_test_set_and_leaves_the_batches_alone() -> None:
    """By hand from the FP64 reference: 360 digits in batches of 100, the last of them filled up."""
    session = session_of(batch=100)
    from breakeven.runtimes.torch.evaluation import scored

    images = data.normalized(session.known, session.test.images)
    scores = reference.logits(session.model, session.weights, images)
    before = session.calls.inputs[0].clone()
    found = scored(session, None)
    assert (found.steps, found.samples) == (4, 360)
    assert found.accuracy == pytest.approx((scores.argmax(1) == session.test.labels).mean())
    shifted = scores - scores.max(axis=1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    assert found.loss == pytest.approx(-log_p[np.arange(360), session.test.labels].mean(), rel=1e-5)
    assert scored(session, 2).samples == 200
    assert (session.calls.inputs[0] == before).all()


def test_data_without_labels_has_no_accuracy() -> None:
    found = prepare("simple-cnn", data_set="photos", batch=2).evaluate(2)
    assert (found.steps, found.samples, found.accuracy, found.loss) == (2, 4, None, None)


@pytest.mark.parametrize(
    ("name", "tuning"),
    [
        ("simple-cnn", {"precision": "fp32"}),
        ("mobilenetv2", {"layout": "channels-last"}),
        ("resnet18", {"precision": "bf16", "layout": "channels-last", "residency": "host"}),
        ("vit-tiny", {"precision": "fp16"}),
    ],
)
def test_eager_calls_pass_every_check(name: str, tuning: dict[str, Any]) -> None:
    found = dict(prepare(name, **tuning).checks())
    assert all(check["ok"] for check in found.values())
    bits = [probe["bits"] for probe in found["precision"]["found"].values()]
    low, high = {"bf16": (6, 8), "fp16": (9, 11)}.get(tuning.get("precision", ""), (20, 23))
    assert all(low <= kept <= high for kept in bits)
    assert {"output", "agreement", "output_error", "accuracy", "forward_flops", "layout"} <= set(found)
    assert "random weights" in found["agreement"]["note"]
    assert found["agreement"]["found"] >= 0.9


@pytest.mark.slow
def test_compiled_calls_pass_every_check_and_compile_once() -> None:
    prepared = load("torch").prepare(calls("resnet18", residency="host", **COMPILED))
    assert prepared.build is not None
    facts = prepared.build()
    assert facts["captured"] is False and prepared.build() == facts
    before = prepared.counters()
    for _ in range(10):
        prepared.step()
    prepared.evaluate(2)
    assert prepared.counters() == before  # the same shapes: nothing is compiled again
    found = dict(prepared.checks())
    assert found["output"]["found"]["relative_l2"] < 1e-5


@pytest.mark.slow
def test_int8_layers_are_int8_kernels_calibrated_on_real_images() -> None:
    import torch

    # As a process begins: torch's export refuses a mix that tests of other precisions leave in this one.
    torch.backends.cudnn.conv.fp32_precision = torch.backends.cudnn.rnn.fp32_precision = "tf32"
    pytest.importorskip("torchao", reason="torchao is not installed")
    from breakeven.runtimes.torch import quantized

    prepared = prepare(precision="int8", calibration="minmax/64/train", **COMPILED)
    prepared.step()
    found = dict(prepared.checks())
    assert found["precision"]["found"] == {"conv": 3, "matmul": 2} == dict(quantized.lowered())
    assert 1e-4 < found["output"]["found"]["relative_l2"] < 0.1
    assert found["agreement"]["found"] > 0.9
    seen = prepared.observed()["quantized"]
    assert (seen["calibration"], seen["calibration_images"]) == ("minmax/64/train", 64)


@pytest.mark.parametrize("calibration", ["entropy/64/train", "minmax/0/train", "minmax/8/noise"])
def test_an_unknown_calibration_is_refused(calibration: str) -> None:
    with pytest.raises(Unsupported, match="calibration"):
        prepare(precision="int8", calibration=calibration, **COMPILED)


def test_more_calibration_images_than_there_are_are_refused() -> None:
    with pytest.raises(Unsupported, match="digits has 1437 training images"):
        prepare(precision="int8", calibration="minmax/2000/train", **COMPILED)


def test_without_torchao_the_install_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from breakeven.runtimes.torch import quantized

    monkeypatch.setattr(quantized, "find_spec", lambda name: None)
    with pytest.raises(Unsupported, match=r'pip install "breakeven\[torch,int8\]"'):
        prepare(precision="int8", calibration="minmax/8/train", **COMPILED)


def test_trained_weights_are_the_ones_that_run(tmp_path: Path) -> None:
    """A short training on digits, exported, kept and named by its hash: right far above chance."""
    trained = load("torch").prepare(case(batch=32, residency="device"))
    for _ in range(60):
        trained.step()
    assert trained.export is not None
    np.savez(tmp_path / "w.npz", **trained.export())
    name = sources.keep(sources.read(str(tmp_path / "w.npz"), model("simple-cnn")))
    prepared = prepare(batch=60, weights=name)
    assert f"sha256:{prepared.hashes['weights']}" == name
    found = dict(prepared.checks())
    assert found["accuracy"]["found"] == found["accuracy"]["asked"] > 0.5
    assert prepared.evaluate(None).accuracy == found["accuracy"]["found"]
    assert "trained weights" in found["agreement"]["note"]


def test_fp32_under_the_name_of_fp16_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from breakeven.runtimes.torch import precision

    monkeypatch.setattr(precision, "whole_dtype", lambda asked: torch.float32)
    with pytest.raises(Mismatch, match="precision") as raised:
        prepare(precision="fp16").checks()
    assert raised.value.outcome == "precision_mismatch"


def test_scores_that_are_too_exact_for_their_precision_are_found() -> None:
    """A runtime that falls back to FP32 where the probes do not see it: the compiled net alone."""
    from breakeven.runtimes.torch import inference_checks

    exact = np.random.Generator(np.random.Philox(1)).normal(size=(8, 10))
    output = inference_checks._output(exact * (1 + 1e-7), exact, "int8")
    assert output["ok"] and not inference_checks._rough_enough(output, "int8")["ok"]
    rough = inference_checks._output(exact * 1.01, exact, "int8")
    assert rough["ok"] and inference_checks._rough_enough(rough, "int8")["ok"]
    nan = exact.copy()
    nan[0, 0] = np.nan
    assert not inference_checks._output(nan, exact, "int8")["ok"]


def test_a_wrong_answer_is_found() -> None:
    """One layer of the net that runs is scaled: as an int8 layer with a wrong scale would be."""
    import torch

    from breakeven.runtimes.torch import inference_checks, prepared

    session = session_of()
    with torch.no_grad():
        session.net.get_parameter("features.3.weight").mul_(3)
    with pytest.raises(Mismatch, match="output") as raised:
        inference_checks.run(session, prepared.inference_handed_over(session).observed)
    assert raised.value.outcome == "output_mismatch"


def test_a_net_in_training_mode_is_found() -> None:
    from breakeven.runtimes.torch import inference_checks, prepared

    session = session_of("resnet18")
    session.net.train()
    with pytest.raises(Mismatch, match="evaluation") as raised:
        inference_checks.run(session, prepared.inference_handed_over(session).observed)
    assert raised.value.outcome == "invalid"


SAME_FP32 = 2e-5
"""Relative L2: sums of FP32 in another order come to some 1e-6 in a ResNet18, TF32 to 3e-4 and more."""


def apart(found: Any, expected: Any) -> float:
    """Relative L2 distance of one output from another, both tensors of any device."""
    found, expected = found.double().cpu(), expected.double().cpu()
    return float((found - expected).norm() / expected.norm())


@pytest.mark.gpu
@pytest.mark.parametrize("residency", ["device", "host"])
@pytest.mark.parametrize("execution", ["cuda-graph", "compile:default", "cuda-graph+compile:default"])
def test_a_replay_is_the_eager_call(execution: str, residency: str) -> None:
    import torch

    tuning = {"device": cuda(), "precision": "fp32", "layout": "channels-last", "residency": residency}
    eager, driven = (session_of("resnet18", execution=e, **tuning) for e in ("eager", execution))
    facts = driven.build()
    assert facts["captured"] is ("cuda-graph" in execution)
    for _ in range(len(eager.rows) + 2):
        eager.step()
        driven.step()
        torch.cuda.synchronize()
        assert apart(driven.seen.output, eager.seen.output) < SAME_FP32
    images = data.normalized(driven.known, driven.test.images[:10])
    assert apart(driven.scores(images), eager.scores(images)) < SAME_FP32


@pytest.mark.gpu
@pytest.mark.parametrize("pinned", [False, True])
def test_host_residency_copies_in_and_out(pinned: bool) -> None:
    import torch

    session = session_of("resnet18", device=cuda(), residency="host", pinned=pinned)
    assert all(batch.device.type == "cpu" and batch.is_pinned() is pinned for batch in session.calls.inputs)
    session.step()
    torch.cuda.synchronize()
    assert session.seen.output.device.type == "cpu"
    here = session_of("resnet18", device=cuda())
    here.step()
    assert here.seen.output.device.type == "cuda"
    torch.testing.assert_close(session.seen.output, here.seen.output.cpu(), rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("execution", ["eager", "cuda-graph", "cuda-graph+compile:default"])
@pytest.mark.parametrize("precision", ["default", "fp32", "tf32", "fp16", "bf16"])
@pytest.mark.parametrize("name", ["resnet18", "mobilenetv2", "vit-tiny"])
def test_cuda_runs_in_the_precision_asked(name: str, precision: str, execution: str) -> None:
    """In a process of its own: `default` needs settings that nobody has touched."""
    import json
    import subprocess
    import sys

    from .torch_cases import environment

    script = f"""
import json, sys
from breakeven.runtimes import load
from runtimes.torch_cases import calls, cuda
asked = calls("{name}", device=cuda(), precision="{precision}", execution="{execution}", batch=8)
prepared = load("torch").prepare(asked)
if prepared.build:
    prepared.build()
found = dict(prepared.checks())
json.dump([found, prepared.observed()], sys.stdout, default=str)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), timeout=250, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found, seen = json.loads(done.stdout.splitlines()[-1])
    print(name, precision, execution, found["output"]["found"], found["precision"]["found"])
    dtype = {"fp16": "float16", "bf16": "bfloat16"}.get(precision, "float32")
    assert (seen["weights_dtype"], seen["output_dtype"]) == (dtype, dtype)
    assert seen["output_device"] == "cuda:0"
