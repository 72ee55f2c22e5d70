"""Two results of the same cases, before and after or here and there: ratios, verdicts, and the gate.

Knows nothing about how cases were measured or how a comparison is shown. Cases are matched by id, so equal
work at equal tuning on an equal device; what else has to match is asked of every pair (`comparable`).
"""

import dataclasses
from collections.abc import Collection, Mapping, Sequence

from breakeven import stats
from breakeven.analysis.cases import Measured
from breakeven.analysis.comparable import Difference
from breakeven.analysis.compare_findings import CaseComparison, Comparison, Gate
from breakeven.analysis.compare_phrases import hidden_cases, sentences_of
from breakeven.analysis.compare_rows import drafts_of, settled
from breakeven.analysis.compare_sides import SAME_LINES, OneSide, names_of, one_side
from breakeven.analysis.ratios import MARGIN
from breakeven.errors import UserError
from breakeven.records.file import Results, damage


def compare(
    base: Results,
    new: Results,
    *,
    fail_if_slower: float | None = None,
    strict: bool = False,
    across: bool = False,
    only: Collection[str] | None = None,
    show_all: bool = False,
) -> Comparison:
    """Every case of both results: base time / new time with interval and verdict.

    `fail_if_slower`: the gate's threshold as a share. `across`: other machines may be compared, and there is
    no gate. `only`: these case ids. `show_all`: also cases that a file's latest study no longer has. Raises
    UserError where no case is in both, or a gate has nothing to decide on, or all that both hold is the same
    measurements.
    """
    if across and fail_if_slower is not None:
        raise UserError(
            "--across-machines compares machines: a slower one is no regression, so it has no gate"
        )
    if fail_if_slower is not None and (damaged := [r for r in (base, new) if r.unread]):
        # The line may be the slow process that would have failed it.
        raise UserError(f"a gate decides on whole files only: {damage(damaged[0])}")
    a, b = (one_side(results, show_all=show_all) for results in (base, new))
    both = [key for key in b.cases if key in a.cases and (only is None or key in only)]
    if not both:
        note = hidden_cases(a.hidden + b.hidden)
        why = "; ".join((*a.faults, *b.faults)) or "compare two runs of one study"
        raise UserError(f"{base.path} and {new.path} have no case in common: {why}{note}")
    margin = MARGIN if fail_if_slower is None else min(MARGIN, fail_if_slower)
    shown: dict[str, Difference] = {}
    drafts = [draft for key in both for draft in drafts_of(a, b, key, across, shown)]
    rows = settled(drafts, margin, fail_if_slower)
    if all(row.reasons.get("ratio", "").startswith(SAME_LINES) for row in rows):
        raise UserError(f"{SAME_LINES}: {base.path} and {new.path}; measure NEW anew (run --fresh, or -o)")
    names = names_of([*a.cases.values(), *b.cases.values()])
    rows = [dataclasses.replace(row, label=_label(row, names)) for row in rows]
    found = Comparison(
        base=base.path,
        new=new.path,
        cases=tuple(rows),
        across=across,
        hidden=a.hidden + b.hidden,
        show_all=show_all,
        simulated=any(side.cases[key].finding.simulated for side in (a, b) for key in both),
        shown=tuple(shown.values()),
        only_base=() if only else _alone(a, b, names),
        only_new=() if only else _alone(b, a, names),
        broken=tuple(_broken(a, b, both, names)),
        measured=(_when(a, both), _when(b, both)),
        in_pieces=tuple(names[key] for key in both if any(_apart(side, key) for side in (a, b))),
        faults=tuple(dict.fromkeys((*a.faults, *b.faults))),
        left_out_lines=a.left_out_lines + b.left_out_lines,
    )
    found = _with_mean(found, a, b)
    if fail_if_slower is not None:
        found = dataclasses.replace(found, gate=_gate(found, fail_if_slower, strict))
        # A gate that could judge nothing has not passed anything.
        if not any(row.verdict for row in rows):
            why = next((why for row in rows for why in row.reasons.values()), "no ratio")
            raise UserError(f"the gate has nothing to decide on: {rows[0].label}: {why}")
    return dataclasses.replace(found, sentences=tuple(sentences_of(found)))


def confirmed(first: Comparison, base: Results, again: Results) -> Comparison:
    """The comparison with the suspects' fresh processes beside it: those alone decide."""
    if first.gate is None:
        raise UserError("--confirm measures again what a gate fails: add --fail-if-slower 5%")
    second = compare(
        base,
        again,
        fail_if_slower=first.gate.threshold,
        strict=first.gate.strict,
        only=first.suspects,
        show_all=first.show_all,
    )
    found = dataclasses.replace(first, confirmed=second)
    return dataclasses.replace(found, sentences=tuple(sentences_of(found)))


def _alone(here: OneSide, there: OneSide, names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names[key] for key in here.cases if key not in there.cases)


def _broken(a: OneSide, b: OneSide, both: Sequence[str], names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Cases that gave a number before and none now."""
    return [
        (names[key], b.cases[key].finding.failure or "no number")
        for key in both
        if a.cases[key].steps and not b.cases[key].steps
    ]


def _when(side: OneSide, keys: Sequence[str]) -> str:
    """From when to when the processes of these cases began, to the second."""
    times = [time for key in keys for time in side.started(side.cases[key]) or ()]
    return f"{min(times)[:19]} to {max(times)[:19]} UTC" if times else ""


def _apart(side: OneSide, key: str) -> bool:
    """Whether processes of one case began on different days: other runs, other conditions."""
    times = side.started(side.cases[key])
    if times is None:
        return False
    first, last = (time[: len("2025-01-01")] for time in times)
    return first != last


def _label(row: CaseComparison, names: Mapping[str, str]) -> str:
    return names[row.case_id] + (", a single call" if row.of == "call" else "")


def _with_mean(found: Comparison, a: OneSide, b: OneSide) -> Comparison:
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
