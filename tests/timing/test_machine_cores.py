"""Offered cores: affinity, quotas of the whole chain, hardware threads, and which CPUs to pin."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from breakeven.errors import UserError
from breakeven.timing.cpu import (
    core_ids_for,
    hybrid_cores,
    identical_cores,
    offered_cores,
    throttled_periods,
)
from breakeven.timing.readings import Null, parse_cpu_list

V2_MOUNT = "30 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def v2(group: str, **quotas: str) -> dict[str, str]:
    """A cgroup v2 tree: `quotas` maps a group ("" is the root, _ stands for /) to its cpu.max."""
    files = {"proc/self/mountinfo": V2_MOUNT, "proc/self/cgroup": f"0::{group}\n"}
    for name, text in quotas.items():
        folder = "" if name == "top" else name.replace("_", "/") + "/"
        files[f"sys/fs/cgroup/{folder}cpu.max"] = text + "\n"
    return files


def test_a_quota_of_two_over_hyperthreads(plant: Any, cpus: Any) -> None:
    root = plant(cpus(8, 2) | v2("/a", a="200000 100000"))
    cores = offered_cores(root, range(16))
    assert (cores.logical, cores.physical, cores.quota, cores.threads) == (16, 8, 2.0, 2)


def test_two_hyperthreads_of_one_core_are_one_thread(plant: Any, cpus: Any) -> None:
    cores = offered_cores(plant(cpus(8, 2) | v2("/", top="max 100000")), [0, 8])
    assert (cores.logical, cores.physical, cores.quota, cores.threads) == (2, 1, None, 1)
    assert cores.nulls == {}


def test_the_limit_of_a_parent_counts(plant: Any, cpus: Any) -> None:
    files = v2("/a/b/c", a="400000 100000", a_b="800000 100000", a_b_c="max 100000")
    assert offered_cores(plant(cpus(16) | files), range(16)).threads == 4


def test_half_a_cpu_is_one_thread(plant: Any, cpus: Any) -> None:
    cores = offered_cores(plant(cpus(8) | v2("/a", a="50000 100000")), range(8))
    assert (cores.quota, cores.threads) == (0.5, 1)


def test_version_1_and_a_quota_on_the_parent(plant: Any, cpus: Any) -> None:
    mount = "31 1 0:2 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    files = {
        "proc/self/mountinfo": mount,
        "proc/self/cgroup": "4:cpu,cpuacct:/user/job\n3:cpuset:/elsewhere\n",
        "sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_quota_us": "300000\n",
        "sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_period_us": "100000\n",
        "sys/fs/cgroup/cpu,cpuacct/user/job/cpu.cfs_quota_us": "-1\n",
        "sys/fs/cgroup/cpu,cpuacct/user/job/cpu.stat": "nr_periods 9\nnr_throttled 4\n",
        "sys/fs/cgroup/cpu,cpuacct/user/cpu.stat": "nr_periods 9\nnr_throttled 3\n",
    }
    root = plant(cpus(8) | files)
    assert offered_cores(root, range(8)).threads == 3
    assert throttled_periods(root) == 7


def test_a_container_sees_its_group_at_the_mount(plant: Any, cpus: Any) -> None:
    mount = "30 1 0:1 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
    files = {
        "proc/self/mountinfo": mount,
        "proc/self/cgroup": "0::/docker/abc/inner\n",
        "sys/fs/cgroup/cpu.max": "300000 100000\n",
        "sys/fs/cgroup/inner/cpu.max": "150000 100000\n",
    }
    assert offered_cores(plant(cpus(4) | files), range(4)).quota == 1.5


def test_a_group_above_the_visible_top_is_no_error(plant: Any, cpus: Any) -> None:
    root = plant(cpus(4) | v2("/../other", top="max 100000"))
    assert offered_cores(root, range(4)).threads == 4


def test_nothing_readable_gives_reasons(tmp_path: Any) -> None:
    cores = offered_cores(tmp_path, range(4))
    assert (cores.logical, cores.physical, cores.quota, cores.threads) == (4, None, None, 4)
    assert set(cores.nulls) == {"physical", "quota"}
    assert isinstance(throttled_periods(tmp_path), Null)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity on this system")
def test_a_process_pinned_to_one_cpu_is_offered_one_thread() -> None:
    code = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
        "from breakeven.timing.cpu import offered_cores; c = offered_cores(); print(c.logical, c.threads)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.split() == ["1", "1"]


def test_pinning_takes_distinct_cores_first(plant: Any, cpus: Any) -> None:
    root = plant(cpus(4, 2))
    assert core_ids_for(3, root, range(8)) == (0, 1, 2)
    assert core_ids_for(4, root, [0, 4, 1, 5, 2, 6, 7]) == (0, 1, 2, 7)
    assert core_ids_for(5, root, range(8)) == (0, 1, 2, 3, 4)


def test_pinning_stays_on_one_node(plant: Any, cpus: Any) -> None:
    files = cpus(8)
    for cpu in range(8):  # even CPUs on node 0, odd ones on node 1
        files[f"sys/devices/system/cpu/cpu{cpu}/node{cpu % 2}/x"] = ""
    root = plant(files)
    assert core_ids_for(4, root, range(8)) == (0, 2, 4, 6)
    assert core_ids_for(5, root, range(8)) == (0, 1, 2, 4, 6)


def test_pinning_takes_fast_cores_first(plant: Any, cpus: Any) -> None:
    kinds = {"sys/devices/cpu_core/cpus": "4-7\n", "sys/devices/cpu_atom/cpus": "0-3\n"}
    root = plant(cpus(8) | kinds)
    assert core_ids_for(4, root, range(8)) == (4, 5, 6, 7)
    assert hybrid_cores(root) == {"performance": (4, 5, 6, 7), "efficiency": (0, 1, 2, 3)}


def test_arm_cores_differ_by_capacity(plant: Any) -> None:
    base = "sys/devices/system/cpu"
    files = {f"{base}/online": "0-3\n"}
    files |= {f"{base}/cpu{cpu}/cpu_capacity": "1024\n" if cpu < 2 else "400\n" for cpu in range(4)}
    assert hybrid_cores(plant(files)) == {"capacity-1024": (0, 1), "capacity-400": (2, 3)}


@pytest.mark.parametrize("threads", [0, 5])
def test_more_threads_than_cpus_is_refused(plant: Any, cpus: Any, threads: int) -> None:
    with pytest.raises(UserError, match="may use 4 CPUs"):
        core_ids_for(threads, plant(cpus(4)), range(4))


def test_cpu_lists() -> None:
    assert parse_cpu_list("0-3,8,10-11\n") == (0, 1, 2, 3, 8, 10, 11)
    assert parse_cpu_list("\n") == ()
    with pytest.raises(ValueError, match="invalid literal"):
        parse_cpu_list("zero")


def test_identical_cores_are_fast_whole_and_offered(plant: Any, cpus: Any) -> None:
    """Two kinds, the fast one with two hardware threads a core: 4-7 are two cores, 0-3 four slow ones."""
    folder = "sys/devices/system/cpu"
    files = cpus(8) | {"sys/devices/cpu_core/cpus": "4-7\n", "sys/devices/cpu_atom/cpus": "0-3\n"}
    for cpu in range(4, 8):
        first = cpu - cpu % 2
        files[f"{folder}/cpu{cpu}/topology/core_cpus_list"] = f"{first}-{first + 1}\n"
    root = plant(files)
    assert identical_cores(root, range(8)) == 2
    assert identical_cores(root, [0, 1, 2, 4]) == 1
    assert identical_cores(root, [0, 1, 2]) == 3  # slow cores alone are alike


def test_without_kinds_all_cores_are_identical(plant: Any, cpus: Any) -> None:
    assert identical_cores(plant(cpus(8, 2)), range(16)) == 8
    assert identical_cores(plant(cpus(8, 2) | v2("/a", a="300000 100000")), range(16)) == 3
