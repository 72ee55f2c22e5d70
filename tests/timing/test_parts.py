"""A step's parts are timed apart: they add up to it, or it is said that they don't or why there are none."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from breakeven.runtimes import Prepared, sim
from breakeven.timing import Parts, Plan, Samples, sample_training
from contract.worlds import MS, QUIET, World, sim_case

LONG = Plan(budget_s=100.0)


def sampled(device: str, plan: Plan = LONG, **tuning: Any) -> Samples:
    return sample_training(sim.prepare(sim_case(f"sim:gpu:{QUIET}:{device}", **tuning)), plan)


def parts_of(device: str, plan: Plan = LONG, **tuning: Any) -> Parts:
    found = sampled(device, plan, **tuning).parts
    assert isinstance(found, Parts), found
    return found


def test_the_hosts_parts_add_up_to_the_step() -> None:
    found = parts_of("step_ms=10:input_ms=3:launch_us=100:train_samples=1000000")
    assert found.step_ms == pytest.approx(10, rel=0.01) == sum(found.exposed_ms.values())
    assert found.exposed_ms["data_wait"] == pytest.approx(3, rel=0.01)
    enqueue = sum(found.exposed_ms[name] for name in ("forward", "backward", "optimizer"))
    assert enqueue == pytest.approx(13 * 0.1, rel=0.01)  # 13 layers are launched
    assert found.exposed_ms["sync"] == pytest.approx(10 - 3 - 1.3, rel=0.05)  # the device's lead, at the end
    assert found.steps >= 5 and found.busy_steps == 50 and not found.disagree


def test_each_part_alone_is_host_and_device_together() -> None:
    found = parts_of("step_ms=9:input_ms=3:copy_ms=2:launch_us=10:train_samples=1000000")
    assert found.busy_ms["data_wait"] == pytest.approx(3, rel=0.01)
    assert found.busy_ms["copy"] == pytest.approx(2, rel=0.01)
    assert found.busy_ms["forward"] + found.busy_ms["backward"] == pytest.approx(9, rel=0.01)
    assert found.enqueue_ms["forward"] < 0.1 * found.busy_ms["forward"]
    launched = parts_of("step_ms=1:launch_us=500:train_samples=1000000", residency="device")
    assert launched.enqueue_ms["backward"] == pytest.approx(launched.busy_ms["backward"], rel=0.01)


def test_batches_of_workers_that_come_in_turn_are_averaged() -> None:
    """Four workers deliver at once, then nothing comes for 40 ms: most steps wait for nothing at all."""
    world = World(kernel_ns=lambda i: MS, launch_ns=lambda i: 0)
    count = [0]

    def fetch() -> None:
        count[0] += 1
        if count[0] % 4 == 0:
            world.now += 40 * MS

    def step() -> None:
        fetch()
        world.step()

    prepared = world.prepared(step=step, parts={"data_wait": fetch, "forward": world.step})
    found = sample_training(prepared, LONG).parts
    assert isinstance(found, Parts) and found.exposed_ms["data_wait"] == pytest.approx(10, rel=0.2)
    assert found.busy_ms["data_wait"] < 0.01  # the median of steps that are waited for says nothing of it


def test_a_step_of_one_piece_has_no_parts_and_says_so() -> None:
    assert sampled("step_ms=1", execution="cuda-graph").parts == "a captured step is one piece"
    assert sample_training(World().prepared(), LONG).parts == "a step of this runtime is one piece"


def test_slow_steps_have_no_parts_and_say_what_they_need() -> None:
    short = sampled("step_ms=900:train_samples=1000000", Plan(budget_s=20.0))
    assert short.parts == "5 steps take too long: parts need an attempt of 30 s"
    assert isinstance(sampled("step_ms=900:train_samples=1000000", Plan(budget_s=31.0)).parts, Parts)


def test_split_steps_that_take_another_time_are_flagged() -> None:
    world = World(kernel_ns=lambda i: 10 * MS)
    assert "parts_disagree" not in sample_training(world.prepared(parts={"forward": world.step}), LONG).flags

    def slower() -> None:
        world.step()
        world.busy_until += 2 * MS

    assert "parts_disagree" in sample_training(world.prepared(parts={"forward": slower}), LONG).flags


@pytest.mark.parametrize("steps_per_epoch", [1, 5, 12, 100])
def test_parts_leave_the_blocks_and_the_epochs_as_they_are(steps_per_epoch: int) -> None:
    """Steps of one epoch are never more than it has, and no block is added."""
    world = World(kernel_ns=lambda i: 10 * MS, steps_per_epoch=steps_per_epoch)
    seen = [0]

    def next_epoch() -> None:
        assert seen[0] <= steps_per_epoch
        seen[0] = 0

    def step() -> None:
        if seen[0] == steps_per_epoch:
            next_epoch()
        seen[0] += 1
        world.step()

    def samples(prepared: Prepared) -> Samples:
        return sample_training(prepared, LONG)

    whole = world.prepared(step=step, next_epoch=next_epoch)
    split = samples(dataclasses.replace(whole, parts={"forward": step}))
    assert isinstance(split.parts, Parts) and split.parts.step_ms == pytest.approx(10, rel=0.02)
    steady = [b for b in split.blocks if not (b.warmup or b.boundary)]
    assert len(split.blocks) <= LONG.max_blocks and len(steady) >= LONG.min_blocks
    # A boundary block starts at an epoch's first step: its position was kept through the split steps.
    assert sum(b.boundary and not b.warmup for b in split.blocks) >= (steps_per_epoch > 1)
