"""How many times as fast a GPU was as a CPU elsewhere, model by model, beside the same ratio here.

Knows nothing about how it is shown. For sources that do not say what a time of theirs is the time of: the
quotient of two such times, of one column and model, is all that can be read from them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from breakeven.analysis.claim_rows import is_gpu, task_of
from breakeven.analysis.findings import RatioFinding, Understanding
from breakeven.analysis.published_ratios import Quotient
from breakeven.catalog.published import Metric, PublishedRow, published

METRICS: dict[Metric, Literal["train", "infer"]] = {"run": "train", "inference": "infer"}
"""Metrics whose unit of work is not said -> the task here that the source is about."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DevicesBeside:
    """One published ratio of a CPU's time over a GPU's, and those measured here of the same net and task.

    `rank` is its place among the models of its column, 1 the largest. `models` is what the net is here: the
    model of that name, or a variant of it. `repeats` is how many inferences of the same device the run took,
    (on the CPU, on the GPU): of one unit of work both would be alike.
    """

    collection: str
    place: str
    metric: Metric
    task: Literal["train", "infer"]
    there: Quotient
    rank: int
    of: int
    models: tuple[str, ...]
    repeats: tuple[float, float] | None = None
    here: tuple[RatioFinding, ...] = ()


def devices_beside(
    found: Understanding, rows: Iterable[PublishedRow] | None = None
) -> tuple[DevicesBeside, ...]:
    """Every such ratio of a model measured here, column by column in the order of the source."""
    measured = dict.fromkeys(c.case.work.model for c in found.cases if not c.simulated)
    kept = sorted(
        (row for row in (published() if rows is None else rows) if row.metric in METRICS),
        key=lambda row: (row.collection, row.place, list(METRICS).index(row.metric)),
    )
    made: list[DevicesBeside] = []
    for (collection, place), table in groupby(kept, key=lambda row: (row.collection, row.place)):
        every = quotients(list(table))
        for metric, ratios in every.items():
            ranked = sorted(ratios.values(), key=lambda one: -one.ratio)
            for model, there in ratios.items():
                models = tuple(name for name in measured if name == model or name.startswith(f"{model}-"))
                if models:
                    made.append(
                        DevicesBeside(
                            collection=collection,
                            place=place,
                            metric=metric,
                            task=METRICS[metric],
                            there=there,
                            rank=ranked.index(there) + 1,
                            of=len(ranked),
                            models=models,
                            repeats=_repeats(every, metric, model),
                            here=_here(found, models, METRICS[metric]),
                        )
                    )
    return tuple(made)


def quotients(rows: Sequence[PublishedRow]) -> dict[Metric, dict[str, Quotient]]:
    """Per metric and model the CPU's row over the GPU's; a model without both has none.

    What the catalog knows as a GPU is one: `processor` is named there, and of the CPU it is not.
    """
    made: dict[Metric, dict[str, Quotient]] = {}
    for row in rows:
        if row.processor is None:
            gpu = next(
                (r for r in rows if (r.model, r.metric) == (row.model, row.metric) and r.processor), None
            )
            if gpu is not None:
                made.setdefault(row.metric, {})[row.model] = Quotient(base=row, candidate=gpu)
    return made


def _repeats(
    every: dict[Metric, dict[str, Quotient]], metric: Metric, model: str
) -> tuple[float, float] | None:
    """Run time over inference time on either device; None beside the inference itself."""
    run, single = (every.get(name, {}).get(model) for name in METRICS)
    if metric != "run" or run is None or single is None:
        return None
    return run.base.value / single.base.value, run.candidate.value / single.candidate.value


def _here(found: Understanding, models: Sequence[str], task: str) -> tuple[RatioFinding, ...]:
    """Ratios of a step or call, a GPU against a CPU at one tuning."""
    return tuple(
        r
        for r in found.ratios
        if r.model in models
        and r.of == "step"
        and r.contrast == "tuning"
        and task_of(r, found) == task
        and is_gpu(r.candidate_label, found)
        and not is_gpu(r.base_label, found)
        and (r.ratio is not None or r.point is not None)
    )
