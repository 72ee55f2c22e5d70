"""CycleGAN's step in torch: against the same step written out, between tunings, resumed, and at full size."""

from __future__ import annotations

import dataclasses
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from breakeven.errors import Mismatch
from breakeven.records.case import Case, Recipe
from breakeven.runner.plan import plan
from breakeven.runner.study import load_study
from breakeven.runtimes import load
from breakeven.workloads import cyclegan, models
from breakeven.workloads.schedule import learning_rate
from breakeven.workloads.weights import declared_shapes

from .translation_cases import SEED, STEPS, TINY, WHOLE, WORKS, in_torch, losses_of, splits

pytestmark = pytest.mark.framework
pytest.importorskip("torch")
pytest.importorskip("sklearn")

TUNINGS: dict[str, dict[str, Any]] = {
    "as-written": {},
    "workers": {"workers": 2},
    "on-device": {"residency": "device", "loss_sync": "epoch"},
    "channels-last": {"residency": "device", "layout": "channels-last"},
    "fused": {"residency": "device", "optimizer_impl": "fused"},
}


compiler = pytest.mark.skipif(
    not any(map(shutil.which, (os.environ.get("CXX", "g++"), "g++", "clang++"))),
    reason="no C++ compiler, which torch.compile needs",
)

# Tracing, torch asks for gradients and keeps its own warning from being shown, but not from being an error.
traces = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Nets as small as these are slower on several threads, and far slower on a busy machine."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def written_out(recipe: Recipe, batch: int, steps: int) -> list[float]:
    """Generator losses by the words of `workloads.cyclegan`, with torch's own modules."""
    import torch
    from torch.nn.functional import l1_loss, mse_loss

    from workloads.torch_reference import sequential

    first = cyclegan.first_weights(WHOLE, SEED)
    net = {}
    for name, declared in cyclegan.nets(WHOLE).items():
        net[name] = sequential(declared.nodes).double()
        own = [torch.from_numpy(first[key]) for key in first if key.startswith(f"{name}.")]
        with torch.no_grad():
            for parameter, value in zip(net[name].parameters(), own, strict=True):
                parameter.copy_(value)
    adam = {
        names: torch.optim.Adam(
            [p for name in names for p in net[name].parameters()], lr=recipe.lr, betas=(0.5, 0.999), eps=1e-8
        )
        for names in (cyclegan.GENERATORS, cyclegan.DISCRIMINATORS)
    }
    domains, pools, losses = splits(recipe, batch), ([], []), []  # type: ignore[var-annotated]
    for number in range(steps):
        epoch, step = divmod(number, STEPS)
        for optimizer in adam.values():
            optimizer.param_groups[0]["lr"] = learning_rate(recipe, epoch)
        real = [images_of(split, epoch, step, batch) for split in domains]
        fake = [net["g_ba"](real[1]), net["g_ab"](real[0])]
        back = [net["g_ba"](fake[1]), net["g_ab"](fake[0])]
        same = [net["g_ba"](real[0]), net["g_ab"](real[1])]
        total = torch.zeros((), dtype=torch.float64)
        for x, judge in enumerate(("d_a", "d_b")):
            scores = net[judge](fake[x])
            total = total + mse_loss(scores, torch.ones_like(scores))
            total = total + 10 * l1_loss(back[x], real[x]) + 5 * l1_loss(same[x], real[x])
        adam[cyclegan.GENERATORS].zero_grad()
        total.backward()
        adam[cyclegan.GENERATORS].step()
        losses.append(total.item())
        adam[cyclegan.DISCRIMINATORS].zero_grad()
        for x, judge in enumerate(("d_a", "d_b")):
            shown = []
            draws = cyclegan.pool_draws(SEED, x, number * batch, batch, recipe.pool or 0)
            for image, (swap, slot) in zip(fake[x].detach(), draws, strict=True):
                if recipe.pool and len(pools[x]) < recipe.pool:
                    pools[x].append(image)
                elif recipe.pool and swap:
                    pools[x][slot], image = image, pools[x][slot]
                shown.append(image)
            yes, no = net[judge](real[x]), net[judge](torch.stack(shown))
            (0.5 * mse_loss(yes, torch.ones_like(yes)) + 0.5 * mse_loss(no, torch.zeros_like(no))).backward()
        adam[cyclegan.DISCRIMINATORS].step()
    return losses


def images_of(split: Any, epoch: int, step: int, batch: int) -> Any:
    import torch

    from breakeven.workloads.order import apply_augmentation

    chosen = split.order(epoch)[step * batch : (step + 1) * batch]
    images = split.data.images[chosen]
    table = split.offsets(epoch)
    if table is not None:
        images = apply_augmentation(images, table[chosen])
    return torch.from_numpy(images.astype(np.float32) / np.float32(255) - np.float32(0.5)).double() / 0.5


@pytest.mark.parametrize(("recipe", "batch"), WORKS.values(), ids=WORKS)
def test_ten_losses_are_those_of_the_step_written_out(recipe: Recipe, batch: int) -> None:
    expected = written_out(recipe, batch, 10)
    assert losses_of(in_torch(recipe, batch), 10) == pytest.approx(expected, rel=1e-6)
    assert expected[-1] != pytest.approx(expected[0], rel=1e-2)  # something was learned meanwhile


@pytest.mark.parametrize("name", list(TUNINGS)[1:])
def test_ten_losses_do_not_depend_on_the_tuning(name: str) -> None:
    expected = losses_of(in_torch(), 10)
    assert losses_of(in_torch(**TUNINGS[name]), 10) == pytest.approx(expected, rel=1e-8)


@traces
@pytest.mark.parametrize("layout", ["channels-first", "channels-last"])
def test_a_compiled_step_is_traced_four_times_in_its_build_and_never_again(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The graphs of torch.compile, decomposed as its own, but run as they are: its code takes minutes."""
    import torch

    from breakeven.runtimes.torch import translation

    def traced(net: Any, mode: str) -> Any:
        return torch.compile(net, backend="aot_eager_decomp_partition", fullgraph=True, dynamic=False)

    monkeypatch.setattr(translation, "compiled", traced)
    held_to_eager(layout)


@compiler
@traces
@pytest.mark.whole
@pytest.mark.timeout(1200)
def test_a_step_in_code_of_the_compiler_is_the_eager_one() -> None:
    held_to_eager("channels-first")


def held_to_eager(layout: str) -> None:
    """Six compiled steps have the eager losses; the build makes all graphs and leaves the training alone."""
    import torch._dynamo
    from torch._dynamo.utils import counters

    expected = losses_of(in_torch(residency="device", layout=layout), 6)
    torch._dynamo.reset()
    made = in_torch(residency="device", layout=layout, execution="compile:default")
    before = {name: value.clone() for name, value in made.net.state_dict().items()}
    assert made.build is not None
    counters.clear()
    made.build()
    graphs = counters["stats"]["unique_graphs"]
    # A generator with and without a gradient of its input, a discriminator with frozen and with free weights.
    assert graphs == 4
    assert all(value.equal(before[name]) for name, value in made.net.state_dict().items())
    assert all(p.grad is None for p in made.net.parameters()) and not made.optimizer.state
    assert losses_of(made, 6) == pytest.approx(expected, rel=1e-8)
    assert counters["stats"]["unique_graphs"] == graphs and not counters["graph_break"]
    torch._dynamo.reset()


def test_biases_before_a_norm_have_no_gradient_to_compare() -> None:
    import torch

    from breakeven.runtimes.torch import nets
    from breakeven.workloads.layers import normed_away

    for name, declared in cyclegan.nets(WHOLE).items():
        net = nets.build(
            declared,
            {
                key.removeprefix(f"{name}."): w
                for key, w in cyclegan.first_weights(WHOLE, SEED).items()
                if key.startswith(f"{name}.")
            },
        ).double()
        generator = torch.Generator().manual_seed(0)
        net(torch.rand(1, 3, 32, 32, generator=generator, dtype=torch.float64)).square().mean().backward()
        sizes = {key: float(p.grad.norm()) for key, p in net.named_parameters()}
        none = {key for key, size in sizes.items() if size < 1e-9 * max(sizes.values())}
        assert none == set(normed_away(declared.nodes)) != set()


def test_instance_norm_has_its_gradient_in_either_layout() -> None:
    """torch 2.13's own has another one where a single image comes in channels-last."""
    import torch

    from breakeven.runtimes.torch.images import InstanceNorm

    generator = torch.Generator().manual_seed(0)
    image, weight = (torch.randn(1, 4, 6, 6, generator=generator, dtype=torch.float64) for _ in range(2))
    made = []
    for layout in (torch.contiguous_format, torch.channels_last):
        x = image.clone(memory_format=layout).requires_grad_(True)
        InstanceNorm(4)(x).backward(weight.contiguous(memory_format=layout))
        made.append(x.grad)
    torch.testing.assert_close(made[0], made[1], rtol=1e-12, atol=1e-12)


def test_a_pool_gives_new_images_until_it_is_full_and_then_old_ones() -> None:
    import torch

    from breakeven.runtimes.torch.translation import Pool

    pool = Pool(3, 0, 1, (1, 1, 1))
    given = [pool.ask(torch.full((1, 1, 1, 1), float(n)), n).item() for n in range(200)]
    assert given[:3] == [0, 1, 2]
    old = [n - got for n, got in enumerate(given[3:], start=3)]
    assert 0.35 < np.mean([age > 0 for age in old]) < 0.65 and min(old) == 0 and max(old) > 3
    assert len(set(given[3:])) == len(given[3:])  # what leaves a full pool does not come again


def test_a_resumed_training_goes_on_as_it_was(tmp_path: Path) -> None:
    from breakeven.runtimes.torch import state

    whole = losses_of(in_torch(), 8)
    first = in_torch()
    assert losses_of(first, 4) == whole[:4]
    state.save(first, tmp_path)
    second = in_torch()
    losses_of(second, 2)
    state.restore(second, tmp_path)
    assert losses_of(second, 4) == pytest.approx(whole[4:], rel=1e-12)


def case(**tuning: Any) -> Case:
    made = plan(load_study(["cyclegan"], {"device": "cpu"}), cores=1, gpus=0).cases[0].case
    return dataclasses.replace(made, tuning=dataclasses.replace(made.tuning, **tuning))


@pytest.mark.parametrize(
    ("tuning", "words"),
    [
        ({"precision": "fp16"}, "one loss scale"),
        (
            {"execution": "cuda-graph", "residency": "device", "loss_sync": "epoch"},
            "CUDA devices only",
        ),
    ],
)
def test_what_is_not_built_has_a_reason(tuning: dict[str, Any], words: str) -> None:
    assert words in str(load("torch").supports(case(**tuning)))


def test_another_data_set_or_loss_has_a_reason() -> None:
    given = case()
    digits = dataclasses.replace(given.work, data="digits", input_shape=(3, 32, 32))
    reason = load("torch").supports(dataclasses.replace(given, work=digits))
    assert "two domains" in str(reason)
    plain = dataclasses.replace(given.work, recipe=Recipe())
    assert "no loss of cyclegan" in str(load("torch").supports(dataclasses.replace(given, work=plain)))


@pytest.mark.whole
@pytest.mark.timeout(1200)
def test_the_whole_net_at_128_is_what_its_case_says() -> None:
    prepared = load("torch").prepare(case(residency="device"))
    assert (prepared.parameters, prepared.steps_per_epoch, prepared.samples_per_step) == (28_285_832, 140, 1)
    assert prepared.parts is None and "phases" in prepared.nulls
    found = prepared.checks()
    assert all(check["ok"] for check in found.values())
    assert {"training_flops", "one_step_parity", "weights_move", "precision"} <= set(found)
    assert prepared.evaluate(1).accuracy is None
    assert prepared.export is not None
    generator = cyclegan.nets(models.model("cyclegan", input_shape=(3, 128, 128)))["g_ab"]
    assert set(prepared.export()) == set(declared_shapes(generator))
    prepared.close()


@compiler
@traces
@pytest.mark.whole
@pytest.mark.timeout(1200)
def test_the_compiled_net_at_128_is_held_to_the_eager_one() -> None:
    prepared = load("torch").prepare(case(residency="device", execution="compile:default"))
    found = prepared.checks()
    assert all(check["ok"] for check in found.values())
    assert set(found["as_eager"]["found"]) == {
        "generators_loss", "generators_gradient", "discriminators_gradient", "worst",
    }  # fmt: skip
    before = prepared.counters()
    assert before
    prepared.step()
    assert prepared.counters() == before
    prepared.close()


def test_a_compiler_that_loses_a_gradient_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from breakeven.runtimes.torch import translation

    monkeypatch.setattr(models, "model", lambda *given, **more: TINY)
    monkeypatch.setattr(translation, "compiled", _forgetful)
    prepared = load("torch").prepare(case(residency="device", execution="compile:default"))
    with pytest.raises(Mismatch, match="as_eager") as caught:
        prepared.checks()
    assert caught.value.outcome == "output_mismatch"
    prepared.close()


def _forgetful(net: Any, mode: str) -> Any:
    """Instead of a compiler: right images, but of its second layer's weights a gradient of zero."""
    import torch

    class Forgetful(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            weight = [p for p in net.parameters() if p.dim() == 4][1]
            asked = weight.requires_grad
            weight.requires_grad_(False)
            made = net(x)
            weight.requires_grad_(asked)
            return made + 0 * weight.sum()

    return Forgetful()
