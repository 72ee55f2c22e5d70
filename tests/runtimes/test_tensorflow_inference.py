"""Inference with TensorFlow on the CPU: what runs is what the case says."""

from __future__ import annotations

import numpy as np
import pytest

from breakeven import runtimes
from breakeven.errors import Mismatch
from breakeven.workloads import data, models

from . import torch_cases
from .tensorflow_cases import infer
from .translation_cases import TINY

pytestmark = pytest.mark.framework
pytest.importorskip("tensorflow")


@pytest.mark.parametrize("precision", ["default", "bf16", "fp16"])
def test_a_case_runs_as_it_says(precision: str) -> None:
    made = runtimes.load("tensorflow").prepare(infer(precision=precision))
    assert made.build is not None
    made.build()
    before = made.counters()
    for _ in range(2 * made.steps_per_epoch):
        made.step()
    made.sync()
    found = made.checks()
    assert made.counters() == before == {"builds": 1, "tf_traces": 1}
    assert all(check["ok"] for check in found.values())
    ran = "fp32" if precision == "default" else precision
    assert {probe["precision"] for probe in found["precision"]["found"].values()} == {ran}
    limit = {"fp32": 1e-5, "fp16": 1e-2, "bf16": 0.1}[ran]
    assert found["output"]["found"]["relative_l2"] < limit
    assert found["agreement"]["found"] > 0.8
    assert made.observed()["weights_dtype"] == {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}[ran]


@pytest.mark.parametrize("changes", [{"residency": "host"}, {"execution": "eager"}, {"execution": "xla"}])
def test_however_it_is_driven_it_computes_the_same(changes: dict[str, str]) -> None:
    made = runtimes.load("tensorflow").prepare(infer(**changes))
    made.step()
    made.sync()
    assert made.observed()["output_device"] == "cpu"
    found = made.checks()
    assert found["timed_calls"]["ok"] and found["output"]["found"]["relative_l2"] < 1e-5


def test_evaluation_scores_the_whole_test_set() -> None:
    whole = runtimes.load("tensorflow").prepare(infer(batch=100)).evaluate(None)
    assert (whole.steps, whole.samples) == (4, 360)


@pytest.mark.parametrize("changes", [{}, {"precision": "bf16"}, {"execution": "xla"}], ids=str)
def test_a_generator_translates_images_of_one_domain(
    changes: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "model", lambda *given, **more: TINY)
    made = runtimes.load("tensorflow").prepare(infer("cyclegan", data_set="digits-3-8", batch=2, **changes))
    made.step()
    found = made.checks()
    assert all(check["ok"] for check in found.values())
    assert {"output", "output_error", "timed_calls"} <= set(found) and not {"agreement", "accuracy"} & set(
        found
    )
    assert made.eval_samples == int((data.load("digits-3-8", "test").labels == 0).sum())
    assert made.evaluate(2).accuracy is None


def test_torch_translates_the_same_images(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(models, "model", lambda *given, **more: TINY)
    mine = runtimes.load("tensorflow").prepare(infer("cyclegan", data_set="digits-3-8", batch=2))
    theirs = runtimes.load("torch").prepare(torch_cases.calls("cyclegan", data_set="digits-3-8", batch=2))
    assert dict(mine.hashes) == dict(theirs.hashes)
    assert (mine.parameters, mine.eval_samples) == (theirs.parameters, theirs.eval_samples)


def test_weights_of_another_net_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from breakeven.runtimes.tensorflow import nets

    right = nets.Net.load

    def wrong(self: nets.Net, weights: dict[str, np.ndarray]) -> None:
        right(self, {name: np.roll(array, 1, axis=-1) for name, array in weights.items()})

    monkeypatch.setattr(nets.Net, "load", wrong)
    with pytest.raises(Mismatch, match=r"precision|output"):
        runtimes.load("tensorflow").prepare(infer()).checks()
