"""What MLPerf's LoadGen said of the cases of a file, over their processes.

Knows nothing about how LoadGen is driven. Its figures are its own and stay beside ours: nothing here is made
from blocks or single calls.
"""

import statistics
from collections.abc import Sequence

from breakeven import stats
from breakeven.analysis.findings import CaseFinding
from breakeven.analysis.inference_findings import InferenceFinding, LoadFinding, LoadTrial
from breakeven.analysis.naming import short, without_numerics
from breakeven.records import serving
from breakeven.records.file import Results
from breakeven.records.lines import SCENARIOS, Load
from breakeven.records.serving import Answer
from breakeven.units import format_duration

NS = 1e-9
ONE = "one process: no interval"
UNVERIFIED = "not verified by MLCommons"
MOST_SENTENCES = 2


def loads_of(results: Results, shown: Sequence[InferenceFinding]) -> list[LoadFinding]:
    """One finding a case, scenario and question (least duration, limit, wait), in the order of the cases."""
    found = []
    for case in shown:
        mine = [line for line in results.loads if line.case_id == case.case_id and _whole(line)]
        for scenario in SCENARIOS:
            asked: dict[tuple[object, ...], list[Load]] = {}
            for line in mine:
                if line.scenario == scenario:
                    asked.setdefault(_question(line), []).append(line)
            found += [_finding(lines, case.source) for lines in asked.values()]
    return found


def _whole(line: Load) -> bool:
    """Whether its ids belong to what it says it ran."""
    case = line.case
    return (case.case_id, case.work_id, case.tuning_id) == (line.case_id, line.work_id, line.tuning_id)


def _question(line: Load) -> tuple[object, ...]:
    given = line.settings
    wait = line.search.get("max_wait_ms") if line.search else None
    return line.minimums, given.get("min_duration_ms"), given.get("server_target_latency_ns"), wait


def _finding(lines: Sequence[Load], source: str) -> LoadFinding:
    first = lines[0]
    answer = _answer(lines) if first.scenario == "server" else None
    used = [line for line in lines if line.outcome == "ok" and line.validity is not None]
    if first.scenario == "server":
        used = _confirmed(used, answer)
    failed = [line for line in lines if line.outcome not in ("ok", "interrupted")]
    limit_ns = first.settings.get("server_target_latency_ns")
    rates = [rate for line in used if (rate := _rate(line)) is not None]
    per_s = stats.case_interval(rates) if len(rates) == len(used) else None
    own, too_few = _quantiles(used)
    intervals = {name: stats.case_interval(values) for name, values in own.items()}
    places = sum(line.served.get("calls", 0) * line.work.batch for line in used)
    reasons = too_few if per_s else too_few | {"per_s": _no_rate(first, used, rates, answer)}
    return LoadFinding(
        case_id=first.case_id,
        scenario=first.scenario,
        minimums=first.minimums,
        least_s=float(first.settings["min_duration_ms"]) / 1000,
        processes=len(used),
        valid=sum(line.validity == "VALID" for line in used),
        why=tuple(dict.fromkeys([*_invalid(used), *_failures(failed)])),
        per_s=per_s,
        per_s_point=stats.geometric_mean(rates) if rates else None,
        quantiles={name: interval for name, interval in intervals.items() if interval},
        quantile_points_s={name: statistics.median(values) for name, values in own.items() if values},
        empty=sum(line.served.get("empty_places", 0) for line in used) / places if places else None,
        limit_s=limit_ns * NS if isinstance(limit_ns, int) else None,
        wait_s=first.search.get("max_wait_ms", 0.0) / 1000 if first.search else None,
        answer=answer,
        trials=tuple(_trial(line) for line in lines if line.search and line.validity is not None),
        flags=tuple(sorted({flag for line in used for flag in line.flags})),
        source=source,
        evidence=tuple(line.load_id for line in used),
        reasons=reasons,
    )


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


def _invalid(used: Sequence[Load]) -> list[str]:
    """The reasons in our words: LoadGen's own stand in the line."""
    return [why for line in used for why in line.invalid_reasons if not why.startswith("LoadGen:")]


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
    """The greatest rates that a server kept, best first; each says whose figures these are."""
    known = {(c.source, c.case_id): c for c in cases}
    ended = [one for one in found if one.answer is not None and (one.source, one.case_id) in known]
    ended.sort(key=lambda one: -((one.answer and one.answer.per_s) or 0.0))
    return [_sentence(one, known[one.source, one.case_id]) for one in ended[:MOST_SENTENCES]]


def _sentence(one: LoadFinding, case: CaseFinding) -> str:
    assert one.answer is not None and one.limit_s is not None
    tuning = f"{without_numerics(case.tuning_name)} batch {case.case.work.batch}"
    who = f"{case.case.work.model} on {short(case.device_label)}, {tuning}"
    limit = f"99 % of the answers within {format_duration(one.limit_s)}"
    match one.answer.kind:
        case "none":
            what = f"not even {one.answer.failed:,.4g} queries a second have {limit}"
        case "beyond":
            what = f"at least {one.answer.per_s:,.4g} queries a second have {limit}; more was not tried"
        case _:
            what = f"up to {one.answer.per_s:,.4g} queries a second have {limit}"
    return f"By MLPerf's LoadGen ({UNVERIFIED}), {who}: {what}."
