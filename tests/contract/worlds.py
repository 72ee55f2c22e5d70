"""Worlds with a known truth: an asynchronous device in virtual time, cases, a child's work done here."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping
from statistics import median
from typing import Any

from breakeven.records.case import Case, Recipe, Tuning, Work, applicable, parse_device
from breakeven.runner import child
from breakeven.runner.wire import case_to_json
from breakeven.runtimes import Evaluation, Prepared
from breakeven.timing import Samples

US, MS, SECOND = 1_000, 1_000_000, 1_000_000_000
QUIET = "noise=0:process=0:cold_ms=0:drift=1:boundary_ms=0"


@dataclasses.dataclass(kw_only=True, slots=True)
class World:
    """A host that launches (`launch_ns` of step i) and a device that works (`kernel_ns` of it) behind it.

    `tick` is the resolution of the clock. `compiles` counts steps whose launch took over 100 ms.
    """

    kernel_ns: Callable[[int], float] = lambda index: 10 * MS
    launch_ns: Callable[[int], float] = lambda index: 5 * US
    tick: int = 1
    read_ns: int = 1
    steps_per_epoch: int = 10**6
    now: int = 0
    busy_until: int = 0
    steps: int = 0
    compiles: int = 0
    begun: list[int] = dataclasses.field(default_factory=list)

    def clock(self) -> int:
        self.now += self.read_ns
        return self.now // self.tick * self.tick

    def step(self) -> None:
        launch = int(self.launch_ns(self.steps))
        self.compiles += launch > 100 * MS
        self.now += launch
        self.busy_until = max(self.busy_until, self.now) + int(self.kernel_ns(self.steps))
        self.steps += 1

    def sync(self) -> None:
        self.now = max(self.now, self.busy_until)

    def span(self, work: Callable[[], object]) -> Callable[[], int]:
        """Events in the queue: the first when the device gets to it, the second when it is done."""
        start = max(self.busy_until, self.now)
        work()
        end = max(self.busy_until, start)
        return lambda: end - start

    def naive_ns(self) -> int:
        """A step as it is often timed: nothing is waited for."""
        start = self.clock()
        self.step()
        return self.clock() - start

    def synced_ns(self) -> int:
        self.sync()
        start = self.clock()
        self.step()
        self.sync()
        return self.clock() - start

    def prepared(self, **changes: Any) -> Prepared:
        nothing: Callable[[], Mapping[str, Any]] = dict
        whole = Prepared(
            step=self.step,
            sync=self.sync,
            samples_per_step=4,
            steps_per_epoch=self.steps_per_epoch,
            next_epoch=lambda: None,
            evaluate=lambda n: Evaluation(steps=n or 1, samples=4 * (n or 1)),
            losses=tuple,
            checks=nothing,
            observed=nothing,
            counters=lambda: {"compiles": self.compiles},
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


def sim_case(
    device: str, *, model: str = "simple-cnn", batch: int = 100, recipe: Recipe | None = None, **tuning: Any
) -> Case:
    work = Work(
        task="train",
        model=model,
        data="cifar10",
        data_version="1",
        data_hash="d",
        batch=batch,
        recipe=recipe or Recipe(),
    )
    settings = Tuning(**({"runtime": "sim", "loss_sync": "epoch"} | tuning))
    return applicable(Case(work=work, tuning=settings, device=parse_device(device)))


def in_a_child(case: Case, what: str = "attempt", **plan: Any) -> dict[str, Any]:
    """What a child would report of this case, worked out in this process: for simulated devices only."""
    request = {
        "what": what, "case": case_to_json(case), "plan": {"budget_s": 5.0} | plan, "preload_ns": 0,
    }  # fmt: skip
    with open(os.devnull, "wb") as events:
        return child._outcome(request, events.fileno())


def step_ms(samples: Samples) -> float:
    return median(b.ns / b.n_steps for b in samples.blocks if not (b.warmup or b.boundary)) / MS
