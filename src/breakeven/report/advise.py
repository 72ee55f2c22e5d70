"""Advice as a report, and as a document: what `advise` prints.

Knows nothing about how a choice is made.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from breakeven.analysis.advise_findings import Advice, Option
from breakeven.analysis.advise_phrases import IMAGES, money
from breakeven.report import words
from breakeven.report.json import plain
from breakeven.report.view import (
    Cell,
    Column,
    Report,
    Section,
    absent,
    build_table,
    clean,
    label,
    number,
    said,
)

SCHEMA = "breakeven.advice/1"
BANNER = "SIMULATED: no hardware was measured. These numbers come from a planted model."
SHORT = 12
"""Cases that a table of options shows."""


def advice_report(found: Sequence[Advice]) -> Report:
    """The advice on every work, a table of its options each."""
    banner = BANNER if any(a.simulated for a in found) else None
    return Report(
        title="Advice",
        banner=banner,
        badge="simulated" if banner else "",
        facts=tuple(dict.fromkeys(clean(fact) for a in found for fact in (a.source, *_asked(a)))),
        sentences=tuple(_spaced([[clean(s) for s in a.sentences if s != banner] for a in found])),
        sections=tuple(section for a in found if (section := _options(a)) is not None),
        footnotes=tuple(_cited(a) for a in found if a.choice is not None),
    )


def _asked(a: Advice) -> Iterator[str]:
    """The limits as they were understood, each with its unit; how many cases are not looked at."""
    if a.limits:
        yield f"limits: {'; '.join(a.limits)}"
    if a.hidden:
        yield f"{a.hidden:,} case{'' if a.hidden == 1 else 's'} of earlier studies hidden (--all)"


def _spaced(groups: Sequence[Sequence[str]]) -> Iterator[str]:
    """The sentences of every work, an empty one between two works."""
    for index, sentences in enumerate(groups):
        yield from ([""] if index else [])
        yield from sentences


def advice_document(found: Sequence[Advice]) -> dict[str, Any]:
    """Everything of the advice as JSON values, the ids of its evidence included."""
    return {"schema": SCHEMA, "advice": [{**plain(a), "evidence": list(a.evidence)} for a in found]}


def _cited(a: Advice) -> str:
    lines, more = a.evidence, ", ..." if len(a.evidence) > 2 else ""
    return f"{clean(a.name)} rests on {len(lines)} lines: {', '.join(lines[:2])}{more} (--json has all)"


def _options(a: Advice) -> Section | None:
    limits = [kept.limit for kept in a.options[0].limits] if a.options else []
    serves = a.task == "infer"
    columns = [
        label("option"),
        number("images", "1/s") if serves else number("a run"),
        number("interval"),
        number("energy an image" if serves else "energy a run"),
        number("a million images" if serves else "a run costs", a.currency or ""),
        *map(number, limits),
        number("keeps to the limits"),
        *([Column(name="outputs")] if any(o.worth for o in a.options) else []),
        Column(name="flags"),
    ]
    rows = [_row(a, option) for option in a.options[:SHORT]]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = f"Best first, by {a.objective}. Intervals are 95 % over processes."
    if len(a.options) > SHORT:
        note += f" The first {SHORT} of {len(a.options)}."
    return Section(key="options", title=clean(a.name), note=note, table=table)


def _row(a: Advice, o: Option) -> tuple[Cell, ...]:
    serves = a.task == "infer"
    scale = IMAGES if serves else 1.0
    time = (
        words.rate(1 / (o.seconds.estimate if o.seconds else o.seconds_point))
        if serves
        else words.seconds(o.seconds, o.seconds_point, evidence=o.evidence)
    )
    kept = [Cell(text=clean(k.said), note=clean(k.why)) if k.said != "-" else absent(k.why) for k in o.limits]
    word = {"meets": "yes", "fails": "no", "open": "cannot be told"}[o.fit]
    return (
        said(o.label),
        time,
        words.spread(o.seconds, "one process"),
        words.amount(o.joules, "J", "energy was not read", borne=o.seconds),
        absent("no price of this device")
        if o.cost is None
        else Cell(text=money(scale * o.cost), sort=o.cost),
        *kept,
        said(word) if o.limits else absent(),
        *([said(o.worth) if o.worth else absent()] if any(each.worth for each in a.options) else []),
        said(", ".join(o.flags)) if o.flags else absent(),
    )
