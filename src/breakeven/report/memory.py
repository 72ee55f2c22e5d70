"""Memory by what each number means: who counted, and what it holds.

Knows nothing about which of them is large. Numbers of two meanings are never set against each other.
"""

from breakeven.analysis.findings import Understanding
from breakeven.analysis.memory import ALLOCATED, ORDER, RESERVED, RESIDENT, meaning_of
from breakeven.report import words
from breakeven.report.amounts import Amount, amounts_chart
from breakeven.report.names import Names, naming
from breakeven.report.view import Column, Section, build_table, clean, label, number, said

NOTE = (
    "The largest value seen, in columns by meaning, which the next table tells: a number compares with those "
    "of its own column on one kind of device, and with no other column. cold: start-up and warm-up included."
)

DRAWN = (RESIDENT, ALLOCATED, RESERVED)
"""Meanings that belong to the case alone, and so to the eye: the board's use is that of whoever is there."""


def memory(understanding: Understanding, names: Names) -> Section | None:
    """The peaks of memory by name, those of one meaning side by side."""
    kinds = _kinds(understanding)
    shown = [c for c in understanding.cases if c.memory_mib]
    rows = [
        (
            *naming(c, names),
            *(
                words.memory(
                    c.memory_mib.get(kind),
                    c.reasons.get(f"memory_mib.{kind}", c.reasons.get(f"memory.{kind}", "")),
                    c.evidence,
                )
                for kind in kinds
            ),
        )
        for c in shown
    ]
    table = build_table([*names.columns, *(number(_plain(kind)) for kind in kinds)], rows)
    if table is None:
        return None
    drawn = [kind for kind in kinds if meaning_of(kind) in DRAWN and "cold" not in kind]
    panels = {f"{_plain(kind)} ({meaning_of(kind).name})": _of(kind) for kind in drawn}
    told = "One panel a meaning, each with its own scale."
    chart = amounts_chart("memory", "Peaks of memory", told, shown, panels, names, timed=False)
    return Section(
        key="memory", title="Memory", note=NOTE, table=table, chart=chart,
    )  # fmt: skip


def _of(kind: str) -> Amount:
    return lambda case: words.memory(case.memory_mib.get(kind))


def meanings(understanding: Understanding, names: Names) -> Section | None:
    """Each number's meaning, who counts it and what it holds."""
    kinds = _kinds(understanding)
    rows = [
        (said(_plain(kind)), said(m.name), said(m.counted_by), said(m.holds))
        for kind in kinds
        for m in (meaning_of(kind),)
        # Of a pair the one without "cold" speaks for both.
        if kind.replace("_cold", "") == kind or kind.replace("_cold", "") not in kinds
    ]
    columns = [
        label("number"),
        Column(name="meaning"),
        Column(name="counted by"),
        Column(name="what it holds"),
    ]
    table = build_table(columns, rows)
    title = "What the numbers of memory mean"
    return Section(key="memory_meanings", title=title, table=table) if table else None


def _kinds(understanding: Understanding) -> list[str]:
    """Names in the order of their meanings. Loader workers that nobody started used nothing: left out."""
    found = dict.fromkeys(k for c in understanding.cases for k, mib in c.memory_mib.items() if mib)
    return sorted(found, key=lambda kind: ORDER.index(meaning_of(kind)))


def _plain(kind: str) -> str:
    return clean(kind.removesuffix("_mib").replace("_", " "))
