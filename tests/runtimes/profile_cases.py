"""What profiling must leave as it was, in every runtime. Imports no framework."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from breakeven.runtimes import Prepared


def trains_on(prepare: Callable[[], Prepared], folder: Path, *, built: bool) -> None:
    """A profiled process trains on: its losses are those of one that nobody watched. `built`: is it?"""
    losses = []
    for watched in (True, False):
        prepared = prepare()
        assert prepared.profile is not None and (prepared.build is not None) == built
        if prepared.build is not None:
            prepared.build()
        if watched:
            prepared.profile(_twice, folder / "t.json.gz")
        else:
            for _ in range(3):
                prepared.step()
        prepared.step()
        losses.append(prepared.losses())
        prepared.close()
    assert losses[0] == pytest.approx(losses[1], rel=1e-6) and len(losses[0]) == 4


def _twice(step: Callable[[], None]) -> None:
    step()
    step()
