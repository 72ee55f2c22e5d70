"""What all charts share: series that differ in more than colour, logarithmic axes, drawings in pages.

Knows nothing about what is drawn. Every series has a shape or a dash besides its colour. Colours: Okabe and
Ito (2008), without the yellow that vanishes on white.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C6BB1", "#7F7F7F")
SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "triangle-right",
    "triangle-left",
)
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 1], [1, 3], [10, 3], [3, 3, 1, 3])
STEPS = ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9))
"""Lines of a logarithmic axis within a power of ten, the widest first: the first with enough of them."""
FEWEST_TICKS = 3
WIDTH = 640
MOST_STACKED = 24
"""More drawings would each repeat the whole specification."""
AIR = 1.2
FAR = 4.0
"""Times beyond the estimates of a chart up to which intervals are drawn."""


def series(alt: Any, field: str, names: Sequence[str], *, filled: bool) -> tuple[Any, Any, Any]:
    """Colour, shape and dash of one series; equal fields, domains and titles make one legend of them."""
    # The outline of a filled symbol would take the dash of its line and look torn.
    legend = alt.Legend(symbolOpacity=1, symbolStrokeWidth=0 if filled else 1.5) if len(names) > 1 else None
    looks = (alt.Color, COLOURS), (alt.Shape, SHAPES), (alt.StrokeDash, DASHES)
    colour, shape, dash = (
        channel(
            f"{field}:N",
            title=field,
            legend=legend,
            scale=alt.Scale(domain=list(names), range=_cycled(values, len(names))),
        )
        for channel, values in looks
    )
    return colour, shape, dash


def _cycled(values: Sequence[Any], count: int) -> list[Any]:
    return [values[index % len(values)] for index in range(count)]


def log_axis(alt: Any, numbers: Sequence[float], form: str) -> dict[str, Any]:
    """Scale and axis of a logarithmic channel: a little air at both ends, few lines, each with its number."""
    # Three digits: a screen reader is told both ends.
    low, high = (float(f"{end:.3g}") for end in (min(numbers) / AIR, max(numbers) * AIR))
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks: list[float] = []
    for steps in STEPS if high / low < 200 else STEPS[:1]:
        each = (step * 10.0**power for power in powers for step in steps)
        ticks = [round(tick, 12) for tick in each if low <= tick <= high]
        if len(ticks) >= FEWEST_TICKS:
            break
    axis = alt.Axis(values=ticks, format=form, grid=True)
    return {"scale": alt.Scale(type="log", domain=[low, high], nice=False), "axis": axis}


def ratio_channel(alt: Any, values: Sequence[Any]) -> dict[str, Any]:
    """2x and 0.5x lie equally far from equal speed, which is always in sight."""
    return {"title": "times as fast", **log_axis(alt, [1.0, *bounds(values, "ratio")], "~g")}


def bounds(values: Sequence[Any], of: str) -> tuple[float, float]:
    """The range that shows every estimate, and of the intervals what lies within FAR of all estimates.

    One process that went astray has an interval over decades: drawn whole it would press the rest together.
    """
    estimates = [float(value[of]) for value in values if value[of]]
    low, high = min(estimates) / FAR, max(estimates) * FAR
    ends = [float(value[key]) for value in values for key in ("low", "high") if value.get(key)]
    inside = [min(max(end, low), high) for end in ends]
    return min([*estimates, *inside]), max([*estimates, *inside])


def cut(alt: Any, channel: str, scale: Mapping[str, Any], **encoding: Any) -> list[Any]:
    """An arrow at the edge for each interval that goes on beyond it, `channel` x or y."""
    low, high = scale["scale"].domain
    arrows = ("triangle-left", "triangle-right") if channel == "x" else ("triangle-down", "triangle-up")
    tests = (f"isValid(datum.low) && datum.low < {low}", f"isValid(datum.high) && datum.high > {high}")
    kind = alt.X if channel == "x" else alt.Y
    return [
        alt.Chart()
        .transform_filter(test)
        .transform_calculate(edge=str(edge))
        .mark_point(shape=arrow, filled=True, size=70, opacity=1)
        .encode(**{channel: kind("edge:Q", **scale)}, **encoding)
        for test, edge, arrow in zip(tests, (low, high), arrows, strict=True)
    ]


def rule(alt: Any, channel: str) -> Any:
    where = {channel: alt.datum(1)}
    return alt.Chart().mark_rule(strokeDash=[4, 4], opacity=0.6, color="#7F7F7F").encode(**where)


def points(alt: Any, base: Any = None, **encoding: Any) -> list[Any]:
    """Filled marks, and hollow ones for what is doubtful: a mark whose `sure` is "no"."""
    base = alt.Chart() if base is None else base
    sure, unsure = (base.transform_filter(f"datum.sure {sign} 'no'") for sign in ("!==", "==="))
    return [
        sure.mark_point(filled=True, size=80, opacity=1).encode(**encoding),
        unsure.mark_point(filled=False, size=70, strokeWidth=1.8, opacity=1).encode(**encoding),
    ]


BARE = (
    "amount", "board", "case", "copy", "device", "devices", "interval", "method", "model", "of", "part",
    "tuning", "verdict",
)  # fmt: skip
"""What a screen reader is told without its title: the words say what they are."""


def tips(alt: Any, fields: Mapping[str, str]) -> dict[str, Any]:
    """The two channels by which a mark tells its numbers: a pointer's tooltip, a screen reader's sentence.

    `fields`: title -> field, in the order in which they are told. Without the sentence Vega reads out every
    encoded value with all its digits.
    """
    tooltip = [alt.Tooltip(field, title=title) for title, field in fields.items()]
    told = " + ".join(_told(title, field.partition(":")[0]) for title, field in fields.items())
    return {"tooltip": tooltip, "description": alt.value({"expr": f"slice({told}, 2)"})}


def _told(title: str, field: str) -> str:
    """An expression: ", title value" of a mark; nothing where it has none."""
    value = f"datum[{json.dumps(field)}]"
    words, known = value, f"isValid({value}) && {value} !== ''"
    if title == "flags":
        words, known = f"replace({value}, /_/g, ' ')", f"{known} && {value} !== 'none'"
    before = ", " if title in BARE else f", {title} "
    return f"({known} ? '{before}' + {words} : '')"


def heard(spec: Any) -> Any:
    """A specification in which marks without a sentence of their own are silent to a screen reader.

    Lines, bands and intervals say again what the points between them say, and words stand beside their mark.
    """
    if isinstance(spec, list):
        return [heard(part) for part in spec]
    if not isinstance(spec, dict):
        return spec
    out = {key: value if key == "values" else heard(value) for key, value in spec.items()}
    if "mark" in out and "encoding" in out:
        mark = out["mark"] if isinstance(out["mark"], dict) else {"type": out["mark"]}
        if mark["type"] == "text" or "description" not in out["encoding"]:
            out["mark"] = {**mark, "aria": False}
    return out


class Rows:
    """The marks of a chart on their way through altair, which copies and walks whatever it can look into."""

    __slots__ = ("values",)

    def __init__(self, values: Sequence[Mapping[str, Any]]) -> None:
        self.values = values


def data(alt: Any, values: Sequence[Mapping[str, Any]]) -> Any:
    """The marks as altair's data; `charts.spec` puts them in once altair is done."""
    return alt.Data(values=Rows(values))


def with_rows(spec: Any) -> Any:
    """A specification with the marks in the place of every `Rows`."""
    if isinstance(spec, dict):
        return {key: with_rows(value) for key, value in spec.items()}
    if isinstance(spec, list):
        return [with_rows(value) for value in spec]
    return list(spec.values) if isinstance(spec, Rows) else spec


def paged(
    alt: Any, layers: Sequence[Any], values: Sequence[Mapping[str, Any]], field: str, **size: Any
) -> Any:
    """One drawing, or one above the other where the field has several values."""
    together = alt.layer(*layers, data=data(alt, values)).properties(**size)
    groups = list(dict.fromkeys(value[field] for value in values))
    if len(groups) < 2:
        return together
    facet = alt.Facet(f"{field}:N", title=None, sort=groups)
    return together.facet(facet=facet, columns=1)


def stacked(
    alt: Any, layers: Sequence[Any], values: Sequence[Mapping[str, Any]], field: str, row: str, **size: Any
) -> Any:
    """As `paged`, of drawings with a row for each value of `row`: each has those of its own marks.

    Facets share their rows: where these differ the drawings stand one below the other, on one scale, and the
    last one has its numbers. (Of facets with rows of their own Vega-Lite warns that it doubts their height.)
    """
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for value in values:
        groups.setdefault(value[field], []).append(value)
    rows = {frozenset(value[row] for value in marks) for marks in groups.values()}
    if len(rows) < 2 or len(groups) > MOST_STACKED:
        return paged(alt, layers, values, field, **size)
    last = list(groups)[-1]
    drawn = [
        alt.layer(*(layers if name == last else map(_unnumbered, layers)), data=data(alt, marks)).properties(
            title=alt.Title(str(name), fontSize=12, anchor="start", frame="group"), **size
        )
        for name, marks in groups.items()
    ]
    return alt.vconcat(*drawn, spacing=12).resolve_scale(x="shared")


def _unnumbered(layer: Any) -> Any:
    """The layer with the lines of its horizontal axis alone."""
    bare = layer.copy(deep=True)
    # By its items: as an attribute altair gives the function that sets it.
    axis = bare.encoding["x"].to_dict(validate=False).get("axis")
    if axis:
        bare.encoding["x"]["axis"] = axis | dict.fromkeys(("labels", "ticks", "domain", "aria"), False)
        bare.encoding["x"]["title"] = None
    return bare
