"""The user's own rows: cases on GPUs of the catalog as rows, and which of them a model may learn from.

Knows nothing about how a model is fitted or what is forecast with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from breakeven.analysis.ceilings import Limits
from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.analysis.predict.rows import (
    Row,
    effort_of,
    kind_of,
    launch_of,
    net_of,
    peak_of,
    precision_on,
    product,
    unknown_of,
)
from breakeven.analysis.predict.validation import Learned, learn
from breakeven.analysis.ratios import disturbed, shared
from breakeven.catalog.gpus import Gpu, gpu_in_machine
from breakeven.records.file import Results

YOURS = "yours"
"""The source of a row of the user's."""
DISTORTING = ("throttled", "spilled", "uneven", "not_steady", "coarse_clock", "above_ceiling", "outliers")
"""Flags that, in most processes of a case, say that its time is not the steady one on its board."""


def boards_of(results: Sequence[Results], cases: Sequence[CaseFinding]) -> dict[str, Gpu]:
    """Case_id -> the board of the catalog that it ran on, where it did."""
    limits = {one.path: Limits.of(one) for one in results}
    found = {}
    for case in cases:
        if case.case.device.kind != "cuda" or case.case.device.world_size != 1:
            continue
        machine = limits[case.source].machines.get(case.unit or "") if case.source in limits else None
        listed = machine.platform.get("gpus") if machine else None
        here = [b for b in listed if isinstance(b, Mapping)] if isinstance(listed, list | tuple) else []
        if len({b.get("name") for b in here}) == 1:
            memory = here[0].get("memory_gib")
            mib = 1024 * memory if isinstance(memory, int | float) else None
            board = gpu_in_machine(str(here[0].get("name")), mib)
            if board is not None:
                found[case.case_id] = board
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnRows:
    """The user's rows that may be learned from, and those that may not, each with why."""

    rows: tuple[Row, ...]
    left: tuple[tuple[Row, str], ...]


def own_rows(cases: Sequence[CaseFinding], boards: Mapping[str, Gpu], found: Understanding) -> OwnRows:
    """What the user's own GPUs of the catalog measured."""
    rows: list[Row] = []
    left: list[tuple[Row, str]] = []
    for case in cases:
        board = boards.get(case.case_id)
        row = None if board is None else row_of(case, board, case.step_point_s)
        if isinstance(row, Row):
            served = found.inference.of(case.source, case.case_id)
            why = _distrusted(case, failed=served is not None and served.outputs.failed is not None)
            if why is None:
                rows.append(row)
            else:
                left.append((row, why))
    return OwnRows(rows=tuple(rows), left=tuple(left))


def _distrusted(case: CaseFinding, *, failed: bool) -> str | None:
    """Why a row's time teaches nothing, or may not be that of its work; None where it may be learned from."""
    if failed:
        return "failed its check"
    if "unchecked" in case.flags:
        return "unchecked"
    if disturbed(case):
        return "contended"
    for flag in DISTORTING:
        if shared(case.flag_counts.get(flag, 0), case.processes):
            return flag.replace("_", " ")
    return "one process" if case.processes < 2 else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    """A model and the devices that are forecast with it; `without`: the product whose rows it may not see."""

    without: str | None
    devices: tuple[str, ...]
    learned: Learned


def models_of(public: Sequence[Row], own: OwnRows, devices: Sequence[Gpu]) -> list[Model]:
    """The model of all rows, and for a device that these results hold one without its product's.

    The first one is scored: what is said of errors is said of it.
    """
    rows = [*public, *own.rows]
    held = {row.product for row in own.rows}
    asked: dict[str | None, list[str]] = {}
    for device in sorted(devices, key=lambda gpu: product(gpu.name) in held):
        mine = product(device.name)
        asked.setdefault(mine if mine in held else None, []).append(device.name)
    return [
        Model(
            without=without,
            devices=tuple(names),
            learned=learn([row for row in rows if row.product != without], validate=place == 0),
        )
        for place, (without, names) in enumerate(asked.items())
    ]


def row_of(case: CaseFinding, board: Gpu, seconds: float | None = None) -> Row | str:
    """The case as it would run on a board, or why that cannot be said."""
    work, driven = case.case.work, launch_of(case.case)
    if isinstance(driven, str):
        return driven
    if board.vendor != "NVIDIA":
        return f"no row was measured on a board of {board.vendor}"
    if board.chips > 1:
        return f"{board.name} is {board.chips} GPUs on a board, and its facts are of the board"
    net = net_of(work.model, work.input_shape, work.num_classes)
    if net is None:
        return "the layers of this model are not known"
    precision = precision_on(board, case.case.tuning.precision)
    peak, unknown = peak_of(board, precision), unknown_of(board, precision)
    if peak is None or unknown is not None:
        return f"no source tells {unknown}"
    return Row(
        model=work.model,
        task="train" if work.task == "train" else "infer",
        batch=work.batch,
        kind=kind_of(precision),
        launch=driven[0],
        fusion=driven[1],
        channels_last=case.case.tuning.layout == "channels-last",
        board=board,
        peak=peak,
        effort=effort_of(net, work.batch, kind_of(precision), work.task),
        source=YOURS,
        seconds=seconds,
        case_id=case.case_id,
    )
