"""Steps under TensorFlow's profiler: kernels of graphs, eager calls, XLA's thunks, what a GPU ran, a trace.

Knows nothing about clocks: how many steps, and how long they take, is the business of who drives them.
"""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from breakeven.records.case import Device
from breakeven.runtimes import Drive, Profile, traces, xspace
from breakeven.runtimes.tensorflow.library import tf, xspace_message


def profiled(
    step: Callable[[], None], sync: Callable[[], None], device: Device, drive: Drive, trace: Path
) -> Profile:
    """Runs `drive` on the annotated step under the profiler and writes the trace. See `Prepared.profile`.

    Raises Unsupported where this TensorFlow does not ship the format of what it records.
    """
    space, numbers, profiler = xspace_message(), itertools.count(), tf.profiler.experimental

    def annotated() -> None:
        with profiler.Trace(traces.STEP, step_num=next(numbers), _r=1):
            step()

    with tempfile.TemporaryDirectory(prefix="breakeven-") as folder:
        with profiler.Profile(f"{folder}/first"):  # its start takes long
            step()
            sync()
        with profiler.Profile(f"{folder}/steps"):
            drive(annotated)
        (found,) = Path(folder, "steps").rglob("*.xplane.pb")
        space.ParseFromString(found.read_bytes())
    on_device = device.kind != "cpu"
    return xspace.profile(list(_events(space)), trace, profiler="tf.profiler", on_device=on_device)


def _events(space: Any) -> Iterator[xspace.Event]:
    """Names of events and stats are kept by their plane; times are picoseconds from the line's start."""
    for plane in space.planes:
        for number, line in enumerate(plane.lines):
            for event in line.events:
                start_ps = 1000 * line.timestamp_ns + event.offset_ps
                yield xspace.Event(
                    plane=plane.name,
                    line=line.name,
                    number=number,
                    name=plane.event_metadata[event.metadata_id].name,
                    start_ns=round(start_ps / 1000),
                    end_ns=round((start_ps + event.duration_ps) / 1000),
                    stats={plane.stat_metadata[s.metadata_id].name: _value(plane, s) for s in event.stats},
                )


def _value(plane: Any, stat: Any) -> Any:
    kind = stat.WhichOneof("value")
    if kind is None:
        return None
    value = getattr(stat, kind)
    return plane.stat_metadata[value].name if kind == "ref_value" else value
