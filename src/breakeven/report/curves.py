"""Sections along an axis: break-even by batch and size, a step by cores, what the input allows.

Knows nothing about how a curve is fitted.
"""

import math
from collections.abc import Sequence

from breakeven import units
from breakeven.analysis.curves import BreakEvenFinding, CoresFinding, CoresPoint, WhatIfFinding
from breakeven.analysis.findings import Understanding
from breakeven.report import words
from breakeven.report.cores_chart import cores_chart
from breakeven.report.marks import batch_chart
from breakeven.report.names import Names, tuning_rank
from breakeven.report.view import Cell, Column, Section, absent, build_table, clean, label, number, said
from breakeven.stats import Interval


def break_even(understanding: Understanding, names: Names) -> Section | None:
    """From which batch, and from which size of model, the second device wins."""
    columns = [
        *map(label, ("model", "base", "candidate", "tuning", "batch", "data", "seed", "over")),
        Column(name="the candidate wins"),
        number("break-even"),
        Column(name="interval"),
        number("points"),
        number("n"),
        Column(name="without a ratio"),
    ]
    table = build_table(columns, [_break_even_cells(f, names) for f in understanding.break_even])
    if table is None:
        return None
    note = (
        "Where the ratio passes 1, interpolated on logarithms between what was measured. One batch is other "
        "work and other learning than the next: this is about speed only."
    )
    if any(f.axis != "batch" for f in understanding.break_even):
        note += " Models are no continuous axis: a size between two of them is a guide."
    chart = batch_chart(understanding.break_even, understanding.ratios, names)
    return Section(
        key="break-even",
        title="Where the candidate begins to win",
        note=note,
        table=table,
        chart=chart,
    )


def _break_even_cells(f: BreakEvenFinding, names: Names) -> tuple[Cell, ...]:
    ends = [p.name for p in (f.points[0], f.points[-1])]
    where = {
        "always": f"always, from {ends[0]} to {ends[1]}",
        "never": f"never, from {ends[0]} to {ends[1]}",
        "between": "above" if f.wins_above else "below",
        "several": f"turns {len(f.changes)} times",
        "cannot be told": "cannot be told",
    }[f.answer]
    tuning = f.tuning_name if f.tuning_name == f.tuning_base else f"{f.tuning_name} / {f.tuning_base}"
    return (
        said(f.model) if f.model else absent(),
        names.device(f.base_label),
        names.device(f.candidate_label),
        said(tuning, tuning_rank(f.tuning_name)),
        said(f.batch, f.batch) if f.batch else absent(),
        said(f.data),
        said(f.seed, f.seed),
        said(f.axis),
        said(where, note=f.reason or "", evidence=f.evidence),
        _place(f.at, f) if f.at is not None else absent(_why_nowhere(f)),
        _span(f),
        words.count(len(f.points)),
        words.count(f.processes),
        said("; ".join(f"{name}: {_brief(why, names)}" for name, why in f.missing))
        if f.missing
        else absent(),
    )


def _brief(why: str, names: Names) -> str:
    """A reason with the short name of the device that it begins with."""
    for full, short in names.devices.items():
        if why.startswith(f"{full}:"):
            return short + why.removeprefix(full)
    return why


def _place(x: float, f: BreakEvenFinding) -> Cell:
    return Cell(text=_size(x, f), sort=x, note=clean(f.reason or ""), evidence=f.evidence)


def _size(x: float, f: BreakEvenFinding) -> str:
    """A batch to the digit that tells, work and parameters with a prefix."""
    if f.axis == "batch":
        return words.significant(x)
    return words.amount(x, "FLOP" if f.axis == "flops" else "").text


def _span(f: BreakEvenFinding) -> Cell:
    """The interval of a break-even; of several, where each lies; an open end says so."""
    if f.answer == "several":
        turns = ", ".join(f"{_size(a, f)} to {_size(b, f)}" for a, b in f.changes)
        return said(turns, note="between measured values")
    if f.answer in ("always", "never"):
        return absent(_why_nowhere(f))
    if f.processes < 2 or (f.at is None and f.low is None and f.high is None):
        ends = [f"above {_size(f.after, f)}"] if f.after is not None else []
        ends += [f"below {_size(f.before, f)}"] if f.before is not None else []
        return said(" and ".join(ends), note="by which device wins") if ends else absent(f.reason or "")
    note = f"95 % interval, n = {f.processes}"
    if f.low is not None and f.high is not None:
        return said(f"{_size(f.low, f)} to {_size(f.high, f)}", f.low, note=note)
    if f.low is None and f.high is None:
        return absent(f.reason or "")
    text = f"at most {_size(f.high, f)}" if f.high is not None else f"at least {_size(f.low or 0.0, f)}"
    return said(text, f.low or 0.0, note=note)


def _why_nowhere(f: BreakEvenFinding) -> str:
    if f.answer in ("always", "never"):
        return "one device wins at all that was measured"
    return f.reason or "the ratio does not pass 1"


def cores(understanding: Understanding, names: Names) -> Section | None:
    """A step on more and more cores: the parallel share, its limit, and whether that explains it."""
    columns = [
        *map(label, ("model", "device", "tuning", "batch", "data", "seed")),
        Column(name="cores"),
        number("parallel share"),
        number("limit"),
        number("misfit"),
        Column(name="serial share"),
        number("a doubling adds"),
        number("n"),
    ]
    rows = [_cores_cells(f, names) for f in understanding.cores]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        "Amdahl's law T(n) = T(1) ((1 - p) + p / n), fitted to identical cores, one fit a replicate; limit "
        "is 1 / (1 - p), misfit its largest error. Serial share: that of Karp and Flatt; where it grows with "
        "the cores, an overhead limits (memory, waiting, lower clocks) and p is no property of the step."
    )
    chart = cores_chart(understanding.cores, names)
    return Section(
        key="cores",
        title="More cores",
        note=note,
        table=table,
        chart=chart,
    )


def _cores_cells(f: CoresFinding, names: Names) -> tuple[Cell, ...]:
    why = f.reasons
    slope = f.per_doubling
    return (
        said(f.model),
        names.device(f.device_label),
        said(f.tuning_name, tuning_rank(f.tuning_name)),
        said(f.batch, f.batch),
        said(f.data),
        said(f.seed, f.seed),
        said(", ".join(str(p.cores) for p in f.points), note=why.get("points", "")) if f.points else absent(),
        _share(f.parallel, f.parallel_point, why.get("parallel", ""), f.evidence),
        _limit(f),
        words.signed_percent(f.misfit, why.get("misfit", "")) if f.misfit is None else _misfit(f.misfit),
        said(f.trend, note=why.get("trend", ""))
        if f.trend != "cannot be told"
        else absent(why.get("trend", "")),
        _share(slope, None, why.get("trend", ""), f.evidence),
        words.count(f.processes or None),
    )


def _misfit(value: float) -> Cell:
    return Cell(text=words.percent(value), sort=value)


def _limit(f: CoresFinding) -> Cell:
    if f.limit is None:
        return absent(f.reasons.get("limit", "the parallel share does not lie between 0 and 1"))
    low = "?" if f.limit_low is None else words.significant(f.limit_low, 3)
    high = "no limit" if f.limit_high is None else words.significant(f.limit_high, 3)
    text = f"{words.significant(f.limit, 3)}x"
    return Cell(text=f"{text} [{low}, {high}]" if f.parallel else f"about {text}", sort=f.limit)


def cores_detail(understanding: Understanding, names: Names) -> Section | None:
    """Every number of cores by itself."""
    columns = [
        *map(label, ("model", "device", "tuning", "batch")),
        label("cores"),
        number("step"),
        number("speed-up"),
        number("serial share"),
    ]
    rows = [
        (
            said(f.model),
            names.device(f.device_label),
            said(f.tuning_name, tuning_rank(f.tuning_name)),
            said(f.batch, f.batch),
            *_point_cells(p, f),
        )
        for f in understanding.cores
        for p in f.points
    ]
    table = build_table(columns, rows)
    note = "Serial share after Karp and Flatt: what would explain the speed-up by Amdahl's law alone."
    return (
        Section(key="cores-detail", title="Every number of cores", note=note, table=table) if table else None
    )


def _point_cells(p: CoresPoint, f: CoresFinding) -> tuple[Cell, ...]:
    step = Cell(text=units.format_duration(p.step_s), sort=p.step_s, evidence=f.evidence)
    if p.cores == 1:
        return said(1, 1), step, Cell(text="1x", sort=1.0), absent()
    why = f.reasons.get("parallel", f.reasons.get("trend", ""))
    return (
        said(p.cores, p.cores),
        step,
        words.ratio(p.speedup, reason=why, evidence=f.evidence),
        _share(p.serial, p.serial_point, why, f.evidence),
    )


def what_if(understanding: Understanding, names: Names) -> Section | None:
    """What the ratio as written could be if all but the input were free, beside what was measured."""
    columns = [
        *map(label, ("model", "base", "candidate", "tuning", "batch", "data", "seed")),
        number("input of base"),
        number("bound"),
        number("measured"),
        number("without it"),
        Column(name="the bound"),
        number("input of candidate"),
    ]
    rows = [_what_if_cells(f, names) for f in understanding.what_if]
    table = build_table(columns, rows)
    if table is None:
        return None
    after = ", ".join(dict.fromkeys(f.next_tuning for f in understanding.what_if))
    note = (
        f"Input: the part of a step that {clean(after)} removes. A faster device does not shorten it, so "
        "the ratio is at most 1 / input of base, if the input costs both sides the same; exceeded says that "
        "it does not. Without it: the ratio measured once both sides have removed it."
    )
    return Section(key="what-if", title="What the input allows", note=note, table=table)


def _what_if_cells(f: WhatIfFinding, names: Names) -> tuple[Cell, ...]:
    why = f.reasons
    share = why.get("share", "")
    return (
        said(f.model),
        names.device(f.base_label),
        names.device(f.candidate_label),
        said(f.tuning_name, tuning_rank(f.tuning_name)),
        said(f.batch, f.batch),
        said(f.data),
        said(f.seed, f.seed),
        _share(f.share, None, share, f.evidence),
        words.ratio(f.bound, reason=why.get("bound", share), evidence=f.evidence),
        words.ratio(f.ratio, reason=share, evidence=f.evidence),
        words.ratio(f.next_ratio, reason=share, evidence=f.evidence),
        said(f.holds) if f.holds != "cannot be told" else absent(why.get("holds", why.get("bound", share))),
        _share(f.candidate_share, None, share, f.evidence),
    )


def _share(interval: Interval | None, point: float | None, reason: str, evidence: Sequence[str]) -> Cell:
    """A share as percent with its interval, no digit finer than the interval."""
    if interval is not None:
        low, mid, high = (100 * x for x in (interval.low, interval.estimate, interval.high))
        width = max(high - low, 1e-3) / 2
        digits = min(3, max(0, -math.floor(math.log10(width / 0.95))))
        text = f"{mid:.{digits}f} % [{low:.{digits}f}, {high:.{digits}f}]"
        note = words.behind(interval)
        return Cell(text=text, sort=interval.estimate, note=note, evidence=tuple(evidence))
    if point is None or not math.isfinite(point):
        return absent(reason)
    return Cell(text=f"about {100 * point:.2g} %", sort=point, note=clean(reason), evidence=tuple(evidence))
