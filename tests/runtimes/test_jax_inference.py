"""Inference with JAX on the CPU: what runs is what the case says."""

from __future__ import annotations

import numpy as np
import pytest

from breakeven import runtimes
from breakeven.errors import Mismatch, Unsupported

from .jax_cases import SMALL, infer, train
from .torch_cases import cuda

pytestmark = pytest.mark.framework
jax = pytest.importorskip("jax")


@pytest.mark.parametrize("precision", ["default", "fp32", "bf16", "fp16"])
def test_a_case_runs_as_it_says(precision: str) -> None:
    made = runtimes.load("jax").prepare(infer(precision=precision))
    assert made.build is not None
    assert made.build()["cache_state"] == "cold"
    made.step()
    made.sync()
    before = made.counters()
    for _ in range(2 * made.steps_per_epoch):
        made.step()
    made.sync()
    assert made.counters() == before
    found = made.checks()
    assert all(check["ok"] for check in found.values())
    ran = "fp32" if precision == "default" else precision
    assert {probe["precision"] for probe in found["precision"]["found"].values()} == {ran}
    limit = {"fp32": 1e-5, "fp16": 1e-2, "bf16": 0.1}[ran]
    assert found["output"]["found"]["relative_l2"] < limit
    assert found["agreement"]["found"] > 0.8


@pytest.mark.parametrize(
    "changes", [{"residency": "host"}, {"execution": "eager"}, {"layout": "channels-first"}]
)
def test_however_it_is_driven_it_computes_the_same(changes: dict[str, str]) -> None:
    made = runtimes.load("jax").prepare(infer(**changes))
    if made.build is not None:
        made.build()
    made.step()
    made.sync()
    assert made.observed()["output_device"] == "cpu"
    found = made.checks()
    assert found["timed_calls"]["ok"] and found["output"]["found"]["relative_l2"] < 1e-5


def test_evaluation_scores_the_whole_test_set() -> None:
    made = runtimes.load("jax").prepare(infer(batch=100))
    whole = made.evaluate(None)
    assert (whole.steps, whole.samples) == (4, 360)


def test_another_precision_than_asked_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """FP32 asked, BF16 run: what a compiler's flag may do."""
    from breakeven.runtimes.jax import inference

    monkeypatch.setattr(inference, "_type", lambda case: np.dtype("bfloat16"))
    with pytest.raises(Mismatch, match="precision") as raised:
        runtimes.load("jax").prepare(infer(precision="fp32")).checks()
    assert raised.value.outcome == "precision_mismatch"


def test_inference_has_no_training_state(tmp_path: object) -> None:
    with pytest.raises(Unsupported):
        runtimes.load("jax").prepare(infer()).save(tmp_path)  # type: ignore[arg-type]


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["default", "fp32", "tf32", "fp16", "bf16"])
def test_a_gpu_computes_as_it_says(precision: str) -> None:
    import dataclasses

    made = runtimes.load("jax").prepare(infer(precision=precision, device=cuda()))
    assert all(check["ok"] for check in made.checks().values())
    # TF32 is a leave, not an order: for the smallest net's few channels cuDNN's fastest kernel is of FP32.
    model = "resnet18" if precision == "tf32" else SMALL
    asked = train(model, precision=precision, residency="device", loss_sync="epoch")
    trained = runtimes.load("jax").prepare(dataclasses.replace(asked, device=cuda()))
    found = trained.checks()
    assert all(check["ok"] for check in found.values())
    assert trained.observed()["device"] == "cuda:0"
    assert trained.memory()["jax_bytes_in_use_mib"] > 0
