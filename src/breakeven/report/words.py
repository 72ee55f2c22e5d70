"""Numbers as cells: a duration, a ratio, a size, each with the interval, count and evidence behind it.

Knows nothing about which table a cell stands in. Rounds, and computes nothing else.
"""

import math
from collections.abc import Callable, Iterable

from breakeven import units
from breakeven.report.view import Cell, absent, clean
from breakeven.stats import Interval

WIDE = 0.1
"""Half the width of an interval, as a share, from which a cell shows it beside the number."""
PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def seconds(
    interval: Interval | None, point: float | None = None, *, reason: str = "", evidence: Iterable[str] = ()
) -> Cell:
    """A duration; its note holds the interval. From a point alone where one process was measured."""
    value = point if interval is None else interval.estimate
    if value is None or not math.isfinite(value):
        return absent(reason)
    note = describe(interval, units.format_duration) if interval else (reason or "no interval")
    return Cell(text=units.format_duration(value), sort=value, note=clean(note), evidence=tuple(evidence))


def spread(interval: Interval | None, reason: str = "") -> Cell:
    """Half the width of a confidence interval, as a share of the estimate: "0.9 %"."""
    if interval is None:
        return absent(reason)
    half = interval.relative_half_width
    note = behind(interval)
    return (
        Cell(text=f"\u00b1{percent(half)}", sort=half, note=note) if math.isfinite(half) else absent(reason)
    )


def seconds_bounds(interval: Interval | None, reason: str = "") -> Cell:
    """The bounds of an interval of durations: "41 s to 52 s"."""
    if interval is None:
        return absent(reason)
    text = f"{units.format_duration(interval.low)} to {units.format_duration(interval.high)}"
    return Cell(text=text, sort=interval.low, note=behind(interval))


def ratio(
    interval: Interval | None, point: float | None = None, *, reason: str = "", evidence: Iterable[str] = ()
) -> Cell:
    """A ratio with its interval, "3.4x [3.2, 3.6]"; "about 3.4x" where there is a point alone."""
    if interval is not None:
        note = behind(interval)
        text = units.format_ratio_interval(interval)
        return Cell(text=text, sort=interval.estimate, note=note, evidence=tuple(evidence))
    if point is None or not math.isfinite(point):
        return absent(reason)
    note = clean(reason or "no interval")
    return Cell(text=f"about {significant(point)}x", sort=point, note=note, evidence=tuple(evidence))


def figure(
    interval: Interval | None, point: float | None, reason: str = "", loose: str = "", digits: int = 2
) -> Cell:
    """A fitted figure with its interval, "28 [14, 57]", else about what it is; whole digits are rounded too.

    `reason`: why there is none at all; `loose`: why there is no interval.
    """
    if interval is None:
        if point is None:
            return absent(reason)
        return Cell(text=f"about {_rounded(point, digits)}", sort=point, note=clean(loose))
    low, mid, high = (_rounded(v, digits) for v in (interval.low, interval.estimate, interval.high))
    return Cell(text=f"{mid} [{low}, {high}]", sort=interval.estimate, note=behind(interval))


def _rounded(value: float, digits: int) -> str:
    return significant(float(f"{value:.{digits - 1}e}"), digits)


def share(interval: Interval | None, values: tuple[float, ...] = (), reason: str = "") -> Cell:
    """An accuracy as percent: with its interval, else the values themselves."""
    if interval is not None:
        bounds = f"[{100 * interval.low:.1f}, {100 * interval.high:.1f}]"
        text = f"{100 * interval.estimate:.1f} % {bounds}"
        return Cell(text=text, sort=interval.estimate, note=behind(interval))
    if values:
        return Cell(text=", ".join(f"{100 * v:.1f} %" for v in values), sort=values[0], note=clean(reason))
    return absent(reason)


def count(value: int | None, reason: str = "") -> Cell:
    """A whole number: "488,586"."""
    return absent(reason) if value is None else Cell(text=units.format_count(value), sort=value)


def amount(
    value: float | None,
    unit: str = "",
    reason: str = "",
    evidence: Iterable[str] = (),
    borne: Interval | None = None,
) -> Cell:
    """A number with an SI prefix: "1.67 GFLOP"; at most three digits, no more than `borne` bears.

    `borne`: the interval of what it is made of.
    """
    if value is None or not math.isfinite(value):
        return absent(reason)
    scale, prefix = next(((s, p) for s, p in PREFIXES if abs(value) >= s * 0.9995), (1.0, ""))
    shown = _rounded(value / scale, supported(borne)) if borne else significant(value / scale, 3)
    return Cell(text=f"{shown} {prefix}{unit}".rstrip(), sort=value, evidence=tuple(evidence))


def joules(
    value: float | None, reason: str = "", interval: Interval | None = None, borne: Interval | None = None
) -> Cell:
    """Energy, at most three digits, no more than its interval bears: "21.2 mJ", "3.45 J".

    A wide interval stands beside it, "760 mJ [570, 1,000]", each bound to two digits; others in the note.
    `borne`: where it has none, that of what it is made of.
    """
    if value is None or not math.isfinite(value):
        return absent(reason)
    scale, unit = (1e3, "mJ") if value < 1 else (1.0, "J")
    bearing = interval or borne
    digits = supported(bearing) if bearing else 3
    text = f"{_rounded(scale * value, digits)} {unit}"
    if interval is None:
        return Cell(text=text, sort=value, note="no interval")
    if interval.relative_half_width > WIDE:
        text += f" [{_rounded(scale * interval.low, 2)}, {_rounded(scale * interval.high, 2)}]"

    def bound(x: float) -> str:
        return f"{_rounded(scale * x, max(2, digits))} {unit}"

    return Cell(text=text, sort=value, note=describe(interval, bound))


def rate(value: float | None, reason: str = "", interval: Interval | None = None) -> Cell:
    """A rate written out, at most three digits, no more than its interval bears: "147,000"."""
    if value is None or not math.isfinite(value):
        return absent(reason)
    return Cell(text=_rounded(value, supported(interval) if interval else 3), sort=value)


def supported(interval: Interval) -> int:
    """Digits that a figure bears, one to three: the last is no finer than a tenth of the half width."""
    half = interval.relative_half_width
    return max(1, min(3, 1 - math.floor(math.log10(half)))) if 0 < half < math.inf else 3


def memory(mib: float | None, reason: str = "", evidence: Iterable[str] = ()) -> Cell:
    """A size in its largest binary unit."""
    if mib is None or not (mib >= 0 and math.isfinite(mib)):
        return absent(reason)
    return Cell(text=units.format_bytes_mib(mib), sort=mib, evidence=tuple(evidence))


def signed_percent(value: float | None, reason: str = "", note: str = "") -> Cell:
    """A relative error: "+2.4 %"."""
    if value is None or not math.isfinite(value):
        return absent(reason)
    return Cell(text=f"{100 * value:+.1f} %", sort=value, note=note)


def behind(interval: Interval) -> str:
    """What stands behind an interval: "95 % interval, n = 3"."""
    return f"{100 * interval.confidence:.4g} % interval, n = {interval.n}"


def describe(interval: Interval, form: Callable[[float], str]) -> str:
    """An interval in words, for a tooltip: "95 % interval 5.2 ms to 5.4 ms, n = 3"."""
    bounds = f"{form(interval.low)} to {form(interval.high)}"
    return f"{100 * interval.confidence:.4g} % interval {bounds}, n = {interval.n}"


def percent(value: float) -> str:
    """A share: "0.9 %", "12 %"."""
    return f"{100 * value:.1f} %" if value < 0.0995 else f"{100 * value:.0f} %"


def significant(value: float, digits: int = 2) -> str:
    """A plain decimal to so many significant digits: 0.0314, 2.4, 312. Whole digits are never cut."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    # Through scientific notation, which carries: 9.96 becomes 1.0e+01 and so "10", not "10.0".
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def two_digits(value: float) -> str:
    """Two significant digits, whole ones rounded too: 0.064, 2.4, 190, 3,500. For rough bounds."""
    return significant(float(f"{value:.1e}"))


def joined(items: Iterable[str], last: str = "and") -> str:
    """Words in a row: "a, b and c"."""
    words = list(items)
    return f" {last} ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
