"""Sections about the run itself: what limits trust, what is missing, machine, settings, how to read it.

Knows nothing about times and ratios.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from breakeven.analysis.findings import Understanding
from breakeven.analysis.quality import STOPPED
from breakeven.report.machines import headings, marks_of
from breakeven.report.names import Names, naming
from breakeven.report.view import (
    MISSING,
    Cell,
    Column,
    Row,
    Section,
    absent,
    build_table,
    clean,
    label,
    number,
    said,
)

READING = (
    "A ratio is base time / candidate time at equal work: 2x means half the time.",
    "Brackets and \u00b1 hold a 95 % interval over fresh processes, unless its note says otherwise, "
    "widened where the study may add processes until it is narrow; a prediction interval is wider, for it "
    "holds for one further run.",
    "faster and slower (a step wins or loses): the interval excludes 1 after Holm's correction over all "
    "ratios between devices, or over the steps of one ladder. same: both one-sided tests place it within the "
    "margin. uncertain or unclear: neither, and how many processes would decide.",
    "as-written is the loop people write, each tuning after it adds one change, on the CPU as on the GPU: "
    "compare equal tunings, or the best of each, never the best of one with the untuned other (mixed).",
    "about: one process, so no interval. A dash: not measured or not defensible; the reason, where one is "
    "known, stands below the table.",
    "not_converged: the interval is wider than asked. contended: others used the machine. throttled: the "
    "clock was held down. not_steady: still drifting when time ended. above_ceiling: faster than anything "
    "measured here. simulated: no hardware was measured.",
)


def quality(understanding: Understanding, names: Names) -> Section | None:
    """What limits how far the numbers can be trusted."""
    marks = marks_of(understanding)
    rows = [
        (
            said(q.flag),
            said(marks[q.source]) if q.source in marks else absent(),
            said(q.text),
            Cell(text=str(q.cases), sort=q.cases, evidence=q.evidence) if q.cases else absent(),
        )
        for q in understanding.quality
    ]
    columns = [label("flag"), label("file"), Column(name="what it means here"), number("cases")]
    table = build_table(columns, rows)
    return Section(key="quality", title="How far to trust this", table=table) if table else None


def failures(understanding: Understanding, names: Names) -> Section | None:
    """Cases in which some process did not end well."""
    rows: list[Row] = []
    for c in understanding.cases:
        counts = ", ".join(f"{clean(outcome)} {count}" for outcome, count in c.outcomes.items())
        if c.failure or set(c.outcomes) - STOPPED:
            said_why = said(c.failure) if c.failure else absent()
            rows.append((*naming(c, names), said(counts, evidence=c.evidence), said_why))
    table = build_table([*names.columns, Column(name="outcomes"), Column(name="reason")], rows)
    return Section(key="failures", title="What did not run", table=table) if table else None


def skips(understanding: Understanding, names: Names) -> Section | None:
    """Cells of the study's grid that were left out, with the reason."""
    keys = list(dict.fromkeys(key for skip in understanding.skips for key in skip))
    rows = [
        tuple(said(skip[key]) if key in skip else absent() for key in keys) for skip in understanding.skips
    ]
    table = build_table([Column(name=clean(key)) for key in keys], rows)
    return Section(key="skips", title="Skipped", table=table) if table else None


def machine(understanding: Understanding, names: Names) -> Section | None:
    """What was read back from the machines, one column each."""
    return _facts("machine", "Machine", understanding.machines, headings(understanding))


def study(understanding: Understanding, names: Names) -> Section | None:
    """The resolved study; of several files one column each."""
    marks = marks_of(understanding)
    if not marks or len(understanding.studies) != len(understanding.sources):
        return _facts("study", "Settings of the study", [understanding.study], ["value"])
    studies = dict(zip(understanding.sources, understanding.studies, strict=True))
    found = [studies[source] for source in marks]
    return _facts("study", "Settings of the studies", found, list(marks.values()))


def reading(understanding: Understanding, names: Names) -> Section | None:
    """How to read the rest."""
    rows = [(said(line),) for line in READING]
    table = build_table([Column(name="")], rows)
    return Section(key="reading", title="How to read this", table=table) if table else None


def _facts(
    key: str, title: str, sources: Sequence[Mapping[str, Any]], heads: Sequence[str]
) -> Section | None:
    flat = [dict(_flat(source)) for source in sources]
    keys = list(dict.fromkeys(name for facts in flat for name in facts))
    columns = [label("setting"), *(Column(name=head) for head in heads)]
    rows = [(said(name), *(_fact(facts, name) for facts in flat)) for name in keys]
    table = build_table(columns, rows)
    return Section(key=key, title=title, table=table, detail=True) if table else None


def _fact(facts: Mapping[str, Any], name: str) -> Cell:
    value = facts.get(name)
    return absent() if value is None else said(value)


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings under dotted names; lists as words in a row."""
    for key, item in value.items():
        if isinstance(item, Mapping) and item:
            yield from _flat(item, f"{prefix}{key}.")
        elif isinstance(item, (list, tuple)):
            yield f"{prefix}{key}", ", ".join(map(_plain, item)) or "none"
        else:
            yield f"{prefix}{key}", None if item is None else _plain(item)


def _plain(value: Any) -> str:
    """A setting as a person writes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_plain(item)}" for key, item in value.items())
    return MISSING if value is None else str(value)
