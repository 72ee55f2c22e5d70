"""Units for people: type aliases, and functions that print and parse durations, sizes, counts and ratios.

Knows nothing about files or the command line: records keep plain numbers with the unit in the key.
"""

import math
import re

from breakeven.stats import Interval

Seconds = float
Nanoseconds = int
Mebibytes = float

SECONDS_IN = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}

# IEC 80000-13 for the binary prefixes, SI for the others.
BYTES_IN = {
    "b": 1,
    "kb": 1000,
    "mb": 1000**2,
    "gb": 1000**3,
    "tb": 1000**4,
    "kib": 1024,
    "mib": 1024**2,
    "gib": 1024**3,
    "tib": 1024**4,
}

NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
UNKNOWN = 100.0
"""Upper end over lower end of an interval that tells no more than an order of magnitude."""
TERM = re.compile(r"\s*" + NUMBER + r"\s*([a-z]*)\s*")


def format_duration(seconds: Seconds) -> str:
    """A duration to two digits or the whole unit: "5.3 ms", "142 ms", "1 min 30 s", "1 h 32 min", "2 d 3 h".

    ValueError for a duration that is not finite.
    """
    if not math.isfinite(seconds):
        raise ValueError(f"a duration must be finite, got {seconds!r}")
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds == 0:
        return "0 s"
    # 59.7 s rounds to 60 s, which is said "1 min": each unit ends where its rounded number would overflow.
    if seconds < 59.5:
        for unit, scale in (("ns", 1e9), ("us", 1e6), ("ms", 1e3)):
            if seconds * scale < 999.5:
                return f"{_two_digits(seconds * scale)} {unit}"
        return f"{_two_digits(seconds)} s"
    if seconds < 3599.5:
        return _two_units(round(seconds), 60, "min", "s")
    if seconds < 86400 - 30:
        return _two_units(round(seconds / 60), 60, "h", "min")
    return _two_units(round(seconds / 3600), 24, "d", "h")


def format_ratio_interval(interval: Interval) -> str:
    """A ratio with its interval, "3.4x [3.2, 3.6]": it ends at the first digit of the interval's half-width.

    The narrower half counts; where the interval spans orders of magnitude, each number has two digits of its
    own: "0.026x [0.00010, 7.5]". More digits where rounding would hide that the interval excludes 1 or
    would print a bound as 0.
    """
    low, high, estimate = interval.low, interval.high, interval.estimate
    if low > 0 and high / low > UNKNOWN:
        shown = [_significant(value) for value in (estimate, low, high)]
        return f"{shown[0]}x [{shown[1]}, {shown[2]}]"
    width = min(high - estimate, estimate - low)
    if width > 0:
        # 0.095 and up rounds to 0.1: 1.9 - 1.8 is 0.0999... and must not gain a digit.
        decimals = -math.floor(math.log10(width / 0.95))
    else:
        decimals = 2 - math.floor(math.log10(abs(estimate))) if estimate else 0
    for _ in range(6):
        if not _misleads(low, high, decimals):
            break
        decimals += 1
    shown = [_rounded(value, decimals) for value in (estimate, low, high)]
    return f"{shown[0]}x [{shown[1]}, {shown[2]}]"


def format_count(count: int) -> str:
    """A count with thousands apart: "488,586"."""
    return f"{count:,}"


def format_bytes_mib(mib: Mebibytes) -> str:
    """A size in its largest binary unit, two digits or the whole number: "8.0 GiB", "142 MiB", "12 B".

    ValueError for a size that is negative or not finite.
    """
    if not (mib >= 0 and math.isfinite(mib)):
        raise ValueError(f"a size must be 0 or more and finite, got {mib!r}")
    size = mib * 1024**2
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1023.5:
            return f"{round(size)} B" if unit == "B" else f"{_two_digits(size)} {unit}"
        size /= 1024
    return f"{_two_digits(size)} TiB"


def parse_duration(text: str | float) -> Seconds:
    """Seconds of "20ms", "2min", "1 h 32 min"; a number without a unit, as a number or as text, is seconds.

    ValueError, naming the text and the units, for anything else, a negative or infinite number included.
    """
    if isinstance(text, str):
        seconds = _sum_of_terms(text, {**SECONDS_IN, "": 1.0})
    else:
        seconds = math.nan if isinstance(text, bool) else float(text)
    if seconds is None or not (seconds >= 0 and math.isfinite(seconds)):
        units = ", ".join(unit for unit in SECONDS_IN if unit != "sec")
        raise ValueError(
            f"not a duration: {text!r} (a number with one of {units}; without a unit it is seconds)"
        )
    return seconds


def parse_size(text: str | float) -> Mebibytes:
    """MiB of "8GiB" (1024-based), "16 GB" (1000-based) or "512MiB"; the case of the unit is ignored.

    ValueError, naming the text and the units, for anything else: 8 lacks a unit and "8G" has two meanings.
    """
    size = _sum_of_terms(str(text), BYTES_IN)
    if size is None or not math.isfinite(size):
        raise ValueError(f"not a size: {text!r} (a number with one of B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)")
    return size / 1024**2


def parse_share(text: str | float) -> float:
    """A share of "5%", "0.5 %" or 0.05, as a number or as text, 0 or more.

    ValueError, naming the text, for anything else; 5 without a unit is 500 %, so a number above 1 is refused.
    """
    words = str(text).strip()
    found = re.fullmatch(NUMBER + r"\s*(%?)", words.lower())
    share = float(found.group(1)) / (100 if found.group(2) else 1) if found else math.nan
    if not math.isfinite(share) or (share > 1 and "%" not in words):
        raise ValueError(f"not a share: {text!r} (such as 5%, or 0.05)")
    return share


def _sum_of_terms(text: str, factors: dict[str, float] | dict[str, int]) -> float | None:
    """Sum of "number unit" terms; None where the text is not made of them or repeats a unit or lacks one."""
    total, position, units = 0.0, 0, list[str]()
    while match := TERM.match(text.lower(), position):
        number, unit = match.groups()
        if unit not in factors or unit in units:
            return None
        units.append(unit)
        total += float(number) * factors[unit]
        position = match.end()
    lacks_one = "" in units and len(units) > 1
    return total if units and position == len(text) and not lacks_one else None


def _significant(value: float) -> str:
    """Two significant digits without an exponent: "0.00010", "7.5", "140"."""
    decimals = max(0, 1 - math.floor(math.log10(abs(value)))) if value else 0
    rounded = float(f"{value:.1e}")
    return f"{rounded:,.{decimals}f}"


def _two_digits(value: float) -> str:
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def _two_units(count: int, base: int, large: str, small: str) -> str:
    whole, rest = divmod(count, base)
    return f"{whole} {large} {rest} {small}" if rest else f"{whole} {large}"


def _rounded(value: float, decimals: int) -> str:
    return f"{round(value, decimals):.{max(decimals, 0)}f}"


def _misleads(low: float, high: float, decimals: int) -> bool:
    hides_one = (low > 1 >= round(low, decimals)) or (high < 1 <= round(high, decimals))
    return hides_one or (low > 0 and round(low, decimals) <= 0)
