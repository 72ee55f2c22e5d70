"""Published ratios of a CPU over a GPU beside those measured here, and how far they can be read.

Knows nothing about how ratios are formed.
"""

from collections.abc import Sequence

from breakeven.analysis.findings import RatioFinding
from breakeven.analysis.published_devices import DevicesBeside
from breakeven.analysis.published_ratios import TRAINING_FORWARDS
from breakeven.report import words
from breakeven.report.names import Names
from breakeven.report.view import (
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

NOTE = (
    "The CPU's time over the GPU's, there of one printed column, here of equal work at one tuning. The "
    "source does not say what its times are times of, so none of them stands beside a step or call of yours. "
    "Rank: place among its models, 1 the largest ratio."
)
WHAT = {"run": "run time", "inference": "inference time"}


def devices(found: Sequence[DevicesBeside], names: Names) -> Section | None:
    """One row a published ratio and each that was measured here of its net."""
    columns = [
        *map(label, ("source", "model", "time of")),
        *map(number, ("CPU there", "GPU there", "CPU / GPU there", "rank")),
        number("CPU / GPU here"),
        Column(name="with"),
        number("run / inference, CPU there"),
        number("run / inference, GPU there"),
    ]
    table = build_table(columns, [row for one in found for row in _rows(one, names)])
    if table is None:
        return None
    note = " ".join([NOTE, *_orders(found), *_unlike(found)])
    title = "A GPU against a CPU, published and here"
    return Section(key="published-devices", title=title, note=note, table=table)


def _rows(one: DevicesBeside, names: Names) -> list[Row]:
    base, candidate = one.there.base, one.there.candidate
    head = (
        said(f"{one.collection}, {one.place}"),
        said(", ".join(one.models), note=f"{base.printed_model} there"),
        said(WHAT[one.metric], note=base.conditions),
        Cell(text=f"{base.value:,.12g} {base.unit}", sort=base.value, note=base.device),
        Cell(text=f"{candidate.value:,.12g} {candidate.unit}", sort=candidate.value, note=candidate.device),
        Cell(
            text=f"{words.significant(one.there.ratio)}x", sort=one.there.ratio, note="one run, no interval"
        ),
        said(one.rank, one.rank, note=f"of {one.of}"),
    )
    repeats = [Cell(text=words.significant(times), sort=times) for times in one.repeats or ()] or [
        absent(),
        absent(),
    ]
    if not one.here:
        why = "no GPU and CPU were measured here with one tuning at this task"
        return [(*head, absent(why), absent(), *repeats)]
    return [(*head, *_here(r, names), *repeats) for r in one.here]


def _here(r: RatioFinding, names: Names) -> tuple[Cell, Cell]:
    pair = f"{names.device(r.candidate_label).text} over {names.device(r.base_label).text}"
    batch = f"{r.model}, {r.tuning_name}, batch {r.batch}"
    return words.ratio(r.ratio, r.point, evidence=r.evidence), said(f"{pair}, {batch}")


def _orders(found: Sequence[DevicesBeside]) -> list[str]:
    """Whether the columns of a source rank its models alike, where several are shown."""
    told = []
    for source in dict.fromkeys((one.collection, one.place) for one in found):
        mine = [one for one in found if (one.collection, one.place) == source]
        orders = {
            WHAT[metric]: [
                one.there.base.printed_model
                for one in sorted(mine, key=lambda one: one.rank)
                if one.metric == metric
            ]
            for metric in dict.fromkeys(one.metric for one in mine)
        }
        if len({tuple(order) for order in orders.values()}) > 1:
            each = "; ".join(f"by {what} {', '.join(order)}" for what, order in orders.items())
            told.append(f"{source[1]} ranks the models otherwise in each column: {each}.")
    return [clean(text) for text in told]


def _unlike(found: Sequence[DevicesBeside]) -> list[str]:
    """What run time over inference time says of the unit of work."""
    times = [value for one in found for value in one.repeats or ()]
    if not times:
        return []
    low, high = (words.significant(value) for value in (min(times), max(times)))
    return [
        f"Its run time is {low} to {high} times its inference time, by model and device. A training step "
        f"costs about {TRAINING_FORWARDS} forward passes of its batch: the rows are of unlike work."
    ]
