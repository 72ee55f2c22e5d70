"""Attempt lines of one file -> one finding a case.

Knows nothing about comparisons between cases.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from breakeven import stats
from breakeven.analysis import naming
from breakeven.analysis.ceilings import Light, Limits, above, too_fast
from breakeven.analysis.estimates import (
    memory_of,
    with_costs,
    with_energy,
    with_light,
    with_runs,
    with_steps,
)
from breakeven.analysis.findings import CaseFinding
from breakeven.analysis.forecast import built
from breakeven.analysis.processes import (
    Key,
    Process,
    has_outlier,
    has_spilled,
    is_core_uneven,
    is_uneven,
    main_unit,
    processes_of,
    region_of,
    trend_of,
)
from breakeven.analysis.reasons import in_words
from breakeven.analysis.runs import Run, runs_of, totals_of, unfinished_of
from breakeven.records.blocks import Blocks, as_columns
from breakeven.records.case import Case
from breakeven.records.file import Results
from breakeven.records.lines import Attempt, Check, Load
from breakeven.records.replicates import confirm_looks_of, full_looks_of, looks_of
from breakeven.records.selection import REFUTING


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A case's finding with what a comparison needs besides: seconds by process, and hashes of the work done.

    `preset` is the tuning's name as the study gave it; `finding.tuning_name` may say more. `looks`: at which
    numbers of processes more might have been added; `full_looks`: the same of whole runs. `builds`: seconds
    of compiling and capturing with the state of the compiler's cache, of processes that did either.
    `contended`, `full_contended`: the processes and the full runs that others disturbed.
    `blocks`: what was timed of each process in `steps`; `trend`: how far the steady ones of the processes
    that the finding rests on moved together (`trend_of`).
    """

    finding: CaseFinding
    work_id: str
    tuning_id: str
    preset: str
    steps: Mapping[Key, float]
    parents: Mapping[Key, str | None]
    totals: Mapping[Key, float]
    hashes: Mapping[str, frozenset[str | None]]
    runs: tuple[Run, ...]
    looks: tuple[int, ...] = ()
    full_looks: tuple[int, ...] = ()
    builds: Mapping[Key, tuple[float, str | None]] = field(default_factory=dict)
    contended: frozenset[Key] = frozenset()
    full_contended: frozenset[Key] = frozenset()
    blocks: Mapping[Key, Blocks] = field(default_factory=dict)
    trend: float | None = 0.0

    @property
    def case(self) -> Case:
        return self.finding.case


@dataclass(frozen=True, kw_only=True, slots=True)
class _Place:
    """Where a case stands: in which file, and whether in its latest study."""

    in_study: bool
    source: str


def measured_cases(results: Results) -> list[Measured]:
    """Every case that has an attempt: those of the latest study in its order, then those of earlier ones.

    A case outside the study that was tried only to choose a winner is none, for it may show no number. One
    that won joins the study that asks for the best.
    """
    groups: dict[str, list[Attempt]] = {}
    for attempt in results.attempts:
        groups.setdefault(attempt.case_id, []).append(attempt)
    study = results.studies[-1] if results.studies else None
    wanted = dict.fromkeys(study.case_ids if study else groups)
    if study is not None and naming.asks_for_best(study.study):
        tried = {key for key, mine in groups.items() if all(a.purpose == "select" for a in mine)}
        groups = {key: mine for key, mine in groups.items() if key in wanted or key not in tried}
        wanted |= dict.fromkeys(_winners(groups.values(), wanted))
    earlier = dict.fromkeys(case_id for line in results.studies for case_id in line.case_ids)
    order = [case_id for case_id in (wanted | earlier | dict.fromkeys(groups)) if case_id in groups]
    labels = naming.tuning_labels([groups[case_id] for case_id in order])
    protocol: Mapping[str, Any] = study.study if study else {}
    relative_ci = naming.number(protocol, "relative_ci")
    made, limits, by_case, studies = [], Limits.of(results), checks_of(results), results.studies
    for case_id in order:
        checks = by_case.get(case_id, [])
        looks = looks_of(studies, case_id), full_looks_of(studies, case_id)
        place = _Place(in_study=case_id in wanted, source=results.path)
        found = _measured(groups[case_id], checks, labels[case_id], relative_ci, limits, looks, place)
        made.append(_told_unproven(found, results))
    return made


def confirmed_cases(results: Results) -> dict[str, Measured]:
    """Case_id -> what its `confirm` attempts alone say: the only numbers that a chosen case may show."""
    groups: dict[str, list[Attempt]] = {}
    for attempt in results.attempts:
        if attempt.purpose == "confirm":
            groups.setdefault(attempt.case_id, []).append(attempt)
    limits, by_case, studies = Limits.of(results), checks_of(results), results.studies
    place = _Place(in_study=True, source=results.path)
    made = {}
    for case_id, mine in groups.items():
        checks = by_case.get(case_id, [])
        looks = confirm_looks_of(studies), ()
        found = _measured(mine, checks, naming.preset_of(mine), None, limits, looks, place)
        made[case_id] = _told_unproven(found, results)
    return made


def _told_unproven(measured: Measured, results: Results) -> Measured:
    """The case with why it may not be ranked, if it may not; of a whole file each is as it was."""
    why = _unproven(measured.finding, results)
    if why is None:
        return measured
    return dataclasses.replace(measured, finding=dataclasses.replace(measured.finding, unproven=why))


def _unproven(finding: CaseFinding, results: Results) -> str | None:
    """Why a case may not be ranked in a damaged file: the lost line may be the check that it failed."""
    if not results.lost or "unchecked" not in finding.flags:
        return None
    lines = "a line" if results.lost == 1 else f"{results.lost} lines"
    return f"no check of it is on file, and {lines} of the file could not be read: it may have failed one"


def proven_attempts(results: Results) -> tuple[Attempt, ...]:
    """The attempts that may choose a best: in a damaged file those of cases whose check came to its end."""
    if not results.lost:
        return results.attempts
    told = {c.case_id for c in results.checks if _ended(c)}
    return tuple(a for a in results.attempts if a.case_id in told)


def _ended(check: Check) -> bool:
    return check.outcome == "ok" or check.outcome in REFUTING


def checks_of(results: Results) -> dict[str, list[Check]]:
    """Case_id -> its checks, in their order."""
    by_case: dict[str, list[Check]] = {}
    for check in results.checks:
        by_case.setdefault(check.case_id, []).append(check)
    return by_case


def _winners(groups: Iterable[Sequence[Attempt]], wanted: Collection[str]) -> list[str]:
    """Cases outside the study that were chosen where its cases ran."""
    places = {(a.work_id, a.device) for mine in groups for a in mine if a.case_id in wanted}
    return [
        mine[0].case_id
        for mine in groups
        if (mine[0].work_id, mine[0].device) in places and all(a.purpose != "measure" for a in mine)
    ]


def _measured(
    attempts: Sequence[Attempt],
    checks: Sequence[Check],
    label: str,
    relative_ci: float | None,
    limits: Limits,
    looks: tuple[tuple[int, ...], tuple[int, ...]],
    place: _Place,
) -> Measured:
    refuted = next(
        (f"{c.outcome}: {in_words(c.reason or '')}" for c in checks if c.outcome in REFUTING), None
    )
    everything, why = processes_of(attempts)
    runs = tuple(runs_of(attempts))
    light = _light(attempts, checks, main_unit(everything), runs, limits)
    if (fast := too_fast(attempts[-1].case, [p.step_s for p in everything], light)) is not None:
        refuted = refuted or f"invalid: {fast}"
    if (mixed := mixed_of([p.attempt for p in everything])) is not None:
        refuted = refuted or f"invalid: {mixed}"
    if refuted:
        everything, why, runs = [], refuted, ()
    used, totals = main_unit(everything), totals_of(runs)
    entering = [*(p.attempt for p in used), *(run.last for run in runs)]
    finding = with_steps(_named(attempts, checks, label, refuted, place), used, why, looks[0])
    finding = with_runs(finding, runs, list(totals.values()), looks[1])
    finding = with_costs(finding, next((a.parameters for a in reversed(entering) if a.parameters), None))
    finding = with_light(finding, light)
    # A full run's window holds evaluations too: sampled processes say better what a step needs.
    telling = [p.attempt for p in used] or [run.last for run in runs]
    finding = with_energy(finding, telling, light.board.limit_w)
    trend = trend_of(as_columns(p.attempt.blocks) for p in used) if used else 0.0
    flags = _flags(entering, checks, finding.step_s, relative_ci) | _restless(used, trend)
    if above(finding.tflop_per_s, light):
        flags["above_ceiling"] = len(used)
    if len({p.attempt.fingerprint_id for p in everything}) > 1:
        flags["several_units"] = len(everything)
    finding = dataclasses.replace(
        finding,
        memory_mib=memory_of(telling),
        flags=tuple(sorted(flags)),
        flag_counts=flags,
        unit=entering[0].fingerprint_id if entering else None,
        evidence=_evidence(used, runs) or tuple(a.attempt_id for a in attempts),
        unfinished=() if refuted else tuple(unfinished_of(attempts)),
    )
    return Measured(
        finding=finding,
        work_id=attempts[-1].work_id,
        tuning_id=attempts[-1].tuning_id,
        preset=naming.preset_of(attempts),
        steps={p.key: p.step_s for p in everything},
        parents={p.key: p.attempt.parent_id for p in everything},
        totals=totals,
        hashes=_hashes(entering),
        runs=runs,
        looks=looks[0],
        full_looks=looks[1],
        builds={p.key: build for p in everything if (build := built(p.attempt)) is not None},
        contended=frozenset(p.key for p in everything if "contended" in p.attempt.flags),
        blocks={p.key: as_columns(p.attempt.blocks) for p in everything},
        trend=trend,
        full_contended=frozenset(run.key for run in runs if "contended" in run.last.flags),
    )


def _light(
    attempts: Sequence[Attempt],
    checks: Sequence[Check],
    used: Sequence[Process],
    runs: Sequence[Run],
    limits: Limits,
) -> Light:
    """The limits of the machine that the case's numbers come from."""
    here = [p.attempt for p in used] or [run.last for run in runs]
    mine = [c for c in checks if here and c.fingerprint_id == here[-1].fingerprint_id]
    return limits.light(attempts[-1].case, here, mine or checks)


def _named(
    attempts: Sequence[Attempt], checks: Sequence[Check], label: str, refuted: str | None, place: _Place
) -> CaseFinding:
    """The finding without its numbers: what the case is and how its attempts ended."""
    last = attempts[-1]
    outcomes: Counter[str] = Counter(a.outcome for a in attempts)
    outcomes.update(c.outcome for c in checks if c.outcome in REFUTING)
    if refuted and not any(c.outcome in REFUTING for c in checks):
        outcomes["invalid"] += outcomes.pop("ok", 0)  # faster than the hardware, or mixed: no process stands
    runs = any(a.region == "train_run" for a in attempts)
    return CaseFinding(
        case_id=last.case_id,
        case=last.case,
        tuning_name=label,
        device_label=last.device.label,
        simulated=last.device.kind == "sim" or any("simulated" in a.flags for a in attempts),
        in_study=place.in_study,
        source=place.source,
        processes=0,
        outcomes=dict(sorted(outcomes.items())),
        failure=refuted or _failure(attempts),
        region=region_of(attempts) or ("train_run" if runs else None),
    )


def _failure(attempts: Sequence[Attempt]) -> str | None:
    """The most frequent failing outcome with its latest reason; None where some attempt ended ok."""
    failed = Counter(a.outcome for a in attempts)
    if failed["ok"]:
        return None
    outcome = failed.most_common(1)[0][0]
    reason = next((a.reason for a in reversed(attempts) if a.outcome == outcome and a.reason), None)
    return f"{outcome}: {in_words(reason)}" if reason else outcome


def _flags(
    entering: Sequence[Attempt],
    checks: Sequence[Check],
    step: stats.Interval | None,
    relative_ci: float | None,
) -> dict[str, int]:
    """Flag -> processes that carry it."""
    flags = Counter(flag for a in entering for flag in dict.fromkeys(a.flags))
    flags["outliers"] = sum(map(has_outlier, entering))
    # The runner's stopping rule looks between processes, and their spread holds what is loose within them.
    if step and relative_ci:
        wide = (step.high / step.low) ** 0.5 - 1 > relative_ci
        flags["not_converged"] = step.n if wide else 0
    flags["uneven"] = sum(is_uneven(a) for a in entering)
    flags["spilled"] = sum(map(has_spilled, entering))
    flags["uneven_core"] = len(entering) if is_core_uneven(entering) else 0
    here = {a.fingerprint_id for a in entering}
    if not any(c.fingerprint_id in here and _ended(c) for c in checks):
        flags["unchecked"] = len(entering)
    return {flag: count for flag, count in sorted(flags.items()) if count}


def _restless(used: Sequence[Process], trend: float | None) -> dict[str, int]:
    """Flags of steady steps that moved together, and of those too few to tell; of all processes alike."""
    return {"few_blocks": len(used)} if trend is None else {"not_steady": len(used)} if trend else {}


def _hashes(entering: Sequence[Attempt | Load]) -> dict[str, frozenset[str | None]]:
    """What was worked on, by name: every value seen, None among them where a process did not say."""
    names = dict.fromkeys(name for a in entering for name in a.hashes)
    return {name: frozenset(a.hashes.get(name) for a in entering) for name in names}


def mixed_of(lines: Sequence[Attempt | Load]) -> str | None:
    """Why the processes of a case did not all do its work: another version's net or order under one name."""
    for name, values in _hashes(lines).items():
        if len(values - {None}) > 1:
            return f"its processes worked on different {name} (their hashes differ)"
    return None


def _evidence(used: Sequence[Process], runs: Sequence[Run]) -> tuple[str, ...]:
    steps = [p.attempt.attempt_id for p in used]
    return tuple(dict.fromkeys([*steps, *(line for run in runs for line in run.evidence)]))
