"""The sentences of a comparison: what a reader, or a log of continuous integration, sees first.

Knows nothing about how a ratio is worked out. A comparison across machines never says regression.
"""

from collections.abc import Iterator, Mapping, Sequence

from breakeven import units
from breakeven.analysis.compare_findings import AxisComparison, AxisMean, CaseComparison, Comparison, Gate
from breakeven.analysis.findings import RatioFinding
from breakeven.analysis.inference_findings import Outputs
from breakeven.stats import Verdict

MOST_NAMED = 6
FALL = 0.005
"""A fall of agreement or accuracy beyond so much, half a point, is named."""
ASKED = 12
"""Processes a side that the gate asks for (docs/ci.md)."""


def sentences_of(found: Comparison) -> Iterator[str]:
    """The comparison in sentences; with a confirmation, that is what decides."""
    if found.simulated:
        yield "SIMULATED: no hardware was measured. These numbers come from a planted model."
    if found.across:
        yield "Two machines and all that is on them are compared: nothing here is a regression."
    yield from _verdicts(found)
    yield from _missing(found)
    if found.in_pieces:
        yield f"Processes of one case began on different days: {_list(found.in_pieces)}; machines drift."
    for row in found.cases:
        if row.of == "step" and (fell := _fell(*row.outputs)):
            yield f"Answers got worse: {row.label}: {fell}."
    if found.gate is not None:
        yield from _gate(found, found.gate)


def _verdicts(found: Comparison) -> Iterator[str]:
    rows = found.cases
    counts = {word: [r for r in rows if r.verdict is word] for word in Verdict}
    told = [f"{len(counts[word])} {word.value}" for word in Verdict if counts[word]]
    none = sum(r.verdict is None for r in rows)
    told += [f"{none} without a verdict"] if none else []
    yield f"{_count(len(rows), 'comparison')}: {', '.join(told)}. {_mean(found)}"
    for word in (Verdict.SLOWER, Verdict.FASTER):
        if counts[word]:
            yield f"{word.value.capitalize()} (time): {_named(counts[word])}."
    if open_rows := counts[Verdict.UNCERTAIN]:
        yield _uncertain(open_rows)
    for why in dict.fromkeys(
        r.reasons.get("ratio") or r.reasons.get("verdict") for r in rows if not r.verdict
    ):
        names = [r.label for r in rows if not r.verdict and why in r.reasons.values()]
        yield f"No verdict on {_list(names)}: {why}."


def _mean(found: Comparison) -> str:
    if found.geometric is not None:
        ratio = units.format_ratio_interval(found.geometric)
        return f"Geometric mean of {_count(found.geometric_n, 'case')}: {ratio} as fast."
    if found.geometric_point is not None:
        cases = _count(found.geometric_n, "case")
        return f"Geometric mean of {cases}: about {found.geometric_point:.2f}x as fast."
    return ""


def _named(rows: Sequence[CaseComparison]) -> str:
    ordered = sorted(rows, key=lambda r: -abs(r.slower_by or 0.0))
    return _list([f"{r.label} {percent_of(r)}" for r in ordered])


def percent_of(row: CaseComparison) -> str:
    """By how many percent the time grew or shrank, with its interval: "+12 % [8, 16]"."""
    if row.ratio is None or row.slower_by is None:
        return ""
    low, high = 100 * (1 / row.ratio.high - 1), 100 * (1 / row.ratio.low - 1)
    digits = 0 if high - low >= 3 else 1
    return f"{100 * row.slower_by:+.{digits}f} % [{low:+.{digits}f}, {high:+.{digits}f}]"


def _uncertain(rows: Sequence[CaseComparison]) -> str:
    needed = [r.processes_needed for r in rows]
    known = [n for n in needed if n is not None]
    more = (
        f"about {max(known)} processes a side would decide" if known else "no number up to 1,000 would decide"
    )
    if known and len(known) < len(needed):
        more += f" {len(known)} of them, no number up to 1,000 the others"
    return f"Uncertain: {_list([r.label for r in rows])}; {more}."


def worth(base: Outputs | None, other: Outputs | None) -> str:
    """What the outputs of both sides are worth: "same top-1 99.8 % to 81.2 %"; empty if neither is known."""
    told = [
        f"{name} {_percent(a)} to {_percent(b)}"
        for name, a, b in _figures(base, other)
        if (a, b) != (None, None)
    ]
    random = any(o is not None and o.random for o in (base, other))
    return ", ".join(told) + (" (random weights)" if told and random else "")


def _fell(base: Outputs | None, other: Outputs | None) -> str:
    fell = any(a is not None and b is not None and a - b > FALL for _, a, b in _figures(base, other))
    return worth(base, other) if fell else ""


def _figures(base: Outputs | None, other: Outputs | None) -> Iterator[tuple[str, float | None, float | None]]:
    for name, field in (("same top-1", "agreement"), ("accuracy", "accuracy")):
        yield name, getattr(base, field, None), getattr(other, field, None)


def _percent(share: float | None) -> str:
    return "not known" if share is None else f"{100 * share:.1f} %"


def _missing(found: Comparison) -> Iterator[str]:
    for names, where in ((found.only_base, found.base), (found.only_new, found.new)):
        if names:
            yield f"Only in {where}: {_list(names)}."
    for name, why in found.broken:
        yield f"No longer gives a number: {name} ({why})."
    for fault in found.faults:
        yield f"Not believed: {fault}."


def _gate(found: Comparison, gate: Gate) -> Iterator[str]:
    limit = f"{100 * gate.threshold:g} %"
    again = found.confirmed
    if again is not None and again.gate is not None:
        first, failed = len(found.suspects), again.gate.failed
        yield f"Measured again by fresh processes: {_named(again.cases)}."
        if failed:
            yield f"FAILED: confirmed slower by more than {limit}: {_list(failed)}."
        elif not found.passed:
            yield f"FAILED (--strict): not decided: {_list((*gate.open, *again.gate.open))}."
        else:
            yield f"PASSED: of {_count(first, 'suspect')} none was confirmed slower by more than {limit}."
    elif gate.failed:
        yield f"FAILED: slower by more than {limit}: {_list(gate.failed)}."
    elif gate.strict and gate.open:
        yield f"FAILED (--strict): not decided: {_list(gate.open)}."
    else:
        yield f"PASSED: nothing is significantly slower by more than {limit}."
    yield from _power(gate)


def _power(gate: Gate) -> Iterator[str]:
    if gate.sees is None:
        if gate.processes < ASKED:
            yield f"{gate.processes} processes a side; the gate asks for {ASKED} (--set replicates={ASKED})."
        return
    sees = f"a slowdown of {100 * gate.sees:.2g} %" if gate.sees < 9 else "no slowdown below a factor of ten"
    text = (
        f"With {gate.processes} processes a side, {_count(gate.tests, 'comparison')} and a spread of "
        f"{100 * (gate.spread or 0):.2g} % between processes the gate sees {sees} (chance 80 %)"
    )
    if gate.sees > 2 * gate.threshold:
        more = f"{gate.needs} processes a side" if gate.needs else "more than 1,000 processes a side"
        text += f"; one of {200 * gate.threshold:g} % takes {more}"
    yield text + "."


def axis_sentences(found: AxisComparison) -> Iterator[str]:
    """The values of one axis against the base's, a sentence each."""
    if found.simulated:
        yield "SIMULATED: no hardware was measured. These numbers come from a planted model."
    names = dict(found.names)
    yield from (f"Not believed: {fault}." for fault in found.faults)
    yield from map(_axis_mean, found.geometric)
    by_verdict: dict[Verdict, list[RatioFinding]] = {}
    for r in found.ratios:
        if r.verdict is not None:
            by_verdict.setdefault(r.verdict, []).append(r)
    for word in (Verdict.FASTER, Verdict.SLOWER, Verdict.SAME, Verdict.UNCERTAIN):
        rows = by_verdict.get(word, [])
        if rows:
            told = [
                f"{names[r.candidate_id]} {ratio} over {found.values[r.base_id]}"
                for r in rows
                if r.ratio and (ratio := units.format_ratio_interval(r.ratio))
            ]
            yield f"{word.value.capitalize()}: {_list(told)}."
    yield from _answers(found, names)
    undecided: dict[str, list[str]] = {}
    for r in found.ratios:
        if r.verdict is None:
            why = r.reasons.get("ratio") or r.reasons.get("verdict") or "no ratio"
            undecided.setdefault(why.removesuffix(", no verdict"), []).append(names[r.candidate_id])
    for why, those in undecided.items():
        yield f"No verdict on {_list(those)}: {why}."


def _axis_mean(mean: AxisMean) -> str:
    """One value over its base; what has no mean of like terms is left to the table."""
    cases = _count(mean.cases, "case")
    if len(mean.bases) > 1:
        over = ", ".join(f"{base} in {_count(count, 'case')}" for base, count in mean.bases)
        return (
            f"{mean.value}: its bases differ ({over}), so there is no mean; each ratio stands in the table."
        )
    told = f"{mean.value} over {mean.bases[0][0]}"
    if mean.ratio is None:
        why = mean.reasons.get("ratio", "no interval")
        return f"{told}: {cases}, no mean and no verdict ({why}); each ratio stands in the table."
    text = (
        f"{told}: {units.format_ratio_interval(mean.ratio)} as fast, geometric mean of {cases}, "
        f"{mean.decided} of them decided"
    )
    doubt = mean.reasons.get("verdict")
    return f"{text}; no verdict on the mean: {doubt}." if doubt else f"{text}."


def hidden_cases(count: int) -> str:
    """What is said of cases of earlier studies that were not looked at; nothing of none."""
    return f"; {_count(count, 'case')} of earlier studies hidden (--all)" if count else ""


def _answers(found: AxisComparison, names: Mapping[str, str]) -> Iterator[str]:
    """What the answers of another precision are worth, and those of any other value that got worse.

    One sentence a value: of several cases the least and the greatest.
    """
    groups: dict[str, list[tuple[str, Outputs | None, Outputs | None]]] = {}
    for r in found.ratios:
        sides = found.outputs.get(r.base_id), found.outputs.get(r.candidate_id)
        if worth(*sides) and (found.by == "precision" or _fell(*sides)):
            groups.setdefault(found.values[r.candidate_id], []).append((names[r.candidate_id], *sides))
    for value, rows in groups.items():
        who = rows[0][0] if len(rows) == 1 else f"{value}, {_count(len(rows), 'case')}"
        yield f"Answers of {who}: {_worths([row[1:] for row in rows])}."


def _worths(sides: Sequence[tuple[Outputs | None, Outputs | None]]) -> str:
    """As `worth`, over several pairs: "same top-1 94.9 to 98.4 %, of their bases 100.0 %"."""
    if len(sides) == 1:
        return worth(*sides[0])
    told = []
    for i, (name, *_) in enumerate(_figures(None, None)):
        figures = [list(_figures(*pair))[i][1:] for pair in sides]
        if any(value is not None for pair in figures for value in pair):
            base, other = (_range([pair[k] for pair in figures]) for k in (0, 1))
            told.append(f"{name} {other}" + (f", of their bases {base}" if base != other else ""))
    random = any(o is not None and o.random for pair in sides for o in pair)
    return "; ".join(told) + (" (random weights)" if random else "")


def _range(shares: Sequence[float | None]) -> str:
    """The least and the greatest, and how many are not known."""
    known = [share for share in shares if share is not None]
    if not known:
        return "not known"
    low, high = f"{100 * min(known):.1f}", f"{100 * max(known):.1f}"
    none = len(shares) - len(known)
    return (f"{low} %" if low == high else f"{low} to {high} %") + (f" ({none} not known)" if none else "")


def _list(names: Sequence[str]) -> str:
    names = list(dict.fromkeys(names))
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[:MOST_NAMED])} and {len(names) - MOST_NAMED} more"
    return ", ".join(names)


def _count(number: int, word: str) -> str:
    return f"{units.format_count(number)} {word}{'' if number == 1 else 's'}"
