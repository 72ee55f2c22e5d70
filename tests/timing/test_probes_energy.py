"""Energy: short windows, shared, sliced or silent devices are refused; wraps and jumps are told apart."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from breakeven.records.case import Device
from breakeven.timing.probes import probes_for
from breakeven.timing.probes.clocks import GpuSample, gpu_sample
from breakeven.timing.probes.contention import Baseline, ContentionProbe
from breakeven.timing.probes.energy import (
    CpuEnergyProbe,
    GpuEnergyProbe,
    counter_delta_j,
    counter_period_ns,
    integral_j,
    too_short,
)
from breakeven.timing.probes.nvml import Board, open_board
from breakeven.timing.probes.rapl import RaplReading, delta_uj, packages_j, read_rapl
from breakeven.timing.probes.sampler import Sampler
from breakeven.timing.readings import Null

MS, SECOND = 1_000_000, 1_000_000_000
RANGE = 262_143_328_850
QUIET = Baseline(used_mib=0.0, busy_share=0.0, process_ids=frozenset())


class Script:
    """A sampler whose samples are planted."""

    def __init__(self, samples: list[tuple[int, Any]]) -> None:
        self.samples = samples

    def start(self) -> None:
        pass

    def stop(self) -> tuple[tuple[int, Any], ...]:
        return tuple(self.samples)


def board_of(nvml: Any) -> Board:
    board = open_board(0, nvml=nvml, environ={})
    assert isinstance(board, Board)
    return board


def measure(
    nvml: Any, root: Path, seconds: float, *, watts: float = 300.0, sampled: float = 300.0,
    sensor: str = "instant", baseline: Baseline = QUIET,
) -> dict[str, Any]:  # fmt: skip
    """Runs the probe over a planted window with a counter that ticks every 100 ms."""
    now = [5 * SECOND]

    def counter() -> int:
        return int(watts * (now[0] // (100 * MS)) * 0.1 * 1000)

    nvml.energy_mj = counter
    power: tuple[float, str] = (sampled, sensor)
    end = now[0] + int(seconds * SECOND)
    samples = [
        (t, GpuSample(power_w=power, sm_mhz=1, mem_mhz=1, temperature_c=1, mask=0))
        for t in range(now[0], end + 100 * MS, 100 * MS)
    ]
    board = board_of(nvml)
    contention = ContentionProbe(board=board, baseline=baseline, root=root, cpus=[0])
    sampler: Any = Script(samples)
    probe = GpuEnergyProbe(
        board=board, sampler=sampler, contention=contention, root=root, clock=lambda: now[0]
    )
    contention.start()
    probe.start()
    now[0] = end
    return dict(probe.stop())


def test_thirty_milliseconds_are_refused(nvml: Any, tmp_path: Path) -> None:
    seen = measure(nvml, tmp_path, 0.03)
    assert seen["gross_j"] is None
    assert seen["nulls"]["gross_j"].startswith("window 30 ms < 20 update periods")
    assert "at least 2.0 s" in seen["nulls"]["gross_j"]


def test_enough_periods_give_joules(nvml: Any, tmp_path: Path) -> None:
    seen = measure(nvml, tmp_path, 4)
    assert seen["gross_j"] == pytest.approx(1200) and seen["integral_j"] == pytest.approx(1200)
    assert seen["scope"] == "gpu_board" and seen["flags"] == [] and seen["power_sensor"] == "instant"
    assert seen["idle_w"] is None and seen["nulls"]["idle_w"] and seen["start_w"] == 300
    assert seen["window_ns"] == 4 * SECOND


def test_counter_and_sampled_power_that_disagree_are_flagged(nvml: Any, tmp_path: Path) -> None:
    seen = measure(nvml, tmp_path, 4, sampled=390)
    assert seen["flags"] == ["energy_disagrees"] and seen["gap_share"] == pytest.approx(0.3)
    assert "30% apart" in seen["reasons"]["energy_disagrees"]
    assert measure(nvml, tmp_path, 4, sampled=345)["flags"] == []


def test_an_averaging_sensor_checks_long_windows_only(nvml: Any, tmp_path: Path) -> None:
    nvml.instant = False
    seen = measure(nvml, tmp_path, 4, sensor="average")
    assert seen["gross_j"] == pytest.approx(1200) and seen["integral_j"] is None
    assert "averages over 1 s" in seen["nulls"]["integral_j"] and seen["gap_share"] is None
    assert measure(nvml, tmp_path, 6, sensor="average")["integral_j"] == pytest.approx(1800)


def test_a_shared_board_is_not_attributed(nvml: Any, tmp_path: Path) -> None:
    busy = Baseline(used_mib=0.0, busy_share=0.3, process_ids=frozenset())
    seen = measure(nvml, tmp_path, 4, baseline=busy)
    assert seen["gross_j"] is None and seen["nulls"]["gross_j"].startswith(
        "not attributable: the GPU was 30%"
    )


def test_mig_superchip_and_silence(nvml: Any, tmp_path: Path) -> None:
    nvml.mig = (1, 1)
    assert "slice" in measure(nvml, tmp_path, 4)["nulls"]["gross_j"]
    nvml.mig = (0, 0)
    nvml.names = ["NVIDIA GH200 480GB"]
    assert measure(nvml, tmp_path, 4)["scope"] == "gpu_module"
    nvml.broken = {"nvmlDeviceGetTotalEnergyConsumption"}
    seen = measure(nvml, tmp_path, 4)
    assert seen["gross_j"] is None and "Not Supported" in seen["nulls"]["gross_j"]
    assert seen["integral_j"] == pytest.approx(1200)  # under its own name, never in the counter's place


def test_without_a_driver_every_probe_answers_with_reasons(tmp_path: Path) -> None:
    gone = Null(reason="no driver here")
    probes = probes_for(Device(kind="cuda"), nvml=gone, root=tmp_path, cpus=[0])
    assert [probe.name for probe in probes] == ["contention", "memory", "clocks", "energy"]
    for probe in probes:
        probe.start()
    for probe in reversed(probes):
        seen = probe.stop()
        nulls = {key for key, value in seen.items() if value is None}
        assert nulls and nulls == set(seen["nulls"])
    assert seen["nulls"]["gpu_processes_before"] == "no driver here"


def test_the_counter_itself() -> None:
    assert counter_delta_j(1000, 3000, SECOND, limit_w=None) == 2.0
    back = counter_delta_j(3000, 1000, SECOND, limit_w=700)
    jump = counter_delta_j(0, 2_000_000, SECOND, limit_w=700)
    assert isinstance(back, Null) and "went back" in back.reason
    assert isinstance(jump, Null) and "jumped by 2000 J" in jump.reason
    assert too_short(2 * SECOND, 100 * MS) is None and too_short(2 * SECOND - 1, 100 * MS) is not None


def test_the_period_of_the_counter_is_measured(nvml: Any) -> None:
    now = [0]

    def clock() -> int:
        now[0] += 2 * MS
        return now[0]

    nvml.energy_mj = lambda: now[0] // (20 * MS)
    period = counter_period_ns(board_of(nvml), clock=clock)
    assert not isinstance(period, Null) and 18 * MS <= period <= 22 * MS
    nvml.energy_mj = lambda: 5
    assert isinstance(counter_period_ns(board_of(nvml), clock=clock), Null)


def test_the_integral_covers_exactly_the_window() -> None:
    ramp = [(k * 100 * MS, 10.0 * k) for k in range(21)]  # 0 to 200 W in 2 s: 100 W a second
    assert integral_j(ramp, 0, 2 * SECOND) == pytest.approx(200)
    assert integral_j(ramp, 250 * MS, 750 * MS) == pytest.approx(0.5 * 50)  # between samples
    assert isinstance(integral_j(ramp, 0, 2 * SECOND + 1), Null)
    assert isinstance(integral_j([], 0, 1), Null)
    hole = [(0, 100.0), (3 * SECOND, 100.0)]
    assert integral_j(hole, 0, SECOND) == Null(reason="no power sample for 3.0 s")


def test_a_trailing_sensor_is_right_once_the_window_covers_its_memory() -> None:
    def true_w(t: int) -> float:
        return 400.0 if 2 * SECOND <= t < 2.5 * SECOND else 80.0

    def shown_w(t: int) -> float:
        return sum(true_w(max(0, t - k * 10 * MS)) for k in range(100)) / 100

    samples = [(t, shown_w(t)) for t in range(0, 5 * SECOND + 1, 100 * MS)]
    joules = integral_j(samples, SECOND, 5 * SECOND)
    assert joules == pytest.approx(80 * 4 + 320 * 0.5, rel=0.06)


def zone(energy: str, package: int = 0) -> dict[str, str]:
    base = f"sys/class/powercap/intel-rapl:{package}"
    return {
        f"{base}/name": f"package-{package}\n",
        f"{base}/energy_uj": energy,
        f"{base}/max_energy_range_uj": f"{RANGE}\n",
        f"{base}:0/name": "core\n",
        f"{base}:0/energy_uj": "1\n",
    }


def test_packages_are_read_and_subzones_are_not(plant: Any) -> None:
    psys = {
        "sys/class/powercap/intel-rapl:2/name": "psys\n",
        "sys/class/powercap/intel-rapl:2/energy_uj": "9\n",
    }
    reading = read_rapl(plant(zone("70\n") | zone("80\n", 1) | psys))
    assert isinstance(reading, RaplReading)
    assert reading.energy_uj == {"intel-rapl:0": 70, "intel-rapl:1": 80}


def test_rapl_steps() -> None:
    assert delta_uj(100, 400, RANGE, SECOND) == 300
    assert delta_uj(RANGE - 5_000, 1_000, RANGE, SECOND) == 6_000  # one wrap
    for case, words in (
        (delta_uj(10, 500, RANGE, 3600 * SECOND), "wrapped twice"),
        (delta_uj(10, 500, None, SECOND), "range"),
        (delta_uj(7_000_000_000, 400_000, RANGE, SECOND), "jumped"),  # a reset is no wrap
        (delta_uj(0, 7_000_400_000, RANGE, SECOND), "jumped by 7000 J"),
        (delta_uj(Null(reason="hiccup"), 7, RANGE, SECOND), "hiccup"),
    ):
        assert isinstance(case, Null) and words in case.reason


def test_one_bad_step_makes_the_sum_null() -> None:
    def at(second: int, *values: Any) -> tuple[int, RaplReading | Null]:
        names = [f"intel-rapl:{i}" for i in range(len(values))]
        return second * SECOND, RaplReading(
            energy_uj=dict(zip(names, values, strict=True)), range_uj=dict.fromkeys(names, RANGE)
        )

    good = [at(0, RANGE - 1_000_000, 0), at(10, 99_000_000, 50_000_000), at(20, 199_000_000, 100_000_000)]
    assert packages_j(good) == pytest.approx(300)
    assert packages_j([*good, at(30, Null(reason="gone"), 150_000_000)]) == Null(reason="gone")
    assert isinstance(packages_j([*good, (30 * SECOND, Null(reason="gone"))]), Null)
    assert isinstance(packages_j(good[:1]), Null)


def test_an_unreadable_counter_says_how_to_allow_it(plant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root = plant(zone("70\n"))
    real = Path.read_text

    def refuse(self: Path, *args: Any, **kwargs: Any) -> str:
        if self.name == "energy_uj":
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", refuse)
    probe = CpuEnergyProbe(
        contention=ContentionProbe(board=None, baseline=None, root=root, cpus=[0]), root=root
    )
    probe.start()
    seen = probe.stop()
    assert seen["gross_j"] is None and "sudo chmod a+r" in seen["nulls"]["gross_j"]
    assert "intel-rapl:*/energy_uj" in seen["nulls"]["gross_j"]


def test_no_rapl_is_null(tmp_path: Path) -> None:
    missing = read_rapl(tmp_path)
    assert isinstance(missing, Null) and "no RAPL counter" in missing.reason


def test_the_sampler_covers_each_users_window(nvml: Any) -> None:
    sampler: Sampler[GpuSample] = Sampler(lambda: gpu_sample(board_of(nvml)), period_s=0.01)
    sampler.start()
    sampler.start()
    first = sampler.stop()
    last = sampler.stop()
    assert len(last) > len(first) >= 3
    assert list(last) == sorted(last, key=lambda sample: sample[0])
    assert last[0][1].power_w == (300.0, "instant")
    sampler.start()
    assert len(sampler.stop()) < len(last) + 2  # begins anew
