"""The chart of a step on more and more cores: what was measured, Amdahl's law through it, and equal shares.

Knows nothing about how the law is fitted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from breakeven.analysis.amdahl import speedup
from breakeven.analysis.curves import CoresFinding, CoresPoint
from breakeven.report import words
from breakeven.report.doubts import doubt, explained
from breakeven.report.drawing import WIDTH, paged, points, series, tips
from breakeven.report.names import Names, tuning_rank
from breakeven.report.view import Chart, Value, clean

STEPS = 40
"""Points of the curve of a law: the eye sees no corners."""


def cores_chart(findings: Sequence[CoresFinding], names: Names) -> Chart | None:
    """The speed-up over one core against their number; None where one core was not measured."""
    shown = [f for f in findings if _single(f) and any(_known(p) for p in f.points)]
    if not shown:
        return None
    tunings = tuple(map(clean, sorted({f.tuning_name for f in shown}, key=tuning_rank)))
    values = tuple(mark for f in shown for mark in _marks(f, names))
    law = any(value["mark"] == "law" for value in values)
    told = "Dashed grey: as many times as fast as there are cores."
    return Chart(
        kind="cores",
        name="cores",
        title="Speed-up over one core",
        subtitle=explained(values, told + (" Lines: Amdahl's law, fitted." if law else "")),
        alt_text=(
            f"Speed-up over one core against the number of cores at {words.joined(tunings)}, with intervals, "
            "beside the line of as many times as fast as there are cores. The tables hold every number."
        ),
        values=values,
        tunings=tunings,
    )


def _single(f: CoresFinding) -> bool:
    return any(p.cores == 1 for p in f.points)


def _known(p: CoresPoint) -> bool:
    return p.cores > 1 and p.speedup is not None


def _marks(f: CoresFinding, names: Names) -> Iterator[Mapping[str, Value]]:
    same: dict[str, Value] = {
        "tuning": clean(f.tuning_name),
        "group": clean(f"{f.model} on {names.devices.get(f.device_label, f.device_label)}, batch {f.batch}"),
    }
    flags = [flag for flag, holds in (("contended", f.disturbed), ("not_interleaved", f.apart)) if holds]
    most = max(p.cores for p in f.points)
    yield from ({**same, "mark": "equal", "cores": n, "times": n} for n in (1, most))
    yield {**same, "mark": "point", "cores": 1, "times": 1.0, "shown": "1x: the base", **doubt(flags)}
    for p in filter(_known, f.points):
        assert p.speedup is not None
        cell = words.ratio(p.speedup)
        yield {
            **same,
            "mark": "point",
            "cores": p.cores,
            "times": p.speedup.estimate,
            "low": p.speedup.low,
            "high": p.speedup.high,
            "shown": cell.text,
            "conditions": cell.note,
            **doubt(flags),
        }
    if f.limit is not None and f.parallel_point is not None:
        for step in range(STEPS + 1):
            cores = 1 + (most - 1) * step / STEPS
            yield {**same, "mark": "law", "cores": cores, "times": speedup(f.parallel_point, cores)}


def draw(alt: Any, chart: Chart) -> Any:
    """Both axes linear: as many times as fast as there are cores is the diagonal."""
    colour, shape, _ = series(alt, "tuning", chart.tunings, filled=True)
    most = max(float(value["cores"] or 1) for value in chart.values)
    highest = max(float(value.get(key) or 1) for value in chart.values for key in ("times", "high"))
    counts = sorted({int(value["cores"] or 1) for value in chart.values if value["mark"] == "point"})
    x = alt.X(
        "cores:Q",
        title="cores",
        scale=alt.Scale(domain=[1, most], nice=False, padding=12),
        axis=alt.Axis(values=counts, format="d"),
    )
    up = alt.Scale(domain=[0, min(highest, 2 * most)], nice=True)
    y, low = (alt.Y(f"{name}:Q", title="times as fast as one core", scale=up) for name in ("times", "low"))

    def of(mark: str) -> Any:
        return alt.Chart().transform_filter(f"datum.mark == '{mark}'")

    fields = {
        "speed-up": "shown:N", "interval": "conditions:N", "cores": "cores:Q", "tuning": "tuning:N",
        "flags": "flags:N",
    }  # fmt: skip
    told = tips(alt, fields)
    measured = of("point")
    layers = [
        of("equal").mark_line(strokeDash=[4, 4], opacity=0.7, color="#7F7F7F").encode(x=x, y=y),
        of("law").mark_line(strokeWidth=1.4).encode(x=x, y=y, color=colour),
        measured.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=1.8, clip=True)
        .encode(x=x, y=low, y2="high:Q", color=colour),
        *points(alt, measured, x=x, y=y, color=colour, shape=shape, **told),
    ]
    return paged(alt, layers, chart.values, "group", width=WIDTH, height=260)
