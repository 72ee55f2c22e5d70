"""Where the time of a step goes: a process's timed parts as shares of its step.

Knows nothing about labels or ceilings. A device that works behind its host is at work on the parts of a step,
or it idles; of its idle time the host spends some waiting for the batch, and that is what the loader costs. A
wait of the host while the device is busy costs nothing. On a CPU the host's time is the step's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from breakeven.records.lines import Attempt

WORK = ("cut", "forward", "backward", "optimizer")
"""What a device does once the batch is there."""
SHARES = ("data_wait", "copy", *WORK, "other")
"""The shares of a step, in its order; `other` is what is left: reading the loss, the framework's own time."""
PARTS = ("data_wait", "copy", *WORK, "loss_read", "sync")
"""The parts of a record, in order (its keys are sorted)."""
UNEQUAL = "the split steps of most processes differ from whole ones by over 10 %"

Times = Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """One process: milliseconds by part as recorded, and the shares of its step, which add up to 1."""

    attempt: Attempt
    exposed_ms: Times
    enqueue_ms: Times
    busy_ms: Times
    shares: Times

    def kept_busy(self) -> float:
        """Share of the work's time in which the host enqueues it: near 1 the device waits for launches."""
        names = [name for name in WORK if name in self.busy_ms]
        busy = sum(self.busy_ms[name] for name in names)
        return sum(self.enqueue_ms.get(name, 0.0) for name in names) / busy if busy else 0.0


def splits_of(attempts: Sequence[Attempt]) -> list[Split] | str:
    """The processes whose parts stand for their steps, or why there are none."""
    timed = [a for a in attempts if a.phases]
    if not timed:
        reasons = (a.nulls.get("phases") for a in reversed(attempts))
        return next(filter(None, reasons), "a step's parts were not timed")
    sound = [split for a in timed if "parts_disagree" not in a.flags and (split := _split(a)) is not None]
    return sound if 2 * len(sound) > len(timed) else UNEQUAL


def by_part(splits: Sequence[Split]) -> dict[str, list[float]]:
    """The shares of the processes by part, in the order of a step; without the parts that nobody has.

    Their means add up to 1, as the shares of each process do.
    """
    seen = {name for split in splits for name in split.shares}
    return {name: [split.shares.get(name, 0.0) for split in splits] for name in SHARES if name in seen}


def middle_ms(each: Sequence[Times]) -> dict[str, float]:
    """Median over processes of each part's milliseconds, in the order of a step."""
    return {
        name: median(t[name] for t in each if name in t) for name in PARTS if any(name in t for t in each)
    }


def _split(attempt: Attempt) -> Split | None:
    told = attempt.phases or {}
    exposed, enqueue, busy = (_times(told.get(f"{kind}_ms")) for kind in ("exposed", "enqueue", "busy"))
    step = sum(exposed.values())
    if not step or not busy:
        return None
    cpu = attempt.device.kind == "cpu"
    shares = _of_host(exposed, step) if cpu else _of_device(exposed, busy, step)
    return Split(attempt=attempt, exposed_ms=exposed, enqueue_ms=enqueue, busy_ms=busy, shares=shares)


def _of_host(exposed: Times, step: float) -> dict[str, float]:
    """The host computes: its time is all there is."""
    shares = {name: exposed[name] / step for name in SHARES if name in exposed}
    return shares | {"other": max(0.0, 1.0 - sum(shares.values()))}


def _of_device(exposed: Times, busy: Times, step: float) -> dict[str, float]:
    """What the device does in the time of a step: its work first, then copies, then what the host waits for.

    Parts that are waited for one by one may take longer than a step, in which the host runs ahead: then they
    fill it, in their proportions. Copies count as far as they are not hidden behind launches.
    """
    work = sum(busy.get(name, 0.0) for name in WORK)
    fit = min(1.0, step / work) if work else 1.0
    left = step - fit * work
    shares = {name: fit * busy[name] / step for name in WORK if name in busy}
    if "copy" in busy:
        copy = min(busy["copy"], left)
        left -= copy
        shares["copy"] = copy / step
    wait = min(exposed.get("data_wait", 0.0), left)
    return shares | {"data_wait": wait / step, "other": (left - wait) / step}


def _times(value: object) -> Times:
    if not isinstance(value, Mapping):
        return {}
    if set(map(type, value.values())) <= {float}:
        return value
    return {str(name): float(ms) for name, ms in value.items() if isinstance(ms, (int, float))}
