"""The user's cases on devices that are not here: what is forecast, how wrong it may be, and what is refused.

Knows nothing about how the model is fitted or shown.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from breakeven.analysis.ceilings import Limits
from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.analysis.predict.memory import memory_fit
from breakeven.analysis.predict.model import Stack, forecast, launch_share
from breakeven.analysis.predict.outside import Outside, outside_of
from breakeven.analysis.predict.processors import on_cpu
from breakeven.analysis.predict.rows import (
    BYTES,
    Left,
    Row,
    effort_of,
    kind_of,
    launch_of,
    net_of,
    peak_of,
    precision_on,
    product,
    published_rows,
)
from breakeven.analysis.predict.targets import targets
from breakeven.analysis.predict.types import Forecast, Prediction
from breakeven.analysis.predict.validation import CONFIDENCE, Learned, learn
from breakeven.catalog.gpus import Gpu, gpu_in_machine
from breakeven.errors import UserError
from breakeven.records.file import Results
from breakeven.workloads import layers, roofline

METHOD = "floor and learned rest"
TAIL = 0.95
"""Of the published 99th percentiles over their means, this share lies below the high one that is shown."""
HOST = math.log(3.5)
"""Hosts and programs differ by this in the time of a launch, on the logarithm: 64 us in the published eager
rows (most of them of 2021), 18 us in eager ResNet50 inference timed by hand on an H200 with torch 2.11. It
enters half of an interval by the share of launches, beside what devices left out tell."""
HOSTED = ("eager", "graph", "compiled")
NO_POWER = "no published row holds a power, and none of these results one of this case on a GPU"


def predict(results: Sequence[Results], found: Understanding, names: str) -> Prediction:
    """Every measured case of the results on every device named. UserError where nothing can be forecast."""
    # Matrices of a few hundred rows: threads would wait for each other longer than they work.
    with threadpool_limits(limits=1, user_api="blas"):
        return _predict(results, found, names)


def _predict(results: Sequence[Results], found: Understanding, names: str) -> Prediction:
    wanted = targets(names)
    shown = [case for case in found.cases if case.step_point_s is not None and not case.simulated]
    if not shown:
        why = "they are simulated" if found.simulated else "no case has a number"
        raise UserError(f"nothing to forecast from these results: {why}")
    boards = boards_of(results, shown)
    own = [row for case in shown if isinstance(row := _own(case, boards.get(case.case_id)), Row)]
    public, left = published_rows()
    forecasts: list[Forecast] = []
    # Another CPU is forecast from this one alone.
    everything = learn([*public, *own]) if any(isinstance(t.device, Gpu) for t in wanted) else None
    for target in wanted:
        device = target.device
        if everything is None or not isinstance(device, Gpu):
            assert not isinstance(device, Gpu)
            forecasts += [on_cpu(case, device, found.shares) for case in shown]
            continue
        mine = product(device.name)
        held = any(row.product == mine for row in own)
        learned = everything
        if held:
            learned = learn([row for row in everything.rows if row.product != mine], validate=False)
        forecasts += _on_gpu(shown, boards, device, learned)
    return _prediction(forecasts, everything, left, own, [t.note for t in wanted if t.note], found)


def _prediction(
    forecasts: Sequence[Forecast],
    learned: Learned | None,
    left: Left,
    own: Sequence[Row],
    notes: Sequence[str],
    found: Understanding,
) -> Prediction:
    return Prediction(
        forecasts=tuple(forecasts),
        scores=learned.scores if learned else (),
        confidence=CONFIDENCE,
        rows=len(learned.rows) if learned else 0,
        own_rows=len(own) if learned else 0,
        left=left.counts,
        notes=tuple(notes),
        sources=found.sources,
    )


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


def _own(case: CaseFinding, board: Gpu | None) -> Row | str:
    """A row of the user's own GPU, with what it measured."""
    return "not on a GPU of the catalog" if board is None else _row(case, board, case.step_point_s)


def _row(case: CaseFinding, board: Gpu, seconds: float | None = None) -> Row | str:
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
    peak = peak_of(board, precision)
    if peak is None or board.board_w is None or board.fp32_lanes is None:
        return f"no source tells what {board.name} does in {precision}"
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
        source="yours",
        seconds=seconds,
        case_id=case.case_id,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Asked:
    """One line of the table: the case that is here, and what was measured on the device in question.

    `powered`: the same case on another GPU of the user's, where its power was read.
    """

    case: CaseFinding
    measured: CaseFinding | None
    powered: CaseFinding | None


def _asked(cases: Sequence[CaseFinding], boards: Mapping[str, Gpu], device: Gpu) -> list[_Asked]:
    """Each work and tuning once: from the CPU where that was measured, beside what the device itself did."""
    groups: dict[tuple[str, ...], list[CaseFinding]] = {}
    for case in cases:
        work, tuning = case.case.work, case.case.tuning
        key = (case.source, repr(work), case.tuning_name, tuning.precision, str(case.case.device.threads))
        groups.setdefault(key, []).append(case)
    made = []
    for mine in groups.values():
        there = [c for c in mine if _is(boards.get(c.case_id), device)]
        other = [c for c in mine if c not in there]
        powered = [c for c in other if c.case_id in boards and c.power_w is not None]
        made.append(
            _Asked(
                case=(other or there)[0],
                measured=there[0] if there else None,
                powered=powered[0] if powered else None,
            )
        )
    return made


def _is(board: Gpu | None, device: Gpu) -> bool:
    return board is not None and board.name == device.name


def _on_gpu(
    cases: Sequence[CaseFinding], boards: Mapping[str, Gpu], device: Gpu, learned: Learned
) -> list[Forecast]:
    asked = _asked(cases, boards, device)
    rows = [_row(one.case, device) for one in asked]
    known = [row for row in rows if isinstance(row, Row)]
    numbers = iter(_numbers(known, learned))
    return [
        _forecast(one, device, next(numbers), boards, learned)
        if isinstance(row, Row)
        else _refused(one, device, row)
        for one, row in zip(asked, rows, strict=True)
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Number:
    row: Row
    seconds: float
    half: float
    launch_share: float
    outside: Outside


def _numbers(rows: Sequence[Row], learned: Learned) -> list[_Number]:
    """Seconds, half the interval on the logarithm, and what lies outside of what was learned from."""
    if not rows:
        return []
    # Stacked with the known rows, so that sources and products have the same numbers in both.
    both = Stack.of([*learned.rows, *rows])
    first, names = len(learned.rows), Stack.__dataclass_fields__
    wanted = Stack(**{name: getattr(both, name)[first:] for name in names})
    known = Stack(**{name: getattr(both, name)[:first] for name in names})
    mean, spread = forecast(learned.fitted, known, wanted)
    hosts = launch_share(learned.fitted.theta, wanted, np.arange(len(rows)))
    made = []
    for row, log, sd, host in zip(rows, mean, spread, hosts, strict=True):
        beyond = outside_of(row, learned.rows)
        unknown_host = HOST * float(host) if row.launch in HOSTED else 0.0
        limit = max(learned.device_quantile, learned.model_quantile if beyond.new_model else 0.0)
        made.append(
            _Number(
                row=row,
                seconds=math.exp(log),
                half=math.hypot(limit * float(sd), unknown_host) + beyond.widening,
                launch_share=float(host),
                outside=beyond,
            )
        )  # fmt: skip
    return made


def _forecast(
    one: _Asked, device: Gpu, number: _Number, boards: Mapping[str, Gpu], learned: Learned
) -> Forecast:
    if number.outside.refused:
        return _refused(one, device, number.outside.refused)
    case, row = one.case, number.row
    work = case.case.work
    net = net_of(work.model, work.input_shape, work.num_classes)
    assert net is not None  # a row was made of it
    tail = _tail(learned) if work.task == "infer" else None
    power, why = _power(one.powered, device, boards)
    return Forecast(
        **_named(one, device),
        method=METHOD,
        step_s=number.seconds,
        low_s=number.seconds * math.exp(-number.half),
        high_s=number.seconds * math.exp(number.half),
        confidence=CONFIDENCE,
        rate=work.batch / number.seconds,
        p99_s=None if tail is None else number.seconds * tail[0],
        p99_high_s=None if tail is None else number.seconds * math.exp(number.half) * tail[1],
        launch_share=number.launch_share,
        floor_s=_floor(net, row),
        power_w=power,
        board_w=device.board_w,
        memory=memory_fit(case.case, device, net, BYTES[row.kind]),
        outside=number.outside.words,
        reasons={"power_w": why} if why else {},
    )


def _refused(one: _Asked, device: Gpu, why: str) -> Forecast:
    return Forecast(**_named(one, device), method=METHOD, board_w=device.board_w, reasons={"step_s": why})


def _named(one: _Asked, device: Gpu) -> dict[str, Any]:
    case, work = one.case, one.case.case.work
    return {
        "case_id": case.case_id,
        "model": work.model,
        "task": work.task,
        "batch": work.batch,
        "tuning_name": case.tuning_name,
        "precision": precision_on(device, case.case.tuning.precision),
        "here": case.device_label,
        "here_s": case.step_point_s,
        "device": device.name,
        "measured_s": one.measured.step_point_s if one.measured else None,
        "evidence": (*case.evidence, *(one.measured.evidence if one.measured else ())),
    }


def _floor(net: layers.Model, row: Row) -> float:
    """The layers' roofline at the board's datasheet: a compiler that fuses layers may pass it."""
    return roofline.floor(
        net,
        row.batch,
        flop_per_s=row.peak,
        byte_per_s=1e9 * row.board.bandwidth_gb_per_s,
        dtype_bytes=BYTES[row.kind],
        training=row.task == "train",
    ).seconds


def _tail(learned: Learned) -> tuple[float, float] | None:
    """The 99th percentile of a call over the mean, of the published rows that have both: median and high."""
    factors = [row.p99_s / row.seconds for row in learned.rows if row.p99_s and row.seconds]
    return (float(np.median(factors)), float(np.quantile(factors, TAIL))) if factors else None


def _power(
    case: CaseFinding | None, device: Gpu, boards: Mapping[str, Gpu]
) -> tuple[float | None, str | None]:
    """The share of its board's limit that this case drew on a GPU of the user's, on the other board."""
    board = boards.get(case.case_id) if case else None
    if case is None or board is None or case.power_w is None or not board.board_w:
        return None, NO_POWER
    if device.board_w is None:
        return None, f"the board power of {device.name} is not known"
    return case.power_w / board.board_w * device.board_w, None
