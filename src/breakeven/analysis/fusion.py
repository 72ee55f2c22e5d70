"""What an execution wins within one framework: eager, a graph, a compiler; what it costs, when it pays back.

Knows nothing about other frameworks (`frameworks`). Each execution is set against the next plainer one at the
settings most like its own; what differs besides is named.
"""

import dataclasses
from collections.abc import Sequence

from breakeven.analysis import naming
from breakeven.analysis.building import PayBack, cost_of, pay_back
from breakeven.analysis.cases import Measured
from breakeven.analysis.findings import RatioFinding
from breakeven.analysis.framework_findings import FusionFinding
from breakeven.analysis.frameworks import inverse, places
from breakeven.analysis.pairs import Pair, refusal
from breakeven.analysis.ratios import step_ratios
from breakeven.records.case import Tuning

PLAINNESS = {
    "eager": 0,
    "tf.function": 1,
    "cuda-graph": 1,
    "fused": 2,
    "xla": 2,
    "jit": 2,
    "cuda-graph+fused": 3,
}
"""From operation by operation to compiled. `compile:MODE` is 2, captured too it is 3."""
FRAMEWORKS = tuple(naming.EXECUTIONS)


def fusion_of(shown: Sequence[Measured]) -> list[FusionFinding]:
    """One finding for every case that is more than eager, where several frameworks or executions ran; those
    of one work on one device are a family of tests."""
    found = []
    for mine in places(shown):
        cases = [m for m in mine if m.case.tuning.runtime in FRAMEWORKS]
        if len({m.case.tuning.runtime for m in cases}) < 2:
            continue  # one framework alone: its ladder, or its factors, tell the same
        drafts = [(_plainer(m, cases), m) for m in cases if _rank(m) > 0]
        pairs = [
            Pair(base=base, candidate=m, refused=refusal(base, m)) for base, m in drafts if base is not None
        ]
        ratios = iter(step_ratios(pairs))
        found += [_finding(base, m, next(ratios) if base is not None else None) for base, m in drafts]
    return found


def _rank(m: Measured) -> int:
    execution = m.case.tuning.execution
    if m.case.tuning.compile_mode is not None:
        return 3 if m.case.tuning.captured else 2
    return PLAINNESS.get(execution, 0)


def _plainer(m: Measured, cases: Sequence[Measured]) -> Measured | None:
    """The case of a plainer execution that differs least otherwise, the least plain of several."""
    tuning = m.case.tuning
    others = [
        o
        for o in cases
        if _rank(o) < _rank(m)
        and (o.case.tuning.runtime, o.case.tuning.precision, o.case.tuning.calibration)
        == (tuning.runtime, tuning.precision, tuning.calibration)
    ]
    return min(others, key=lambda o: (len(_also(o.case.tuning, tuning)), -_rank(o)), default=None)


def _also(base: Tuning, candidate: Tuning) -> tuple[str, ...]:
    """The settings that differ besides the execution, by name."""
    names = (f.name for f in dataclasses.fields(Tuning) if f.name != "execution")
    return tuple(name for name in names if getattr(base, name) != getattr(candidate, name))


def _finding(base: Measured | None, m: Measured, ratio: RatioFinding | None) -> FusionFinding:
    work, tuning, cost = m.case.work, m.case.tuning, cost_of(m)
    back, reasons = PayBack(), {}
    if base is None or ratio is None:
        plain = next(iter(naming.EXECUTIONS[tuning.runtime]))
        less = "eager" if plain == tuning.execution or tuning.runtime == "torch" else plain
        reasons["share"] = f"not measured with execution {less}"
    else:
        reasons |= {{"ratio": "share"}.get(name, name): why for name, why in ratio.reasons.items()}
        back = pay_back(m, base, ratio)
    if back.reason:
        reasons["pays_back"] = back.reason
    if cost is None:
        reasons["build_s"] = m.finding.failure or "nothing was built before the first step"
    elif cost.state is None:
        reasons["build_state"] = "captured or traced: no compiler's cache was told"
    return FusionFinding(
        task=work.task,
        model=work.model,
        data=work.data,
        batch=work.batch,
        seed=work.seed,
        device_label=m.finding.device_label,
        precision=tuning.precision,
        runtime=tuning.runtime,
        candidate_id=m.finding.case_id,
        candidate_name=naming.framework_name(tuning),
        tuning=m.preset,
        execution=tuning.execution,
        base_id=base.finding.case_id if base else None,
        base_tuning=base.preset if base else None,
        base_execution=base.case.tuning.execution if base else None,
        share=inverse(ratio.ratio) if ratio and ratio.ratio else None,
        point=1 / ratio.point if ratio and ratio.point else None,
        verdict=ratio.verdict if ratio else None,
        also=_also(base.case.tuning, tuning) if base else (),
        build_s=cost.seconds if cost else None,
        build_state=cost.state if cost else None,
        pays_back=back.steps,
        source=m.finding.source,
        evidence=(ratio.evidence if ratio else m.finding.evidence),
        reasons=reasons,
    )
