"""A simulated device with a planted truth: every path of the package runs on it, in microseconds.

Knows nothing about frameworks. Its lines carry the flag `simulated`; its numbers describe no hardware.
"""

import platform

from breakeven.runtimes import Availability, Place
from breakeven.runtimes.sim.profile import PROFILES, Profile, profile_of
from breakeven.runtimes.sim.training import prepare, supports
from breakeven.runtimes.sim.truth import Truth, truth_of

PRELOAD: tuple[str, ...] = ()

__all__ = [
    "PRELOAD",
    "PROFILES",
    "Profile",
    "Truth",
    "availability",
    "prepare",
    "profile_of",
    "supports",
    "truth_of",
]


def availability() -> Availability:
    """Always here: one place per profile."""
    places = tuple(Place(label=f"sim:{name}", name=f"simulated {name}") for name in PROFILES)
    return Availability(versions={"python": platform.python_version()}, places=places)
