"""Clocks, temperature, power and throttle reasons while the window is timed.

Knows nothing about energy; it only reads the samples that the energy probe shares with it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from breakeven.timing.cpu import CPUS, affinity_ids
from breakeven.timing.probes.nvml import Board, decode, power_w, throttle_mask
from breakeven.timing.probes.sampler import Sampler
from breakeven.timing.readings import SYSTEM, Null, known, read_int, read_text, told

# nvmlClockType_t and nvmlTemperatureSensors_t in nvml.h.
CLOCK_SM, CLOCK_MEMORY, TEMPERATURE_GPU = 1, 2, 0

CPU_PERIOD_S = 1.0
"""Reading a core's clock may interrupt that core, so the CPU's are read once a second only."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuSample:
    """One look at the board. `power_w` with the sensor's name."""

    power_w: tuple[float, str] | Null
    sm_mhz: int | Null
    mem_mhz: int | Null
    temperature_c: int | Null
    mask: int | Null


def gpu_sample(board: Board) -> GpuSample:
    return GpuSample(
        power_w=power_w(board),
        sm_mhz=board.ask("nvmlDeviceGetClockInfo", CLOCK_SM),
        mem_mhz=board.ask("nvmlDeviceGetClockInfo", CLOCK_MEMORY),
        temperature_c=board.ask("nvmlDeviceGetTemperature", TEMPERATURE_GPU),
        mask=throttle_mask(board),
    )


def spread(readings: Sequence[float | Null], key: str, nulls: dict[str, str]) -> dict[str, float] | None:
    """min, median, max, first and last of what was read: boost (first) and sustained (last) are both kept."""
    values = [value for value in readings if not isinstance(value, Null)]
    if not values:
        missing = [reading for reading in readings if isinstance(reading, Null)]
        nulls[key] = missing[0].reason if missing else "no sample in the window"
        return None
    return {
        "min": min(values),
        "median": median(values),
        "max": max(values),
        "first": values[0],
        "last": values[-1],
    }


class GpuClocksProbe:
    """Keys: sm_mhz, mem_mhz, power_w {min, median, max, first, last}; temperature_c (the highest); throttle
    and benign (sorted names of the reasons seen), throttle_share {name: share of samples}; n samples;
    flags, reasons (`throttled`).
    """

    name = "clocks"

    def __init__(self, sampler: Sampler[GpuSample]) -> None:
        self._sampler = sampler
        self._seen = 0

    def start(self) -> None:
        self._sampler.start()

    def stop(self) -> Mapping[str, Any]:
        return summarise([sample for _, sample in self._sampler.stop()])


def summarise(samples: Sequence[GpuSample]) -> dict[str, Any]:
    """The probe's keys from its samples."""
    nulls: dict[str, str] = {}
    watts = [s.power_w if isinstance(s.power_w, Null) else s.power_w[0] for s in samples]
    temperature = spread([s.temperature_c for s in samples], "temperature_c", nulls)
    out: dict[str, Any] = {
        "sm_mhz": spread([s.sm_mhz for s in samples], "sm_mhz", nulls),
        "mem_mhz": spread([s.mem_mhz for s in samples], "mem_mhz", nulls),
        "power_w": spread(watts, "power_w", nulls),
        "temperature_c": None if temperature is None else temperature["max"],
        "n": len(samples),
    }
    masks = [s.mask for s in samples if not isinstance(s.mask, Null)]
    if not masks:
        unread = [s.mask for s in samples if isinstance(s.mask, Null)]
        reason = unread[0].reason if unread else "no sample in the window"
        keys = ("throttle", "benign", "throttle_share")
        nulls |= dict.fromkeys(keys, reason)
        return out | dict.fromkeys(keys) | {"flags": [], "reasons": {}, "nulls": nulls}
    decoded = [decode(mask) for mask in masks]
    counts = Counter(name for throttle, _ in decoded for name in throttle)
    share = {name: counts[name] / len(masks) for name in sorted(counts)}
    text = ", ".join(f"{name} in {part:.0%} of samples" for name, part in share.items())
    return out | {
        "throttle": sorted(counts),
        "benign": sorted({name for _, benign in decoded for name in benign}),
        "throttle_share": share,
        "flags": ["throttled"] if counts else [],
        "reasons": {"throttled": text} if counts else {},
        "nulls": nulls,
    }


class CpuClocksProbe:
    """Keys: cpu_mhz {min, median, max, first, last} of the median over the offered CPUs at each sample;
    throttle (`cpu_thermal` where the cores' counters say so); n samples; flags, reasons (`throttled`).
    """

    name = "clocks"

    def __init__(
        self, *, root: Path = SYSTEM, cpus: Iterable[int] | None = None, period_s: float = CPU_PERIOD_S
    ) -> None:
        self._root = root
        self._given = None if cpus is None else tuple(cpus)
        self._cpus: tuple[int, ...] = ()
        self._before: int | Null = Null(reason="the probe was not started")
        self._sampler: Sampler[float | Null] = Sampler(
            lambda: cpu_mhz(self._cpus, self._root), period_s=period_s
        )

    def start(self) -> None:
        self._cpus = affinity_ids() if self._given is None else self._given
        self._before = thermal_events(self._cpus, self._root)
        self._sampler.start()

    def stop(self) -> Mapping[str, Any]:
        nulls: dict[str, str] = {}
        readings = [reading for _, reading in self._sampler.stop()]
        after = thermal_events(self._cpus, self._root)
        before = told(self._before, "throttle", nulls)
        end = told(after, "throttle", nulls)
        events = None if before is None or end is None else end - before
        text = {"throttled": f"the CPU slowed down {events} times for its temperature"} if events else {}
        return {
            "cpu_mhz": spread(readings, "cpu_mhz", nulls),
            "throttle": None if events is None else ["cpu_thermal"] if events else [],
            "n": len(readings),
            "flags": sorted(text),
            "reasons": text,
            "nulls": nulls,
        }


def cpu_mhz(cpus: Iterable[int], root: Path = SYSTEM) -> float | Null:
    """Median clock of the given CPUs: from cpufreq, else from /proc/cpuinfo where that tells the truth."""
    ids = tuple(cpus)
    files = (root / CPUS / f"cpu{cpu}" / "cpufreq/scaling_cur_freq" for cpu in ids)
    khz = [value for path in files if (value := known(read_int(path))) is not None]
    if khz:
        return median(khz) / 1000
    text = read_text(root / "proc/cpuinfo")
    if isinstance(text, Null):
        return text
    lines = [line.partition(":") for line in text.splitlines()]
    entries = [(key.strip(), value.strip()) for key, _, value in lines]
    flags = next((value.split() for key, value in entries if key == "flags"), [])
    values = [float(value) for key, value in entries if key == "cpu MHz"]
    if not values:
        return Null(reason="neither cpufreq nor /proc/cpuinfo tells the CPU's clock")
    if "aperfmperf" not in flags:
        # Without these counters the kernel prints the rate of the time-stamp counter, whatever the cores do.
        return Null(reason="the CPU's clock is hidden (no aperfmperf, usual in a virtual machine)")
    return median([values[cpu] for cpu in ids if cpu < len(values)] or values)


def thermal_events(cpus: Iterable[int], root: Path = SYSTEM) -> int | Null:
    """How often the given cores and their packages have slowed down for heat, since boot."""
    counts = []
    for cpu in cpus:
        folder = root / CPUS / f"cpu{cpu}" / "thermal_throttle"
        for name in ("core_throttle_count", "package_throttle_count"):
            count = known(read_int(folder / name))
            if count is not None:
                counts.append(count)
    return sum(counts) if counts else Null(reason="this CPU or its kernel counts no thermal throttling")
