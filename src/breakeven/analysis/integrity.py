"""Which attempts and load lines may be believed: those whose ids, parents and times fit together.

Knows nothing about estimates. A file may have been merged by hand, edited, or written by another tool: what
does not fit is left out and pointed out, never averaged in.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping

import numpy as np

from breakeven.analysis.findings import QualityFinding
from breakeven.analysis.verdicts import judged, overruled
from breakeven.records.blocks import as_columns
from breakeven.records.canonical import ID_LENGTH, digest
from breakeven.records.case import Case, Tuning, Work
from breakeven.records.file import Results, left_out
from breakeven.records.lines import Attempt, Check, Fingerprint, Load

LOWER: Mapping[str, frozenset[str]] = {
    "fp32": frozenset({"tf32", "bf16", "fp16", "int8"}),
    "tf32": frozenset({"bf16", "fp16", "int8"}),
    "bf16": frozenset({"fp16", "int8"}),
    "fp16": frozenset({"bf16", "int8"}),
}
"""Precision of a case -> those that nothing read back of it may name. INT8 leaves parts in any."""
PRECISIONS_READ = ("conv_precision", "matmul_precision", "input_dtype", "inference_precision", "autocast")
SHORT = {"bfloat16": "bf16", "float16": "fp16", "f16": "fp16"}

Proved = dict[tuple[str, ...], Case | Work | Tuning]
"""(case_id, work_id, tuning_id) -> the case that they belong to, and each id of a part -> the part, of those
seen so far."""

JITTER = 5
"""Different block times of one process from which on another process with all the same is a copy."""


def believed(results: Results) -> tuple[Results, list[QualityFinding]]:
    """The results without the lines that contradict themselves or each other, and what was left out."""
    doubted: dict[str, list[Attempt]] = {}
    kept: list[Attempt] = []
    seen: dict[str, Attempt] = {}
    parents: dict[tuple[str, str, str], Attempt] = {}
    timed: dict[tuple[object, ...], list[Attempt]] = {}
    ids: Proved = {}
    for attempt in results.attempts:
        fault = _fault(attempt, ids) or _clash(attempt, seen, parents)
        if fault is None:
            fault = _copied(attempt, timed)
        if fault is None:
            kept.append(attempt)
        elif fault:
            doubted.setdefault(fault, []).append(attempt)
    loads, loads_out = _loads(results.loads)
    checks = [judged(check) for check in results.checks]
    others = (*(line for line in results.lines if not isinstance(line, Attempt | Load | Check)), *checks)
    findings = [
        QualityFinding(
            flag="left_out",
            text=f"attempts left out: {fault}",
            cases=len({a.case_id for a in attempts}),
            evidence=tuple(a.attempt_id for a in attempts),
        )
        for fault, attempts in doubted.items()
    ]
    findings += [
        QualityFinding(
            flag="left_out",
            text=f"load lines left out: {fault}",
            cases=len({line.case_id for line in lines}),
            evidence=tuple(line.load_id for line in lines),
        )
        for fault, lines in loads_out.items()
    ]
    findings += overruled(list(results.checks), checks)
    findings += _edited(results.fingerprints)
    if results.unread:
        findings.append(QualityFinding(flag="unread", text=left_out(results.unread, "the file"), cases=0))
    return dataclasses.replace(results, lines=(*others, *kept, *loads)), findings


CUT = "the last line of the file was cut off (a crash while writing) and is left out"


def faults_of(results: Results, found: Iterable[QualityFinding]) -> tuple[str, ...]:
    """What `believed` found and a last line that was cut off, in words, each with the file."""
    said = [q.text for q in found] + ([CUT] if results.torn else [])
    return tuple(f"{results.path}: {text}" for text in said)


def left_out_lines(results: Results, found: Iterable[QualityFinding]) -> int:
    """Lines of the file that enter no number: those not read, and those that `believed` left out."""
    return results.lost + sum(len(q.evidence) for q in found if q.flag == "left_out")


def _loads(lines: Iterable[Load]) -> tuple[list[Load], dict[str, list[Load]]]:
    """The load lines that may be believed in their order, and the others by why not."""
    kept: list[Load] = []
    doubted: dict[str, list[Load]] = {}
    seen: dict[str, Load] = {}
    parents: dict[tuple[str, ...], Load] = {}
    told: dict[tuple[object, ...], Load] = {}
    ids: Proved = {}
    for line in lines:
        fault = _strange(line, ids) or _repeated(line, seen)
        if fault is None:
            fault = _one_process(line, parents, told)
        if fault is None:
            kept.append(line)
        elif fault:
            doubted.setdefault(fault, []).append(line)
    return kept, doubted


def _repeated(line: Load, seen: dict[str, Load]) -> str | None:
    """Why a load line clashes with an earlier one of its id; empty for an exact copy."""
    earlier = seen.setdefault(f"{line.fingerprint_id}/{line.load_id}", line)
    if earlier is line:
        return None
    return "" if earlier == line else "another load line has the same id (two files merged?)"


def _one_process(
    line: Load, parents: dict[tuple[str, ...], Load], told: dict[tuple[object, ...], Load]
) -> str | None:
    """Why a line is another one's process under a new number; None if it is not.

    A detail log is of one process, for it holds its times of day; a machine starts one process at a time.
    Trials of a search share a parent, those that confirm and measure do not.
    """
    if line.outcome != "ok":
        return None
    log = line.logs.get("detail", {}).get("sha256")
    marks: list[tuple[object, ...]] = [
        ("started", line.fingerprint_id, line.case_id, line.scenario, line.started_utc)
    ]
    marks += [("log", log)] if log else []
    if len(set(line.latency_ns.values())) >= JITTER:
        marks.append(("latency", line.case_id, line.scenario, tuple(sorted(line.latency_ns.items()))))
    if any(mark in told for mark in marks):
        return "they hold the start, the log or the latencies of another process (copied?)"
    told.update(dict.fromkeys(marks, line))
    if line.parent_id is None or line.purpose == "select":
        return None
    sibling = parents.setdefault((line.case_id, line.scenario, line.parent_id), line)
    if sibling.replicate != line.replicate:
        return "they share a parent process with another replicate of their case"
    return None


def _fault(attempt: Attempt, ids: Proved) -> str | None:
    """Why an attempt contradicts itself; None if it does not. `ids`: of the cases seen before, added to."""
    if (strange := _strange(attempt, ids)) is not None:
        return strange
    blocks = as_columns(attempt.blocks)
    if np.count_nonzero(blocks.samples != blocks.n_steps * attempt.work.batch):
        return "their blocks count other samples than steps times batch"
    return None


def _strange(line: Attempt | Load, ids: Proved) -> str | None:
    """Why a line is not of the case that it names; None if it is. `ids` as in `_fault`."""
    case = line.case
    told = line.case_id, line.work_id, line.tuning_id
    # Working out ids takes longer than all else here: once a case, and once a part of several.
    if ids.get(told) != case:
        parts = _belongs("work", line.work_id, case.work, ids) and _belongs(
            "tuning", line.tuning_id, case.tuning, ids
        )
        if not parts or line.case_id != case.case_id:
            return "their ids do not belong to their work, tuning and device (edited, or of a later version)"
        ids[told] = case
    device = line.observed.get("device")
    kind = device.partition(":")[0] if isinstance(device, str) else case.device.kind
    if case.device.kind in ("cpu", "cuda") and kind != case.device.kind:
        return f"they ran on {kind} and not on the device of their case"
    asked = case.tuning.precision
    if (lower := LOWER.get(asked)) is None:
        return None
    read = (line.observed.get(name) for name in PRECISIONS_READ)
    ran = next((p for r in read if (p := SHORT.get(str(r), r)) in lower), None)
    return None if ran is None else f"{ran} was read back of a case in {asked}"


def _belongs(kind: str, id_: str, to: Work | Tuning, ids: Proved) -> bool:
    """Whether an id is that of a part of a case."""
    if ids.get((kind, id_)) != to:
        if id_ != digest(kind, to):
            return False
        ids[kind, id_] = to
    return True


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


def _copied(attempt: Attempt, timed: dict[tuple[object, ...], list[Attempt]]) -> str | None:
    """Why an attempt is another replicate's under a new number: no two processes agree to the nanosecond.

    Times that hardly vary may agree (a simulated device without noise): then nothing is told.
    """
    blocks = as_columns(attempt.blocks)
    # Equal blocks end alike, as hardly any others do: most are told apart by it.
    last = int(blocks.ns[-1]) if blocks else None
    alike = timed.setdefault((attempt.case_id, attempt.region, len(blocks), last), [])
    copied = any(as_columns(other.blocks) == blocks for other in alike)
    if copied and len(set(blocks.ns.tolist())) >= JITTER:
        return "they hold the times of another attempt, to the nanosecond (copied?)"
    if not copied:
        alike.append(attempt)
    return None


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
