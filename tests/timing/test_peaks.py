"""Ceilings are timed by the loop of the steps: planted rates found, warm-up left out, flags kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from breakeven.errors import Mismatch
from breakeven.runtimes import Peak
from breakeven.timing import sample_peak


class Device:
    """A clock that each call moves by `ns`, the first `slow` calls by ten times that."""

    def __init__(self, ns: int, slow: int = 0) -> None:
        self.now, self.calls, self.synced, self._ns, self._slow = 0, 0, 0, ns, slow

    def call(self) -> None:
        self.calls += 1
        self.now += self._ns * (10 if self.calls <= self._slow else 1)

    def sync(self) -> None:
        self.synced += 1

    def peak(self, amount: float) -> Peak:
        return Peak(call=self.call, sync=self.sync, amount=amount, conditions={})


class Busy:
    def start(self) -> None:
        """Nothing to open."""

    def stop(self) -> Mapping[str, Any]:
        return {"flags": ["contended"]}


@pytest.mark.parametrize("slow", [0, 2])
def test_a_planted_rate_is_found_whatever_warm_up_costs(slow: int) -> None:
    device = Device(1_000_000, slow)
    reached = sample_peak(device.peak(2e9), budget_s=1.0, clock=lambda: device.now)
    assert reached.per_second == pytest.approx(2e12)
    assert reached.flags == ()
    assert device.synced > 2


def test_a_call_longer_than_the_budget_still_gives_a_rate() -> None:
    device = Device(5_000_000_000)
    assert sample_peak(device.peak(5.0), budget_s=0.5, clock=lambda: device.now).per_second == pytest.approx(
        1.0
    )


def test_what_a_probe_flags_is_told() -> None:
    device = Device(1_000_000)
    reached = sample_peak(
        device.peak(1.0), budget_s=1.0, clock=lambda: device.now, watch={"contention": Busy()}
    )
    assert "contended" in reached.flags


def test_a_clock_that_stands_still_is_refused() -> None:
    with pytest.raises(Mismatch, match="stands still"):
        sample_peak(Device(0).peak(1.0), budget_s=0.5, clock=lambda: 7)
