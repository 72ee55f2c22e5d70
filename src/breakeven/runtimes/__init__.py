"""The protocol of a runtime: who computes a case, and what it hands to the one timing loop.

Knows nothing about clocks, files or studies. A runtime is a package that offers three functions at its top
(`availability`, `supports`, `prepare`), and `peaks` and `peak` if it can show what a device does at best
(`Measurable`). It imports its framework inside functions only. To add one: write the
package, add a line to `RUNTIMES` or an entry point in the group `breakeven.runtimes`.
"""

import importlib
import importlib.metadata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

from breakeven.errors import UserError
from breakeven.records.case import Case, Device
from breakeven.records.profile import Gaps, Kernel, Operator

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BUILD_CACHE = "BREAKEVEN_BUILD_CACHE"
"""Environment variable with the folder in which a runtime keeps what it compiles; unset: where it likes."""

RUNTIMES = {
    "torch": "breakeven.runtimes.torch",
    "onnxruntime": "breakeven.runtimes.onnxruntime",
    "openvino": "breakeven.runtimes.openvino",
    "jax": "breakeven.runtimes.jax",
    "tensorflow": "breakeven.runtimes.tensorflow",
    "sim": "breakeven.runtimes.sim",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """A device that a runtime can use here. `name` is the hardware's own name; memory in MiB."""

    label: str
    name: str
    memory_mib: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Availability:
    """Whether a runtime can be used here. `reason`: None if so, else what is missing and how to get it."""

    reason: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    places: tuple[Place, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluation:
    """One pass over (part of) the test set: `samples` were scored in `steps` batches.

    `accuracy` is the share of right answers and `loss` the mean cross-entropy; both None without labels.
    """

    steps: int
    samples: int
    accuracy: float | None = None
    loss: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Profile:
    """What a framework's profiler saw of the steps that were driven: rows as in a record's `profile` line.

    `left_out`: rows of operators beyond those given, and their sums. `host_busy_ns`: that in which at least
    one operator was under way, where several may be at once; None where one thread runs them in turn. Then
    `observed` says how many were, at most (`at_once`). `nulls`: what it cannot tell, and why.
    """

    operators: tuple[Operator, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    kernels: tuple[Kernel, ...] = ()
    host_busy_ns: int | None = None
    device_span_ns: int | None = None
    device_busy_ns: int | None = None
    gaps: tuple[Gaps, ...] = ()
    events: int = 0
    observed: Mapping[str, Any] = field(default_factory=dict)
    nulls: Mapping[str, str] = field(default_factory=dict)


Drive = Callable[[Callable[[], None]], None]
"""Takes a step, and runs and times some of them, synchronised at both edges."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A case made ready to be timed in this process. The timing loop calls these and nothing else.

    step()            enqueues exactly one step: from asking for the batch to updated weights (training), or
                      one call on the next of a few batches that take turns (inference); it wraps over epochs
                      by itself (calling `next_epoch`)
    sync()            returns when everything enqueued is done on the device that really runs
    steps_per_epoch   in inference the number of batches that take turns; `next_epoch` then does nothing
    next_epoch()      what lies between two epochs: schedule, new order, new iterator (drops what is left)
    evaluate(n)       scores the test set, at most n batches of it (None: all), synchronised on return; never
                      changes weights, batch-norm statistics or the order of training batches
    losses()          training losses read back since the last call, oldest first (synchronises)
    checks()          deep identity checks: {name: {asked, found, ok, note}}; slow, called in its own process.
                      Raises Mismatch if what runs is not what the case says
    observed()        cheap facts read back: device of parameters and outputs, precision settings, threads
    counters()        numbers that must not move inside the timed window (compiles, retraces, captures)
    memory()          {name_mib: value} by the framework's own names; reset_memory() restarts the peaks
    save(dir) / restore(dir)   all training state, for a run that resumes at an epoch's end
    close()           stops loader workers and frees the device
    clock             nanoseconds; None: the real monotonic clock. Only a simulated device brings its own
    build()           compiles and captures what the tuning says, leaves all training state as it was, and
                      returns facts about it (`cache_state`). Called once before the first step; None: nothing
    device_span(f)    calls f, and returns a function that gives the nanoseconds for which the device, by its
                      own timer, was at what f enqueued. None: the device has no timer, as a CPU
    meter()           starts the device's own meter of energy, and returns a function that says what it read
                      since, by the keys of a record's `energy`. Only a simulated device brings its own
    export()          the trained weights, float32 by the names of the declared layers; None: it cannot
    parts             a step's parts by name, in order: calling each once is one `step()`. `data_wait`: the
                      host waits for a batch or makes it; `copy`: it goes to the device, or `cut`: it is
                      cut from data that are there; `forward`; `backward`; `optimizer`; `loss_read`: the loss
                      is read or kept. None where a step is one piece; nulls["phases"] says why
    profile(drive, trace)   runs `drive(step)` once under the framework's profiler, with a step that may be
                    annotated; may take one step more before, so that the profiler is warm. Writes a trace as
                    gzipped Chrome JSON to `trace`, without the machine's or the user's name (`traces`).
                    None: no profiler is known; nulls["profile"] may say why
    """

    step: Callable[[], None]
    sync: Callable[[], None]
    samples_per_step: int
    steps_per_epoch: int
    next_epoch: Callable[[], None]
    evaluate: Callable[[int | None], Evaluation]
    losses: Callable[[], tuple[float, ...]]
    checks: Callable[[], Mapping[str, Any]]
    observed: Callable[[], Mapping[str, Any]]
    counters: Callable[[], Mapping[str, int]]
    memory: Callable[[], Mapping[str, float]]
    reset_memory: Callable[[], None]
    save: Callable[[Path], None]
    restore: Callable[[Path], None]
    close: Callable[[], None]
    hashes: Mapping[str, str]
    parameters: int | None
    eval_samples: int | None
    clock: Callable[[], int] | None = None
    device_span: Callable[[Callable[[], object]], Callable[[], int]] | None = None
    meter: Callable[[], Callable[[], Mapping[str, Any]]] | None = None
    export: Callable[[], Mapping[str, "NDArray[np.float32]"]] | None = None
    parts: Mapping[str, Callable[[], None]] | None = None
    build: Callable[[], Mapping[str, Any]] | None = None
    profile: Callable[[Drive, Path], Profile] | None = None
    simulated: bool = False
    nulls: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Peak:
    """A piece of work that shows what a device does at best: one call is `amount` FLOPs, operations or bytes.

    call() enqueues it once, on other data than the last time or on far more than the caches hold; sync()
    returns when all of it is done. `conditions`: dtype, shape, what counts as a byte, what was verified.
    `clock` as in `Prepared`.
    """

    call: Callable[[], None]
    sync: Callable[[], None]
    amount: float
    conditions: Mapping[str, Any]
    clock: Callable[[], int] | None = None


class Runtime(Protocol):
    """What a runtime package offers at its top level, besides `PRELOAD`.

    `PRELOAD` names the modules that a prepared parent imports, lazily imported ones included; importing them
    must run no operation and never touch an accelerator.
    """

    PRELOAD: tuple[str, ...]

    def availability(self) -> Availability:
        """What is here. May import the framework and touch devices: called in a process of its own."""

    def supports(self, case: Case) -> str | None:
        """None if this runtime can run the case on a suitable machine, else why not. Imports no framework."""

    def prepare(self, case: Case) -> Prepared:
        """Builds the case in this process. Raises Unsupported, Mismatch, or whatever the framework raises."""


@runtime_checkable
class Measurable(Protocol):
    """What a runtime offers besides if it can show a device's measured ceilings."""

    def peaks(self, device: Device) -> Mapping[str, str]:
        """Name -> unit (`tflop_per_s`, `top_per_s`, `gb_per_s`) of all that such a device may have.

        Imports no framework. Empty for a kind of device that has none.
        """

    def peak(self, device: Device, name: str) -> Peak:
        """Builds one of them in this process. Raises Unsupported or Mismatch where it would not be what its
        name says, and whatever the framework raises.
        """


@runtime_checkable
class Copying(Protocol):
    """What a runtime offers besides if it can show copies by size (`records.transfers`)."""

    def copies(self, device: Device) -> tuple[str, ...]:
        """Kinds of copies, within a memory and between host and device. Imports no framework."""

    def peak(self, device: Device, name: str) -> Peak:
        """As in `Measurable`, by the name of a kind and a size."""


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """Names of all runtimes known here: the built-in ones and those of installed plug-ins."""
    plugins = importlib.metadata.entry_points(group="breakeven.runtimes")
    return tuple(dict.fromkeys([*RUNTIMES, *(point.name for point in plugins)]))


def load(name: str) -> Runtime:
    """The runtime of that name; imports its package, not its framework. UserError for an unknown name."""
    if name in RUNTIMES:
        return cast(Runtime, importlib.import_module(RUNTIMES[name]))
    for point in importlib.metadata.entry_points(group="breakeven.runtimes"):
        if point.name == name:
            return cast(Runtime, point.load())
    raise UserError(f"unknown runtime {name!r}: known are {', '.join(names())}")


def measurable(name: str) -> Measurable | None:
    """The runtime of that name if it can show a device's ceilings, else None."""
    runtime = load(name)
    return runtime if isinstance(runtime, Measurable) else None


def copying(name: str) -> Copying | None:
    """The runtime of that name if it can show copies by size, else None."""
    runtime = load(name)
    return runtime if isinstance(runtime, Copying) else None
