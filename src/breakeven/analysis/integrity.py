"""Which attempts may be believed: those whose ids, parents and blocks fit together.

Knows nothing about estimates. A file may have been merged by hand, edited, or written by another tool: what
does not fit is left out and pointed out, never averaged in.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping

from breakeven.analysis.findings import QualityFinding
from breakeven.analysis.verdicts import judged, overruled
from breakeven.records.canonical import ID_LENGTH, digest
from breakeven.records.file import Results
from breakeven.records.lines import Attempt, Check, Fingerprint

LOWER: Mapping[str, frozenset[str]] = {
    "fp32": frozenset({"tf32", "bf16", "fp16", "int8"}),
    "tf32": frozenset({"bf16", "fp16", "int8"}),
    "bf16": frozenset({"fp16", "int8"}),
    "fp16": frozenset({"bf16", "int8"}),
}
"""Precision of a case -> those that nothing read back of it may name. INT8 leaves parts in any."""
PRECISIONS_READ = ("conv_precision", "matmul_precision", "input_dtype", "inference_precision", "autocast")
SHORT = {"bfloat16": "bf16", "float16": "fp16", "f16": "fp16"}

JITTER = 5
"""Different block times of one process from which on another process with all the same is a copy."""


def believed(results: Results) -> tuple[Results, list[QualityFinding]]:
    """The results without the attempts that contradict themselves or each other, and what was left out."""
    left_out: dict[str, list[Attempt]] = {}
    kept: list[Attempt] = []
    seen: dict[str, Attempt] = {}
    parents: dict[tuple[str, str, str], Attempt] = {}
    timed: dict[tuple[object, ...], Attempt] = {}
    for attempt in results.attempts:
        fault = _fault(attempt) or _clash(attempt, seen, parents)
        if fault is None:
            fault = _copied(attempt, timed)
        if fault is None:
            kept.append(attempt)
        elif fault:
            left_out.setdefault(fault, []).append(attempt)
    checks = [judged(check) for check in results.checks]
    others = (
        *(line for line in results.lines if not isinstance(line, Attempt | Check)),
        *checks,
    )
    findings = [
        QualityFinding(
            flag="left_out",
            text=f"attempts left out: {fault}",
            cases=len({a.case_id for a in attempts}),
            evidence=tuple(a.attempt_id for a in attempts),
        )
        for fault, attempts in left_out.items()
    ]
    findings += overruled(list(results.checks), checks)
    findings += _edited(results.fingerprints)
    return dataclasses.replace(results, lines=(*others, *kept)), findings


def _fault(attempt: Attempt) -> str | None:
    """Why an attempt contradicts itself; None if it does not."""
    case = attempt.case
    if (case.case_id, case.work_id, case.tuning_id) != (attempt.case_id, attempt.work_id, attempt.tuning_id):
        return "their ids do not belong to their work, tuning and device (edited, or of a later version)"
    device = attempt.observed.get("device")
    kind = device.partition(":")[0] if isinstance(device, str) else case.device.kind
    if case.device.kind in ("cpu", "cuda") and kind != case.device.kind:
        return f"they ran on {kind} and not on the device of their case"
    asked = case.tuning.precision
    read = (attempt.observed.get(name) for name in PRECISIONS_READ)
    ran = next((p for r in read if (p := SHORT.get(str(r), r)) in LOWER.get(asked, ())), None)
    if ran is not None:
        return f"{ran} was read back of a case in {asked}"
    if any(b.samples != b.n_steps * case.work.batch for b in attempt.blocks):
        return "their blocks count other samples than steps times batch"
    return None


def _clash(
    attempt: Attempt, seen: dict[str, Attempt], parents: dict[tuple[str, str, str], Attempt]
) -> str | None:
    """Why an attempt clashes with an earlier one: None if it does not, empty for an exact copy."""
    key = f"{attempt.fingerprint_id}/{attempt.attempt_id}"
    earlier = seen.setdefault(key, attempt)
    if earlier is not attempt:
        return "" if earlier == attempt else "another attempt has the same id (two files merged?)"
    if attempt.parent_id is None or attempt.outcome != "ok" or attempt.purpose == "select":
        return None
    parent = (attempt.case_id, attempt.region, attempt.parent_id)
    sibling = parents.setdefault(parent, attempt)
    if sibling is not attempt and sibling.replicate != attempt.replicate:
        return "they share a parent process with another replicate of their case"
    return None


def _copied(attempt: Attempt, timed: dict[tuple[object, ...], Attempt]) -> str | None:
    """Why an attempt is another replicate's under a new number: no two processes agree to the nanosecond.

    Times that hardly vary may agree (a simulated device without noise): then nothing is told.
    """
    if len({block.ns for block in attempt.blocks}) < JITTER:
        return None
    first = timed.setdefault((attempt.case_id, attempt.region, attempt.blocks), attempt)
    return None if first is attempt else "they hold the times of another attempt, to the nanosecond (copied?)"


def _edited(machines: Iterable[Fingerprint]) -> list[QualityFinding]:
    """Machines whose id does not belong to their facts. An id of another form is another tool's own."""
    edited = [
        line
        for line in machines
        if re.fullmatch(f"[0-9a-f]{{{ID_LENGTH}}}", line.fingerprint_id)
        and digest("fingerprint", {"platform": line.platform, "unit": line.unit}) != line.fingerprint_id
    ]
    text = "a machine's id does not belong to its facts (edited, or of a later version): do not believe them"
    return [QualityFinding(flag="edited_machine", text=text, cases=0)] if edited else []
