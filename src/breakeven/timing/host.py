"""The host as /proc and /sys show it: CPU, memory, settings, and whether it is virtual or a container.

Knows nothing about GPUs, and reads nothing that names the machine or its user.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from breakeven.timing.cpu import CPUS, Cores, hybrid_cores, identical_cores, node_count, offered_cores
from breakeven.timing.readings import (
    SYSTEM,
    Null,
    first,
    kib,
    known,
    listed,
    read_int,
    read_pairs,
    read_text,
    told,
)

# Instruction sets that decide which kernels a framework picks, by the kernel's names (x86, then Arm).
_ISA = (
    "sse4_2 avx avx2 fma f16c avx_vnni avx512f avx512bw avx512vl avx512_vnni avx512_bf16 avx512_fp16 "
    "amx_tile amx_bf16 amx_int8 amx_fp16 avx10_1 asimd asimddp fphp asimdhp bf16 i8mm sve sve2 svebf16 sme"
)
ISA_FLAGS = frozenset(_ISA.split())
GIB_IN_KIB = 1024 * 1024
NO_CPUFREQ = "no cpufreq (usual in a virtual machine)"


def cpu_entries(root: Path = SYSTEM) -> tuple[tuple[str, str], ...] | Null:
    """The `key : value` lines of /proc/cpuinfo."""
    text = read_text(root / "proc/cpuinfo")
    if isinstance(text, Null):
        return text
    lines = (line.partition(":") for line in text.splitlines())
    return tuple((key.strip(), value.strip()) for key, colon, value in lines if colon)


def cpu_model(root: Path = SYSTEM) -> str | Null:
    """The CPU's own name; on Arm, where the kernel knows none, its implementer and part numbers."""
    entries = cpu_entries(root)
    if isinstance(entries, Null):
        return entries
    pairs = dict(reversed(entries))
    if "model name" in pairs:
        return " ".join(pairs["model name"].split())
    if "CPU part" in pairs:
        return f"Arm implementer {pairs.get('CPU implementer', 'unknown')} part {pairs['CPU part']}"
    return Null(reason="/proc/cpuinfo names no CPU model")


def cpu_flags(root: Path = SYSTEM) -> frozenset[str] | Null:
    """All feature flags of the first CPU."""
    entries = cpu_entries(root)
    if isinstance(entries, Null):
        return entries
    flags = next((value for key, value in entries if key in ("flags", "Features")), None)
    return Null(reason="/proc/cpuinfo lists no flags") if flags is None else frozenset(flags.split())


def memory_gib(root: Path = SYSTEM) -> int | Null:
    """Main memory rounded to GiB: the exact number depends on the kernel."""
    total = kib(read_pairs(root / "proc/meminfo"), "MemTotal")
    return total if isinstance(total, Null) else round(total / GIB_IN_KIB)


def governors(cpus: Iterable[int], root: Path = SYSTEM) -> tuple[str, ...] | Null:
    """The frequency governors of the given CPUs, each once."""
    readings = [read_text(root / CPUS / f"cpu{cpu}/cpufreq/scaling_governor") for cpu in cpus]
    names = {name for reading in readings if (name := known(reading))}
    return tuple(sorted(names)) if names else Null(reason=NO_CPUFREQ)


def scaling_driver(root: Path = SYSTEM) -> str | Null:
    """Who sets the clock: intel_pstate, amd-pstate-epp, acpi-cpufreq ..."""
    paths = listed(root / CPUS, "cpu[0-9]*/cpufreq/scaling_driver")
    return first(read_text(path) for path in paths) if paths else Null(reason=NO_CPUFREQ)


def turbo(root: Path = SYSTEM) -> bool | Null:
    """Whether clocks above the nominal one are allowed."""
    off = read_int(root / CPUS / "intel_pstate/no_turbo")
    if not isinstance(off, Null):
        return off == 0
    boost = read_int(root / CPUS / "cpufreq/boost")
    return (
        Null(reason="the kernel does not tell whether turbo is on") if isinstance(boost, Null) else boost == 1
    )


def smt(root: Path = SYSTEM) -> bool | Null:
    """Whether cores run two or more hardware threads."""
    active = read_int(root / CPUS / "smt/active")
    return active if isinstance(active, Null) else active == 1


def hypervisor(root: Path = SYSTEM) -> bool | Null:
    """Whether this is a virtual machine: the CPU says so on x86."""
    flags = cpu_flags(root)
    if isinstance(flags, Null):
        return flags
    return "hypervisor" in flags or (root / "sys/hypervisor/type").exists()


def container(root: Path = SYSTEM, environ: Mapping[str, str] | None = None) -> str | None:
    """The kind of container this runs in, as far as it can be seen; None: no sign of one."""
    env = os.environ if environ is None else environ
    if "KUBERNETES_SERVICE_HOST" in env:
        return "kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    if (root / "run/.containerenv").exists():
        return "podman"
    groups = known(read_text(root / "proc/1/cgroup")) or ""
    for word in ("kubepods", "docker", "containerd", "libpod", "lxc"):
        if word in groups:
            return word
    return env.get("container") or None


def wsl(root: Path = SYSTEM) -> bool:
    """Windows Subsystem for Linux: the kernel's release says so."""
    return "microsoft" in (known(kernel(root)) or "").lower()


def kernel(root: Path = SYSTEM) -> str | Null:
    """The kernel's release."""
    return read_text(root / "proc/sys/kernel/osrelease")


def os_name(root: Path = SYSTEM) -> str | Null:
    """The distribution's name and version (os-release(5))."""
    text = first(read_text(root / path) for path in ("etc/os-release", "usr/lib/os-release"))
    if isinstance(text, Null):
        return text
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    name = pairs.get("PRETTY_NAME") or pairs.get("ID")
    return name.strip("\"'") if name else Null(reason="os-release gives no name")


def board_model(root: Path = SYSTEM) -> str | None:
    """The name of an Arm board (say a Jetson), from the device tree."""
    return known(read_text(root / "proc/device-tree/model"))


def host_facts(
    nulls: dict[str, str], root: Path = SYSTEM, affinity: Iterable[int] | None = None
) -> dict[str, Any]:
    """CPU, memory and system of the fingerprint's platform; reasons go to `nulls` under dotted names."""
    cores = offered_cores(root, affinity)
    nulls.update({f"cpu.{key}": reason for key, reason in cores.nulls.items()})
    flags = told(cpu_flags(root), "cpu.isa", nulls)
    hybrid = hybrid_cores(root)
    return {
        "cpu": {
            "model": told(cpu_model(root), "cpu.model", nulls),
            "logical": cores.logical,
            "physical": cores.physical,
            "quota": cores.quota,
            "threads": cores.threads,
            "numa_nodes": told(node_count(root), "cpu.numa_nodes", nulls),
            "kinds": {kind: len(ids) for kind, ids in hybrid.items()} if hybrid else None,
            # Only where kinds differ: elsewhere all cores are alike, and old fingerprints stay equal.
            **({"identical": identical_cores(root, affinity)} if hybrid else {}),
            "isa": None if flags is None else sorted(flags & ISA_FLAGS),
        },
        "memory_gib": told(memory_gib(root), "memory_gib", nulls),
        "system": {
            "os": told(os_name(root), "system.os", nulls),
            "kernel": told(kernel(root), "system.kernel", nulls),
            "hypervisor": told(hypervisor(root), "system.hypervisor", nulls),
            "container": container(root),
            "wsl": wsl(root),
            "board": board_model(root),
        },
        "settings": _settings(cores, nulls, root),
    }


def _settings(cores: Cores, nulls: dict[str, str], root: Path) -> dict[str, Any]:
    names = told(governors(cores.ids, root), "settings.governor", nulls)
    return {
        "governor": None if names is None else ",".join(names),
        "scaling_driver": told(scaling_driver(root), "settings.scaling_driver", nulls),
        "turbo": told(turbo(root), "settings.turbo", nulls),
        "smt": told(smt(root), "settings.smt", nulls),
    }
