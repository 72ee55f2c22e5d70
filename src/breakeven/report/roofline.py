"""The roofline of each device: how fast steps compute, under what its arithmetic and its memory allow.

Knows nothing about how ceilings are measured or layers counted. Williams, Waterman and Patterson 2009
(doi:10.1145/1498765.1498785): rate <= min(peak, intensity x bandwidth).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from breakeven.analysis.findings import CaseFinding, ShareFinding
from breakeven.report import words
from breakeven.report.doubts import doubt, explained
from breakeven.report.drawing import WIDTH, log_axis, paged, points, series, tips
from breakeven.report.names import Names, tuning_of, tuning_rank
from breakeven.report.view import Chart, Value, clean
from breakeven.units import format_duration

Mark = Mapping[str, Value]
MARGIN = 3.0
"""Times beyond the outermost step, or the ridge, that the roof is drawn to."""
AIR = 2.0


def roofline_chart(told: Sequence[tuple[CaseFinding, ShareFinding]], names: Names) -> Chart | None:
    """Every case whose FLOPs, traffic and ceilings are known; None without any. A panel a device and peak."""
    panels: dict[str, list[tuple[CaseFinding, ShareFinding]]] = {}
    for case, found in told:
        if (
            case.tflop_per_s
            and case.ceiling_tflop_per_s
            and found.flops_per_byte
            and found.bandwidth_gb_per_s
        ):
            panels.setdefault(_panel(case, found, names), []).append((case, found))
    if not panels:
        return None
    values = [mark for panel, inside in panels.items() for mark in _marks(panel, inside, names)]
    tunings = tuple(sorted({str(v["tuning"]) for v in values if v["mark"] == "step"}, key=tuning_rank))
    models = dict.fromkeys(clean(case.case.work.model) for inside in panels.values() for case, _ in inside)
    alt = (
        f"Arithmetic of a step in TFLOP/s against its FLOPs a byte, both on logarithmic axes, for "
        f"{words.joined(list(models))} at {words.joined(list(tunings))}, under a line that rises with the "
        "measured bandwidth and is level at the measured peak. The table holds the intensities."
    )
    return Chart(
        kind="roofline",
        name="roofline",
        title="Steps under the roof of their device",
        subtitle=explained(values),
        alt_text=alt,
        values=tuple(values),
        tunings=tunings,
    )


def _panel(case: CaseFinding, found: ShareFinding, names: Names) -> str:
    device = names.devices.get(case.device_label, clean(case.device_label))
    peak = f"{words.significant(case.ceiling_tflop_per_s or 0.0, 3)} TFLOP/s {case.ceiling_precision or ''}"
    return f"{device}: {peak.strip()}, {words.amount(1e9 * (found.bandwidth_gb_per_s or 0.0), 'B/s').text}"


def _marks(panel: str, inside: Sequence[tuple[CaseFinding, ShareFinding]], names: Names) -> Iterator[Mark]:
    """The roof's three corners, then a mark a step; the fastest of each model carries its name."""
    case, found = inside[0]
    peak, slope = case.ceiling_tflop_per_s or 0.0, (found.bandwidth_gb_per_s or 0.0) / 1e3
    intensities = [found.flops_per_byte or 0.0 for _, found in inside]
    corners = (
        min(*intensities, peak / slope) / MARGIN,
        peak / slope,
        max(*intensities, peak / slope) * MARGIN,
    )
    for at in corners:
        yield {"panel": panel, "mark": "roof", "intensity": at, "rate": min(peak, slope * at), "tuning": ""}
    fastest: dict[str, float] = {}
    for case, _ in sorted(inside, key=lambda pair: pair[1].flops_per_byte or 0.0):
        model = clean(case.case.work.model)
        fastest[model] = max(fastest.get(model, 0.0), case.tflop_per_s or 0.0)
    # Names lean outwards, on each side those of the faster half a little up and the others down.
    half = (len(fastest) + 1) // 2
    left, right = list(fastest)[:half], list(fastest)[half:]
    above = [
        model
        for side in (left, right)
        for model in sorted(side, key=lambda model: -fastest[model])[: (len(side) + 1) // 2]
    ]
    for case, found in inside:
        model, rate = clean(case.case.work.model), case.tflop_per_s or 0.0
        roof = min(peak, slope * (found.flops_per_byte or 0.0))
        yield {
            "panel": panel,
            "mark": "step",
            "intensity": found.flops_per_byte,
            "rate": rate,
            "tuning": tuning_of(case),
            "model": model,
            "label": model if rate == fastest[model] else "",
            "side": f"{'above' if model in above else 'below'} {'left' if model in left else 'right'}",
            "shown": f"{words.significant(rate, 3)} TFLOP/s, {words.percent(rate / roof)} of the roof",
            "step": format_duration(found.step_s),
            "bound": clean(found.label),
            "batch": case.case.work.batch,
            "precision": clean(case.case.tuning.precision),
            "conditions": words.describe(case.step_s, format_duration) if case.step_s else "no interval",
            **doubt(case.flags, known=case.step_s is not None),
        }


def draw(alt: Any, chart: Chart) -> Any:
    """A panel a device and peak: the roof a grey line, steps by tuning; both axes logarithmic."""
    colour, shape, _ = series(alt, "tuning", chart.tunings, filled=True)
    intensities = [float(value["intensity"] or 1) for value in chart.values]
    rates = [float(value["rate"] or 1) for value in chart.values]
    rates.append(min(rates) / AIR)  # a name stands below the lowest mark
    x = alt.X("intensity:Q", title="FLOPs a byte of traffic", **log_axis(alt, intensities, "~g"))
    y = alt.Y("rate:Q", title="TFLOP/s", **log_axis(alt, rates, "~g"))
    fields = {
        "model": "model:N", "tuning": "tuning:N", "batch": "batch:Q", "precision": "precision:N",
        "a step": "step:N", "interval": "conditions:N", "rate": "shown:N", "bound by": "bound:N",
        "flags": "flags:N",
    }  # fmt: skip
    told = tips(alt, fields)
    roof, step = (alt.Chart().transform_filter(f"datum.mark == '{mark}'") for mark in ("roof", "step"))
    layers = [
        roof.mark_line(strokeWidth=1.6, color="#7F7F7F").encode(x=x, y=y),
        *points(alt, step, x=x, y=y, color=colour, shape=shape, **told),
        *(
            step.transform_filter(f"datum.side == '{side} {lean}'")
            .mark_text(align=align, dx=dx, dy=dy, fontSize=11)
            .encode(x=x, y=y, text="label:N")
            for side, dy in (("above", -6), ("below", 6))
            for lean, align, dx in (("left", "right", -10), ("right", "left", 10))
        ),
    ]
    return paged(alt, layers, chart.values, "panel", width=WIDTH, height=280)
