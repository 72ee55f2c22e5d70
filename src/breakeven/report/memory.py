"""Memory by what each number means: who counted, and what it holds.

Knows nothing about which of them is large. Numbers of two meanings are never set against each other.
"""

from breakeven.analysis.findings import Understanding
from breakeven.analysis.memory import ORDER, meaning_of
from breakeven.report import words
from breakeven.report.names import Names, naming
from breakeven.report.view import Column, Section, build_table, clean, label, number, said

NOTE = (
    "The largest value seen, in columns by meaning, which the next table tells: a number compares with those "
    "of its own column on one kind of device, and with no other column. cold: start-up and warm-up included."
)


def memory(understanding: Understanding, names: Names) -> Section | None:
    """The peaks of memory by name, those of one meaning side by side."""
    kinds = _kinds(understanding)
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
        for c in understanding.cases
        if c.memory_mib
    ]
    table = build_table([*names.columns, *(number(_plain(kind)) for kind in kinds)], rows)
    return Section(key="memory", title="Memory", note=NOTE, table=table) if table else None


def meanings(understanding: Understanding, names: Names) -> Section | None:
    """Each number's meaning, who counts it and what it holds."""
    rows = [
        (said(_plain(kind)), said(m.name), said(m.counted_by), said(m.holds))
        for kind in _kinds(understanding)
        for m in (meaning_of(kind),)
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
