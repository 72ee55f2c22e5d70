"""Attempt lines with a planted truth: what every test of the findings is built from."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from breakeven.analysis import understand
from breakeven.analysis.findings import Understanding
from breakeven.records.case import Case, Recipe, Tuning, Work, applicable, parse_device
from breakeven.records.file import Results
from breakeven.records.lines import Attempt, Block, Check, Epoch, Fingerprint, Line, Outcome, StudyLine
from breakeven.records.tuning import preset

STEPS = 10  # steps an epoch
EPOCHS = 3
HASHES = {"weights": "w0", "order": "o0", "augment": "a0"}


def a_case(
    model: str = "resnet18",
    device: str = "cpu",
    tuning: str | Tuning = "as-written",
    *,
    batch: int = 128,
    data: str = "digits",
    seed: int = 0,
) -> Case:
    place = parse_device(device)
    settings = preset(tuning, place.kind) if isinstance(tuning, str) else tuning
    work = Work(
        task="train",
        model=model,
        data=data,
        data_version="1",
        data_hash="d0",
        batch=batch,
        recipe=Recipe(epochs=EPOCHS),
        seed=seed,
    )
    return applicable(Case(work=work, tuning=settings, device=place))


def an_attempt(case: Case, replicate: int = 0, name: str | None = "as-written", **changes: Any) -> Attempt:
    """An attempt that ended ok without any block."""
    values: dict[str, Any] = {
        "case_id": case.case_id,
        "work_id": case.work_id,
        "tuning_id": case.tuning_id,
        "work": case.work,
        "tuning": case.tuning,
        "device": case.device,
        "tuning_name": name,
        "replicate": replicate,
        "order_index": 0,
        "started_utc": "2025-01-01T00:00:00+00:00",
        "outcome": "ok",
        "region": "train_step",
        "hashes": HASHES,
        "fingerprint_id": "f0",
    }
    return Attempt(**(values | changes))


def sampled(case: Case, replicate: int, step_ms: float, **changes: Any) -> Attempt:
    """A sampled process: slow warm-up, steady steps of `step_ms`, a boundary 7 ms dearer, half a test set."""
    ns, batch = round(step_ms * 1e6), case.work.batch
    blocks = (
        Block(n_steps=4, samples=4 * batch, ns=40 * ns, warmup=True),
        Block(n_steps=2, samples=2 * batch, ns=20 * ns + 99, warmup=True, boundary=True),
        *(Block(n_steps=5, samples=5 * batch, ns=5 * ns) for _ in range(6)),
        Block(n_steps=2, samples=2 * batch, ns=2 * ns + 7_000_000, boundary=True),
    )
    values: dict[str, Any] = {
        "startup_ns": 2_000_000_000,
        "cold_ns": 500_000_000,
        "steps_per_epoch": STEPS,
        "blocks": blocks,
        "eval_blocks": (
            Block(n_steps=1, samples=50, ns=13_000_000, warmup=True),
            Block(n_steps=1, samples=50, ns=3_000_000),
        ),
        "eval_samples": 100,
        "parameters": 1000,
    }
    return an_attempt(case, replicate, **(values | changes))


def full(
    case: Case,
    replicate: int = 0,
    *,
    epochs: Iterable[int] = range(EPOCHS),
    train_s: float = 1.0,
    accuracy: float | None = 0.9,
    **changes: Any,
) -> Attempt:
    """A process of a full run that made the given epochs, each evaluated in 0.1 s; start-up 2 s."""
    made = tuple(
        Epoch(
            index=index,
            train_ns=round(train_s * 1e9),
            eval_ns=100_000_000,
            steps=STEPS,
            samples=STEPS * case.work.batch,
            accuracy=accuracy,
        )
        for index in epochs
    )
    values = {"region": "train_run", "startup_ns": 2_000_000_000, "epochs": made, "eval_samples": 100}
    return an_attempt(case, replicate, **(values | changes))


def spread(
    case: Case, step_ms: float, *, n: int = 3, sd: float = 0.0, seed: int = 0, **changes: Any
) -> list[Attempt]:
    """`n` processes whose level spreads by `sd` on the log scale: what R12 says a process does."""
    rng = random.Random(f"{seed}/{case.case_id}")
    return [sampled(case, i, step_ms * 2.718281828459045 ** rng.gauss(0, sd), **changes) for i in range(n)]


def a_study(cases: Sequence[Case], study: Mapping[str, Any] | None = None, **changes: Any) -> StudyLine:
    values: dict[str, Any] = {
        "tool_version": "0.1.0",
        "started_utc": "2025-01-01T00:00:00+00:00",
        "name": "demo",
        "study": study or {},
        "case_ids": tuple(case.case_id for case in cases),
    }
    return StudyLine(**(values | changes))


def a_check(case: Case, outcome: Outcome = "ok") -> Check:
    return Check(case_id=case.case_id, fingerprint_id="f0", started_utc="t", outcome=outcome)


def a_machine(cores: int = 2, **changes: Any) -> Fingerprint:
    platform = {"cpu": {"model": "Test CPU", "threads": cores}, "python": "CPython 3.11.9", **changes}
    return Fingerprint(fingerprint_id="f0", platform_id="p0", platform=platform, unit={})


def file_of(*lines: Line | Sequence[Line], torn: bool = False, path: str = "demo/results.jsonl") -> Results:
    flat = [line for item in lines for line in (item if isinstance(item, Sequence) else [item])]
    return Results(path=path, lines=tuple(flat), torn=torn)


def understood(*lines: Line | Sequence[Line], **options: Any) -> Understanding:
    return understand([file_of(*lines)], **options)


def again(attempt: Attempt, **changes: Any) -> Attempt:
    return dataclasses.replace(attempt, **changes)
