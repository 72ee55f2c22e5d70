"""Presets: names of resolved tunings, by task.

Those of training are cumulative, in an order per kind of device; those of inference stand side by side.
Knows nothing about how a runtime carries them out.
"""

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from breakeven.errors import UserError
from breakeven.records.case import Task, Tuning

# Each step of the ladder: its name and what it changes on top of the steps before it.
# Eight loader workers: what people set on hosts of 8 to 16 cores.
_Change = tuple[str, dict[str, object]]
_WORKERS: _Change = ("workers", {"workers": 8, "pinned": True})
_ON_DEVICE: _Change = ("on-device", {"residency": "device", "augment_on": "device"})
_NO_SYNC: _Change = ("no-sync", {"loss_sync": "epoch"})
_CHANNELS_LAST: _Change = ("channels-last", {"layout": "channels-last"})
_BF16: _Change = ("bf16", {"precision": "bf16"})
_COMPILE: _Change = ("compile", {"execution": "compile:default"})
_COMPILE_CAPTURED: _Change = ("compile", {"execution": "cuda-graph+compile:default"})

LADDERS: dict[str, tuple[_Change, ...]] = {
    "cuda": (
        ("as-written", {}),
        _WORKERS,
        _ON_DEVICE,
        _NO_SYNC,
        ("cuda-graph", {"execution": "cuda-graph", "optimizer_impl": "fused"}),
        _CHANNELS_LAST,
        _BF16,
        _COMPILE_CAPTURED,
    ),
    "cpu": (
        ("as-written", {}),
        _WORKERS,
        _ON_DEVICE,
        _NO_SYNC,
        ("threads", {}),  # the best of a thread sweep; without one it is the framework's own choice
        _CHANNELS_LAST,
        _COMPILE,
        _BF16,
    ),
}
LADDERS["sim"] = LADDERS["cuda"]

PRESETS: tuple[str, ...] = tuple(dict.fromkeys(name for ladder in LADDERS.values() for name, _ in ladder))
"""Those of training."""

_LAST: dict[str, object] = {"layout": "channels-last"}
INFERENCE: dict[str, dict[str, object]] = {
    "eager": {},
    "channels-last": _LAST,
    "compiled": _LAST | {"execution": "compile:default"},
    "cuda-graph": _LAST | {"execution": "cuda-graph"},
    "fused-graph": _LAST | {"execution": "cuda-graph+fused"},
    "compiled-graph": _LAST | {"execution": "cuda-graph+compile:default"},
    "onnxruntime": {"runtime": "onnxruntime", "execution": "session"},
    "tensorrt": {"runtime": "onnxruntime", "execution": "session:tensorrt"},
    "openvino": {"runtime": "openvino", "execution": "session"},
}
"""What each preset of inference changes on top of torch in eager mode with the batches on the device. They
are not cumulative: precision is an axis of its own, so that what a runtime wins and what a precision wins are
told apart."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Own:
    """How a runtime that is not torch carries out what a preset says in torch's words: `executions` by
    torch's, and settings that it has no choice about, or that people leave as they are.
    """

    executions: Mapping[str, str]
    settings: Mapping[str, object]


OWN: dict[str, Own] = {
    # A jitted step is one program whose operations are fused: eager, captured and compiled in one. Flax lays
    # images out channels last; transfers are staged in page-locked memory by XLA itself.
    "jax": Own(
        executions=dict.fromkeys(
            ("eager", "cuda-graph", "cuda-graph+fused", "compile:default", "cuda-graph+compile:default"),
            "jit",
        ),
        settings={"layout": "channels-last", "pinned": False, "optimizer_impl": None},
    ),
    # What people run is a graph; XLA is its compiler. Its convolutions on a CPU are channels last alone, its
    # optimizer is one kernel, and it has nothing like a captured step.
    "tensorflow": Own(
        executions={
            "eager": "tf.function",
            "cuda-graph": "tf.function",
            "cuda-graph+fused": "tf.function",
            "compile:default": "xla",
            "cuda-graph+compile:default": "xla",
        },
        settings={"layout": "channels-last", "pinned": False, "optimizer_impl": None},
    ),
}


def presets(task: Task) -> tuple[str, ...]:
    """The names of a task's presets; the first is what people write."""
    return PRESETS if task == "train" else tuple(INFERENCE)


@lru_cache(maxsize=1024)
def preset(name: str, device_kind: str, base: Tuning | None = None, *, task: Task = "train") -> Tuning:
    """The tuning that `name` stands for on `device_kind` (cpu, cuda, sim), of training all steps before it
    included. Of a `base` with another runtime than torch, that runtime's own way to do the same.

    A name of training that this kind of device does not have falls back to the step before it on the other
    ladder that exists here (`cuda-graph` on a CPU is `no-sync`); `preset_used` says which. Raises UserError
    for a name that exists nowhere, with the nearest that does.
    """
    used = preset_used(name, device_kind, task=task)
    tuning = base or Tuning()
    if task == "infer":
        changed = dataclasses.replace(tuning, residency="device", **INFERENCE[used])  # type: ignore[arg-type]
        return in_own_way(changed)
    for step, change in LADDERS[device_kind]:
        tuning = dataclasses.replace(tuning, **change)  # type: ignore[arg-type]
        if step == used:
            break
    return in_own_way(tuning)


def in_own_way(tuning: Tuning) -> Tuning:
    """The same as its runtime does it: what is said in torch's words. Several presets may become one."""
    own = OWN.get(tuning.runtime)
    if own is None:
        return tuning
    execution = own.executions.get(tuning.execution, tuning.execution)
    return dataclasses.replace(tuning, execution=execution, **own.settings)  # type: ignore[arg-type]


def preset_used(name: str, device_kind: str, *, task: Task = "train") -> str:
    """The preset that stands for `name` on this kind of device: itself, else the nearest step before it.

    One of inference always stands for itself: where a device cannot run it, it is skipped.
    """
    if name not in presets(task):
        near = difflib.get_close_matches(name, presets(task), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(presets(task))}"
        raise UserError(f"unknown tuning {name!r}{hint}")
    if task == "infer":
        return name
    here = [step for step, _ in LADDERS[device_kind]]
    if name in here:
        return name
    other = next(ladder for ladder in LADDERS.values() if any(step == name for step, _ in ladder))
    names = [step for step, _ in other]
    for candidate in reversed(names[: names.index(name)]):
        if candidate in here:
            return candidate
    return here[0]
