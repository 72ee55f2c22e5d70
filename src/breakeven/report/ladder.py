"""Sections about one device at a time: its ladder of tunings, the best of them, what each step is worth.

Knows nothing about how a win is worked out or drawn.
"""

from collections.abc import Callable, Iterable, Sequence

from breakeven.analysis.findings import BestFinding, LadderFinding, StepFinding, Understanding
from breakeven.report import words
from breakeven.report.doubts import by_place
from breakeven.report.ladder_marks import ladder_chart, telling
from breakeven.report.names import Names, tuning_rank
from breakeven.report.view import (
    Cell,
    Column,
    Section,
    Table,
    absent,
    build_table,
    clean,
    label,
    number,
    said,
)
from breakeven.stats import Verdict

WORDS = {
    Verdict.FASTER: "wins",
    Verdict.SLOWER: "loses",
    Verdict.SAME: "same",
    Verdict.UNCERTAIN: "unclear",
}
"""Verdicts on a step; short, so that the table fits a screen."""
NUMERICS = {"same": "as written", "any": "any"}


def ladder(understanding: Understanding, names: Names) -> Section | None:
    """Every step with its time and what it wins over the step before, losing ones too."""
    found = understanding.ladders
    columns = [
        label("tuning"),
        number("a step"),
        number("over the step before"),
        Column(name="verdict"),
        number("over the best before"),
    ]
    table = _table(
        found, names, columns, lambda one: ((*_step_cells(step), _over_best(step)) for step in one.steps)
    )
    if table is None:
        return None
    note = (
        "How many times as fast each tuning is as the one above it, to which it adds one change, or those "
        "named beside it. One that loses stays: what a step wins depends on those before it. "
        "Over the best before: where a step wins over one that was not the fastest so far."
    )
    chart = ladder_chart(found, names, by_place(understanding))
    return Section(key="ladder", title="The ladder of tunings", note=note, table=table, chart=chart)


def best(understanding: Understanding, names: Names) -> Section | None:
    """The fastest tuning of each work and device, timed afresh."""
    found = understanding.ladders
    columns = [
        label("numerics"),
        Column(name="best tuning"),
        number("a step"),
        number("over as written"),
        Column(name="flags"),
    ]
    table = _table(found, names, columns, lambda one: map(_best_cells, one.best))
    if table is None:
        return None
    note = (
        "The fastest of the tunings tried at equal work. The fastest of several looks faster than it is, so "
        "once the choice was made, it and the loop as written were measured again in fresh processes: these "
        "numbers are from there alone."
    )
    return Section(key="best", title="The best of each device", note=note, table=table)


def without(understanding: Understanding, names: Names) -> Section | None:
    """The full stack less one step at a time."""
    found = [one for one in understanding.ladders if one.without]
    columns = [
        label("all but"),
        number("a step"),
        number("longer without"),
        Column(name="the step"),
    ]
    table = _table(found, names, columns, lambda one: map(_step_cells, one.without))
    if table is None:
        return None
    note = (
        "All steps of the ladder but one, and how many times as long a step takes without it: what each is "
        "worth where the others are in place."
    )
    return Section(key="without", title="Without one step", note=note, table=table)


def builds(understanding: Understanding, names: Names) -> Section | None:
    """What compiling and capturing cost, and how long a run has to be to win it back."""
    found = understanding.ladders
    columns = [
        label("tuning"),
        number("build"),
        Column(name="cache"),
        number("pays back after"),
    ]
    table = _table(found, names, columns, _build_rows)
    if table is None:
        return None
    note = (
        "Compiling and capturing come before the first step and are part of every total. Pays back after: "
        "steps until the win over the tuning before has made up for the longer build. A warm cache holds "
        "kernels of an earlier process."
    )
    return Section(key="builds", title="What building costs", note=note, table=table)


def _build_rows(one: LadderFinding) -> Iterable[tuple[Cell, ...]]:
    return (_build_cells(step) for step in one.steps if step.build_s is not None)


def _build_cells(step: StepFinding) -> tuple[Cell, ...]:
    back, why = step.pays_back, step.reasons.get("pays_back", "")
    steps = absent(why)
    if back is not None:
        low, high = (words.significant(value) for value in (back.low, back.high))
        text = f"{words.significant(back.estimate)} [{low}, {high}] steps"
        steps = Cell(text=text, sort=back.estimate, evidence=step.evidence)
    return (
        said(step.name, tuning_rank(step.name)),
        words.seconds(None, step.build_s, reason="the median of processes", evidence=step.evidence),
        said(step.build_state) if step.build_state else absent("captured, not compiled"),
        steps,
    )


def _table(
    found: Sequence[LadderFinding],
    names: Names,
    columns: Sequence[Column],
    rows_of: Callable[[LadderFinding], Iterable[tuple[Cell, ...]]],
) -> Table | None:
    """The rows of every ladder, the model and device they belong to before them."""
    told = telling(found)
    places = [label(name) for name in ("model", "device", *told)]
    rows = [(*_place(one, told, names), *cells) for one in found for cells in rows_of(one)]
    return build_table([*places, *columns], rows)


def _place(one: LadderFinding, told: Sequence[str], names: Names) -> tuple[Cell, ...]:
    values = [getattr(one, name) for name in told]
    more = (said(value, value if isinstance(value, int) else None) for value in values)
    return (said(one.model), names.device(one.device_label), *more)


def _step_cells(step: StepFinding) -> tuple[Cell, ...]:
    win, why = step.win, step.reasons
    also = f" (and {', '.join(step.along)})" if step.along else ""
    return (
        said(f"{step.name}{also}", tuning_rank(step.name)),
        words.seconds(step.step_s, step.point_s, reason=why.get("step_s", ""), evidence=step.evidence),
        words.ratio(win.ratio, win.point, reason=why.get("win", ""), evidence=win.evidence)
        if win
        else absent(why.get("win", "")),
        _verdict(step),
    )


def _over_best(step: StepFinding) -> Cell:
    """A win against the fastest so far, where the step before was another: it may only undo a loss."""
    best, win = step.over_best, step.win
    if best is None or win is None or win.verdict is not Verdict.FASTER:
        return absent()
    cell = words.ratio(best.ratio, best.point, reason=best.reasons.get("ratio", ""), evidence=best.evidence)
    return cell._replace(note=f"over {clean(step.best_before or '')}; {cell.note}")


def _verdict(step: StepFinding) -> Cell:
    win = step.win
    if win is None or win.point is None:
        return absent()
    if win.verdict is None:
        return absent(win.reasons.get("verdict", ""))
    note = "" if win.p_adjusted is None else f"p = {words.significant(win.p_adjusted)} after Holm"
    if win.verdict is Verdict.UNCERTAIN and win.processes_needed:
        note += f"; {win.processes_needed} processes would decide"
    return said(WORDS[win.verdict], note=note)


def _best_cells(b: BestFinding) -> tuple[Cell, ...]:
    win = b.win
    why = b.reasons.get("step_s", "")
    return (
        said(NUMERICS[b.numerics]),
        said(b.tuning_name, evidence=b.chosen, note=f"of {b.candidates} tried")
        if b.tuning_name
        else absent(why),
        words.seconds(b.step_s, b.point_s, reason=why, evidence=b.evidence),
        words.ratio(win.ratio, win.point, reason=win.reasons.get("ratio", ""), evidence=win.evidence)
        if win
        else absent(b.reasons.get("win", "")),
        said(", ".join(flags)) if (flags := [flag for flag in b.flags if flag != "simulated"]) else absent(),
    )
