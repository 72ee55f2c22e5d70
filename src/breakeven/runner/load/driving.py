"""LoadGen in front of a prepared case: its queries become calls, whole batches of them, by one worker.

Knows nothing about studies. LoadGen is the clock of all that is reported here: what it asks when, and how
long the answer took, is its own. It asks from a thread of its own, while the case stays with the thread that
built it: frameworks keep devices, streams and modes by thread.
"""

import contextlib
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakeven.errors import Unsupported
from breakeven.runner.load import logs
from breakeven.runtimes import Prepared

MISSING = "mlcommons-loadgen is not installed: pip install 'breakeven[load]'"
IN_FLIGHT: Mapping[str, int] = {"Server": 1}
MOST_IN_FLIGHT = 8
"""Calls that are enqueued before the device is waited for, where that many samples lie there already: waiting
for each would leave an accelerator idle between them. Their answers count from the end of the last, so a
server, which answers for each sample's latency, waits for each call."""
SWITCH_S = 1e-4
"""Seconds after which a thread that computes in Python lets the other in: with the interpreter's own 5 ms
LoadGen would ask late."""

Ids = Sequence[int]
"""LoadGen's ids of samples that were asked for."""


@dataclass(kw_only=True, slots=True)
class Served:
    """How queries became calls. `empty`: places of a call that no sample filled, computed all the same."""

    samples: int = 0
    calls: int = 0
    empty: int = 0
    waits: int = 0

    def told(self, batch: int, in_flight: int, max_wait_s: float) -> dict[str, Any]:
        """As a line holds it."""
        return {
            "samples": self.samples,
            "calls": self.calls,
            "empty_places": self.empty,
            "synchronisations": self.waits,
            "batch": batch,
            "most_calls_in_flight": in_flight,
            "max_wait_ms": 1000 * max_wait_s,
            "workers": 1,
            "inputs": "resident batches in turn: which sample LoadGen names makes no difference",
        }


@dataclass(kw_only=True, slots=True)
class Waiting:
    """Samples that LoadGen has asked for and that no call holds yet."""

    asked: "queue.SimpleQueue[Ids | None]" = field(default_factory=queue.SimpleQueue)
    ready: list[int] = field(default_factory=list)
    ended: bool = False

    def take(self, most: int, batch: int, max_wait_s: float) -> Ids:
        """The next samples, at most `most`; none once LoadGen has ended.

        What waits is taken at once. Fewer than a batch wait for more, at most `max_wait_s` after the first.
        """
        if not self.ready and not self.ended:
            self._put(self.asked.get())
        deadline = time.monotonic() + max_wait_s
        while not self.ended and len(self.ready) < most:
            left = deadline - time.monotonic() if len(self.ready) < batch else 0.0
            try:
                self._put(self.asked.get(timeout=left) if left > 0 else self.asked.get_nowait())
            except queue.Empty:
                break
        taken, self.ready = self.ready[:most], self.ready[most:]
        return taken

    def _put(self, ids: Ids | None) -> None:
        if ids is None:
            self.ended = True
        else:
            self.ready += ids


def answer(
    prepared: Prepared,
    waiting: Waiting,
    respond: Callable[[Ids], None],
    *,
    in_flight: int = MOST_IN_FLIGHT,
    max_wait_s: float = 0.0,
) -> Served:
    """Serves until LoadGen has ended: calls of whole batches, one wait for the device, then the answers."""
    served, batch = Served(), prepared.samples_per_step
    while ids := waiting.take(in_flight * batch, batch, max_wait_s):
        calls = -(-len(ids) // batch)
        with _lasting(prepared):
            for _ in range(calls):
                prepared.step()
            prepared.sync()
        respond(ids)
        served.samples += len(ids)
        served.calls += calls
        served.empty += calls * batch - len(ids)
        served.waits += 1
    return served


@contextlib.contextmanager
def _lasting(prepared: Prepared) -> Iterator[None]:
    """What a simulated device takes by its own clock passes really: LoadGen's clock is the real one."""
    if prepared.clock is None:
        yield
        return
    real, virtual = time.monotonic(), prepared.clock()
    yield
    left = (prepared.clock() - virtual) / 1e9 - (time.monotonic() - real)
    if left > 0:
        time.sleep(left)


def drive(prepared: Prepared, request: Mapping[str, Any]) -> dict[str, Any]:
    """One run of LoadGen against a case that is warm; the fields of a `load` line that come of it.

    `request`: `settings`, `max_wait_s`, `folder` (for LoadGen's logs) and `root` (what their names are
    relative to). Raises Unsupported where LoadGen is not installed, ValueError where it came to no verdict,
    and whatever a call raises.
    """
    try:
        import mlperf_loadgen as loadgen
    except ImportError as error:
        raise Unsupported(MISSING) from error
    folder = Path(request["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    waiting, max_wait_s = Waiting(), float(request["max_wait_s"])
    sut = loadgen.ConstructSUT(lambda samples: waiting.asked.put([s.id for s in samples]), lambda: None)
    count = prepared.steps_per_epoch * prepared.samples_per_step
    library = loadgen.ConstructQSL(count, count, lambda samples: None, lambda samples: None)
    asking = threading.Thread(
        target=_ask, args=(loadgen, sut, library, request["settings"], folder, waiting), daemon=True
    )
    sys.setswitchinterval(SWITCH_S)
    asking.start()
    in_flight = IN_FLIGHT.get(request["settings"]["scenario"], MOST_IN_FLIGHT)
    served = answer(
        prepared,
        waiting,
        lambda ids: _respond(loadgen, ids),
        in_flight=in_flight,
        max_wait_s=max_wait_s,
    )
    asking.join()
    loadgen.DestroyQSL(library)
    loadgen.DestroySUT(sut)
    found = logs.figures((folder / logs.DETAIL).read_text("utf-8", "replace"))
    return {
        **found,
        "served": served.told(prepared.samples_per_step, in_flight, max_wait_s),
        "logs": logs.kept(folder, Path(request["root"])),
    }


def _ask(
    loadgen: Any, sut: int, library: int, settings: Mapping[str, Any], folder: Path, waiting: Waiting
) -> None:
    """Runs LoadGen to its end, in its own thread; the worker is told in any case."""
    try:
        test, log, output = loadgen.TestSettings(), loadgen.LogSettings(), loadgen.LogOutputSettings()
        for name, value in settings.items():
            kind = {"scenario": loadgen.TestScenario, "mode": loadgen.TestMode}.get(name)
            setattr(test, name, value if kind is None else getattr(kind, value))
        output.outdir, output.copy_summary_to_stdout = str(folder), False
        log.log_output, log.enable_trace = output, False
        # An audit.config in the working folder would change the test behind our back.
        loadgen.StartTestWithLogSettings(sut, library, test, log, os.devnull)
    finally:
        waiting.asked.put(None)


def _respond(loadgen: Any, ids: Ids) -> None:
    loadgen.QuerySamplesComplete([loadgen.QuerySampleResponse(sample, 0, 0) for sample in ids])
