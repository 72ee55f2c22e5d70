"""The CPUs this process may use: affinity, cgroup quota along the whole chain, physical cores, where to pin.

Knows nothing about frameworks or about what the cores are used for.
"""

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from breakeven.errors import UserError
from breakeven.timing.readings import (
    SYSTEM,
    Null,
    known,
    read_cpu_list,
    read_int,
    read_pairs,
    read_text,
    told,
)

CPUS = "sys/devices/system/cpu"


@dataclass(frozen=True, kw_only=True, slots=True)
class Cores:
    """What is offered to this process. `threads`: how many compute threads that is, at least 1.

    `logical` counts hardware threads, `physical` cores (one core has one or two of them), `quota` is in CPUs
    (CPU seconds a second), None where nothing limits it. `ids` are the logical CPUs of the affinity mask.
    """

    logical: int
    physical: int | None
    quota: float | None
    threads: int
    ids: tuple[int, ...] = ()
    nulls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Cgroup:
    """One level of the CPU controller: its folder and whether it is of cgroup version 1 or 2."""

    folder: Path
    version: int


def affinity_ids() -> tuple[int, ...]:
    """Logical CPUs that this thread may run on (sched_getaffinity, so cpusets count)."""
    return tuple(sorted(os.sched_getaffinity(0)))


def offered_cores(root: Path = SYSTEM, affinity: Iterable[int] | None = None) -> Cores:
    """Threads = min(physical cores in the mask, whole CPUs of the tightest quota), at least 1."""
    ids = affinity_ids() if affinity is None else tuple(sorted(affinity))
    nulls: dict[str, str] = {}
    cores = {core_of(root, cpu) for cpu in ids}
    physical = None if None in cores else len(cores)
    if physical is None:
        nulls["physical"] = f"{root / CPUS} does not say which CPUs share a core"
    quota = told(tightest_quota(root), "quota", nulls)
    limit = physical or len(ids)
    if quota is not None:
        limit = min(limit, math.floor(quota))
    return Cores(
        logical=len(ids), physical=physical, quota=quota, threads=max(1, limit), ids=ids, nulls=nulls
    )


def core_of(root: Path, cpu: int) -> tuple[int, ...] | None:
    """The logical CPUs of the core that `cpu` belongs to: what names a physical core. None: unknown."""
    folder = root / CPUS / f"cpu{cpu}" / "topology"
    # The first name is the one since Linux 5.3, the second the old one.
    siblings = known(read_cpu_list(folder / "core_cpus_list"))
    return siblings or known(read_cpu_list(folder / "thread_siblings_list")) or None


def node_of(root: Path, cpu: int) -> int:
    """The NUMA node of a CPU; 0 where the kernel knows no nodes."""
    for entry in (root / CPUS / f"cpu{cpu}").glob("node[0-9]*"):
        return int(entry.name.removeprefix("node"))
    return 0


def node_count(root: Path = SYSTEM) -> int | Null:
    """NUMA nodes of this machine."""
    nodes = read_cpu_list(root / "sys/devices/system/node/online")
    return nodes if isinstance(nodes, Null) else len(nodes)


def hybrid_cores(root: Path = SYSTEM) -> dict[str, tuple[int, ...]] | None:
    """Logical CPUs by kind on a machine with two or more kinds of core; None where all are alike.

    Intel names them as two performance-monitor devices; Arm gives each CPU a relative capacity.
    """
    named = {
        kind: ids
        for kind, device in (("performance", "cpu_core"), ("efficiency", "cpu_atom"))
        if (ids := known(read_cpu_list(root / "sys/devices" / device / "cpus")))
    }
    if len(named) == 2:
        return named
    by_capacity: dict[int, list[int]] = {}
    for cpu in known(read_cpu_list(root / CPUS / "online")) or ():
        capacity = known(read_int(root / CPUS / f"cpu{cpu}" / "cpu_capacity"))
        if capacity is not None:
            by_capacity.setdefault(capacity, []).append(cpu)
    if len(by_capacity) < 2:
        return None
    return {f"capacity-{capacity}": tuple(ids) for capacity, ids in sorted(by_capacity.items(), reverse=True)}


def core_ids_for(threads: int, root: Path = SYSTEM, affinity: Iterable[int] | None = None) -> tuple[int, ...]:
    """The logical CPUs to pin `threads` compute threads to.

    Distinct physical cores first, then second hardware threads; among equals the fast kind of core first and
    one NUMA node after the other. Raises UserError if fewer CPUs are offered.
    """
    ids = affinity_ids() if affinity is None else tuple(sorted(affinity))
    if not 1 <= threads <= len(ids):
        raise UserError(f"{threads} threads asked for, but this process may use {len(ids)} CPUs")
    kinds = [set(members) for members in (hybrid_cores(root) or {}).values()]
    seen: dict[tuple[int, ...] | None, int] = {}
    ranked = []
    for cpu in ids:
        core = core_of(root, cpu) or (cpu,)
        sibling = seen[core] = seen.get(core, -1) + 1
        kind = next((rank for rank, members in enumerate(kinds) if cpu in members), len(kinds))
        ranked.append((sibling, kind, node_of(root, cpu), cpu))
    return tuple(sorted(cpu for *_, cpu in sorted(ranked)[:threads]))


def identical_cores(root: Path = SYSTEM, affinity: Iterable[int] | None = None) -> int:
    """Physical cores of one kind, the fastest that is offered, as far as `offered_cores` allows: what
    `core_ids_for` takes first, so up to this many threads run on cores that are alike and not shared.
    """
    offered = offered_cores(root, affinity)
    kinds = [set(members) & set(offered.ids) for members in (hybrid_cores(root) or {}).values()]
    fastest = next((ids for ids in kinds if ids), set(offered.ids))
    cores = {core_of(root, cpu) for cpu in fastest}
    alike = len(fastest) if None in cores else len(cores)
    return max(1, min(offered.threads, alike))


def tightest_quota(root: Path = SYSTEM) -> float | Null | None:
    """CPUs that the tightest cgroup of the chain allows; None: no limit; Null: no controller is seen."""
    chain = tuple(cgroup_chain(root))
    if not chain:
        return Null(reason="no cgroup CPU controller is visible here")
    quotas = [quota for level in chain if (quota := quota_of(level)) is not None]
    return min(quotas, default=None)


def quota_of(level: Cgroup) -> float | None:
    """CPUs that one cgroup allows, None where it sets no limit."""
    if level.version == 2:
        words = (known(read_text(level.folder / "cpu.max")) or "max").split()
        quota, period = words[0], words[1] if len(words) > 1 else "100000"  # the kernel's default period, us
    else:
        quota = str(known(read_int(level.folder / "cpu.cfs_quota_us")) or -1)
        period = str(known(read_int(level.folder / "cpu.cfs_period_us")) or 100000)
    if not quota.isdecimal() or not period.isdecimal() or int(period) == 0:
        return None
    return int(quota) / int(period)


def throttled_periods(root: Path = SYSTEM) -> int | Null:
    """How often the chain's quotas have stopped this process's groups (nr_throttled, summed)."""
    counts = []
    for level in cgroup_chain(root):
        pairs = known(read_pairs(level.folder / "cpu.stat")) or {}
        if pairs.get("nr_throttled", "").isdecimal():
            counts.append(int(pairs["nr_throttled"]))
    if not counts:
        return Null(reason="no cgroup here counts throttled periods")
    return sum(counts)


def cgroup_chain(root: Path = SYSTEM) -> Iterator[Cgroup]:
    """The CPU controller's cgroups of this process from its own up to the highest that is visible."""
    groups = _own_groups(root)
    for version, mount, top in _mounts(root):
        name = groups.get(version)
        if name is None:
            continue
        inside = PurePosixPath(name)
        # In a container the mount shows a subtree only, whose top is the container's own group.
        if top != "/" and inside.is_relative_to(top):
            inside = PurePosixPath("/") / inside.relative_to(top)
        parts = [part for part in inside.parts if part not in ("/", "..")]
        for depth in range(len(parts), -1, -1):
            folder = mount.joinpath(*parts[:depth])
            if folder.is_dir():
                yield Cgroup(folder=folder, version=version)


def _own_groups(root: Path) -> dict[int, str]:
    """Version -> path of this process's group under that version's CPU controller (cgroups(7))."""
    groups: dict[int, str] = {}
    for line in (known(read_text(root / "proc/self/cgroup")) or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) != 3:
            continue
        if parts[0] == "0" and not parts[1]:
            groups[2] = parts[2]
        elif "cpu" in parts[1].split(","):
            groups[1] = parts[2]
    return groups


def _mounts(root: Path) -> list[tuple[int, Path, str]]:
    """(version, mount point, group that is mounted there) of the CPU controllers (proc_pid_mountinfo(5))."""
    mounts = []
    for line in (known(read_text(root / "proc/self/mountinfo")) or "").splitlines():
        before, _, after = line.partition(" - ")
        place, kind = before.split(), after.split()
        if len(place) < 5 or len(kind) < 3:
            continue
        mount = root / place[4].lstrip("/")
        if kind[0] == "cgroup2":
            mounts.append((2, mount, place[3]))
        elif kind[0] == "cgroup" and "cpu" in kind[2].split(","):
            mounts.append((1, mount, place[3]))
    return mounts or [(2, root / "sys/fs/cgroup", "/"), (1, root / "sys/fs/cgroup/cpu", "/")]
