"""Training with JAX on the CPU: equal to torch's in FP64, and what the timing loop is handed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from breakeven import runtimes
from breakeven.errors import Unsupported
from breakeven.records.case import Recipe
from breakeven.workloads import data
from breakeven.workloads.order import apply_augmentation
from breakeven.workloads.splits import Split

from . import torch_cases
from .jax_cases import SMALL, TUNINGS, train

pytestmark = pytest.mark.framework
jax = pytest.importorskip("jax")


def losses(model: str, batch: int, recipe: Recipe | None = None, **tuning: Any) -> tuple[float, ...]:
    from breakeven.runtimes.jax.parity import fp64_losses

    return fp64_losses(train(model, batch=batch, recipe=recipe, **tuning))


def made(**changes: Any) -> Any:
    prepared = runtimes.load("jax").prepare(train(**changes))
    if prepared.build is not None:
        prepared.build()
    return prepared


@pytest.mark.parametrize("name", TUNINGS)
def test_ten_fp64_losses_are_those_of_torch(name: str) -> None:
    found = losses(SMALL, 32, **TUNINGS[name])
    assert found == pytest.approx(torch_cases.fp64_losses(SMALL, 32), rel=1e-8, abs=0)


@pytest.mark.parametrize("recipe", [Recipe(weight_decay=0.1), Recipe(accumulation=4), Recipe(augment="none")])
def test_every_recipe_means_the_same(recipe: Recipe) -> None:
    found = losses(SMALL, 32, recipe, residency="device")
    assert found == pytest.approx(torch_cases.fp64_losses(SMALL, 32, recipe), rel=1e-8, abs=0)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["resnet18", "vit-tiny"])
def test_ten_fp64_losses_of_larger_nets(model: str) -> None:
    assert losses(model, 8) == pytest.approx(torch_cases.fp64_losses(model, 8), rel=1e-8, abs=0)


@pytest.mark.slow
def test_running_statistics_move_as_torch_moves_them() -> None:
    """Losses do not show them: training normalises by its batch."""
    here = made(model="resnet18", batch=8)
    there = runtimes.load("torch").prepare(torch_cases.case("resnet18", batch=8))
    for prepared in (here, there):
        prepared.step()
    mine, theirs = here.export(), there.export()
    assert mine.keys() == theirs.keys()
    for name in [name for name in mine if name.startswith(("bn1.running", "layer1.0.bn1.running"))]:
        assert mine[name] == pytest.approx(theirs[name], rel=1e-4, abs=1e-5)
    here.close()
    there.close()


def test_both_ways_make_the_declared_batches_bit_for_bit() -> None:
    from breakeven.runtimes.jax import input

    split = Split(data=data.load("digits", "train"), known=data.entry("digits"), seed=5, augment=True)
    rows, table = split.order(1)[:16], split.offsets(1)
    assert table is not None
    declared = apply_augmentation(split.data.images[rows], table[rows])
    assert np.array_equal(input.cropped(split.data.images[rows], table[rows]), declared)
    images, labels = input.batch_of(split, rows, table, channels_last=True)
    there = input.resident(split, jax.devices("cpu")[0], channels_last=True)
    cut = jax.jit(lambda data, rows: input.cut(data, rows, channels_last=True))
    found, right = cut(there, input.columns(split, 1)[:, :16])
    assert np.array_equal(np.asarray(found), images)
    assert np.array_equal(np.asarray(right), labels)


@pytest.mark.parametrize("name", ["as-written", "workers", "no-sync"])
def test_a_case_is_handed_over(name: str) -> None:
    prepared = made(batch=256, **TUNINGS[name])
    assert (prepared.samples_per_step, prepared.steps_per_epoch) == (256, 5)
    prepared.step()
    prepared.sync()
    before = prepared.counters()
    assert before["jax_compiled"] >= 2
    for _ in range(6):  # over an epoch's end
        prepared.step()
    assert prepared.counters() == before
    read = prepared.losses()
    # A buffer on the device holds the losses of one epoch.
    assert len(read) == (5 if name == "no-sync" else 7)
    assert np.isfinite(read).all() and prepared.losses() == ()
    part, whole = prepared.evaluate(1), prepared.evaluate(None)
    assert (part.steps, part.samples) == (1, 256)
    assert (whole.steps, whole.samples) == (2, 360)
    assert whole.accuracy is not None and 0.05 < whole.accuracy < 1
    assert prepared.counters() == before
    seen = prepared.observed()
    assert (seen["device"], seen["output_device"], seen["conv_precision"]) == ("cpu", "cpu", "ieee")
    assert seen["tail_dropped_samples"] == 1437 - 5 * 256
    prepared.close()


def test_all_runtimes_start_from_the_same_bits() -> None:
    mine, theirs = made(), runtimes.load("torch").prepare(torch_cases.case(SMALL, batch=32))
    assert dict(mine.hashes) == dict(theirs.hashes)
    assert mine.parameters == theirs.parameters


@pytest.mark.parametrize(
    "precision",
    ["fp32", *(pytest.param(rough, marks=pytest.mark.slow) for rough in ("bf16", "fp16"))],
)
def test_a_case_passes_its_checks(precision: str) -> None:
    prepared = made(precision=precision, residency="device", loss_sync="epoch")
    found = prepared.checks()
    assert all(check["ok"] for check in found.values())
    assert {probe["precision"] for probe in found["precision"]["found"].values()} == {precision}
    if precision == "fp32":
        assert found["one_step_parity"]["found"]["loss"] < 1e-5
        assert found["one_step_parity"]["found"]["gradient"] < 1e-3


def test_a_planted_wrong_crop_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from breakeven.errors import Mismatch
    from breakeven.runtimes.jax import input

    right = input.columns

    def shifted(split: Any, epoch: int) -> Any:
        rows = right(split, epoch)
        rows[1] = np.minimum(rows[1] + 1, 8)
        return rows

    monkeypatch.setattr(input, "columns", shifted)
    with pytest.raises(Mismatch, match="as_declared") as raised:
        made(residency="device").checks()
    assert raised.value.outcome == "output_mismatch"


def test_what_was_saved_goes_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    first, second = made(residency="device"), made(residency="device")
    for _ in range(3):
        first.step()
    first.save(tmp_path)
    second.restore(tmp_path)
    first.losses()
    for prepared in (first, second):
        prepared.step()
    assert first.losses() == second.losses()
    mine, theirs = first.export(), second.export()
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_an_overflow_in_fp16_leaves_the_weights_alone() -> None:
    from breakeven.runtimes.jax.session import build

    session = build(train(precision="fp16", residency="device"))
    made = session.training
    made.compile()
    made.step()
    before = jax.device_get(made.carry)
    made.carry["scale"] = jax.device_put(np.float32(2.0**100))
    made.step()
    after = jax.device_get(made.carry)
    assert after["scale"] == 2.0**99 and after["unscathed"] == 0
    assert after["updates"] == before["updates"]
    assert all(np.array_equal(before["params"][name], value) for name, value in after["params"].items())


def test_donated_memory_is_not_the_weights_of_the_host() -> None:
    from breakeven.runtimes.jax.session import build

    session = build(train())
    kept = {name: value.copy() for name, value in session.weights.items()}
    session.training.compile()
    for _ in range(3):
        session.training.step()
    session.training.sync()
    assert all(np.array_equal(kept[name], value) for name, value in session.weights.items())


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_are_set_and_read_back_as_those_that_run(threads: int) -> None:
    """In a process of its own: XLA makes its pool once."""
    script = (
        "from breakeven.runtimes import load; from runtimes.jax_cases import infer;"
        f"made = load('jax').prepare(infer(threads={threads})); made.build(); made.step(); made.sync();"
        f"seen = made.observed(); assert seen['threads'] == {threads}, seen"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env=torch_cases.environment(), timeout=200)


def test_no_gpu_is_unsupported() -> None:
    if any(device.platform == "gpu" for device in jax.devices()):
        pytest.skip("a GPU is here")
    asked = torch_cases.case(
        SMALL, runtime="jax", execution="jit", optimizer_impl=None, device=torch_cases.cuda()
    )
    with pytest.raises(Unsupported, match="no CUDA device"):
        runtimes.load("jax").prepare(asked)
