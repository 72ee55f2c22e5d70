"""Sections about load: what MLPerf's LoadGen said of each case and scenario, and the trials of its searches.

Knows nothing about how a figure came about. None of them is an MLPerf result, and each place says so.
"""

from breakeven.analysis.findings import CaseFinding, Understanding
from breakeven.analysis.inference_findings import LoadFinding
from breakeven.report import words
from breakeven.report.inference_cells import KEYS, naming_of
from breakeven.report.names import Names
from breakeven.report.view import Cell, Column, Row, Section, absent, build_table, clean, label, number, said
from breakeven.units import format_duration

QUANTILES = ("p50", "p90", "p99", "p99.9")
FULL_S = 600.0
"""MLPerf's least duration of a run, seconds."""


def load(understanding: Understanding, names: Names) -> Section | None:
    """Each case and scenario by LoadGen."""
    columns = [
        *map(label, KEYS),
        Column(name="scenario", key=True),
        Column(name="unverified"),
        number("samples", "1/s"),
        number("interval"),
        *(number(name) for name in QUANTILES),
        number("empty"),
        Column(name="why"),
        Column(name="flags"),
    ]
    found = _known(understanding)
    table = build_table(columns, [_cells(one, case, names) for one, case in found])
    if table is None:
        return None
    note = f"{_whose([one for one, _ in found])} {READING}"
    return Section(key="load", title="Under load, by MLPerf's LoadGen (unverified)", note=note, table=table)


READING = (
    "unverified: LoadGen's own verdict on the settings given, by processes. Its clock, not ours: a latency "
    "begins when a query was due and holds the wait in the queue and the hand-over to one worker; p50 to "
    "p99.9 are medians over processes, of queries of eight samples in multi-stream. samples: of a server "
    "the greatest rate that fresh processes kept within the limit; interval: between processes. empty: "
    "places of a whole batch that no sample filled, computed all the same."
)


def _whose(found: list[LoadFinding]) -> str:
    """The disclosure that MLPerf's policy asks for, and what was shortened."""
    least = sorted({one.least_s for one in found if one.minimums == "shortened"})
    text = "Result not verified by MLCommons Association."
    if least:
        given = words.joined(format_duration(s) for s in least)
        text += (
            f" Not an MLPerf result: runs of {given} at least, where MLPerf asks {format_duration(FULL_S)}."
        )
    else:
        text += " Not an MLPerf result: MLPerf's model, data and accuracy are other ones."
    limits = sorted({one.limit_s for one in found if one.limit_s is not None})
    if limits:
        text += f" Server: 99 % within {words.joined(map(format_duration, limits), 'or')}."
    return text


def _known(understanding: Understanding) -> list[tuple[LoadFinding, CaseFinding]]:
    cases = {(c.source, c.case_id): c for c in understanding.cases}
    loads = understanding.inference.loads
    return [(f, cases[f.source, f.case_id]) for f in loads if (f.source, f.case_id) in cases]


def _cells(one: LoadFinding, case: CaseFinding, names: Names) -> Row:
    return (
        *naming_of(case, names),
        said(one.scenario),
        _verdict(one),
        _rate(one),
        words.spread(one.per_s, one.reasons.get("per_s", "")),
        *(_quantile(one, name) for name in QUANTILES),
        absent() if one.empty is None else Cell(text=words.percent(one.empty), sort=one.empty),
        said("; ".join(one.why)) if one.why else absent(),
        said(", ".join(one.flags)) if one.flags else absent(),
    )


def _verdict(one: LoadFinding) -> Cell:
    if not one.processes:
        return absent(one.reasons.get("per_s", ""))
    word = "VALID" if one.valid == one.processes else "INVALID"
    count = one.valid if word == "VALID" else one.processes - one.valid
    note = clean(f"minimums {one.minimums}: {format_duration(one.least_s)}")
    return said(f"{word} {count}/{one.processes}", note=note, evidence=one.evidence)


def _rate(one: LoadFinding) -> Cell:
    answer = one.answer
    if answer is None:
        shown = words.rate(one.per_s_point, one.reasons.get("per_s", ""))
        return Cell(text=shown.text, sort=shown.sort, note=shown.note, evidence=one.evidence)
    if answer.kind == "none":
        return said(
            "none", 0.0, note=f"not even {answer.failed:,.4g} queries a second", evidence=one.evidence
        )
    text = words.rate(answer.per_s).text
    note = f"{answer.failed:,.4g} failed" if answer.failed else "more was not tried"
    return Cell(
        text=f"over {text}" if answer.kind == "beyond" else text,
        sort=answer.per_s,
        note=note,
        evidence=one.evidence,
    )


def _quantile(one: LoadFinding, name: str) -> Cell:
    if one.scenario == "offline":
        return absent("all is asked at once: a latency is a place in the queue")
    interval, point = one.quantiles.get(name), one.quantile_points_s.get(name)
    reason = one.reasons.get(name) or "no interval"
    return words.seconds(interval, point, reason=reason, evidence=one.evidence)


def trials(understanding: Understanding, names: Names) -> Section | None:
    """Every trial of the searches, in its order."""
    columns = [
        *map(label, KEYS),
        number("asked", "1/s"),
        Column(name="purpose"),
        Column(name="unverified"),
        number("answered", "1/s"),
        number("p99"),
    ]
    rows = [
        (
            *naming_of(case, names),
            words.rate(trial.per_s),
            said(trial.purpose),
            said("VALID" if trial.valid else "INVALID", evidence=trial.evidence),
            words.rate(trial.completed_per_s),
            words.seconds(None, trial.p99_s, reason="one process", evidence=trial.evidence),
        )
        for one, case in _known(understanding)
        for trial in one.trials
    ]
    table = build_table(columns, rows)
    if table is None:
        return None
    note = (
        f"{_whose([one for one, _ in _known(understanding)])} The rate is doubled or halved until LoadGen's "
        "verdict changes, then bisected; fresh processes confirm the answer, or the next lower rate."
    )
    title = "The search for the greatest server rate (unverified)"
    return Section(key="load_trials", title=title, note=note, table=table, detail=True)
