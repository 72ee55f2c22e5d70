"""Energy of the timed window from counters, cross-checked against sampled power; else null with a reason.

Knows nothing about what was computed. Makes no estimate: a nominal power times a time is no measurement.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from breakeven.timing.probes.clocks import GpuSample
from breakeven.timing.probes.contention import ContentionProbe
from breakeven.timing.probes.nvml import MODULES, Board, is_mig, power_w
from breakeven.timing.probes.rapl import RaplReading, packages_j, read_rapl
from breakeven.timing.probes.sampler import Sampler
from breakeven.timing.readings import SYSTEM, Null, told

GPU_PERIOD_NS = 100_000_000
"""Update period of the board's energy counter: 20 to 100 ms on boards from Volta to Hopper (Yang, Adamek and
Armour, SC 2024; tried on an H200: 100 to 102 ms), so the longest is assumed. `counter_period_ns` measures."""
MIN_PERIODS = 20
"""Two edges, each off by up to one period, err by 10 % at 20 periods at most, by 5 % typically."""
NO_IDLE = Null(reason="no idle time was measured before the window")
MAX_GAP_SHARE = 0.20
"""Counter and integral may differ by this share before the number is flagged."""
AVERAGE_NS = 1_000_000_000
"""A sensor that averages over 1 s shows the time before the window too: it can check 5 s and more."""
MAX_HOLE_NS = 1_000_000_000
"""Longest time between two power samples that the integral bridges: ten sampling periods."""


def counter_delta_j(first_mj: int, last_mj: int, window_ns: int, *, limit_w: float | None) -> float | Null:
    """Joules between two readings of the board's counter, bounded by twice the power limit."""
    joules = (last_mj - first_mj) / 1000
    if joules < 0:
        return Null(reason="the energy counter went back: the driver was reloaded in the window")
    if limit_w is not None and joules > 2 * limit_w * window_ns / 1e9:
        return Null(reason=f"the energy counter jumped by {joules:.0f} J, more than the power limit allows")
    return joules


def attributable(joules: float | Null, shared: Sequence[str]) -> float | Null:
    """The same, unless the sensor's device was shared with others: their share cannot be told."""
    return (
        Null(reason="not attributable: " + "; ".join(shared))
        if shared and not isinstance(joules, Null)
        else joules
    )


def too_short(window_ns: int, period_ns: int, min_periods: int = MIN_PERIODS) -> Null | None:
    """Why a window says nothing about energy, or None."""
    if window_ns >= min_periods * period_ns:
        return None
    return Null(
        reason=f"window {window_ns / 1e6:.0f} ms < {min_periods} update periods of the counter "
        f"({period_ns / 1e6:.0f} ms each); measure for at least {min_periods * period_ns / 1e9:.1f} s"
    )


def integral_j(samples: Sequence[tuple[int, float]], start_ns: int, end_ns: int) -> float | Null:
    """Trapezoids under (ns, watt) samples over exactly the window; Null where they do not cover it."""
    if not samples or samples[0][0] > start_ns or samples[-1][0] < end_ns:
        return Null(reason="the power samples do not cover the window")
    joules = 0.0
    for (t0, w0), (t1, w1) in pairwise(samples):
        low, high = max(t0, start_ns), min(t1, end_ns)
        if low >= high:
            continue
        if t1 - t0 > MAX_HOLE_NS:
            return Null(reason=f"no power sample for {(t1 - t0) / 1e9:.1f} s")
        slope = (w1 - w0) / (t1 - t0)
        middle = w0 + slope * ((low + high) / 2 - t0)
        joules += middle * (high - low) / 1e9
    return joules


def counter_period_ns(
    board: Board, limit_s: float = 1.0, clock: Callable[[], int] = time.perf_counter_ns
) -> int | Null:
    """The counter's longest update period, measured by asking for up to `limit_s`; keeps a core busy."""
    changes: list[int] = []
    start = clock()
    last = board.ask("nvmlDeviceGetTotalEnergyConsumption")
    if isinstance(last, Null):
        return last
    while (now := clock()) - start < limit_s * 1e9 and len(changes) < 12:
        value = board.ask("nvmlDeviceGetTotalEnergyConsumption")
        if isinstance(value, Null):
            return value
        if value != last:
            changes.append(now)
            last = value
    if len(changes) < 3:
        return Null(reason=f"the energy counter moved {len(changes)} times in {limit_s:g} s")
    return max(b - a for a, b in pairwise(changes))


class GpuEnergyProbe:
    """Keys:

    scope               `gpu_board` (chip, memory, regulators of the whole board), `gpu_module` on a superchip
    gross_j             from NVML's counter, idle power included
    integral_j          the same window from sampled power; gap_share: its difference over gross_j
    start_w             board power as the window begins: not idle power, the warm-up has just run
    idle_w              what the board drew before the run's first attempt, with no process on it (`idle`)
    power_sensor        `instant` or `average` (over 1 s)
    cpu_packages_j      the host's packages over the same window (RAPL)
    window_ns, counter_period_ms, flags, reasons (`energy_disagrees`)
    """

    name = "energy"

    def __init__(
        self,
        *,
        board: Board | Null,
        sampler: Sampler[GpuSample] | None,
        contention: ContentionProbe,
        root: Path = SYSTEM,
        period_ns: int = GPU_PERIOD_NS,
        clock: Callable[[], int] = time.perf_counter_ns,
        idle_w: float | Null = NO_IDLE,
    ) -> None:
        self._board = board
        self._idle_w = idle_w
        self._sampler = sampler
        self._contention = contention
        self._period_ns = period_ns
        self._clock = clock
        self._rapl: Sampler[RaplReading | Null] = rapl_sampler(root)
        self._start_ns = 0
        self._first: Any = Null(reason="the probe was not started")
        self._start_w: Any = self._first

    def start(self) -> None:
        self._rapl.start()
        if isinstance(self._board, Null):
            return
        self._start_w = power_w(self._board)
        if self._sampler is not None:
            self._sampler.start()
        self._first = self._board.ask("nvmlDeviceGetTotalEnergyConsumption")
        self._start_ns = self._clock()

    def stop(self) -> Mapping[str, Any]:
        nulls: dict[str, str] = {}
        if isinstance(self._board, Null):
            out: dict[str, Any] = {"scope": None, "gross_j": None, "idle_w": None, "flags": [], "reasons": {}}
            nulls |= dict.fromkeys(("scope", "gross_j", "idle_w"), self._board.reason)
        else:
            out = self._gpu(self._board, nulls)
        packages = attributable(packages_j(self._rapl.stop()), self._contention.reasons_now()[0])
        return out | {"cpu_packages_j": told(packages, "cpu_packages_j", nulls), "nulls": nulls}

    def _gpu(self, board: Board, nulls: dict[str, str]) -> dict[str, Any]:
        last = board.ask("nvmlDeviceGetTotalEnergyConsumption")
        end_ns = self._clock()
        window_ns = end_ns - self._start_ns
        samples = self._sampler.stop() if self._sampler is not None else ()
        gross = self._gross(board, last, window_ns)
        integral, sensor = _cross_check(samples, self._start_ns, end_ns)
        start = told(self._start_w, "start_w", nulls)
        out: dict[str, Any] = {
            "scope": scope_of(board),
            "gross_j": told(gross, "gross_j", nulls),
            "integral_j": told(integral, "integral_j", nulls),
            "gap_share": None,
            "start_w": None if start is None else start[0],
            "idle_w": told(self._idle_w, "idle_w", nulls),
            "power_sensor": told(sensor, "power_sensor", nulls),
            "window_ns": window_ns,
            "counter_period_ms": self._period_ns / 1e6,
        }
        return out | _compare(gross, integral, nulls)

    def _gross(self, board: Board, last: Any, window_ns: int) -> float | Null:
        if is_mig(board):
            return Null(reason="MIG is on: the energy counter is the whole GPU's, not the slice's")
        for reading in (self._first, last):
            if isinstance(reading, Null):
                return reading
        if short := too_short(window_ns, self._period_ns):
            return short
        limit = board.ask("nvmlDeviceGetEnforcedPowerLimit")
        limit_w = None if isinstance(limit, Null) else limit / 1000
        joules = counter_delta_j(self._first, last, window_ns, limit_w=limit_w)
        return attributable(joules, self._contention.reasons_now()[1])


def scope_of(board: Board) -> str:
    """What the sensor covers."""
    name = str(board.ask("nvmlDeviceGetName"))
    return "gpu_module" if any(module in name for module in MODULES) else "gpu_board"


def _cross_check(
    samples: Sequence[tuple[int, GpuSample]], start_ns: int, end_ns: int
) -> tuple[float | Null, str | Null]:
    """The integral over the window and the sensor it came from."""
    watts: list[tuple[int, float]] = []
    sensors: set[str] = set()
    missing = Null(reason="no power sample in the window")
    for ns, sample in samples:
        if isinstance(sample.power_w, Null):
            missing = sample.power_w
            continue
        watts.append((ns, sample.power_w[0]))
        sensors.add(sample.power_w[1])
    if not watts:
        return missing, missing
    sensor = "average" if "average" in sensors else "instant"
    if sensor == "average" and end_ns - start_ns < 5 * AVERAGE_NS:
        return Null(reason="the power sensor averages over 1 s; it can check a window of 5 s or more"), sensor
    return integral_j(watts, start_ns, end_ns), sensor


def _compare(gross: float | Null, integral: float | Null, nulls: dict[str, str]) -> dict[str, Any]:
    """gap_share, and the flag where it is too wide."""
    if isinstance(gross, Null) or isinstance(integral, Null) or gross == 0:
        nulls["gap_share"] = "needs both gross_j and integral_j"
        return {"gap_share": None, "flags": [], "reasons": {}}
    gap = (integral - gross) / gross
    text = f"counter {gross:.1f} J, sampled power {integral:.1f} J: {abs(gap):.0%} apart"
    wide = abs(gap) > MAX_GAP_SHARE
    return {
        "gap_share": gap,
        "flags": ["energy_disagrees"] if wide else [],
        "reasons": {"energy_disagrees": text} if wide else {},
    }


RAPL_SAMPLE_S = 10.0
"""Far below the shortest time to a wrap (65 kJ at 1 kW: 65 s), so that no wrap is ever missed."""


def rapl_sampler(root: Path) -> Sampler[RaplReading | Null]:
    return Sampler(lambda: read_rapl(root), period_s=RAPL_SAMPLE_S)


class CpuEnergyProbe:
    """Keys: scope `cpu_packages` (sockets without memory and board), gross_j, idle_w (null), window_ns."""

    name = "energy"

    def __init__(self, *, contention: ContentionProbe, root: Path = SYSTEM) -> None:
        self._contention = contention
        self._rapl = rapl_sampler(root)

    def start(self) -> None:
        self._rapl.start()

    def stop(self) -> Mapping[str, Any]:
        nulls = {"idle_w": NO_IDLE.reason}
        samples = self._rapl.stop()
        gross = attributable(packages_j(samples), self._contention.reasons_now()[0])
        return {
            "scope": "cpu_packages",
            "gross_j": told(gross, "gross_j", nulls),
            "idle_w": None,
            "window_ns": samples[-1][0] - samples[0][0],
            "flags": [],
            "reasons": {},
            "nulls": nulls,
        }
