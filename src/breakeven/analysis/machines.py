"""The machines of a file in a few facts each, from their fingerprint lines.

Knows nothing about how a fingerprint is taken, only where it holds what.
"""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from breakeven.records.lines import Attempt, Fingerprint

FACTS = {
    "cpu": "cpu.model",
    "cores": "cpu.threads",
    "driver": "nvidia.driver",
    "python": "python",
    "torch": "libraries.torch",
}
"""Fact -> where a fingerprint's platform holds it (timing/machine.py)."""


def machine(line: Fingerprint) -> dict[str, Any]:
    """fingerprint_id, cpu, cores, gpu, driver, python, torch: those that are known."""
    facts = {fact: _at(line.platform, place) for fact, place in FACTS.items()} | {"gpu": _gpus(line.platform)}
    order = ("cpu", "cores", "gpu", "driver", "python", "torch")
    known = {fact: facts[fact] for fact in order if facts[fact] is not None}
    return {"fingerprint_id": line.fingerprint_id} | known


def core_loop_ns(attempts: Sequence[Attempt], fingerprint_id: str) -> float | None:
    """Median nanoseconds of the interpreter's fixed loop over a machine's processes: the speed of one core.

    A step that waits for launches follows it, whatever the GPU (contract R20). None where none was measured.
    """
    seen = [a.observed.get("core_loop_ns") for a in attempts if a.fingerprint_id == fingerprint_id]
    known = [float(ns) for ns in seen if isinstance(ns, int | float) and ns > 0]
    return statistics.median(known) if known else None


def cores_of(attempts: Sequence[Attempt], machines: Sequence[Mapping[str, Any]]) -> int | None:
    """Cores that a process without a limit may use; None where that is not known or not one number."""
    counts = {found.get("cores") for found in machines} - {None}
    if not counts:
        free = [a for a in attempts if a.device.threads is None]
        counts = {a.observed.get("cores_offered") for a in free} - {None}
    one = counts.pop() if len(counts) == 1 else None
    return one if isinstance(one, int) else None


def _at(platform: Mapping[str, Any], place: str) -> str | int | None:
    value: Any = platform
    for part in place.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, str | int) and value != "" else None


def _gpus(platform: Mapping[str, Any]) -> str | None:
    """ "NVIDIA H200", "2 x NVIDIA H200"; unlike boards one after the other."""
    boards = platform.get("gpus")
    if not isinstance(boards, list | tuple):
        return None
    names = Counter(
        str(board["name"]) for board in boards if isinstance(board, Mapping) and board.get("name")
    )
    return ", ".join(name if n == 1 else f"{n} x {name}" for name, n in names.items()) or None
