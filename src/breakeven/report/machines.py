"""Several results files in one report: the device of every finding carries the mark of its file.

Knows nothing about tables or charts: both show devices, and so show the mark. A file, not a machine, is
numbered: ratios are formed within one file, and two files of one machine are two runs.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from breakeven.analysis.findings import Understanding

MARK = " @"
"""Stands between a device and the number of its file: `cuda:0 @2`."""
LABELS = ("device_label", "base_label", "candidate_label", "faster", "slower")
"""Fields of findings that name a device."""
DEFAULT_FILE = "results.jsonl"


def told_apart(understanding: Understanding) -> Understanding:
    """The findings with every device marked by its file, where there are several; else the same ones."""
    marks = marks_of(understanding)
    if not marks:
        return understanding
    found: Any = understanding
    changed = {name: _all(getattr(found, name), marks) for name in _findings(found)}
    parts = {name: _inside(getattr(found, name), marks) for name in ("inference", "frameworks")}
    out: Understanding = dataclasses.replace(found, **changed, **parts)
    return out


def marks_of(understanding: Understanding) -> dict[str, str]:
    """The mark of each file: `@1` of the first; nothing where there is one file only."""
    sources = list(dict.fromkeys(understanding.sources))
    return {s: f"@{i}" for i, s in enumerate(sources, start=1)} if len(sources) > 1 else {}


def split(label: str) -> tuple[str, str]:
    """A device's label without its mark, and the mark with what stands before it, or nothing."""
    plain, mark, number = label.rpartition(MARK)
    return (plain, mark + number) if mark and number.isdecimal() else (label, "")


def described(understanding: Understanding) -> dict[str, str]:
    """What each file is of: "NVIDIA H200, Intel Xeon (h200/ladder)", by file."""
    places = short_paths(understanding.sources)
    facts = {str(m.get("fingerprint_id")): m for m in understanding.machines}
    return {source: f"{_machine(understanding, source, facts)} ({place})" for source, place in places.items()}


def headings(understanding: Understanding) -> list[str]:
    """What each machine is called above its facts: the marks of its files; its number where it has none."""
    marks = marks_of(understanding)
    out = []
    for index, facts in enumerate(understanding.machines, start=1):
        unit = facts.get("fingerprint_id")
        files = [mark for s, mark in marks.items() if unit is not None and unit in _units(understanding, s)]
        alone = "machine" if len(understanding.machines) == 1 else f"machine {index}"
        out.append(", ".join(files) or alone)
    return out


def short_paths(sources: Sequence[str]) -> dict[str, str]:
    """The shortest ends of the paths, by path, that tell all of them apart: a file of the usual name goes
    by its folder."""
    parts = {}
    for source in sources:
        path = PurePath(source)
        parts[source] = (path.parent if path.name == DEFAULT_FILE and path.parent.name else path).parts
    longest = max(map(len, parts.values()), default=1)
    for count in range(1, longest + 1):
        short = {source: "/".join(found[-count:]) for source, found in parts.items()}
        if len(set(short.values())) == len(short):
            return short
    return {source: source for source in parts}


def _units(understanding: Understanding, source: str) -> dict[str, None]:
    cases = [c.unit for c in understanding.cases if c.source == source]
    ceilings = [c.machine for c in understanding.ceilings if c.source == source]
    return dict.fromkeys(unit for unit in (*cases, *ceilings) if unit)


def _machine(understanding: Understanding, source: str, facts: Mapping[str, Mapping[str, Any]]) -> str:
    cases = [c for c in understanding.cases if c.source == source]
    if cases and all(c.simulated for c in cases):
        return "simulated"
    known = [facts[unit] for unit in _units(understanding, source) if unit in facts]
    names = dict.fromkeys(str(m[key]) for m in known for key in ("gpu", "cpu") if m.get(key))
    return ", ".join(names) or "unknown machine"


def _findings(value: Any) -> list[str]:
    """The fields that hold findings, each with the file that it comes from."""
    return [
        field.name
        for field in dataclasses.fields(value)
        if isinstance(found := getattr(value, field.name), tuple) and found and hasattr(found[0], "source")
    ]


def _inside(part: Any, marks: Mapping[str, str]) -> Any:
    return dataclasses.replace(part, **{name: _all(getattr(part, name), marks) for name in _findings(part)})


def _all(findings: Iterable[Any], marks: Mapping[str, str]) -> tuple[Any, ...]:
    return tuple(_marked(one, marks) for one in findings)


def _marked(one: Any, marks: Mapping[str, str]) -> Any:
    mark = marks.get(one.source)
    if mark is None:
        return one
    labels = {name: getattr(one, name) for name in LABELS if getattr(one, name, None)}
    return dataclasses.replace(one, **{name: f"{text} {mark}" for name, text in labels.items()})
