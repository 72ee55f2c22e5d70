"""Drawings of inference: rate and latency over the batch, precision by runtime, the frontier.

Knows nothing about findings: it draws the marks of a `Chart`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from breakeven.report.drawing import WIDTH, data, log_axis, paged, series, tips
from breakeven.report.view import Chart, Value

Mark = Mapping[str, Value]

PANEL_HEIGHT = 200
SQUARE, ROW = 92, 46
"""Pixels of a square of the table of precisions and runtimes: room for two lines of words."""
MOST_TICKS = 14
SWITCH = 0.73
"""Place in the scheme of blues from which words are white: there both inks have 4.5:1."""


def saturation(alt: Any, chart: Chart) -> Any:
    """Two panels a device, images a second and milliseconds a call: the law a line, its knee a cross.

    One below the other and not faceted: rates and times have scales of their own, and a facet without a knee
    would have none.
    """
    colour, shape, dash = series(alt, "tuning", chart.tunings, filled=True)
    measured_at = sorted({float(v["batch"] or 1) for v in chart.values if v["mark"] == "measured"})
    channel = log_axis(alt, measured_at, "~g")
    if len(measured_at) <= MOST_TICKS:
        channel["axis"] = alt.Axis(values=measured_at, format="~g", grid=True)
    x = alt.X("batch:Q", title="images a call", **channel)
    panels = [
        _panel(alt, [v for v in chart.values if v["panel"] == name], x, (colour, shape, dash)).properties(
            title=alt.Title(str(name), fontSize=12), width=WIDTH, height=PANEL_HEIGHT
        )
        for name in dict.fromkeys(value["panel"] for value in chart.values)
    ]
    together = alt.vconcat(*panels) if len(panels) > 1 else panels[0]
    return together.resolve_scale(color="shared", shape="shared", strokeDash="shared")


def _panel(alt: Any, values: Sequence[Mark], x: Any, looks: tuple[Any, Any, Any]) -> Any:
    """One device's rates or times."""
    colour, shape, dash = looks
    bounds = [float(v[key] or 1) for v in values for key in ("value", "low", "high") if v.get(key)]
    # Thousands of images have a prefix; a thousandth of a millisecond has none.
    channel = log_axis(alt, bounds, "~s" if max(bounds) >= 1e4 else "~g")
    y, low = alt.Y("value:Q", title=None, **channel), alt.Y("low:Q", title=None, **channel)
    fields = {"tuning": "tuning:N", "batch": "batch:Q", "measured": "shown:N", "more": "note:N"}
    told = tips(alt, fields)
    base = alt.Chart()
    measured, law, knee = (base.transform_filter(f"datum.mark == '{m}'") for m in ("measured", "law", "knee"))
    layers = [
        law.mark_line(strokeWidth=1.4, opacity=0.7).encode(x=x, y=y, color=colour, strokeDash=dash),
        measured.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.4)
        .encode(x=x, y=low, y2="high:Q", color=colour),
        measured.mark_point(filled=True, size=60, opacity=1).encode(
            x=x, y=y, color=colour, shape=shape, **told
        ),
        knee.mark_point(shape="cross", angle=45, size=160, opacity=1, filled=True).encode(
            x=x, y=y, color=colour, **told
        ),
    ]
    return alt.layer(*layers, data=data(alt, values))


def factors(alt: Any, chart: Chart) -> Any:
    """A table of precisions and runtimes: how many times the base's rate, and how often the same top-1."""
    precisions = list(dict.fromkeys(str(value["precision"]) for value in chart.values))
    x = alt.X("precision:N", title=None, sort=precisions, axis=alt.Axis(labelAngle=0))
    y = alt.Y("tuning:N", title=None, sort=list(chart.tunings))
    fields = {
        "tuning": "tuning:N", "precision": "precision:N", "times the rate": "ratio:N", "against": "base:N",
        "rate": "shown:N", "interval": "conditions:N", "outputs": "outputs:N", "flags": "flags:N",
    }  # fmt: skip
    told = tips(alt, fields)
    known = [float(value["times"]) for value in chart.values if value["times"]]
    legend = alt.Legend(format=".2~r", gradientLength=160)
    scale = alt.Scale(type="log", scheme="blues", domain=[min(known), max(max(known), 1.01 * min(known))])
    bright = max(known) ** SWITCH * min(known) ** (1 - SWITCH)
    ink = alt.condition(f"datum.times > {bright}", alt.value("white"), alt.value("black"))
    cells = alt.Chart().transform_filter("isValid(datum.times)")
    layers = [
        cells.mark_rect(stroke="white").encode(
            x=x,
            y=y,
            **told,
            color=alt.Color("times:Q", title="times the base's rate", scale=scale, legend=legend),
        ),
        cells.mark_text(dy=-7, fontSize=12, fontWeight="bold").encode(x=x, y=y, text="label:N", color=ink),
        cells.mark_text(dy=8, fontSize=10).encode(x=x, y=y, text="below:N", color=ink),
        alt.Chart()
        .transform_filter("!isValid(datum.times)")
        .mark_text(fontSize=10)
        .encode(x=x, y=y, text="label:N", **told),
    ]
    return paged(alt, layers, chart.values, "group", width=alt.Step(SQUARE), height=alt.Step(ROW))


def frontier(alt: Any, chart: Chart) -> Any:
    """Rate over latency: every ranked case, those on the frontier filled, joined and named, others hollow."""
    colour, shape, _ = series(alt, "tuning", chart.tunings, filled=True)
    x = alt.X(
        "ms:Q",
        title="milliseconds a call (median)",
        **log_axis(alt, [float(v["ms"] or 1) for v in chart.values], "~g"),
    )
    rates = [float(v["rate"] or 1) for v in chart.values]
    y = alt.Y("rate:Q", title="images a second", **log_axis(alt, rates, "~s"))
    fields = {
        "tuning": "tuning:N", "batch": "batch:Q", "a call": "call:N", "rate": "shown:N", "energy": "energy:N",
        "same top-1": "agreement:N", "flags": "flags:N",
    }  # fmt: skip
    told = tips(alt, fields)
    others = alt.Chart().transform_filter("datum.on == 'no'")
    on = alt.Chart().transform_filter("datum.on == 'yes'")
    layers = [
        on.mark_line(strokeWidth=1.6, opacity=1, color="#7F7F7F", interpolate="step-after").encode(x=x, y=y),
        others.mark_point(filled=False, size=60, strokeWidth=1.6, opacity=1).encode(
            x=x, y=y, color=colour, shape=shape, **told
        ),
        on.mark_point(filled=True, size=110, opacity=1).encode(x=x, y=y, color=colour, shape=shape, **told),
        on.mark_text(align="left", dx=8, dy=12, fontSize=11).encode(x=x, y=y, text="label:N"),
    ]
    return paged(alt, layers, chart.values, "group", width=WIDTH, height=280)
