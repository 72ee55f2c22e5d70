"""What people read and type: durations, sizes, counts and ratios."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.stats import Interval
from breakeven.units import (
    format_bytes_mib,
    format_count,
    format_duration,
    format_ratio_interval,
    parse_duration,
    parse_size,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (1.234e-9, "1.2 ns"),
        (42e-6, "42 us"),
        (0.0053, "5.3 ms"),
        (0.1424, "142 ms"),
        (0.00997, "10 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (90, "1 min 30 s"),
        (3599.4, "59 min 59 s"),
        (3599.6, "1 h"),
        (5520, "1 h 32 min"),
        (86399, "1 d"),
        (183_600, "2 d 3 h"),
        (-0.0053, "-5.3 ms"),
    ],
)
def test_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("estimate", "low", "high", "text"),
    [
        (3.4, 3.2, 3.6, "3.4x [3.2, 3.6]"),
        (1.8, 1.7, 1.9, "1.8x [1.7, 1.9]"),
        (21.3, 20.2, 22.4, "21x [20, 22]"),
        (70.4, 66.2, 74.5, "70x [66, 74]"),
        (1234, 1100, 1400, "1200x [1100, 1400]"),
        (1.00123, 1.0008, 1.0016, "1.0012x [1.0008, 1.0016]"),
        (1.14, 1.04, 1.25, "1.14x [1.04, 1.25]"),  # "[1.0, 1.2]" would hide that it excludes 1
        (0.88, 0.79, 0.98, "0.88x [0.79, 0.98]"),
        (0.3, 0.04, 2.1, "0.30x [0.04, 2.10]"),  # not "[0, 2]"
        (2.0, 2.0, 2.0, "2.00x [2.00, 2.00]"),
    ],
)
def test_a_ratio_shows_the_digits_its_interval_supports(
    estimate: float, low: float, high: float, text: str
) -> None:
    assert (
        format_ratio_interval(Interval(low=low, high=high, estimate=estimate, confidence=0.95, n=3)) == text
    )


@pytest.mark.parametrize(
    ("mib", "text"),
    [
        (0, "0 B"),
        (12 / 1024**2, "12 B"),
        (2 / 1024, "2.0 KiB"),
        (142.3, "142 MiB"),
        (1023.6, "1.0 GiB"),
        (8192, "8.0 GiB"),
        (143_771, "140 GiB"),
        (3 * 1024**2, "3.0 TiB"),
    ],
)
def test_sizes(mib: float, text: str) -> None:
    assert format_bytes_mib(mib) == text


def test_counts() -> None:
    assert format_count(488586) == "488,586"
    assert format_count(999) == "999"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("20ms", 0.02),
        ("2min", 120),
        ("1h", 3600),
        (30, 30),
        (0.5, 0.5),
        ("30", 30),
        (" 1.5 S ", 1.5),
        ("1 h 32 min", 5520),
        ("2h30min", 9000),
        ("1e3 us", 0.001),
        ("1d", 86400),
    ],
)
def test_durations_are_read(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "fast", "-3s", "2m", "1h30", "1h 2h", "1.s", "1e999s", -1, math.inf, math.nan, True]
)
def test_what_is_no_duration_is_named(text: str | float) -> None:
    with pytest.raises(ValueError, match=r"^not a duration: .*ns, us, ms, s, min, h, d"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "mib"),
    [("8GiB", 8192), ("512mib", 512), ("16 GB", 16e9 / 1024**2), ("1048576 B", 1), ("0.5TiB", 2**19)],
)
def test_sizes_are_read(text: str, mib: float) -> None:
    assert parse_size(text) == pytest.approx(mib)


@pytest.mark.parametrize("text", ["", "8G", "8", 8, "GiB", "-1GiB", "8 GiBs"])
def test_what_is_no_size_is_named(text: str | float) -> None:
    with pytest.raises(ValueError, match=r"^not a size: .*KiB, MiB, GiB, TiB"):
        parse_size(text)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_not_printed(bad: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        format_duration(bad)
    with pytest.raises(ValueError, match="finite"):
        format_bytes_mib(bad)


@given(st.floats(1e-9, 1e7))
def test_a_printed_duration_reads_back_within_its_digits(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=0.051)


@given(st.floats(1e-6, 1e7))
def test_a_printed_size_reads_back_within_its_digits(mib: float) -> None:
    assert parse_size(format_bytes_mib(mib)) == pytest.approx(mib, rel=0.051)


@given(st.floats(1e-3, 1e4), st.floats(1e-4, 2), st.floats(1e-4, 2))
def test_a_printed_ratio_keeps_its_order(estimate: float, below: float, above: float) -> None:
    low, high = estimate * math.exp(-below), estimate * math.exp(above)
    text = format_ratio_interval(Interval(low=low, high=high, estimate=estimate, confidence=0.95, n=3))
    shown, bounds = text.split("x ")
    shown_low, shown_high = (float(part) for part in bounds.strip("[]").split(", "))
    assert shown_low <= float(shown) <= shown_high
