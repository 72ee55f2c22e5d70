"""Runs a study: every case in fresh processes, in a seeded interleaved order, each result on disk at once.

Knows nothing about what the numbers mean beyond the spread that decides on more replicates. Running the same
study again goes on where the file ends.
"""

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakeven import __version__
from breakeven.errors import UserError
from breakeven.records import file as results_file
from breakeven.records.canonical import canonical
from breakeven.records.case import Case
from breakeven.records.lines import (
    FINAL,
    RETRIED,
    SCHEMA,
    Check,
    Fingerprint,
    Region,
    StudyLine,
    steady_step_ns,
)
from breakeven.records.replicates import looks_of
from breakeven.runner import ceilings, full, idle
from breakeven.runner.plan import Plan, PlannedCase, schedule
from breakeven.runner.session import (
    Event,
    Session,
    attempt_line,
    attempt_once,
    close_seats,
    label,
    now,
    send,
)
from breakeven.runner.study import Study, resolved
from breakeven.stats import case_interval, looks_between

ENERGY_WINDOW_S = 2.5
"""Seconds of steady steps on a GPU: 20 update periods of NVML's energy counter (100 ms each, contract R32)
and a quarter more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """How a run ended. `stopped`: why before its end, None if complete. `outcomes`: of this run alone."""

    path: Path
    stopped: str | None
    attempts: int
    outcomes: Mapping[str, int]
    reused: int


def run(
    study: Study,
    plan: Plan,
    folder: Path,
    fingerprint: Fingerprint,
    *,
    on_event: Callable[[Event], None] = lambda event: None,
    hurry: Callable[[], str | None] = lambda: None,
    fresh: bool = False,
) -> Summary:
    """Measures what `plan` holds and is not in `folder`'s results yet.

    `hurry` returns None, 'finish' (end the running attempt, then stop) or 'kill' (stop it now). Raises
    UserError if the folder is busy, unwritable, damaged or from another platform, or if the plan is empty.
    """
    if not plan.cases:
        reasons = "; ".join(dict.fromkeys(f"{skip.what}: {skip.reason}" for skip in plan.skips))
        raise UserError(f"nothing can run here: {reasons or 'the study has no case'}"[:300])
    with results_file.locked(folder):
        path = folder / results_file.NAME
        if fresh:
            _set_aside(path)
        session = Session(study, plan, path, on_event, hurry, time.monotonic())
        _begin(session, fingerprint)
        try:
            ceilings.for_study(session)
            stopped = _measure(session)
        finally:
            close_seats(session)
        return Summary(
            path=path,
            stopped=stopped,
            attempts=session.done,
            outcomes=session.outcomes,
            reused=len(session.attempts()) - sum(session.outcomes.values()),
        )


def _set_aside(path: Path) -> None:
    """--fresh keeps the old results under another name: measured numbers are never thrown away."""
    if path.exists():
        number = 1
        while (old := path.with_name(f"results-before-{number}.jsonl")).exists():
            number += 1
        path.rename(old)
    full.forget_checkpoints(path.parent)


def _begin(session: Session, fingerprint: Fingerprint) -> None:
    """Reads what is there, refuses another platform, and appends fingerprint and study lines where new."""
    session.lines = list(results_file.read_if_there(session.path).lines)
    session.earlier = len(session.lines)
    earlier = [line for line in session.lines if isinstance(line, Fingerprint)]
    difference = _difference(earlier[-1], fingerprint) if earlier else None
    if difference is not None:
        raise UserError(
            f"{session.path} was measured on another platform ({difference}): "
            "use --fresh, or another folder with -o"
        )
    session.fingerprint_id = fingerprint.fingerprint_id
    if fingerprint.fingerprint_id not in {line.fingerprint_id for line in earlier}:
        session.append(fingerprint)
    line = StudyLine(
        tool_version=__version__,
        started_utc=now(),
        name=session.study.name,
        study=resolved(session.study),
        case_ids=tuple(planned.case.case_id for planned in session.plan.cases),
        skips=tuple({"what": skip.what, "reason": skip.reason} for skip in session.plan.skips),
    )
    last = next((old for old in reversed(session.lines) if isinstance(old, StudyLine)), None)
    said = (line.study, line.case_ids, line.tool_version)
    if last is None or (last.study, last.case_ids, last.tool_version) != said:
        session.append(line)


def _difference(old: Fingerprint, new: Fingerprint) -> str | None:
    """The first fact in which two platforms differ, None if they agree.

    Libraries are those of the runtimes asked: one that was not asked on one side is no difference.
    """
    before, after = dict(_facts(old.platform)), dict(_facts(new.platform))
    for key in sorted(before.keys() | after.keys()):
        unasked = key.startswith("libraries.") and not (key in before and key in after)
        if not unasked and before.get(key) != after.get(key):
            there, here = ("nothing" if v is None else str(v)[:60] for v in (before.get(key), after.get(key)))
            return f"{key}: {there} there, {here} here"
    return None


def _facts(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from _facts(item, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", item


def _measure(session: Session) -> str | None:
    """All rounds of replicates, then full runs. Returns why it stopped early, else None."""
    study = session.study
    wanted = {planned.case.case_id: study.replicates for planned in session.plan.cases}
    while True:
        stopped = _round(session, wanted)
        if stopped:
            return stopped
        more = _more_replicates(session, wanted)
        if more == wanted:
            break
        wider = [case_id for case_id in more if more[case_id] > wanted[case_id]]
        session.tell("note", text=f"{len(wider)} of {len(more)} intervals are too wide: more processes")
        wanted = more
    return full.run_all(session) if study.full else None


def _round(session: Session, wanted: Mapping[str, int]) -> str | None:
    """Runs every replicate that is wanted and missing, replicate by replicate in a seeded order."""
    most = max(wanted.values())
    todo = [
        (replicate, order, planned)
        for replicate, order, planned in schedule(session.plan.cases, most, session.study.order_seed)
        if replicate < wanted[planned.case.case_id]
        and _missing(session, planned.case, replicate, "train_step")
    ]
    idle.take(session, (planned.case.device for *_, planned in todo))
    session.total = session.done + len(todo)
    session.tell("start")
    last_replicate = None
    for replicate, order, planned in todo:
        if replicate != last_replicate:
            close_seats(session)  # replicates of a case never share a parent
            last_replicate = replicate
        stopped = _why_stop(session)
        if stopped:
            return stopped
        if not _missing(session, planned.case, replicate, "train_step"):
            continue  # another attempt of this round settled it: out of memory, or a failed check
        _one(session, planned, replicate, order)
    return None


def _why_stop(session: Session) -> str | None:
    if session.hurry():
        return "interrupted"
    limit = session.study.max_time
    if limit is None:
        return None
    # An attempt that could not end in time is not begun; the first always is, or nothing would ever be.
    expected = max(session.spent, default=0.0)
    return "max-time" if time.monotonic() - session.started + expected > limit else None


def _missing(session: Session, case: Case, replicate: int, region: Region) -> bool:
    """Whether this replicate still has to run. Failures that would come again settle all replicates."""
    mine = [a for a in session.attempts() if a.case_id == case.case_id and a.region == region]
    if any(a.outcome in FINAL - {"ok"} for a in mine):
        return False
    tries = [a for a in mine if a.replicate == replicate]
    if not tries or tries[-1].outcome == "interrupted":
        return True
    if tries[-1].outcome in RETRIED:
        # One more try, on the next run: not in the run that saw the failure.
        return len([a for a in tries if a.outcome in RETRIED]) < 2 and not session.is_own(tries[-1])
    return False


def _one(session: Session, planned: PlannedCase, replicate: int, order: int) -> None:
    case = planned.case
    refused = _settled_elsewhere(session, case) or _check_once(session, planned)
    started = time.monotonic()
    if refused is not None:
        outcome, reason = refused
        line = attempt_line(
            session,
            planned,
            replicate,
            order,
            "train_step",
            now(),
            None,
            {"outcome": outcome, "reason": reason},
        )
    else:
        request = {"what": "attempt", "plan": _sampling(session.study, case)}
        request |= idle.request(session, case.device)
        line = attempt_once(session, planned, replicate, order, "train_step", request)
    session.spent.append(time.monotonic() - started)
    session.add(line, label(planned))


def _settled_elsewhere(session: Session, case: Case) -> tuple[str, str] | None:
    """A bigger batch of what ran out of memory at the same device, precision and execution is not tried."""
    for a in session.attempts():
        same = a.device == case.device and dataclasses.replace(a.work, batch=case.work.batch) == case.work
        if a.outcome == "oom" and same and a.tuning == case.tuning and a.work.batch < case.work.batch:
            return "oom", f"not tried: batch {a.work.batch} already ran out of memory"
    return None


def _check_once(session: Session, planned: PlannedCase) -> tuple[str, str] | None:
    """Runs the case's checks if this machine has none yet. Returns the outcome that bars it, or None."""
    case = planned.case
    where = (case.case_id, session.fingerprint_id)
    made = [c for c in session.lines if isinstance(c, Check) and (c.case_id, c.fingerprint_id) == where]
    if made and (made[-1].outcome not in RETRIED or len(made) > 1 or session.is_own(made[-1])):
        return _barred(made[-1])
    session.tell("attempt", label=label(planned), phase="check")
    started = now()
    _, ending = send(session, planned, {"what": "check"}, replicate=0, number=0)
    if ending.outcome == "interrupted":
        return None
    line = _check_line(session, case, started, ending.result or dataclasses.asdict(ending))
    session.append(line)
    return _barred(line)


def _barred(line: Check) -> tuple[str, str] | None:
    """Outcome and reason of a check that bars its case. One that did not come to its end bars nothing."""
    passed = line.outcome in RETRIED | {"ok", "interrupted"}
    return None if passed else (line.outcome, line.reason or "")


def _check_line(session: Session, case: Case, started: str, result: Mapping[str, Any]) -> Check:
    """The check line of a result. A result that does not fit the record becomes an error, not a crash."""
    common = {
        "kind": "check",
        "schema": SCHEMA,
        "case_id": case.case_id,
        "fingerprint_id": session.fingerprint_id,
        "started_utc": started,
    }
    found = {key: result[key] for key in ("outcome", "reason", "checks") if key in result}
    try:
        line = results_file.decode(canonical(found | common))
    except (ValueError, TypeError, RecursionError) as error:
        refused = {"outcome": "error", "reason": f"the result does not fit the record: {error}"[:300]}
        line = results_file.decode(canonical(refused | common))
    assert isinstance(line, Check)
    return line


def _more_replicates(session: Session, wanted: Mapping[str, int]) -> dict[str, int]:
    """Cases whose interval over processes is still too wide get the next number of replicates.

    The interval is the one that is shown in the end, widened for having asked.
    """
    study = session.study
    steps = looks_between(study.replicates, study.max_replicates)
    studies = [line for line in session.lines if isinstance(line, StudyLine)]
    more = dict(wanted)
    for case_id, count in wanted.items():
        medians = [
            ns
            for a in session.attempts()
            if a.case_id == case_id and a.region == "train_step" and a.outcome == "ok"
            if (ns := steady_step_ns(a)) is not None
        ]
        interval = case_interval(medians, looks=looks_of(studies, case_id))
        if interval is None or (interval.high / interval.low) ** 0.5 - 1 <= study.relative_ci:
            continue
        more[case_id] = next((n for n in steps if n > count), count)
    return more


def _sampling(study: Study, case: Case) -> dict[str, Any]:
    """The sampling of one attempt. A GPU's energy counter needs a window of its own length to be read."""
    plan: dict[str, Any] = {"budget_s": study.attempt_time}
    if case.device.kind == "cuda":
        plan["min_s"] = min(ENERGY_WINDOW_S, 0.3 * study.attempt_time)
    return plan
