"""What a pointer on a mark shows, and which marks are hollow."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from breakeven.analysis import understand
from breakeven.analysis.findings import Understanding
from breakeven.records.file import read
from breakeven.report import Report, build, charts
from breakeven.report.doubts import HOLLOW, doubt
from breakeven.report.view import Chart

pytest.importorskip("altair")

RESULTS = Path(__file__).parents[2] / "results"
SAID = {
    "ladder": {"tuning", "time", "interval", "batch", "precision", "flags"},
    "shares": {"share", "range", "the step", "flags"},
    "roofline": {"precision", "a step", "interval", "flags"},
    "ratios": {"speed-up", "interval", "flags"},
    "batch": {"speed-up", "interval", "flags"},
    "samples": {"process", "flags"},
}


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    files = [read(RESULTS / name) for name in ("cpu/ladder", "h200/break-even")]
    return [build(understand([file])) for file in files]


def _marks(node: Any) -> Iterator[dict[str, Any]]:
    """Every drawn layer of a specification."""
    if isinstance(node, dict):
        if "mark" in node and "encoding" in node:
            yield node
        for value in node.values():
            yield from _marks(value)
    elif isinstance(node, list):
        for value in node:
            yield from _marks(value)


@pytest.mark.parametrize("kind", SAID)
def test_a_tooltip_says_how_sure_its_number_is(reports: list[Report], kind: str) -> None:
    chart = next(c for report in reports for c in report.charts if c.kind == kind)
    tips = [m["encoding"]["tooltip"] for m in _marks(charts.spec(chart)) if "tooltip" in m["encoding"]]
    for tip in tips:
        assert {entry["title"] for entry in tip} >= SAID[kind]
        fields = [str(entry["field"]) for entry in tip]
        known = [value for value in chart.values if value.get("mark", "step") in ("step", "ratio")]
        assert all(any(value.get(field) not in (None, "") for value in known) for field in fields), fields


def test_words_in_a_bar_of_shares_tell_what_the_bar_tells(reports: list[Report]) -> None:
    chart = next(c for report in reports for c in report.charts if c.kind == "shares")
    drawn = [m for m in _marks(charts.spec(chart)) if m["encoding"].get("text", {}).get("field") == "shown"]
    assert drawn and all("tooltip" in m["encoding"] for m in drawn)


def heard(drawn: str, kind: str = "") -> list[str]:
    """What a screen reader is told of the marks of a drawing: those of one kind, or all."""
    tags = [tag for tag in re.findall(r"<[^<>]*aria-label[^<>]*>", drawn)]
    found = [
        [re.findall(rf'{name}="([^"]*)"', tag)[0] for name in ("aria-roledescription", "aria-label")]
        for tag in tags
    ]
    told = {"axis", "legend", "title", "subtitle", "group"}
    return [unescape(label) for role, label in found if role == kind or (not kind and role not in told)]


@pytest.mark.parametrize("kind", SAID)
def test_a_screen_reader_hears_words_and_no_field(reports: list[Report], kind: str) -> None:
    chart = next(c for report in reports for c in report.charts if c.kind == kind)
    pytest.importorskip("vl_convert")
    said = heard(charts.svg(chart))
    marks = [v for v in chart.values if v.get("mark", "step") in ("step", "ratio", "crossing")]
    assert len(said) == len(marks)  # each once: lines, bands and words beside a mark are silent
    for label in said:
        assert not re.search(r"\w+: [-\d]|\d\.\d{4}|datum|null|undefined|\w_\w", label), label
    shown = [str(v["shown"]) for v in marks]
    assert all(any(words in label for label in said) for words in shown)


def test_what_is_heard_of_a_ratio() -> None:
    """The words of one mark, of each kind of value: flags without underscores, nothing of what is missing."""
    mark = {
        "model": "net", "shown": "2x [1, 4]", "conditions": "95 % interval, n = 3", "verdict": None,
        "pair": "", "base": "a_b", "flags": "not_steady, x", "tuning": "t", "ratio": 2.0, "sure": "yes",
    }  # fmt: skip
    plain = {**mark, "flags": "none", "base": "c"}
    made = Chart(
        kind="ratios", name="r", title="t", alt_text="a", values=(mark, plain), tunings=("t",)
    )  # fmt: skip
    pytest.importorskip("vl_convert")
    assert heard(charts.svg(made)) == [
        "net, speed-up 2x [1, 4], 95 % interval, n = 3, base a_b, flags not steady, x",
        "net, speed-up 2x [1, 4], 95 % interval, n = 3, base c",
    ]


def test_a_drawing_has_no_row_without_a_mark() -> None:
    """The other net has one tuning of three: it gets one row, and the names of its own."""
    rows = [("small", "a"), ("small", "b"), ("small", "c"), ("large", "b")]
    values: tuple[dict[str, str | float], ...] = tuple(
        {"model": model, "tuning": tuning, "device": "cpu", "ms": 2.0, "shown": "2 ms", "flags": "none"}
        for model, tuning in rows
    )
    made = Chart(
        kind="samples", name="s", title="t", alt_text="a", values=values, tunings=tuple("abc"),
        devices=("cpu",),
    )  # fmt: skip
    drawn = charts.spec(made)["vconcat"]
    assert [part["title"]["text"] for part in drawn] == ["small", "large"]
    assert [[v["tuning"] for v in part["data"]["values"]] for part in drawn] == [["a", "b", "c"], ["b"]]
    # One scale, its numbers below the last.
    axes = [part["layer"][0]["encoding"]["x"]["axis"] for part in drawn]
    assert [axis.get("labels") for axis in axes] == [False, None]
    alike = dataclasses.replace(made, values=values[1::2])
    assert "facet" in charts.spec(alike)  # of equal rows one specification does for all
    pytest.importorskip("vl_convert")
    labels = heard(charts.svg(made), "axis")
    assert [x for x in labels if x.startswith("Y-axis")] == [
        "Y-axis for a discrete scale with 3 values: a, b, c",
        "Y-axis for a discrete scale with 1 value: b",
    ]


def test_what_is_not_converged_or_has_no_verdict_is_hollow(understanding: Understanding) -> None:
    ratios = next(c for c in build(understanding).charts if c.kind == "ratios")
    hollow = {(v["model"], v["tuning"]) for v in ratios.values if v["sure"] == "no"}
    # The one has flags, the other a single process on one side.
    assert hollow == {("resnet18-cifar", "as-written"), ("resnet50", "channels-last")}
    assert {v["flags"] for v in ratios.values} == {"none", "not_converged, contended"}
    assert HOLLOW in ratios.subtitle
    filled = {m["mark"]["filled"] for m in _marks(charts.spec(ratios)) if m["mark"].get("type") == "point"}
    assert filled == {True, False}


def test_a_flag_that_does_not_disturb_is_told_and_not_hollow() -> None:
    assert doubt(("not_steady",)) == {"flags": "not_steady", "sure": "yes"}
    assert doubt(("contended",)) == {"flags": "contended", "sure": "no"}
    assert doubt((), known=False) == {"flags": "none", "sure": "no"}


def _luminance(colour: str) -> float:
    """Relative luminance of #rrggbb (WCAG 2.2)."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("part", charts.PART_FILLS)
def test_words_on_a_part_can_be_read(part: str) -> None:
    fill = _luminance(charts.PART_FILLS[part])
    ink = 1.0 if part in charts.DARK_FILLS else 0.0
    assert (max(fill, ink) + 0.05) / (min(fill, ink) + 0.05) >= 4.5


@pytest.mark.parametrize("kind", ["ladder", "batch", "roofline"])
def test_words_beside_marks_have_the_ink_of_the_page(reports: list[Report], kind: str) -> None:
    chart = next(c for report in reports for c in report.charts if c.kind == kind)
    drawn = [m for m in _marks(charts.spec(chart)) if m["mark"].get("type") == "text"]
    assert drawn and not any("color" in m["encoding"] for m in drawn)
