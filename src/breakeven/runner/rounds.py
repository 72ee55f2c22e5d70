"""One round of a run: every replicate that is wanted and missing, each as an attempt in a fresh process.

Knows nothing about which cases and how many replicates are wanted.
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

from breakeven.records import file as results_file
from breakeven.records.canonical import canonical
from breakeven.records.case import Case
from breakeven.records.lines import FINAL, RETRIED, SAMPLED, SCHEMA, Attempt, Check, Purpose
from breakeven.runner import idle
from breakeven.runner.plan import PlannedCase, schedule
from breakeven.runner.session import Session, attempt_line, attempt_once, by_replicate, label, now, send
from breakeven.runner.study import Study

ENERGY_WINDOW_S = 2.5
"""Seconds of steady steps on a GPU: 20 update periods of NVML's energy counter (100 ms each, contract R32)
and a quarter more."""


MEMORY_ENDED = frozenset({"oom", "limit"})
"""Outcomes that a bigger batch would share."""

WHY: dict[Purpose, str] = {"measure": "", "select": ", tried", "confirm": ", again"}
"""What the display adds to a case's name."""


def measure_round(
    session: Session, cases: Sequence[PlannedCase], wanted: Mapping[str, int], purpose: Purpose = "measure"
) -> str | None:
    """Runs every replicate that is wanted and missing, replicate by replicate in a seeded order.

    `wanted`: processes by case_id. Returns why it stopped early, else None.
    """
    todo = [
        (replicate, order, planned)
        for replicate, order, planned in schedule(
            cases, max(wanted.values(), default=0), session.study.order_seed
        )
        if replicate < wanted[planned.case.case_id] and _missing(session, planned.case, replicate, purpose)
    ]
    idle.take(session, (planned.case.device for *_, planned in todo))
    session.total = session.done + len(todo)
    session.tell("start")
    for replicate, order, planned in by_replicate(session, todo):
        stopped = why_stop(session)
        if stopped:
            return stopped
        if not _missing(session, planned.case, replicate, purpose):
            continue  # another attempt of this round settled it: out of memory, or a failed check
        line = _one(session, planned, replicate, order, purpose)
        if line.outcome == "interrupted":  # the last one of a round may be, with nothing after it
            return why_stop(session)
    return None


def why_stop(session: Session) -> str | None:
    """Why no further process is begun, None if one is: the user's wish, or the time a study may take."""
    if session.hurry():
        return "interrupted"
    left = session.budget_s()
    # An attempt that could not end in time is not begun; the first always is, or nothing would ever be.
    return "max-time" if left is not None and left < max(session.spent, default=0.0) else None


def _missing(session: Session, case: Case, replicate: int, purpose: Purpose) -> bool:
    """Whether this replicate still has to run. Failures that would come again settle all replicates."""
    region = SAMPLED[case.work.task]
    mine = [a for a in session.attempts() if a.case_id == case.case_id and a.region == region]
    if any(a.outcome in FINAL - {"ok"} for a in mine):
        return False
    tries = [a for a in mine if a.replicate == replicate and a.purpose == purpose]
    if not tries or tries[-1].outcome == "interrupted":
        return True
    if tries[-1].outcome in RETRIED:
        # One more try, on the next run: not in the run that saw the failure.
        return len([a for a in tries if a.outcome in RETRIED]) < 2 and not session.is_own(tries[-1])
    return False


def _one(session: Session, planned: PlannedCase, replicate: int, order: int, purpose: Purpose) -> Attempt:
    case = planned.case
    refused = _settled_elsewhere(session, case) or _check_once(session, planned)
    started, region = time.monotonic(), SAMPLED[case.work.task]
    if refused is not None:
        outcome, reason = refused
        line = attempt_line(
            session,
            planned,
            replicate,
            order,
            region,
            now(),
            None,
            {"outcome": outcome, "reason": reason},
            purpose=purpose,
        )
    else:
        request = {"what": "attempt", "plan": _sampling(session.study, case)}
        request |= idle.request(session, case.device)
        line = attempt_once(session, planned, replicate, order, region, request, purpose=purpose)
    session.spent.append(time.monotonic() - started)
    session.add(line, label(planned) + WHY[purpose])
    return line


def _settled_elsewhere(session: Session, case: Case) -> tuple[str, str] | None:
    """A bigger batch of what ran out of memory at the same device and tuning is not tried."""
    limits = [
        a.work.batch
        for a in session.attempts()
        if a.outcome in MEMORY_ENDED and a.device == case.device and a.tuning == case.tuning
        if a.work.batch < case.work.batch and dataclasses.replace(a.work, batch=case.work.batch) == case.work
    ]
    if not limits:
        return None
    return "oom", f"not tried: limit found at {min(limits)}, a batch that ran out of memory"


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


def _sampling(study: Study, case: Case) -> dict[str, Any]:
    """The sampling of one attempt. A GPU's energy counter needs a window of its own length to be read: of an
    inference, whose energy an image is a result, even beyond the budget.
    """
    plan: dict[str, Any] = {"budget_s": study.attempt_time, "most_calls": study.calls}
    if case.device.kind == "cuda":
        served = case.work.task == "infer"
        plan["min_s"] = ENERGY_WINDOW_S if served else min(ENERGY_WINDOW_S, 0.3 * study.attempt_time)
    return plan
