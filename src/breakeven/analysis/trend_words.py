"""The sentences that a trend allows: how fast, whether it ends, what came of earlier forecasts, 2030.

Knows nothing about how they are shown.
"""

from breakeven.analysis.trend import METRICS, Trend
from breakeven.analysis.trend_ceiling import CHI_SQUARED


def sentences(found: Trend) -> tuple[str, ...]:
    """What the data allow to say, the answer first."""
    said = (_pace(found), _ceiling(found), _history(found), _forecast(found), _as_published(found))
    return tuple(sentence for sentence in said if sentence)


def quantity(value: float, unit: str) -> str:
    """A value to three digits with its unit; large sizes in words."""
    if value >= 1e6:
        return f"{value / 1e6:.3g} million {unit}"
    return f"{float(f'{value:.3g}'):,.10g} {unit}"


def _who(found: Trend) -> str:
    boards = "GPUs" if found.segment == "all" else f"{found.segment} GPUs"
    return f"the record-setting {boards}" if found.frontier else boards


def _pace(found: Trend) -> str:
    name, years = METRICS[found.metric].name, [point.year for point in found.points]
    span = f"from {int(years[0])} to {int(years[-1])}, {len(found.points)} boards"
    pace = found.doubling_years
    if pace is None:
        return f"Whether the {name} of {_who(found)} grows is not certain ({span})."
    return (
        f"The {name} of {_who(found)} doubled every {pace.estimate:.1f} years "
        f"[{pace.low:.1f}, {pace.high:.1f}] ({span})."
    )


def _ceiling(found: Trend) -> str:
    c, unit = found.ceiling, METRICS[found.metric].unit
    if not c.identifiable:
        return (
            "Where it levels off cannot be told: logistic curves that end at "
            f"{quantity(c.near.ceiling, unit)} and at {quantity(c.far.ceiling, unit)} fit alike "
            f"({c.near.rms:.2f} and {c.far.rms:.2f} doublings off), and say "
            f"{quantity(c.near.value_2030, unit)} and {quantity(c.far.value_2030, unit)} of 2030."
        )
    whose = "the records level" if found.frontier else "the typical board levels"
    bounds = ", ".join(f"{float(f'{bound:.3g}'):g}" for bound in (c.low, c.high) if bound is not None)
    text = (
        f"It bends: a logistic curve on which {whose} off at {quantity(c.best or 0.0, unit)} [{bounds}] fits "
        f"better than steady doubling (statistic {c.against_none:.1f}, above {CHI_SQUARED})."
    )
    if found.segment == "all":
        text += " Segments that grow apart are mixed here: look at each alone."
    elif not found.frontier:
        text += (
            " Part of the bend may be the choice of boards, flagships at first and smaller ones too later "
            "on: --frontier is free of that."
        )
    return text


def _history(found: Trend) -> str:
    steady = found.fit("exponential", "log")
    if steady.holdout_bias is None:
        return ""
    factor = 2 ** abs(steady.holdout_bias)
    way = "too much" if steady.holdout_bias > 0 else "too little"
    return f"Fitted to the boards before 2016, steady doubling says {factor:.2g} times {way} of those since."


def _forecast(found: Trend) -> str:
    last, unit = found.guide.forecasts[-1], METRICS[found.metric].unit
    if last.value is None or last.low is None or last.high is None:
        return ""
    curve = "The logistic curve" if found.ceiling.identifiable else "Steady doubling"
    return (
        f"{curve} says {quantity(last.value, unit)} of such a board in {last.year:.0f}, 95 % of them "
        f"between {quantity(last.low, unit)} and {quantity(last.high, unit)}."
    )


def _as_published(found: Trend) -> str:
    """What the curves of Amin et al. (2026), on plain values, come to on these boards."""
    square, cubic, unit = found.fit("polynomial", "linear"), found.cubic, METRICS[found.metric].unit
    ends = [fit.forecasts[-1].value for fit in (square, cubic)]
    parts = []
    if square.negative_until is not None:
        parts.append(f"the polynomial is at or below zero until {square.negative_until:.0f}")
    if None not in ends:
        said = " and ".join(quantity(end, unit) for end in ends if end is not None)
        parts.append(f"of degree 2 and 3 it says {said} of 2030")
    logistic = found.fit("logistic", "linear")
    if logistic.ceiling is not None:
        high = max(point.value for point in found.points)
        text = f"the logistic curve ends at {quantity(logistic.ceiling, unit)}"
        if logistic.ceiling < high:
            text += f", below a board that exists ({quantity(high, unit)})"
        elif logistic.ceiling > 100 * high:
            text = "the logistic curve finds no end within reach"
        parts.append(text)
    return f"As Amin et al. (2026) fit it, on plain values: {'; '.join(parts)}." if parts else ""
