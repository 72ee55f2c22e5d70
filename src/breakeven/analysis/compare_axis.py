"""The values of one axis within one result: precisions, devices, runtimes or tunings of equal work.

Knows nothing about verdicts: which cases make a pair is decided here, the rest is `ratios`.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from breakeven import stats
from breakeven.analysis import naming
from breakeven.analysis.cases import Measured, measured_cases
from breakeven.analysis.compare_findings import AxisComparison, AxisMean, By
from breakeven.analysis.compare_phrases import axis_sentences, hidden_cases
from breakeven.analysis.compare_sides import names_of, outputs_by_case, unranked
from breakeven.analysis.findings import RatioFinding
from breakeven.analysis.integrity import believed, faults_of, left_out_lines
from breakeven.analysis.pairs import Pair, baseline, pairs_of, refusal
from breakeven.analysis.processes import all_looks, shared_keys
from breakeven.analysis.ratios import FEWEST, step_ratios
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
    kept, found_wrong = believed(results)
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
    values = {m.finding.case_id: _value(m, by) for pair in pairs for m in (pair.base, pair.candidate)}
    found = AxisComparison(
        source=results.path,
        by=by,
        ratios=ratios,
        names=tuple(labels.items()),
        values=values,
        hidden=hidden,
        outputs=outputs,
        simulated=any(m.finding.simulated for m in cases),
        geometric=tuple(_means(pairs, ratios, values)),
        faults=faults_of(results, found_wrong),
        left_out_lines=left_out_lines(results, found_wrong),
    )
    return dataclasses.replace(found, sentences=tuple(axis_sentences(found)))


def _means(
    pairs: Sequence[Pair], ratios: Sequence[RatioFinding], values: Mapping[str, str]
) -> Iterator[AxisMean]:
    """The mean of each value with two ratios or more, where all of them are over one value of the axis."""
    groups: dict[str, list[tuple[Pair, RatioFinding]]] = {}
    for pair, ratio in zip(pairs, ratios, strict=True):
        if ratio.point is not None:
            groups.setdefault(values[ratio.candidate_id], []).append((pair, ratio))
    for value, terms in groups.items():
        if len(terms) > 1:
            yield _mean(value, terms, values)


def _mean(value: str, terms: Sequence[tuple[Pair, RatioFinding]], values: Mapping[str, str]) -> AxisMean:
    """Its interval is Student t over the means of each replicate: what a replicate shares stays in it."""
    bases = Counter(values[ratio.base_id] for _, ratio in terms).most_common()
    found = AxisMean(
        value=value,
        bases=tuple(bases),
        cases=len(terms),
        decided=sum(r.verdict not in (None, stats.Verdict.UNCERTAIN) for _, r in terms),
    )
    if len(bases) > 1:
        return dataclasses.replace(found, reasons={"ratio": "the bases differ"})
    sides = [side.steps for pair, _ in terms for side in (pair.base, pair.candidate)]
    keys = shared_keys(sides)
    if len(keys) < 2:
        return dataclasses.replace(found, reasons={"ratio": f"{_processes(len(keys))} in common"})
    base, candidate = (
        {key: stats.geometric_mean(side.steps[key] for side in half) for key in keys}
        for half in ([pair.base for pair, _ in terms], [pair.candidate for pair, _ in terms])
    )
    looks = all_looks(side.looks for pair, _ in terms for side in (pair.base, pair.candidate))
    ratio = stats.paired_ratio(base, candidate, looks=looks)
    reasons = {}
    if len(keys) < FEWEST:
        reasons["verdict"] = f"{_processes(len(keys))} in common: {FEWEST} are the fewest for a verdict"
    elif (why := next((r.reasons["verdict"] for _, r in terms if "verdict" in r.reasons), None)) is not None:
        reasons["verdict"] = why
    return dataclasses.replace(found, ratio=ratio.interval if ratio else None, reasons=reasons)


def _processes(count: int) -> str:
    return f"{count} process{'' if count == 1 else 'es'}"


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
