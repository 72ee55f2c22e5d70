"""Advice: what to run of each work under a user's limits, by the lines of one file.

Knows nothing about how it is shown. Every answer cites its lines; what they do not tell is said to be
unknown, with the command that would find out.
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal

from breakeven import stats
from breakeven.analysis.advise_findings import Advice, Limits, MoneyFinding, Option, Prices
from breakeven.analysis.advise_money import monthly, monthly_against_hours
from breakeven.analysis.advise_options import Candidate, candidate
from breakeven.analysis.advise_phrases import changes_of, sentences_of
from breakeven.analysis.advise_rules import NOT_IN_TURN, begin, in_turn, more, ratio_of, ruled
from breakeven.analysis.cases import Measured, measured_cases
from breakeven.analysis.compare_sides import words_of
from breakeven.analysis.inference import served_cases
from breakeven.analysis.integrity import believed
from breakeven.analysis.ratios import FEWEST, MARGIN
from breakeven.errors import UserError
from breakeven.records.canonical import digest
from breakeven.records.case import Task
from breakeven.records.file import Results

G_PER_J = 1 / 3.6e6
"""Kilowatt-hours a joule: times grams a kilowatt-hour it is grams a joule."""
IMAGES = 1e6
"""Images that a price of inference is for."""
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
    kept, _ = believed(results)
    attempts = {a.attempt_id: a for a in kept.attempts}
    cases = [m for m in measured_cases(kept) if show_all or m.finding.in_study]
    cases = [m for m in cases if task in (None, m.case.work.task)]
    if not cases:
        raise UserError(f"{results.path} has no case" + (f" to {task}" if task else ""))
    served = {one.finding.case_id: one for one in served_cases(cases, kept, [])}
    found = []
    for mine in _groups(cases):
        names = _names(mine)
        made = {
            m.finding.case_id: candidate(
                m, served.get(m.finding.case_id), attempts, limits, prices, mine, names[m.finding.case_id]
            )
            for m in mine
        }
        pool = [c for c in made.values() if isinstance(c, Candidate)]
        left_out = [
            (names[m.finding.case_id], why) for m in mine if isinstance(why := made[m.finding.case_id], str)
        ]
        advice = _advice(mine, pool, limits, prices, co2_g_per_kwh)
        advice = dataclasses.replace(advice, left_out=tuple(left_out), source=results.path)
        found.append(dataclasses.replace(advice, sentences=tuple(sentences_of(advice, limits))))
    return found


def _asked(limits: Limits, task: Task | None) -> Task | None:
    """The task that the limits are about. UserError where they are about both, or not about the asked one."""
    serves = limits.max_p99_s is not None
    trains = limits.epochs is not None or limits.accuracy is not None
    if (serves and (trains or task == "train")) or (trains and task == "infer"):
        raise UserError("single calls are of inference, epochs and an accuracy to reach of training: ask one")
    return "infer" if serves else "train" if trains else task


def _groups(cases: Sequence[Measured]) -> list[list[Measured]]:
    """Cases that may stand in for each other: a larger batch of a training learns otherwise (R41)."""
    groups: dict[str, list[Measured]] = {}
    for m in cases:
        work = m.case.work if m.case.work.task == "train" else dataclasses.replace(m.case.work, batch=1)
        groups.setdefault(digest("work", work), []).append(m)
    return list(groups.values())


def _names(cases: Sequence[Measured]) -> dict[str, str]:
    """Case id -> its device and tuning always, and what else tells it from the others of its group."""
    words = {m.finding.case_id: words_of(m)[1:] for m in cases}
    kept = [i for i in range(6) if i < 2 or len({w[i] for w in words.values()}) > 1]
    return {key: " ".join(mine[i] for i in kept if mine[i]) for key, mine in words.items()}


def _advice(
    mine: Sequence[Measured],
    pool: Sequence[Candidate],
    limits: Limits,
    prices: Prices | None,
    co2: float | None,
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
        odd = next(c.option.device_label for c in pool if c.option.cost is None)
        advice = dataclasses.replace(advice, reasons={"cost": f"no price of {odd}"})
    if not fitting:
        return dataclasses.replace(advice, unknown=tuple(_undecided(pool, limits, work.task)))
    chosen, rest = fitting[0], fitting[1:]
    advice = dataclasses.replace(advice, choice=chosen.option, co2_g=_co2(chosen.option, work.task, co2))
    if rest:
        advice = _with_margin(advice, rest[0], chosen, priced)
    rules = ruled(chosen, pool)
    advice = dataclasses.replace(
        advice,
        changes=tuple(changes_of(advice, [c.option for c in ordered], prices)),
        rules=tuple(rules),
        money=tuple(_money(fitting, prices, work.task)) if prices else (),
        unknown=tuple((r.text, r.command) for r in rules if r.answer == "open" and r.command),
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


def _with_margin(advice: Advice, second: Candidate, chosen: Candidate, priced: bool) -> Advice:
    """Adds the runner-up and by how much the choice beats it."""
    costs = second.option.cost, chosen.option.cost
    factor = 1.0
    if priced and costs[0] and costs[1]:
        a, b = second.option, chosen.option
        factor = (costs[0] / a.seconds_point) / (costs[1] / b.seconds_point)
    point = factor * second.option.seconds_point / chosen.option.seconds_point
    advice = dataclasses.replace(advice, runner_up=second.option, margin_point=point)
    ratio, why = ratio_of(second, chosen), "too few processes in common for a verdict"
    if not in_turn(second, chosen):
        ratio, why = None, NOT_IN_TURN
    if ratio is None or ratio.interval.n < FEWEST:
        return dataclasses.replace(advice, reasons={**advice.reasons, "margin": why})
    ratio = stats.scaled(
        ratio, factor
    )  # a price is no measurement: it moves the ratio, and leaves its spread
    verdict = stats.verdict(ratio, margin=MARGIN, p_adjusted=ratio.p_value)
    needed = stats.processes_to_decide(ratio, margin=MARGIN) if verdict is stats.Verdict.UNCERTAIN else None
    return dataclasses.replace(advice, margin=ratio.interval, verdict=verdict, processes_needed=needed)


def _undecided(cases: Sequence[Candidate], limits: Limits, task: Task) -> list[tuple[str, str]]:
    """What is not known of cases that might do: (the case and its open limit, the command)."""
    found = []
    for c in cases:
        for kept in c.option.limits:
            if kept.fit == "open" and c.option.fit == "open":
                found.append(
                    (f"{c.option.label}: {kept.limit}: {kept.why or kept.said}", _find_out(c, kept.limit))
                )
    return found


def _find_out(c: Candidate, limit: str) -> str:
    if limit == "accuracy":
        full = "--weights FILE"
        if c.measured.case.work.task == "train":
            full = f"{'' if c.full else '--full '}--set full_replicates=3"
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


def _money(fitting: Sequence[Candidate], prices: Prices, task: Task) -> list[MoneyFinding]:
    """The best case of each device that keeps to the limits, every two of them."""
    best: dict[str, Candidate] = {}
    for c in fitting:
        mine = best.get(c.option.device_label)
        if mine is None or c.option.seconds_point < mine.option.seconds_point:
            best[c.option.device_label] = c
    priced = [c.option for c in best.values() if prices.of(c.option.device_label)]
    pairs = [(a, b) for i, a in enumerate(priced) for b in priced[i + 1 :]]
    return [_pair(a, b, prices, task) for a, b in pairs]


def _pair(a: Option, b: Option, prices: Prices, task: Task) -> MoneyFinding:
    """The device that costs more a month or hour is the dear one."""
    by_label = {o.device_label: p for o in (a, b) if (p := prices.of(o.device_label)) is not None}
    dear, cheap = sorted((a, b), key=lambda o: -by_label[o.device_label].an_hour)
    p, q = by_label[dear.device_label], by_label[cheap.device_label]
    ratio = None
    if p.hour is not None and q.hour is not None:
        ratio = (cheap.seconds_point * q.hour) / (dear.seconds_point * p.hour)
    found = MoneyFinding(
        dear=dear.device_label,
        cheap=cheap.device_label,
        unit="image" if task == "infer" else "training run",
        hourly=None if ratio is None else dear.device_label if ratio > 1 else cheap.device_label,
        hourly_ratio=ratio,
        evidence=dear.evidence + cheap.evidence,
    )
    if p.month is None:
        return dataclasses.replace(found, reason=f"no price a month of {dear.device_label}")
    against: Literal["month", "hour"] = "month" if q.month is not None else "hour"

    def threshold(dear_s: float, cheap_s: float) -> int | None:
        if q.month is not None:
            return monthly(dear_s, p.month or 0.0, cheap_s, q.month)
        return monthly_against_hours(dear_s, p.month or 0.0, cheap_s, q.hour or 0.0)

    ends = dear.seconds, cheap.seconds
    low = high = None
    if ends[0] is not None and ends[1] is not None:
        low, high = threshold(ends[0].low, ends[1].high), threshold(ends[0].high, ends[1].low)
    return dataclasses.replace(
        found,
        against=against,
        monthly=threshold(dear.seconds_point, cheap.seconds_point),
        low=low,
        high=high,
    )
