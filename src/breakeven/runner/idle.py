"""Idle power of the GPUs of a study: measured once a run, before its first attempt on each.

Knows nothing about how it is read. Every attempt of the run carries it: what its energy holds besides work.
"""

from collections.abc import Iterable
from typing import Any

from breakeven.records.case import Device
from breakeven.runner.session import Session
from breakeven.timing.probes.idle import idle_power_w
from breakeven.timing.probes.nvml import open_board
from breakeven.timing.readings import Null


def take(session: Session, devices: Iterable[Device]) -> None:
    """Measures each GPU among `devices` that this run has not measured: 2.1 s a board, none for others."""
    for device in dict.fromkeys(devices):
        if device.kind == "cuda" and device.label not in session.idle:
            session.tell("note", text=f"reading what {device.label} draws while idle")
            session.idle[device.label] = idle_power_w(open_board(device.index))


def request(session: Session, device: Device) -> dict[str, Any]:
    """What an attempt on `device` is told of it: the watts, or why there are none."""
    found = session.idle.get(device.label)
    if found is None:
        return {}
    return {"idle": {"reason": found.reason} if isinstance(found, Null) else {"w": found}}
