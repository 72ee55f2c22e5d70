"""Sections along the batch: where it saturates a device, the law behind it, whether faster means later.

Knows nothing about how a sweep is judged, fitted or drawn.
"""

from breakeven.analysis.findings import Understanding
from breakeven.analysis.inference_findings import LaterFinding, Reach, SaturationFinding
from breakeven.analysis.inference_saturation import span
from breakeven.report import words
from breakeven.report.inference_marks import saturation_chart
from breakeven.report.names import Names, tuning_rank
from breakeven.report.view import Cell, Column, Row, Section, absent, build_table, clean, label, number, said


def saturation(understanding: Understanding, names: Names) -> Section | None:
    """From which batch a device is saturated, and the law behind it."""
    columns = [
        *map(label, ("model", "device", "tuning", "precision", "data", "seed")),
        number("B90"),
        number("B95"),
        number("best rate", "1/s"),
        number("at batch"),
        number("rate over latency"),
        number("largest"),
        number("too large"),
        Column(name="law"),
        number("knee"),
        number("floor"),
        number("limit", "1/s"),
    ]
    rows = [_saturation_cells(s, names) for s in understanding.inference.saturation]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "B90: the least measured batch whose rate reaches 90 % of the best one, with the least that might "
        "and the least that surely does. rate over latency: the batch with most of it. too large: the least "
        "batch that did not fit. Law: t = max(floor, c + batch / limit), t the pipelined time of a call; the "
        "knee is the batch up to which more images cost no time. line: no floor in sight; flat: nothing "
        "else. best rate, its batch and rate over latency are those of the estimates; about: "
        "without an interval."
    )
    chart = saturation_chart(understanding, names)
    return Section(
        key="saturation",
        title="Where the batch saturates the device",
        note=note,
        table=table,
        chart=chart,
    )


def _saturation_cells(s: SaturationFinding, names: Names) -> Row:
    why = s.reasons.get("law", "")
    loose = s.reasons.get("law_interval", "")
    law = s.law
    floorless = loose if law and law.floor is not None else "no floor in sight"
    best = next(p for p in s.points if p.batch == s.best_batch)
    return (
        said(s.model),
        names.device(s.device_label),
        said(s.tuning_name, tuning_rank(s.tuning_name)),
        said(s.precision),
        said(s.data),
        said(s.seed, s.seed),
        _reach(s.reach(0.9), s),
        _reach(s.reach(0.95), s),
        words.rate(best.images_per_s),
        words.count(s.best_batch),
        words.count(s.balanced, "no single calls"),
        words.count(s.largest),
        words.count(s.oom_at, "every batch tried fits"),
        said(law.law, note=f"off by {words.percent(law.misfit)} at most") if law else absent(why),
        words.figure(s.knee, s.knee_at, why or "this law has none", loose),
        words.seconds(s.floor_s, law.floor if law else None, reason=why or floorless),
        words.figure(
            s.limit_per_s,
            law.rate if law else None,
            why or "this law has none",
            loose,
            digits=3 if s.limit_per_s else 2,
        ),
    )


def _reach(reach: Reach, s: SaturationFinding) -> Cell:
    if reach.answer == "cannot be told":
        return absent(reach.reason or "")
    first = reach.batch if reach.batch is not None else reach.low
    return Cell(text=span(reach), sort=first, note=clean(reach.reason or ""), evidence=s.evidence)


def later(understanding: Understanding, names: Names) -> Section | None:
    """Whether the faster of two devices saturates at a larger batch."""
    columns = [
        *map(label, ("model", "tuning", "precision")),
        Column(name="faster"),
        Column(name="slower"),
        number("times as fast"),
        Column(name="the faster saturates"),
        number("its B90"),
        number("the other's"),
    ]
    rows = [_later_cells(one, names) for one in understanding.inference.later]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "By the intervals of B90, where one device's best rate surely passes the other's. With the same cost "
        "of a launch the faster of two devices needs the larger batch."
    )
    return Section(key="later", title="Does a faster device saturate later?", note=note, table=table)


def _later_cells(one: LaterFinding, names: Names) -> Row:
    return (
        said(one.model),
        said(one.tuning_name, tuning_rank(one.tuning_name)),
        said(one.precision),
        names.device(one.faster),
        names.device(one.slower),
        Cell(text=f"{words.significant(one.rates)}x", sort=one.rates, note="of best rates, no interval"),
        said(one.answer, note=one.reason or "", evidence=one.evidence),
        said(span(one.faster_batch)),
        said(span(one.slower_batch)),
    )
