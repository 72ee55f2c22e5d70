"""What about this machine would spoil a measurement, or should be known when its numbers are read.

Knows nothing about studies or results; it looks at the machine once and advises.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from breakeven.timing.cpu import Cores, hybrid_cores, node_count, offered_cores
from breakeven.timing.host import container, governors, hypervisor, scaling_driver, wsl
from breakeven.timing.probes.contention import GPU_BUSY_SHARE, GPU_USED_MIB
from breakeven.timing.probes.nvml import (
    Board,
    all_boards,
    decode,
    is_mig,
    load_nvml,
    process_ids,
    throttle_mask,
    used_mib,
    utilisation,
)
from breakeven.timing.probes.processes import tree
from breakeven.timing.probes.rapl import read_rapl
from breakeven.timing.readings import SYSTEM, Null, kib, known, listed, read_int, read_pairs, read_text

HOT_C = 90.0
"""Most CPUs slow down at 95 to 105 degrees Celsius; at 90 before the measurement it will."""
LOAD_SHARE = 0.10
"""Load average over one minute, by offered CPU: what a measurement may find taken (see contention)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Concern:
    """One line for `doctor`. `spoils`: numbers would be wrong; `note`: this belongs beside them."""

    severity: Literal["spoils", "note"]
    text: str
    fix: str | None = None


def findings_for_doctor(
    *,
    root: Path = SYSTEM,
    nvml: Any = None,
    affinity: Iterable[int] | None = None,
    environ: Mapping[str, str] | None = None,
) -> tuple[Concern, ...]:
    """What would spoil a measurement first, then what to note. Takes milliseconds."""
    env = os.environ if environ is None else environ
    cores = offered_cores(root, affinity)
    found = [
        *_clock_concerns(cores, root),
        *_core_concerns(cores, root),
        *_load_concerns(cores, root),
        *_power_concerns(root),
        *_place_concerns(root, env),
        *_gpu_concerns(load_nvml() if nvml is None else nvml, root),
    ]
    return tuple(sorted(found, key=lambda concern: concern.severity != "spoils"))


def _clock_concerns(cores: Cores, root: Path) -> Iterator[Concern]:
    if "powersave" not in (known(governors(cores.ids, root)) or ()):
        return
    driver = known(scaling_driver(root)) or ""
    fix = "sudo cpupower frequency-set -g performance"
    # These two steer by load under the name powersave; with other drivers it is the lowest clock.
    if driver in ("intel_pstate", "amd-pstate-epp"):
        yield Concern(
            severity="note",
            text=f"governor powersave ({driver}: clocks follow the load, with delay)",
            fix=fix,
        )
    else:
        yield Concern(severity="spoils", text="governor powersave: the CPU runs at its lowest clock", fix=fix)


def _core_concerns(cores: Cores, root: Path) -> Iterator[Concern]:
    physical = cores.physical or cores.logical
    if cores.quota is not None and cores.quota < physical:
        yield Concern(
            severity="spoils" if cores.quota < 1 else "note",
            text=f"a cgroup quota of {cores.quota:g} CPUs on {physical} cores: threads = {cores.threads}",
            fix="raise the container's CPU limit, or remove it and pin CPUs (docker run --cpuset-cpus)",
        )
    if (kinds := hybrid_cores(root)) is not None:
        text = ", ".join(f"{len(ids)} {kind}" for kind, ids in kinds.items())
        yield Concern(severity="note", text=f"cores of several kinds ({text}): the slowest sets the pace")
    nodes = known(node_count(root))
    if nodes is not None and nodes > 1:
        yield Concern(severity="note", text=f"{nodes} NUMA nodes: memory of another node is slower")


def _load_concerns(cores: Cores, root: Path) -> Iterator[Concern]:
    words = (known(read_text(root / "proc/loadavg")) or "").split()
    load = float(words[0]) if words else 0.0
    # One half: this command itself and what the shell has just done.
    if load > max(0.5, LOAD_SHARE * cores.logical):
        yield Concern(
            severity="spoils",
            text=f"load average {load:g} on {cores.logical} CPUs: other programs are running",
            fix="stop them, or wait (top shows them)",
        )
    memory = read_pairs(root / "proc/meminfo")
    total, free = known(kib(memory, "SwapTotal")), known(kib(memory, "SwapFree"))
    if total is not None and free is not None and total > free:
        yield Concern(
            severity="note",
            text=f"{(total - free) / 1024:.0f} MiB are swapped out",
            fix="free memory, then: sudo swapoff -a && sudo swapon -a",
        )


def _power_concerns(root: Path) -> Iterator[Concern]:
    for supply in listed(root / "sys/class/power_supply", "*"):
        if known(read_text(supply / "status")) == "Discharging":
            yield Concern(severity="spoils", text="running on battery", fix="plug the power supply in")
            break
    for zone in listed(root / "sys/class/thermal", "thermal_zone*"):
        kind, millidegrees = known(read_text(zone / "type")) or "", known(read_int(zone / "temp"))
        if "cpu" not in kind.lower() and kind != "x86_pkg_temp":
            continue
        if millidegrees is not None and millidegrees / 1000 >= HOT_C:
            yield Concern(
                severity="spoils",
                text=f"the CPU is at {millidegrees / 1000:.0f} degrees Celsius",
                fix="let it cool, check the fans",
            )
    rapl = read_rapl(root)
    missing = (
        [rapl] if isinstance(rapl, Null) else [e for e in rapl.energy_uj.values() if isinstance(e, Null)]
    )
    if missing:
        text, _, fix = missing[0].reason.partition("; allow it with: ")
        yield Concern(severity="note", text=f"no CPU energy: {text}", fix=fix or None)


def _place_concerns(root: Path, environ: Mapping[str, str]) -> Iterator[Concern]:
    if wsl(root):
        yield Concern(
            severity="note", text="WSL: GPU and file times differ from Linux on the metal", fix="boot Linux"
        )
    elif known(hypervisor(root)):
        yield Concern(severity="note", text="a virtual machine: neighbours and real clocks cannot be seen")
    if (kind := container(root, environ)) is not None:
        yield Concern(severity="note", text=f"a container ({kind}): other GPU processes may not be listed")


def _gpu_concerns(nvml: Any, root: Path) -> Iterator[Concern]:
    boards = nvml if isinstance(nvml, Null) else all_boards(nvml)
    if isinstance(boards, Null):
        yield Concern(severity="note", text=f"no GPU is measured: {boards.reason}")
        return
    own = tree(root)
    for index, board in enumerate(boards):
        yield from _board_concerns(board, f"GPU {index}", own)


def _board_concerns(board: Board, name: str, own: frozenset[int]) -> Iterator[Concern]:
    busy, used, ids = known(utilisation(board)), known(used_mib(board)), known(process_ids(board))
    look = "see nvidia-smi, and stop them"
    if busy is not None and busy > GPU_BUSY_SHARE:
        yield Concern(severity="spoils", text=f"{name} is {busy:.0%} busy", fix=look)
    if others := (ids or frozenset()) - own:
        yield Concern(
            severity="spoils", text=f"{name}: {len(others)} other processes compute on it", fix=look
        )
    if used is not None and used > GPU_USED_MIB:
        yield Concern(severity="spoils", text=f"{name}: others hold {used:.0f} MiB of its memory", fix=look)
    mask = known(throttle_mask(board))
    if mask is not None and (throttle := decode(mask)[0]):
        yield Concern(
            severity="spoils", text=f"{name} is throttled: {', '.join(throttle)}", fix="check cooling"
        )
    if is_mig(board):
        yield Concern(severity="note", text=f"{name} is cut by MIG: energy and memory of a slice are unknown")
    if known(board.ask("nvmlDeviceGetPersistenceMode")) == 0:
        yield Concern(
            severity="note",
            text=f"{name}: persistence mode is off, so first calls are slower",
            fix="sudo nvidia-smi -pm 1",
        )
    if known(board.ask("nvmlDeviceGetDisplayActive")) == 1:
        yield Concern(severity="note", text=f"{name} drives a display, which takes some of its time")
