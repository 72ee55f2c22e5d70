"""The section on published claims: what these rows say about each, and what the papers' own numbers do.

Knows nothing about how a claim is decided.
"""

from breakeven.analysis.findings import Understanding
from breakeven.report.names import Names
from breakeven.report.view import Cell, Column, Section, build_table, label, said

KEY = "claims"


def claims(understanding: Understanding, names: Names) -> Section | None:
    """All claims, where these rows decide one of them."""
    decided = any(c.verdict != "cannot be told" and not c.own for c in understanding.claims)
    return all_claims(understanding) if decided else None


def all_claims(understanding: Understanding) -> Section | None:
    """All claims, whatever the rows decide."""
    columns = [
        label("claim"),
        label("paper"),
        Column(name="verdict"),
        Column(name="why"),
    ]
    rows = [
        (
            said(c.says, note=c.claim),
            said(f"{c.paper.partition(':')[0]}, {c.where}", note=c.paper),
            Cell(text=c.verdict, sort=c.verdict, evidence=c.evidence),
            said(c.detail),
        )
        for c in understanding.claims
    ]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "Sentences of published comparisons in our words, against these rows; wrong by arithmetic: against "
        "the numbers printed beside them. A published ratio is confirmed within a factor of 1.25. Another "
        "machine may well differ: not confirmed says that these rows do not show it."
    )
    return Section(key=KEY, title="What papers claimed", note=note, table=table, detail=True)
