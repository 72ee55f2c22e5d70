"""Load runs of a study: each case, scenario and process by LoadGen, and the search for the greatest rate.

Knows nothing about how LoadGen is driven. What is missing follows from the lines of the file alone.
"""

import importlib.util
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from breakeven.errors import UserError
from breakeven.records import serving
from breakeven.records.lines import (
    FINAL,
    RETRIED,
    SAMPLED,
    Load,
    Purpose,
    Scenario,
    steady_step_ns,
)
from breakeven.records.serving import Bounds, Wanted, rounded
from breakeven.runner import idle
from breakeven.runner.load.driving import MISSING
from breakeven.runner.load.settings import FULL_MS, SERVER_QUERIES, answering, settings
from breakeven.runner.plan import PlannedCase, schedule
from breakeven.runner.rounds import why_stop
from breakeven.runner.session import Session, close_seats, identity, label, line_of, now, send
from breakeven.runner.study import Study

MOST_TIMES = 8.0
"""The search ends at so many times the pipelined rate, which no server can pass by much."""
LONGER = 4.0
"""A trial may take so many times the least duration until it has the queries that it needs: where the search
downwards ends."""


def require(study: Study) -> None:
    """Raises UserError, one line, where the study asks for LoadGen and it is not installed."""
    if study.load and importlib.util.find_spec("mlperf_loadgen") is None:
        raise UserError(MISSING)


def run_all(session: Session) -> str | None:
    """Runs every load run that is wanted and missing. Returns why it stopped early, else None."""
    pairs, skips = answering(session.plan.cases, session.study.load)
    for skip in skips:
        session.tell("note", text=f"skip {skip.what}: {skip.reason}")
    scenarios = {item.case_id: [s for p, s in pairs if p is item] for item in session.plan.cases}
    todo = [
        (replicate, order, planned, scenario)
        for replicate, order, planned in schedule(
            session.plan.cases, session.study.replicates, session.study.order_seed
        )
        for scenario in scenarios[planned.case_id]
        if scenario != "server" and _missing(session, planned, scenario, replicate)
    ]
    searches = [(planned, scenario) for planned, scenario in pairs if scenario == "server"]
    session.total = session.done + len(todo)
    session.tell("start")
    for replicate, order, planned, scenario in todo:
        if stopped := why_stop(session):
            return stopped
        close_seats(session)  # a replicate's process comes from a fresh parent
        if (sampled := _sampled(session, planned)) is not None:
            _run(session, planned, scenario, replicate, order, sampled)
    for order, (planned, _) in enumerate(searches):
        if stopped := _search(session, planned, order):
            return stopped
    return "interrupted" if session.hurry() else None


def set_aside(folder: Path, number: int) -> None:
    """--fresh keeps the logs of the old results as it keeps these."""
    if (folder / "load").exists():
        (folder / "load").rename(folder / f"load-before-{number}")


def _search(session: Session, planned: PlannedCase, order: int) -> str | None:
    """Trial after trial until the answer. Returns why it stopped early, else None."""
    while (sampled := _sampled(session, planned)) is not None:
        mine = _mine(session, planned, "server")
        if _gave_up(session, mine):
            return None
        bounds = serving.bounds_of(mine) or _bounds(session.study, sampled)
        wanted = serving.next_trial(serving.trials_of(mine), bounds)
        if not isinstance(wanted, Wanted):
            return None
        if stopped := why_stop(session):
            return stopped
        if wanted.purpose == "confirm":
            close_seats(session)
        number = len({line.replicate for line in mine if line.purpose == wanted.purpose and _ended(line)})
        session.total += 1
        _run(session, planned, "server", number, order, sampled, wanted=wanted, bounds=bounds)
    return None


def _bounds(study: Study, sampled: tuple[float, float]) -> Bounds:
    """From half the pipelined rate, down to what has queries enough in time, up to far beyond."""
    _, per_s = sampled
    least = rounded(SERVER_QUERIES / (LONGER * _least_s(study)))
    start = max(rounded(per_s / 2), least)
    most = max(rounded(MOST_TIMES * per_s), start)
    return Bounds(start=start, least=least, most=most, processes=study.replicates)


def _least_s(study: Study) -> float:
    return FULL_MS / 1000 if study.load_minimums == "full" else study.load_time


def _ended(line: Load) -> bool:
    return line.outcome == "ok" and line.validity is not None


def _gave_up(session: Session, mine: Sequence[Load]) -> bool:
    """Whether the last trial failed in a way that another would share, or failed and failed again."""
    last = mine[-1] if mine else None
    if last is None or _ended(last) or last.outcome == "interrupted":
        return False
    failures = [line for line in mine if line.outcome in RETRIED]
    return last.outcome in FINAL or len(failures) > 1 or session.is_own(last)


def _mine(session: Session, planned: PlannedCase, scenario: Scenario) -> list[Load]:
    """The lines of this case and scenario that answer what is asked now: limit and minimums are those."""
    lines = [line for line in session.loads() if (line.case_id, line.scenario) == (planned.case_id, scenario)]
    return [line for line in lines if _same_question(session.study, line)]


def _same_question(study: Study, line: Load) -> bool:
    asked = line.settings.get("min_duration_ms") == round(1000 * _least_s(study))
    if line.scenario != "server":
        return asked
    limit_ns = round(1e6 * (study.p99_limit_ms or 0.0))
    waits = line.search is not None and line.search.get("max_wait_ms") == study.load_wait_ms
    return asked and waits and line.settings.get("server_target_latency_ns") == limit_ns


def _missing(session: Session, planned: PlannedCase, scenario: Scenario, replicate: int) -> bool:
    mine = _mine(session, planned, scenario)
    if any(line.outcome in FINAL - {"ok"} for line in mine):
        return False
    tries = [line for line in mine if line.replicate == replicate]
    if not tries or tries[-1].outcome == "interrupted":
        return True
    failures = [line for line in tries if line.outcome in RETRIED]
    return tries[-1].outcome in RETRIED and len(failures) < 2 and not session.is_own(tries[-1])


def _sampled(session: Session, planned: PlannedCase) -> tuple[float, float] | None:
    """Seconds of a single call and samples a second, as our own attempts have them; None if they failed."""
    mine = [
        a for a in session.attempts() if a.case_id == planned.case_id and a.region == SAMPLED[a.work.task]
    ]
    if any(a.outcome in FINAL - {"ok"} for a in mine):
        return None
    steps = [ns for a in mine if a.outcome == "ok" and (ns := steady_step_ns(a)) is not None]
    if not steps:
        return None
    step_s = statistics.median(steps) / 1e9
    calls = [statistics.median(a.calls_ns) for a in mine if a.outcome == "ok" and a.calls_ns]
    call_s = statistics.median(calls) / 1e9 if calls else step_s
    return call_s, planned.case.work.batch / step_s


def _run(
    session: Session,
    planned: PlannedCase,
    scenario: Scenario,
    replicate: int,
    order: int,
    sampled: tuple[float, float],
    *,
    wanted: Wanted | None = None,
    bounds: Bounds | None = None,
) -> None:
    """One run of LoadGen in a fresh process, as a line of the file."""
    study, purpose = session.study, wanted.purpose if wanted else "measure"
    number = _tries(session, planned, scenario, purpose, replicate)
    call_s, samples_per_s = sampled
    given = settings(
        scenario,
        minimums=study.load_minimums,
        seconds=study.load_time,
        seed=f"{study.order_seed}/{planned.case_id}/{scenario}/{purpose}/{replicate}",
        call_s=call_s,
        samples_per_s=samples_per_s,
        target_per_s=wanted.per_s if wanted else None,
        limit_s=study.p99_limit_ms / 1000 if study.p99_limit_ms else None,
    )
    wait_ms = study.load_wait_ms if scenario == "server" else 0.0
    root = session.path.parent.resolve()  # absolute: it is the child that writes there
    request = {
        "what": "load",
        "settings": given,
        "max_wait_s": wait_ms / 1000,
        "root": str(root),
        "folder": str(root / "load" / _folder(planned, scenario, purpose, replicate, number)),
        "timeout_s": study.timeout + _longest_s(given, sampled),
        **idle.request(session, planned.case.device),
    }
    session.tell("attempt", label=_label(planned, scenario, wanted), phase="load")
    started_utc, started = now(), time.monotonic()
    parent_id, ending = send(session, planned, request, replicate=replicate, number=number, purpose=purpose)
    result = dict(ending.result or {"outcome": ending.outcome, "reason": ending.reason})
    asked = {
        "scenario": scenario,
        "replicate": replicate,
        "attempt": number,
        "purpose": purpose,
        "order_index": order,
        "parent_id": parent_id,
        "started_utc": started_utc,
        "settings": given,
        "minimums": study.load_minimums,
        "search": {**serving.noted(bounds), "max_wait_ms": wait_ms} if bounds else None,
    }
    line = line_of(Load, identity(session, planned) | asked, result)
    session.spent.append(time.monotonic() - started)
    session.add(line, _label(planned, scenario, wanted))


def _longest_s(given: Mapping[str, Any], sampled: tuple[float, float]) -> float:
    """Seconds a run may take: its least duration and its least queries, and as long again for what waits."""
    call_s, per_s = sampled
    rate: float = given.get("server_target_qps", min(per_s, 1 / call_s))
    longest: float = 4 * (given["min_duration_ms"] / 1000 + given["min_query_count"] / rate)
    return longest


def _tries(
    session: Session, planned: PlannedCase, scenario: Scenario, purpose: Purpose, replicate: int
) -> int:
    mine = [line for line in session.loads() if (line.case_id, line.scenario) == (planned.case_id, scenario)]
    return len([line for line in mine if (line.purpose, line.replicate) == (purpose, replicate)])


def _folder(planned: PlannedCase, scenario: Scenario, purpose: Purpose, replicate: int, number: int) -> str:
    """`CASE-SCENARIO-rN`: of a search with its purpose, of another try with its number."""
    parts = [planned.case_id, scenario, *([purpose] if purpose != "measure" else []), f"r{replicate}"]
    return "-".join([*parts, *([f"a{number}"] if number else [])])


def _label(planned: PlannedCase, scenario: Scenario, wanted: Wanted | None) -> str:
    what = f"{label(planned)} {scenario}"
    if wanted is None:
        return what
    return f"{what} at {wanted.per_s:g}/s" + (", again" if wanted.purpose == "confirm" else "")
