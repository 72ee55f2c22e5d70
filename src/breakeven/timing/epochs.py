"""A full training run, epoch by epoch, each timed with the change that leads to it.

Knows nothing about saving, files or why a run should stop: its callers say so.
"""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from breakeven.records.lines import Epoch
from breakeven.runtimes import Evaluation, Prepared
from breakeven.timing.clocks import Clock, timed_ns
from breakeven.timing.watching import Probe, watching


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The epochs that were trained, and what the probes saw over all of them."""

    epochs: tuple[Epoch, ...]
    probes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def train_epochs(
    prepared: Prepared,
    *,
    first: int = 0,
    epochs: int,
    steps_per_epoch: int | None = None,
    budget_s: float | None = None,
    clock: Clock | None = None,
    should_stop: Callable[[], bool] = lambda: False,
    on_epoch: Callable[[Epoch], None] = lambda epoch: None,
    watch: Mapping[str, Probe] | None = None,
) -> Run:
    """Trains epochs `first` to `epochs` - 1 and scores the whole test set after each.

    `train_ns` of every epoch but number 0 begins with `next_epoch()`: a prepared case stands at the start of
    epoch 0, a restored one (`first` > 0) at the end of the epoch at which it was saved. Losses are read after
    the time is taken. Between epochs only: `on_epoch` is called after each, so state saved there is that of
    an epoch's end; `should_stop` is asked before each; and none but the first begins that would, taking as
    long as the last, end after `budget_s` seconds.
    """
    clock = clock or prepared.clock or time.perf_counter_ns
    steps = prepared.steps_per_epoch if steps_per_epoch is None else steps_per_epoch
    prepared.losses()  # of steps before this run
    done: list[Epoch] = []
    begun = start = clock()
    with watching(watch or {}) as seen:
        for index in range(first, epochs):
            last_ns, begun = clock() - begun, clock()
            late = budget_s is not None and begun + last_ns - start > 1e9 * budget_s
            if (late and done) or should_stop():
                break
            done.append(_epoch(prepared, index, steps, clock))
            on_epoch(done[-1])
    return Run(epochs=tuple(done), probes=seen)


def _epoch(prepared: Prepared, index: int, steps: int, clock: Clock) -> Epoch:
    def train() -> None:
        if index:
            prepared.next_epoch()
        for _ in range(steps):
            prepared.step()

    scores: list[Evaluation] = []
    train_ns = timed_ns(clock, prepared.sync, train)
    losses = prepared.losses()
    eval_ns = timed_ns(clock, prepared.sync, lambda: scores.append(prepared.evaluate(None)))
    return Epoch(
        index=index,
        train_ns=train_ns,
        eval_ns=eval_ns,
        steps=steps,
        samples=steps * prepared.samples_per_step,
        loss=_finite(fmean(losses)) if losses else None,
        accuracy=_finite(scores[0].accuracy),
        test_loss=_finite(scores[0].loss),
    )


def _finite(value: float | None) -> float | None:
    """A diverged loss is null: a record holds no NaN and no infinity."""
    return value if value is not None and math.isfinite(value) else None
