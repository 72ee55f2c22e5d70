"""The drawings of forecasts: intervals by case and device, and errors on devices that were left out.

Knows nothing about how a forecast is made.
"""

from typing import Any

from breakeven.report.drawing import data, tips
from breakeven.report.view import Chart

WIDTH = 460
ROW = 16
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
METHODS = {
    "floor and learned rest": ("#0072B2", "circle"),
    "ratio of peaks": ("#D55E00", "triangle-up"),
    "ratio of bandwidths": ("#E69F00", "square"),
    "ratio of board powers": ("#8C6BB1", "diamond"),
}


def intervals(alt: Any, chart: Chart) -> Any:
    """A point with its interval for every case, one panel a device."""
    scale = alt.Scale(type="log", nice=False, padding=12)
    x = alt.X("value:Q", title="a step, ms", scale=scale, axis=alt.Axis(format=",.10~g"))
    cases = list(dict.fromkeys(str(v["case"]) for v in chart.values))
    y = alt.Y("case:N", title=None, sort=cases)
    colour = alt.Color(
        "device:N", legend=None, scale=alt.Scale(domain=list(chart.devices), range=COLOURS), sort=None
    )
    fields = {
        "case": "case:N", "device": "device:N", "forecast": "shown:N", "interval": "conditions:N",
        "measured": "found:N",
    }  # fmt: skip
    told = tips(alt, fields)
    base = alt.Chart()
    layers = [
        base.mark_rule(strokeWidth=2, opacity=0.5).encode(
            x=alt.X("low:Q", scale=scale), x2="high:Q", y=y, color=colour
        ),
        base.mark_point(filled=True, size=55).encode(x=x, y=y, color=colour, **told),
        base.transform_filter("datum.measured != null")
        .mark_point(shape="cross", size=70, angle=45, filled=True, color="#222222")
        .encode(x=alt.X("measured:Q", scale=scale), y=y, **told),
    ]
    joined = alt.layer(*layers, data=data(alt, chart.values))
    joined = joined.properties(width=WIDTH, height=ROW * len(cases))
    header = alt.Header(labelAngle=0, labelAlign="left", labelAnchor="start", labelOrient="top")
    return joined.facet(
        row=alt.Row("device:N", title=None, sort=list(chart.devices), header=header), spacing=10
    )


def errors(alt: Any, chart: Chart) -> Any:
    """A row for each device left out, a mark for each method."""
    methods = [name for name in METHODS if any(v["method"] == name for v in chart.values)]
    encodings = {
        "x": alt.X(
            "value:Q",
            title="error of the rate",
            axis=alt.Axis(format="%", values=[0, 0.05, 0.15, 0.3, 0.6, 1, 1.5]),
            scale=alt.Scale(type="sqrt"),
        ),
        "y": alt.Y("device:N", title=None, sort=list(chart.devices)),
        "color": alt.Color(
            "method:N", title=None, scale=alt.Scale(domain=methods, range=[METHODS[m][0] for m in methods])
        ),
        "shape": alt.Shape(
            "method:N", title=None, scale=alt.Scale(domain=methods, range=[METHODS[m][1] for m in methods])
        ),
    }
    fields = {"device": "device:N", "method": "method:N", "error": "shown:N"}
    points = (
        alt.Chart().mark_point(filled=True, size=80, opacity=0.9).encode(**encodings, **tips(alt, fields))
    )
    target = alt.Chart().mark_rule(strokeDash=[4, 3], opacity=0.6).encode(x=alt.datum(0.15))
    joined = alt.layer(target, points, data=data(alt, chart.values))
    return joined.properties(width=WIDTH, height=22 * len(chart.devices))
