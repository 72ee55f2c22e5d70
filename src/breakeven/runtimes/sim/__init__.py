"""A simulated device with a planted truth: every path of the package runs on it, in microseconds.

Knows nothing about frameworks. Its lines carry the flag `simulated`; its numbers describe no hardware.
"""

import platform
from collections.abc import Mapping

from breakeven.records.case import Device
from breakeven.runtimes import Availability, Peak, Place
from breakeven.runtimes.sim import ceilings
from breakeven.runtimes.sim.prepared import prepare, supports
from breakeven.runtimes.sim.profile import PROFILES, Profile, profile_of
from breakeven.runtimes.sim.truth import Truth, inference_truth, truth_of

PRELOAD: tuple[str, ...] = ()

__all__ = [
    "PRELOAD",
    "PROFILES",
    "Profile",
    "Truth",
    "availability",
    "inference_truth",
    "peak",
    "peaks",
    "prepare",
    "profile_of",
    "supports",
    "truth_of",
]


def availability() -> Availability:
    """Always here: one place per profile."""
    places = tuple(Place(label=f"sim:{name}", name=f"simulated {name}") for name in PROFILES)
    return Availability(versions={"python": platform.python_version()}, places=places)


def peaks(device: Device) -> Mapping[str, str]:
    """The ceilings of a device in which a bandwidth was planted: name and unit. Others have none."""
    return ceilings.UNITS if profile_of(device).gb_per_s is not None else {}


def peak(device: Device, name: str) -> Peak:
    """The work that shows one of them, in virtual time."""
    return ceilings.peak(profile_of(device), name)
