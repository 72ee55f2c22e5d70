"""Measured ceilings: what every device of a study does at best, measured once a machine and kept in a cache.

Knows nothing about what a ceiling is used for. The cache is named by the fingerprint: another driver, library
or set of cores has another one, and is measured again.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from breakeven import runtimes
from breakeven.errors import UserError
from breakeven.records import file as results_file
from breakeven.records.case import Case, Device, parse_device
from breakeven.records.lines import Ceiling
from breakeven.records.transfers import SIZES, name_of
from breakeven.runner.seat import Seat, alive, attempt, close_seat, open_seat
from breakeven.runner.session import Session, now
from breakeven.runner.survey import fingerprint_of, survey
from breakeven.workloads.fetch import cache_dir

METHOD = 1
"""Version of how ceilings are measured: part of the cache's name, so that another method starts a new one."""
SCALE = {"tflop_per_s": 1e12, "top_per_s": 1e12, "gb_per_s": 1e9}
BUDGET_S = {"cpu": 0.5, "cuda": 0.5, "sim": 0.5}
"""Seconds of calls behind one ceiling in one process, by kind of device."""
PROCESSES = {"cpu": 3, "cuda": 2, "sim": 1}
"""The best process counts: whatever slows one down, a ceiling is what the device can do. A GPU's take longer
to start."""
AUTOMATIC = 2
"""Processes at the start of a run: about six seconds for both devices of the study `quick` on two cores."""
TIMEOUT_S = 120.0
"""Seconds one process may take for all ceilings of a device; it takes ten."""
COPIES_S = 0.2
"""Seconds of calls behind one size of a copy: there are ten sizes of up to five kinds."""
RAN = {"default": ("fp32", "tf32")}
"""Precisions that a tuning's precision may come to, where it is not the one it names."""


@dataclass(slots=True)
class _Found:
    """What the processes of one device sent so far, by name, and why the last one sent no more."""

    by_name: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    ended: str | None = None
    stopped: bool = False


def for_study(session: Session) -> None:
    """Appends the ceilings of the study's devices that the file lacks: from the cache, else measured now.

    A simulated device has those planted in it, if any. Whatever cannot be measured is a line with a reason;
    a user's wish to stop leaves the rest out.
    """
    with parents() as seats:
        for runtime, device, names in _wanted([planned.case for planned in session.plan.cases]):
            if not session.hurry():
                _for_device(session, runtime, device, names, seats)
            if session.study.bandwidth and not session.hurry() and (sized := list(_copies(runtime, device))):
                _for_device(session, runtime, device, sized, seats, budget_s=COPIES_S)


def _for_device(
    session: Session,
    runtime: str,
    device: Device,
    names: Sequence[str],
    seats: dict[str, Seat],
    *,
    budget_s: float | None = None,
) -> None:
    mine = [c for c in cached(session.fingerprint_id) if c.device_label == device.label]
    known = _best(line for line in session.lines if _is_of(line, session.fingerprint_id, device))
    for line in mine:
        # A better one than the file's was measured since: `doctor --ceilings`.
        if line.name in names and (line.name not in known or line.rank > known[line.name].rank):
            session.append(line)
            known[line.name] = line
    missing = [name for name in names if name not in known]
    if not missing:
        return
    what = "copies by size on" if budget_s else "what"
    best = "" if budget_s else " does at best"
    session.tell("note", text=f"measuring {what} {device.label}{best} (once a machine)")
    lines = measure(
        runtime, device, missing, session.fingerprint_id,
        processes=AUTOMATIC, hurry=session.hurry, seats=seats, budget_s=budget_s,
    )  # fmt: skip
    for line in lines:
        session.append(line)
    remember(lines)


def measure(
    runtime: str,
    device: Device,
    names: Sequence[str],
    fingerprint_id: str,
    *,
    processes: int | None = None,
    hurry: Callable[[], str | None] = lambda: None,
    seats: dict[str, Seat],
    budget_s: float | None = None,
) -> list[Ceiling]:
    """The named ceilings of a device, each the best of some processes' medians; none if the user stops it.

    `seats` keeps the prepared parent for the next device: it has imported the framework and run nothing.
    """
    units = {**_offered(runtime, device), **_copies(runtime, device)}
    started, found = now(), _Found()
    request = {
        "what": "ceilings",
        "runtime": runtime,
        "device": device.label,
        "names": list(names),
        "budget_s": budget_s or BUDGET_S[device.kind],
    }
    for _ in range(processes or PROCESSES[device.kind]):
        if runtime not in seats:
            seats[runtime] = open_seat(runtime, {})
        _one_process(seats[runtime], request, found, hurry)
        dead = not alive(seats[runtime])
        if dead:
            close_seat(seats.pop(runtime))
        if dead or found.stopped:
            break
    if found.stopped:
        return []
    where = {"device": device.label, "runtime": runtime}
    lines = []
    for name in names:
        value, conditions, reason = _best_of(found, name, units[name])
        lines.append(
            Ceiling(
                fingerprint_id=fingerprint_id,
                started_utc=started,
                name=name,
                value=value,
                unit=units[name],
                conditions=where | conditions,
                reason=reason,
            )
        )
    return lines


def measure_machine(say: Callable[[str], None] = lambda text: None) -> list[Ceiling]:
    """All ceilings of every device here, measured anew and kept for later runs."""
    lines: list[Ceiling] = []
    for runtime in filter(runtimes.measurable, runtimes.names()):
        found = survey((runtime,))
        if found.runtimes[runtime].reason is not None:
            continue
        fingerprint_id = fingerprint_of(found).fingerprint_id
        with parents() as seats:
            for device in [parse_device(place.label) for place in found.runtimes[runtime].places]:
                say(f"measuring what {device.label} does at best")
                lines += measure(
                    runtime, device, list(_offered(runtime, device)), fingerprint_id, seats=seats
                )
    remember(lines)
    return lines


@contextlib.contextmanager
def parents() -> Iterator[dict[str, Seat]]:
    """Prepared parents by runtime, opened when they are needed and closed at the end."""
    seats: dict[str, Seat] = {}
    try:
        yield seats
    finally:
        for seat in seats.values():
            close_seat(seat)


def _one_process(
    seat: Seat, request: Mapping[str, Any], found: _Found, hurry: Callable[[], str | None]
) -> None:
    def take(event: Mapping[str, Any]) -> None:
        if event["event"] == "ceiling":
            found.by_name.setdefault(str(event["name"]), []).append(event)

    ending = attempt(
        seat, request, timeout_s=TIMEOUT_S, on_event=take, hurry=lambda: "kill" if hurry() else None
    )
    found.stopped = ending.outcome == "interrupted"
    result = ending.result or {"outcome": ending.outcome, "reason": ending.reason}
    if result["outcome"] != "ok":
        found.ended = f"{result['outcome']}: {result['reason']}"


def _best_of(found: _Found, name: str, unit: str) -> tuple[float | None, dict[str, Any], str | None]:
    """(value, its conditions, None) of the best process, or (None, nothing, the reason)."""
    sent = found.by_name.get(name, ())
    measured = [one for one in sent if one.get("per_second")]
    if not measured:
        reason = next((str(one["reason"]) for one in sent if one.get("reason")), found.ended)
        return None, {}, reason or "the process sent nothing"
    best = max(measured, key=lambda one: float(one["per_second"]))
    each = [one["per_second"] / SCALE[unit] for one in measured]
    return max(each), {**best["conditions"], "n": len(each), "each": each, "flags": best["flags"]}, None


def _wanted(cases: Iterable[Case]) -> list[tuple[str, Device, list[str]]]:
    """(runtime, device, names) of what a study's findings need: products at its precisions, and memory."""
    runs: dict[str, tuple[str, Device, set[str]]] = {}
    for case in cases:
        runtime, device = case.tuning.runtime, case.device
        offered = _offered(runtime, device)
        if not offered:
            continue
        precisions = RAN.get(case.tuning.precision, ("fp32", case.tuning.precision))
        memory = [name for name in ("triad", "copy") if name in offered][:1]
        mine = runs.setdefault(device.label, (runtime, device, set()))[2]
        mine |= {*(f"matmul_{name}" for name in precisions), *memory}
    return [
        (runtime, device, [name for name in _offered(runtime, device) if name in mine])
        for runtime, device, mine in runs.values()
    ]


def _offered(runtime: str, device: Device) -> Mapping[str, str]:
    """Name -> unit of what the runtime can show of such a device."""
    shows = runtimes.measurable(runtime)
    return shows.peaks(device) if shows else {}


def _copies(runtime: str, device: Device) -> dict[str, str]:
    """Name -> unit of every kind and size of copy that the runtime can show there."""
    shows = runtimes.copying(runtime)
    kinds = shows.copies(device) if shows else ()
    return {name_of(kind, size): "gb_per_s" for kind in kinds for size in SIZES}


def _is_of(line: object, fingerprint_id: str, device: Device) -> bool:
    return (
        isinstance(line, Ceiling)
        and line.fingerprint_id == fingerprint_id
        and line.device_label == device.label
    )


def _best(lines: Iterable[Any]) -> dict[str, Ceiling]:
    """The line of each name that counts; a null one where there is no other."""
    best: dict[str, Ceiling] = {}
    for line in lines:
        if line.name not in best or line.rank > best[line.name].rank:
            best[line.name] = line
    return best


def cached(fingerprint_id: str) -> list[Ceiling]:
    """The ceilings measured on this machine before; none where there is no whole cache of them."""
    try:
        lines = results_file.read(_cache(fingerprint_id)).lines
    except UserError:
        return []
    return [line for line in lines if isinstance(line, Ceiling) and line.fingerprint_id == fingerprint_id]


def remember(lines: Sequence[Ceiling]) -> None:
    """Keeps ceilings in place of older ones of the same name and device.

    Null ones are tried again, and so are those of a machine that others used meanwhile: they are too low.
    Planted ones are no property of this machine. A cache that cannot be written is no error: the next run
    measures anew.
    """
    real = [line for line in lines if not line.device_label.startswith("sim:")]
    fresh = [line for line in real if line.value is not None and not line.contended]
    if not fresh:
        return
    keys = {(line.name, line.device_label) for line in fresh}
    path = _cache(fresh[0].fingerprint_id)
    kept = [c for c in cached(fresh[0].fingerprint_id) if (c.name, c.device_label) not in keys]
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(b"".join(map(results_file.encode, [*kept, *fresh])))
        os.replace(part, path)


def _cache(fingerprint_id: str) -> Path:
    return cache_dir() / "ceilings" / f"{METHOD}-{fingerprint_id}.jsonl"
