"""The CPU packages' energy counters (RAPL) under /sys/class/powercap; AMD's bear Intel's name.

Knows nothing about windows or contention.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from breakeven.timing.readings import SYSTEM, Null, known, listed, read_int, read_text

MAX_PACKAGE_W = 1000.0
"""No package draws more: twice the highest rating of 2025 (500 W). Tells when two wraps may fit in."""
MIN_WINDOW_NS = 20_000_000
"""20 updates of the counter, which come about every millisecond (Intel SDM volume 3, section on RAPL)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RaplReading:
    """Microjoules and the counter's range, by the package's folder name (`intel-rapl:0`)."""

    energy_uj: Mapping[str, int | Null]
    range_uj: Mapping[str, int | None]


def read_rapl(root: Path = SYSTEM) -> RaplReading | Null:
    """The counters of all packages. Subzones (cores, memory) and `psys` lie inside or across: left out."""
    base = root / "sys/class/powercap"
    zones = [
        zone
        for zone in listed(base, "intel-rapl:*")
        if str(known(read_text(zone / "name"))).startswith("package")
    ]
    if not zones:
        return Null(
            reason=f"no RAPL counter under {base} (a virtual machine or container, or try: "
            "sudo modprobe intel_rapl_msr)"
        )
    return RaplReading(
        energy_uj={zone.name: _counter(zone) for zone in zones},
        range_uj={zone.name: known(read_int(zone / "max_energy_range_uj")) for zone in zones},
    )


def _counter(zone: Path) -> int | Null:
    reading = read_int(zone / "energy_uj")
    if isinstance(reading, Null) and "not readable" in reading.reason:
        # Root only since Linux 5.10 (CVE-2020-8694); name every package at once.
        hint = f"sudo chmod a+r {zone.parent}/intel-rapl:*/energy_uj"
        return Null(reason=f"{zone / 'energy_uj'} is not readable by this user; allow it with: {hint}")
    return reading


def delta_uj(
    before: int | Null, after: int | Null, range_uj: int | None, dt_ns: int, max_w: float = MAX_PACKAGE_W
) -> int | Null:
    """Microjoules between two readings, at most one wrap apart; Null where that cannot be known."""
    if isinstance(before, Null):
        return before
    if isinstance(after, Null):
        return after
    if not range_uj:
        return Null(reason="the range of the RAPL counter is unreadable, so a wrap cannot be told")
    most_uj = max_w * dt_ns / 1000
    if most_uj >= range_uj:
        return Null(reason=f"{dt_ns / 1e9:.0f} s between readings: the RAPL counter may have wrapped twice")
    step = after - before if after >= before else after + range_uj - before
    # Two milliseconds of grace: the counter is up to one update old at either end.
    if step > most_uj + max_w * 2000:
        return Null(reason=f"the RAPL counter jumped by {step / 1e6:.0f} J in {dt_ns / 1e9:.1f} s")
    return step


def packages_j(samples: Sequence[tuple[int, RaplReading | Null]]) -> float | Null:
    """Joules of all packages from the first to the last sample; one bad step makes the whole Null."""
    if len(samples) < 2:
        return Null(reason="the probe was not started")
    total_uj = 0
    for (t0, a), (t1, b) in pairwise(samples):
        if isinstance(a, Null):
            return a
        if isinstance(b, Null):
            return b
        for zone, before in a.energy_uj.items():
            after = b.energy_uj.get(zone, Null(reason=f"{zone} disappeared"))
            step = delta_uj(before, after, a.range_uj.get(zone), t1 - t0)
            if isinstance(step, Null):
                return step
            total_uj += step
    if samples[-1][0] - samples[0][0] < MIN_WINDOW_NS:
        return Null(
            reason=f"window shorter than {MIN_WINDOW_NS / 1e6:.0f} ms, 20 updates of the RAPL counter"
        )
    return total_uj / 1e6
