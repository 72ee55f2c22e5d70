"""A full run: the totals of its epochs are the planted ones, and it can be stopped and taken up again."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakeven.records.case import Case, Recipe, Tuning, Work, parse_device
from breakeven.records.lines import Epoch
from breakeven.runtimes import Prepared, sim
from breakeven.timing import elapsed, train_epochs

DEVICE = (
    "sim:gpu:step_ms=5:noise=0:process=0:drift=1:cold_ms=100:boundary_ms=60:eval_ms=2"
    ":train_samples=1050:test_samples=250:accuracy=0.8:acc_sd=0"
)


def prepared_for(device: str = DEVICE) -> Prepared:
    work = Work(
        task="train", model="simple-cnn", data="cifar10", data_version="1", data_hash=None, batch=100,
        recipe=Recipe(epochs=5),
    )  # fmt: skip
    tuning = Tuning(runtime="sim", loss_sync="epoch")
    return sim.prepare(Case(work=work, tuning=tuning, device=parse_device(device)))


def test_totals_are_the_planted_ones() -> None:
    run = train_epochs(prepared_for(), epochs=5)
    train_ms = [epoch.train_ns / 1e6 for epoch in run.epochs]
    assert train_ms == pytest.approx([150, 110, 110, 110, 110], rel=1e-5)
    assert [(epoch.eval_ns or 0) / 1e6 for epoch in run.epochs] == pytest.approx([6] * 5, rel=1e-5)
    assert [(epoch.index, epoch.steps, epoch.samples) for epoch in run.epochs] == [
        (i, 10, 1000) for i in range(5)
    ]


def test_accuracy_and_losses_are_those_of_each_epoch() -> None:
    run = train_epochs(prepared_for(), epochs=5)
    losses = [epoch.loss for epoch in run.epochs]
    assert losses == sorted(losses, reverse=True)  # type: ignore[type-var]
    assert len(set(losses)) == 5
    assert run.epochs[-1].accuracy == pytest.approx(0.8)
    assert all(epoch.test_loss is not None for epoch in run.epochs)


def test_a_stop_is_seen_between_epochs_only() -> None:
    seen: list[Epoch] = []
    run = train_epochs(prepared_for(), epochs=5, should_stop=lambda: len(seen) == 2, on_epoch=seen.append)
    assert [epoch.index for epoch in run.epochs] == [0, 1] and list(run.epochs) == seen
    assert all(epoch.steps == 10 for epoch in seen)
    assert train_epochs(prepared_for(), epochs=5, should_stop=lambda: True).epochs == ()


def test_a_resumed_run_is_the_same_run(tmp_path: Path) -> None:
    whole = train_epochs(prepared_for(), epochs=5).epochs
    first = prepared_for()
    begun = train_epochs(first, epochs=2, on_epoch=lambda epoch: first.save(tmp_path)).epochs
    second = prepared_for()
    second.restore(tmp_path)
    joined = begun + train_epochs(second, first=2, epochs=5).epochs
    assert [(e.index, e.loss, e.accuracy) for e in joined] == [(e.index, e.loss, e.accuracy) for e in whole]
    assert joined[2].train_ns == pytest.approx(whole[2].train_ns, rel=1e-5)


def test_no_epoch_begins_that_would_end_too_late() -> None:
    # 156 ms, then 116 ms each: the second is expected to end at 312 ms, the third at 388 ms.
    assert len(train_epochs(prepared_for(), epochs=5, budget_s=0.30).epochs) == 1
    assert len(train_epochs(prepared_for(), epochs=5, budget_s=0.35).epochs) == 2
    assert len(train_epochs(prepared_for(), epochs=5, budget_s=0.40).epochs) == 3
    assert len(train_epochs(prepared_for(), epochs=5, budget_s=0.001).epochs) == 1


def test_epochs_may_be_cut_short() -> None:
    run = train_epochs(prepared_for(), epochs=2, steps_per_epoch=4)
    assert [epoch.steps for epoch in run.epochs] == [4, 4]
    assert run.epochs[1].train_ns / 1e6 == pytest.approx(80, rel=1e-5)


def test_elapsed_gives_the_value_and_the_time() -> None:
    times = iter([10, 35])
    assert elapsed(lambda: "made", lambda: next(times)) == ("made", 25)
