"""Contract, group 6: energy."""

from __future__ import annotations

import errno
import math
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.conftest import a_case, sampled, understood
from breakeven.runner import idle as runner_idle
from breakeven.runner.child import _idle
from breakeven.timing.probes.clocks import GpuSample
from breakeven.timing.probes.contention import Baseline, ContentionProbe
from breakeven.timing.probes.energy import NO_IDLE, CpuEnergyProbe, GpuEnergyProbe, integral_j
from breakeven.timing.probes.idle import idle_power_w
from breakeven.timing.probes.nvml import Board, open_board
from breakeven.timing.probes.rapl import delta_uj
from breakeven.timing.readings import Null, read_int

from .worlds import MS, SECOND, in_a_child, sim_case

QUIET = Baseline(used_mib=0.0, busy_share=0.0, process_ids=frozenset())
RANGE = 262_143_328_850  # microjoules: the range that many packages report


class Script:
    """A sampler whose samples are planted."""

    def __init__(self, samples: list[tuple[int, Any]]) -> None:
        self.samples = samples

    def start(self) -> None:
        pass

    def stop(self) -> tuple[tuple[int, Any], ...]:
        return tuple(self.samples)


def measure(
    nvml: Any, root: Path, seconds: float, *, sampled_w: float = 300.0, baseline: Baseline = QUIET
) -> dict[str, Any]:
    """300 W on a counter that ticks every 100 ms, over a window of so many seconds."""
    now = [5 * SECOND]
    nvml.energy_mj = lambda: int(300.0 * (now[0] // (100 * MS)) * 0.1 * 1000)
    end = now[0] + int(seconds * SECOND)
    samples = [
        (t, GpuSample(power_w=(sampled_w, "instant"), sm_mhz=1, mem_mhz=1, temperature_c=1, mask=0))
        for t in range(now[0], end + 100 * MS, 100 * MS)
    ]
    board = open_board(0, nvml=nvml, environ={})
    assert isinstance(board, Board)
    contention = ContentionProbe(board=board, baseline=baseline, root=root, cpus=[0])
    sampler: Any = Script(samples)
    probe = GpuEnergyProbe(
        board=board, sampler=sampler, contention=contention, root=root, clock=lambda: now[0]
    )
    contention.start()
    probe.start()
    now[0] = end
    return dict(probe.stop())


def test_r32_a_window_shorter_than_twenty_updates_is_refused(nvml: Any, tmp_path: Path) -> None:
    counter = [300.0 * (t // (100 * MS)) * 0.1 for t in (5 * SECOND, 5 * SECOND + 30 * MS)]
    assert counter[1] - counter[0] == 0.0  # naive: 30 ms at 300 W cost nothing
    short = measure(nvml, tmp_path, 0.03)
    assert short["gross_j"] is None and "20 update periods" in short["nulls"]["gross_j"]
    repeats = math.ceil(20 * 0.1 / 0.03)
    long = measure(nvml, tmp_path, repeats * 0.03)
    assert long["gross_j"] / repeats == pytest.approx(9.0, rel=0.06)


def test_r32_counter_and_sampled_power_are_set_against_each_other(nvml: Any, tmp_path: Path) -> None:
    seen = measure(nvml, tmp_path, 4.0, sampled_w=390.0)
    assert seen["flags"] == ["energy_disagrees"] and "30% apart" in seen["reasons"]["energy_disagrees"]
    assert measure(nvml, tmp_path, 4.0)["flags"] == []

    def true_w(t: int) -> float:
        return 400.0 if 2 * SECOND <= t < 2.5 * SECOND else 80.0

    def shown_w(t: int) -> float:  # a sensor that averages over its last second
        return fmean(true_w(max(0, t - k * 10 * MS)) for k in range(100))

    samples = [(t, shown_w(t)) for t in range(0, 5 * SECOND + 1, 100 * MS)]
    truth = 80 * 0.5 + 320 * 0.5
    assert shown_w(2 * SECOND) * 0.5 < 0.3 * truth  # naive: one look as the half second begins
    whole = integral_j(samples, SECOND, 5 * SECOND)
    assert whole == pytest.approx(80 * 4 + 320 * 0.5, rel=0.06)
    assert isinstance(integral_j(samples, 0, 6 * SECOND), Null)  # not covered: no number


def test_r33_what_cannot_be_read_is_null_with_a_reason(
    nvml: Any, plant: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml.broken = {"nvmlDeviceGetTotalEnergyConsumption"}
    seen = measure(nvml, Path("/nowhere"), 4.0)
    assert seen["gross_j"] is None and "Not Supported" in seen["nulls"]["gross_j"]
    base = "sys/class/powercap/intel-rapl:0"
    root = plant({f"{base}/name": "package-0", f"{base}/energy_uj": "7", f"{base}/max_energy_range_uj": "9"})
    real = Path.read_text

    def refuse(self: Path, *args: Any, **kwargs: Any) -> str:
        if self.name == "energy_uj":
            raise PermissionError(errno.EACCES, "Permission denied", str(self))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Path, "read_text", refuse)
    contention = ContentionProbe(board=None, baseline=None, root=root, cpus=[0])
    probe = CpuEnergyProbe(contention=contention, root=root)
    probe.start()
    found = probe.stop()
    assert found["gross_j"] is None and found["gross_j"] != 0  # naive: an error is 0, or a nominal power
    assert "sudo chmod a+r" in found["nulls"]["gross_j"]
    simulated = in_a_child(sim_case("sim:gpu:step_ms=5"))
    assert simulated["outcome"] == "ok" and "no sensors" in simulated["base_nulls"]["energy"]
    line = sampled(a_case(), 0, 10.0, nulls={"energy.gross_j": "no RAPL counter"})
    case = understood(line).cases[0]
    assert case.energy_j_per_step is None and case.reasons["energy_j_per_step"] == "no RAPL counter"


def test_r34_hiccups_and_wraps_are_no_energy(plant: Any) -> None:
    path = "sys/class/powercap/intel-rapl:0/energy_uj"
    readings: list[int | Null] = []
    for text in ("7000000000", None, "7000400000", str(RANGE - 5_000), "1000"):
        root = plant({} if text is None else {path: text})
        if text is None:
            (root / path).unlink()
        readings.append(read_int(root / path))
    assert isinstance(readings[1], Null)
    zeroed = [0 if isinstance(r, Null) else r for r in readings]
    naive = [b - a for a, b in pairwise(zeroed)]
    assert naive[1] == 7_000_400_000 and naive[3] < 0  # one hiccup books 7 kJ, one wrap minus 262 kJ
    steps = [delta_uj(a, b, RANGE, SECOND) for a, b in pairwise(readings)]
    assert isinstance(steps[0], Null) and isinstance(steps[1], Null) and steps[3] == 6_000
    assert isinstance(steps[2], Null)  # 255 kJ in a second: more than any package draws
    assert isinstance(delta_uj(10, 500, RANGE, 3600 * SECOND), Null)  # an hour may hold several wraps
    assert isinstance(delta_uj(10, 500, None, SECOND), Null)  # the range is unreadable


def test_r35_energy_says_its_scope_and_is_not_attributed_where_it_is_shared(
    nvml: Any, tmp_path: Path
) -> None:
    alone = measure(nvml, tmp_path, 4.0)
    assert alone["gross_j"] == pytest.approx(1200) and alone["scope"] == "gpu_board"
    assert alone["idle_w"] is None and "idle" in alone["nulls"]["idle_w"]  # hence no net energy is claimed
    shared = measure(
        nvml, tmp_path, 4.0, baseline=Baseline(used_mib=0.0, busy_share=0.0, process_ids=frozenset({7}))
    )
    assert shared["gross_j"] is None and "not attributable" in shared["nulls"]["gross_j"]
    nvml.mig = (1, 1)
    sliced = measure(nvml, tmp_path, 4.0)  # naive: the whole GPU's 1,200 J under the name of a slice
    assert sliced["gross_j"] is None and "MIG" in sliced["nulls"]["gross_j"]
    nvml.mig, nvml.names = (0, 0), ["NVIDIA GH200 480GB"]
    assert measure(nvml, tmp_path, 4.0)["scope"] == "gpu_module"
    energy = {"scope": "gpu_board", "gross_j": 1200.0, "window_ns": 4 * SECOND}
    case = understood([sampled(a_case(device="cuda:0"), i, 10.0, energy=energy) for i in range(3)]).cases[0]
    assert case.energy_j_per_step == pytest.approx(300 * 0.010) and case.power_w == pytest.approx(300)


def idle(nvml: Any, root: Path, **changes: Any) -> float | Null:
    """A board that draws 75 W idle on a counter of 100 ms ticks; `changes` plant what is not idle."""
    now = [5 * SECOND]
    nvml.energy_mj = lambda: int(75.0 * (now[0] // (100 * MS)) * 0.1 * 1000)
    for name, value in changes.items():
        setattr(nvml, name, value)

    def sleep(seconds: float) -> None:
        now[0] += int(seconds * SECOND)

    return idle_power_w(open_board(0, nvml=nvml, environ={}), root=root, sleep=sleep, clock=lambda: now[0])


def test_r35_idle_power_takes_a_board_that_nobody_uses(nvml: Any, tmp_path: Path) -> None:
    assert idle(nvml, tmp_path) == pytest.approx(75.0, rel=0.05)
    for changes, words in (
        ({"busy_percent": 90}, "not idle"),
        ({"used_mib": 40_000.0}, "not idle"),
        ({"pids": [4711]}, "not idle"),
        ({"mig": (1, 1)}, "MIG"),
        ({"broken": {"nvmlDeviceGetTotalEnergyConsumption"}}, ""),
    ):
        refused = idle(type(nvml)(), tmp_path, **changes)  # naive: 75 W, or what the others draw
        assert isinstance(refused, Null) and words in refused.reason
    assert isinstance(idle_power_w(Null(reason="no GPU")), Null)


def test_r35_net_energy_is_gross_less_idle_over_the_same_time() -> None:
    """Slow steps on a board that idles at 75 W: three quarters of the energy are not theirs."""
    energy = {"scope": "gpu_board", "gross_j": 400.0, "window_ns": 4 * SECOND, "idle_w": 75.0}
    gpu = a_case(device="cuda:0")
    case = understood([sampled(gpu, i, 10.0, energy=energy) for i in range(3)]).cases[0]
    assert case.energy_j_per_step == pytest.approx(1.0) and case.idle_w == 75.0
    assert case.net_energy_j_per_step == pytest.approx(0.25)
    without = {**energy, "idle_w": None}
    lines = [sampled(gpu, i, 10.0, energy=without, nulls={"energy.idle_w": "planted"}) for i in range(3)]
    case = understood(lines).cases[0]
    assert case.net_energy_j_per_step is None and case.reasons["net_energy_j_per_step"] == "planted"
    hot = {**energy, "idle_w": 120.0}  # more than the window's 100 W: one of the two is wrong
    case = understood([sampled(gpu, i, 10.0, energy=hot) for i in range(3)]).cases[0]
    assert case.net_energy_j_per_step is None and "not below" in case.reasons["net_energy_j_per_step"]


def test_r35_idle_power_is_read_once_a_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(runner_idle, "open_board", lambda index: index)
    monkeypatch.setattr(runner_idle, "idle_power_w", lambda board: asked.append(board) or 75.0)
    session: Any = SimpleNamespace(idle={}, tell=lambda *_, **__: None)
    gpu, cpu = a_case(device="cuda:1").device, a_case().device
    for _ in range(2):
        runner_idle.take(session, [cpu, gpu, gpu])
    assert asked == [1]
    assert _idle(runner_idle.request(session, gpu)) == 75.0
    assert _idle(runner_idle.request(session, cpu)) == NO_IDLE
    session.idle[gpu.label] = Null(reason="the GPU was not idle")
    assert _idle(runner_idle.request(session, gpu)) == Null(reason="the GPU was not idle")
