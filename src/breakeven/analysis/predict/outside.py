"""What of a forecast lies outside of the rows that were learned from, and what that costs.

Knows nothing about the model. Outside of what was seen an error cannot be counted: the interval is
widened by a rule that is stated, and far outside there is no number.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from breakeven.analysis.predict.rows import Row

AXES: dict[str, Callable[[Row], float]] = {
    "memory bandwidth": lambda row: row.board.bandwidth_gb_per_s,
    "peak at this arithmetic": lambda row: row.peak,
    "batch": lambda row: float(row.batch),
    "FLOPs a launch": lambda row: sum(row.effort.flops) / row.effort.launches,
    "bytes a launch": lambda row: sum(row.effort.bytes) / row.effort.launches,
}
SLOPE = 0.25
"""Half an interval grows by this share of the distance (both on the logarithm): a step a factor of 2 beyond
the rows may be wrong by a further 19 %."""
UNSEEN = 0.25
"""The same for a way of launching, or an arithmetic, that no row of this task has, and for a board older than
all of them: a further 28 %."""
FARTHEST = math.log(100)
"""Summed over the axes, no forecast goes farther than a factor of 100 beyond the rows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Outside:
    """`widening` of half the interval, on the logarithm; `refused` why there is no number at all."""

    words: tuple[str, ...]
    widening: float
    new_model: bool
    refused: str | None = None


def outside_of(row: Row, known: Sequence[Row]) -> Outside:
    """Compares a row with those learned from."""
    words, widening, distance = [], 0.0, 0.0
    for name, of in AXES.items():
        alike = [of(k) for k in known if k.kind == row.kind or not name.startswith("peak")]
        if not alike:
            continue
        value, low, high = of(row), min(alike), max(alike)
        beyond = max(math.log(low / value), math.log(value / high), 0.0)
        if beyond > 0:
            words.append(
                f"{name} {math.exp(beyond):.2g} times {'below' if value < low else 'above'} all rows"
            )
            distance += beyond
    widening += SLOPE * distance
    ways = {(k.task, k.launch) for k in known}
    if (row.task, row.launch) not in ways:
        task = "training" if row.task == "train" else "inference"
        words.append(f"no row of {task} is {row.launch}")
        widening += UNSEEN
    if row.kind not in {k.kind for k in known if k.task == row.task}:
        words.append(f"no such row is {row.kind}")
        widening += UNSEEN
    if row.board.year < min(k.board.year for k in known):
        words.append("older than every board of the rows")
        widening += UNSEEN
    new = row.model not in {k.model for k in known}
    if new:
        words.append(f"no row is of {row.model}")
    refused = None
    if distance > FARTHEST:
        refused = f"too far from every row: {words[0]}" if words else "too far from every row"
    return Outside(words=tuple(words), widening=widening, new_model=new, refused=refused)
