"""Deciding the rules of advice: is the choice faster than the best case that differs on one axis alone?

Knows nothing about limits or money. Rules are data (`catalog.rules`); Holm's correction runs over all of
them.
"""

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from breakeven import units
from breakeven.analysis import naming
from breakeven.analysis.advise_family import Judged, Versus, versus
from breakeven.analysis.advise_findings import RuleFinding
from breakeven.analysis.advise_options import Candidate
from breakeven.analysis.cases import Measured
from breakeven.analysis.ratios import FEWEST
from breakeven.catalog.rules import Rule, rules
from breakeven.records.case import Case
from breakeven.records.tuning import presets
from breakeven.stats import Verdict

SIM_PRESETS = "eager,channels-last,compiled"
"""What a simulated device can do of inference: it has no runtime besides its own."""
MOST_ADDED = 100
"""Processes beyond which nobody is asked to add more."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What the file holds besides the cases that compete: all `cases`, those of earlier studies too; `gpus`:
    whether its machine has one."""

    cases: tuple[Measured, ...]
    source: str
    gpus: bool


def asked_of(chosen: Candidate, pool: Sequence[Candidate]) -> list[tuple[Rule, Versus | None]]:
    """Every rule of the task whose axis applies to the choice, with the comparison that decides it."""
    case = chosen.measured.case
    mine = [rule for rule in rules() if rule.of(case.work.task) and _applies(rule, case)]
    others = [_best_other(rule, chosen, pool) for rule in mine]
    return [
        (rule, None if other is None else versus(other, chosen))
        for rule, other in zip(mine, others, strict=True)
    ]


def _applies(rule: Rule, case: Case) -> bool:
    """Data on the device has no loader, and the threads of a case are a CPU's question."""
    if rule.rule == "workers":
        return case.tuning.workers is not None
    return rule.rule != "threads" or case.device.kind == "cpu"


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


def finding(rule: Rule, chosen: Candidate, found: Versus | None, judged: Judged, known: Known) -> RuleFinding:
    """What the rule says of the choice, by the verdict of its comparison."""
    if found is None:
        return _alone(rule, chosen, known)
    other = found.base
    value, against = value_of(rule, chosen), value_of(rule, other)
    short = naming.short_labels([value, against])
    names = {"value": short[value], "other": short[against]}
    said = RuleFinding(
        rule=rule.rule,
        answer="open",
        text=rule.says.format(**names) + (_worths(chosen, other) if rule.rule == "precision" else ""),
        ratio=found.ratio.interval if found.ratio else None,
        other_id=other.option.case_id,
        evidence=chosen.option.evidence + other.option.evidence,
    )
    if found.ratio is None:
        return dataclasses.replace(said, text=f"{said.text}: {found.why}", command=more(chosen, FEWEST))
    shown = units.format_ratio_interval(found.ratio.interval)
    said = dataclasses.replace(said, verdict=judged.verdict)
    match judged.verdict:
        case Verdict.FASTER:
            return dataclasses.replace(said, answer="holds", text=f"{said.text}: {shown} as fast")
        case Verdict.UNCERTAIN:
            needed = judged.needed
            command = more(chosen, needed) if needed and needed <= MOST_ADDED else None
            return dataclasses.replace(said, text=f"{said.text}: cannot be told, {shown}", command=command)
    return dataclasses.replace(said, answer="does not hold", text=f"{rule.denies.format(**names)} ({shown})")


def _worths(chosen: Candidate, other: Candidate) -> str:
    """What the outputs of both sides are worth, where it need be said: speed alone recommends nothing."""
    sides = [(c.measured.case.tuning.precision, c.option.worth) for c in (chosen, other) if c.option.worth]
    return f" ({'; '.join(f'{name}: {worth}' for name, worth in sides)})" if sides else ""


def _alone(rule: Rule, chosen: Candidate, known: Known) -> RuleFinding:
    """What to do where no case stands beside the choice: show what the file has, or measure what it lacks."""
    value = value_of(rule, chosen)
    here = chosen.measured.case
    held = [m for m in known.cases if m.case != here and _allowed(rule, here, m.case)]
    found = RuleFinding(rule=rule.rule, answer="open", text=rule.open.format(value=naming.short(value)))
    earlier = [m for m in held if not m.finding.in_study and not m.finding.failure]
    if earlier and chosen.measured.finding.in_study:
        names = ", ".join(dict.fromkeys(_value(rule, m) for m in earlier))
        text = f"{found.text} by the file's latest study, {names} by earlier ones"
        return dataclasses.replace(
            found, text=text, command=f"breakeven advise {shlex.quote(known.source)} --all"
        )
    return dataclasses.replace(found, command=_command(rule, chosen, held, known))


def value_of(rule: Rule, c: Candidate) -> str:
    """What a case has on the rule's axis, in a word."""
    return _value(rule, c.measured)


def _value(rule: Rule, m: Measured) -> str:
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


def _command(rule: Rule, c: Candidate, held: Sequence[Measured], known: Known) -> str | None:
    """The command that measures what this machine can do and the file does not hold (`held` failed, or has no
    number); None where nothing is left."""
    m = c.measured
    values = rule.values.split(",")
    if m.finding.simulated:
        if rule.rule in ("device", "threads", "workers"):
            return None  # other planted devices are no other places to run
        values = SIM_PRESETS.split(",") if rule.rule == "runtime" else values
    if rule.rule == "device":
        values = [v for v in values if v.partition(":")[0] != m.case.device.kind]
        values = [v for v in values if known.gpus or not v.startswith("cuda")]
    if rule.rule == "runtime" and m.case.device.kind == "cuda":
        values = [v for v in values if v != "openvino"]  # it computes on CPUs
    here = value_of(rule, c)
    tried = {here, *(_value(rule, one) for one in held), *(one.preset for one in (m, *held))}
    left = [v for v in values if v not in tried]
    if not left:
        return None
    if rule.rule in ("device", "precision"):
        left = [m.finding.device_label if rule.rule == "device" else here, *left]
    elif m.preset in values:
        left = [v for v in values if v == m.preset or v in left]
    return f"{begin(c, without=rule.flag)} {rule.flag} {shlex.quote(','.join(left))}"


def more(c: Candidate, processes: int) -> str:
    """The command that adds processes: of full runs where the candidate's seconds are theirs."""
    if c.full:
        return f"{begin(c)} --set full_replicates={processes}"
    return f"{begin(c)} --set replicates={processes} --set max_replicates={processes}"
