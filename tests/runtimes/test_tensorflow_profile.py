"""TensorFlow's profiler on real steps of this CPU: kernels, eager calls, XLA's thunks, a trace that opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakeven.runtimes import load
from breakeven.timing import Profiled
from breakeven.workloads import models

from .profile_cases import trains_on
from .tensorflow_cases import infer, train
from .translation_cases import TINY
from .xspace_cases import profiled

pytestmark = pytest.mark.framework
pytest.importorskip("tensorflow")


def called(made: Profiled, word: str) -> int:
    return sum(op.calls for op in made.found.operators if word in op.name)


@pytest.mark.parametrize("execution", ["tf.function", "eager"])
def test_kernels_of_training_are_counted_by_kind(execution: str, tmp_path: Path) -> None:
    made = profiled(
        load("tensorflow").prepare(train(batch=8, residency="device", execution=execution)), tmp_path
    )
    assert all(op.calls % made.n_steps == 0 for op in made.found.operators)
    # Three convolutions: each has a gradient by its filter, all but the first one by its input.
    assert called(made, "Conv2DBackpropFilter") == 3 * made.n_steps
    assert called(made, "ResourceApplyAdam") == 10 * made.n_steps
    assert not any(op.name.startswith("__") for op in made.found.operators)
    assert made.found.observed["profiler"] == "tf.profiler"


@pytest.mark.parametrize("execution", ["tf.function", "xla"])
def test_calls_are_profiled_too(execution: str, tmp_path: Path) -> None:
    made = profiled(load("tensorflow").prepare(infer(execution=execution)), tmp_path, epochs=False)
    assert all(op.calls % made.n_steps == 0 for op in made.found.operators)
    assert called(made, "onv") >= 3 * made.n_steps


def test_a_loaders_kernels_are_operators_beside_the_step(tmp_path: Path) -> None:
    made = profiled(load("tensorflow").prepare(train(batch=8)), tmp_path)
    assert called(made, "Conv2DBackpropFilter") == 3 * made.n_steps
    assert called(made, "Pad") > 0  # crops of the pipeline, on threads of its own


def test_profiled_steps_are_steps_as_any_other(tmp_path: Path) -> None:
    trains_on(lambda: load("tensorflow").prepare(train(batch=8, residency="device")), tmp_path, built=True)


def test_cyclegans_step_is_profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from .test_tensorflow_translation import prepared

    monkeypatch.setattr(models, "model", lambda *given, **more: TINY)
    made = profiled(prepared(residency="device"), tmp_path)
    assert all(op.calls % made.n_steps == 0 for op in made.found.operators)
    assert called(made, "ResourceApplyAdam") > 0
