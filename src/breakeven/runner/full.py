"""Full training runs: all epochs of the recipe, saved at each epoch's end, joined again after a stop.

Knows nothing about sampled attempts.
"""

import re
import shutil
from pathlib import Path
from typing import Any

from breakeven.records.canonical import to_json
from breakeven.records.lines import FINAL, RETRIED, Attempt
from breakeven.runner import checkpoint
from breakeven.runner.plan import PlannedCase, schedule
from breakeven.runner.session import Session, attempt_line, attempt_once, by_replicate, label, now

FULL_TIMEOUT_S = 24 * 3600.0
"""Seconds a full run may take without --max-time: a day, so that a hung one ends some time."""


def run_all(session: Session) -> str | None:
    """Runs every full run that is wanted and missing. Returns why it stopped early, else None."""
    study = session.study
    wanted = schedule(session.plan.cases, study.full_replicates, study.order_seed)
    for replicate, _, planned in wanted:
        _recover(session, planned, replicate)
    todo = [item for item in wanted if _missing(session, item[2], item[0])]
    session.total = session.done + len(todo)
    session.tell("start")
    for replicate, order, planned in by_replicate(session, todo):
        budget_s = session.budget_s()
        if session.hurry():
            return "interrupted"
        if budget_s is not None and budget_s <= 0:
            return "max-time"
        line = _full_run(session, planned, replicate, order, budget_s)
        session.add(line, label(planned))
        if line.outcome == "ok":
            shutil.rmtree(_folder(session, planned, replicate), ignore_errors=True)
        if line.outcome == "interrupted" and not session.hurry():
            return "max-time"
    return "interrupted" if session.hurry() else None


def forget_checkpoints(folder: Path) -> None:
    """Drops saved training states: a fresh start begins at epoch 0."""
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)


def _full_run(
    session: Session, planned: PlannedCase, replicate: int, order: int, budget_s: float | None
) -> Attempt:
    chain = _chain(session, planned, replicate)
    earlier = [epoch for a in chain for epoch in a.epochs]
    folder = _folder(session, planned, replicate)
    saved = checkpoint.load(folder, planned.case.case_id, replicate)
    epochs = saved.epochs if saved else ()
    if list(epochs) != earlier:
        # The state on disk is not where the file's lines end: begin again rather than join what differs.
        chain, epochs = [], ()
    request: dict[str, Any] = {
        "what": "full",
        "checkpoint": str(folder),
        "replicate": replicate,
        "weights": str(weights_file(session, planned, replicate)),
        "earlier": to_json(epochs),
        "budget_s": budget_s,
        "continues": chain[-1].attempt_id if chain else None,
        "timeout_s": FULL_TIMEOUT_S if budget_s is None else budget_s + session.study.timeout + 600,
    }
    return attempt_once(session, planned, replicate, order, "train_run", request)


def _chain(session: Session, planned: PlannedCase, replicate: int) -> list[Attempt]:
    """The interrupted lines that the next attempt goes on from, oldest first."""
    chain: list[Attempt] = []
    for a in _mine(session, planned, replicate):
        if a.outcome != "interrupted" or not a.epochs:
            continue
        if a.continues is None:
            chain = [a]
        elif chain and a.continues == chain[-1].attempt_id:
            chain.append(a)
    return chain


def _mine(session: Session, planned: PlannedCase, replicate: int) -> list[Attempt]:
    case_id = planned.case.case_id
    lines = [a for a in session.attempts() if a.case_id == case_id and a.region == "train_run"]
    return [a for a in lines if a.replicate == replicate]


def _missing(session: Session, planned: PlannedCase, replicate: int) -> bool:
    mine = _mine(session, planned, replicate)
    sampled = [
        a for a in session.attempts() if a.case_id == planned.case.case_id and a.region == "train_step"
    ]
    if any(a.outcome in FINAL - {"ok"} for a in mine + sampled):
        return False
    if any(a.outcome == "ok" for a in mine):
        return False
    failures = [a for a in mine if a.outcome in RETRIED]
    return len(failures) < 2


def _folder(session: Session, planned: PlannedCase, replicate: int) -> Path:
    # Absolute: it is the child that writes there.
    return session.path.parent.resolve() / "checkpoints" / f"{planned.case.case_id}-r{replicate}"


def weights_file(session: Session, planned: PlannedCase, replicate: int) -> Path:
    """Where the trained weights go: `weights/MODEL-DEVICE-rN.npz`, with the case's id where two would be."""
    work, device = planned.case.work, planned.case.device.label
    alike = [
        p for p in session.plan.cases if (p.case.work.model, p.case.device.label) == (work.model, device)
    ]
    parts = [work.model, re.sub(r"[^A-Za-z0-9._=-]+", "-", device)[:80]]
    parts += [planned.case_id[:8]] if len(alike) > 1 else []
    return session.path.parent.resolve() / "weights" / f"{'-'.join(parts)}-r{replicate}.npz"


def _recover(session: Session, planned: PlannedCase, replicate: int) -> None:
    """Writes the line that a killed process could not: the epochs its full run had finished and saved."""
    folder = _folder(session, planned, replicate)
    mine = _mine(session, planned, replicate)
    if any(a.outcome == "ok" for a in mine):
        shutil.rmtree(folder, ignore_errors=True)  # killed after its last line was written
        return
    saved = checkpoint.load(folder, planned.case.case_id, replicate)
    chain = _chain(session, planned, replicate)
    known = [epoch for a in chain for epoch in a.epochs]
    epochs = list(saved.epochs) if saved else []
    if epochs == known[: len(epochs)]:
        return  # the file has them all
    if epochs[: len(known)] != known:
        known, chain = [], []  # a run that began anew
    result = {
        "outcome": "interrupted",
        "reason": "the run was killed; its finished epochs were saved",
        "epochs": to_json(epochs[len(known) :]),
        "continues": chain[-1].attempt_id if chain else None,
        "nulls": {"startup_ns": "the process was killed before it could report"},
    }
    line = attempt_line(session, planned, replicate, 0, "train_run", now(), None, result)
    session.append(line)
