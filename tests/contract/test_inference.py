"""Inference: a stream of calls and single calls, from one sampling, against planted truth."""

from itertools import pairwise
from statistics import median

import pytest

from breakeven.timing import MOST_CALLS, Plan, sample_inference

from .worlds import MS, US, World, step_ms

PLAN = Plan(budget_s=10.0)


def test_the_stream_and_single_calls_are_found_apart() -> None:
    world = World(kernel_ns=lambda i: 100 * US, launch_ns=lambda i: 60 * US, steps_per_epoch=4)
    samples = sample_inference(world.prepared(device_span=world.span), PLAN)
    assert step_ms(samples) == pytest.approx(0.1, rel=0.01)  # launches hide behind the device's work
    assert median(samples.calls_ns) == pytest.approx(160 * US, rel=0.01)  # a caller waits for both
    assert len(samples.calls_ns) == MOST_CALLS and samples.flags == ()
    assert samples.cold_ns == pytest.approx(160 * US, rel=0.01)
    assert samples.timers_ns is not None and samples.evaluation is not None
    assert samples.parts == "a call is one piece" and samples.losses == ()


def test_a_few_batches_that_take_turns_are_no_epochs() -> None:
    world = World(kernel_ns=lambda i: 10 * US, launch_ns=lambda i: 1 * US, steps_per_epoch=4)
    samples = sample_inference(world.prepared(), PLAN)
    assert not any(block.boundary for block in samples.blocks)
    assert max(block.n_steps for block in samples.blocks) > 1000 and "short_epoch" not in samples.flags


@pytest.mark.parametrize(("ms", "calls"), [(1, 3000), (20, 150), (4000, 1), (60_000, 1)])
def test_single_calls_have_their_share_of_the_time(ms: int, calls: int) -> None:
    world = World(kernel_ns=lambda i: ms * MS)
    samples = sample_inference(world.prepared(), Plan(budget_s=10.0))
    assert len(samples.calls_ns) == pytest.approx(calls, rel=0.2)
    plain = sample_inference(World(kernel_ns=lambda i: ms * MS).prepared(), Plan(budget_s=10.0, calls_s=0.0))
    assert plain.calls_ns == () and len(plain.blocks) >= len(samples.blocks)


def test_a_call_longer_than_all_of_the_time_is_made_few_times() -> None:
    world = World(kernel_ns=lambda i: 60_000 * MS)
    samples = sample_inference(world.prepared(), PLAN)
    # Cold, one to warm up, one in the stream, one alone: nothing else could be learned in time.
    assert world.steps == 4 and len(samples.calls_ns) == 1


def test_no_more_calls_are_kept_than_asked_for() -> None:
    samples = sample_inference(World(kernel_ns=lambda i: MS).prepared(), Plan(budget_s=10.0, most_calls=300))
    assert len(samples.calls_ns) == 300


def test_single_calls_are_raw_and_in_order() -> None:
    """Every hundredth call is slow: all of them are kept, where they happened."""
    world = World(kernel_ns=lambda i: (9 if i % 100 == 99 else 1) * MS)
    ns = sample_inference(world.prepared(), PLAN).calls_ns
    slow = [index for index, value in enumerate(ns) if value > 5 * MS]
    assert len(slow) >= 20 and {b - a for a, b in pairwise(slow)} == {100}


def test_a_compile_among_the_single_calls_is_seen() -> None:
    quiet = World(kernel_ns=lambda i: MS)
    before = quiet.prepared()
    sample_inference(before, Plan(budget_s=10.0, calls_s=0.0, eval_s=0.0))
    at = quiet.steps + 1500  # beyond the stream and the warming up of calls

    world = World(kernel_ns=lambda i: MS, launch_ns=lambda i: 200 * MS if i == at else 5 * US)
    assert sample_inference(world.prepared(), PLAN).counters_moved == {"compiles": 1}


@pytest.mark.parametrize("calls_s", [-1.0, 10.0, 11.0])
def test_single_calls_must_leave_time_for_the_stream(calls_s: float) -> None:
    with pytest.raises(ValueError, match="single calls"):
        Plan(budget_s=10.0, calls_s=calls_s)
