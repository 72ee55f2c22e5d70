"""Runs a study: every case in fresh processes, in a seeded interleaved order, each result on disk at once.

Knows nothing about what the numbers mean beyond the spread that decides on more replicates. Running the same
study again goes on where the file ends.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakeven import __version__
from breakeven.errors import UserError
from breakeven.records import file as results_file
from breakeven.records.lines import (
    SAMPLED,
    Fingerprint,
    StudyLine,
    steady_step_ns,
)
from breakeven.records.replicates import looks_of
from breakeven.runner import best, ceilings, full, profiling
from breakeven.runner.load import rounds as load
from breakeven.runner.plan import Plan
from breakeven.runner.rounds import measure_round
from breakeven.runner.session import (
    Event,
    Session,
    close_seats,
    now,
)
from breakeven.runner.study import Study, resolved
from breakeven.stats import case_interval, looks_between


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
    load.require(study)
    with results_file.locked(folder):
        path = folder / results_file.NAME
        if fresh:
            _set_aside(path)
        session = Session(study, plan, path, on_event, hurry, time.monotonic())
        _begin(session, fingerprint)
        with tempfile.TemporaryDirectory(prefix="breakeven-", ignore_cleanup_errors=True) as cache:
            session.build_cache = cache
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
            reused=len(session.attempts()) + len(session.loads()) - sum(session.outcomes.values()),
        )


def _set_aside(path: Path) -> None:
    """--fresh keeps the old results under another name: measured numbers are never thrown away."""
    if path.exists():
        number = 1
        while (old := path.with_name(f"results-before-{number}.jsonl")).exists():
            number += 1
        path.rename(old)
        load.set_aside(path.parent, number)
    full.forget_checkpoints(path.parent)


def _begin(session: Session, fingerprint: Fingerprint) -> None:
    """Reads what is there, refuses another platform, and appends fingerprint and study lines where new."""
    session.lines = list(results_file.read_whole(session.path).lines)
    session.earlier = len(session.lines)
    earlier = [line for line in session.lines if isinstance(line, Fingerprint)]
    difference = platform_difference(earlier[-1], fingerprint) if earlier else None
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


def platform_difference(old: Fingerprint, new: Fingerprint) -> str | None:
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
    """All rounds of replicates, then the best, then full runs. Returns why it stopped early, else None."""
    study = session.study
    wanted = {planned.case.case_id: study.replicates for planned in session.plan.cases}
    while True:
        stopped = measure_round(session, session.plan.cases, wanted)
        if stopped:
            return stopped
        more = _more_replicates(session, wanted)
        if more == wanted:
            break
        wider = [case_id for case_id in more if more[case_id] > wanted[case_id]]
        session.tell("note", text=f"{len(wider)} of {len(more)} intervals are too wide: more processes")
        wanted = more
    if study.best and (stopped := best.choose_and_confirm(session)):
        return stopped
    if study.load and (stopped := load.run_all(session)):
        return stopped
    if study.full and (stopped := full.run_all(session)):
        return stopped
    return profiling.profile_all(session) if study.profile else None


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
            if a.case_id == case_id and a.region == SAMPLED[a.work.task] and a.outcome == "ok"
            if a.purpose == "measure"
            if (ns := steady_step_ns(a)) is not None
        ]
        interval = case_interval(medians, looks=looks_of(studies, case_id))
        if interval is None or (interval.high / interval.low) ** 0.5 - 1 <= study.relative_ci:
            continue
        more[case_id] = next((n for n in steps if n > count), count)
    return more
