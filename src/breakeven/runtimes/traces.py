"""Chrome traces, as the profilers of most frameworks write them: kept without names, kernels and gaps read.

Knows nothing about a framework. A trace is JSON with `traceEvents`, whose `ts` and `dur` are microseconds
(the Trace Event Format); Perfetto and chrome://tracing open it.
"""

import gzip
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from breakeven.records.profile import Gaps, Kernel, Operator

STEP = "breakeven::step"
"""The annotation around each step, in the trace; it is no row, for it holds all the others."""
NOTHING_LAUNCHED = "a CPU runs its operators itself: nothing is launched"
NAMES = ("host_name", "traceName", "hostname", "username")
"""Keys of a trace that say who measured where; traceName is a path."""
LONGEST_NAME = 300
MOST_KERNELS = 100
MOST_ROWS = 400
"""Rows of operators kept, by their own time: ResNet152's training has about 300."""
EDGES_NS = (0, 1_000, 10_000, 100_000, 1_000_000)
"""Lengths that tell gaps apart: a launch costs the host 2 to 10 us, so that longer gaps are waits for it."""

Event = Mapping[str, Any]
Stretch = tuple[int, int]
"""From and to, nanoseconds."""


def read(path: Path) -> dict[str, Any]:
    """A trace's JSON, gzipped or plain. Raises ValueError where it is no trace."""
    data = path.read_bytes()
    trace = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    if not isinstance(trace, dict) or not isinstance(trace.get("traceEvents"), list):
        raise ValueError(f"{path.name} is no trace: it has no traceEvents")
    return trace


def write(path: Path, trace: Mapping[str, Any]) -> None:
    """Writes a trace as gzipped JSON, without the names of the machine and the user."""
    kept = {key: value for key, value in trace.items() if key not in NAMES}
    data = json.dumps(kept, separators=(",", ":")).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    # No time and no name in the file's head: equal traces are equal files.
    path.write_bytes(gzip.compress(data, compresslevel=6, mtime=0))


def on_device(trace: Mapping[str, Any], categories: Collection[str]) -> list[Event]:
    """The complete events of these categories: what ran on the device."""
    events: Iterable[Event] = trace["traceEvents"]
    return [e for e in events if e.get("ph") == "X" and e.get("cat") in categories]


def kernels(events: Iterable[Event]) -> tuple[Kernel, ...]:
    """Sums by name, the longest first, at most MOST_KERNELS of them."""
    sums: dict[str, tuple[int, int]] = {}
    for event in events:
        name = str(event.get("name"))[:LONGEST_NAME]
        calls, ns = sums.get(name, (0, 0))
        start, end = _stretch(event)
        sums[name] = calls + 1, ns + end - start
    rows = [Kernel(name=name, calls=calls, device_ns=ns) for name, (calls, ns) in sums.items()]
    return tuple(sorted(rows, key=lambda row: -row.device_ns)[:MOST_KERNELS])


def span_busy_gaps(events: Iterable[Event]) -> tuple[int | None, int | None, tuple[Gaps, ...]]:
    """Nanoseconds from the first kernel's start to the last one's end, those in which one ran, and the gaps.

    Kernels of several streams may overlap: a gap is where none of them ran. All None or empty without any.
    """
    merged = list(_merged(sorted(map(_stretch, events))))
    if not merged:
        return None, None, ()
    span = merged[-1][1] - merged[0][0]
    busy = sum(end - start for start, end in merged)
    between = [b[0] - a[1] for a, b in itertools.pairwise(merged)]
    return span, busy, tuple(_by_length(between))


def own_ns(stretches: Sequence[Stretch]) -> list[int]:
    """Of each stretch on one thread the nanoseconds that none within it covers, in the order given.

    Stretches of a thread nest. One that begins within another and outlasts it (by a rounded nanosecond)
    takes from it what both cover.
    """
    own = [end - start for start, end in stretches]
    around: list[int] = []
    for i in sorted(range(len(own)), key=lambda i: (stretches[i][0], -stretches[i][1])):
        start, end = stretches[i]
        while around and stretches[around[-1]][1] <= start:
            around.pop()
        if around:
            own[around[-1]] -= min(end, stretches[around[-1]][1]) - start
        around.append(i)
    return own


def covered_ns(stretches: Iterable[Stretch]) -> int:
    """Nanoseconds in which at least one of them was under way."""
    return sum(end - start for start, end in _merged(sorted(stretches)))


def most_at_once(stretches: Iterable[Stretch]) -> int:
    """How many of them were under way at the same time, at most."""
    edges = sorted(edge for start, end in stretches for edge in ((start, 1), (end, -1)))
    return max(itertools.accumulate((step for _, step in edges), initial=0))


def kept(rows: Iterable[Operator]) -> tuple[tuple[Operator, ...], dict[str, int]]:
    """(the MOST_ROWS rows of longest own time, what a profile's `left_out` says of the others)."""
    ordered = sorted(rows, key=lambda row: -max(row.self_host_ns or 0, row.self_device_ns or 0))
    first, rest = ordered[:MOST_ROWS], ordered[MOST_ROWS:]
    if not rest:
        return tuple(first), {}
    host, device = (sum(getattr(row, name) or 0 for row in rest) for name in SELF)
    return tuple(first), {"rows": len(rest), "self_host_ns": host, "self_device_ns": device}


SELF = ("self_host_ns", "self_device_ns")


def _merged(stretches: Sequence[Stretch]) -> Iterator[Stretch]:
    """Sorted stretches with those that touch or overlap joined."""
    current: Stretch | None = None
    for start, end in stretches:
        if current is None:
            current = start, end
        elif start <= current[1]:
            current = current[0], max(current[1], end)
        else:
            yield current
            current = start, end
    if current is not None:
        yield current


def _by_length(gaps: Sequence[int]) -> Iterator[Gaps]:
    for low, high in zip(EDGES_NS, (*EDGES_NS[1:], None), strict=True):
        mine = [ns for ns in gaps if low <= ns and (high is None or ns < high)]
        if mine:
            yield Gaps(from_ns=low, to_ns=high, count=len(mine), ns=sum(mine))


def _stretch(event: Event) -> Stretch:
    """Nanoseconds; both ends are rounded, so that neighbours do not come to overlap."""
    start = float(event.get("ts", 0.0))
    return round(1000 * start), round(1000 * (start + float(event.get("dur", 0.0))))
