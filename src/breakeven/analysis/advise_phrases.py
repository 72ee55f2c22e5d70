"""Advice in sentences: the choice, the runner-up, what would change it, what is unknown.

Knows nothing about how a choice is made.
"""

from collections.abc import Iterator, Sequence

from breakeven import units
from breakeven.analysis import naming
from breakeven.analysis.advise_findings import Advice, Limits, MoneyFinding, Option, Prices
from breakeven.analysis.quality import MEANINGS
from breakeven.stats import Verdict

MOST_UNKNOWN = 4
MOST_CHANGES = 3
IMAGES = 1e6


def sentences_of(a: Advice, limits: Limits) -> Iterator[str]:
    """The advice on one work; `Find out:` lines hold a command each."""
    if a.simulated:
        yield "SIMULATED: no hardware was measured. These numbers come from a planted model."
    yield from (f"Not believed: {fault}." for fault in a.faults)
    if a.choice is None:
        yield (
            f"{a.name}: unknown from these measurements which case keeps to the limits."
            if a.unknown
            else (f"{a.name}: no case keeps to the limits." if a.options else f"{a.name}: no case competes.")
        )
        yield from _nearest(a)
    else:
        yield f"{a.name}: run {named(a.choice)}: {amount(a, a.choice)}{_limits(a.choice)}."
        yield _second(a)
        yield from _flagged(a.choice, a.runner_up)
    yield from a.changes
    yield from (f"{rule.text} (rule {rule.rule})." for rule in a.rules if rule.answer == "holds")
    yield from (money_sentence(m) for m in a.money)
    if a.co2_g is not None:
        unit = "a million images" if a.task == "infer" else a.unit
        board = a.choice is not None and a.choice.case.device.kind == "cuda"
        scope = "gross, the GPU's board alone" if board else "gross, of the counter's scope"
        yield f"CO2: {_grams(a.co2_g)} {unit}, of measured joules ({scope})."
    if a.reasons.get("cost"):
        yield f"Chosen by time, not by cost: {a.reasons['cost']}."
    for why in dict.fromkeys(why for _, why in a.left_out):
        yield f"Left out: {', '.join(name for name, own in a.left_out if own == why)}: {why}."
    for text, command in a.unknown[:MOST_UNKNOWN]:
        yield f"Unknown from these measurements: {text}.{f' Find out: {command}' if command else ''}"
    if len(a.unknown) > MOST_UNKNOWN:
        yield f"{len(a.unknown) - MOST_UNKNOWN} more unknown, in --json."
    if (
        a.choice is not None
        and a.task == "train"
        and a.choice.case.tuning.precision != "default"
        and (limits.max_accuracy_drop is None)
    ):
        yield (
            f"Whether {a.choice.case.tuning.precision} learns as well is not asked: "
            "--max-accuracy-drop 0.5% asks it, of full runs."
        )


def named(o: Option) -> str:
    """An option, with what its outputs are worth beside it where that need be said."""
    return f"{o.label} [{o.worth}]" if o.worth else o.label


def flags_of(o: Option) -> list[str]:
    """Its flags, each with the number of processes where not all carry it."""
    return [
        f"{flag} ({count} of {o.of_processes})" if count < o.of_processes else flag
        for flag, count in o.flags.items()
    ]


def _flagged(choice: Option, second: Option | None) -> Iterator[str]:
    """The flags of the choice and the runner-up with their meanings, once where both have the same."""
    if second is not None and choice.flags and flags_of(choice) == flags_of(second):
        yield f"Flags of the choice and the runner-up: {_meant(choice)}."
        return
    for whose, o in (("choice", choice), ("runner-up", second)):
        if o is not None and o.flags:
            yield f"Flags of the {whose}: {_meant(o)}."


def _meant(o: Option) -> str:
    """Its flags, each with the first part of what it means."""
    meanings = {**MEANINGS, "one_process": "no interval, no verdict"}
    told = zip(o.flags, flags_of(o), strict=True)
    return "; ".join(f"{said}: {meanings[f].split(':')[0]}" if f in meanings else said for f, said in told)


def amount(a: Advice, o: Option) -> str:
    """What a case takes, in time or a rate, and in money where that is known."""
    said = _rate(o) if a.task == "infer" else f"{a.unit} takes {_time(o)} on average"
    if o.cost is not None:
        cost, unit = (o.cost * IMAGES, "a million images") if a.task == "infer" else (o.cost, "a run")
        said += f", {money(cost)} {a.currency} {unit}"
    return said


def _rate(o: Option) -> str:
    if o.seconds is None:
        return f"{_round(1 / o.seconds_point)} images a second (one process)"
    low, high = 1 / o.seconds.high, 1 / o.seconds.low
    return f"{_round(1 / o.seconds.estimate)} images a second [{_round(low)}, {_round(high)}]"


def _time(o: Option) -> str:
    if o.seconds is None:
        return f"{units.format_duration(o.seconds_point)} (one process)"
    bounds = f"{units.format_duration(o.seconds.low)}, {units.format_duration(o.seconds.high)}"
    return f"{units.format_duration(o.seconds.estimate)} [{bounds}]"


def _round(value: float) -> str:
    return f"{float(f'{value:.2e}'):,.0f}" if value >= 100 else f"{value:.3g}"


def money(value: float) -> str:
    """An amount of money to three digits."""
    return f"{float(f'{value:.2e}'):,.0f}" if value >= 1000 else f"{value:.3g}"


def _grams(grams: float) -> str:
    return f"{grams / 1000:.3g} kg" if grams >= 1000 else f"{grams:.3g} g"


def _limits(o: Option) -> str:
    return "".join(f"; {kept.limit} {kept.said}" for kept in o.limits)


def _second(a: Advice) -> str:
    if a.runner_up is None:
        return "No other case keeps to the limits: there is no runner-up."
    word = "cheap" if a.objective == "cost" else "fast"
    if a.margin is None:
        why = a.reasons.get("margin", "no interval")
        return f"Runner-up {named(a.runner_up)}: about {a.margin_point or 0:.2f}x; no verdict: {why}."
    shown = units.format_ratio_interval(a.margin)
    head = f"Runner-up {named(a.runner_up)}: the choice is {shown} as {word}"
    match a.verdict:
        case Verdict.FASTER:
            return f"{head}."
        case Verdict.SAME:
            return f"{head}: the same within 3 %, take either."
    needed = a.processes_needed
    more = f"; about {needed} processes would decide" if needed else ""
    return f"{head}: which of the two cannot be told{more}."


def _nearest(a: Advice) -> Iterator[str]:
    for o in a.options[:MOST_CHANGES]:
        failing = [f"{k.limit} {k.said}" for k in o.limits if k.fit == "fails"]
        if failing:
            yield f"{named(o)} fails: {', '.join(failing)}."


def changes_of(a: Advice, ordered: Sequence[Option], prices: Prices | None) -> Iterator[str]:
    """What would change the answer: a looser limit, or another price."""
    assert a.choice is not None
    made = 0
    for o in ordered:
        failing = [f"{k.limit} {k.said}" for k in o.limits if k.fit == "fails"]
        if o is a.choice or made == MOST_CHANGES:
            break
        if failing:
            made += 1
            yield f"A looser limit would make it {named(o)} ({amount(a, o)}): {', '.join(failing)}."
    if prices is not None and a.objective == "cost":
        yield from _price_change(a, ordered, prices)


def _price_change(a: Advice, ordered: Sequence[Option], prices: Prices) -> Iterator[str]:
    """The price of the choice's device at which the best of another one is as cheap."""
    choice = a.choice
    if choice is None or choice.cost is None:
        return
    others = [o for o in ordered if o.device_label != choice.device_label and o.fit == "meets" and o.cost]
    price = prices.of(choice.device_label)
    if others and price is not None and others[0].cost is not None:
        limit = price.an_hour * others[0].cost / choice.cost
        yield (
            f"Above {money(limit)} {prices.currency} an hour for {naming.short(choice.device_label)} "
            f"(now {money(price.an_hour)}) it would be {named(others[0])}."
        )


def money_sentence(m: MoneyFinding) -> str:
    """Where a dearer device pays."""
    parts = []
    plural = f"{m.unit}s"
    names = naming.short_labels([m.dear, m.cheap])
    dear, cheap = names[m.dear], names[m.cheap]
    if m.hourly is not None and m.hourly_ratio is not None:
        parts.append(_hourly(m, names[m.hourly], m.hourly_ratio, plural))
    if m.against is None:
        if m.reason:
            parts.append(m.reason)
    elif m.monthly is None:
        best = f" (at the best ends of both intervals from {m.low:,} {plural})" if m.low is not None else ""
        parts.append(f"rented by the month {dear} is never the cheaper{best}")
    else:
        bounds = ""
        if m.low is not None:
            bounds = f" [{m.low:,}, {f'{m.high:,}' if m.high is not None else 'never'}]"
        other = f"{cheap} by the {m.against}"
        parts.append(
            f"{dear} by the month is cheaper than {other} from {m.monthly:,} {plural} a month{bounds}"
        )
    return f"Money: {dear} against {cheap}: {'; '.join(parts)}."


def _hourly(m: MoneyFinding, cheaper: str, point: float, plural: str) -> str:
    """Which is the cheaper by the hour, only where that can be told."""
    if m.hourly_interval is None:
        return f"by the hour {cheaper} is about {point:.2f}x as cheap; no verdict: {m.hourly_why}"
    shown = units.format_ratio_interval(m.hourly_interval)
    match m.hourly_verdict:
        case Verdict.FASTER:
            return f"by the hour {cheaper} is the cheaper for any number of {plural}: {shown} as cheap"
        case Verdict.SAME:
            return f"by the hour both cost the same within 3 %: {cheaper} is {shown} as cheap"
    return f"by the hour {cheaper} is {shown} as cheap: which is the cheaper cannot be told"
