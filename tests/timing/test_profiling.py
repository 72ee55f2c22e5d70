"""A profile is driven by the loop that times all else: steady steps first, a few under the profiler, once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from breakeven.errors import Mismatch, Unsupported
from breakeven.runtimes import Drive, Evaluation, Prepared, Profile
from breakeven.timing import profile_steps

MS = 1_000_000


class Device:
    """A clock that a step moves by `ns`, the first `slow` steps by ten times that; profiled ones `factor`."""

    def __init__(self, ns: int, *, slow: int = 0, factor: float = 1.5) -> None:
        self.now, self.steps, self.epochs, self.profiled = 0, 0, 0, 0
        self.compiles, self.times = 0, 1
        self._ns, self._slow, self._factor = ns, slow, factor

    def step(self, factor: float = 1.0) -> None:
        self.steps += 1
        self.now += int(self._ns * factor * (10 if self.steps <= self._slow else 1))

    def next_epoch(self) -> None:
        self.epochs += 1

    def profile(self, drive: Drive, trace: Path) -> Profile:
        def slowed() -> None:
            self.profiled += 1
            self.step(self._factor)

        self.step()  # the profiler's own start
        for _ in range(self.times):
            drive(slowed)
        trace.write_text("{}")
        return Profile(events=1)

    def prepared(self, **changes: Any) -> Prepared:
        def nothing(*_: object) -> None:
            """There is no state."""

        values: dict[str, Any] = {
            "step": self.step, "sync": nothing, "samples_per_step": 4, "steps_per_epoch": 10_000,
            "next_epoch": self.next_epoch, "evaluate": lambda n: Evaluation(steps=0, samples=0),
            "losses": tuple, "checks": dict, "observed": dict,
            "counters": lambda: {"compiles": self.compiles}, "memory": dict, "reset_memory": nothing,
            "save": nothing, "restore": nothing, "close": nothing, "hashes": {}, "parameters": None,
            "eval_samples": None, "clock": lambda: self.now, "profile": self.profile,
        }  # fmt: skip
        return Prepared(**(values | changes))


@pytest.mark.parametrize(("ms", "steps"), [(1, 10), (50, 10), (250, 4), (3_000, 2)])
def test_as_many_steps_as_fit_into_a_second(tmp_path: Path, ms: int, steps: int) -> None:
    device = Device(ms * MS)
    made = profile_steps(device.prepared(), tmp_path / "t", budget_s=2.0)
    assert (made.n_steps, device.profiled) == (steps, steps)
    assert made.ns == steps * ms * MS * 3 // 2  # 1.5 times as long, and no step but these is in it
    assert made.plain_ns == (steps * ms * MS, steps * ms * MS)
    assert made.found.events == 1


def test_steps_are_warm_before(tmp_path: Path) -> None:
    made = profile_steps(Device(MS, slow=40).prepared(), tmp_path / "t", budget_s=2.0)
    steady = [b for b in made.blocks if not b.warmup]
    assert {b.ns / b.n_steps for b in steady} == {MS}
    assert made.blocks[0].warmup


def test_the_profiled_steps_lie_within_one_epoch(tmp_path: Path) -> None:
    device = Device(20 * MS)
    seen: list[int] = []

    def profile(drive: Drive, trace: Path) -> Profile:
        before = device.epochs
        found = device.profile(drive, trace)
        seen.append(device.epochs - before)
        return found

    prepared = device.prepared(steps_per_epoch=30, profile=profile)
    assert profile_steps(prepared, tmp_path / "t", budget_s=2.0).n_steps == 10
    assert seen == [0] and device.epochs >= 1


def test_without_a_profiler_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="no profiler"):
        profile_steps(Device(MS).prepared(profile=None), tmp_path / "t", budget_s=1.0)
    told = {"profile": "its profiler needs a newer driver"}
    with pytest.raises(Unsupported, match="newer driver"):
        profile_steps(Device(MS).prepared(profile=None, nulls=told), tmp_path / "t", budget_s=1.0)


@pytest.mark.parametrize("times", [0, 2])
def test_steps_that_ran_twice_or_never_are_refused(tmp_path: Path, times: int) -> None:
    device = Device(MS)
    device.times = times
    with pytest.raises(Mismatch, match=f"ran {times} times"):
        profile_steps(device.prepared(), tmp_path / "t", budget_s=1.0)


def test_what_was_compiled_under_the_profiler_is_refused(tmp_path: Path) -> None:
    device = Device(MS)

    def profile(drive: Drive, trace: Path) -> Profile:
        device.compiles += 1
        return device.profile(drive, trace)

    with pytest.raises(Mismatch, match="compiled or retraced under the profiler: compiles"):
        profile_steps(device.prepared(profile=profile), tmp_path / "t", budget_s=1.0)


def test_inference_has_no_epochs(tmp_path: Path) -> None:
    device = Device(MS)
    prepared = device.prepared(steps_per_epoch=4)
    made = profile_steps(prepared, tmp_path / "t", budget_s=1.0, epochs=False)
    assert (made.n_steps, device.epochs) == (10, 0)
