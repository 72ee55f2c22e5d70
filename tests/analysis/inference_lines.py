"""Attempt lines of inference with a planted truth."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from breakeven.records.case import Case, Tuning, Work, applicable, parse_device
from breakeven.records.lines import Attempt, Block, Check
from breakeven.records.tuning import preset

from .conftest import an_attempt

HASHES = {"weights": "w0", "order": "o0"}


def infer_case(
    model: str = "resnet18",
    device: str = "cpu",
    tuning: str | Tuning = "eager",
    precision: str = "fp32",
    *,
    batch: int = 1,
    weights: str | None = None,
) -> Case:
    place = parse_device(device)
    settings = preset(tuning, place.kind, task="infer") if isinstance(tuning, str) else tuning
    calibration = "minmax/256/train" if precision == "int8" else None
    settings = dataclasses.replace(settings, precision=precision, calibration=calibration)
    work = Work(
        task="infer",
        model=model,
        data="digits",
        data_version="1",
        data_hash="d0",
        batch=batch,
        weights=weights,
    )
    return applicable(Case(work=work, tuning=settings, device=place))


def served(
    case: Case, replicate: int, step_ms: float, calls_ms: Sequence[float] | None = None, **changes: Any
) -> Attempt:
    """A process whose pipelined calls take `step_ms`, and whose single calls take `calls_ms`."""
    ns, batch = round(step_ms * 1e6), case.work.batch
    calls = [step_ms] * 100 if calls_ms is None else calls_ms
    values: dict[str, Any] = {
        "region": "infer_stream",
        "hashes": HASHES,
        "startup_ns": 2_000_000_000,
        "cold_ns": 50 * ns,
        "blocks": (
            Block(n_steps=4, samples=4 * batch, ns=40 * ns, warmup=True),
            *(Block(n_steps=5, samples=5 * batch, ns=5 * ns) for _ in range(6)),
        ),
        "calls_ns": tuple(round(ms * 1e6) for ms in calls),
        "parameters": 1000,
        "nulls": {"phases": "a call is one piece"},
    }
    return an_attempt(case, replicate, **(values | {"name": case.tuning.runtime} | changes))


def processes(
    case: Case,
    step_ms: float,
    *,
    name: str = "eager",
    n: int = 3,
    sd: float = 0.0,
    seed: int = 0,
    **changes: Any,
) -> list[Attempt]:
    """`n` processes whose level spreads by `sd` on the log scale."""
    rng = random.Random(f"{seed}/{case.case_id}")
    return [served(case, i, step_ms * math.exp(rng.gauss(0, sd)), name=name, **changes) for i in range(n)]


def checked(case: Case, checks: Mapping[str, Any] | None = None, **changes: Any) -> Check:
    """A check that was passed: everything agrees."""
    found = {
        "output": {"asked": 1e-5, "found": 2e-7, "ok": True, "note": ""},
        "agreement": {"asked": 0.99, "found": 0.998, "ok": True, "note": "1024 images"},
        "output_error": {"asked": 0.1, "found": 0.02, "ok": True, "note": ""},
    }
    values: dict[str, Any] = {"fingerprint_id": "f0", "started_utc": "t", "outcome": "ok"}
    return Check(case_id=case.case_id, checks=found | dict(checks or {}), **(values | changes))


def law_ms(floor: float, fixed: float, a_second: float, batch: int) -> float:
    """t = max(floor, fixed + B / X), in milliseconds; X in images a second."""
    return max(floor, fixed + 1e3 * batch / a_second)
