"""Cells that sections of inference share: what names a case, a quantile, energy, agreement.

Knows nothing about which table a cell stands in.
"""

from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.analysis.inference_findings import (
    FactorFinding,
    GainFinding,
    InferenceFinding,
    Outputs,
    Quantile,
)
from breakeven.report import words
from breakeven.report.names import Names, served_as, tuning_rank
from breakeven.report.view import Cell, Row, absent, clean, said
from breakeven.units import format_duration

KEYS = ("model", "device", "tuning", "precision", "batch", "data", "seed")
"""What names a case."""
PLACE = ("model", "device", "batch", "data", "seed")
"""What names the place where cases compete."""
RANDOM = "random weights"


def told(understanding: Understanding) -> list[tuple[InferenceFinding, CaseFinding]]:
    known = {(c.source, c.case_id): c for c in understanding.cases}
    found = understanding.inference.cases
    return [(f, known[f.source, f.case_id]) for f in found if (f.source, f.case_id) in known]


def naming_of(case: CaseFinding, names: Names) -> Row:
    work, tuning = case.case.work, case.case.tuning
    name = served_as(case)
    return (
        said(work.model),
        names.device(case.device_label),
        said(name, tuning_rank(name)),
        said(tuning.precision, note=tuning.calibration or ""),
        said(work.batch, work.batch),
        said(work.data),
        said(work.seed, work.seed),
    )


def place(found: FactorFinding | GainFinding, names: Names) -> Row:
    return (
        said(found.model),
        names.device(found.device_label),
        said(found.batch, found.batch),
        said(found.data),
        said(found.seed, found.seed),
    )


def quantile(q: Quantile, found: InferenceFinding) -> Cell:
    """The quantile of all calls, the median from the processes' own; the interval in its note."""
    value = q.interval.estimate if q.p == 0.5 and q.interval else q.value_s
    if value is None:
        return absent(found.reasons.get("calls") or q.reason or "")
    spread = words.describe(q.interval, format_duration) if q.interval else (q.reason or "")
    note = f"{found.calls:,} calls; {spread}"
    return Cell(text=format_duration(value), sort=value, note=clean(note))


def energy(found: InferenceFinding) -> Cell:
    value = found.j_per_image.estimate if found.j_per_image else found.j_per_image_point
    return words.joules(value, found.reasons.get("j_per_image", ""), found.j_per_image)


def agreement(outputs: Outputs) -> Cell:
    if outputs.agreement is None:
        return absent(outputs.reasons.get("agreement", ""))
    told = RANDOM if outputs.random and RANDOM not in outputs.note else ""
    note = clean(", ".join(filter(None, [outputs.note, told])))
    text = f"{100 * outputs.agreement:.1f} %"
    return Cell(text=text, sort=outputs.agreement, note=note, evidence=outputs.evidence)
