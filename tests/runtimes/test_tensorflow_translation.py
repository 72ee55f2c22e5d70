"""CycleGAN's step in TensorFlow: equal to torch's in FP64 however it is driven, resumed, and handed over."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from breakeven import runtimes
from breakeven.errors import Mismatch
from breakeven.records.case import Case, Recipe, Tuning
from breakeven.runner.plan import plan
from breakeven.runner.study import load_study
from breakeven.workloads import cyclegan, models, reference
from breakeven.workloads.weights import declared_shapes

from .tensorflow_cases import train
from .translation_cases import RECIPE, SEED, STEPS, TINY, WHOLE, WORKS, losses_of, splits, torch_losses

pytestmark = pytest.mark.framework
tf = pytest.importorskip("tensorflow")
pytest.importorskip("torch")
pytest.importorskip("sklearn")

TUNINGS: dict[str, dict[str, Any]] = {
    "as-written": {},
    "workers": {"workers": 2},
    "on-device": {"residency": "device", "loss_sync": "epoch"},
    "eager": {"execution": "eager"},
    "xla": {"residency": "device", "execution": "xla"},
}


@pytest.fixture(autouse=True, scope="module")
def threads_set() -> None:
    """TensorFlow takes its threads before its first operation only; later modules ask for the same."""
    from breakeven.runtimes.tensorflow import place

    place.set_up(train())


def small(recipe: Recipe = RECIPE, batch: int = 1, **tuning: Any) -> Any:
    """A small CycleGAN in training, in FP64 on the CPU."""
    from breakeven.runtimes.tensorflow import input
    from breakeven.runtimes.tensorflow.training import Plan
    from breakeven.runtimes.tensorflow.translation import alternating, four, paired

    how = Tuning(runtime="tensorflow", **{"execution": "tf.function", **tuning})
    made = Plan(
        recipe=recipe,
        seed=SEED,
        shape=(batch, 32, 32, 3),
        steps_per_epoch=STEPS,
        execution=how.execution,
        loss_every_step=how.loss_sync != "epoch",
        device=input.HOST,
        dtype="float64",
    )
    loading = input.Loading(
        batch=batch, device=input.HOST, drop_last=True, workers=how.workers or 0, prefetch=None
    )
    source = paired(*(input.source_of(how.residency, split, loading) for split in splits(recipe, batch)))
    return alternating(made, four(WHOLE, cyclegan.first_weights(WHOLE, SEED), "float64"), source)


@pytest.mark.parametrize("work", WORKS)
def test_ten_fp64_losses_are_those_of_torch(work: str) -> None:
    recipe, batch = WORKS[work]
    expected = torch_losses(recipe, batch)
    assert losses_of(small(recipe, batch), 10) == pytest.approx(expected, rel=1e-8, abs=0)
    assert expected[-1] != pytest.approx(expected[0], rel=1e-2)  # something was learned meanwhile


@pytest.mark.parametrize("name", list(TUNINGS)[1:])
def test_however_it_is_driven_it_trains_alike(name: str) -> None:
    made = small(**TUNINGS[name])
    made.build()
    assert losses_of(made, 10) == pytest.approx(torch_losses(RECIPE, 1), rel=1e-8, abs=0)


@pytest.mark.parametrize("net", cyclegan.NETS)
def test_fp64_outputs_are_those_of_the_declared_layers(net: str) -> None:
    from breakeven.runtimes.tensorflow import nets

    first, declared = cyclegan.first_weights(WHOLE, SEED), cyclegan.nets(WHOLE)[net]
    own = {name: tensor + np.float32(0.01) for name, tensor in cyclegan.part(first, net).items()}
    images = np.random.default_rng(0).normal(size=(2, 3, 32, 32))
    made = nets.build(declared, own, "float64")(nets.channels_last(images), training=True).numpy()
    expected = reference.logits(declared, own, images)
    assert nets.channels_first(made) == pytest.approx(expected, rel=1e-8, abs=1e-10)


@pytest.mark.parametrize("batch", [1, 4])
def test_a_pool_gives_what_its_draws_say(batch: int) -> None:
    """Held to a list of images, also where one batch asks for a slot twice."""
    from breakeven.runtimes.tensorflow.training import Plan
    from breakeven.runtimes.tensorflow.translation import pool

    made = Plan(
        recipe=RECIPE, seed=SEED, shape=(batch, 1, 1, 1), steps_per_epoch=40 // batch,
        execution="tf.function", loss_every_step=True, device="/device:CPU:0",
    )  # fmt: skip
    one, held, size = pool(made, 1), list[int](), RECIPE.pool or 0
    ask = tf.function(one.ask, autograph=False)
    for epoch in range(2):
        one.begin(SEED, 40 * epoch, 40 * epoch)
        draws = cyclegan.pool_draws(SEED, 1, 40 * epoch, 40, size)
        expected, found = list[int](), list[int]()
        for number, (swap, slot) in enumerate(draws.tolist(), start=40 * epoch):
            expected.append(number)
            if len(held) < size:
                held.append(number)
            elif swap:
                expected[-1], held[slot] = held[slot], number
        for step in range(40 // batch):
            images = tf.reshape(
                tf.range(batch, dtype=tf.float32) + 40 * epoch + step * batch, [batch, 1, 1, 1]
            )
            found += ask(images).numpy().ravel().astype(int).tolist()
        assert found == expected


def test_discriminators_teach_generators_and_are_not_taught_by_them() -> None:
    """Weights that are no part of an update have no gradient, and what is judged passes one on."""
    from breakeven.runtimes.tensorflow import nets
    from breakeven.runtimes.tensorflow.translation import four, generator_gradients

    made = four(WHOLE, cyclegan.first_weights(WHOLE, SEED), "float64")
    a, b = (tf.constant(nets.channels_last(split.first(1)[0]), tf.float64) for split in splits(RECIPE, 1))
    alone = dataclasses.replace(RECIPE, cycle=0.0)
    _, found, fake_a, _ = generator_gradients(made, alone, a, b)
    assert len(found) == sum(len(made[name].trained) for name in cyclegan.GENERATORS)
    assert all(np.abs(g.numpy()).max() > 0 for g in (found[0], found[len(found) // 2]))
    assert fake_a.shape == a.shape


def test_a_resumed_training_goes_on_as_it_was(tmp_path: Path) -> None:
    from breakeven.runtimes.tensorflow import state

    whole = losses_of(small(), 9)
    first = small()
    assert losses_of(first, 5) == whole[:5]  # one step into the second epoch, pools full
    state.save(first, tmp_path)
    second = small()
    losses_of(second, 2)
    state.restore(second, tmp_path)
    assert losses_of(second, 4) == pytest.approx(whole[5:], rel=1e-12)


def case(runtime: str = "tensorflow", **tuning: Any) -> Case:
    study = load_study(["cyclegan"], {"device": "cpu", "runtime": runtime})
    made = plan(study, cores=1, gpus=0).cases[0].case
    return dataclasses.replace(made, tuning=dataclasses.replace(made.tuning, **tuning))


@pytest.mark.parametrize("name", TUNINGS)
def test_every_tuning_is_supported(name: str) -> None:
    for precision in ("default", "fp32", "bf16"):
        assert runtimes.load("tensorflow").supports(case(**TUNINGS[name], precision=precision)) is None


def test_what_is_not_built_has_a_reason() -> None:
    assert "one loss scale" in str(runtimes.load("tensorflow").supports(case(precision="fp16")))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small net under CycleGAN's name: a case of it takes seconds."""
    monkeypatch.setattr(models, "model", lambda *given, **more: TINY)


def prepared(runtime: str = "tensorflow", **tuning: Any) -> Any:
    return runtimes.load(runtime).prepare(case(runtime, **tuning))


@pytest.mark.parametrize("name", ["as-written", "on-device"])
def test_a_case_is_handed_over(tiny: None, name: str) -> None:
    made, theirs = prepared(**TUNINGS[name]), prepared("torch")
    assert (dict(made.hashes), made.parameters) == (dict(theirs.hashes), theirs.parameters)
    assert (made.steps_per_epoch, made.eval_samples) == (theirs.steps_per_epoch, theirs.eval_samples)
    made.build()
    for one in (made, theirs):
        one.step()
    assert made.losses() == pytest.approx(theirs.losses(), rel=1e-5)
    mine, whole = made.evaluate(None), theirs.evaluate(None)
    assert (mine.steps, mine.samples, mine.accuracy) == (whole.steps, whole.samples, None)
    assert made.counters() == {"tf_traces": 1}
    assert made.observed()["domain_samples"] == theirs.observed()["domain_samples"]
    assert set(made.export()) == set(declared_shapes(cyclegan.nets(TINY)["g_ab"]))
    made.close()
    theirs.close()


@pytest.mark.parametrize("precision", ["fp32", pytest.param("bf16", marks=pytest.mark.whole)])
def test_a_case_passes_its_checks(tiny: None, precision: str) -> None:
    made = prepared(precision=precision, residency="device")
    found = made.checks()
    assert all(check["ok"] for check in found.values())
    assert {probe["precision"] for probe in found["precision"]["found"].values()} == {precision}
    made.close()


def test_a_wrong_loss_is_told(tiny: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong where the case's own precision computes: FP64 is right."""
    from breakeven.runtimes.tensorflow import translation

    right = translation._judged

    def wrong(scores: Any, target: float) -> Any:
        return right(scores, target) * (1.0 if scores.dtype == tf.float64 else 1.01)

    monkeypatch.setattr(translation, "_judged", wrong)
    with pytest.raises(Mismatch, match="one_step_parity"):
        prepared(precision="fp32").checks()


@pytest.mark.whole
@pytest.mark.timeout(1200)
def test_the_whole_net_at_128_is_what_its_case_says() -> None:
    made = runtimes.load("tensorflow").prepare(case(residency="device"))
    assert (made.parameters, made.steps_per_epoch, made.samples_per_step) == (28_285_832, 140, 1)
    found = made.checks()
    assert all(check["ok"] for check in found.values())
    assert made.evaluate(1).accuracy is None
    made.close()
