"""What is a simulated process's own: its luck, its noise, and whether the planted fault is meant for it.

Knows nothing about steps. All randomness follows from the case and BREAKEVEN_SIM_SEED, which the runner sets
for each attempt to ORDER_SEED/CASE/REPLICATE/ATTEMPT.
"""

import hashlib
import math
import os

from breakeven.records.case import Case
from breakeven.runtimes.sim.device import VirtualDevice
from breakeven.runtimes.sim.faults import strike
from breakeven.runtimes.sim.profile import Profile
from breakeven.runtimes.sim.truth import Truth, stream

SLOW = 10.0
"""By how much `fault=slow` slows every step from its step on."""

SLOWER = "BREAKEVEN_SIM_SLOWER"
"""Environment variable: a factor on every time of a simulated device. No id tells it, as none tells a change
of code or of a driver: what a gate is there to find."""


def seed() -> str:
    return os.environ.get("BREAKEVEN_SIM_SEED", "0")


def device_of(case: Case, profile: Profile, truth: Truth) -> VirtualDevice:
    """The device as this process finds it."""
    luck = stream(f"process/{seed()}/{case.case_id}").gauss(0.0, 1.0)
    return VirtualDevice(
        truth=truth,
        rng=stream(f"noise/{seed()}/{case.case_id}"),
        noise=profile.noise,
        factor=math.exp(profile.process * luck) * planted(),
        prefetch=truth.workers * (case.tuning.prefetch or 2),
        real=bool(profile.real),
    )


def planted() -> float:
    """The planted slowdown, 1.0 where there is none. ValueError for a factor that is not above 0."""
    factor = float(os.environ.get(SLOWER, "1"))
    if not (factor > 0 and math.isfinite(factor)):
        raise ValueError(f"{SLOWER}={factor!r} is not a factor above 0")
    return factor


def fault_of(profile: Profile) -> str | None:
    """The planted fault, if it is meant for this replicate and attempt."""
    parts = seed().split("/")
    replicate, attempt = parts[2:4] if len(parts) >= 4 else ("0", "0")
    wanted = ((profile.fault_replicate, replicate), (profile.fault_attempt, attempt))
    return profile.fault if all(want is None or str(want) == here for want, here in wanted) else None


def befall(case: Case, profile: Profile, fault: str | None, index: int) -> None:
    """What may happen as step `index` begins: no memory for the batch, or the planted fault."""
    if profile.oom_batch is not None and case.work.batch >= profile.oom_batch:
        raise MemoryError(f"simulated out of memory at batch {case.work.batch}")
    if fault and index == profile.fault_step:
        strike(fault)


def slowed(profile: Profile, fault: str | None, index: int) -> float:
    """How many times as long as usual step `index` takes: warm-up, and the planted slowness."""
    span = profile.drift_steps
    drift = 1.0 + (profile.drift - 1.0) * max(0.0, 1.0 - index / span) if span else 1.0
    return drift * (SLOW if fault == "slow" and index >= profile.fault_step else 1.0)


def hashes(case: Case, profile: Profile) -> dict[str, str]:
    """Functions of the work alone, so that devices agree."""
    work = case.work
    names = {
        "weights": f"{work.model}/{work.num_classes}/{work.input_shape}/{work.weights or work.seed}",
        "order": f"{work.data}/{work.seed}",
        "augment": f"{work.recipe.augment if work.recipe else None}/{work.seed}",
    }
    if profile.hash == "bad":
        names["weights"] += "/planted"
    return {key: hashlib.sha256(f"sim/{key}/{name}".encode()).hexdigest() for key, name in names.items()}
