"""Fixtures of the contract's tests: the planted machines of the probes' tests."""

from __future__ import annotations

from timing.conftest import cpus, nvml, plant

__all__ = ["cpus", "nvml", "plant"]
