"""Charts of amounts that are compared from zero: memory by what each number means, energy of a step.

Knows nothing about how they were read. A panel holds one meaning, for numbers of two never compare.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from breakeven.analysis.findings import CaseFinding
from breakeven.report.doubts import PALE, doubt, explained
from breakeven.report.drawing import WIDTH, data, series, tips
from breakeven.report.names import Names, naming
from breakeven.report.view import Cell, Chart, Value, clean

MOST_CASES = 40
"""More bars have no place on a page; the table filters and sorts them."""
ROW_HEIGHT = 18
FAINT = 0.35
"""Opacity of a bar that is doubtful."""

Amount = Callable[[CaseFinding], Cell]
"""What a case has of one meaning, as a table shows it: the number to sort by is the bar's."""


def amounts_chart(
    name: str,
    title: str,
    axis: str,
    cases: Sequence[CaseFinding],
    panels: Mapping[str, Amount],
    names: Names,
    *,
    timed: bool = True,
) -> Chart | None:
    """A bar a case in a panel a meaning; None where there is nothing to compare, or too much for a page.

    `timed`: an amount that the doubts of a case's time are doubts of as well.
    """
    if not 2 <= len(cases) <= MOST_CASES:
        return None
    values = tuple(mark for panel, of in panels.items() for mark in _marks(panel, of, cases, names, timed))
    if len({value["case"] for value in values}) < 2:
        return None
    devices = tuple(dict.fromkeys(str(value["device"]) for value in values))
    return Chart(
        kind="amounts",
        name=name,
        title=title,
        subtitle=explained(values, axis, PALE),
        alt_text=f"Bars from zero, one a case: {', '.join(panels)}. The table below holds every number.",
        values=values,
        devices=devices,
    )


def _marks(
    panel: str, of: Amount, cases: Sequence[CaseFinding], names: Names, timed: bool
) -> Iterator[Mapping[str, Value]]:
    for case, called in zip(cases, _called(cases, names), strict=True):
        cell = of(case)
        if cell.sort is None:
            continue
        yield {
            "panel": clean(panel),
            "case": called,
            "device": names.devices[case.device_label],
            "amount": cell.sort,
            "shown": cell.text,
            **doubt(case.flags if timed else ()),
        }


def _called(cases: Sequence[CaseFinding], names: Names) -> list[str]:
    """What each case is called: its model, and whatever else differs between them; numbers say of what."""
    rows = [[cell.text for cell in naming(case, names)] for case in cases]
    kept = [i for i in range(len(names.columns)) if i == 0 or len({row[i] for row in rows}) > 1]
    return [
        clean(", ".join(f"{names.columns[i].name} {row[i]}" if row[i].isdecimal() else row[i] for i in kept))
        for row in rows
    ]


def draw(alt: Any, chart: Chart) -> Any:
    """Bars from zero with their number; each panel has its own scale, as its own meaning."""
    fields = {"amount": "shown:N", "of": "panel:N", "case": "case:N", "flags": "flags:N"}
    told = tips(alt, fields)
    cases = list(dict.fromkeys(value["case"] for value in chart.values))
    y = alt.Y("case:N", title=None, sort=cases, axis=alt.Axis(labelLimit=320))
    x = alt.X("amount:Q", title=None, axis=None, scale=alt.Scale(zero=True, padding=0))
    colour, _, _ = series(alt, "device", chart.devices, filled=True)
    pale = alt.condition("datum.sure === 'no'", alt.value(FAINT), alt.value(1))
    layers = [
        alt.Chart().mark_bar().encode(x=x, y=y, color=colour, opacity=pale, **told),
        alt.Chart().mark_text(align="left", dx=5, fontSize=11).encode(x=x, y=y, text="shown:N"),
    ]
    size = {"width": WIDTH - 200, "height": alt.Step(ROW_HEIGHT)}
    panels: dict[str, list[Mapping[str, Value]]] = {}
    for value in chart.values:
        panels.setdefault(str(value["panel"]), []).append(value)
    drawn = [alt.layer(*layers, data=data(alt, rows)).properties(**size) for rows in panels.values()]
    if len(drawn) < 2:
        return drawn[0]
    # No facets: of their panels with scales of their own Vega-Lite warns on the console.
    titled = (
        one.properties(title=alt.Title(panel, fontSize=12)) for panel, one in zip(panels, drawn, strict=True)
    )
    return alt.vconcat(*titled).resolve_scale(x="independent", y="independent")
