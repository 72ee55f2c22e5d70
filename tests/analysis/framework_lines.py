"""Attempt lines of several frameworks with a planted truth, and the checks that show their work is equal."""

from __future__ import annotations

import dataclasses
from typing import Any

from breakeven.records.case import Case, Tuning, Work, applicable, parse_device
from breakeven.records.lines import Attempt, Check, Outcome
from breakeven.records.tuning import preset

from .conftest import a_case, spread
from .inference_lines import processes


def trained_in(
    runtime: str, tuning: str = "as-written", device: str = "cpu", precision: str = "default", **work: Any
) -> Case:
    """A case of training at a preset, as that runtime carries it out."""
    settings = preset(tuning, parse_device(device).kind, Tuning(runtime=runtime))
    settings = dataclasses.replace(settings, precision=precision)
    return a_case(work.pop("model", "resnet18"), device, settings, **work)


def inferred_in(
    runtime: str,
    tuning: str = "eager",
    device: str = "cpu",
    *,
    model: str = "resnet18",
    batch: int = 1,
    precision: str = "fp32",
) -> Case:
    """A case of inference at a preset, as that runtime carries it out."""
    place = parse_device(device)
    settings = preset(tuning, place.kind, Tuning(runtime=runtime, precision=precision), task="infer")
    work = Work(task="infer", model=model, data="digits", data_version="1", data_hash="d0", batch=batch)
    return applicable(Case(work=work, tuning=settings, device=place))


def held_to_fp64(
    case: Case, ran: str = "fp32", outcome: Outcome = "ok", reason: str | None = None, **checks: Any
) -> Check:
    """A check whose first step (or logits) agreed with FP64, and whose probes found `ran`."""
    probed = {"conv": {"bits": 23, "precision": ran}, "matmul": {"bits": 23, "precision": "fp32"}}
    found: dict[str, Any] = {"precision": {"asked": "default", "found": probed, "ok": True}}
    if case.work.task == "train":
        found["one_step_parity"] = {"asked": {}, "found": {"loss": 2e-8, "gradient": 4e-6}, "ok": True}
    else:
        found["output"] = {"asked": {}, "found": {"relative_l2": 7e-7, "max_abs": 1e-6}, "ok": True}
    return Check(
        case_id=case.case_id,
        fingerprint_id="f0",
        started_utc="t",
        outcome=outcome,
        reason=reason,
        checks=found | checks,
    )


def lines_of(case: Case, ms: float, name: str, **changes: Any) -> list[Attempt | Check]:
    """Three processes and the check that they passed."""
    make = spread if case.work.task == "train" else processes
    return [*make(case, ms, name=name, **changes), held_to_fp64(case)]
