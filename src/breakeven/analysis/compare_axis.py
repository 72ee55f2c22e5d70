"""The values of one axis within one result: precisions, devices, runtimes or tunings of equal work.

Knows nothing about verdicts: which cases make a pair is decided here, the rest is `ratios`.
"""

import dataclasses
from collections.abc import Iterator, Sequence

from breakeven import stats
from breakeven.analysis import naming
from breakeven.analysis.cases import Measured, measured_cases
from breakeven.analysis.compare_findings import AxisComparison, By
from breakeven.analysis.compare_phrases import axis_sentences, hidden_cases
from breakeven.analysis.compare_sides import names_of, outputs_by_case, unranked
from breakeven.analysis.integrity import believed
from breakeven.analysis.pairs import Pair, baseline, pairs_of, refusal
from breakeven.analysis.ratios import step_ratios
from breakeven.errors import UserError
from breakeven.records.file import Results

AXES: tuple[By, ...] = ("precision", "device", "runtime", "tuning")


def compare_by(results: Results, by: By, *, show_all: bool = False) -> AxisComparison:
    """Each case against that of equal work with the base's value of `by`.

    The base is the study's baseline device; of the other axes the first value of the study that the work has.
    For `precision` all but precision and calibration is equal, for `runtime` the precision, for `tuning`
    nothing need be. `show_all`: also cases that the latest
    study no longer has. One family of tests. Raises UserError where the axis has one value.
    """
    kept, _ = believed(results)
    study = kept.studies[-1].study if kept.studies else {}
    every = measured_cases(kept)
    cases = [m for m in every if show_all or m.finding.in_study]
    hidden = len(every) - len(cases)
    if by == "device":
        base = baseline(list(dict.fromkeys(m.case.device for m in cases)), naming.text(study, "baseline"))
        pairs = pairs_of(cases, base) if base else []
    else:
        pairs = list(_pairs(cases, by))
    outputs = outputs_by_case(cases, kept)
    pairs = [
        dataclasses.replace(pair, refused=why)
        if (
            why := unranked(outputs.get(pair.base.finding.case_id))
            or unranked(outputs.get(pair.candidate.finding.case_id))
        )
        else pair
        for pair in pairs
    ]
    if not pairs:
        raise UserError(
            f"{results.path} has one {by} of each work: nothing to compare by {by}{hidden_cases(hidden)}"
        )
    ratios = tuple(step_ratios(pairs))
    labels = names_of(cases)
    values = {pair.candidate.finding.case_id: _value(pair.candidate, by) for pair in pairs}
    means: dict[str, list[float]] = {}
    for ratio in ratios:
        if ratio.point is not None:
            means.setdefault(values[ratio.candidate_id], []).append(ratio.point)
    found = AxisComparison(
        source=results.path,
        by=by,
        ratios=ratios,
        names=tuple(labels.items()),
        hidden=hidden,
        outputs=outputs,
        simulated=any(m.finding.simulated for m in cases),
        geometric=tuple((value, stats.geometric_mean(own), len(own)) for value, own in means.items()),
    )
    return dataclasses.replace(found, sentences=tuple(axis_sentences(found)))


def _value(m: Measured, by: By) -> str:
    match by:
        case "precision":
            return m.case.tuning.precision
        case "runtime":
            return m.case.tuning.runtime
        case "tuning":
            return m.finding.tuning_name
    return naming.short(m.finding.device_label)


def _pairs(cases: Sequence[Measured], by: By) -> Iterator[Pair]:
    groups: dict[tuple[object, ...], list[Measured]] = {}
    for m in cases:
        groups.setdefault((m.work_id, m.case.device, *_else_equal(m, by)), []).append(m)
    for members in groups.values():
        base = members[0]
        for m in members[1:]:
            if _value(m, by) != _value(base, by) and m.tuning_id != base.tuning_id:
                yield Pair(base=base, candidate=m, refused=refusal(base, m))


def _else_equal(m: Measured, by: By) -> tuple[object, ...]:
    """What two cases must share besides work and device."""
    t = m.case.tuning
    if by == "precision":
        return (dataclasses.replace(t, precision="default", calibration=None),)
    return (t.precision, t.calibration) if by == "runtime" else ()
