"""Deciding the rules of advice: is the choice faster than the best case that differs on one axis alone?

Knows nothing about limits or money. Rules are data (`catalog.rules`); Holm's correction runs over all of
them.
"""

import dataclasses
import shlex
from collections.abc import Sequence

from breakeven import units
from breakeven.analysis import naming
from breakeven.analysis.advise_commands import Known, beside, together, value_in, value_of
from breakeven.analysis.advise_family import Judged, Versus, versus
from breakeven.analysis.advise_findings import RuleFinding
from breakeven.analysis.advise_options import Candidate
from breakeven.analysis.cases import Measured
from breakeven.analysis.ratios import FEWEST
from breakeven.catalog.rules import Rule, rules
from breakeven.records.case import Case
from breakeven.records.ladder import numerics
from breakeven.records.tuning import PRESETS, preset_used
from breakeven.stats import Verdict

KINDS = {"cpu": "CPU", "cuda": "GPU", "sim": "simulated device"}
MOST_ADDED = 100
"""Processes beyond which nobody is asked to add more."""


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


def _allowed(rule: Rule, m: Measured, other: Measured) -> bool:
    """Whether two cases differ in what the rule is about, and in nothing else."""
    one, two = m.case, other.case
    fields = differing(one, two)
    if rule.rule == "device":
        if "device" not in fields:
            return False
        # A GPU takes page-locked memory where a CPU knows none: a setting that one side has not is no other.
        unset = {n for n in fields if n.startswith("tuning.") and _one_sided(n, one, two)}
        return not fields - {"device"} - unset or _same_step(m, other, fields)
    return bool(fields) and not fields - set(rule.differs)


def _same_step(m: Measured, other: Measured, fields: set[str]) -> bool:
    """Whether two kinds of device stand at one step of the ladder, or at what stands for it there, in equal
    numerics: a report pairs them, for a CPU has no `cuda-graph`."""
    one, two = m.case, other.case
    if one.work != two.work or one.work.task != "train" or one.device.kind == two.device.kind:
        return False
    if "sim" in (one.device.kind, two.device.kind) or {"tuning.runtime", "tuning.env"} & fields:
        return False
    return numerics(one.tuning) == numerics(two.tuning) and _one_step(m, other)


def _one_step(m: Measured, other: Measured) -> bool:
    if not {m.preset, other.preset} <= set(PRESETS):
        return False
    return other.preset == preset_used(m.preset, other.case.device.kind) or m.preset == preset_used(
        other.preset, m.case.device.kind
    )


def _one_sided(name: str, case: Case, other: Case) -> bool:
    field = name.partition(".")[2]
    return None in (getattr(case.tuning, field), getattr(other.tuning, field))


def _best_other(rule: Rule, chosen: Candidate, pool: Sequence[Candidate]) -> Candidate | None:
    here = chosen.measured
    others = [c for c in pool if c is not chosen and _allowed(rule, here, c.measured)]
    return min(others, key=lambda c: c.option.seconds_point, default=None)


def finding(rule: Rule, chosen: Candidate, found: Versus | None, judged: Judged, known: Known) -> RuleFinding:
    """What the rule says of the choice, by the verdict of its comparison."""
    if found is None:
        return _alone(rule, chosen, known)
    other = found.base
    value, against = value_of(rule, chosen), value_of(rule, other)
    short = naming.short_labels([value, against])
    names = {"value": short[value], "other": short[against]}
    worth = _worths(chosen, other) if rule.rule == "precision" else ""
    stands = _stand_in(chosen, other) if rule.rule == "device" else ""
    said = RuleFinding(
        rule=rule.rule,
        answer="open",
        text=rule.says.format(**names) + worth + stands,
        ratio=found.ratio.interval if found.ratio else None,
        other_id=other.option.case_id,
        evidence=chosen.option.evidence + other.option.evidence,
    )
    if found.ratio is None:
        return dataclasses.replace(
            said, text=f"{said.text}: {found.why}", command=together(chosen, other, FEWEST)
        )
    shown = units.format_ratio_interval(found.ratio.interval)
    said = dataclasses.replace(said, verdict=judged.verdict)
    match judged.verdict:
        case Verdict.FASTER:
            return dataclasses.replace(said, answer="holds", text=f"{said.text}: {shown} as fast")
        case Verdict.UNCERTAIN:
            needed = judged.needed
            command = together(chosen, other, needed) if needed and needed <= MOST_ADDED else None
            return dataclasses.replace(said, text=f"{said.text}: cannot be told, {shown}", command=command)
    return dataclasses.replace(
        said, answer="does not hold", text=f"{rule.denies.format(**names)}{stands} ({shown})"
    )


def _worths(chosen: Candidate, other: Candidate) -> str:
    """What the outputs of both sides are worth, where it need be said: speed alone recommends nothing."""
    sides = [(c.measured.case.tuning.precision, c.option.worth) for c in (chosen, other) if c.option.worth]
    return f" ({'; '.join(f'{name}: {worth}' for name, worth in sides)})" if sides else ""


def _stand_in(chosen: Candidate, other: Candidate) -> str:
    """What the two devices run where that is not one tuning: a step may stand for one that is not there."""
    a, b = chosen.measured, other.measured
    if a.preset != b.preset:
        there = a if a.preset == preset_used(b.preset, a.case.device.kind) else b
        name = b.preset if there is a else a.preset
        return f" ({there.preset} stands for {name} on the {KINDS[there.case.device.kind]})"
    unlike = {n for n in differing(a.case, b.case) if n.startswith("tuning.")}
    return f" ({a.preset} as each has it)" if any(not _one_sided(n, a.case, b.case) for n in unlike) else ""


def _alone(rule: Rule, chosen: Candidate, known: Known) -> RuleFinding:
    """What to do where no case stands beside the choice: show what the file has, or measure what it lacks."""
    value = value_of(rule, chosen)
    here = chosen.measured
    held = [m for m in known.cases if m.case != here.case and _allowed(rule, here, m)]
    found = RuleFinding(rule=rule.rule, answer="open", text=rule.open.format(value=naming.short(value)))
    earlier = [m for m in held if not m.finding.in_study and not m.finding.failure]
    if earlier and chosen.measured.finding.in_study:
        names = ", ".join(dict.fromkeys(value_in(rule, m) for m in earlier))
        text = f"{found.text} by the file's latest study, {names} by earlier ones"
        return dataclasses.replace(
            found, text=text, command=f"breakeven advise {shlex.quote(known.source)} --all"
        )
    return dataclasses.replace(found, command=beside(rule, chosen, held, known))
