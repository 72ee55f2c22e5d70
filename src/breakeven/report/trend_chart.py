"""The drawing of a trend: boards, curves, the band of steady doubling, and where the hold-out begins.

Knows nothing about how a curve is fitted.
"""

import math
from typing import Any

from breakeven.report.drawing import data, tips
from breakeven.report.view import Chart

WIDTH, HEIGHT = 620, 360
POINTS = {"datacenter": "#0072B2", "consumer": "#D55E00", "workstation": "#009E73", "mobile": "#8C6BB1"}
CURVES = {
    "steady doubling": ("#222222", [1, 0]),
    "logistic, lowest ceiling": ("#CC79A7", [6, 3]),
    "logistic": ("#CC79A7", [6, 3]),
    "polynomial, plain values": ("#E69F00", [2, 2]),
    "logistic, plain values": ("#56B4E9", [8, 3, 2, 3]),
}


def draw(alt: Any, chart: Chart) -> Any:
    """Layers over one pair of axes; values are on a logarithmic scale."""
    title = str(chart.values[0]["axis"])
    segments = [name for name in POINTS if any(v.get("segment") == name for v in chart.values)]
    curves = [name for name in CURVES if any(v.get("curve") == name for v in chart.values)]
    highest = max(float(v["value"] or 0) for v in chart.values if v["mark"] in ("board", "band"))
    lowest = min(float(v["value"] or 1) for v in chart.values if v["mark"] in ("board", "curve"))
    domain = [lowest * 0.9, highest * 1.3]
    scale = alt.Scale(type="log", domain=domain, nice=False)
    axis = alt.Axis(values=_ticks(*domain), format=",.10~g", grid=True)
    y = alt.Y("value:Q", title=title, scale=scale, axis=axis)
    span = [min(float(v["year"] or 0) for v in chart.values), 2031]
    x = alt.X("year:Q", title="released", scale=alt.Scale(domain=span, nice=False), axis=alt.Axis(format="d"))
    colour = alt.Color(
        "segment:N",
        title="boards",
        scale=alt.Scale(domain=segments, range=[POINTS[name] for name in segments]),
        legend=alt.Legend(symbolOpacity=1) if len(segments) > 1 else None,
    )
    line = {
        "stroke": alt.Stroke(
            "curve:N", title="curve", scale=alt.Scale(domain=curves, range=[CURVES[c][0] for c in curves])
        ),
        "strokeDash": alt.StrokeDash(
            "curve:N", title="curve", scale=alt.Scale(domain=curves, range=[CURVES[c][1] for c in curves])
        ),
    }
    fields = {"board": "gpu:N", "value": "shown:N", "released": "released:N"}

    def only(mark: str) -> Any:
        return alt.Chart().transform_filter(f"datum.mark == '{mark}'")

    layers = [
        only("band").mark_area(opacity=0.12, color="#222222", clip=True).encode(x=x, y=y, y2="low:Q"),
        only("split").mark_rule(strokeDash=[2, 4], opacity=0.6).encode(x=x),
        only("split")
        .mark_text(align="left", dx=4, dy=-6, fontSize=11, baseline="bottom")
        .encode(x=x, y=alt.value(HEIGHT), text="shown:N"),
        only("curve")
        .mark_line(strokeWidth=2, clip=True)
        .encode(x=x, y=y, order="year:Q", detail="part:N", **line),
        only("board")
        .mark_point(filled=True, size=42, opacity=0.85)
        .encode(x=x, y=y, color=colour, **tips(alt, fields)),
        only("named").mark_text(align="right", dx=-6, fontSize=11).encode(x=x, y=y, text="gpu:N"),
    ]
    joined = alt.layer(*layers, data=data(alt, chart.values)).resolve_scale(
        color="independent", stroke="independent", strokeDash="independent"
    )
    return joined.properties(width=WIDTH, height=HEIGHT)


def _ticks(low: float, high: float) -> list[float]:
    """Powers of ten, with 2 and 5 between where there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = (1, 2, 5) if high / low < 300 else (1,)
    return [step * 10.0**power for power in powers for step in steps if low <= step * 10.0**power <= high]
