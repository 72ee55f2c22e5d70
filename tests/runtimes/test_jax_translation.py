"""CycleGAN's step in JAX: equal to torch's in FP64, between tunings, resumed, and at full size."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from breakeven import runtimes
from breakeven.records.case import Case, Recipe, Tuning
from breakeven.runner.plan import plan
from breakeven.runner.study import load_study
from breakeven.workloads import cyclegan, models
from breakeven.workloads.weights import declared_shapes

from .jax_cases import infer
from .translation_cases import RECIPE, SEED, STEPS, TINY, WHOLE, WORKS, losses_of, splits, torch_losses

pytestmark = pytest.mark.framework
jax = pytest.importorskip("jax")

TUNINGS: dict[str, dict[str, Any]] = {
    "as-written": {},
    "workers": {"workers": 2},
    "on-device": {"residency": "device", "loss_sync": "epoch"},
    "channels-first": {"residency": "device", "layout": "channels-first"},
    "eager": {"execution": "eager"},
}


@pytest.fixture
def fp64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def small(recipe: Recipe = RECIPE, batch: int = 1, *, dtype: Any = np.float64, **changes: Any) -> Any:
    """A small CycleGAN in training on the CPU."""
    from breakeven.runtimes.jax import nets
    from breakeven.runtimes.jax.training import Plan
    from breakeven.runtimes.jax.translated import alternating

    tuning = Tuning(**{"execution": "jit", "layout": "channels-last", **changes})
    last = tuning.layout == "channels-last"
    how = Plan(
        model=WHOLE,
        recipe=recipe,
        seed=SEED,
        shape=(batch, 32, 32, 3) if last else (batch, 3, 32, 32),
        steps_per_epoch=STEPS,
        how=nets.How(channels_last=last),
        scaled=False,
        resident=tuning.residency == "device",
        loss_every_step=tuning.loss_sync != "epoch",
        jitted=tuning.execution == "jit",
        dtype=dtype,
    )
    first = cyclegan.first_weights(WHOLE, SEED)
    made = alternating(how, first, splits(recipe, batch), jax.devices("cpu")[0], tuning)
    made.compile()
    return made


@pytest.mark.usefixtures("fp64")
@pytest.mark.parametrize(
    "name",
    # XLA takes a quarter of a minute for each program in FP64. The test below trains on the device.
    [n if n == "as-written" else pytest.param(n, marks=pytest.mark.whole) for n in TUNINGS],
)
def test_ten_fp64_losses_are_those_of_torch(name: str) -> None:
    pytest.importorskip("torch")
    expected = torch_losses(RECIPE, 1)
    assert losses_of(small(**TUNINGS[name]), 10) == pytest.approx(expected, rel=1e-8, abs=0)
    assert expected[-1] != pytest.approx(expected[0], rel=1e-2)  # something was learned meanwhile


@pytest.mark.usefixtures("fp64")
@pytest.mark.parametrize(
    ("recipe", "batch"),
    [
        *(pytest.param(*work, marks=pytest.mark.whole, id=name) for name, work in list(WORKS.items())[1:]),
        pytest.param(dataclasses.replace(RECIPE, pool=1), 4, id="more pairs than pool"),
    ],
)
def test_every_recipe_means_the_same(recipe: Recipe, batch: int) -> None:
    pytest.importorskip("torch")
    found = losses_of(small(recipe, batch, residency="device"), 10)
    assert found == pytest.approx(torch_losses(recipe, batch), rel=1e-8, abs=0)


@pytest.mark.parametrize("size", [1, 3])
def test_a_pool_is_the_declared_one(size: int) -> None:
    """Against the words, one image at a time, in batches of two."""
    from breakeven.runtimes.jax.translation import ask

    n, kept, expected = 60, list[float](), list[float]()
    draws = cyclegan.pool_draws(0, 1, 0, n, size)
    for number, (swap, slot) in enumerate(draws):
        back = float(number)
        if len(kept) < size:
            kept.append(back)
        elif swap:
            back, kept[slot] = kept[slot], back
        expected.append(back)
    pool, given = np.zeros((size, 1, 1, 1), np.float32), list[float]()
    program = jax.jit(ask)
    for first in range(0, n, 2):
        images = np.arange(first, first + 2, dtype=np.float32).reshape(2, 1, 1, 1)
        pool, back = program(pool, images, draws[first : first + 2].astype(np.int32), np.int32(first))
        given += np.asarray(back).ravel().tolist()
    assert given == expected
    assert np.asarray(pool).ravel().tolist() == kept


def test_a_resumed_training_goes_on_as_it_was(tmp_path: Path) -> None:
    from breakeven.runtimes.jax import state, translated

    first, second = (small(dtype=np.float32, residency="device") for _ in range(2))
    losses_of(first, 6)
    state.save(first, tmp_path)
    losses_of(second, 2)
    state.restore(second, tmp_path)
    assert losses_of(first, 3) == losses_of(second, 3)
    mine, theirs = translated.export(first), translated.export(second)
    assert mine.keys() == declared_shapes(cyclegan.nets(WHOLE)["g_ab"]).keys()
    assert all(np.array_equal(mine[name], theirs[name]) for name in mine)


def test_no_step_compiles_anew() -> None:
    from breakeven.runtimes.jax import place

    place.set_up(cyclegan_case())  # which listens to what JAX compiles
    made = small(dtype=np.float32)
    losses_of(made, 1)
    before = place.counters()
    losses_of(made, 2 * STEPS)
    assert place.counters() == before


def cyclegan_case(**tuning: Any) -> Case:
    study = load_study(["cyclegan"], {"device": "cpu", "runtime": "jax"})
    made = plan(study, cores=1, gpus=0).cases[0].case
    return dataclasses.replace(made, tuning=dataclasses.replace(made.tuning, **tuning))


def tiny(monkeypatch: pytest.MonkeyPatch, **tuning: Any) -> Any:
    monkeypatch.setattr(cyclegan, "model", lambda shape: TINY)
    return runtimes.load("jax").prepare(cyclegan_case(**tuning))


def test_what_is_not_built_has_a_reason() -> None:
    load = runtimes.load("jax")
    assert load.supports(cyclegan_case()) is None
    assert load.supports(cyclegan_case(precision="bf16")) is None
    assert "one loss scale" in str(load.supports(cyclegan_case(precision="fp16")))
    given = cyclegan_case()
    digits = dataclasses.replace(given.work, data="digits", input_shape=(3, 32, 32))
    assert "two domains" in str(load.supports(dataclasses.replace(given, work=digits)))
    plain = dataclasses.replace(given.work, recipe=Recipe())
    assert "no loss of cyclegan" in str(load.supports(dataclasses.replace(given, work=plain)))


@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.whole)])
def test_a_small_net_passes_its_checks(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a case of the real data, whose net is made small."""
    prepared = tiny(monkeypatch, precision=precision, residency="device")
    found = prepared.checks()
    assert all(check["ok"] for check in found.values())
    assert {probe["precision"] for probe in found["precision"]["found"].values()} == {precision}
    assert set(found["precision"]["found"]) == {"g_ab", "d_a"}
    if precision == "fp32":
        assert max(found["one_step_parity"]["found"].values()) < 1e-2
        assert max(found["as_declared"]["found"].values()) < 1e-3
    assert prepared.steps_per_epoch == 140 and "phases" in prepared.nulls
    part, whole = prepared.evaluate(1), prepared.evaluate(None)
    assert (part.samples, whole.samples) == (1, prepared.eval_samples) and whole.accuracy is None
    assert prepared.observed()["domain_samples"][0] != prepared.observed()["domain_samples"][1]
    prepared.close()


def test_both_runtimes_start_from_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    mine = tiny(monkeypatch)
    study = load_study(["cyclegan"], {"device": "cpu"})
    theirs = runtimes.load("torch").prepare(plan(study, cores=1, gpus=0).cases[0].case)
    assert dict(mine.hashes) == dict(theirs.hashes)
    assert (mine.parameters, mine.eval_samples) == (theirs.parameters, theirs.eval_samples)
    mine.close()
    theirs.close()


def test_a_planted_wrong_pair_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """B in the order of A: every other check is passed."""
    from breakeven.errors import Mismatch
    from breakeven.runtimes.jax import input

    right, split_of = input.columns, dict[int, Any]()

    def same_order(split: Any, epoch: int) -> Any:
        first = split_of.setdefault(epoch, split)
        return np.minimum(right(first, epoch), split.n - 1)

    monkeypatch.setattr(input, "columns", same_order)
    with pytest.raises(Mismatch, match="as_declared"):
        tiny(monkeypatch, residency="device").checks()


@pytest.mark.parametrize("changes", [{}, {"residency": "host", "layout": "channels-first"}])
def test_a_generator_infers_as_declared(changes: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cyclegan, "model", lambda shape: TINY)
    prepared = runtimes.load("jax").prepare(infer("cyclegan", data_set="digits-3-8", batch=1, **changes))
    found = prepared.checks()
    assert all(check["ok"] for check in found.values())
    assert found["output"]["found"]["relative_l2"] < 1e-5
    assert "agreement" not in found and "accuracy" not in found
    assert prepared.evaluate(2).accuracy is None


@pytest.mark.whole
@pytest.mark.timeout(1200)
def test_the_whole_net_at_128_is_what_its_case_says() -> None:
    prepared = runtimes.load("jax").prepare(cyclegan_case(residency="device"))
    assert (prepared.parameters, prepared.steps_per_epoch, prepared.samples_per_step) == (28_285_832, 140, 1)
    assert prepared.build is not None
    prepared.build()
    assert all(check["ok"] for check in prepared.checks().values())
    assert prepared.export is not None
    generator = cyclegan.nets(models.model("cyclegan", input_shape=(3, 128, 128)))["g_ab"]
    assert set(prepared.export()) == set(declared_shapes(generator))
    prepared.close()
