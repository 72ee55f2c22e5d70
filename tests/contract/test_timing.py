"""Contract, group 1: timing. A fault is planted, the naive number is wrong, ours is right or refused."""

from __future__ import annotations

import dataclasses
import functools
from statistics import fmean, median
from typing import Any

import pytest

from analysis.conftest import HASHES, a_case, sampled, understood
from breakeven.analysis.processes import has_outlier
from breakeven.errors import Mismatch, Unsupported
from breakeven.records.lines import Block
from breakeven.runtimes import sim
from breakeven.timing import MOST_CALLS, Plan, resolution_ns, sample_calls, sample_inference, sample_training

from .worlds import MS, QUIET, SECOND, US, World, in_a_child, sim_case, step_ms

PLAN = Plan(budget_s=10.0)
LONG = Plan(budget_s=60.0)


def test_r01_a_step_is_synchronised_at_both_edges() -> None:
    world = World(kernel_ns=lambda i: 20 * MS)
    assert world.naive_ns() < 20 * MS / 100  # no trailing synchronisation
    for _ in range(24):
        world.step()
    start = world.clock()
    world.step()
    world.sync()
    assert world.clock() - start > 20 * 20 * MS  # no leading one: what was enqueued before is booked on us
    for _ in range(24):
        world.step()
    samples = sample_training(world.prepared(), PLAN)
    assert samples.cold_ns == pytest.approx(20 * MS, rel=0.001)
    assert step_ms(samples) == pytest.approx(20, rel=0.001)


@pytest.mark.framework
def test_r01_an_unknown_device_is_refused_and_not_left_unsynchronised() -> None:
    import torch

    from breakeven.runtimes.torch.place import sync_of

    with pytest.raises(Unsupported, match="no synchronisation known for 'meta'"):
        sync_of(torch.device("meta"))


def test_r02_a_block_lasts_a_thousand_resolutions_of_its_clock() -> None:
    tick = 15_600_000  # the clock of an old Windows

    def world() -> World:  # reading this clock takes 50 ns
        return World(kernel_ns=lambda i: 2 * MS, tick=tick, read_ns=50)

    naive, ours = world(), world()
    assert {naive.synced_ns() for _ in range(20)} == {0, tick}
    assert resolution_ns(ours.clock) == tick
    samples = sample_training(ours.prepared(), Plan(budget_s=1000))
    steady = [b for b in samples.blocks if not (b.warmup or b.boundary)]
    assert all(b.ns >= 1000 * tick for b in steady)
    assert step_ms(samples) == pytest.approx(2, rel=0.005)


def test_r02_host_clock_and_device_timer_have_to_agree() -> None:
    def broken() -> World:
        return World(kernel_ns=lambda i: 20 * MS)

    naive = broken()
    assert (
        step_ms(sample_training(naive.prepared(sync=lambda: None), PLAN)) < 1
    )  # a rate 4,000 times too high
    world = broken()
    with pytest.raises(Mismatch, match="timers disagree") as raised:
        sample_training(world.prepared(sync=lambda: None, device_span=world.span), PLAN)
    assert raised.value.outcome == "invalid"
    sound = broken()
    samples = sample_training(sound.prepared(device_span=sound.span), PLAN)
    assert samples.timers_ns is not None
    host_ns, device_ns = samples.timers_ns
    assert device_ns == pytest.approx(host_ns, rel=0.001) and "timers" not in samples.flags


def test_r03_latency_and_stream_are_two_measurements() -> None:
    def world() -> World:  # the host launches for as long as the device works
        return World(kernel_ns=lambda i: 100 * US, launch_ns=lambda i: 100 * US)

    one = world()
    calls = sample_calls(one.prepared(), budget_s=20.0)
    latency = median(calls.ns)
    stream = 1e6 * step_ms(sample_inference(world().prepared(), PLAN))
    assert latency == pytest.approx(200 * US, rel=0.01) and stream == pytest.approx(100 * US, rel=0.01)
    assert (1 / latency) / (1 / stream) == pytest.approx(0.5, rel=0.02)  # "throughput = 1 / latency" is half
    assert len(calls.ns) == MOST_CALLS and calls.flags == () and calls.counters_moved == {}
    tiny = World(kernel_ns=lambda i: 50 * 10 * US, launch_ns=lambda i: 50 * 40 * US)  # fifty small kernels
    wall = 1e6 * step_ms(sample_inference(tiny.prepared(), PLAN))
    assert wall > 3.9 * 50 * 10 * US  # launches: the device's busy time alone would hide three quarters of it


def test_r03_calls_are_warmed_up_and_refuse_what_cannot_be_told() -> None:
    falling = World(kernel_ns=lambda i: 10 * MS * max(1.0, 3.0 - i / 20))
    calls = sample_calls(falling.prepared(), budget_s=10.0, calls=100)
    assert calls.warmup >= 40 and median(calls.ns) == pytest.approx(10 * MS, rel=0.01)
    assert calls.cold_ns == pytest.approx(30 * MS, rel=0.01) and len(calls.ns) == 100
    short = sample_calls(World(kernel_ns=lambda i: 0).prepared(), budget_s=1e-3, calls=20)
    assert short.flags == ()  # 5 us against a clock of 1 ns
    coarse = World(kernel_ns=lambda i: 0, tick=100)
    assert "coarse_clock" in sample_calls(coarse.prepared(), budget_s=1e-3, calls=20).flags
    still = World(kernel_ns=lambda i: 0, launch_ns=lambda i: 0)
    with pytest.raises(Mismatch, match="stands still"):
        sample_calls(still.prepared(clock=lambda: 7), budget_s=1.0, calls=5)
    for bad in ({"budget_s": 0.0}, {"budget_s": 1.0, "calls": 0}, {"budget_s": 1.0, "calls": MOST_CALLS + 1}):
        with pytest.raises(ValueError, match="budget"):
            sample_calls(World().prepared(), **bad)  # type: ignore[arg-type]


def test_r04_the_steady_state_is_found_and_the_cold_start_kept() -> None:
    ramp = [4, 3.5, 3, 2.5, 2.2, 2, 1.8, 1.6, 1.4, 1.3, 1.2, 1.15, 1.1, 1.05]

    def world() -> World:
        return World(
            kernel_ns=lambda i: 10 * MS * (ramp[i] if i < len(ramp) else 1),
            launch_ns=lambda i: 5 * US if i else 3 * SECOND,
        )

    naive = world()
    times = [naive.synced_ns() for _ in range(13)]
    assert fmean(times[:10]) > 30 * 10 * MS and fmean(times[3:]) > 1.5 * 10 * MS  # none, and three, left out
    samples = sample_training(world().prepared(), PLAN)
    assert step_ms(samples) == pytest.approx(10, rel=0.01)
    assert samples.cold_ns > 3 * SECOND and sum(b.n_steps for b in samples.blocks if b.warmup) >= len(ramp)
    endless = World(kernel_ns=lambda i: 10 * MS * (1 + 100 / (1 + i)))
    assert "not_steady" in sample_training(endless.prepared(), PLAN).flags


def test_r05_a_compile_inside_the_window_is_invalid() -> None:
    def world(at: int | None) -> World:
        return World(launch_ns=lambda i: 800 * MS if i == at else 5 * US)

    first = sample_training(world(None).prepared(), LONG)
    warm = 1 + sum(b.n_steps for b in first.blocks if b.warmup)
    naive = world(20)
    assert fmean(naive.synced_ns() for _ in range(40)) > 2.5 * 10 * MS  # one retrace of a ragged batch
    assert first.counters_moved == {}
    assert sample_training(world(warm + 3).prepared(), LONG).counters_moved == {"compiles": 1}
    # ... and what the process reports of it:
    late = in_a_child(sim_case(f"sim:gpu:step_ms=50:{QUIET}:recompile_step=25"))
    assert late["outcome"] == "invalid" and "recompiles +1" in late["reason"]
    assert in_a_child(sim_case(f"sim:gpu:step_ms=50:{QUIET}:recompile_step=1"))["outcome"] == "ok"


def test_r05_a_fallback_that_no_counter_shows_is_pointed_out() -> None:
    case = a_case()
    lines = [sampled(case, i, 10.0) for i in range(3)]
    slow = Block(n_steps=5, samples=640, ns=5 * 10 * MS * 6)
    odd = dataclasses.replace(lines[0], blocks=(*lines[0].blocks, slow))
    assert has_outlier(odd) and not has_outlier(lines[0])
    found = understood(odd, lines[1:]).cases[0]
    assert "outliers" in found.flags and found.flag_counts["outliers"] == 1
    assert found.step_point_s == pytest.approx(0.010)  # kept, flagged, and out of the median


@pytest.mark.framework
def test_r05_a_real_recompile_moves_a_counter() -> None:
    import torch

    from breakeven.runtimes.torch import place

    compiled = torch.compile(lambda x: torch.relu(x) * 2, backend="eager")
    compiled(torch.ones(8, 4))
    world = World(kernel_ns=lambda i: 50 * MS)
    late = world.prepared(counters=place.counters)

    def step() -> None:
        world.step()
        compiled(torch.ones(8 if world.steps < 60 else 5, 4))

    plan = Plan(budget_s=10.0, tight=1e-12)
    assert sample_training(dataclasses.replace(late, step=step), plan).counters_moved
    world.steps = 0
    assert not sample_training(world.prepared(counters=place.counters), plan).counters_moved


def test_r06_the_incomplete_batch_is_dropped_and_said_so() -> None:
    case = sim_case(f"sim:gpu:step_ms=10:{QUIET}:train_samples=1000", batch=128)
    prepared = sim.prepare(case)
    assert -(-1000 // 128) * 128 == 1024  # a partial batch counted as a whole one: 2.4 % too many samples
    assert (prepared.steps_per_epoch, prepared.observed()["tail_dropped_samples"]) == (7, 104)
    samples = sample_training(prepared, PLAN)
    assert all(b.samples == 128 * b.n_steps for b in samples.blocks)


@pytest.mark.framework
def test_r06_a_step_of_another_shape_is_invalid() -> None:
    from breakeven.runtimes.torch import session
    from runtimes.torch_cases import case

    built = session.build(case(batch=128))
    assert session.observe(built)["tail_dropped_samples"] == 1437 % 128
    whole = built.batches.place

    def short(fetched: Any) -> Any:
        images, labels = whole(fetched)
        return images[:80], labels[:80]

    ragged = dataclasses.replace(built.batches, place=short)
    from breakeven.runtimes.torch.training import Plan as Steps
    from breakeven.runtimes.torch.training import forward, training

    plan = Steps(
        recipe=built.case.work.recipe, seed=0, shape=(128, 3, 32, 32), steps_per_epoch=11,
        precision="default", optimizer_impl="auto", loss_every_step=True,
    )  # fmt: skip
    run = functools.partial(forward, built.training.net, precision="default")
    with pytest.raises(Mismatch, match=r"a step got \(80, 3, 32, 32\)"):
        training(plan, built.training.net, ragged, run, built.device).step()


def test_r07_regions_are_named_and_never_mixed() -> None:
    here, there = a_case(), a_case(device="cuda:0")
    whole = [sampled(here, i, 13.0, region="train_step") for i in range(3)]  # 3 ms of it copies
    part = [sampled(there, i, 10.0, region="infer_stream") for i in range(3)]
    assert 13.0 / 10.0 > 1.2  # naive: "30 % faster", which is the copy that one side leaves out
    ratio = understood(whole, part).ratios[0]
    assert ratio.ratio is None and "unequal regions" in ratio.reasons["ratio"]
    equal = understood(whole, [dataclasses.replace(a, region="train_step") for a in part]).ratios[0]
    assert equal.point == pytest.approx(1.3)
    assert "region" in in_a_child(sim_case(f"sim:gpu:step_ms=50:{QUIET}"))


def test_r08_input_bound_devices_make_no_law_of_model_size() -> None:
    """Truth: 100x at both sizes. Behind a loader of 16 ms the ratio seems to grow with the model."""

    def ratio(scale: float, **tuning: Any) -> float:
        def ms(name: str, step: float) -> float:
            case = sim_case(f"sim:{name}:{QUIET}:step_ms={step * scale}:input_ms=16", **tuning)
            return step_ms(sample_training(sim.prepare(case), LONG))

        return ms("cpu", 50.0) / ms("gpu", 0.5)

    starved = [ratio(scale) for scale in (1, 4)]
    assert starved[1] > 2.9 * starved[0] and starved[0] < 6
    fed = [ratio(scale, residency="device", augment_on="device") for scale in (1, 4)]
    assert fed == pytest.approx([100, 100], rel=0.01)
    # What hides behind the loader has a label beside its number, from the parts of its steps.
    waiting = sim_case(f"sim:gpu:{QUIET}:step_ms=0.5:input_ms=16", loss_sync="every-step")
    phases = in_a_child(waiting)["phases"]
    assert phases["exposed_ms"]["data_wait"] == pytest.approx(16, rel=0.01)
    assert sum(phases["exposed_ms"].values()) == pytest.approx(phases["step_ms"])
    (share,) = understood([sampled(waiting, 0, 16.5, phases=phases)]).shares
    assert share.label == "input" and share.shares["data_wait"] == pytest.approx(16 / 16.5, abs=0.02)
    assert "input_bound" in [q.flag for q in understood([sampled(waiting, 0, 16.5, phases=phases)]).quality]


def test_r09_a_time_that_no_hardware_reaches_is_refused() -> None:
    """A launch of 30 us taken for a step of ResNet50 at batch 128: 2,000 TFLOP/s."""
    gpu = a_case("resnet50", "cuda:0")
    seen = {"device_name": "NVIDIA H200"}
    naive = [sampled(gpu, i, 0.03, observed=seen, hashes=HASHES) for i in range(3)]
    found = understood(naive).cases[0]
    assert found.step_s is None and found.step_point_s is None
    assert found.failure is not None and found.failure.startswith("invalid: faster than the hardware")
    real = understood([sampled(gpu, i, 2.0, observed=seen) for i in range(3)]).cases[0]
    assert real.step_s is not None and real.tflop_per_s is not None and 1 < real.tflop_per_s < 989
    unlisted = understood([sampled(gpu, i, 0.03, observed={"device_name": "Another"}) for i in range(3)])
    assert unlisted.cases[0].failure is None  # an unknown peak forbids nothing
