"""The fingerprint: stable, complete with reasons, nothing personal; and what doctor says about a machine."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

import pytest

from breakeven.records.file import decode, encode
from breakeven.timing import machine
from breakeven.timing.machine import findings_for_doctor, fingerprint
from breakeven.timing.readings import Null

CPUINFO = "processor\t: 0\nmodel name\t: Planted  CPU\nflags\t\t: fpu avx2 avx512_vnni amx_tile\n"
HOST = {
    "proc/cpuinfo": CPUINFO,
    "proc/meminfo": "MemTotal:       16305012 kB\nSwapTotal: 1048576 kB\nSwapFree: 1048576 kB\n",
    "proc/loadavg": "0.10 0.1 0.1 1/100 1\n",
    "proc/sys/kernel/osrelease": "6.1.0\n",
    "etc/os-release": 'NAME="X"\nPRETTY_NAME="Planted Linux 1"\n',
    "sys/devices/system/node/online": "0-1\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
    "sys/devices/system/cpu/cpu0/cpufreq/scaling_driver": "intel_pstate\n",
    "sys/devices/system/cpu/intel_pstate/no_turbo": "0\n",
    "sys/devices/system/cpu/smt/active": "1\n",
}


def test_a_planted_machine(plant: Any, cpus: Any, nvml: Any) -> None:
    line = fingerprint(
        {"torch": "2.9", "numpy": "2.0"}, root=plant(HOST | cpus(4, 2)), nvml=nvml, affinity=range(8)
    )
    platform = line.platform
    assert platform["cpu"]["model"] == "Planted CPU"
    assert platform["cpu"]["isa"] == ["amx_tile", "avx2", "avx512_vnni"]
    assert (platform["cpu"]["threads"], platform["cpu"]["numa_nodes"], platform["memory_gib"]) == (4, 2, 16)
    assert platform["settings"] == {
        "governor": "performance", "scaling_driver": "intel_pstate", "turbo": True, "smt": True,
    }  # fmt: skip
    assert platform["gpus"][0] == {
        "name": "NVIDIA H200", "compute_capability": "9.0", "memory_gib": 140, "vbios": "96.00",
        "power_limit_w": 700.0, "max_sm_mhz": 1980, "max_mem_mhz": 3201, "max_pcie_generation": 5,
        "max_pcie_width": 16, "ecc": True, "mig": False, "persistence": False,
    }  # fmt: skip
    assert platform["nvidia"] == {"driver": "580.1", "cuda": "13.0"}
    assert line.nulls == {"platform.cpu.quota": "no cgroup CPU controller is visible here"}
    assert decode(encode(line)) == line


def test_the_unit_is_hashed_and_apart_from_the_platform(plant: Any, nvml: Any) -> None:
    root = plant(HOST)
    first = fingerprint({}, root=root, nvml=nvml, affinity=[0])
    assert len(first.unit["gpus"][0]) == 16 and nvml.uuids[0] not in json.dumps(json.loads(encode(first)))
    assert fingerprint({}, root=root, nvml=nvml, affinity=[0]) == first
    nvml.uuids = ["GPU-another"]
    other = fingerprint({}, root=root, nvml=nvml, affinity=[0])
    assert other.platform_id == first.platform_id and other.fingerprint_id != first.fingerprint_id
    assert fingerprint({"torch": "2"}, root=root, nvml=nvml, affinity=[0]).platform_id != first.platform_id


def test_load_and_clocks_do_not_change_it(plant: Any, nvml: Any) -> None:
    first = fingerprint({}, root=plant(HOST), nvml=nvml, affinity=[0])
    nvml.sm_mhz, nvml.busy_percent, nvml.used_mib, nvml.mask = 345, 90, 5000, 1
    assert fingerprint({}, root=plant({"proc/loadavg": "9 9 9 1/1 1"}), nvml=nvml, affinity=[0]) == first


def test_a_sensor_that_is_not_supported_is_null_with_its_reason(plant: Any, nvml: Any) -> None:
    nvml.broken = {"nvmlDeviceGetEccMode", "nvmlDeviceGetUUID"}
    line = fingerprint({}, root=plant(HOST), nvml=nvml, affinity=[0])
    assert line.platform["gpus"][0]["ecc"] is None
    assert "Not Supported" in line.nulls["platform.gpus.0.ecc"]
    assert line.unit["gpus"] == [None]


def test_everything_missing_is_nulls_and_reasons(tmp_path: Any) -> None:
    gone = Null(reason="no NVIDIA driver")
    line = fingerprint({}, root=tmp_path, nvml=gone, affinity=[0], environ={})
    platform = dict(line.platform)
    for key in ("python", "machine"):
        assert platform.pop(key)
    assert platform == {
        "cpu": {
            "model": None, "logical": 1, "physical": None, "quota": None, "threads": 1, "numa_nodes": None,
            "kinds": None, "isa": None,
        },
        "environ": {},
        "memory_gib": None,
        "system": {
            "os": None, "kernel": None, "hypervisor": None,
            "container": platform["system"]["container"], "wsl": False, "board": None,
        },
        "settings": {"governor": None, "scaling_driver": None, "turbo": None, "smt": None},
        "gpus": None, "nvidia": None, "libraries": {},
    }  # fmt: skip
    assert line.unit == {"gpus": None}
    assert sorted(line.nulls) == [
        "platform.cpu.isa", "platform.cpu.model", "platform.cpu.numa_nodes", "platform.cpu.physical",
        "platform.cpu.quota", "platform.gpus", "platform.memory_gib", "platform.nvidia",
        "platform.settings.governor", "platform.settings.scaling_driver", "platform.settings.smt",
        "platform.settings.turbo", "platform.system.hypervisor", "platform.system.kernel",
        "platform.system.os", "unit.gpus",
    ]  # fmt: skip
    assert all(line.nulls.values())


def test_this_machine_names_neither_host_nor_user() -> None:
    line = machine.fingerprint({})
    text = encode(line).decode().lower()
    values = json.dumps([line.platform, line.unit]).lower()
    host = socket.gethostname().lower()
    # A host called `x86` or `linux` would be found by accident.
    assert len(host) < 6 or host not in values
    user = os.environ.get("USER", "").lower()
    assert len(user) < 6 or user not in values
    assert '"hostname"' not in text and '"user"' not in text


def test_a_quiet_machine_has_nothing_that_spoils(plant: Any, nvml: Any) -> None:
    found = findings_for_doctor(root=plant(HOST), nvml=nvml, affinity=[0], environ={})
    assert not [concern for concern in found if concern.severity == "spoils"]
    assert any(concern.fix == "sudo nvidia-smi -pm 1" for concern in found)


SPOILERS = {
    "governor": ({"sys/devices/system/cpu/cpu0/cpufreq/scaling_driver": "acpi-cpufreq"}, "lowest clock"),
    "load": ({"proc/loadavg": "3.0 1 1 1/1 1"}, "load average 3"),
    "battery": ({"sys/class/power_supply/BAT0/status": "Discharging\n"}, "battery"),
    "heat": (
        {
            "sys/class/thermal/thermal_zone0/type": "x86_pkg_temp",
            "sys/class/thermal/thermal_zone0/temp": "97000",
        },
        "97 degrees",
    ),
    "quota": ({"sys/fs/cgroup/cpu.max": "50000 100000", "proc/self/cgroup": "0::/"}, "quota of 0.5"),
}


@pytest.mark.parametrize("name", SPOILERS)
def test_what_spoils_is_named(plant: Any, nvml: Any, name: str) -> None:
    files, words = SPOILERS[name]
    if name == "governor":
        files = files | {"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave"}
    found = findings_for_doctor(root=plant(HOST | files), nvml=nvml, affinity=[0], environ={})
    spoils = [concern for concern in found if concern.severity == "spoils"]
    assert len(spoils) == 1 and words in spoils[0].text and spoils[0].fix
    assert found[0] == spoils[0]


def test_powersave_of_intel_pstate_is_only_noted(plant: Any, nvml: Any) -> None:
    files = {"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave"}
    found = findings_for_doctor(root=plant(HOST | files), nvml=nvml, affinity=[0], environ={})
    assert [c.severity for c in found if c.text.startswith("governor powersave")] == ["note"]


def test_a_gpu_in_use_spoils(plant: Any, nvml: Any) -> None:
    nvml.busy_percent, nvml.used_mib, nvml.pids, nvml.mask = 30, 4096, [4242], 0x20
    found = findings_for_doctor(root=plant(HOST), nvml=nvml, affinity=[0], environ={})
    text = " / ".join(concern.text for concern in found if concern.severity == "spoils")
    assert "30% busy" in text and "4096 MiB" in text and "1 other processes" in text and "sw_thermal" in text


def test_places_are_noted(plant: Any, nvml: Any) -> None:
    files = {"proc/sys/kernel/osrelease": "5.15.0-microsoft-standard-WSL2\n", ".dockerenv": ""}
    files["proc/meminfo"] = "SwapTotal: 2048 kB\nSwapFree: 1024 kB\n"
    found = findings_for_doctor(root=plant(HOST | files), nvml=nvml, affinity=[0], environ={})
    text = " / ".join(concern.text for concern in found)
    assert "WSL" in text and "container (docker)" in text and "1 MiB are swapped" in text
    assert "2 NUMA nodes" in text and "no CPU energy" in text


def test_no_gpu_is_a_note_and_an_empty_tree_no_crash(tmp_path: Any) -> None:
    found = findings_for_doctor(root=tmp_path, nvml=Null(reason="no driver"), affinity=[0], environ={})
    assert {concern.severity for concern in found} == {"note"}


def test_a_variable_that_steers_the_libraries_makes_another_platform() -> None:
    gone = Null(reason="no NVIDIA driver")
    plain = fingerprint({}, nvml=gone, environ={"HOME": "/home/me", "TORCH_HOME": "/home/me/t"})
    capped = fingerprint({}, nvml=gone, environ={"DNNL_MAX_CPU_ISA": "AVX2"})
    assert plain.platform["environ"] == {}  # folders steer nothing and name their owner
    assert capped.platform["environ"] == {"DNNL_MAX_CPU_ISA": "AVX2"}
    assert capped.platform_id != plain.platform_id
