"""Contention: planted neighbours on GPU and host are seen, our own work is not taken for theirs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from breakeven.records.case import Device
from breakeven.timing.probes import gpu_baseline, probes_for
from breakeven.timing.probes.contention import (
    Baseline,
    ContentionProbe,
    _Host,
    _host_between,
    gpu_reasons,
    holds_gpu,
    newcomers,
    take_baseline,
)
from breakeven.timing.probes.nvml import open_board
from breakeven.timing.probes.processes import CpuTimes, tree, tree_cpu_s
from breakeven.timing.readings import Null

PID = 100
SECOND = 1_000_000_000
HZ = os.sysconf("SC_CLK_TCK")


def stat_line(pid: int, parent: int, ticks: int, name: str = "py thon) 3") -> str:
    """A /proc/PID/stat whose name holds what breaks naive parsers; `ticks` of user time."""
    return f"{pid} ({name}) R {parent} " + "0 " * 9 + f"{ticks} 0 0 0 " + "0 " * 30


def host(
    busy_s: float, idle_s: float, own_s: float, steal_s: float = 0.0, throttled: int = 0
) -> dict[str, str]:
    """Counters over two CPUs: busy and idle seconds are split evenly between them."""
    lines = ["cpu  1 2 3 4 5 6 7 8 0 0"]
    for cpu in range(2):
        busy, idle, steal = (int(value * HZ / 2) for value in (busy_s, idle_s, steal_s))
        lines.append(f"cpu{cpu} {busy} 0 0 {idle} 0 0 0 {steal} 0 0")
    return {
        "proc/stat": "\n".join(lines) + "\n",
        f"proc/{PID}/stat": stat_line(PID, 1, int(own_s * HZ)),
        "proc/self/cgroup": "0::/",
        "sys/fs/cgroup/cpu.stat": f"usage_usec 1\nnr_throttled {throttled}\n",
    }


def watch(plant: Any, before: dict[str, str], after: dict[str, str], seconds: float = 10.0) -> dict[str, Any]:
    now = iter((0, int(seconds * SECOND)))
    probe = ContentionProbe(
        board=None, baseline=None, root=plant(before), cpus=[0, 1], clock=lambda: next(now), pid=PID
    )
    probe.start()
    plant(after)
    return dict(probe.stop())


def test_our_own_work_is_not_contention(plant: Any) -> None:
    seen = watch(plant, host(100, 100, 50), host(119, 101, 69))
    assert seen["other_cpu_cores"] == pytest.approx(0) and seen["flags"] == []
    assert seen["throttled_periods"] == 0 and seen["steal_share"] == 0


def test_a_neighbour_that_takes_half_a_core_is(plant: Any) -> None:
    seen = watch(plant, host(100, 100, 50), host(120, 100, 65))
    assert seen["other_cpu_cores"] == pytest.approx(0.5) and seen["other_cpu_share"] == pytest.approx(0.25)
    assert seen["flags"] == ["contended"] and "0.5 of the 2 offered CPUs" in seen["reasons"]["contended"]


def test_little_is_tolerated_but_never_a_whole_core() -> None:
    def reasons(cores: int, others: float) -> list[str]:
        def at(ns: int, busy_s: float, idle_s: float) -> _Host:
            cpu = CpuTimes(busy_s=busy_s, idle_s=idle_s, steal_s=0.0)
            return _Host(ns=ns, cpu=cpu, own_s=0.0, throttled=0)

        end = at(10 * SECOND, 10 * others, 10 * (cores - others))
        return _host_between(at(0, 0.0, 0.0), end, cores, {})[1]

    assert not reasons(2, 0.15) and reasons(2, 0.25)  # a tenth of two cores
    assert not reasons(64, 0.9) and reasons(64, 1.1)  # one core of many


def test_a_child_that_works_is_ours(plant: Any) -> None:
    before = host(100, 100, 50) | {"proc/200/stat": stat_line(200, PID, 0)}
    after = host(120, 100, 55) | {"proc/200/stat": stat_line(200, PID, 15 * HZ)}
    assert watch(plant, before, after)["flags"] == []


def test_stolen_time_and_a_throttled_cgroup(plant: Any) -> None:
    seen = watch(plant, host(0, 0, 0), host(10, 9, 10, steal_s=1, throttled=3))
    assert seen["steal_share"] == pytest.approx(0.05) and seen["throttled_periods"] == 3
    text = seen["reasons"]["contended"]
    assert "hypervisor took 5%" in text and "3 periods" in text


def test_what_cannot_be_known_is_null(plant: Any) -> None:
    short = watch(plant, host(0, 0, 0), host(0.1, 0.1, 0.1), seconds=0.1)
    assert short["other_cpu_cores"] is None and "20 ticks" in short["nulls"]["other_cpu_cores"]
    still = watch(plant, host(5, 5, 5), host(5, 5, 7))
    assert still["steal_share"] is None and "/proc/stat counted 0.0 s" in still["nulls"]["steal_share"]
    missing = ContentionProbe(board=None, baseline=None, root=Path("/nowhere"), cpus=[0], pid=PID)
    assert missing.stop()["nulls"] == {"window_s": "the probe was not started"}
    missing.start()
    seen = missing.stop()
    assert seen["flags"] == [] and set(seen["nulls"]) == {
        "other_cpu_cores", "other_cpu_share", "steal_share", "throttled_periods"
    }  # fmt: skip


def baseline_of(nvml: Any, root: Path) -> tuple[Baseline, list[float]]:
    slept: list[float] = []
    return take_baseline(open_board(0, nvml=nvml, environ={}), root, sleep=slept.append), slept


def test_thirty_percent_busy_before(nvml: Any, tmp_path: Path) -> None:
    nvml.busy_percent = 30
    found, slept = baseline_of(nvml, tmp_path)
    assert 1.1 < sum(slept) < 1.4
    assert gpu_reasons(found, frozenset(), frozenset()) == [
        "the GPU was 30% busy before this process used it"
    ]


def test_the_case_before_does_not_count_once_it_has_faded(nvml: Any, tmp_path: Path) -> None:
    shown = iter((100, 60, 20, 0))
    nvml.busy_percent = lambda: next(shown)
    found, slept = baseline_of(nvml, tmp_path)
    assert len(slept) == 3 and gpu_reasons(found, frozenset(), frozenset()) == []


def test_no_process_listed_and_four_gigabytes_used(nvml: Any, tmp_path: Path) -> None:
    nvml.used_mib = 4096
    found, _ = baseline_of(nvml, tmp_path)
    assert found.process_ids == frozenset()
    assert gpu_reasons(found, frozenset(), frozenset()) == [
        "others held 4096 MiB of the GPU before this process used it"
    ]


def test_other_processes_before_and_after() -> None:
    mine = frozenset({1})
    quiet = Baseline(used_mib=0.0, busy_share=0.0, process_ids=frozenset())
    shared = Baseline(used_mib=0.0, busy_share=0.0, process_ids=frozenset({7}))
    assert gpu_reasons(quiet, mine, mine) == []
    assert "1 other processes computed" in gpu_reasons(shared, mine | {7}, mine)[0]
    assert "1 other processes began" in gpu_reasons(quiet, mine | {8}, mine)[0]
    # In a container our own id is the host's: one stranger may be ourselves, two are not.
    assert newcomers(frozenset(), frozenset({900}), mine) == 0
    assert newcomers(frozenset(), frozenset({900, 901}), mine) == 1


def test_a_late_baseline_is_refused(nvml: Any, plant: Any) -> None:
    root = plant({"proc/self/maps": "7f00-7f01 rw-s 0 00:05 1 /dev/nvidiactl\n"})
    assert not holds_gpu(root)
    plant({"proc/self/maps": "7f00-7f01 rw-s 0 00:05 1 /dev/nvidia-uvm\n"})
    found, _ = baseline_of(nvml, root)
    assert isinstance(found.used_mib, Null) and "too late" in found.used_mib.reason


def test_mig_and_no_board_are_null(nvml: Any, tmp_path: Path) -> None:
    nvml.mig = (1, 1)
    found, _ = baseline_of(nvml, tmp_path)
    assert isinstance(found.busy_share, Null) and "MIG" in found.busy_share.reason
    assert gpu_reasons(found, frozenset({5}), frozenset()) == []
    gone = gpu_baseline(Device(kind="cuda"), nvml=Null(reason="no driver"))
    assert gone is not None and gone.used_mib == Null(reason="no driver")
    assert gpu_baseline(Device(kind="cpu")) is None


def test_the_gpu_keys_and_the_flag(nvml: Any, plant: Any) -> None:
    nvml.busy_percent, nvml.pids = 30, [4242]
    root = plant(host(0, 0, 0))
    probes = probes_for(Device(kind="cuda"), nvml=nvml, environ={}, root=root, cpus=[0, 1])
    probe = next(probe for probe in probes if probe.name == "contention")
    probe.start()
    seen = probe.stop()
    assert seen["gpu_busy_share_before"] == 0.3 and seen["gpu_processes_before"] == 1
    assert seen["gpu_used_before_mib"] == 0 and seen["flags"] == ["contended"]


def test_the_tree_of_real_processes() -> None:
    code = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass\ninput()"
    before = tree_cpu_s()
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    try:
        end = time.monotonic() + 30
        while time.monotonic() < end:
            assert child.pid in tree()
            now = tree_cpu_s()
            assert not isinstance(now, Null) and not isinstance(before, Null)
            if now - before >= 0.3:
                break
            time.sleep(0.05)
        else:
            pytest.fail("the child's CPU time was not counted")
    finally:
        child.communicate(b"\n")
    after = tree_cpu_s()
    assert not isinstance(after, Null) and after - before >= 0.3  # waited for: still counted
