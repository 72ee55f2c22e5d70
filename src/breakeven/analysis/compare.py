"""Two results of the same cases, before and after or here and there: ratios, verdicts, and the gate.

Knows nothing about how cases were measured or how a comparison is shown. Cases are matched by id, so equal
work at equal tuning on an equal device; what else has to match is asked of every pair (`comparable`).
"""

import dataclasses
import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from breakeven import stats
from breakeven.analysis.cases import Measured, measured_cases
from breakeven.analysis.comparable import Difference, Side, gate, other_machine
from breakeven.analysis.compare_findings import CaseComparison, Comparison, Gate, Of
from breakeven.analysis.compare_phrases import sentences_of
from breakeven.analysis.integrity import believed
from breakeven.analysis.processes import NS
from breakeven.analysis.ratios import FEWEST, MARGIN, disturbed
from breakeven.errors import UserError
from breakeven.records.file import Results
from breakeven.records.lines import Attempt, StudyLine


@dataclass(frozen=True, kw_only=True, slots=True)
class _File:
    """One side: its cases by id, the attempts behind them, and what measured each."""

    path: str
    cases: Mapping[str, Measured]
    attempts: Mapping[str, Attempt]
    results: Results
    versions: Mapping[str, str]

    def side(self, m: Measured) -> Side:
        """The last of the processes that a case's numbers come from, with its machine."""
        attempt = self.used(m)[-1]
        lines = [f for f in self.results.fingerprints if f.fingerprint_id == attempt.fingerprint_id]
        version = self.versions.get(attempt.attempt_id)
        return Side(attempt=attempt, machine=lines[-1] if lines else None, tool_version=version)

    def used(self, m: Measured) -> list[Attempt]:
        """The processes behind the case's step, on the unit that its numbers are of."""
        mine = [self.attempts[line] for line in m.finding.evidence if line in self.attempts]
        return [a for a in mine if a.region == m.finding.region]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Draft:
    """A row before its verdict, which needs all of them."""

    row: CaseComparison
    ratio: stats.Ratio | None


def compare(
    base: Results,
    new: Results,
    *,
    fail_if_slower: float | None = None,
    strict: bool = False,
    across: bool = False,
    only: Collection[str] | None = None,
) -> Comparison:
    """Every case of both results: base time / new time with interval and verdict.

    `fail_if_slower`: the gate's threshold as a share. `across`: other machines may be compared, and there is
    no gate. `only`: these case ids. Raises UserError where no case is in both, or a gate has nothing to
    decide on.
    """
    if across and fail_if_slower is not None:
        raise UserError(
            "--across-machines compares machines: a slower one is no regression, so it has no gate"
        )
    a, b = _file(base), _file(new)
    both = [key for key in b.cases if key in a.cases and (only is None or key in only)]
    if not both:
        raise UserError(f"{base.path} and {new.path} have no case in common: compare two runs of one study")
    margin = MARGIN if fail_if_slower is None else min(MARGIN, fail_if_slower)
    shown: dict[str, Difference] = {}
    drafts = [draft for key in both for draft in _drafts(a, b, key, across, shown)]
    rows = _settled(drafts, margin, fail_if_slower)
    names = names_of([*a.cases.values(), *b.cases.values()])
    rows = [dataclasses.replace(row, label=_label(row, names)) for row in rows]
    found = Comparison(
        base=base.path,
        new=new.path,
        cases=tuple(rows),
        across=across,
        simulated=any(side.cases[key].finding.simulated for side in (a, b) for key in both),
        shown=tuple(shown.values()),
        only_base=() if only else _alone(a, b, names),
        only_new=() if only else _alone(b, a, names),
        broken=tuple(_broken(a, b, both, names)),
    )
    found = _with_mean(found, a, b)
    if fail_if_slower is not None:
        found = dataclasses.replace(found, gate=_gate(found, fail_if_slower, strict))
        if not any(row.ratio for row in rows):
            why = next((why for row in rows for why in row.reasons.values()), "no ratio")
            raise UserError(f"the gate has nothing to decide on: {rows[0].label}: {why}")
    return dataclasses.replace(found, sentences=tuple(sentences_of(found)))


def confirmed(first: Comparison, base: Results, again: Results) -> Comparison:
    """The comparison with the suspects' fresh processes beside it: those alone decide."""
    if first.gate is None:
        raise UserError("--confirm measures again what a gate fails: add --fail-if-slower 5%")
    second = compare(
        base, again, fail_if_slower=first.gate.threshold, strict=first.gate.strict, only=first.suspects
    )
    found = dataclasses.replace(first, confirmed=second)
    return dataclasses.replace(found, sentences=tuple(sentences_of(found)))


def _file(results: Results) -> _File:
    versions, current = dict[str, str](), None
    for line in results.lines:
        if isinstance(line, StudyLine):
            current = line.tool_version
        elif isinstance(line, Attempt) and current is not None:
            versions[line.attempt_id] = current
    kept, _ = believed(results)
    cases = {m.finding.case_id: m for m in measured_cases(kept) if m.finding.in_study}
    return _File(
        path=results.path,
        cases=cases,
        attempts={a.attempt_id: a for a in kept.attempts},
        results=kept,
        versions=versions,
    )


def _alone(here: _File, there: _File, names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names[key] for key in here.cases if key not in there.cases)


def _broken(a: _File, b: _File, both: Sequence[str], names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Cases that gave a number before and none now."""
    return [
        (names[key], b.cases[key].finding.failure or "no number")
        for key in both
        if a.cases[key].steps and not b.cases[key].steps
    ]


def names_of(cases: Sequence[Measured]) -> dict[str, str]:
    """Case id -> what tells it from the others: its model, and what is not the same in all."""
    words = {m.finding.case_id: _words(m) for m in cases}
    kept = [i for i in range(6) if i == 0 or len({w[i] for w in words.values()}) > 1]
    return {key: " ".join(mine[i] for i in kept) for key, mine in words.items()}


def _words(m: Measured) -> tuple[str, ...]:
    work = m.case.work
    own = work.model, m.finding.device_label, m.finding.tuning_name
    return (*own, f"batch {work.batch}", work.data, f"seed {work.seed}")


def _label(row: CaseComparison, names: Mapping[str, str]) -> str:
    return names[row.case_id] + (", a single call" if row.of == "call" else "")


def _bare(m: Measured, of: Of) -> CaseComparison:
    return CaseComparison(
        case_id=m.finding.case_id,
        case=m.case,
        tuning_name=m.finding.tuning_name,
        device_label=m.finding.device_label,
        of=of,
        processes=(0, 0),
    )


def _drafts(a: _File, b: _File, key: str, across: bool, shown: dict[str, Difference]) -> list[_Draft]:
    """The rows of one case: its step, and of inference single calls too."""
    one, two = a.cases[key], b.cases[key]
    row = dataclasses.replace(_bare(two, "step"), processes=(len(one.steps), len(two.steps)))
    for m, side in ((one, a), (two, b)):
        if not m.steps or not side.used(m):
            why = m.finding.failure or m.finding.reasons.get("step_s", "no number")
            return [_Draft(row=_because(row, ratio=f"{side.path}: {why}"), ratio=None)]
    sides = a.side(one), b.side(two)
    found, elsewhere = gate(*sides), other_machine(*sides)
    blocked = found.blocked if across else (*found.blocked, *elsewhere)
    shown |= {d.field: d for d in (*elsewhere, *found.shown) if d.field not in shown}
    if blocked:
        names = ", ".join(dict.fromkeys(_told(d) for d in blocked))
        row = _because(dataclasses.replace(row, blocked=blocked), ratio=f"not comparable: {names}")
        return [_Draft(row=row, ratio=None)]
    flags = tuple(sorted({*one.finding.flags, *two.finding.flags}))
    evidence = one.finding.evidence + two.finding.evidence
    drafts = []
    timed: tuple[Of, ...] = ("step", "call") if two.case.work.task == "infer" else ("step",)
    for of in timed:
        before, after = (_seconds(side, m, of) for side, m in ((a, one), (b, two)))
        if of == "step" or (before and after):
            drafts.append(_draft(_bare(two, of), before, after, (one, two), flags, evidence))
    return drafts


def _told(d: Difference) -> str:
    return (
        f"{d.field} ({d.unknown})" if d.unknown else f"{d.field} ({_short(d.base)} -> {_short(d.candidate)})"
    )


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:21]}..."


def _seconds(side: _File, m: Measured, of: Of) -> list[float]:
    """One value a process, in seconds: of the unit that the case's numbers are of."""
    if of == "step":
        return [
            s
            for (unit, _), s in sorted(m.steps.items(), key=lambda item: item[0][1])
            if unit == m.finding.unit
        ]
    calls = [a.calls_ns for a in side.used(m) if a.fingerprint_id == m.finding.unit]
    return [statistics.median(mine) * NS for mine in calls if mine and statistics.median(mine) > 0]


def _draft(
    row: CaseComparison,
    before: Sequence[float],
    after: Sequence[float],
    pair: tuple[Measured, Measured],
    flags: tuple[str, ...],
    evidence: tuple[str, ...],
) -> _Draft:
    base_s, new_s = stats.geometric_mean(before), stats.geometric_mean(after)
    ratio = stats.welch_ratio(before, after, looks=(pair[0].looks, pair[1].looks))
    row = dataclasses.replace(
        row,
        processes=(len(before), len(after)),
        base_s=base_s,
        new_s=new_s,
        point=base_s / new_s,
        slower_by=new_s / base_s - 1,
        ratio=ratio.interval if ratio else None,
        log_sd=ratio.log_sd / math.sqrt(2) if ratio else None,
        flags=flags,
        evidence=evidence,
    )
    if ratio is None:
        return _Draft(row=_because(row, ratio="one process a side: no interval, no verdict"), ratio=None)
    if any(disturbed(m.finding) for m in pair):
        row = _because(row, verdict="something else used the machine in most processes of a side")
    elif min(row.processes) < FEWEST:
        row = _because(
            row, verdict=f"{min(row.processes)} processes a side: {FEWEST} are the fewest for a verdict"
        )
    return _Draft(row=row, ratio=ratio)


def _settled(drafts: Sequence[_Draft], margin: float, threshold: float | None) -> list[CaseComparison]:
    """Every row with its verdict, after Holm's correction over all of them; and what the gate says."""
    known = [d.ratio for d in drafts if d.ratio is not None]
    adjusted = iter(stats.holm([r.p_value for r in known]))
    rows = [
        d.row if d.ratio is None else _judged(d.row, d.ratio, next(adjusted), len(known), margin)
        for d in drafts
    ]
    if threshold is None or not known:
        return rows
    slow = iter(
        stats.slowdowns(
            [math.log(r.interval.estimate) for r in known],
            [r.log_se for r in known],
            [r.df for r in known],
            threshold=threshold,
        )
    )
    return [
        row
        if d.ratio is None
        # No verdict, no failure: the machine was shared, or processes are too few.
        else dataclasses.replace(row, fails=bool(next(slow)) and row.verdict is not None)
        for row, d in zip(rows, drafts, strict=True)
    ]


def _judged(
    row: CaseComparison, ratio: stats.Ratio, p_adjusted: float, tests: int, margin: float
) -> CaseComparison:
    row = dataclasses.replace(row, p_adjusted=p_adjusted)
    if "verdict" in row.reasons:
        return row
    verdict = stats.verdict(ratio, margin=margin, p_adjusted=p_adjusted)
    needed = None
    if verdict is stats.Verdict.UNCERTAIN:
        needed = stats.processes_to_decide(ratio, margin=margin, tests=tests)
    return dataclasses.replace(row, verdict=verdict, processes_needed=needed)


def _with_mean(found: Comparison, a: _File, b: _File) -> Comparison:
    """Adds the geometric mean over cases. Its interval is Welch's over the means of each replicate: what the
    cases of one replicate share (the hour, a neighbour) stays in it."""
    rows = [row for row in found.cases if row.point is not None and row.of == "step"]
    if not rows:
        return dataclasses.replace(found, reasons={"geometric": "no case could be compared"})
    found = dataclasses.replace(
        found,
        geometric_point=stats.geometric_mean([row.point for row in rows if row.point is not None]),
        geometric_n=len(rows),
    )
    sides = [_means([side.cases[row.case_id] for row in rows]) for side in (a, b)]
    looks = [sorted({n for row in rows for n in side.cases[row.case_id].looks}) for side in (a, b)]
    ratio = stats.welch_ratio(*sides, looks=(looks[0], looks[1]))
    if ratio is None:
        why = "fewer than two replicates that all cases have on one machine"
        return dataclasses.replace(found, reasons={"geometric": why})
    return dataclasses.replace(found, geometric=ratio.interval)


def _means(cases: Sequence[Measured]) -> list[float]:
    """The geometric mean of all cases by replicate, of those that every case has."""
    keys = set(cases[0].steps).intersection(*(m.steps for m in cases[1:]))
    units = {unit for unit, _ in keys}
    keys = {key for key in keys if key[0] == min(units, key=str)}
    return [stats.geometric_mean(m.steps[key] for m in cases) for key in sorted(keys, key=lambda k: k[1])]


def _gate(found: Comparison, threshold: float, strict: bool) -> Gate:
    rows = [row for row in found.cases if row.ratio is not None]
    spreads = [row.log_sd for row in rows if row.log_sd]
    n = min((min(row.processes) for row in rows), default=0)
    spread = stats.pooled_spread(spreads)
    undecided = [row.label for row in found.cases if row.verdict in (None, stats.Verdict.UNCERTAIN)]
    known = spread and n >= 2
    return Gate(
        threshold=threshold,
        strict=strict,
        failed=tuple(row.label for row in found.cases if row.fails),
        open=(*undecided, *found.only_base),
        tests=len(rows),
        processes=n,
        spread=spread or None,
        sees=stats.visible_slowdown(spread, n, tests=len(rows), threshold=threshold) if known else None,
        needs=stats.processes_to_see(2 * threshold, spread, tests=len(rows), threshold=threshold)
        if known
        else None,
    )


def _because(row: CaseComparison, **reasons: str) -> CaseComparison:
    return dataclasses.replace(row, reasons={**row.reasons, **reasons})
