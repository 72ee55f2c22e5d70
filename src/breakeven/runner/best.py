"""The best tuning of every work on every device: candidates tried once, the fastest measured again.

Knows nothing about intervals. Every stage follows from the lines of the file alone, so that a stopped run
goes on where it was.
"""

from collections.abc import Sequence

from breakeven import runtimes
from breakeven.records import ladder
from breakeven.records.case import Case
from breakeven.records.lines import Attempt, Check
from breakeven.records.selection import choices, times_ns
from breakeven.runner.grid import without
from breakeven.runner.plan import PlannedCase, stacked
from breakeven.runner.rounds import measure_round
from breakeven.runner.session import Session, tries
from breakeven.runner.study import NamedTuning

SELECT_PROCESSES = 1
"""Processes a candidate gets that the study does not measure anyway: its number decides, no more."""


LOSS = 1.03
"""A step loses if it takes longer by this factor: closer times are the same (analysis.ratios.MARGIN), and a
stack without a harmless step is no better for it."""


def choose_and_confirm(session: Session) -> str | None:
    """Runs what is missing of the best of this study. Returns why it stopped early, else None."""
    stopped = _try(session, session.plan.candidates) or _try(session, lean_stacks(session))
    if stopped:
        return stopped
    chosen = _chosen(session)
    replicates = session.study.replicates
    fresh = [
        item for item in chosen if not tries(session, item.case, replicates - 1, "train_step", "confirm")
    ]
    if fresh:
        text = f"measured again: the best of each device, and the loop as written ({len(fresh)})"
        session.tell("note", text=text)
    return measure_round(session, chosen, dict.fromkeys(_ids(chosen), replicates), "confirm")


def _try(session: Session, candidates: Sequence[PlannedCase]) -> str | None:
    return measure_round(session, candidates, dict.fromkeys(_ids(candidates), SELECT_PROCESSES), "select")


def lean_stacks(session: Session) -> list[PlannedCase]:
    """The full stacks without the steps that lose or fail in the ladder, at any numerics and as written.

    Only where the study leaves the precision to the tuning, as the ladder does.
    """
    found: dict[str, PlannedCase] = {}
    known = {*_ids(session.plan.cases), *_ids(session.plan.candidates)}
    if session.study.precision != (None,):
        return []
    for case in _places(session):
        kind = case.device.kind
        losing = losing_steps(session.attempts(), case)
        for removed in (losing, {*losing, *ladder.changes_numerics(kind)}):
            if removed:
                lean = stacked(case, without(sorted(removed), kind))
                if runtimes.load(lean.case.tuning.runtime).supports(lean.case) is None:
                    found.setdefault(lean.case_id, lean)
    return [item for case_id, item in found.items() if case_id not in known]


def losing_steps(attempts: Sequence[Attempt], case: Case) -> set[str]:
    """The steps of the ladder that took longer than the one before them, by what decides, and the first of
    several in a row that gave no time: those behind it may have failed for its sake.
    """
    mine = [a for a in attempts if (a.work_id, a.device) == (case.work_id, case.device)]
    times, names = times_ns(mine), {a.tuning_name: a.case_id for a in mine}
    losing, before, failed = set(), None, False
    for step in ladder.steps(case.device.kind):
        now = times.get(names.get(step) or stacked(case, NamedTuning(name=step, preset=step)).case_id)
        if before is not None and (not failed if now is None else now > LOSS * before):
            losing.add(step)
        failed = now is None
        before = before if now is None else now
    return losing


def _places(session: Session) -> list[Case]:
    cases = [item.case for item in session.plan.cases]
    return list({(case.work_id, case.device): case for case in cases}.values())


def _chosen(session: Session) -> list[PlannedCase]:
    """The cases that every place needs fresh numbers of."""
    checks = [line for line in session.lines if isinstance(line, Check)]
    found = choices(session.attempts(), _ids(session.plan.cases), checks)
    here = [found[place] for case in _places(session) if (place := (case.work_id, case.device)) in found]
    lines = {a.case_id: a for a in session.attempts()}
    ids = dict.fromkeys(case_id for choice in here for case_id in choice.wanted)
    return [
        PlannedCase(case=lines[case_id].case, tuning_name=lines[case_id].tuning_name or "") for case_id in ids
    ]


def _ids(cases: Sequence[PlannedCase]) -> list[str]:
    return [item.case_id for item in cases]
