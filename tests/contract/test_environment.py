"""Contract, group 7: the CPU and the environment."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analysis.conftest import a_case, a_machine, sampled
from breakeven.analysis.comparable import Side, gate
from breakeven.errors import Mismatch
from breakeven.runner.child import _require_threads
from breakeven.runner.plan import plan
from breakeven.runner.study import read_study
from breakeven.timing.cpu import core_ids_for, offered_cores
from breakeven.timing.machine import findings_for_doctor, fingerprint, steering
from breakeven.timing.probes.contention import ContentionProbe
from breakeven.timing.readings import Null

MOUNT = "30 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
SEEN = {"conv_precision": "ieee", "matmul_precision": "ieee", "threads": 2, "core_loop_ns": 50.0}


def group(name: str, **quotas: str) -> dict[str, str]:
    files = {"proc/self/mountinfo": MOUNT, "proc/self/cgroup": f"0::{name}\n"}
    return files | {f"sys/fs/cgroup/{k.replace('_', '/')}/cpu.max": f"{v}\n" for k, v in quotas.items()}


@pytest.mark.parametrize(
    ("name", "quotas", "affinity", "threads"),
    [
        ("/a", {"a": "200000 100000"}, range(16), 2),
        ("/a", {"a": "max 100000"}, [0, 8], 1),  # two hardware threads of one core
        ("/a/b", {"a": "400000 100000", "a_b": "max 100000"}, range(16), 4),  # the parent's limit
        ("/a", {"a": "50000 100000"}, range(16), 1),
    ],
)
def test_r36_threads_follow_affinity_quota_and_cores(
    plant: Any, cpus: Any, name: str, quotas: dict[str, str], affinity: Any, threads: int
) -> None:
    root = plant(cpus(8, 2) | group(name, **quotas))
    naive = len(list((root / "sys/devices/system/cpu").glob("cpu[0-9]*")))
    assert naive == 16 != threads  # what os.cpu_count counts
    assert offered_cores(root, affinity).threads == threads


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no CPU affinity on this system")
def test_r36_a_pinned_process_counts_its_own_cores_and_a_quota_that_stops_it_shows(plant: Any) -> None:
    code = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])\n"
        "from breakeven.timing.cpu import offered_cores; print(offered_cores().threads)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == "1"
    stat = "sys/fs/cgroup/a/cpu.stat"
    files = {"proc/self/mountinfo": MOUNT, "proc/self/cgroup": "0::/a\n", stat: "nr_throttled 3\n"}
    probe = ContentionProbe(board=None, baseline=None, root=plant(files), cpus=[0])
    probe.start()
    plant({stat: "nr_throttled 8\n"})
    seen = probe.stop()
    assert seen["throttled_periods"] == 5 and seen["flags"] == ["contended"]


def test_r36_more_workers_than_cores_are_said_before_anything_runs() -> None:
    text = "name: t\nmodel: simple-cnn\ndevice: cpu\ndata: synthetic\ntuning: [workers]\n"
    assert plan(read_study(text, "t.yaml"), cores=2, gpus=0).notes == (
        "8 loader workers on cpu: 2 cores offered",
    )
    assert plan(read_study(text, "t.yaml"), cores=16, gpus=0).notes == ()


@pytest.mark.framework
def test_r36_threads_are_read_back_from_the_library() -> None:
    """A published tool hands its two thread options to each other's function: read them back."""
    code = """
import torch
from breakeven.runtimes import load
from runtimes.torch_cases import case
torch.set_num_interop_threads(3)
seen = load("torch").prepare(case(threads=1)).observed()
print(seen["threads"], seen["interop_threads"])
"""
    from runtimes.torch_cases import environment

    out = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert out.stdout.split() == ["1", "3"]


@pytest.mark.framework
def test_r36_a_limit_that_no_library_reads_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With OMP_THREAD_LIMIT=1 torch reports the two threads that were asked for, and starts one."""
    asked = dataclasses.replace(a_case(device="cpu:threads=2").tuning, threads=2)
    line = dataclasses.replace(a_case(device="cpu:threads=2"), tuning=asked)
    _require_threads(line, {"threads": 2})
    monkeypatch.setenv("OMP_THREAD_LIMIT", "1")
    with pytest.raises(Mismatch, match="1 of 2 threads"):
        _require_threads(line, {"threads": 2})
    monkeypatch.setenv("OMP_THREAD_LIMIT", "2147483647")
    _require_threads(line, {"threads": 2})


def test_r38_what_steers_libraries_from_outside_makes_another_machine(plant: Any, nvml: Any) -> None:
    """Another allocator, or a compiler switched off: the same hardware, another speed."""

    def id_with(**environ: str) -> str:
        return fingerprint({}, root=plant({}), nvml=nvml, affinity=[0], environ=environ).platform_id

    plain = id_with(HOME="/home/someone", PATH="/usr/bin")
    for name, value in (
        ("LD_PRELOAD", "/home/someone/lib/libjemalloc.so.2"),
        ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1"),
        ("TORCHDYNAMO_DISABLE", "1"),
        ("TORCHINDUCTOR_MAX_AUTOTUNE", "1"),
        ("PYTHONMALLOC", "debug"),
    ):
        assert id_with(**{name: value}) != plain, name
    assert steering({"LD_PRELOAD": "/a/x.so:/b/y.so z.so"}) == {"LD_PRELOAD": "x.so y.so z.so"}  # no folder
    assert steering({"TORCHINDUCTOR_CACHE_DIR": "x", "PYTHONPATH": "src", "PYTHONHASHSEED": "0"}) == {}


def test_r37_kinds_of_core_nodes_and_governor_are_recorded(plant: Any, cpus: Any, nvml: Any) -> None:
    files = cpus(8) | {
        "sys/devices/cpu_core/cpus": "0-3\n", "sys/devices/cpu_atom/cpus": "4-7\n",
        "sys/devices/system/node/online": "0-1\n", "proc/loadavg": "0.1 0.1 0.1 1/1 1\n",
        "sys/devices/system/cpu/smt/active": "0\n", "sys/devices/system/cpu/intel_pstate/no_turbo": "1\n",
        "proc/cpuinfo": "processor: 0\nmodel name: Planted\nflags: avx2 avx512_vnni amx_tile\n",
    }  # fmt: skip
    for cpu in range(8):
        files[f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"] = "powersave\n"
        files[f"sys/devices/system/cpu/cpu{cpu}/node{cpu // 4}/x"] = ""
    root = plant(files)
    line = fingerprint({}, root=root, nvml=nvml, affinity=range(8))
    cpu = line.platform["cpu"]
    assert cpu["kinds"] == {"performance": 4, "efficiency": 4} and cpu["numa_nodes"] == 2
    assert cpu["isa"] == ["amx_tile", "avx2", "avx512_vnni"]
    assert line.platform["settings"] == {
        "governor": "powersave", "scaling_driver": None, "turbo": False, "smt": False,
    }  # fmt: skip
    said = [
        concern.text for concern in findings_for_doctor(root=root, nvml=nvml, affinity=range(8), environ={})
    ]
    for words in ("lowest clock", "several kinds", "2 NUMA nodes"):
        assert any(words in text for text in said)
    # Naive: any two cores. Ours: the fast ones of one node; a case without `threads` says how many it had.
    assert core_ids_for(2, root, range(2, 8)) == (2, 3)


def test_r38_what_must_match_blocks_and_what_must_be_shown_is_shown() -> None:
    gpus = [{"name": "NVIDIA H200", "power_limit_w": 700.0}]
    here = a_machine(2, nvidia={"driver": "550.1"}, gpus=gpus)
    line = sampled(a_case(device="cuda:0"), 0, 10.0, observed=SEEN)
    base = Side(attempt=line, machine=here, tool_version="0.1.0")
    same = gate(base, base)
    assert same.allowed and same.shown == ()
    tf32 = dataclasses.replace(line, observed=SEEN | {"conv_precision": "tf32"})
    found = gate(base, dataclasses.replace(base, attempt=tf32))
    assert [d.field for d in found.blocked] == ["observed.conv_precision"] and not found.allowed
    unread = dataclasses.replace(line, observed={"threads": 2, "core_loop_ns": 50.0})
    found = gate(
        Side(attempt=unread, machine=here, tool_version="1"),
        Side(attempt=unread, machine=here, tool_version="1"),
    )
    assert {d.field for d in found.blocked} == {"observed.conv_precision", "observed.matmul_precision"}
    assert line.case_id == unread.case_id  # naive: equal labels, so equal
    there = a_machine(2, nvidia={"driver": "535.2"}, gpus=[gpus[0] | {"power_limit_w": None}])
    there = dataclasses.replace(
        there, nulls={"platform.gpus.0.power_limit_w": "Not Supported"}, platform_id="p1"
    )
    found = gate(base, dataclasses.replace(base, machine=there, tool_version="0.2.0"))
    assert found.allowed
    assert {d.field for d in found.shown} == {
        "nvidia.driver",
        "gpus.0.power_limit_w",
        "machine",
        "tool_version",
    }
    unknown = dataclasses.replace(base, machine=there)
    (both,) = gate(unknown, unknown).shown  # unknown on both sides is still no match
    assert (both.field, both.base, both.unknown) == ("gpus.0.power_limit_w", None, "Not Supported")


def test_r38_other_work_regions_and_weights_block_and_a_missing_machine_is_said() -> None:
    line = sampled(a_case(), 0, 10.0, observed=SEEN)
    for other, field in (
        (sampled(a_case(batch=64), 0, 10.0, observed=SEEN), "work_id"),
        (dataclasses.replace(line, region="train_run"), "region"),
        (
            dataclasses.replace(line, hashes={"weights": "w1", "order": "o0", "augment": "a0"}),
            "hashes.weights",
        ),
        (dataclasses.replace(line, hashes={"weights": "w0", "order": "o0"}), "hashes.augment"),
        (sampled(a_case(device="cpu:threads=1"), 0, 10.0, observed=SEEN), "device"),
    ):
        assert field in {d.field for d in gate(Side(attempt=line), Side(attempt=other)).blocked}
    bare = gate(Side(attempt=line), Side(attempt=line))
    assert bare.allowed and {d.field for d in bare.shown} == {"tool_version", "machine"}
    one = sampled(a_case(device="cpu:threads=1"), 0, 9.0, observed=SEEN)
    assert gate(Side(attempt=line), Side(attempt=one), studied=frozenset({"device"})).allowed


def test_r38_a_machine_of_which_nothing_can_be_read_has_nulls_and_reasons(tmp_path: Path) -> None:
    line = fingerprint({}, root=tmp_path, nvml=Null(reason="no NVIDIA driver"), affinity=[0])
    assert line.platform["cpu"]["model"] is None and line.nulls["platform.cpu.model"]
    assert line.platform["gpus"] is None and line.nulls["platform.gpus"] == "no NVIDIA driver"
    side = Side(attempt=sampled(a_case(), 0, 10.0, observed=SEEN), machine=line, tool_version="0.1.0")
    shown = {d.field: d.unknown for d in gate(side, side).shown}
    assert shown["gpus"] == "no NVIDIA driver" and shown["cpu.model"]
    assert "cpu.kinds" not in shown and "system.board" not in shown  # known to be none: that can match
