"""One run of a study in progress: the lines so far, the prepared parents, and how one attempt becomes a line.

Knows nothing about which attempt comes next: `run` and `full` decide that.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from breakeven.records import file as results_file
from breakeven.records.canonical import canonical, to_json
from breakeven.records.case import Case
from breakeven.records.lines import SCHEMA, Attempt, Line, Load, ProfileLine, Purpose, Region
from breakeven.runner.events import number as finite
from breakeven.runner.plan import Plan, PlannedCase
from breakeven.runner.seat import LATE, Ending, Seat, alive, attempt, close_seat, open_seat
from breakeven.runner.study import Study
from breakeven.runner.wire import case_to_json
from breakeven.runtimes import BUILD_CACHE
from breakeven.timing.plan import Phase
from breakeven.timing.readings import Null

PHASES = get_args(Phase)
Made = TypeVar("Made", Attempt, Load, ProfileLine)
Turn = tuple[int, int, PlannedCase]
"""(replicate, order_index, case) of `plan.schedule`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """What the progress display is told. `done` of `total` attempts; `estimate_ns` a step, as it stands."""

    kind: Literal["start", "attempt", "progress", "line", "note"]
    done: int
    total: int
    label: str = ""
    phase: str = ""
    estimate_ns: float | None = None
    relative_half_width: float | None = None
    share: float | None = None
    left_s: float | None = None
    text: str = ""
    line: Line | None = None


@dataclass(slots=True)
class Session:
    """The state of a run. `hurry` returns None, 'finish' or 'kill'; see `run`. `earlier`: lines found.

    `build_cache`: a folder that begins empty with the run, for what its processes compile.
    """

    study: Study
    plan: Plan
    path: Path
    on_event: Callable[[Event], None]
    hurry: Callable[[], str | None]
    started: float
    fingerprint_id: str = ""
    lines: list[Line] = field(default_factory=list)
    earlier: int = 0
    seats: dict[tuple[str, tuple[tuple[str, str], ...]], Seat] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    done: int = 0
    total: int = 0
    spent: list[float] = field(default_factory=list)
    idle: dict[str, float | Null] = field(default_factory=dict)
    build_cache: str = ""

    def attempts(self) -> list[Attempt]:
        return [line for line in self.lines if isinstance(line, Attempt)]

    def loads(self) -> list[Load]:
        return [line for line in self.lines if isinstance(line, Load)]

    def is_own(self, line: Line) -> bool:
        """Whether this run made it. Told by its place in the file: a clock may be set back meanwhile."""
        return any(own is line for own in self.lines[self.earlier :])

    def append(self, line: Line) -> None:
        results_file.append(self.path, line)
        self.lines.append(line)

    def add(self, line: Attempt | Load, label: str) -> None:
        """Appends an attempt or a load of this run, counts it and tells the display."""
        self.append(line)
        self.done += 1
        self.outcomes[line.outcome] = self.outcomes.get(line.outcome, 0) + 1
        self.tell("line", label=label, line=line)

    def tell(self, kind: Any, **values: Any) -> None:
        self.on_event(Event(kind=kind, done=self.done, total=self.total, left_s=self.left_s(), **values))

    def budget_s(self) -> float | None:
        """Seconds left of `max_time`, less than 0 once it is over; None without one."""
        limit = self.study.max_time
        return None if limit is None else limit - (time.monotonic() - self.started)

    def is_late(self) -> bool:
        """Whether `max_time` is over. What a run begins with may take longer, or it would never be done."""
        left = self.budget_s()
        return left is not None and left < 0 and bool(self.spent)

    def left_s(self) -> float | None:
        """Seconds left, from the mean of this run's attempts; None before the first has ended."""
        return (self.total - self.done) * sum(self.spent) / len(self.spent) if self.spent else None


def attempt_once(
    session: Session,
    planned: PlannedCase,
    replicate: int,
    order: int,
    region: Region,
    request: Mapping[str, Any],
    *,
    purpose: Purpose = "measure",
) -> Attempt:
    """One attempt in a fresh process, as the line to append."""
    session.tell("attempt", label=label(planned), phase="start")
    started = now()
    earlier = tries(session, planned.case, replicate, region, purpose)
    parent_id, ending = send(session, planned, request, replicate=replicate, number=earlier, purpose=purpose)
    result = dict(ending.result or {"outcome": ending.outcome, "reason": ending.reason})
    result["continues"] = request.get("continues")  # the interrupted line that this one goes on from
    return attempt_line(
        session, planned, replicate, order, region, started, parent_id, result, purpose=purpose
    )


def tries(session: Session, case: Case, replicate: int, region: Region, purpose: Purpose = "measure") -> int:
    mine = [a for a in session.attempts() if a.case_id == case.case_id and a.region == region]
    return len([a for a in mine if a.replicate == replicate and a.purpose == purpose])


def send(
    session: Session,
    planned: PlannedCase,
    request: Mapping[str, Any],
    *,
    replicate: int,
    number: int,
    purpose: Purpose = "measure",
) -> tuple[str, Ending]:
    """Sends one request to the case's prepared parent; that parent's id and how the attempt ended.

    A parent that was killed before it forked costs nothing: a fresh one is asked, once.
    """
    for last in (False, True):
        parent_id, ending = _sent(
            session, planned, request, replicate=replicate, number=number, purpose=purpose
        )
        if ending.begun or last:
            break
    return parent_id, ending


def _sent(
    session: Session,
    planned: PlannedCase,
    request: Mapping[str, Any],
    *,
    replicate: int,
    number: int,
    purpose: Purpose,
) -> tuple[str, Ending]:
    case = planned.case
    seat = _seat(session, case)
    seed = f"{session.study.order_seed}/{case.case_id}/{replicate}/{number}"
    if purpose != "measure":
        seed += f"/{purpose}"  # a process of its own has luck of its own
    whole = {
        "case": case_to_json(case),
        "environ": {"BREAKEVEN_SIM_SEED": seed} | _cache(session, request["what"]),
        "cores": sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "attempt": number,
        **request,
    }

    def on_event(event: Mapping[str, Any]) -> None:
        phase = event.get("phase", "epoch")
        session.tell(
            "progress",
            label=label(planned),
            phase=phase if phase in PHASES else "",
            estimate_ns=finite(event.get("step_ns")),
            relative_half_width=finite(event.get("relative_half_width")),
            share=finite(event.get("done")),
        )

    def hurry() -> str | None:
        asked = session.hurry()
        if request["what"] == "full":  # it knows its own time, and ends at an epoch
            return asked
        return "kill" if asked == "kill" else LATE if session.is_late() else None

    timeout_s = float(request.get("timeout_s") or session.study.timeout)
    ending = attempt(seat, whole, timeout_s=timeout_s, on_event=on_event, hurry=hurry)
    if not alive(seat):
        close_seat(session.seats.pop(seat_key(case)))
    return seat.id, ending


def _cache(session: Session, what: str) -> dict[str, str]:
    """Where a child keeps what it compiles: so that the first process of a case builds cold, the others warm.

    A check comes before them all; it has a folder of its own and warms nothing.
    """
    folder = session.build_cache and os.path.join(session.build_cache, "check" if what == "check" else "runs")
    return {BUILD_CACHE: folder} if folder else {}


def seat_key(case: Case) -> tuple[str, tuple[tuple[str, str], ...]]:
    return case.tuning.runtime, case.tuning.env


def _seat(session: Session, case: Case) -> Seat:
    key = seat_key(case)
    if key not in session.seats:
        session.seats[key] = open_seat(case.tuning.runtime, dict(case.tuning.env))
    return session.seats[key]


def close_seats(session: Session) -> None:
    while session.seats:
        close_seat(session.seats.popitem()[1])


def by_replicate(session: Session, todo: Iterable[Turn]) -> Iterator[Turn]:
    """What is to run, in turn. Before a replicate's first the prepared parents of the one before are closed:
    replicates of a case never share a parent, cases of a replicate do.
    """
    last = None
    for turn in todo:
        if turn[0] != last:
            close_seats(session)
            last = turn[0]
        yield turn


def attempt_line(
    session: Session,
    planned: PlannedCase,
    replicate: int,
    order: int,
    region: Region,
    started: str,
    parent_id: str | None,
    result: Mapping[str, Any],
    *,
    purpose: Purpose = "measure",
) -> Attempt:
    """The attempt line of a result. A result that does not fit the record becomes an error, not a crash."""
    asked = {
        "replicate": replicate,
        "attempt": tries(session, planned.case, replicate, region, purpose),
        "purpose": purpose,
        "order_index": order,
        "parent_id": parent_id,
        "started_utc": started,
        "region": region,
    }
    return line_of(Attempt, identity(session, planned) | asked, result)


def identity(session: Session, planned: PlannedCase) -> dict[str, Any]:
    """What every line that stands for a process of a case says of it and of the machine."""
    case = planned.case
    return {
        "case_id": case.case_id,
        "work_id": case.work_id,
        "tuning_id": case.tuning_id,
        "work": to_json(case.work),
        "tuning": to_json(case.tuning),
        "device": to_json(case.device),
        "tuning_name": planned.tuning_name,
        "fingerprint_id": session.fingerprint_id,
    }


def line_of(kind: type[Made], common: Mapping[str, Any], result: Mapping[str, Any]) -> Made:
    """A line of this kind: what `result` has for its fields, overruled by `common`.

    Flags and reasons for nulls are pooled with those of the process (`base_`). A result that does not fit the
    record becomes an error, not a crash.
    """
    fields = kind.__dataclass_fields__
    common = {"kind": fields["kind"].default, "schema": SCHEMA, **common}
    try:
        values = {key: value for key, value in result.items() if key in fields}
        if "flags" in fields:
            values["flags"] = sorted({*result.get("base_flags", ()), *result.get("flags", ())})
            nulls = {**result.get("base_nulls", {}), **result.get("nulls", {})}
            values["nulls"] = {name: why for name, why in nulls.items() if name.split(".")[0] in fields}
        line = results_file.decode(canonical(values | common))
    except (ValueError, TypeError, RecursionError) as error:
        refused = {"outcome": "error", "reason": f"the result does not fit the record: {error}"[:300]}
        line = results_file.decode(canonical(refused | common))
    assert isinstance(line, kind)
    return line


def label(planned: PlannedCase) -> str:
    """What a person calls this case: model, device, tuning, precision where one was set, batch."""
    work, precision = planned.case.work, planned.case.tuning.precision
    told = precision == "default" or precision in planned.tuning_name.split()
    named = planned.tuning_name if told else f"{planned.tuning_name} {precision}"
    return f"{work.model} {planned.case.device.label} {named} b{work.batch}"


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
