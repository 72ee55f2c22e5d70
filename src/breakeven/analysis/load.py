"""What MLPerf's LoadGen said of the cases of a file, over their processes.

Knows nothing about how LoadGen is driven. Its figures are its own and stay beside ours: nothing here is made
from blocks or single calls.
"""

import dataclasses
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

from breakeven import stats
from breakeven.analysis.cases import mixed_of
from breakeven.analysis.findings import CaseFinding
from breakeven.analysis.inference_findings import InferenceFinding, LoadFinding, LoadTrial
from breakeven.analysis.naming import short, without_numerics
from breakeven.analysis.ratios import shared
from breakeven.records import serving
from breakeven.records.file import Results
from breakeven.records.lines import SCENARIOS, Attempt, Load
from breakeven.records.serving import Answer
from breakeven.units import format_duration

NS = 1e-9
ONE = "one process: no interval"
UNVERIFIED = "not verified by MLCommons"
MOST_SENTENCES = 2
MOST_CONTENDED = 2
"""Contended processes beyond which there is no verdict: a search rests on each of its trials."""


def loads_of(results: Results, shown: Sequence[InferenceFinding]) -> list[LoadFinding]:
    """One finding a case, scenario and question (least duration, limit, wait), in the order of the cases.

    `results` hold believed lines only (`integrity`).
    """
    found, attempts = [], {a.attempt_id: a for a in results.attempts}
    for case in shown:
        mine = [_judged(line) for line in results.loads if line.case_id == case.case_id]
        own = [attempts[line] for line in case.evidence if line in attempts]
        for scenario in SCENARIOS:
            asked: dict[tuple[object, ...], list[Load]] = {}
            for line in mine:
                if line.scenario == scenario:
                    asked.setdefault(_question(line), []).append(line)
            found += [_told(lines, case, own) for lines in asked.values()]
    return found


def _judged(line: Load) -> Load:
    """The line, INVALID where it contradicts its own VALID."""
    why = serving.contradiction(line)
    if why is None:
        return line
    return dataclasses.replace(line, validity="INVALID", invalid_reasons=(why, *line.invalid_reasons))


def _told(lines: Sequence[Load], case: InferenceFinding, own: Sequence[Attempt]) -> LoadFinding:
    """The finding, or why these lines give none. `own`: the attempts that the case's numbers come from."""
    here, elsewhere = _one_unit(lines, own)
    ended = [line for line in here if _ended(line)]
    refused = None if case.ranked else case.reasons.get("ranked", "no number")
    if refused is None and (mixed := mixed_of([*own, *ended])) is not None:
        refused = f"invalid: {mixed}"
    if refused is not None:
        reasons = {"per_s": refused}
        evidence = tuple(line.load_id for line in lines)
        return LoadFinding(
            **_asked(lines[0]),
            processes=0,
            valid=0,
            why=(refused,),
            source=case.source,
            evidence=evidence,
            reasons=reasons,
        )
    found = _finding(here, case.source)
    if elsewhere:
        text = f"{elsewhere} processes of other machines are left out"
        flags = tuple(sorted({*found.flags, "several_units"}))
        found = dataclasses.replace(found, why=(*found.why, text), flags=flags)
    return found


def _one_unit(lines: Sequence[Load], own: Sequence[Attempt]) -> tuple[list[Load], int]:
    """The lines of the unit that has most of those that came to a verdict, and how many others did.

    Of equals the unit of the case's own attempts.
    """
    counts = Counter(line.fingerprint_id for line in lines if _ended(line))
    if len(counts) < 2:
        return list(lines), 0
    units = {a.fingerprint_id for a in own}
    unit = max(counts, key=lambda name: (counts[name], name in units))
    return [line for line in lines if line.fingerprint_id == unit], counts.total() - counts[unit]


def _ended(line: Load) -> bool:
    return line.outcome == "ok" and line.validity is not None


def _asked(first: Load) -> dict[str, Any]:
    """What all lines of a question share."""
    limit_ns = first.settings.get("server_target_latency_ns")
    return {
        "case_id": first.case_id,
        "scenario": first.scenario,
        "minimums": first.minimums,
        "least_s": float(first.settings["min_duration_ms"]) / 1000,
        "limit_s": limit_ns * NS if isinstance(limit_ns, int) else None,
        "wait_s": first.search.get("max_wait_ms", 0.0) / 1000 if first.search else None,
    }


def _question(line: Load) -> tuple[object, ...]:
    given = line.settings
    wait = line.search.get("max_wait_ms") if line.search else None
    return line.minimums, given.get("min_duration_ms"), given.get("server_target_latency_ns"), wait


def _finding(lines: Sequence[Load], source: str) -> LoadFinding:
    first = lines[0]
    answer = _answer(lines) if first.scenario == "server" else None
    used = ended = [line for line in lines if _ended(line)]
    if first.scenario == "server":
        used = _confirmed(used, answer)
    failed = [line for line in lines if line.outcome not in ("ok", "interrupted")]
    others = sum("contended" in line.flags for line in ended)
    disturbed = others > MOST_CONTENDED or shared(others, len(ended)) or _shared(used)
    busy = f"no verdict: something else used the machine in {others} of {len(ended)} processes"
    rates = [rate for line in used if (rate := _rate(line)) is not None]
    per_s = stats.case_interval(rates) if len(rates) == len(used) and not disturbed else None
    own, too_few = _quantiles(used)
    intervals = {} if disturbed else {name: stats.case_interval(values) for name, values in own.items()}
    places = sum(line.served.get("calls", 0) * line.work.batch for line in used)
    reasons = too_few
    if per_s is None:
        reasons = too_few | {"per_s": busy if disturbed else _no_rate(first, used, rates, answer)}
    return LoadFinding(
        **_asked(first),
        processes=len(used),
        valid=sum(line.validity == "VALID" for line in used),
        why=tuple(
            dict.fromkeys([*([busy] if disturbed else []), *_invalid(used, ended), *_failures(failed)])
        ),
        per_s=per_s,
        per_s_point=stats.geometric_mean(rates) if rates else None,
        quantiles={name: interval for name, interval in intervals.items() if interval},
        quantile_points_s={name: statistics.median(values) for name, values in own.items() if values},
        empty=sum(line.served.get("empty_places", 0) for line in used) / places if places else None,
        answer=answer,
        trials=tuple(_trial(line) for line in ended if line.search),
        disturbed=disturbed,
        flags=tuple(sorted({flag for line in [*used, *(ended if disturbed else [])] for flag in line.flags})),
        source=source,
        evidence=tuple(line.load_id for line in used),
        reasons=reasons,
    )


def _shared(lines: Sequence[Load]) -> bool:
    return shared(sum("contended" in line.flags for line in lines), len(lines))


def _answer(lines: Sequence[Load]) -> Answer | None:
    """What the search came to; None where trials are missing."""
    bounds = serving.bounds_of(lines)
    if bounds is None:
        return None
    found = serving.next_trial(serving.trials_of(lines), bounds)
    return found if isinstance(found, Answer) else None


def _confirmed(used: Sequence[Load], answer: Answer | None) -> list[Load]:
    """The fresh processes at the rate found; where there is none, those at the least rate that failed."""
    if answer is None:
        return []
    rate, purpose = (answer.failed, None) if answer.kind == "none" else (answer.per_s, "confirm")
    at = [line for line in used if line.settings.get("server_target_qps") == rate]
    return [line for line in at if purpose is None or line.purpose == purpose]


def _rate(line: Load) -> float | None:
    """Samples a second by LoadGen: of single-stream its queries, which hold one each."""
    names = ("samples", "completed_samples", "queries_with_loadgen")
    return next((line.per_s[name] for name in names if line.per_s.get(name)), None)


def _quantiles(used: Sequence[Load]) -> tuple[dict[str, list[float]], dict[str, str]]:
    """Seconds by quantile, a value a process; and why one is left out that LoadGen gives all the same: a
    process has fewer queries than its quantile takes (contract R11).
    """
    own: dict[str, list[float]] = {}
    too_few: dict[str, str] = {}
    fewest = min((_queries(line) for line in used), default=0)
    for name in used[0].latency_ns if used else ():
        if not name.startswith("p"):
            continue
        needed = stats.samples_for_percentile(float(name[1:]) / 100)
        if fewest < needed:
            too_few[name] = f"too few queries: {name[1:]} % takes {needed:,}"
        elif all(line.latency_ns.get(name) for line in used):
            own[name] = [line.latency_ns[name] * NS for line in used]
    return own, too_few


def _queries(line: Load) -> int:
    samples = line.served.get("samples", 0)
    return int(samples) // int(line.settings.get("multi_stream_samples_per_query", 1))


def _no_rate(first: Load, used: Sequence[Load], rates: Sequence[float], answer: Answer | None) -> str:
    if first.scenario == "server" and answer is None:
        return "the search has not ended"
    if not used:
        return "no process came to a verdict"
    if not rates:
        return "LoadGen gives no rate of multi-stream"
    return ONE


def _invalid(used: Sequence[Load], ended: Sequence[Load]) -> list[str]:
    """The reasons in our words (LoadGen's own stand in the line), and every VALID that is contradicted."""
    own = [why for line in used for why in line.invalid_reasons if not why.startswith("LoadGen:")]
    return own + [
        why for line in ended for why in line.invalid_reasons if why.startswith(serving.CONTRADICTED)
    ]


def _failures(failed: Sequence[Load]) -> list[str]:
    return [f"{line.outcome}: {line.reason}" for line in failed]


def _trial(line: Load) -> LoadTrial:
    p99 = line.latency_ns.get("p99")
    return LoadTrial(
        per_s=float(line.settings["server_target_qps"]),
        purpose=line.purpose,
        valid=line.validity == "VALID",
        completed_per_s=_rate(line),
        p99_s=None if p99 is None else p99 * NS,
        evidence=(line.load_id,),
    )


def load_sentences(found: Sequence[LoadFinding], cases: Sequence[CaseFinding]) -> list[str]:
    """The greatest rates that a server kept, best first; each says whose figures these are.

    None of a machine that was shared meanwhile.
    """
    known = {(c.source, c.case_id): c for c in cases}
    ended = [one for one in found if one.answer and not one.disturbed and (one.source, one.case_id) in known]
    ended.sort(key=lambda one: -((one.answer and one.answer.per_s) or 0.0))
    return [_sentence(one, known[one.source, one.case_id]) for one in ended[:MOST_SENTENCES]]


def _sentence(one: LoadFinding, case: CaseFinding) -> str:
    assert one.answer is not None and one.limit_s is not None
    tuning = f"{without_numerics(case.tuning_name)} batch {case.case.work.batch}"
    who = f"{case.case.work.model} on {short(case.device_label)}, {tuning}"
    limit = f"99 % answered within {format_duration(one.limit_s)}"
    match one.answer.kind:
        case "none":
            what = f"not even {one.answer.failed:,.4g} queries/s have {limit}"
        case "beyond":
            what = f"at least {one.answer.per_s:,.4g} queries/s have {limit}; more was not tried"
        case _:
            what = f"up to {one.answer.per_s:,.4g} queries/s have {limit}"
    return f"By LoadGen ({UNVERIFIED}), {who}: {what}."
