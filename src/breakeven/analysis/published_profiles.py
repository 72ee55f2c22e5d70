"""Published profiles beside the user's own of the same net, operator by operator, by name.

Knows nothing about how it is shown. Batches and steps of a published profile are rarely said: its times stand
for no equal work, only the share of each operator in its own column can be read against another's.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from breakeven.analysis.findings import CaseFinding
from breakeven.analysis.profile import ProfileFinding
from breakeven.catalog.published_operators import PublishedOperator, PublishedProfile, published_profiles


@dataclass(frozen=True, kw_only=True, slots=True)
class OperatorBeside:
    """A published row and the operator of that place here: `name`, None where the profile has none.

    Seconds here are totals of one step, what an operator calls included; a share is of the same column's
    whole. `device_s` is None where nothing is launched.
    """

    row: PublishedOperator
    host_share_there: float
    device_share_there: float
    name: str | None = None
    host_s: float | None = None
    device_s: float | None = None
    host_share: float | None = None
    device_share: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class ProfileBeside:
    """One published profile beside one case profiled here; `on_device` as in the case's profile."""

    case_id: str
    model: str
    task: str
    device: str
    tuning: str
    batch: int
    on_device: bool
    there: PublishedProfile
    rows: tuple[OperatorBeside, ...]
    evidence: tuple[str, ...]


def profiles_beside(
    cases: Sequence[CaseFinding],
    profiles: Sequence[ProfileFinding],
    there: Iterable[PublishedProfile] | None = None,
) -> tuple[ProfileBeside, ...]:
    """Every published profile beside each profile here of its net; where it names a task, of that task."""
    known = {(one.source, one.case_id): one for one in profiles if one.operators}
    return tuple(
        _beside(case, known[case.source, case.case_id], published)
        for published in (published_profiles() if there is None else there)
        for case in cases
        if (case.source, case.case_id) in known
        and case.case.work.model in published.models
        and published.task in (None, case.case.work.task)
    )


def _beside(case: CaseFinding, found: ProfileFinding, there: PublishedProfile) -> ProfileBeside:
    work = case.case.work
    return ProfileBeside(
        case_id=case.case_id,
        model=work.model,
        task=work.task,
        device=case.device_label,
        tuning=case.tuning_name,
        batch=work.batch,
        on_device=found.on_device,
        there=there,
        rows=tuple(_row(row, found, there.whole) for row in there.rows),
        evidence=found.evidence,
    )


def _row(row: PublishedOperator, found: ProfileFinding, whole: PublishedOperator) -> OperatorBeside:
    name, host_s, device_s = _here(row, found)
    _, all_host_s, all_device_s = _whole(found)
    return OperatorBeside(
        row=row,
        host_share_there=row.host_ms / whole.host_ms,
        device_share_there=row.device_ms / whole.device_ms,
        name=name,
        host_s=host_s,
        device_s=device_s,
        host_share=_share(host_s, all_host_s),
        device_share=_share(device_s, all_device_s),
    )


def _here(row: PublishedOperator, found: ProfileFinding) -> tuple[str | None, float | None, float | None]:
    """(name, host seconds, device seconds) of the same place in a profile here."""
    if row.kind == "step":
        return _whole(found)
    if row.kind == "kernel":
        kernel = next((one for one in found.kernels if one.name in row.here), None)
        return (kernel.name, None, kernel.device_s) if kernel else (None, None, None)
    by_name = {op.name: op for op in found.operators}
    op = next((by_name[name] for name in row.here if name in by_name), None)
    return (op.name, op.total_host_s, op.total_device_s) if op else (None, None, None)


def _whole(found: ProfileFinding) -> tuple[str, float | None, float | None]:
    """The profiled step: the host's time from its beginning to its end, and that of all its kernels."""
    # Not all kernels are kept, and a captured step has no operator that launches them.
    kernels_s = sum(kernel.device_s for kernel in found.kernels)
    launched_s = sum(op.self_device_s or 0.0 for op in found.operators)
    return "the profiled step", found.step_s, max(kernels_s, launched_s) if found.on_device else None


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole
