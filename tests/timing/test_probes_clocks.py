"""Clocks, memory and the board itself: every throttle bit, benign ones apart; the right GPU or none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from breakeven.records.case import Device
from breakeven.timing.probes import probes_for
from breakeven.timing.probes.clocks import CpuClocksProbe, GpuSample, cpu_mhz, summarise
from breakeven.timing.probes.memory import MemoryProbe, reset_peak
from breakeven.timing.probes.nvml import Board, ask, decode, open_board, power_w, used_mib
from breakeven.timing.readings import Null

THROTTLING = {
    0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost", 0x20: "sw_thermal", 0x40: "hw_thermal",
    0x80: "hw_power_brake", 0x200: "board_limit", 0x400: "reliability", 0x800: "unknown_0x800",
}  # fmt: skip
BENIGN = {0x1: "idle", 0x2: "app_clocks", 0x100: "display_clocks"}


@pytest.mark.parametrize(("bit", "name"), THROTTLING.items())
def test_each_bit_that_throttles(bit: int, name: str) -> None:
    assert decode(bit) == ((name,), ())


@pytest.mark.parametrize(("bit", "name"), BENIGN.items())
def test_each_bit_that_does_not(bit: int, name: str) -> None:
    assert decode(bit) == ((), (name,))


def test_masks_of_several_bits() -> None:
    assert decode(0) == ((), ())
    assert decode(0x1 | 0x20 | 0x40) == (("hw_thermal", "sw_thermal"), ("idle",))
    assert decode(0x4 | 0x3000)[0] == ("sw_power_cap", "unknown_0x1000", "unknown_0x2000")


def sample(sm: Any, mask: Any = 0, watts: Any = (300.0, "instant")) -> GpuSample:
    return GpuSample(power_w=watts, sm_mhz=sm, mem_mhz=3201, temperature_c=60, mask=mask)


def test_boost_and_sustained_clock_are_both_kept() -> None:
    seen = summarise([sample(1980), sample(1980, 0x1), sample(1500, 0x4), sample(1410, 0x24)])
    assert seen["sm_mhz"] == {"min": 1410, "median": 1740, "max": 1980, "first": 1980, "last": 1410}
    assert seen["throttle"] == ["sw_power_cap", "sw_thermal"] and seen["benign"] == ["idle"]
    assert seen["throttle_share"] == {"sw_power_cap": 0.5, "sw_thermal": 0.25}
    assert seen["flags"] == ["throttled"] and "sw_power_cap in 50%" in seen["reasons"]["throttled"]
    assert seen["temperature_c"] == 60 and seen["n"] == 4 and seen["nulls"] == {}


def test_an_idle_gpu_is_not_throttled() -> None:
    assert summarise([sample(345, 0x1)])["flags"] == []


def test_unread_clocks_are_null_and_a_hole_is_skipped() -> None:
    no = Null(reason="Not Supported")
    seen = summarise([sample(no, no, no)] * 2)
    assert seen["sm_mhz"] is None and seen["throttle"] is None and seen["power_w"] is None
    assert set(seen["nulls"]) == {"sm_mhz", "throttle", "benign", "throttle_share", "power_w"}
    assert summarise([sample(no, no), sample(1980)])["sm_mhz"]["min"] == 1980
    assert summarise([])["nulls"]["sm_mhz"] == "no sample in the window"


def test_the_older_name_of_the_reasons(nvml: Any) -> None:
    nvml.broken = {"nvmlDeviceGetCurrentClocksEventReasons"}
    nvml.nvmlDeviceGetCurrentClocksThrottleReasons = lambda handle: 0x20
    probes = probes_for(Device(kind="cuda"), nvml=nvml, environ={}, root=Path("/nowhere"), cpus=[0])
    clocks = next(probe for probe in probes if probe.name == "clocks")
    clocks.start()
    assert clocks.stop()["throttle"] == ["sw_thermal"]


def test_the_cpus_clock(plant: Any) -> None:
    base = "sys/devices/system/cpu"
    assert isinstance(cpu_mhz([0], plant({})), Null)
    info = "processor: 0\nflags: fpu aperfmperf\ncpu MHz: 3000.0\nprocessor: 1\nflags: fpu\ncpu MHz: 2000.0\n"
    assert cpu_mhz([1], plant({"proc/cpuinfo": info})) == 2000
    hidden = cpu_mhz([0], plant({"proc/cpuinfo": info.replace("aperfmperf", "hypervisor")}))
    assert isinstance(hidden, Null) and "hidden" in hidden.reason
    root = plant(
        {f"{base}/cpu{cpu}/cpufreq/scaling_cur_freq": f"{khz}\n" for cpu, khz in ((0, 4000000), (1, 1000000))}
    )
    assert cpu_mhz([0], root) == 4000 and cpu_mhz([0, 1], root) == 2500


def test_a_hot_cpu_is_throttled(plant: Any) -> None:
    path = "sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count"
    probe = CpuClocksProbe(root=plant({path: "5\n"}), cpus=[0])
    probe.start()
    plant({path: "9\n"})
    seen = probe.stop()
    assert seen["throttle"] == ["cpu_thermal"] and seen["flags"] == ["throttled"]
    assert (
        "4 times" in seen["reasons"]["throttled"] and seen["cpu_mhz"] is None and "cpu_mhz" in seen["nulls"]
    )


STATUS = "Name:\tpython\nVmHWM:\t  204800 kB\nVmRSS:\t 1024 kB\n"


def test_memory_of_the_process_its_workers_and_the_device(nvml: Any, plant: Any) -> None:
    tail = "0 " * 40
    root = plant(
        {
            "proc/self/status": STATUS, "proc/self/clear_refs": "",
            "proc/100/stat": f"100 (python) R 1 {tail}", "proc/100/status": STATUS,
            "proc/101/stat": f"101 (worker) S 100 {tail}",
            "proc/101/status": STATUS.replace("204800", "102400"),
            "proc/102/stat": f"102 (other) S 1 {tail}", "proc/102/status": STATUS,
        }
    )  # fmt: skip
    nvml.used_mib = 5000
    board = open_board(0, nvml=nvml, environ={})
    probe = MemoryProbe(board=board, baseline_mib=1000.0, root=root, pid=100)
    probe.start()
    assert (root / "proc/self/clear_refs").read_text() == "5"
    assert probe.stop() == {
        "host_rss_peak_mib": 200.0, "workers_rss_peak_sum_mib": 100.0, "device_used_mib": 5000.0,
        "device_used_delta_mib": 4000.0, "nulls": {},
    }  # fmt: skip


def test_a_peak_that_cannot_be_reset_has_another_name(nvml: Any, plant: Any) -> None:
    nvml.mig = (1, 1)
    board = open_board(0, nvml=nvml, environ={})
    probe = MemoryProbe(board=board, baseline_mib=0.0, root=plant({"proc/self/status": STATUS}))
    probe.start()
    seen = probe.stop()
    assert seen["host_rss_peak_mib"] is None and seen["host_rss_peak_since_start_mib"] == 200.0
    assert "MIG" in seen["nulls"]["device_used_mib"] and "MIG" in seen["nulls"]["device_used_delta_mib"]
    assert not reset_peak(Path("/nowhere"))


def test_memory_here() -> None:
    probe = next(p for p in probes_for(Device(kind="cpu")) if p.name == "memory")
    probe.start()
    ballast = bytearray(32 * 1024 * 1024)
    seen = probe.stop()
    del ballast
    assert "device_used_mib" not in seen
    assert (seen["host_rss_peak_mib"] or seen["host_rss_peak_since_start_mib"]) > 32


def test_a_simulated_device_has_no_probes() -> None:
    assert probes_for(Device(kind="sim", name="gpu")) == ()


def uuid_of(board: Board | Null) -> str:
    assert isinstance(board, Board), board
    return str(board.ask("nvmlDeviceGetUUID"))


def test_cudas_numbering_is_followed_or_refused(nvml: Any) -> None:
    nvml.names = ["A", "A", "A"]
    nvml.uuids = ["GPU-aa", "GPU-ab", "GPU-cc"]
    assert uuid_of(open_board(1, nvml=nvml, environ={})) == "GPU-ab"
    assert uuid_of(open_board(0, nvml=nvml, environ={"CUDA_VISIBLE_DEVICES": "2,0"})) == "GPU-cc"
    assert uuid_of(open_board(0, nvml=nvml, environ={"CUDA_VISIBLE_DEVICES": "GPU-c"})) == "GPU-cc"
    assert uuid_of(open_board(0, nvml=nvml, uuid="cc", environ={})) == "GPU-cc"
    for environ, words in (
        ({"CUDA_VISIBLE_DEVICES": ""}, "hides cuda:0"),
        ({"CUDA_VISIBLE_DEVICES": "-1"}, "hides cuda:0"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-a"}, "2 GPUs"),
        ({"CUDA_VISIBLE_DEVICES": "MIG-1"}, "slice"),
        ({"CUDA_VISIBLE_DEVICES": "7"}, "nvmlDeviceGetHandleByIndex"),
    ):
        found = open_board(0, nvml=nvml, environ=environ)
        assert isinstance(found, Null) and words in found.reason
    nvml.names = ["A", "B", "A"]
    mixed = open_board(0, nvml=nvml, environ={})
    assert isinstance(mixed, Null) and "CUDA_DEVICE_ORDER=PCI_BUS_ID" in mixed.reason
    assert uuid_of(open_board(0, nvml=nvml, environ={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})) == "GPU-aa"


def test_not_supported_is_null_and_older_sensors_are_used(nvml: Any) -> None:
    board = open_board(0, nvml=nvml, environ={})
    assert isinstance(board, Board)
    nvml.broken = {"nvmlDeviceGetFieldValues"}
    assert power_w(board) == (300.0, "average")
    nvml.broken |= {"nvmlDeviceGetPowerUsage", "nvmlDeviceGetMemoryInfo"}
    power = power_w(board)
    assert isinstance(power, Null) and power.reason == "nvmlDeviceGetPowerUsage: Not Supported"
    assert isinstance(used_mib(board), Null)
    old = ask(nvml, "nvmlNewerThanThis")
    assert isinstance(old, Null) and "pip install" in old.reason
