"""Profiles: after all that is timed, each case that ran once more in a process of its own, under a profiler.

Knows nothing about profilers. What they slow down is no number of a study: a profile never joins an attempt.
"""

import re

from breakeven.records.case import Case
from breakeven.records.lines import RETRIED, SAMPLED, ProfileLine
from breakeven.runner.plan import PlannedCase
from breakeven.runner.session import Session, close_seats, label, line_of, now, send

FOLDER = "profiles"
"""Where traces go, beside the results."""
SHARE = 0.5
"""Of an attempt's time, for warming up: longer is only asked for by intervals, which a profile has not."""


def profile_all(session: Session) -> str | None:
    """Profiles every case of the study that ran and has no profile yet. Says why it stopped early, or None.

    A case that did not run well has none: its profile would show something else.
    """
    todo = [planned for planned in session.plan.cases if _missing(session, planned.case)]
    for number, planned in enumerate(todo, 1):
        if session.hurry():
            return "interrupted"
        left = session.budget_s()
        if left is not None and left < 0:
            return "max-time"
        session.tell("note", text=f"profiling {number} of {len(todo)}: {label(planned)}")
        close_seats(session)
        line = _one(session, planned)
        if line is None:
            return "interrupted"
        session.append(line)
        if line.outcome != "ok":
            session.tell("note", text=f"no profile of {label(planned)}: {line.outcome}: {line.reason}")
    return None


def _missing(session: Session, case: Case) -> bool:
    """Whether the case ran here and has no profile of this machine. A failure is tried again once."""
    here = session.fingerprint_id
    region = SAMPLED[case.work.task]
    ran = any(
        a.case_id == case.case_id and a.region == region and a.outcome == "ok" and a.fingerprint_id == here
        for a in session.attempts()
    )
    mine = [
        line
        for line in session.lines
        if isinstance(line, ProfileLine) and (line.case_id, line.fingerprint_id) == (case.case_id, here)
    ]
    failed = [line for line in mine if line.outcome in RETRIED]
    settled = len(mine) > len(failed) or len(failed) > 1 or any(map(session.is_own, failed))
    return ran and not settled


def _one(session: Session, planned: PlannedCase) -> ProfileLine | None:
    """The profile line of a case; None where the user stopped it."""
    session.tell("attempt", label=label(planned), phase="start")
    started = now()
    request = {
        "what": "profile",
        "folder": str(session.path.parent.resolve() / FOLDER),
        "stem": stem(planned),
        "budget_s": SHARE * session.study.attempt_time,
    }
    parent_id, ending = send(session, planned, request, replicate=0, number=0)
    if ending.outcome == "interrupted":
        return None
    result = ending.result or {"outcome": ending.outcome, "reason": ending.reason}
    common = {
        "case_id": planned.case_id,
        "fingerprint_id": session.fingerprint_id,
        "parent_id": parent_id,
        "started_utc": started,
    }
    return line_of(ProfileLine, common, result)


def stem(planned: PlannedCase) -> str:
    """What a trace's name begins with: model, device, tuning and the case's id; its hash follows."""
    case = planned.case
    parts = (case.work.model, case.device.label, planned.tuning_name)
    plain = (re.sub(r"[^A-Za-z0-9._=-]+", "-", part)[:60] for part in parts)
    return "-".join([*plain, case.case_id[:8]])
