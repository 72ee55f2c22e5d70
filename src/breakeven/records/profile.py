"""Rows of what a profiler saw of a few steps of one case: sums over all of them.

Knows nothing about profilers or files; shares and times a step are worked out where they are shown.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Operator:
    """One operator at one set of input shapes, summed over the profiled steps.

    `kind`: an `annotation` is a stretch of the framework's or the user's code that carries a name, such as an
    optimizer's step. `shapes`: of each input, empty for what is no tensor; None where they are not known.
    `self_` leaves out what it called in turn. Host times are the host's, on whatever device the case ran: of
    a GPU that is launching and waiting, and no measure of a CPU. Device times are those of the kernels that
    it launched; None where nothing is launched. `flops`: what the profiler counts, None where it counts none.
    `self_host_mib`, `self_device_mib`: allocated less freed, MiB; below 0 where it frees what others made.
    """

    name: str
    kind: Literal["operator", "annotation"] = "operator"
    shapes: tuple[tuple[int, ...], ...] | None = None
    calls: int
    self_host_ns: int | None = None
    total_host_ns: int | None = None
    self_device_ns: int | None = None
    total_device_ns: int | None = None
    flops: int | None = None
    self_host_mib: float | None = None
    self_device_mib: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Kernel:
    """One kernel, or one kind of copy, summed over its `calls` in the profiled steps."""

    name: str
    calls: int
    device_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Gaps:
    """Stretches between kernels in which the device ran none, from `from_ns` up to below `to_ns` long.

    `count` of them took `ns` in all. `to_ns` None: of any length above.
    """

    from_ns: int
    to_ns: int | None
    count: int
    ns: int
