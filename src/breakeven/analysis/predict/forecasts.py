"""The user's cases on devices that are not here: what is forecast, how wrong it may be, and what is refused.

Knows nothing about how the model is fitted or shown.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.analysis.predict.memory import memory_fit
from breakeven.analysis.predict.model import Stack, forecast, launch_share
from breakeven.analysis.predict.outside import Outside, outside_of
from breakeven.analysis.predict.own import YOURS, Model, OwnRows, boards_of, models_of, own_rows, row_of
from breakeven.analysis.predict.processors import on_cpu
from breakeven.analysis.predict.rows import (
    BYTES,
    Left,
    Row,
    lacks_tf32,
    net_of,
    precision_on,
    published_rows,
)
from breakeven.analysis.predict.targets import targets
from breakeven.analysis.predict.types import Forecast, LearnedFrom, Prediction
from breakeven.analysis.predict.validation import CONFIDENCE, Learned
from breakeven.catalog.gpus import Gpu
from breakeven.errors import UserError
from breakeven.records.file import Results
from breakeven.workloads import layers, roofline

LINE_FAULTS = ("left_out", "unread", "torn", "check_overruled", "edited_machine")
"""Flags of what lines of the results are, not of how a case was measured."""
METHOD = "floor and learned rest"
TAIL = 0.95
"""Of the published 99th percentiles over their means, this share lies below the high one that is shown."""
HOST = math.log(3.5)
"""Hosts and programs differ by this in the time of a launch, on the logarithm: 64 us in the published eager
rows (most of them of 2021), 18 us in eager ResNet50 inference timed by hand on an H200 with torch 2.11. It
enters half of an interval by the share of launches, beside what devices left out tell."""
HOSTED = ("eager", "graph", "compiled")
NO_TF32 = (
    "{0} has TF32, at a rate that no source tells: default precision is forecast in FP32 there, "
    "and is probably faster"
)
NO_POWER = "no published row holds a power, and none of these results one of this case on a GPU"


def predict(results: Sequence[Results], found: Understanding, names: str) -> Prediction:
    """Every measured case of the results on every device named. UserError where nothing can be forecast."""
    # Matrices of a few hundred rows: threads would wait for each other longer than they work.
    with threadpool_limits(limits=1, user_api="blas"):
        return _predict(results, found, names)


def _predict(results: Sequence[Results], found: Understanding, names: str) -> Prediction:
    wanted = targets(names)
    known = [case for case in found.cases if case.step_point_s is not None and not case.simulated]
    shown = [case for case in known if case.unproven is None]
    if not shown:
        why = "they are simulated" if found.simulated else "no case has a number"
        why = next((case.unproven for case in known if case.unproven), why)
        raise UserError(f"nothing to forecast from these results: {why}")
    boards = boards_of(results, shown)
    own = own_rows(shown, boards, found)
    public, left = published_rows()
    # Another CPU is forecast from this one alone.
    models = models_of(public, own, [t.device for t in wanted if isinstance(t.device, Gpu)])
    forecasts: list[Forecast] = []
    for target in wanted:
        device = target.device
        if isinstance(device, Gpu):
            learned = next(m.learned for m in models if device.name in m.devices)
            forecasts += _on_gpu(shown, boards, device, learned)
        else:
            forecasts += [on_cpu(case, device, found.shares) for case in shown]
    notes = [t.note for t in wanted if t.note]
    if barred := len(known) - len(shown):
        notes.append(
            f"{barred} of {len(known)} cases not forecast: {next(c.unproven for c in known if c.unproven)}"
        )
    return _prediction(forecasts, models, left, own, notes, found)


def _prediction(
    forecasts: Sequence[Forecast],
    models: Sequence[Model],
    left: Left,
    own: OwnRows,
    notes: Sequence[str],
    found: Understanding,
) -> Prediction:
    learned = tuple(
        LearnedFrom(
            devices=model.devices,
            rows=len(model.learned.rows),
            own_rows=sum(row.source == YOURS for row in model.learned.rows),
        )
        for model in models
    )
    # What a model may not see anyway was not left out for its quality.
    seen = [why for row, why in own.left if any(row.product != model.without for model in models)]
    return Prediction(
        forecasts=tuple(forecasts),
        scores=models[0].learned.scores if models else (),
        confidence=CONFIDENCE,
        rows=learned[0].rows if learned else 0,
        own_rows=learned[0].own_rows if learned else 0,
        left=left.counts,
        own_left=dict(Counter(seen).most_common()),
        learned=learned,
        notes=tuple(notes),
        sources=found.sources,
        faults=tuple(
            f"{q.source or found.sources[0]}: {q.text}" for q in found.quality if q.flag in LINE_FAULTS
        ),
        left_out_lines=sum(found.left_out_lines),
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
    rows = [row_of(one.case, device) for one in asked]
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
    reasons = {}
    if case.case.tuning.precision == "default" and lacks_tf32(device):
        reasons["precision"] = NO_TF32.format(device.name)
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
        reasons=reasons | ({"power_w": why} if why else {}),
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
    """The layers' roofline at the board's datasheet, unfused: a compiler that fuses layers may pass it."""
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
