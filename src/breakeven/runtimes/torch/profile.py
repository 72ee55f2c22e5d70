"""Steps under torch.profiler: sums by operator and input shapes, kernels and the gaps between them, a trace.

Knows nothing about clocks: how many steps, and how long they take, is the business of who drives them.
"""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch.autograd.profiler_util import FunctionEventAvg
from torch.profiler import ProfilerActivity, record_function
from torch.profiler import profile as profiler

from breakeven.records.profile import Operator
from breakeven.runtimes import Drive, Profile, traces
from breakeven.runtimes.host import MIB

ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
"""Categories of a trace's events that ran on the device."""


def profiled(
    step: Callable[[], None], sync: Callable[[], None], device: torch.device, drive: Drive, trace: Path
) -> Profile:
    """Runs `drive` on the annotated step under the profiler and writes the trace. See `Prepared.profile`."""
    on_device = device.type == "cuda"
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_device else [])]
    # CUPTI takes seconds to start, and its first events are late. Without `acc_events` torch warns on a GPU.
    with profiler(activities=kinds, acc_events=True):
        step()
        sync()

    def annotated() -> None:
        with record_function(traces.STEP):
            step()

    with profiler(
        activities=kinds, record_shapes=True, profile_memory=True, with_flops=True, acc_events=True
    ) as seen:
        drive(annotated)
    rows = [_row(e, on_device) for e in seen.key_averages(group_by_input_shape=True) if _is_row(e)]
    operators, left_out = traces.kept(rows)
    written = _exported(seen, trace)
    nulls = {} if on_device else dict.fromkeys(("device_span_ns", "device_busy_ns"), traces.NOTHING_LAUNCHED)
    ran = traces.on_device(written, ON_DEVICE)
    span, busy, gaps = traces.span_busy_gaps(ran)
    return Profile(
        operators=operators,
        left_out=left_out,
        kernels=traces.kernels(ran),
        device_span_ns=span,
        device_busy_ns=busy,
        gaps=gaps,
        events=len(written["traceEvents"]),
        observed={"profiler": "torch.profiler", "activities": [kind.name for kind in kinds]},
        nulls=nulls,
    )


def _is_row(event: FunctionEventAvg) -> bool:
    """Kernels, and annotations seen once more on the device, are rows of their own there: not operators."""
    return bool(event.device_type == torch.autograd.DeviceType.CPU) and event.key != traces.STEP


def _row(event: FunctionEventAvg, on_device: bool) -> Operator:
    """From microseconds. Of a CPU the device's columns are None, never 0."""
    annotation = bool(event.is_user_annotation)
    shapes = tuple(tuple(int(n) for n in shape if isinstance(n, int)) for shape in event.input_shapes or ())
    return Operator(
        name=str(event.key)[: traces.LONGEST_NAME],
        kind="annotation" if annotation else "operator",
        shapes=shapes or None,
        calls=int(event.count),
        self_host_ns=_ns(event.self_cpu_time_total),
        total_host_ns=_ns(event.cpu_time_total),
        self_device_ns=_ns(event.self_device_time_total) if on_device else None,
        total_device_ns=_ns(event.device_time_total) if on_device else None,
        flops=int(event.flops) or None,
        self_host_mib=event.self_cpu_memory_usage / MIB,
        self_device_mib=event.self_device_memory_usage / MIB if on_device else None,
    )


def _ns(us: float) -> int:
    return round(1000 * us)


def _exported(seen: Any, trace: Path) -> Mapping[str, Any]:
    """Writes the trace, and returns what was written."""
    with tempfile.TemporaryDirectory(prefix="breakeven-") as folder:
        plain = Path(folder) / "trace.json"
        seen.export_chrome_trace(str(plain))
        found = traces.read(plain)
    traces.write(trace, found)
    return found
