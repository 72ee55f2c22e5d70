"""Vega-Lite specifications from their parts, as plain values: the few words of the language that charts use.

Knows nothing about what is drawn. The words are altair's, and a test holds what they say to what altair says:
its import and its copies of every part took 0.7 s, more than all else of the page of a usual study.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.4.1.json"
TYPES = {"N": "nominal", "Q": "quantitative"}
FIRST, FACETED = ("mark", "vconcat", "layer"), ("data", "facet", "spec")
"""What a specification begins with; the rest follows in the order of the alphabet."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart or several: never changed, every method gives another one."""

    parts: Mapping[str, Any] = field(default_factory=dict)

    def _with(self, **parts: Any) -> "Chart":
        return Chart({**self.parts, **parts})

    def _marked(self, kind: str, **looks: Any) -> "Chart":
        return self._with(mark={"type": kind, **_part(**looks)})

    def mark_area(self, **looks: Any) -> "Chart":
        return self._marked("area", **looks)

    def mark_bar(self, **looks: Any) -> "Chart":
        return self._marked("bar", **looks)

    def mark_line(self, **looks: Any) -> "Chart":
        return self._marked("line", **looks)

    def mark_point(self, **looks: Any) -> "Chart":
        return self._marked("point", **looks)

    def mark_rect(self, **looks: Any) -> "Chart":
        return self._marked("rect", **looks)

    def mark_rule(self, **looks: Any) -> "Chart":
        return self._marked("rule", **looks)

    def mark_text(self, **looks: Any) -> "Chart":
        return self._marked("text", **looks)

    def encode(self, **channels: Any) -> "Chart":
        """`channels` by their names, each as a part or as a field alone: `label:N`."""
        return self._with(
            encoding=_part(**{name: _channel(name, channel) for name, channel in channels.items()})
        )

    def transform_filter(self, test: str) -> "Chart":
        return self._with(transform=[*self.parts.get("transform", ()), {"filter": test}])

    def transform_calculate(self, **fields: str) -> "Chart":
        made = [{"calculate": expression, "as": name} for name, expression in fields.items()]
        return self._with(transform=[*self.parts.get("transform", ()), *made])

    def properties(self, **properties: Any) -> "Chart":
        return self._with(**properties)

    def resolve_scale(self, **channels: str) -> "Chart":
        return self._with(resolve={"scale": _part(**channels)})

    def facet(
        self, facet: Mapping[str, Any] | None = None, *, row: Mapping[str, Any] | None = None, **layout: Any
    ) -> "Chart":
        """The chart once for each value of a field; its data are those of all."""
        inside = {name: part for name, part in self.parts.items() if name != "data"}
        by = facet if row is None else {"row": row}
        return Chart({"data": self.parts["data"], "facet": by, "spec": _ordered(inside), **layout})

    def to_dict(self) -> dict[str, Any]:
        """The specification."""
        return {**_ordered(self.parts), "$schema": SCHEMA}


def layer(*layers: Chart, data: Mapping[str, Any]) -> Chart:
    """Charts of the same data on top of each other."""
    return Chart({"layer": [_ordered(one.parts) for one in layers], "data": data})


def vconcat(*charts: Chart) -> Chart:
    """Charts one below the other."""
    return Chart({"vconcat": [_ordered(one.parts) for one in charts]})


def value(constant: Any) -> dict[str, Any]:
    """A channel that is the same for every mark, in pixels or as a colour."""
    return {"value": constant}


def datum(constant: Any) -> dict[str, Any]:
    """A channel that is the same for every mark, on the scale of the data."""
    return {"datum": constant}


def condition(test: str, then: Mapping[str, Any], otherwise: Mapping[str, Any]) -> dict[str, Any]:
    """One constant where the test holds, another one elsewhere."""
    return {"condition": {"test": test, **then}, **otherwise}


def Title(text: str, **looks: Any) -> dict[str, Any]:
    """A title, what stands below it, and how it looks."""
    return {"text": text, **_part(**looks)}


def Step(pixels: int) -> dict[str, Any]:
    """A width or height that grows with the values of an axis."""
    return {"step": pixels}


def _field(shorthand: str, **settings: Any) -> dict[str, Any]:
    """A channel that shows a field of the data: `label:N`, `ms:Q`."""
    name, _, kind = shorthand.partition(":")
    return _part(field=name, type=TYPES[kind], **settings)


def _part(**settings: Any) -> dict[str, Any]:
    return dict(sorted(settings.items()))


X = Y = Color = Facet = Row = Shape = Stroke = StrokeDash = Text = Tooltip = Order = _field
Axis = Data = Header = Legend = Scale = _part


def _channel(name: str, channel: Any) -> Any:
    if not isinstance(channel, str):
        return channel
    # The other end of a bar or band is of the same type as the first.
    return {"field": channel.partition(":")[0]} if name in ("x2", "y2") else _field(channel)


def _ordered(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Parts in the order in which people write a specification: what it is, then the rest by name."""
    first = FACETED if "facet" in parts else FIRST
    return {name: parts[name] for name in (*first, *sorted(set(parts) - {*first})) if name in parts}
