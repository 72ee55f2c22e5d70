"""The loop finds what is planted: steps, warm-up, boundaries, evaluation, and says so when it cannot."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.errors import Mismatch
from breakeven.records.case import Case, Recipe, Tuning, Work, applicable, parse_device
from breakeven.records.lines import Block
from breakeven.runtimes import Evaluation, Prepared, sim
from breakeven.timing import Plan, Progress, Samples, resolution_ns, sample_training

QUIET = "noise=0:process=0:cold_ms=0:drift=1:boundary_ms=0"
PLAN = Plan(budget_s=10.0)


def prepared_for(device: str, *, batch: int = 100, loss_sync: str = "epoch", workers: int = 0) -> Prepared:
    work = Work(
        task="train",
        model="simple-cnn",
        data="cifar10",
        data_version="1",
        data_hash=None,
        batch=batch,
        recipe=Recipe(),
    )
    tuning = Tuning(runtime="sim", loss_sync=loss_sync, workers=workers)  # type: ignore[arg-type]
    case: Case = applicable(Case(work=work, tuning=tuning, device=parse_device(device)))
    return sim.prepare(case)


def steady(samples: Samples) -> list[Block]:
    return [block for block in samples.blocks if not (block.warmup or block.boundary)]


def step_ms(samples: Samples) -> float:
    return median(block.ns / block.n_steps for block in steady(samples)) / 1e6


def crossings(samples: Samples) -> list[Block]:
    return [block for block in samples.blocks if block.boundary and not block.warmup]


# A device of a test's own: `duration` gives the nanoseconds of each step; time moves with work only.
@dataclasses.dataclass(slots=True)
class Fake:
    duration: Callable[[int], int]
    steps_per_epoch: int = 100
    tick: int = 1
    read_ns: int = 0
    now: int = 0
    steps: int = 0
    epochs: int = 0

    def clock(self) -> int:
        self.now += self.read_ns
        return self.now // self.tick * self.tick

    def step(self) -> None:
        self.now += self.duration(self.steps)
        self.steps += 1

    def next_epoch(self) -> None:
        self.epochs += 1

    def prepared(self, **changes: Any) -> Prepared:
        nothing: Callable[[], Mapping[str, Any]] = dict
        whole = Prepared(
            step=self.step,
            sync=lambda: None,
            samples_per_step=4,
            steps_per_epoch=self.steps_per_epoch,
            next_epoch=self.next_epoch,
            evaluate=lambda n: Evaluation(steps=n or 1, samples=4 * (n or 1)),
            losses=tuple,
            checks=nothing,
            observed=nothing,
            counters=nothing,
            memory=nothing,
            reset_memory=lambda: None,
            save=lambda folder: None,
            restore=lambda folder: None,
            close=lambda: None,
            hashes={},
            parameters=None,
            eval_samples=400,
            clock=self.clock,
        )
        return dataclasses.replace(whole, **changes)


@pytest.mark.parametrize("ms", [0.02, 0.3, 7.0, 90.0])
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1])
def test_the_planted_step_is_found(ms: float, noise: float) -> None:
    samples = sample_training(
        prepared_for(f"sim:gpu:step_ms={ms}:noise={noise}:process=0:drift=1"), Plan(budget_s=20.0)
    )
    # A block's mean of lognormal steps lies exp(sigma^2 / 2) above the median of the steps.
    assert step_ms(samples) == pytest.approx(ms, rel=0.001 + noise / 4)
    assert samples.flags == (() if noise < 0.1 or ms < 50 else samples.flags)


@pytest.mark.parametrize("name", ["cpu", "gpu"])
@pytest.mark.parametrize("loss_sync", ["every-step", "epoch"])
@pytest.mark.parametrize("workers", [0, 8])
def test_whole_profiles_are_found(name: str, loss_sync: str, workers: int) -> None:
    samples = sample_training(
        prepared_for(f"sim:{name}:process=0", loss_sync=loss_sync, workers=workers), Plan(budget_s=100)
    )
    work = Work(task="train", model="simple-cnn", data="cifar10", data_version="1", data_hash=None, batch=100)
    tuning = Tuning(runtime="sim", loss_sync=loss_sync, workers=workers)  # type: ignore[arg-type]
    case = Case(work=work, tuning=tuning, device=parse_device(f"sim:{name}"))
    truth = sim.truth_of(case, sim.profile_of(case.device))
    assert step_ms(samples) == pytest.approx(truth.step_ns / 1e6, rel=0.03)
    assert "not_converged" not in samples.flags


def test_a_loop_without_synchronisation_is_wrong_and_this_one_is_not() -> None:
    naive = prepared_for(f"sim:gpu:step_ms=20:{QUIET}")
    assert naive.clock is not None
    start = naive.clock()
    for _ in range(100):
        naive.step()
    assert (naive.clock() - start) / 100 < 20e6 / 1000  # no trailing synchronisation
    start = naive.clock()
    naive.step()
    naive.sync()
    assert naive.clock() - start > 100 * 20e6  # no leading one: the hundred before are in it
    assert step_ms(
        sample_training(prepared_for(f"sim:gpu:step_ms=20:{QUIET}"), Plan(budget_s=100))
    ) == pytest.approx(20, rel=1e-3)


def test_work_enqueued_before_a_block_is_not_in_it() -> None:
    prepared = prepared_for(f"sim:gpu:step_ms=20:{QUIET}")

    def enqueue() -> Mapping[str, int]:
        for _ in range(50):
            prepared.step()
        return {}

    enqueue()
    busy = dataclasses.replace(prepared, counters=enqueue)
    samples = sample_training(busy, PLAN)
    assert samples.cold_ns == pytest.approx(20e6, rel=1e-3)
    assert all(block.ns == pytest.approx(block.n_steps * 20e6, rel=1e-3) for block in steady(samples))


def test_blocks_too_short_for_host_and_device_to_overlap_are_flagged() -> None:
    """The host makes a batch (20 ms) while the device computes (22 ms): 22 ms in a long run, 42 ms alone."""
    device = f"sim:gpu:{QUIET}:step_ms=22:input_ms=20"
    long = sample_training(prepared_for(device), Plan(budget_s=200))
    assert step_ms(long) == pytest.approx(22, rel=0.011) and long.flags == ()
    short = sample_training(prepared_for(device), Plan(budget_s=2))
    assert step_ms(short) > 23 and short.flags == ("short_block",)
    alone = sample_training(prepared_for(device, loss_sync="every-step"), Plan(budget_s=2))
    assert step_ms(alone) == pytest.approx(42, rel=1e-3) and alone.flags == ()


def test_cold_is_kept_and_drift_is_discarded() -> None:
    samples = sample_training(
        prepared_for(
            "sim:gpu:step_ms=10:noise=0.01:process=0:cold_ms=900:drift=4:drift_steps=60:boundary_ms=0"
        ),
        PLAN,
    )
    assert samples.cold_ns == pytest.approx(940e6, rel=0.05)
    assert step_ms(samples) == pytest.approx(10, rel=0.01)
    warm = [block for block in samples.blocks if block.warmup]
    assert warm[0].ns / warm[0].n_steps > 30e6 and sum(block.n_steps for block in warm) >= 60
    assert samples.flags == ()


def test_a_warm_up_that_does_not_end_is_flagged() -> None:
    fake = Fake(duration=lambda index: max(1, int(40e6 * 0.995**index)))
    assert "not_steady" in sample_training(fake.prepared(), Plan(budget_s=5.0)).flags


@pytest.mark.parametrize("train_samples", [50_000, 1_200, 500, 200])
def test_no_steady_block_holds_an_epoch_boundary(train_samples: int) -> None:
    device = f"sim:gpu:{QUIET}:step_ms=5:boundary_ms=60:train_samples={train_samples}"
    samples = sample_training(
        prepared_for(device, loss_sync="every-step"), Plan(budget_s=10, min_s=3, tight=1e-9)
    )
    assert all(block.ns == pytest.approx(block.n_steps * 5e6, rel=1e-3) for block in steady(samples))
    assert all(
        block.ns == pytest.approx(block.n_steps * 5e6 + 60e6, rel=1e-3) for block in crossings(samples)
    )


@pytest.mark.parametrize("train_samples", [50_000, 1_200, 500])
def test_the_cost_of_an_epoch_boundary_is_recovered(train_samples: int) -> None:
    device = f"sim:gpu:step_ms=5:noise=0.01:process=0:drift=1:boundary_ms=60:train_samples={train_samples}"
    samples = sample_training(prepared_for(device), PLAN)
    assert step_ms(samples) == pytest.approx(5, rel=0.01)
    assert len(crossings(samples)) >= 2
    # Two are enough, so none is added where two were met on the way.
    assert samples.blocks[-1].boundary == (train_samples == 50_000)
    costs = [block.ns - block.n_steps * 5e6 for block in crossings(samples)]
    assert median(costs) == pytest.approx(60e6, rel=0.05)


def test_a_cold_loader_after_the_boundary_belongs_to_it() -> None:
    device = "sim:gpu:step_ms=10:input_ms=40:noise=0:process=0:drift=1:boundary_ms=60"
    samples = sample_training(prepared_for(device, workers=8), PLAN)
    assert step_ms(samples) == pytest.approx(10, rel=0.01)
    assert crossings(samples)[0].ns - crossings(samples)[0].n_steps * 10e6 == pytest.approx(100e6, rel=0.05)


def test_epochs_of_one_step_are_flagged_and_hold_their_boundary() -> None:
    samples = sample_training(
        prepared_for(f"sim:gpu:{QUIET}:step_ms=5:boundary_ms=60:train_samples=100", loss_sync="every-step"),
        PLAN,
    )
    assert samples.flags == ("short_epoch",)
    assert crossings(samples) == [] and step_ms(samples) == pytest.approx(65, rel=0.01)


def test_no_boundary_where_none_is_wanted() -> None:
    assert (
        crossings(sample_training(prepared_for("sim:gpu:step_ms=50"), Plan(budget_s=2, boundary=False))) == []
    )


def test_samples_are_those_of_the_same_steps() -> None:
    samples = sample_training(prepared_for("sim:gpu", batch=64), PLAN)
    assert all(block.samples == 64 * block.n_steps for block in samples.blocks)


def test_evaluation_doubles_until_the_whole_set_was_scored_warm() -> None:
    samples = sample_training(prepared_for(f"sim:gpu:{QUIET}:step_ms=5:eval_ms=2:test_samples=1500"), PLAN)
    assert [block.n_steps for block in samples.eval_blocks] == [1, 2, 4, 8, 15]
    assert [block.warmup for block in samples.eval_blocks] == [True, False, False, False, False]
    assert samples.eval_blocks[-1].ns == pytest.approx(30e6, rel=1e-5)
    assert samples.evaluation is not None and samples.evaluation.samples == 1500


def test_evaluation_keeps_to_its_time() -> None:
    device = f"sim:gpu:{QUIET}:step_ms=5:eval_ms=300"
    slow = sample_training(prepared_for(device), Plan(budget_s=10, eval_s=0.5))
    assert [(block.n_steps, block.warmup) for block in slow.eval_blocks] == [(1, True), (1, False)]
    slower = sample_training(prepared_for(device), Plan(budget_s=10, eval_s=0.05))
    assert [(block.n_steps, block.warmup) for block in slower.eval_blocks] == [(1, False)]
    longer = sample_training(prepared_for(device), Plan(budget_s=10, eval_s=1))
    assert [(block.n_steps, block.warmup) for block in longer.eval_blocks] == [(1, True), (2, False)]
    none = sample_training(prepared_for(device), Plan(budget_s=10, eval_s=0))
    assert none.eval_blocks == () and none.evaluation is None


def test_a_test_set_of_one_batch_is_scored_twice() -> None:
    samples = sample_training(prepared_for(f"sim:gpu:{QUIET}:step_ms=5:test_samples=80"), PLAN)
    assert [(block.samples, block.warmup) for block in samples.eval_blocks] == [(80, True), (80, False)]


def test_a_counter_that_moves_in_the_window_is_reported() -> None:
    device = f"sim:gpu:{QUIET}:step_ms=50:noise=0.2"
    whole = sample_training(prepared_for(device), PLAN)
    assert whole.counters_moved == {}
    warm = sum(block.n_steps for block in whole.blocks if block.warmup)
    assert sample_training(prepared_for(f"{device}:recompile_step=1"), PLAN).counters_moved == {}
    moved = sample_training(prepared_for(f"{device}:recompile_step={warm + 3}"), PLAN)
    assert moved.counters_moved == {"recompiles": 1}


def test_memory_is_read_cold_and_warm() -> None:
    samples = sample_training(prepared_for("sim:gpu:mem_mib=80"), PLAN)
    assert samples.memory_cold == {"sim_allocated_peak_mib": 100}
    assert samples.memory_warm == {"sim_allocated_peak_mib": 80}


class Watch:
    def __init__(self, fake: Fake) -> None:
        self.fake, self.calls = fake, []  # type: ignore[var-annotated]

    def start(self) -> None:
        self.calls.append(("start", self.fake.steps))

    def stop(self) -> Mapping[str, Any]:
        self.calls.append(("stop", self.fake.steps))
        return {"steps": self.fake.steps}


def test_probes_watch_the_steady_blocks() -> None:
    fake = Fake(duration=lambda index: 10_000_000)
    watch = Watch(fake)
    samples = sample_training(fake.prepared(), Plan(budget_s=5), watch={"watch": watch})
    warm = 1 + sum(block.n_steps for block in samples.blocks if block.warmup)
    counted = [block for block in samples.blocks if not block.warmup]
    after = next(index for index, block in reversed(list(enumerate(counted))) if not block.boundary) + 1
    assert watch.calls == [("start", warm), ("stop", warm + sum(block.n_steps for block in counted[:after]))]
    assert samples.probes == {"watch": {"steps": watch.calls[1][1]}}


def test_probes_stop_where_a_step_fails() -> None:
    def fail(index: int) -> int:
        if index == 200:
            raise RuntimeError("planted")
        return 30_000_000 + index % 7 * 5_000_000

    fake = Fake(duration=fail)
    watches = Watch(fake), Watch(fake)
    with pytest.raises(RuntimeError, match="planted"):
        sample_training(
            fake.prepared(), Plan(budget_s=100, tight=1e-9), watch=dict(zip("ab", watches, strict=True))
        )
    assert all([name for name, _ in watch.calls] == ["start", "stop"] for watch in watches)


def test_a_slow_probe_makes_the_device_warm_again() -> None:
    fake = Fake(duration=lambda index: 10_000_000)

    class Slow(Watch):
        def start(self) -> None:
            super().start()
            fake.now += 600_000_000

    watch = Slow(fake)
    samples = sample_training(fake.prepared(), Plan(budget_s=5), watch={"slow": watch})
    warm = 1 + sum(block.n_steps for block in samples.blocks if block.warmup)
    assert watch.calls[0][1] < warm


def test_progress_is_told_in_order() -> None:
    seen: list[Progress] = []
    sample_training(prepared_for("sim:gpu:step_ms=5"), PLAN, on_progress=seen.append)
    phases = [phase for phase, _ in itertools.groupby(progress.phase for progress in seen)]
    assert phases == ["warm-up", "steps", "boundary", "evaluation"]
    assert all(0 <= progress.done <= 1 for progress in seen)
    steps = [progress for progress in seen if progress.phase == "steps"]
    assert steps[-1].done == 1 and steps[-1].relative_half_width is not None and steps[0].step_ns is not None


def test_losses_end_before_the_first_that_is_not_finite() -> None:
    values = iter([(2.0, 1.0), (0.5, float("nan"), 0.4)])
    fake = Fake(duration=lambda index: 10_000_000)
    samples = sample_training(fake.prepared(losses=lambda: next(values)), Plan(budget_s=5))
    assert samples.losses == (2.0, 1.0, 0.5)
    assert "loss_not_finite" in samples.flags


def test_the_shortest_time_is_kept_to() -> None:
    def spent(plan: Plan) -> float:
        return (
            sum(block.ns for block in steady(sample_training(prepared_for("sim:gpu:step_ms=5"), plan))) / 1e9
        )

    assert spent(Plan(budget_s=20)) < 2 < spent(Plan(budget_s=20, min_s=2.5))
    # An energy counter's window is kept to where the budget is shorter, and exceeded by a block at most.
    assert spent(Plan(budget_s=1.5)) < 1.5 < 2.4 < spent(Plan(budget_s=1.5, min_s=2.5)) < 3


@pytest.mark.parametrize(
    ("step_s", "blocks", "flags"),
    [
        (0.02, 8, set()),
        (0.3, 3, {"not_converged"}),
        (1.0, 3, {"not_steady", "not_converged"}),
        (4.0, 1, {"not_steady", "not_converged"}),
    ],
)
def test_slow_steps_keep_near_the_budget(step_s: float, blocks: int, flags: set[str]) -> None:
    fake = Fake(duration=lambda index: int(step_s * 1e9))
    samples = sample_training(fake.prepared(), Plan(budget_s=3.0))
    assert len(steady(samples)) >= blocks and set(samples.flags) == flags
    assert fake.now / 1e9 <= max(3.0, 0) + 5 * step_s
    if step_s >= 1:
        assert len(steady(samples)) == blocks and fake.steps == 3 + blocks


def test_blocks_fill_the_budget_with_at_most_four_hundred() -> None:
    fake = Fake(
        duration=lambda index: 100_000 + random.Random(index).randrange(20_000), steps_per_epoch=10**6
    )
    samples = sample_training(fake.prepared(), Plan(budget_s=60, tight=1e-12))
    assert len(samples.blocks) <= 400
    assert sum(block.ns for block in steady(samples)) > 0.7 * 60e9
    assert "not_converged" in samples.flags


def test_blocks_grow_when_steps_become_faster() -> None:
    fake = Fake(duration=lambda index: 30_000_000 if index < 20 else 50_000, steps_per_epoch=10**6)
    samples = sample_training(fake.prepared(), Plan(budget_s=30, tight=1e-12, min_s=20))
    assert len(samples.blocks) <= 400
    assert sum(block.ns for block in steady(samples)) > 0.6 * 30e9


def test_blocks_shrink_when_steps_become_slow() -> None:
    fake = Fake(duration=lambda index: 10_000 if index < 100_000 else 400_000, steps_per_epoch=10**6)
    samples = sample_training(fake.prepared(), Plan(budget_s=10, tight=1e-12))
    sizes = [block.n_steps for block in steady(samples)]
    assert sizes[0] > 1000 and sizes[-1] < 500


@pytest.mark.parametrize("noise", [0.05, 0.2])
def test_noise_is_not_taken_for_a_warm_up(noise: float) -> None:
    device = f"sim:gpu:step_ms=30:noise={noise}:process=0:drift=1"
    assert "not_steady" not in sample_training(prepared_for(device), PLAN).flags


def test_a_coarse_clock_gets_long_blocks() -> None:
    tick = 15_600_000
    fake = Fake(duration=lambda index: 2_000_000, tick=tick, read_ns=50, steps_per_epoch=10**6)
    assert resolution_ns(fake.clock) == tick
    samples = sample_training(fake.prepared(), Plan(budget_s=1000))
    assert all(block.ns >= 1000 * tick for block in steady(samples))
    assert step_ms(samples) == pytest.approx(2, rel=0.002) and samples.flags == ()


def test_a_coarse_clock_in_a_short_time_is_flagged() -> None:
    fake = Fake(duration=lambda index: 2_000_000, tick=15_600_000, read_ns=50)
    samples = sample_training(fake.prepared(), Plan(budget_s=10))
    assert "coarse_clock" in samples.flags and "not_converged" in samples.flags
    assert step_ms(samples) == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize("start", [0, 10**18])
def test_a_clock_that_stands_still_is_invalid(start: int) -> None:
    fake = Fake(duration=lambda index: 0, now=start)
    with pytest.raises(Mismatch) as caught:
        sample_training(fake.prepared(), Plan(budget_s=1))
    assert caught.value.outcome == "invalid" and "stands still" in str(caught.value)


@settings(max_examples=60)
@given(
    durations=st.lists(st.integers(min_value=20_000, max_value=3_000_000_000), min_size=1, max_size=30),
    tick=st.sampled_from([1, 100, 15_600_000]),
    steps_per_epoch=st.integers(min_value=1, max_value=500),
    budget_s=st.floats(min_value=0.01, max_value=20.0),
    tight=st.sampled_from([1e-9, 0.01, 0.5]),
)
def test_it_ends_within_the_budget_whatever_the_steps(
    durations: list[int], tick: int, steps_per_epoch: int, budget_s: float, tight: float
) -> None:
    fake = Fake(
        duration=lambda index: durations[index % len(durations)],
        tick=tick,
        read_ns=50,
        steps_per_epoch=steps_per_epoch,
    )
    start = fake.now
    prepared = fake.prepared()
    try:
        samples = sample_training(prepared, Plan(budget_s=budget_s, tight=tight))
    except Mismatch as error:
        assert error.outcome == "invalid" and tick > 1
        return
    resolution = 50 * 1_000_000 + 20 * tick
    # One block may be longer than the last one told; the boundary may add as much again.
    longest = max(block.ns for block in samples.blocks) + max(durations)
    assert fake.now - start <= budget_s * 1e9 + samples.cold_ns + 12 * longest + resolution + 100 * tick
    assert len(steady(samples)) >= 1 and len(samples.blocks) <= 400
    assert all(block.ns >= 0 and block.samples == 4 * block.n_steps for block in samples.blocks)


@settings(max_examples=30)
@given(jumps=st.lists(st.sampled_from([0, 0, 1, 1000, 10**6, 10**9]), min_size=1, max_size=50))
def test_it_ends_for_any_monotone_clock(jumps: list[int]) -> None:
    moves = itertools.cycle(jumps)
    times = itertools.accumulate(moves)
    fake = Fake(duration=lambda index: 0)
    try:
        samples = sample_training(fake.prepared(), Plan(budget_s=1.0), clock=lambda: next(times))
    except Mismatch as error:
        assert error.outcome == "invalid"
    else:
        assert 1 <= len(samples.blocks) <= 400


@pytest.mark.parametrize(
    "plan",
    [
        {"budget_s": 0},
        {"budget_s": float("nan")},
        {"budget_s": float("inf")},
        {"budget_s": 1, "tight": 0},
        {"budget_s": 1, "warmup_s": -1},
        {"budget_s": 1, "warmup_s": 0.9},
        {"budget_s": 1, "min_blocks": 5},
        {"budget_s": 1, "max_blocks": 18},
    ],
)
def test_a_plan_that_cannot_work_is_refused(plan: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"plan|steady blocks"):
        Plan(**plan)
