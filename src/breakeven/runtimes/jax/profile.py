"""Steps under jax.profiler: the thunks of XLA's programs, kernels and the gaps between them, a trace.

Knows nothing about clocks: how many steps, and how long they take, is the business of who drives them.
"""

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import jax
from jax.profiler import ProfileData, ProfileOptions, StepTraceAnnotation

from breakeven.runtimes import Drive, Profile, traces, xspace


def profiled(
    step: Callable[[], None], sync: Callable[[], None], device: jax.Device, drive: Drive, trace: Path
) -> Profile:
    """Runs `drive` on the annotated step under the profiler and writes the trace. See `Prepared.profile`."""
    numbers = itertools.count()

    def annotated() -> None:
        with StepTraceAnnotation(traces.STEP, step_num=next(numbers)):
            step()

    with tempfile.TemporaryDirectory(prefix="breakeven-") as folder:
        with jax.profiler.trace(f"{folder}/first", profiler_options=_options()):  # its start takes long
            step()
            sync()
        with jax.profiler.trace(f"{folder}/steps", profiler_options=_options()):
            drive(annotated)
        (found,) = Path(folder, "steps").rglob("*.xplane.pb")
        events = list(_events(found))
    on_device = device.platform != "cpu"
    return xspace.profile(events, trace, profiler="jax.profiler", on_device=on_device)


def _options() -> ProfileOptions:
    """Without Python's own calls: a trace of all of them slows down an eager step several times."""
    options = ProfileOptions()
    options.python_tracer_level = 0
    return options


def _events(path: Path) -> Iterator[xspace.Event]:
    for plane in ProfileData.from_file(str(path)).planes:
        for number, line in enumerate(plane.lines):
            for event in line.events:
                yield xspace.Event(
                    plane=plane.name,
                    line=line.name,
                    number=number,
                    name=event.name,
                    start_ns=round(event.start_ns),
                    end_ns=round(event.start_ns + event.duration_ns),
                    stats={str(key): value for key, value in event.stats},
                )
