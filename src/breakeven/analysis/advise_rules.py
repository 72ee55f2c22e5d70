"""Deciding the rules of advice: is the choice faster than the best case that differs on one axis alone?

Knows nothing about limits or money. Rules are data (`catalog.rules`); Holm's correction runs over all of
them.
"""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence

from breakeven import stats, units
from breakeven.analysis import naming
from breakeven.analysis.advise_findings import RuleFinding
from breakeven.analysis.advise_options import Candidate
from breakeven.analysis.ratios import FEWEST, MARGIN, apart, one_unit
from breakeven.catalog.rules import Rule, rules
from breakeven.records.case import Case
from breakeven.records.tuning import presets

NOT_IN_TURN = "the two were not measured in turn"
MOST_ADDED = 100
"""Processes beyond which nobody is asked to add more."""


def ruled(chosen: Candidate, pool: Sequence[Candidate]) -> list[RuleFinding]:
    """What every rule of the task says of the choice; none where its axis does not apply."""
    case = chosen.measured.case
    mine = [rule for rule in rules() if rule.of(case.work.task) and _applies(rule, case)]
    others = [_best_other(rule, chosen, pool) for rule in mine]
    ratios = [None if other is None else ratio_of(other, chosen) for other in others]
    adjusted = iter(stats.holm([r.p_value for r in ratios if r is not None]))
    tests = sum(r is not None for r in ratios)
    return [
        _finding(rule, chosen, other, ratio, next(adjusted) if ratio is not None else 1.0, tests)
        for rule, other, ratio in zip(mine, others, ratios, strict=True)
    ]


def _applies(rule: Rule, case: Case) -> bool:
    """Data on the device has no loader, and the threads of a case are a CPU's question."""
    if rule.rule == "workers":
        return case.tuning.workers is not None
    return rule.rule != "threads" or case.device.kind == "cpu"


def ratio_of(base: Candidate, chosen: Candidate) -> stats.Ratio | None:
    """base seconds / chosen seconds, paired by replicate on the unit that both share."""
    a, b = one_unit(base.seconds, chosen.seconds)
    looks = sorted({*base.measured.looks, *chosen.measured.looks})
    return stats.paired_ratio(a, b, looks=looks) if a and b else None


def in_turn(base: Candidate, chosen: Candidate) -> bool:
    """Whether the two were measured in turn (R13): most of their processes by one parent, step by step."""
    shared = [key for key in base.seconds if key in chosen.seconds]
    return base.full or not apart(base.measured, chosen.measured, shared)


def differing(one: Case, other: Case) -> set[str]:
    """The fields in which two cases differ: `device`, `device.threads`, `work.NAME`, `tuning.NAME`."""
    found = {
        f"{part}.{f.name}"
        for part in ("work", "tuning", "device")
        for f in dataclasses.fields(getattr(one, part))
        if getattr(getattr(one, part), f.name) != getattr(getattr(other, part), f.name)
    }
    places = {name for name in found if name.startswith("device.") and name != "device.threads"}
    return (found - places) | ({"device"} if places else set())


def _allowed(rule: Rule, case: Case, other: Case) -> bool:
    """Whether two cases differ in what the rule is about, and in nothing else."""
    fields = differing(case, other)
    if rule.rule == "device":
        # A GPU takes page-locked memory where a CPU knows none: a setting that one side has not is no other.
        unset = {n for n in fields if n.startswith("tuning.") and _one_sided(n, case, other)}
        return "device" in fields and not fields - {"device"} - unset
    return bool(fields) and not fields - set(rule.differs)


def _one_sided(name: str, case: Case, other: Case) -> bool:
    field = name.partition(".")[2]
    return None in (getattr(case.tuning, field), getattr(other.tuning, field))


def _best_other(rule: Rule, chosen: Candidate, pool: Sequence[Candidate]) -> Candidate | None:
    here = chosen.measured.case
    others = [c for c in pool if c is not chosen and _allowed(rule, here, c.measured.case)]
    return min(others, key=lambda c: c.option.seconds_point, default=None)


def _finding(
    rule: Rule,
    chosen: Candidate,
    other: Candidate | None,
    ratio: stats.Ratio | None,
    p_adjusted: float,
    tests: int,
) -> RuleFinding:
    value = value_of(rule, chosen)
    if other is None:
        return RuleFinding(
            rule=rule.rule, answer="open", text=rule.open.format(value=value), command=_command(rule, chosen)
        )
    names = {"value": value, "other": value_of(rule, other)}
    found = RuleFinding(
        rule=rule.rule,
        answer="open",
        text=rule.says.format(**names),
        ratio=ratio.interval if ratio else None,
        other_id=other.option.case_id,
        evidence=chosen.option.evidence + other.option.evidence,
    )
    if not in_turn(other, chosen):
        return dataclasses.replace(found, text=f"{found.text}: {NOT_IN_TURN}", command=more(chosen, FEWEST))
    if ratio is None or ratio.interval.n < FEWEST:
        text = f"{found.text}: too few processes in common for a verdict"
        return dataclasses.replace(found, text=text, command=more(chosen, FEWEST))
    verdict = stats.verdict(ratio, margin=MARGIN, p_adjusted=p_adjusted)
    shown = units.format_ratio_interval(ratio.interval)
    found = dataclasses.replace(found, verdict=verdict)
    match verdict:
        case stats.Verdict.FASTER:
            return dataclasses.replace(found, answer="holds", text=f"{found.text}: {shown} as fast")
        case stats.Verdict.UNCERTAIN:
            needed = stats.processes_to_decide(ratio, margin=MARGIN, tests=tests)
            command = more(chosen, needed) if needed and needed <= MOST_ADDED else None
            return dataclasses.replace(found, text=f"{found.text}: cannot be told, {shown}", command=command)
    return dataclasses.replace(found, answer="does not hold", text=f"{rule.denies.format(**names)} ({shown})")


def value_of(rule: Rule, c: Candidate) -> str:
    """What a case has on the rule's axis, in a word."""
    m = c.measured
    tuning, work = m.case.tuning, m.case.work
    values: Mapping[str, object] = {
        "device": m.finding.device_label,
        "precision": tuning.precision,
        "batch": work.batch,
        "runtime": naming.without_numerics(m.finding.tuning_name),
        "tuning": m.finding.tuning_name,
        "workers": tuning.workers,
        "threads": m.case.device.threads or tuning.threads,
    }
    value = values[rule.rule]
    return "none" if value is None else str(value)


def begin(c: Candidate, *, without: str = "") -> str:
    """The command that measures this case, less one of its flags."""
    work, m = c.measured.case.work, c.measured
    flags = {
        "--data": work.data,
        "--batch": str(work.batch),
        "--device": m.finding.device_label,
        "--tuning": m.preset if m.preset in presets(work.task) else "",
        "--precision": m.case.tuning.precision if work.task == "infer" else "",
    }
    told = [f"{flag} {shlex.quote(value)}" for flag, value in flags.items() if value and flag != without]
    infer = ["--infer"] if work.task == "infer" else []
    full = ["--full"] if c.full else []
    return " ".join(["breakeven run", shlex.quote(work.model), *infer, *told, *full])


def _command(rule: Rule, c: Candidate) -> str:
    values = rule.values.split(",")
    if rule.rule == "device":
        values = [v for v in values if v.partition(":")[0] != c.measured.case.device.kind]
    if rule.rule in ("device", "precision"):
        values = list(dict.fromkeys([value_of(rule, c), *values]))
    return f"{begin(c, without=rule.flag)} {rule.flag} {shlex.quote(','.join(values))}"


def more(c: Candidate, processes: int) -> str:
    """The command that adds processes: of full runs where the candidate's seconds are theirs."""
    if c.full:
        return f"{begin(c)} --set full_replicates={processes}"
    return f"{begin(c)} --set replicates={processes} --set max_replicates={processes}"
