"""What JAX and TensorFlow record under their profilers, an XSpace: its operators, kernels and trace.

Knows nothing about either framework nor about the file: who reads it hands over its events. What they mean
is told by XLA's and TensorFlow's own names: a thunk (an instruction of a compiled program) has the stat
`hlo_op`, a kernel of a graph is named `NODE:TYPE`, an eager call `EagerLocalExecute: TYPE`, and what runs on
a GPU lies in a line for each stream, with `hlo_op` or `tf_op` if its launch was annotated.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakeven.records.profile import Operator
from breakeven.runtimes import Profile, traces

GRAPH_KERNEL = re.compile(r"[A-Za-z0-9.][\w.\\/<>-]*:(_?[A-Z]\w*)")
EAGER = "EagerLocalExecute: "
NUMBER = re.compile(r"(\.\d+)+$")
"""XLA numbers the instructions of a program; the kind is the same in every program."""
GPU, STREAM = "/device:GPU", "Stream"
KERNEL, OPERATOR, HOST, POOL = "kernel", "operator", "host", "pool"
"""Categories of a trace's events."""
END = "end: "
"""XLA's mark that a thunk is done whose work its threads took over: any of them may set it."""
POOL_STARTS, POOL_STOPS, POOL_MARKS = (
    f"ThreadpoolListener::{name}" for name in ("StartRegion", "StopRegion", "Record")
)
NO_SHAPES = "its events name no shapes of inputs"
NO_FLOPS = "it counts no FLOPs"
NO_MEMORY = "it does not tell what an operator allocates"


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """One event: on which plane (host or device) and which of its lines (a thread or a stream), and when.

    Nanoseconds since any one moment. `number` tells lines of one name apart.
    """

    plane: str
    line: str
    number: int
    name: str
    start_ns: int
    end_ns: int
    stats: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """One run of an operator. `left_ns`: its thread went on. `told_ns`: a mark says that it was done."""

    name: str
    thread: tuple[str, int]
    start_ns: int
    left_ns: int
    told_ns: int | None = None
    thunk: bool = False

    @property
    def done_ns(self) -> int:
        return self.left_ns if self.told_ns is None else self.told_ns


def profile(events: Sequence[Event], trace: Path, *, profiler: str, on_device: bool) -> Profile:
    """Rows of what was recorded; writes the trace. `on_device`: the case ran on a GPU."""
    written = chrome(events)
    traces.write(trace, written)
    ran = list(runs(events))
    whole = [(one.start_ns, one.done_ns) for one in ran]
    operators, left_out = traces.kept(rows(ran, events, on_device=on_device))
    kernels = traces.on_device(written, {KERNEL})
    span, busy, gaps = traces.span_busy_gaps(kernels)
    nulls = {"shapes": NO_SHAPES, "flops": NO_FLOPS, "self_host_mib": NO_MEMORY, "self_device_mib": NO_MEMORY}
    if any(op.flops is not None for op in operators):
        del nulls["flops"]
    if not on_device:
        nulls |= dict.fromkeys(("device_span_ns", "device_busy_ns"), traces.NOTHING_LAUNCHED)
    return Profile(
        operators=operators,
        left_out=left_out,
        kernels=traces.kernels(kernels),
        host_busy_ns=traces.covered_ns(whole),
        device_span_ns=span,
        device_busy_ns=busy,
        gaps=gaps,
        events=len(written["traceEvents"]),
        observed={
            "profiler": profiler,
            "activities": ["CPU", "CUDA"] if on_device else ["CPU"],
            "at_once": traces.most_at_once(whole),
            "operator_threads": len({one.thread for one in ran}),
            "unended": sum(one.thunk and one.told_ns is None for one in ran),
        },
        nulls=nulls,
    )


def operator(event: Event) -> str | None:
    """The operator's kind, if the event is a run of one on the host."""
    if event.plane.startswith(GPU) or event.name.startswith(END):
        return None
    if "hlo_op" in event.stats:
        return NUMBER.sub("", str(event.stats["hlo_op"]))
    if event.name.startswith(EAGER):
        kind = event.name.removeprefix(EAGER)
        return (
            None if kind.startswith("__") else kind
        )  # a whole function: its kernels are events of their own
    found = GRAPH_KERNEL.fullmatch(event.name)
    return found[1] if found else None


def runs(events: Iterable[Event]) -> Iterator[Ran]:
    """The runs of operators on the host."""
    events = list(events)
    done = {
        (event.name.removeprefix(END), event.stats.get("_c")): event.start_ns
        for event in events
        if event.name.startswith(END)
    }
    for event in events:
        if (name := operator(event)) is None:
            continue
        told = done.get((event.name, event.stats.get("_p")))
        told = None if told is None else max(told, event.start_ns)
        yield Ran(
            name=name,
            thread=(event.plane, event.number),
            start_ns=event.start_ns,
            left_ns=event.end_ns if told is None else min(event.end_ns, told),
            told_ns=told,
            thunk="hlo_op" in event.stats,
        )


def rows(ran: Iterable[Ran], events: Iterable[Event], *, on_device: bool) -> list[Operator]:
    """Sums by kind of operator. Device times are those of kernels whose launch was annotated with one.

    One that the host has no event of is called as often as it has kernels.
    """
    sums: dict[str, tuple[int, int, int]] = {}
    for name, own, total in _own_and_total(ran):
        calls, before, all_before = sums.get(name, (0, 0, 0))
        sums[name] = calls + 1, before + own, all_before + total
    launched = _launched(events) if on_device else {}
    counted = _flops(events)
    made = []
    for name in dict.fromkeys([*sums, *launched]):
        host, device = sums.get(name), launched.get(name, (0, 0))
        made.append(
            Operator(
                name=name[: traces.LONGEST_NAME],
                calls=host[0] if host else device[0],
                self_host_ns=host[1] if host else None,
                total_host_ns=host[2] if host else None,
                self_device_ns=device[1] if on_device else None,
                total_device_ns=device[1] if on_device else None,
                flops=counted.get(name),
            )
        )
    return made


def _own_and_total(ran: Iterable[Ran]) -> Iterator[tuple[str, int, int]]:
    """(operator, own, total) of each run.

    One that holds others on its thread, as a loop does, has for its own what they leave of it. One that
    holds none has all from its start until it was done, by whichever threads: its own may have gone on.
    """
    threads: dict[tuple[str, int], list[Ran]] = {}
    for one in ran:
        threads.setdefault(one.thread, []).append(one)
    for mine in threads.values():
        own = traces.own_ns([(one.start_ns, one.left_ns) for one in mine])
        for one, ns in zip(mine, own, strict=True):
            total = one.done_ns - one.start_ns
            alone = ns == one.left_ns - one.start_ns
            yield one.name, total if alone else ns, total


def _launched(events: Iterable[Event]) -> dict[str, tuple[int, int]]:
    """(kernels, nanoseconds) on the device by the operator that their launch was annotated with."""
    sums: dict[str, tuple[int, int]] = {}
    for event in filter(is_kernel, events):
        told = event.stats.get("hlo_op") or event.stats.get("tf_op")
        if told is not None:
            name = NUMBER.sub("", str(told).rpartition(":")[2])
            calls, ns = sums.get(name, (0, 0))
            sums[name] = calls + 1, ns + event.end_ns - event.start_ns
    return sums


def _flops(events: Iterable[Event]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for event in events:
        if "flops" in event.stats and (name := operator(event)) is not None:
            sums[name] = sums.get(name, 0) + int(event.stats["flops"])
    return sums


def is_kernel(event: Event) -> bool:
    """Whether it ran on a GPU. Its plane may have lines beside the streams that repeat them summed up."""
    return event.plane.startswith(GPU) and event.line.startswith(STREAM)


def chrome(events: Sequence[Event]) -> dict[str, Any]:
    """A trace: one process a plane, one thread a line; microseconds since the first event.

    An operator that was done after its thread went on has a track of its own, from start to done.
    """
    zero = min((event.start_ns for event in events), default=0)
    planes = {name: pid for pid, name in enumerate(dict.fromkeys(event.plane for event in events), 1)}
    lines = dict.fromkeys((event.plane, event.number, event.line) for event in events)
    made: list[dict[str, Any]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for name, pid in planes.items()
    ]
    made += [
        {"ph": "M", "name": "thread_name", "pid": planes[plane], "tid": number, "args": {"name": line}}
        for plane, number, line in lines
    ]
    for event in events:
        if not event.name.startswith((END, POOL_STARTS, POOL_STOPS, POOL_MARKS)):
            shown = {key: _plain(value) for key, value in event.stats.items() if not key.startswith("_")}
            made.append({
                "ph": "X", "cat": _category(event), "name": event.name, "pid": planes[event.plane],
                "tid": event.number, "ts": (event.start_ns - zero) / 1000,
                "dur": (event.end_ns - event.start_ns) / 1000, "args": shown,
            })  # fmt: skip
    for (plane, number), start, end in _pool_work(events):
        made.append({"ph": "X", "cat": POOL, "name": "pool", "pid": planes[plane], "tid": number,
                     "ts": (start - zero) / 1000, "dur": (end - start) / 1000})  # fmt: skip
    for index, one in enumerate(one for one in runs(events) if one.done_ns > one.left_ns):
        for phase, ns in (("b", one.start_ns), ("e", one.done_ns)):
            made.append({"ph": phase, "cat": OPERATOR, "id": index, "name": one.name,
                         "pid": planes[one.thread[0]], "tid": one.thread[1],
                         "ts": (ns - zero) / 1000})  # fmt: skip
    return {"displayTimeUnit": "ns", "traceEvents": made}


def _pool_work(events: Sequence[Event]) -> Iterator[tuple[tuple[str, int], int, int]]:
    """(thread, from, to) of each piece of work that a thread of a pool took."""
    began: dict[tuple[str, int], int] = {}
    for event in sorted(events, key=lambda event: event.start_ns):
        thread = event.plane, event.number
        if event.name == POOL_STARTS:
            began[thread] = event.start_ns
        elif event.name == POOL_STOPS and thread in began:
            yield thread, began.pop(thread), event.end_ns


def _category(event: Event) -> str:
    if is_kernel(event):
        return KERNEL
    return HOST if operator(event) is None else OPERATOR


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float)) else str(value)[: traces.LONGEST_NAME]
