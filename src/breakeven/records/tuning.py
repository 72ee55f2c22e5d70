"""Presets: names of resolved tunings, cumulative, in an order per kind of device.

Knows nothing about how a runtime carries them out.
"""

import dataclasses
import difflib

from breakeven.errors import UserError
from breakeven.records.case import Tuning

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


def preset(name: str, device_kind: str, base: Tuning | None = None) -> Tuning:
    """The tuning that `name` stands for on `device_kind` (cpu, cuda, sim), all steps before it included.

    A name that this kind of device does not have falls back to the step before it on the other ladder that
    exists here (`cuda-graph` on a CPU is `no-sync`); `preset_used` says which. Raises UserError for a name
    that exists nowhere, with the nearest that does.
    """
    used = preset_used(name, device_kind)
    tuning = base or Tuning()
    for step, change in LADDERS[device_kind]:
        tuning = dataclasses.replace(tuning, **change)  # type: ignore[arg-type]
        if step == used:
            break
    return tuning


def preset_used(name: str, device_kind: str) -> str:
    """The preset that stands for `name` on this kind of device: itself, else the nearest step before it."""
    if name not in PRESETS:
        near = difflib.get_close_matches(name, PRESETS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(PRESETS)}"
        raise UserError(f"unknown tuning {name!r}{hint}")
    here = [step for step, _ in LADDERS[device_kind]]
    if name in here:
        return name
    other = next(ladder for ladder in LADDERS.values() if any(step == name for step, _ in ladder))
    names = [step for step, _ in other]
    for candidate in reversed(names[: names.index(name)]):
        if candidate in here:
            return candidate
    return here[0]
