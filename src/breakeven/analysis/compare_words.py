"""What the facts are called that two sides of a comparison must share, and what one can do about them.

Knows nothing about why a fact must match.
"""

from collections.abc import Sequence

from breakeven.analysis.comparable import Difference

ACROSS = "--across-machines compares the two all the same, without a gate"
NAMES = {
    "work_id": "the work itself",
    "region": "what was timed",
    "machine": "the machine",
    "memory_gib": "the machine's memory in GiB",
    "unit.gpus": "the GPU board's id",
    "cpu.model": "the CPU's model",
    "cpu.isa": "the CPU's instruction sets",
    "cpu.logical": "the CPU's logical cores",
    "cpu.physical": "the CPU's cores",
    "cpu.threads": "the cores offered",
    "cpu.quota": "the container's share of the CPU",
    "cpu.kinds": "the CPU's kinds of cores",
    "cpu.numa_nodes": "the CPU's NUMA nodes",
    "hashes.weights": "the weights",
    "hashes.order": "the order of the images",
    "observed.conv_precision": "the precision of convolutions, as read back",
    "observed.matmul_precision": "the precision of matrix products, as read back",
    "core_loop_ns": "the speed of one core (ns of a loop)",
}
HIDDEN = ("work_id", "unit.gpus", "hashes.")
"""Facts whose values are hashes: that they differ is all that they tell."""


def name_of(field: str) -> str:
    """What a reader calls the fact: `unit.gpus` is the board's id."""
    if field in NAMES:
        return NAMES[field]
    head, _, rest = field.partition(".")
    number, _, of_board = rest.partition(".")
    if head == "gpus" and of_board:
        return f"GPU {number}'s {of_board.replace('_', ' ')}"
    if head in ("observed", "tuning") and rest:
        what = rest.replace("_", " ")
        return f"{what} as read back" if head == "observed" else f"the setting {what}"
    return f"the hash of {rest}" if head == "hashes" and rest else field


def told_of(differences: Sequence[Difference]) -> str:
    """What differs, in words, each once."""
    kind = any(d.field.startswith("gpus") for d in differences)
    return ", ".join(dict.fromkeys(_told(d, other_kind=kind) for d in differences))


def not_comparable(blocked: Sequence[Difference], elsewhere: Sequence[Difference]) -> str:
    """Why the two may not be compared; with the option that allows it where another machine is all.
    No option allows other work."""
    why = f"not comparable: {told_of(blocked)}"
    return f"{why}; {ACROSS}" if blocked and all(d in elsewhere for d in blocked) else why


def _told(d: Difference, *, other_kind: bool) -> str:
    if d.field == "unit.gpus" and not d.unknown:
        return f"another GPU board{'' if other_kind else ' of the same kind'} (its id differs)"
    if d.unknown:
        return f"{name_of(d.field)} ({d.unknown})"
    if d.field.startswith(HIDDEN):
        return f"{name_of(d.field)} differs" if d.field != "hashes.weights" else "the weights differ"
    return f"{name_of(d.field)} ({_short(d.base)} -> {_short(d.candidate)})"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:21]}..."
