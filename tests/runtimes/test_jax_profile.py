"""JAX's profiler on real steps of this CPU: XLA's thunks as operators, a trace that opens."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakeven.runtimes import load
from breakeven.workloads import cyclegan

from .jax_cases import infer, train
from .profile_cases import trains_on
from .translation_cases import TINY
from .xspace_cases import profiled

pytestmark = pytest.mark.framework
pytest.importorskip("jax")


def test_a_step_of_training_is_its_programs_thunks(tmp_path: Path) -> None:
    made = profiled(load("jax").prepare(train(batch=8, residency="device")), tmp_path)
    calls = {op.name: op.calls for op in made.found.operators}
    # One program: each of its instructions comes once a step, and some are of one kind.
    assert all(count % made.n_steps == 0 for count in calls.values())
    convolutions = sum(count for name, count in calls.items() if "conv" in name and "fusion" not in name)
    assert convolutions >= 3 * made.n_steps
    assert made.found.observed["profiler"] == "jax.profiler"


def test_calls_and_eager_steps_are_profiled_too(tmp_path: Path) -> None:
    made = profiled(load("jax").prepare(infer()), tmp_path, epochs=False)
    assert all(op.calls % made.n_steps == 0 for op in made.found.operators)
    eager = profiled(load("jax").prepare(train(batch=8, execution="eager")), tmp_path)
    assert len(eager.found.operators) > 10


def test_profiled_steps_are_steps_as_any_other(tmp_path: Path) -> None:
    trains_on(lambda: load("jax").prepare(train(batch=8, residency="device")), tmp_path, built=True)


def test_cyclegans_step_is_profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from .test_jax_translation import cyclegan_case

    monkeypatch.setattr(cyclegan, "model", lambda shape: TINY)
    made = profiled(load("jax").prepare(cyclegan_case(residency="device")), tmp_path)
    assert all(op.calls % made.n_steps == 0 for op in made.found.operators)
