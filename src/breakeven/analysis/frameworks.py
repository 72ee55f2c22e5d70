"""The same net in each framework: every case against the base framework's of equal work, device and tuning.

Knows nothing about executions within one framework (`fusion`). Pairs of one work on one device are a family
of tests, as a ladder is.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from breakeven import stats
from breakeven.analysis import naming
from breakeven.analysis.cases import Measured
from breakeven.analysis.equality import barred, equality_of
from breakeven.analysis.findings import RatioFinding
from breakeven.analysis.framework_findings import Equality, FrameworkFinding
from breakeven.analysis.inference import Served
from breakeven.analysis.pairs import Pair
from breakeven.analysis.processes import all_looks
from breakeven.analysis.ratios import one_unit, step_ratios
from breakeven.records.case import applicable
from breakeven.records.lines import Check
from breakeven.records.tuning import in_own_way
from breakeven.stats import Interval


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Draft:
    base: Measured
    candidate: Measured
    equality: Equality

    @property
    def pair(self) -> Pair:
        return Pair(
            base=self.base,
            candidate=self.candidate,
            refused=barred(self.base, self.candidate, self.equality),
        )


def frameworks_of(
    shown: Sequence[Measured],
    checks: Mapping[str, Sequence[Check]],
    served: Sequence[Served],
    first: str | None,
) -> list[FrameworkFinding]:
    """Every pair, in the order of the study. `first`: the runtime that the study names first."""
    calls = {one.measured.finding.case_id: one for one in served}
    found = []
    for mine in places(shown):
        base = naming.base_runtime((m.case.tuning.runtime for m in mine), first)
        drafts = [
            _Draft(base=one, candidate=other, equality=equality_of(one, other, checks))
            for one in mine
            if one.case.tuning.runtime == base
            for other in _partners(one, mine)
        ]
        ratios = step_ratios([draft.pair for draft in drafts])
        found += [_finding(d, ratio, calls) for d, ratio in zip(drafts, ratios, strict=True)]
    return found


def places(shown: Sequence[Measured]) -> list[list[Measured]]:
    """The cases of each work on each device, but for simulated ones: what is planted has no framework."""
    found: dict[tuple[str, str], list[Measured]] = {}
    for m in shown:
        if m.case.tuning.runtime != "sim":
            found.setdefault((m.work_id, m.finding.device_label), []).append(m)
    return list(found.values())


def _partners(base: Measured, mine: Sequence[Measured]) -> Iterator[Measured]:
    """In every other runtime the case of the same name and numerics; else the one that the base's settings
    are there, for two presets may be one case."""
    names = dict.fromkeys(m.case.tuning.runtime for m in mine)
    for runtime in (name for name in names if name != base.case.tuning.runtime):
        alike = [m for m in mine if m.case.tuning.runtime == runtime and _numerics(m) == _numerics(base)]
        named = [m for m in alike if m.preset == base.preset]
        moved = in_own_way(dataclasses.replace(base.case.tuning, runtime=runtime))
        wanted = applicable(dataclasses.replace(base.case, tuning=moved)).tuning
        same = [m for m in alike if m.case.tuning == wanted]
        yield from (named or same)[:1]


def _numerics(m: Measured) -> tuple[str, str | None]:
    return m.case.tuning.precision, m.case.tuning.calibration


def _finding(draft: _Draft, ratio: RatioFinding, calls: Mapping[str, Served]) -> FrameworkFinding:
    base, candidate, equality = draft.base, draft.candidate, draft.equality
    work, tuning = base.case.work, base.case.tuning
    reasons = {{"ratio": "share"}.get(name, name): why for name, why in ratio.reasons.items()}
    verdict = ratio.verdict
    if equality.verdict != "equal" and ratio.point is not None:
        verdict, reasons["verdict"] = None, equality.why or equality.verdict
    single = _calls(calls.get(base.finding.case_id), calls.get(candidate.finding.case_id))
    if work.task == "infer" and single is None:
        reasons["calls"] = "fewer than two processes with single calls in common"
    return FrameworkFinding(
        task=work.task,
        model=work.model,
        data=work.data,
        batch=work.batch,
        seed=work.seed,
        device_label=base.finding.device_label,
        tuning=base.preset,
        precision=tuning.precision,
        input=None if work.task == "infer" else "native" if tuning.residency == "host" else "on the device",
        base_id=base.finding.case_id,
        candidate_id=candidate.finding.case_id,
        base_runtime=tuning.runtime,
        candidate_runtime=candidate.case.tuning.runtime,
        base_name=naming.framework_name(tuning),
        candidate_name=naming.framework_name(candidate.case.tuning),
        equality=equality,
        base_step_s=base.finding.step_s,
        base_point_s=base.finding.step_point_s,
        share=inverse(ratio.ratio) if ratio.ratio else None,
        point=1 / ratio.point if ratio.point else None,
        verdict=verdict,
        p_adjusted=ratio.p_adjusted,
        processes_needed=ratio.processes_needed,
        calls=single if ratio.point is not None else None,
        source=ratio.source,
        evidence=(*ratio.evidence, *equality.evidence),
        reasons=reasons,
    )


def _calls(base: Served | None, candidate: Served | None) -> Interval | None:
    """The median single call as a multiple of the base's, paired by replicate."""
    if base is None or candidate is None:
        return None
    looks = all_looks([base.measured.looks, candidate.measured.looks])
    found = stats.paired_ratio(*one_unit(base.middle_calls(), candidate.middle_calls()), looks=looks)
    return inverse(found.interval) if found else None


def inverse(ratio: Interval) -> Interval:
    """A ratio of rates as one of times."""
    return dataclasses.replace(ratio, low=1 / ratio.high, estimate=1 / ratio.estimate, high=1 / ratio.low)
