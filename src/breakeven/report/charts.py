"""Charts as Vega-Lite specifications, and as SVG and PNG files made offline.

Knows nothing about findings: it draws the marks of a `Chart`.
"""

import hashlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any

from breakeven.errors import UserError
from breakeven.report import (
    amounts,
    bandwidth,
    cores_chart,
    inference_charts,
    predict_charts,
    roofline,
    trend_chart,
)
from breakeven.report.drawing import (
    WIDTH,
    bounds,
    cut,
    heard,
    log_axis,
    paged,
    points,
    ratio_channel,
    rule,
    series,
    stacked,
    tips,
    with_rows,
)
from breakeven.report.view import Chart
from breakeven.workloads.fetch import cache_dir

MISSING_EXTRA = 'charts and HTML need more packages: pip install "breakeven[report]"'
# The parts of a step in its order.
PART_FILLS = {
    "data wait": "#D55E00",
    "copy": "#E69F00",
    "cut": "#CC79A7",
    "forward": "#0072B2",
    "backward": "#56B4E9",
    "optimizer": "#009E73",
    "other": "#BBBBBB",
}
DARK_FILLS = ("forward",)
"""White words on these, black on the others: either way 4.5:1 at least."""
LEAST_TEXT = 0.08
"""A smaller piece of a bar has no room for its number."""
SHARE_WIDTH = 560
"""Room is left for the label beside each bar."""
ROW_HEIGHT = 22
MOST_TICKS = 14
PNG_SCALE = 2.0
SUBTITLE_LETTERS = 110
"""A longer line would be wider than the drawing, and widen its file."""
# A file stands on white paper; a page gives its own ink, which follows light, dark and print.
FILE_INK = "#222222"
PAGE_INK = "currentColor"
FONT = "system-ui, sans-serif"


def spec(chart: Chart, *, ink: str = FILE_INK) -> dict[str, Any]:
    """The Vega-Lite specification of a chart, its data inside. UserError without the report extra."""
    try:
        import altair as alt
    except ImportError as error:
        raise UserError(MISSING_EXTRA) from error
    draw = {
        "ladder": _ladder,
        "scale": _scale,
        "ratios": _ratios,
        "samples": _samples,
        "batch": _batch,
        "shares": _shares,
        "trend": trend_chart.draw,
        "forecast": predict_charts.intervals,
        "errors": predict_charts.errors,
        "saturation": inference_charts.saturation,
        "factors": inference_charts.factors,
        "frontier": inference_charts.frontier,
        "bandwidth": bandwidth.draw,
        "roofline": roofline.draw,
        "cores": cores_chart.draw,
        "amounts": amounts.draw,
    }[chart.kind]
    # A list: data frames would bring pandas, and rows above altair's limit are still few for a browser.
    # What altair checks of each part and value takes ten times as long as all else; a test checks the whole.
    with (
        alt.data_transformers.enable("default", max_rows=None),
        alt.utils.schemapi.debug_mode(False),
    ):
        drawn = draw(alt, chart)
        titled = drawn.properties(
            title=alt.Title(chart.title, subtitle=wrap(chart.subtitle, SUBTITLE_LETTERS)),
            description=chart.alt_text,
        )
        out: dict[str, Any] = with_rows(heard(titled.to_dict(validate=False)))
    out["config"] = _config(ink)
    return out


def svg(chart: Chart) -> str:
    """The chart as an SVG file."""
    return str(_converter().vegalite_to_svg(_on_paper(chart)))


def png(chart: Chart) -> bytes:
    """The chart as a PNG file, sharp on a dense screen."""
    return bytes(_converter().vegalite_to_png(_on_paper(chart), scale=PNG_SCALE))


def javascript() -> str:
    """Vega, Vega-Lite and vega-embed as one script that needs no network.

    Bundling takes a second and gives the same each time: it is kept, named by what made it.
    """
    from importlib.metadata import version

    converter = _converter()
    kept = cache_dir() / f"vega-{version('vl-convert-python')}.js"
    try:
        head, _, script = kept.read_text(encoding="utf-8").partition("\n")
        if head == _checked(script):
            return script
    except (OSError, UnicodeDecodeError):
        pass  # no copy yet, or none that can be read: it is made again
    script = str(converter.javascript_bundle())
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        fresh = kept.with_name(f"{kept.name}.{os.getpid()}")
        fresh.write_text(f"{_checked(script)}\n{script}", encoding="utf-8")
        os.replace(fresh, kept)
    except OSError:
        return script  # a cache that cannot be written is no error: the next report bundles again
    return script


def _checked(script: str) -> str:
    return f"// sha256 {hashlib.sha256(script.encode('utf-8')).hexdigest()}"


def _converter() -> Any:
    try:
        import vl_convert
    except ImportError as error:
        raise UserError(MISSING_EXTRA) from error
    return vl_convert


def _on_paper(chart: Chart) -> dict[str, Any]:
    out = spec(chart)
    out["config"]["background"] = "white"
    out["config"]["font"] = "sans-serif"
    # A viewer's font may be wider than the one that the converter measured the labels with.
    out["padding"] = {"left": 40, "right": 24, "top": 8, "bottom": 8}
    return out


def _config(ink: str) -> dict[str, Any]:
    axis = {
        "labelColor": ink, "titleColor": ink, "domainColor": ink, "tickColor": ink, "gridColor": ink,
        "gridOpacity": 0.12, "domainOpacity": 0.5, "tickOpacity": 0.5, "labelFontSize": 12,
        "titleFontSize": 12, "titleFontWeight": "normal", "labelLimit": 220,
    }  # fmt: skip
    words = {"labelColor": ink, "titleColor": ink, "labelFontSize": 12, "titleFontSize": 12}
    return {
        "background": None,
        "font": FONT,
        "axis": axis,
        "legend": {**words, "orient": "bottom", "labelLimit": 220, "symbolSize": 80, "columns": 4},
        "header": {**words, "labelFontWeight": "bold", "labelAnchor": "start", "labelLimit": 320},
        "title": {
            "color": ink,
            "subtitleColor": ink,
            "fontSize": 14,
            "subtitleFontSize": 12,
            "anchor": "start",
        },
        # A text without a colour of its own is black by default: unreadable on a dark page.
        "text": {"color": ink},
        "view": {"stroke": None},
    }


RATIO_TIPS = {
    "model": "model:N", "speed-up": "shown:N", "interval": "conditions:N", "verdict": "verdict:N",
    "devices": "pair:N", "base": "base:N", "candidate": "candidate:N", "flags": "flags:N",
}  # fmt: skip


def _ladder(alt: Any, chart: Chart) -> Any:
    """A staircase a device: down the tunings, to the left where a step wins; the best below, unconnected."""
    colour, shape, dash = series(alt, "device", chart.devices, filled=True)
    times = [float(value["ms"] or 1) for value in chart.values]
    # Words stand beside the outermost marks: air for them on both sides.
    air = max(times) / min(times)
    ends = bounds(chart.values, "ms")
    channel = log_axis(
        alt, [min(ends[0], min(times) / air**0.25), max(ends[1], max(times) * air**0.25)], "~g"
    )
    x = alt.X("ms:Q", title="milliseconds a step", **channel)
    axis = alt.Axis(labelExpr="substring(datum.label, 3)", grid=True, title=None)
    y = alt.Y("row:N", sort=list(chart.tunings), axis=axis)
    order = alt.Order("step:Q")
    steps = alt.Chart().transform_filter("isValid(datum.step)")
    known = alt.Chart().transform_filter("isValid(datum.low)")
    fields = {
        "model": "model:N", "device": "device:N", "tuning": "tuning:N", "batch": "batch:N",
        "precision": "precision:N", "time": "estimate:N", "interval": "shown:N", "times as fast": "won:N",
        "flags": "flags:N",
    }  # fmt: skip
    told = tips(alt, fields)
    slowest = _slowest(chart)
    words = alt.Text("label:N")
    layers = [
        steps.mark_line(strokeWidth=1.6, interpolate="linear").encode(
            x=x, y=y, color=colour, strokeDash=dash, order=order
        ),
        known.mark_rule(strokeWidth=2, clip=True).encode(
            x=alt.X("low:Q", **channel), x2="high:Q", y=y, color=colour
        ),
        *cut(alt, "x", channel, y=y, color=colour),
        *points(alt, x=x, y=y, color=colour, shape=shape, **told),
        *(
            alt.Chart()
            .transform_filter(f"datum.device {sign} {json.dumps(slowest)}")
            .mark_text(align=align, dx=dx, dy=dy, fontSize=11)
            .encode(x=x, y=y, text=words)
            # Stairs go down to the left: words to the left stand above their mark and words to the right
            # below it, or the line would cross them.
            for sign, align, dx, dy in (("===", "left", 9, 9), ("!==", "right", -7, -9))
        ),
    ]
    return stacked(alt, layers, chart.values, "model", row="row", width=WIDTH, height=alt.Step(ROW_HEIGHT))


def _slowest(chart: Chart) -> str:
    """The device furthest to the right: its words stand to the right of its marks, others' to the left."""
    times = {name: [v["ms"] for v in chart.values if v["device"] == name] for name in chart.devices}
    return max(
        times, key=lambda name: math.prod(float(ms or 1) ** (1 / len(times[name])) for ms in times[name])
    )


def _scale(alt: Any, chart: Chart) -> Any:
    colour, shape, dash = series(alt, "tuning", chart.tunings, filled=True)
    sizes = [float(value["parameters"] or 1) for value in chart.values]
    x = alt.X("parameters:Q", title="parameters", **log_axis(alt, sizes, "~s"))
    channel = ratio_channel(alt, chart.values)
    y, low = alt.Y("ratio:Q", **channel), alt.Y("low:Q", **channel)
    known = alt.Chart().transform_filter("isValid(datum.low)")
    layers = [
        known.mark_area(opacity=0.16, clip=True).encode(x=x, y=low, y2="high:Q", color=colour),
        alt.Chart().mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour, strokeDash=dash),
        known.mark_rule(strokeWidth=1.4, clip=True).encode(x=x, y=low, y2="high:Q", color=colour),
        *cut(alt, "y", channel, x=x, color=colour),
        *points(alt, x=x, y=y, color=colour, shape=shape, **tips(alt, RATIO_TIPS)),
        rule(alt, "y"),
    ]
    return paged(alt, layers, chart.values, "pair", width=WIDTH, height=300)


def _batch(alt: Any, chart: Chart) -> Any:
    """Ratios with their band, and where each line passes equal speed: a cross, its interval as a bar."""
    colour, shape, dash = series(alt, "tuning", chart.tunings, filled=True)
    sizes = [
        float(value[key] or 1) for value in chart.values for key in ("batch", "from", "to") if key in value
    ]
    x_of = log_axis(alt, sizes, "~g")
    measured_at = sorted({float(value["batch"] or 1) for value in chart.values if value["mark"] == "ratio"})
    if len(measured_at) <= MOST_TICKS:
        x_of["axis"] = alt.Axis(values=measured_at, format="~g", grid=True)
    x, start = (
        alt.X("batch:Q", title="samples a step", **x_of),
        alt.X("from:Q", title="samples a step", **x_of),
    )
    ratios = [value for value in chart.values if value["mark"] == "ratio"]
    channel = ratio_channel(alt, ratios)
    y, low = alt.Y("ratio:Q", **channel), alt.Y("low:Q", **channel)
    fields = {
        "speed-up": "shown:N", "interval": "conditions:N", "verdict": "verdict:N", "tuning": "tuning:N",
        "devices": "pair:N", "flags": "flags:N",
    }  # fmt: skip
    told = tips(alt, fields)
    measured = alt.Chart().transform_filter("datum.mark == 'ratio'")
    known = measured.transform_filter("isValid(datum.low)")
    crossing = alt.Chart().transform_filter("datum.mark == 'crossing'")
    layers = [
        known.mark_area(opacity=0.16, clip=True).encode(x=x, y=low, y2="high:Q", color=colour),
        measured.mark_line(strokeWidth=1.6).encode(x=x, y=y, color=colour, strokeDash=dash),
        *points(alt, measured, x=x, y=y, color=colour, shape=shape, **told),
        rule(alt, "y"),
        crossing.transform_filter("isValid(datum.from)")
        .mark_rule(strokeWidth=4, opacity=0.7)
        .encode(x=start, x2="to:Q", y=y, color=colour),
        crossing.mark_point(shape="cross", angle=45, size=140, opacity=1, filled=True).encode(
            x=x, y=y, color=colour, **told
        ),
        crossing.mark_text(align="left", dx=10, dy=14, fontSize=12).encode(x=x, y=y, text="label:N"),
    ]
    return paged(alt, layers, chart.values, "pair", width=WIDTH, height=260)


def _ratios(alt: Any, chart: Chart) -> Any:
    """One line a tuning under its model: the interval as a bar, the estimate as its point."""
    colour, shape, _ = series(alt, "tuning", chart.tunings, filled=True)
    values: Sequence[Mapping[str, Any]] = chart.values
    if len({value["pair"] for value in values}) > 1:
        values = [{**value, "model": f"{value['model']} ({value['pair']})"} for value in values]
    channel = ratio_channel(alt, values)
    x, low = alt.X("ratio:Q", **channel), alt.X("low:Q", **channel)
    y = alt.Y("tuning:N", title=None, sort=list(chart.tunings))
    known = alt.Chart().transform_filter("isValid(datum.low)")
    layers = [
        known.mark_rule(strokeWidth=2, clip=True).encode(x=low, x2="high:Q", y=y, color=colour),
        *cut(alt, "x", channel, y=y, color=colour),
        *points(alt, x=x, y=y, color=colour, shape=shape, **tips(alt, RATIO_TIPS)),
        rule(alt, "x"),
    ]
    return stacked(alt, layers, values, "model", row="tuning", width=WIDTH, height=alt.Step(ROW_HEIGHT))


def _samples(alt: Any, chart: Chart) -> Any:
    colour, shape, _ = series(alt, "device", chart.devices, filled=False)
    fields = {
        "model": "model:N", "device": "device:N", "tuning": "tuning:N", "median step": "shown:N",
        "process": "process:N", "batch": "batch:Q", "precision": "precision:N", "flags": "flags:N",
    }  # fmt: skip
    times = [float(value["ms"] or 1) for value in chart.values]
    mark = (
        alt.Chart()
        .mark_point(size=60, strokeWidth=1.6, opacity=0.9)
        .encode(
            x=alt.X("ms:Q", title="milliseconds a step", **log_axis(alt, times, "~g")),
            y=alt.Y("tuning:N", title=None, sort=list(chart.tunings)),
            color=colour,
            shape=shape,
            **tips(alt, fields),
        )
    )
    return stacked(alt, [mark], chart.values, "model", row="tuning", width=WIDTH, height=alt.Step(ROW_HEIGHT))


def _shares(alt: Any, chart: Chart) -> Any:
    """One bar a tuning under its model, cut into parts; the larger ones carry their number."""
    names = [name for name in PART_FILLS if any(value["part"] == name for value in chart.values)]
    fields = {
        "case": "group:N", "part": "part:N", "share": "shown:N", "range": "range:N", "of a step": "time:N",
        "the step": "step:N", "tuning": "tuning:N", "bound by": "bound:N", "because": "why:N",
        "flags": "flags:N",
    }  # fmt: skip
    y = alt.Y("tuning:N", title=None, sort=list(chart.tunings))
    axis = alt.Axis(format="%", values=[0, 0.25, 0.5, 0.75, 1], grid=True)
    x = alt.X(
        "begin:Q", title="share of a step, and what bounds it", axis=axis, scale=alt.Scale(domain=[0, 1])
    )
    fill = alt.Scale(domain=names, range=[PART_FILLS[name] for name in names])
    told = tips(alt, fields)
    colour = alt.Color("part:N", title="part", scale=fill)
    bars = alt.Chart().mark_bar(stroke="white", strokeWidth=1)
    dark = " || ".join(f"datum.part == '{name}'" for name in DARK_FILLS)
    ink = alt.condition(dark, alt.value("white"), alt.value("black"))
    numbers = alt.Chart().transform_filter(f"datum.end - datum.begin >= {LEAST_TEXT}")
    numbers = numbers.transform_calculate(middle="(datum.begin + datum.end) / 2").mark_text(fontSize=11)
    bound = alt.Chart().transform_filter("datum.begin == 0").mark_text(align="left", dx=6, fontSize=11)
    layers = [
        bars.encode(x=x, x2="end:Q", y=y, color=colour, **told),
        # A pointer on the words is on the bar behind them.
        numbers.encode(x="middle:Q", y=y, text="shown:N", color=ink, **told),
        bound.encode(x=alt.datum(1), y=y, text="bound:N"),
    ]
    return stacked(
        alt, layers, chart.values, "group", row="tuning", width=SHARE_WIDTH, height=alt.Step(ROW_HEIGHT)
    )
