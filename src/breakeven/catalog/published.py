"""What others measured and published: one value a row, with the conditions that were printed and the source.

Knows nothing about the user's results. Where a source does not say what a comparison needs, it is None here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from breakeven.catalog.facts import table

Metric = Literal[
    "rate", "latency_p90", "latency_p99", "step", "epoch", "total", "to_94_percent", "to_accuracy", "run",
    "inference",
]  # fmt: skip
METRICS: Mapping[str, str] = {
    "rate": "samples a second of one device",
    "latency_p90": "90th percentile of one call",
    "latency_p99": "99th percentile of one call",
    "step": "forward and backward of one batch",
    "epoch": "an epoch of training",
    "total": "the whole run",
    "to_94_percent": "training to 94 % test accuracy",
    "to_accuracy": "training to the accuracy in the conditions",
    "run": "what the source calls run time: its work is not said",
    "inference": "what the source calls inference time",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedRow:
    """One published value in `unit` (`samples/s`, `ms` or `s`).

    `collection` names its source in the catalog's list, `place` where in it. `model` and `input_shape`
    (channels, height, width) are named as here, `printed_model` and `printed_precision` as there.
    `precision`: `fp32`, `tf32`, `fp16`, `bf16`, `int8`, `amp` (FP16 autocast) or `amp-bf16`; None: not said.
    `processor` is the catalog's name of the GPU or CPU, None where the device does not tell; `count` ran.
    """

    collection: str
    place: str
    task: Literal["train", "infer"] | None
    model: str
    input_shape: tuple[int, int, int] | None
    data: str | None
    metric: Metric
    value: float
    unit: str
    device: str
    processor: str | None
    count: int
    precision: str | None
    batch: int | None
    execution: str | None
    framework: str | None
    conditions: str
    printed_model: str
    printed_precision: str


@lru_cache(maxsize=1)
def published() -> tuple[PublishedRow, ...]:
    """All rows, collection by collection as they were printed."""
    return tuple(_row(row) for row in table("published.csv"))


def _row(row: Mapping[str, str]) -> PublishedRow:
    task, metric = row["task"], row["metric"]
    if metric not in METRICS or task not in ("train", "infer", ""):
        raise ValueError(f"published.csv: no such metric or task: {metric!r}, {task!r}")
    shape = tuple(int(size) for size in row["input_shape"].split("x")) if row["input_shape"] else None
    return PublishedRow(
        collection=row["collection"],
        place=row["place"],
        task=task or None,  # type: ignore[arg-type]  # checked above
        model=row["model"],
        input_shape=shape,  # type: ignore[arg-type]  # three numbers, which a test holds every row to
        data=row["data"] or None,
        metric=metric,  # type: ignore[arg-type]  # checked above
        value=float(row["value"]),
        unit=row["unit"],
        device=row["device"],
        processor=row["processor"] or None,
        count=int(row["count"]),
        precision=row["precision"] or None,
        batch=int(row["batch"]) if row["batch"] else None,
        execution=row["execution"] or None,
        framework=row["framework"] or None,
        conditions=row["conditions"],
        printed_model=row["printed_model"],
        printed_precision=row["printed_precision"],
    )
