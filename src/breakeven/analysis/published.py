"""Published values beside the user's own of equal work; where work differs, the first difference as reason.

Knows nothing about how it is shown. Nothing is tested: another machine's number has no process spread here.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from breakeven.analysis.findings import CaseFinding
from breakeven.analysis.published_boards import BoardBeside
from breakeven.analysis.published_devices import DevicesBeside
from breakeven.analysis.published_names import precision_of
from breakeven.analysis.published_profiles import ProfileBeside
from breakeven.catalog.published import METRICS, PublishedRow, published
from breakeven.stats import Interval

SIMULATED = "a simulated device is no hardware"


@dataclass(frozen=True, kw_only=True, slots=True)
class Beside:
    """A published rate next to one measured here, both in samples a second, of equal work.

    `quotient` is here / there: it holds both machines and both programs, and is no comparison of devices.
    """

    case_id: str
    model: str
    task: str
    input_shape: tuple[int, int, int]
    batch: int
    precision: str
    device: str
    tuning: str
    rate: float
    interval: Interval | None
    row: PublishedRow
    quotient: float
    evidence: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """How many published rows of a model were not set beside it, and why."""

    model: str
    reason: str
    rows: int
    collections: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class PublishedFindings:
    """Everything published about the models measured here: what is of equal work, and what is not.

    `boards`, `profiles` and `devices` stand beside no equal work: they are set side by side as such.
    """

    beside: tuple[Beside, ...]
    refused: tuple[Refused, ...]
    boards: tuple[BoardBeside, ...] = ()
    profiles: tuple[ProfileBeside, ...] = ()
    devices: tuple[DevicesBeside, ...] = ()


def published_beside(
    cases: Sequence[CaseFinding], rows: Iterable[PublishedRow] | None = None
) -> PublishedFindings:
    """Sets every published row beside the cases of its model; a row refused by all has its mildest reason."""
    found: list[Beside] = []
    refused: Counter[tuple[str, str]] = Counter()
    named: dict[tuple[str, str], dict[str, None]] = {}
    for row in published() if rows is None else rows:
        reasons = []
        matched = False
        for case in (case for case in cases if case.case.work.model == row.model):
            why = difference(case, row)
            if why is None:
                found.append(_beside(case, row))
                matched = True
            else:
                reasons.append(why)
        if reasons and not matched:
            _, reason = max(reasons)  # the later the first difference, the more is equal
            refused[row.model, reason] += 1
            named.setdefault((row.model, reason), {})[row.collection] = None
    return PublishedFindings(
        beside=tuple(found),
        refused=tuple(
            Refused(model=model, reason=reason, rows=count, collections=tuple(named[model, reason]))
            for (model, reason), count in sorted(refused.items(), key=lambda item: (item[0][0], -item[1]))
        ),
    )


def difference(case: CaseFinding, row: PublishedRow) -> tuple[int, str] | None:
    """The first way in which the work differs and its place in the order of tests; None where it is equal.

    What a source does not say is never equal to anything.
    """
    work, ran = case.case.work, precision_of(case)
    tests = (
        (not case.simulated, SIMULATED),
        (row.task is not None, "the source does not say what was computed"),
        (row.task == work.task, f"it is about {_task(row.task)}, these lines about {_task(work.task)}"),
        (row.input_shape is not None, "the source does not say the input size"),
        (row.input_shape == work.input_shape, f"input {_shape(row.input_shape)} there"),
        (row.data in (None, work.data), f"trained on {row.data} there"),
        (row.metric == "rate", f"it gives {METRICS[row.metric]}, not a rate of equal steps"),
        (row.count == 1, "several devices ran"),
        (row.batch is not None, "the source does not say the batch"),
        (row.batch == work.batch, "other batches there"),
        (row.precision is not None, f"printed as {row.printed_precision or 'nothing'}: not a precision"),
        (ran is not None, "the precision that ran here is not known"),
        (row.precision == ran, f"precision {row.precision} there, {ran} here"),
        (case.rate is not None, "no rate was measured here"),
    )
    for place, (equal, reason) in enumerate(tests):
        if not equal:
            return place, reason
    return None


def _beside(case: CaseFinding, row: PublishedRow) -> Beside:
    work, rate = case.case.work, case.rate
    assert rate is not None and row.precision is not None  # difference() told that they are equal
    return Beside(
        case_id=case.case_id,
        model=work.model,
        task=work.task,
        input_shape=work.input_shape,
        batch=work.batch,
        precision=row.precision,
        device=case.device_label,
        tuning=case.tuning_name,
        rate=rate,
        interval=case.samples_per_s,
        row=row,
        quotient=rate / row.value,
        evidence=case.evidence,
    )


def _task(task: str | None) -> str:
    return {"train": "training", "infer": "inference"}.get(task or "", "something unsaid")


def _shape(shape: tuple[int, ...] | None) -> str:
    return "x".join(map(str, shape or ()))
