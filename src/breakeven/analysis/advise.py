"""Advice: what to run of each work under a user's limits, by the lines of one file.

Knows nothing about how it is shown. Every answer cites its lines; what they do not tell is said to be
unknown, with the command that would find out.
"""

import dataclasses
from collections.abc import Sequence

from breakeven.analysis import naming
from breakeven.analysis.advise_commands import Known, begin, more
from breakeven.analysis.advise_devices import money_of, priced_pairs
from breakeven.analysis.advise_family import Judged, Versus, judged, versus
from breakeven.analysis.advise_findings import Advice, Limits, Option, Prices, RuleFinding
from breakeven.analysis.advise_options import Candidate, candidate
from breakeven.analysis.advise_outputs import DROP
from breakeven.analysis.advise_phrases import changes_of, sentences_of
from breakeven.analysis.advise_rules import asked_of, finding
from breakeven.analysis.cases import Measured, measured_cases
from breakeven.analysis.compare_sides import words_by_case
from breakeven.analysis.inference import served_cases
from breakeven.analysis.integrity import believed, faults_of, left_out_lines
from breakeven.errors import UserError
from breakeven.records.canonical import digest
from breakeven.records.case import Task
from breakeven.records.file import Results

G_PER_J = 1 / 3.6e6
"""Kilowatt-hours a joule: times grams a kilowatt-hour it is grams a joule."""
IMAGES = 1e6
"""Images that a price of inference is for."""
UNASKED = Judged(verdict=None)
ENOUGH = 10
"""Processes that narrow most intervals: the last step of a study that adds them."""


def advise(
    results: Results,
    limits: Limits | None = None,
    *,
    prices: Prices | None = None,
    task: Task | None = None,
    co2_g_per_kwh: float | None = None,
    show_all: bool = False,
) -> list[Advice]:
    """Advice on every work of the file: of training each work by itself, of inference all batches together.

    Among cases that surely keep to the limits the fastest is chosen, or the cheapest where `prices` know all
    of their devices. `show_all`: also cases that the file's latest study no longer has. Raises UserError
    where the file has no case of `task`, or limits are of the other one.
    """
    limits = limits or Limits()
    task = _asked(limits, task)
    kept, said = believed(results)
    attempts = {a.attempt_id: a for a in kept.attempts}
    every = [m for m in measured_cases(kept) if task in (None, m.case.work.task)]
    cases = [m for m in every if show_all or m.finding.in_study]
    known = Known(cases=tuple(every), source=results.path, gpus=_gpus(kept))
    if not cases:
        raise UserError(f"{results.path} has no case" + (f" to {task}" if task else "") + _about(limits))
    served = {one.finding.case_id: one for one in served_cases(cases, kept, [])}
    found = []
    for mine in _groups(cases):
        names = _names(mine)
        made = {
            m.finding.case_id: candidate(
                m, served.get(m.finding.case_id), attempts, limits, prices, cases, names[m.finding.case_id]
            )
            for m in mine
        }
        pool = [c for c in made.values() if isinstance(c, Candidate)]
        left_out = [
            (names[m.finding.case_id], why) for m in mine if isinstance(why := made[m.finding.case_id], str)
        ]
        advice = _advice(mine, pool, limits, prices, co2_g_per_kwh, known)
        advice = dataclasses.replace(
            advice,
            left_out=tuple(left_out),
            source=results.path,
            limits=limits.said,
            hidden=len(every) - len(cases),
            faults=faults_of(results, said),
            left_out_lines=left_out_lines(results, said),
        )
        found.append(dataclasses.replace(advice, sentences=tuple(sentences_of(advice, limits))))
    return found


def _gpus(results: Results) -> bool:
    """Whether a machine of the file has a GPU that a command could run on."""
    return any(line.platform.get("gpus") for line in results.fingerprints) or any(
        a.device.kind == "cuda" for a in results.attempts
    )


def _asked(limits: Limits, task: Task | None) -> Task | None:
    """The task that the limits are about. UserError where they are about both, or not about the asked one."""
    serves = limits.max_p99_s is not None
    trains = limits.epochs is not None or limits.accuracy is not None
    if (serves and (trains or task == "train")) or (trains and task == "infer"):
        raise UserError("single calls are of inference, epochs and an accuracy to reach of training: ask one")
    return "infer" if serves else "train" if trains else task


def _about(limits: Limits) -> str:
    """Why a file of the other task has none: which limit asked for this one."""
    if limits.max_p99_s is not None:
        return ": --max-p99 is of single calls, so of inference"
    if limits.accuracy is not None or limits.epochs is not None:
        return ": --epochs and --accuracy are of training"
    return ""


def _groups(cases: Sequence[Measured]) -> list[list[Measured]]:
    """Cases that may stand in for each other: a larger batch of a training learns otherwise (R41)."""
    groups: dict[str, list[Measured]] = {}
    for m in cases:
        work = m.case.work if m.case.work.task == "train" else dataclasses.replace(m.case.work, batch=1)
        groups.setdefault(digest("work", work), []).append(m)
    return list(groups.values())


def _names(cases: Sequence[Measured]) -> dict[str, str]:
    """Case id -> its device and tuning always, and what else tells it from the others of its group."""
    words = {key: mine[1:] for key, mine in words_by_case(cases).items()}
    kept = [i for i in range(6) if i < 2 or len({w[i] for w in words.values()}) > 1]
    return {key: " ".join(mine[i] for i in kept if mine[i]) for key, mine in words.items()}


def _advice(
    mine: Sequence[Measured],
    pool: Sequence[Candidate],
    limits: Limits,
    prices: Prices | None,
    co2: float | None,
    known: Known,
) -> Advice:
    work = mine[0].case.work
    priced = prices is not None and bool(pool) and all(c.option.cost is not None for c in pool)
    ordered = sorted(pool, key=lambda c: _goodness(c, priced))
    fitting = [c for c in ordered if c.option.fit == "meets"]
    batch = f", batch {work.batch}" if work.task == "train" else ""
    advice = Advice(
        task=work.task,
        name=f"{work.model} ({work.data}{batch}{f', seed {work.seed}' if work.seed else ''})",
        objective="cost" if priced else "time",
        unit=_unit(work.task, limits, work.recipe.epochs if work.recipe else 0),
        currency=prices.currency if prices else None,
        options=tuple(c.option for c in ordered),
        simulated=any(m.finding.simulated for m in mine),
    )
    if prices is not None and not priced and pool:
        odd = next(naming.short(c.option.device_label) for c in pool if c.option.cost is None)
        advice = dataclasses.replace(advice, reasons={"cost": f"no price of {odd}"})
    if not fitting:
        return dataclasses.replace(advice, unknown=tuple(_undecided(pool, limits, work.task)))
    chosen, rest = fitting[0], fitting[1:]
    advice = dataclasses.replace(advice, choice=chosen.option, co2_g=_co2(chosen.option, work.task, co2))
    margins = [_against(rest[0], chosen, priced)] if rest else []
    asked, pairs = asked_of(chosen, pool), priced_pairs(fitting, prices) if prices else []
    hours = [found for *_, found in pairs if found is not None]
    told = iter(judged([*margins, *(found for _, found in asked if found is not None), *hours]))
    for found in margins:
        advice = _with_margin(advice, found, next(told))
    rules = [finding(rule, chosen, found, next(told) if found else UNASKED, known) for rule, found in asked]
    task, second = work.task, advice.runner_up
    advice = dataclasses.replace(
        advice,
        changes=tuple(changes_of(advice, [c.option for c in ordered], prices)),
        rules=tuple(rules),
        money=tuple(
            money_of(dear, cheap, prices, task, found, next(told) if found else UNASKED)
            for dear, cheap, found in pairs
            if prices
        ),
        unknown=tuple((_open(r, second), r.command) for r in rules if r.answer == "open" and r.command),
    )
    open_ones = [c for c in ordered if c.option.fit == "open"]
    better = [c for c in open_ones if _goodness(c, priced) < _goodness(chosen, priced)]
    return dataclasses.replace(advice, unknown=(*_undecided(better, limits, work.task), *advice.unknown))


def _goodness(c: Candidate, priced: bool) -> float:
    return c.option.cost if priced and c.option.cost is not None else c.option.seconds_point


def _unit(task: Task, limits: Limits, epochs: int) -> str:
    if task == "infer":
        return "an image"
    if limits.accuracy is not None:
        return f"a run to {100 * limits.accuracy:g} % accuracy"
    return f"a run of {limits.epochs or epochs} epochs"


def _against(second: Candidate, chosen: Candidate, priced: bool) -> Versus:
    """The choice against the runner-up: of seconds, or of costs."""
    a, b = second.option, chosen.option
    factor = 1.0
    if priced and a.cost and b.cost:
        factor = (a.cost / a.seconds_point) / (b.cost / b.seconds_point)
    return versus(second, chosen, factor)


def _with_margin(advice: Advice, found: Versus, judged: Judged) -> Advice:
    """Adds the runner-up and by how much the choice beats it."""
    a, b = found.base.option, found.chosen.option
    point = found.factor * a.seconds_point / b.seconds_point
    advice = dataclasses.replace(advice, runner_up=a, margin_point=point)
    if found.ratio is None:
        return dataclasses.replace(advice, reasons={**advice.reasons, "margin": found.why})
    return dataclasses.replace(
        advice, margin=found.ratio.interval, verdict=judged.verdict, processes_needed=judged.needed
    )


def _undecided(cases: Sequence[Candidate], limits: Limits, task: Task) -> list[tuple[str, str]]:
    """What is not known of cases that might do: (the case and its open limit, the command)."""
    found = []
    for c in cases:
        for kept in c.option.limits:
            if kept.fit == "open" and c.option.fit == "open":
                said = ": ".join(part for part in (kept.why, kept.said) if part not in ("", "-"))
                found.append((f"{c.option.label}: {kept.limit}: {said}", _find_out(c, kept.limit)))
    return found


def _find_out(c: Candidate, limit: str) -> str:
    """The command that would tell; "" where the images of the data's test set are too few for any."""
    if limit == DROP and c.served is not None and c.measured.case.work.weights is not None:
        return begin(c) if c.served.finding.outputs.agreement is None else ""
    if limit == DROP and c.measured.finding.simulated:
        return ""  # a simulated net learns nothing and takes no weights
    if limit == DROP:
        full = "--weights FILE"
        if c.measured.case.work.task == "train":
            full = f"{'' if c.full else '--full '}--set 'seed=[0, 1, 2]'"
        return (
            f"{begin(c, without='--precision')} --precision default,{c.measured.case.tuning.precision} {full}"
        )
    if limit == "p99" and c.served is not None and c.served.finding.quantile(0.99).interval is None:
        return f"{begin(c)} --set attempt_time=60"
    return more(c, ENOUGH)


def _co2(option: Option, task: Task, g_per_kwh: float | None) -> float | None:
    """Grams of a run, or of a million images, from measured joules and the user's factor."""
    if g_per_kwh is None or option.joules is None:
        return None
    return option.joules * (IMAGES if task == "infer" else 1.0) * G_PER_J * g_per_kwh


def _open(rule: RuleFinding, second: Option | None) -> str:
    """What is open of a rule; of the runner-up its margin has been said."""
    if rule.verdict is not None and second is not None and rule.other_id == second.case_id:
        return f"{rule.text.partition(':')[0]}, the runner-up's difference"
    return rule.text
