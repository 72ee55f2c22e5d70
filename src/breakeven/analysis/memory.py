"""What each number of memory means: who counted it, and what it holds. Numbers of two meanings never compare.

Knows nothing about how memory is read. A name that is not known here is a framework's own counter.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Meaning:
    """One meaning: numbers within it may be set against each other on one device, across it never."""

    name: str
    counted_by: str
    holds: str


RESIDENT = Meaning(
    name="host, resident",
    counted_by="the kernel",
    holds="pages of the process in host memory: libraries, data, weights and activations of a CPU case",
)
WORKERS = Meaning(
    name="host, loader workers",
    counted_by="the kernel",
    holds="the sum of the workers' own peaks: pages that they share count in each",
)
ALLOCATED = Meaning(
    name="device, allocated",
    counted_by="the framework",
    holds="what live tensors occupy, as this framework rounds it; its workspaces as far as it counts them",
)
RESERVED = Meaning(
    name="device, reserved",
    counted_by="the framework",
    holds="what its allocator has taken from the driver, free blocks kept for later included",
)
BOARD = Meaning(
    name="device, in use",
    counted_by="the driver (NVML)",
    holds="the whole board, by whomever: context, kernels, every process",
)
ADDED = Meaning(
    name="device, added by the case",
    counted_by="the driver (NVML)",
    holds="the board's use less that before the case began: context and kernels included",
)
OWN = Meaning(name="the framework's own", counted_by="the framework", holds="as its documentation says")

ORDER = (RESIDENT, WORKERS, ALLOCATED, RESERVED, BOARD, ADDED, OWN)


def meaning_of(name: str) -> Meaning:
    """The meaning of a record's memory key, such as `torch_allocated_peak_mib`."""
    plain = name.removesuffix("_mib")
    if plain.startswith("host_rss"):
        return RESIDENT
    if plain.startswith("workers_rss"):
        return WORKERS
    if plain.startswith("device_used"):
        return ADDED if "delta" in plain else BOARD
    if "reserved" in plain or "pool" in plain or "limit" in plain:
        return RESERVED
    if any(word in plain for word in ("allocated", "in_use", "current", "peak")):
        return ALLOCATED
    return OWN
