"""The tables and charts of forecasts: expected, checked, beyond the rows, memory, power, how wrong it was.

Knows nothing about how a forecast is made.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from breakeven import units
from breakeven.analysis.predict.types import Forecast, Prediction, Score
from breakeven.report import words
from breakeven.report.view import (
    Cell,
    Chart,
    Column,
    Section,
    Value,
    absent,
    build_table,
    label,
    number,
    said,
)

OURS = "floor and learned rest"
OF_RATES = "rates of ResNet50 inference"
EXPECTED = (
    "Time of a step, or of a call. Tunings that differ in nothing that the method sees share a row; behind "
    "them the precision there. Beyond: in how many ways no row resembles it; each widens the interval."
)


def sections(found: Prediction) -> tuple[Section, ...]:
    """Every section that has something to show, in their order."""
    made = (
        *_expected(found), _checked(found), _beyond(found), _memory(found), _latency(found), _power(found),
        _refusals(found), _validation(found), _by_device(found), _causes(found),
    )  # fmt: skip
    return tuple(section for section in made if section is not None)


def by_device(found: Prediction) -> dict[str, list[Forecast]]:
    """The forecasts of each device, in their order."""
    groups: dict[str, list[Forecast]] = {}
    for f in found.forecasts:
        groups.setdefault(f.device, []).append(f)
    return groups


KEYS = ("model", "task", "tuning", "batch", "precision", "device")


def _keys(f: Forecast) -> tuple[Cell, ...]:
    return (
        said(f.model, evidence=f.evidence),
        said(f.task),
        said(f.tuning_name),
        said(f.batch, f.batch),
        said(_arithmetic(f), note=_why_fp32(f)),
        said(f.device),
    )


def _arithmetic(f: Forecast) -> str:
    """The precision of a forecast; marked where another one runs, at a rate that is not known."""
    return f"{f.precision} for tf32" if "precision" in f.reasons else f.precision


def _why_fp32(f: Forecast) -> str:
    return f.reasons.get("precision", "")


def _time(value: float | None, reason: str = "") -> Cell:
    return absent(reason) if value is None else Cell(text=units.format_duration(value), sort=value)


def _span(f: Forecast) -> Cell:
    """The interval in the unit of the forecast beside it, so that a row has one unit."""
    if f.low_s is None or f.high_s is None or f.step_s is None:
        return absent(f.reasons.get("low_s", ""))
    low, high = units.format_duration(f.low_s), units.format_duration(f.high_s)
    unit = units.format_duration(f.step_s).split()[-1]
    if f.step_s < units.MINUTES_FROM:
        scale = units.SECONDS_IN[unit]
        low, high = words.two_digits(f.low_s / scale), f"{words.two_digits(f.high_s / scale)} {unit}"
    return Cell(text=f"{low} to {high}", sort=f.high_s)


def _expected(found: Prediction) -> list[Section]:
    """One table a device: tunings that differ in nothing that a forecast sees share a row."""
    made = []
    for name, forecasts in by_device(found).items():
        rows = [_expected_row(mine) for mine in _alike(forecasts)]
        columns = [
            *map(label, ("model", "task", "batch", "tuning")),
            number("here"),
            number("there"),
            # A number keeps its line: an interval does not wrap before its unit.
            Column(name=f"{found.confidence:.0%} interval", numeric=True),
            number("rate", "1/s"),
            number("beyond"),
        ]
        table = build_table(columns, rows)
        if table is not None:
            made.append(
                Section(key="forecast-" + "-".join(name.casefold().split()), title=f"On {name}", table=table)
            )
    if made:
        chart = _chart(found)
        made[0] = dataclasses.replace(made[0], note=EXPECTED, chart=chart)
    return made


def _alike(forecasts: Sequence[Forecast]) -> list[list[Forecast]]:
    """Forecasts of one work that came to the same time, in their order."""
    groups: dict[tuple[object, ...], list[Forecast]] = {}
    for f in forecasts:
        if f.step_s is not None:
            groups.setdefault((f.model, f.task, f.batch, f.precision, f.step_s, f.here), []).append(f)
    return list(groups.values())


def _expected_row(mine: Sequence[Forecast]) -> tuple[Cell, ...]:
    f, here = mine[0], sorted(one.here_s for one in mine)
    return (
        said(f.model, evidence=f.evidence),
        said(f.task),
        said(f.batch, f.batch),
        said(", ".join([*dict.fromkeys(one.tuning_name for one in mine), _arithmetic(f)]), note=_why_fp32(f)),
        Cell(text=units.format_duration(here[0]), sort=here[0], note=f.here, evidence=f.evidence),
        _time(f.step_s),
        _span(f),
        words.rate(f.rate),
        said(len(f.outside), len(f.outside), note="; ".join(f.outside)) if f.outside else absent(),
    )


def _beyond(found: Prediction) -> Section | None:
    """What of the forecasts no row resembles, once each."""
    groups: dict[str, list[Forecast]] = {}
    for f in found.forecasts:
        for text in f.outside:
            groups.setdefault(text, []).append(f)
    rows = [
        (said(text), said(len(mine), len(mine)), said(", ".join(dict.fromkeys(f.device for f in mine))))
        for text, mine in groups.items()
    ]
    table = build_table([label("no row resembles this"), number("cases"), Column(name="on")], rows)
    note = "Each of these widens the interval by a stated rule; what that covers cannot be counted."
    return None if table is None else Section(key="beyond", title="Beyond the rows", note=note, table=table)


def _causes(found: Prediction) -> Section | None:
    columns = [*map(label, KEYS), number("there"), number("launches"), number("floor")]
    rows = [
        (
            *_keys(f),
            _time(f.step_s),
            absent() if f.launch_share is None else Cell(text=f"{f.launch_share:.0%}", sort=f.launch_share),
            _time(f.floor_s),
        )
        for f in found.forecasts
        if f.step_s is not None
    ]
    table = build_table(columns, rows)
    note = (
        "Launches: their share of launches and work. Floor: the layers' at the datasheet's rates, which "
        "fused layers may pass."
    )
    return (
        None
        if table is None
        else Section(key="causes", title="What it is made of", note=note, table=table, detail=True)
    )


def _checked(found: Prediction) -> Section | None:
    columns = [
        *map(label, KEYS), number("forecast"), number("measured"), number("rate off"),
        Column(name="interval"),
    ]  # fmt: skip
    rows = []
    for f in found.forecasts:
        if f.measured_s is None or f.step_s is None:
            continue
        off = f.measured_s / f.step_s - 1
        inside = (f.low_s or 0) <= f.measured_s <= (f.high_s or 0)
        rows.append(
            (
                *_keys(f), _time(f.step_s), _time(f.measured_s), Cell(text=f"{off:+.0%}", sort=off),
                said("holds it" if inside else "missed"),
            )
        )  # fmt: skip
    table = build_table(columns, rows)
    if table is None:
        return None
    note = "Measured in these results; the forecast used no row of this device, published or yours."
    return Section(key="checked", title="Forecast against measured", note=note, table=table)


def _memory(found: Prediction) -> Section | None:
    columns = [
        *map(label, ("model", "task", "batch", "precision", "board")),
        number("state", "MiB"),
        number("at most", "MiB"),
        number("board has", "GiB"),
        Column(name="verdict"),
        number("to batch"),
    ]
    rows = {}
    for f in found.forecasts:
        m = f.memory
        if m is not None:
            state, most = (Cell(text=units.format_count(round(v)), sort=v) for v in (m.state, m.device_high))
            rows[f.model, f.task, f.batch, f.precision, f.device, m] = (
                said(f.model),
                said(f.task),
                said(f.batch, f.batch),
                said(f.precision),
                said(f.device),
                state,
                most,
                Cell(text=f"{m.memory / 1024:.0f}", sort=m.memory),
                said(m.verdict),
                absent("not even one sample")
                if m.largest_batch is None
                else Cell(text=units.format_count(m.largest_batch), sort=m.largest_batch),
            )
    table = build_table(columns, list(rows.values()))
    if table is None:
        return None
    note = (
        "State: weights, gradients, Adam's moments, resident images. At most: with activations, workspaces "
        "and the driver's context as measured on one GPU. Batches by doubling, to 65,536."
    )
    return Section(key="memory", title="Does it fit", note=note, table=table)


def _latency(found: Prediction) -> Section | None:
    columns = [*map(label, KEYS), number("mean call"), number("99th percentile"), number("at most")]
    rows = [
        (*_keys(f), _time(f.step_s), _time(f.p99_s), _time(f.p99_high_s))
        for f in found.forecasts
        if f.p99_s is not None
    ]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = "One caller that waits. The percentile is the mean times what published tables have between both."
    return Section(key="latency", title="Latency of a call", note=note, table=table)


def _power(found: Prediction) -> Section | None:
    columns = [*map(label, KEYS), number("power", "W"), number("limit", "W")]
    rows = [
        (
            *_keys(f), words.amount(f.power_w, reason=f.reasons.get("power_w", "")),
            words.amount(f.board_w, reason="not known"),
        )
        for f in found.forecasts
        if f.step_s is not None
    ]  # fmt: skip
    if all(row[-2].text == absent().text for row in rows):
        # The limit alone is a column of a device, not of a case.
        columns, seen = (
            [label("device"), number("power", "W"), number("limit", "W")],
            dict[str, tuple[Cell, ...]](),
        )
        for row in rows:
            seen.setdefault(row[len(KEYS) - 1].text, (row[len(KEYS) - 1], *row[-2:]))
        rows = list(seen.values())
    table = build_table(columns, rows)
    if table is None:
        return None
    note = "The share of its limit that the case drew on a GPU here, of the limit there. No rows check it."
    return Section(key="power", title="Power", note=note, table=table)


def _refusals(found: Prediction) -> Section | None:
    groups: dict[str, list[Forecast]] = {}
    for f in found.forecasts:
        if f.step_s is None:
            groups.setdefault(f.reasons.get("step_s", "no reason known"), []).append(f)
    columns = [label("why"), number("cases"), Column(name="tunings"), Column(name="devices")]
    rows = [
        (
            said(why), said(len(mine), len(mine)),
            said(", ".join(dict.fromkeys(f.tuning_name for f in mine))),
            said(", ".join(dict.fromkeys(f.device for f in mine))),
        )
        for why, mine in groups.items()
    ]  # fmt: skip
    table = build_table(columns, rows)
    return None if table is None else Section(key="refused", title="Not forecast", table=table)


def _validation(found: Prediction) -> Section | None:
    columns = [
        label("method"), label("left out"), number("rows"), number("groups"), number("rate off"),
        number("90th pct."), number("rows inside"), number("groups inside"),
    ]  # fmt: skip
    rows = [
        (
            said(s.name), said(s.left_out), said(s.rows, s.rows), said(s.groups, s.groups),
            Cell(text=f"{s.error:.1%}", sort=s.error), Cell(text=f"{s.error_p90:.0%}", sort=s.error_p90),
            _share(s.covered), _share(s.covered_groups),
        )
        for s in found.scores
    ]  # fmt: skip
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        f"Of {OF_RATES}, unless all rows: |forecast / published - 1|, middle and "
        "90th percentile. Inside: intervals that "
        f"state {found.confidence:.0%}, by rows and as the mean of groups. All choices are made in each fold."
    )
    return Section(key="validation", title="How wrong the method was", note=note, table=table)


def _share(value: float | None) -> Cell:
    return absent() if value is None else Cell(text=f"{value:.0%}", sort=value)


def _by_device(found: Prediction) -> Section | None:
    ours = found.score(OURS, "device")
    if ours is None:
        return None
    naive = [s for s in found.scores if s.name != OURS]
    columns = [label("device left out"), number("ours"), *(number(s.name) for s in naive)]
    rows = [
        (
            said(name), Cell(text=f"{error:.0%}", sort=error),
            *(Cell(text=f"{s.by_group[name]:.0%}", sort=s.by_group[name]) for s in naive),
        )
        for name, error in sorted(ours.by_group.items(), key=lambda item: item[1])
    ]  # fmt: skip
    chart = _errors_chart([ours, *naive])
    return Section(
        key="devices", title="Device by device", table=build_table(columns, rows), chart=chart,
        detail=True,
    )  # fmt: skip


def _chart(found: Prediction) -> Chart:
    values: list[Mapping[str, Value]] = [
        {
            "mark": "forecast", "case": _case(f), "device": f.device, "value": 1e3 * (f.step_s or 0),
            "low": 1e3 * f.low_s if f.low_s else None, "high": 1e3 * f.high_s if f.high_s else None,
            "measured": 1e3 * f.measured_s if f.measured_s else None,
            "shown": units.format_duration(f.step_s),
            "conditions": _interval(f, found.confidence),
            "found": units.format_duration(f.measured_s) if f.measured_s else None,
        }
        for f in found.forecasts
        if f.step_s is not None
    ]  # fmt: skip
    devices = tuple(dict.fromkeys(f.device for f in found.forecasts if f.step_s is not None))
    return Chart(
        kind="forecast", name="forecast", title="What to expect of a step",
        subtitle=f"{found.confidence:.0%} intervals; a cross is what was measured",
        alt_text="Forecast times of a step with their intervals, by case and device.",
        values=tuple(values), devices=devices,
    )  # fmt: skip


def _interval(f: Forecast, confidence: float) -> str:
    if f.low_s is None or f.high_s is None:
        return "no interval"
    bounds = f"{units.format_duration(f.low_s)} to {units.format_duration(f.high_s)}"
    return f"{confidence:.0%} interval {bounds}"


def _case(f: Forecast) -> str:
    return f"{f.model}, {f.tuning_name}, batch {f.batch}"


def _errors_chart(scores: Sequence[Score]) -> Chart:
    values: list[Mapping[str, Value]] = [
        {"mark": "error", "device": name, "method": s.name, "value": error, "shown": f"{error:.0%}"}
        for s in scores
        for name, error in s.by_group.items()
    ]
    return Chart(
        kind="errors", name="errors", title="Error on devices that were left out",
        subtitle="Median of |forecast rate / published rate - 1|, ResNet50 inference; dashed: 15 %",
        alt_text="For each device left out, the error of the method and of three naive scalings.",
        values=tuple(values), devices=tuple(sorted(scores[0].by_group, key=scores[0].by_group.__getitem__)),
    )  # fmt: skip
