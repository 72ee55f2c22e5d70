"""The one view of a study that every format prints: sections of a table, a chart and the words around them.

Knows nothing about findings or file formats. Texts are plain: each format escapes them in its own way.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

MISSING = "-"
NUMBER = re.compile(r"(?<![A-Za-z\d.,])\d[\d.,]*")
"""Not the one in a name: fp16 is another reason than fp32."""
Sort = float | str | None
Value = str | float | int | None


class Cell(NamedTuple):
    """What a cell says. `sort` is the number behind the text, `note` its conditions or why it is missing.

    A report makes a hundred thousand: a tuple is made in half the time of a frozen object.
    """

    text: str
    sort: Sort = None
    evidence: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Column:
    """`key` columns name the row: they come first, and are repeated where a narrow table is cut in two."""

    name: str
    unit: str = ""
    align: Literal["left", "right"] = "left"
    numeric: bool = False
    key: bool = False

    @property
    def heading(self) -> str:
        return f"{self.name} ({self.unit})" if self.unit else self.name


Row = tuple[Cell, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """`common` says what holds for every row, so that no column repeats it; `missing` why cells are empty."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    common: str = ""
    missing: tuple[str, ...] = ()

    @property
    def is_list(self) -> bool:
        """One column without a name: sentences, not a grid."""
        return [column.name for column in self.columns] == [""]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """What a chart shows: one mapping a mark. `kind` names the drawing, `name` is unique in a report."""

    kind: Literal[
        "ladder", "scale", "ratios", "samples", "batch", "shares", "saturation", "factors", "frontier",
        "trend", "bandwidth", "forecast", "errors", "roofline", "cores", "amounts",
    ]  # fmt: skip
    name: str
    title: str
    subtitle: str = ""
    alt_text: str
    values: tuple[Mapping[str, Value], ...]
    tunings: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Section:
    """One question and its answer. `detail` sections are left out of the terminal's text."""

    key: str
    title: str
    note: str = ""
    table: Table | None = None
    chart: Chart | None = None
    detail: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Everything a reader gets. `banner`: None unless simulated; `common`: what holds for every case.

    `before`: what the verdict, the first sentence, knows nothing of; it stands before it and is none.
    """

    title: str
    banner: str | None
    badge: str
    facts: tuple[str, ...]
    sentences: tuple[str, ...]
    sections: tuple[Section, ...]
    footnotes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    common: str = ""
    before: tuple[str, ...] = ()

    @property
    def charts(self) -> tuple[Chart, ...]:
        return tuple(section.chart for section in self.sections if section.chart is not None)


def label(name: str) -> Column:
    """A column that names the row."""
    return Column(name=name, key=True)


def number(name: str, unit: str = "") -> Column:
    """A column of numbers."""
    return Column(name=name, unit=unit, align="right", numeric=True)


def said(text: object, sort: Sort = None, *, note: str = "", evidence: Iterable[str] = ()) -> Cell:
    """A cell of a name or a word; it sorts by its text unless told otherwise."""
    words = clean(text)
    return Cell(text=words, sort=words if sort is None else sort, note=note, evidence=tuple(evidence))


def absent(reason: str = "") -> Cell:
    """An empty cell, with the reason if one is known."""
    return Cell(text=MISSING, note=clean(reason))


def clean(text: object) -> str:
    """The text without control characters: a name may not move the cursor or turn the writing direction."""
    words = str(text)
    return words if words.isprintable() else "".join(c if c.isprintable() else _escaped(c) for c in words)


def _escaped(character: str) -> str:
    if character.isspace():
        return " "
    return character.encode("unicode_escape").decode("ascii")


def build_table(columns: Sequence[Column], rows: Sequence[Row]) -> Table | None:
    """A table without empty columns and without names that are the same in every row; None without rows.

    The first column always stays. What was the same goes to `common`, why cells are empty to `missing`.
    """
    if not rows:
        return None
    kept, common = [], []
    for index, column in enumerate(columns):
        texts = {row[index].text for row in rows}
        if texts == {MISSING}:
            continue
        if column.key and index > 0 and len(texts) == 1:
            common.append(f"{column.name} {texts.pop()}")
        else:
            kept.append(index)
    return Table(
        columns=tuple(columns[index] for index in kept),
        rows=tuple(tuple(row[index] for index in kept) for row in rows),
        common="; ".join(common),
        missing=_why_missing(columns, rows),
    )


def _why_missing(columns: Sequence[Column], rows: Sequence[Row]) -> tuple[str, ...]:
    """Each reason once, with the columns that it empties and the number of rows.

    Reasons of the same columns that differ in their numbers alone are one: each cell's note keeps its own.
    """
    places: dict[str, dict[str, int]] = {}
    for index, column in enumerate(columns):
        for row in rows:
            if row[index].text == MISSING and row[index].note:
                counts = places.setdefault(row[index].note, {})
                counts[column.name] = counts.get(column.name, 0) + 1
    alike: dict[tuple[str, ...], list[str]] = {}
    for reason, counts in places.items():
        alike.setdefault((NUMBER.sub("0", reason), *counts), []).append(reason)
    return tuple(
        f"{', '.join(columns)}: {reasons[0]}"
        + _rows(sum(max(places[reason].values()) for reason in reasons), len(rows), len(reasons))
        for (_, *columns), reasons in alike.items()
    )


def _rows(count: int, of: int, reasons: int) -> str:
    if of == 1:
        return ""
    told = "every row" if count == of else f"{count} of {of} rows"
    return f" ({told}; the numbers are of the first)" if reasons > 1 else f" ({told})"
