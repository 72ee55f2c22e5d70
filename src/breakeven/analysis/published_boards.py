"""The best rate published of the very board that was measured here, whatever else was unlike there.

Knows nothing about how it is shown. The distance between the two holds batch, precision, program and host at
once: it says how far one is from the best that anybody got out of the board, and no ratio of equal work.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.analysis.published_names import precision_of
from breakeven.catalog.gpus import gpu_in_machine
from breakeven.catalog.published import PublishedRow, published


@dataclass(frozen=True, kw_only=True, slots=True)
class BoardBeside:
    """The fastest case here and the fastest published row of one net, task, image size and board.

    `quotient` is there / here, of samples a second a board. `unlike`: what is another there or is not said.
    """

    case_id: str
    model: str
    task: str
    device: str
    tuning: str
    batch: int
    processes: int
    rate: float
    evidence: tuple[str, ...]
    row: PublishedRow
    quotient: float
    unlike: tuple[str, ...]


def boards_beside(
    found: Understanding, rows: Iterable[PublishedRow] | None = None
) -> tuple[BoardBeside, ...]:
    """One for each net, task, image size and board here of which somebody published a rate."""
    known = [row for row in (published() if rows is None else rows) if row.metric == "rate" and row.processor]
    names = {m["fingerprint_id"]: m.get("gpu") for m in found.machines}
    best: dict[tuple[str, str, tuple[int, ...], str], tuple[float, CaseFinding]] = {}
    for case in found.cases:
        name, work = names.get(case.unit or ""), case.case.work
        board = gpu_in_machine(name) if name and case.case.device.kind == "cuda" else None
        rate = case.rate
        if board is None or rate is None or case.simulated or case.unproven:
            continue
        key = work.model, work.task, work.input_shape, board.name
        if key not in best or rate > best[key][0]:
            best[key] = rate, case
    made = []
    for (model, task, shape, board_name), (rate, case) in best.items():
        there = [
            row
            for row in known
            if (row.model, row.task, row.input_shape, row.processor) == (model, task, shape, board_name)
            and row.count == 1
        ]
        if there:
            row = max(there, key=lambda one: one.value)
            made.append(
                BoardBeside(
                    case_id=case.case_id,
                    model=model,
                    task=task,
                    device=case.device_label,
                    tuning=case.tuning_name,
                    batch=case.case.work.batch,
                    processes=case.processes,
                    rate=rate,
                    evidence=case.evidence,
                    row=row,
                    quotient=row.value / rate,
                    unlike=_unlike(case, row),
                )
            )
    return tuple(made)


def _unlike(case: CaseFinding, row: PublishedRow) -> tuple[str, ...]:
    """What differs there, or is not said, in words."""
    told = []
    if row.batch != case.case.work.batch:
        told.append("batch not said" if row.batch is None else f"batch {row.batch}")
    if row.precision != precision_of(case):
        told.append("precision not said" if row.precision is None else f"precision {row.precision}")
    program = row.framework or row.execution
    told.append("program not said" if program is None else f"program {program}")
    return tuple(told)
