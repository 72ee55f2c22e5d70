"""Contract, group 8: profiles, scaling, what training means."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from analysis.conftest import a_case, spread, understood
from breakeven.records.case import Recipe
from breakeven.records.lines import ProfileLine
from breakeven.runtimes import load
from breakeven.timing import Plan, sample_inference
from runtimes.torch_cases import case

from .worlds import QUIET, US, World, in_a_child, sim_case, step_ms


def test_r39_no_total_comes_from_a_profiled_run() -> None:
    """A profiler that adds 22 us to every launch of 8 makes a step that computes look as if it launched."""

    def run(overhead_us: int) -> float:
        world = World(kernel_ns=lambda i: 100 * 10 * US, launch_ns=lambda i: 100 * (8 + overhead_us) * US)
        return step_ms(sample_inference(world.prepared(), Plan(budget_s=10.0)))

    assert run(22) > 2.5 * run(0)
    attempts = spread(a_case(), 5.0)
    profiled = ProfileLine(
        case_id=attempts[0].case_id,
        fingerprint_id="f",
        started_utc="2026-01-01T00:00:00.000+00:00",
        outcome="ok",
        n_steps=2,
        profiled_ns=26_000_000,
        plain_ns=(10_000_000, 10_000_000),
    )
    alone, beside = understood(attempts), understood([*attempts, profiled])
    assert beside.cases[0].step_s == alone.cases[0].step_s
    assert beside.cases[0].total_s == alone.cases[0].total_s
    # Parts are timed by the same clock in steps of their own, and the blocks hold none of these.
    result = in_a_child(sim_case(f"sim:gpu:step_ms=5:{QUIET}"))
    assert result["phases"]["step_ms"] == pytest.approx(5, rel=0.05)
    steady = [b for b in result["blocks"] if not (b["warmup"] or b["boundary"])]
    assert min(b["ns"] / b["n_steps"] for b in steady) == pytest.approx(5e6, rel=0.01)


def test_r40_several_devices_are_refused() -> None:
    """Summing the ranks of a synchronous job with one slow card says a third too much."""
    ranks = [100.0] * 7 + [140.0]
    assert sum(1000 / r for r in ranks) > 1.3 * 8 * 1000 / max(ranks)
    for name, one in (("torch", case()), ("sim", sim_case("sim:gpu"))):
        two = dataclasses.replace(one, device=dataclasses.replace(one.device, world_size=2))
        assert load(name).supports(one) is None
        assert "several devices are not" in (load(name).supports(two) or "")


def test_r41_another_batch_or_accumulation_is_other_work() -> None:
    recipe = Recipe(accumulation=4)
    assert (
        load("sim").supports(sim_case("sim:gpu", recipe=recipe)) == "gradient accumulation is not simulated"
    )
    assert case(recipe=recipe).work_id != case().work_id  # other training, so other work: never one ratio
    assert case(batch=32).work_id != case(batch=64).work_id  # nor is a larger batch the same training


@pytest.mark.framework
@pytest.mark.slow
def test_r41_accumulated_gradients_equal_the_whole_batchs_only_without_batch_norm() -> None:
    """Naive: four quarters are one whole. With batch norm they are another training."""
    import numpy as np
    import torch

    from breakeven.runtimes.torch import nets
    from breakeven.runtimes.torch.training import forward
    from breakeven.workloads.models import model
    from breakeven.workloads.weights import initial_weights

    def difference(name: str) -> float:
        declared = model(name)
        images = torch.from_numpy(np.random.Generator(np.random.Philox(1)).normal(size=(16, 3, 32, 32)))
        labels = torch.arange(16) % 10

        def gradient(parts: int) -> Any:
            net = nets.build(declared, initial_weights(declared, 0)).double().train()
            for module in net.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = 0.0
            for x, y in zip(images.chunk(parts), labels.chunk(parts), strict=True):
                (forward(net, x, y, "default")[0] / parts).backward()
            return torch.cat([p.grad.flatten() for p in net.parameters()])

        whole, split = gradient(1), gradient(4)
        return float((split - whole).norm() / whole.norm())

    assert difference("simple-cnn") < 1e-6
    assert difference("resnet18") > 1e-2


def test_r42_a_seed_is_work_and_no_setting() -> None:
    one, two = (in_a_child(sim_case(f"sim:gpu:step_ms=5:{QUIET}")) for _ in range(2))
    assert one["observed"] | {"preload_ms": 0} == two["observed"] | {"preload_ms": 0}
    asked = case(seed=0), case(seed=1)
    assert asked[0].tuning == asked[1].tuning and asked[0].work_id != asked[1].work_id
    assert asked[0].pool_id == asked[1].pool_id


@pytest.mark.framework
def test_r42_a_seed_changes_no_flag_of_the_library() -> None:
    """The naive seed_everything(seed) makes cuDNN deterministic, which is another, slower configuration."""
    import torch

    def flags() -> tuple[Any, ...]:
        cudnn = torch.backends.cudnn
        return cudnn.deterministic, cudnn.benchmark, torch.are_deterministic_algorithms_enabled()

    before = flags()
    seen = []
    for seed in (0, 1234):
        prepared = load("torch").prepare(case(batch=16, seed=seed))
        prepared.step()
        seen.append({k: v for k, v in prepared.observed().items() if k != "device_name"})
        prepared.close()
    assert flags() == before and seen[0] == seen[1]
