"""Bandwidth by the size of a copy: what was reached, what bounds it, and where it is no number.

Knows nothing about how a copy is timed. What passes the link's limit is refused: no tuning of a copy can.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from breakeven.catalog.peaks import gpu_peak
from breakeven.records.file import Results
from breakeven.records.lines import Ceiling, Fingerprint
from breakeven.records.transfers import kind_and_size

GT_PER_S = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""Gigatransfers a second and lane, one bit each, by PCI Express generation (PCI-SIG base specifications)."""
CODED = {1: 8 / 10, 2: 8 / 10, 3: 128 / 130, 4: 128 / 130, 5: 128 / 130, 6: 242 / 256}
"""Share of the bits that are data: 8b/10b, 128b/130b, and 242 of a FLIT's 256 bytes."""
OWN_LINK = ("GH200", "GB200", "GB300", "GB10")
"""Boards joined to their CPU by NVLink-C2C: what NVML says of PCI Express does not bound them."""
BEYOND_CACHES = 4
"""A copy of so many times the last cache is the memory's: below it a cache may be faster honestly."""
CONTENDED = "contended"
HALF = 0.5
"""Of the most that a kind reaches: from which size a sentence says so."""
MEMORY_SLACK = 1.1
"""By this factor a memory's datasheet may be passed, since its clock may be set; a link's limit may not."""

Value = float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class BandwidthFinding:
    """Copies of one kind and size on a device: 10^9 bytes a second, and seconds a copy one after the other.

    `kind`: `copy` within one memory, whose bytes read and written both count; of the others each byte counts
    once. `limit_gb_per_s` is the link's or the memory's, named by `limit_of`.
    """

    device_label: str
    kind: str
    bytes: int
    gb_per_s: Value = None
    copy_s: Value = None
    limit_gb_per_s: Value = None
    limit_of: str | None = None
    flags: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    machine: str | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)
    source: str = ""


def bandwidths_of(results: Results) -> list[BandwidthFinding]:
    """The best line of each device, kind and size, by device and kind and then by size."""
    best: dict[tuple[str, str, str], Ceiling] = {}
    for line in results.ceilings:
        key = line.fingerprint_id, line.device_label, line.name
        if kind_and_size(line.name) and (key not in best or line.rank > best[key].rank):
            best[key] = line
    machines = {line.fingerprint_id: line for line in results.fingerprints}
    found = [_finding(line, machines.get(line.fingerprint_id), results.path) for line in best.values()]
    places = list(dict.fromkeys((f.machine, f.device_label, f.kind) for f in found))
    return sorted(found, key=lambda f: (places.index((f.machine, f.device_label, f.kind)), f.bytes))


def sentences_of_bandwidths(found: Sequence[BandwidthFinding]) -> list[str]:
    """One sentence a device: the most that each kind reaches, and from which size half of it."""
    out = []
    for label in dict.fromkeys(f.device_label for f in found):
        parts = [
            text
            for kind in dict.fromkeys(f.kind for f in found if f.device_label == label)
            if (text := _said([f for f in found if (f.device_label, f.kind) == (label, kind)]))
        ]
        if parts:
            busy = any(CONTENDED in f.flags for f in found if f.device_label == label)
            meanwhile = " (others used the machine meanwhile: it can do more)" if busy else ""
            out.append(f"Bandwidth of {label}: {'; '.join(parts)}{meanwhile}.")
    refused = [f for f in found if "faster than" in f.reasons.get("gb_per_s", "")]
    if refused:
        out.append(f"{len(refused)} bandwidths are refused: {refused[0].reasons['gb_per_s']}.")
    return out


def _said(mine: Sequence[BandwidthFinding]) -> str | None:
    known = [(f.bytes, f.gb_per_s) for f in mine if f.gb_per_s is not None]
    if not known:
        return None
    most, at = max((rate, size) for size, rate in known)
    half = min(size for size, rate in known if rate >= HALF * most)
    kind = mine[0].kind.replace("_", " ")
    return f"{kind} at most {most:.3g} GB/s (copies of {words(at)}), half of it from {words(half)}"


def words(size: int) -> str:
    """`64 KiB`, `1 GiB`."""
    for unit, factor in (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024)):
        if size >= factor:
            return f"{size / factor:.4g} {unit}"
    return f"{size} B"


def link_limit(board: Mapping[str, Any]) -> tuple[float, str] | str:
    """(GB/s one way, its name) of a board's PCI Express link at its widest, or why it is not known."""
    name, generation = str(board.get("name")), board.get("max_pcie_generation")
    width = board.get("max_pcie_width")
    if any(word in name for word in OWN_LINK):
        return f"{name} is linked to its CPU by NVLink-C2C, whose limit is not read"
    if not isinstance(generation, int) or not isinstance(width, int) or generation not in GT_PER_S:
        return "the fingerprint does not tell the PCI Express link"
    rate = GT_PER_S[generation] * CODED[generation] * width / 8
    return rate, f"PCI Express {generation}.0 x{width}"


def _finding(line: Ceiling, machine: Fingerprint | None, source: str) -> BandwidthFinding:
    named = kind_and_size(line.name)
    assert named is not None
    kind, size = named
    limit = _limit(line, kind, size, machine)
    value, reasons = line.value, {}
    if value is None:
        reasons["gb_per_s"] = line.reason or "not told"
    if isinstance(limit, str):
        if limit:
            reasons["limit_gb_per_s"] = limit
    elif value is not None and value > limit[0] * (MEMORY_SLACK if kind == "copy" else 1.0):
        reasons["gb_per_s"] = f"faster than the hardware: {value:.4g} of {limit[0]:.4g} GB/s ({limit[1]})"
        value = None
    flags = line.conditions.get("flags")
    counted = line.conditions.get("bytes_per_element")
    moved = size * (counted / 4 if isinstance(counted, int | float) else 1)
    return BandwidthFinding(
        device_label=line.device_label,
        kind=kind,
        bytes=size,
        gb_per_s=value,
        copy_s=None if not value else moved / value / 1e9,
        limit_gb_per_s=None if isinstance(limit, str) else limit[0],
        limit_of=None if isinstance(limit, str) else limit[1],
        flags=tuple(map(str, flags)) if isinstance(flags, list | tuple) else (),
        evidence=(line.ceiling_id,),
        machine=line.fingerprint_id,
        reasons=reasons,
        source=source,
    )


def _limit(line: Ceiling, kind: str, size: int, machine: Fingerprint | None) -> tuple[float, str] | str:
    """What bounds a copy, or why that is not known; nothing is said where nothing could be."""
    if not line.device_label.startswith("cuda"):
        return ""
    boards = machine.platform.get("gpus") if machine else None
    here = [b for b in boards if isinstance(b, Mapping)] if isinstance(boards, list | tuple) else []
    mine = [b for b in here if b.get("name") == line.conditions.get("device_name")] or here
    if not mine:
        return "the fingerprint does not tell which board ran"
    if kind != "copy":
        return _widest(mine)
    cache = line.conditions.get("cache_bytes")
    if not isinstance(cache, int) or size < BEYOND_CACHES * cache:
        return "a copy of this size may stay in a cache"
    memory = mine[0].get("memory_gib")
    peak = gpu_peak(str(mine[0].get("name")), memory if isinstance(memory, int | float) else None)
    if peak is None or not peak.bandwidth_gb_per_s:
        return f"no datasheet of {mine[0].get('name')} is known here"
    return peak.bandwidth_gb_per_s, "the memory's datasheet"


def _widest(boards: Iterable[Mapping[str, Any]]) -> tuple[float, str] | str:
    """The widest link of boards that cannot be told apart."""
    limits = [link_limit(board) for board in boards]
    known = [limit for limit in limits if not isinstance(limit, str)]
    unknown = [limit for limit in limits if isinstance(limit, str)]
    return unknown[0] if unknown else max(known)
