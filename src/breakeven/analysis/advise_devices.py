"""The devices of a choice against each other where prices are known: by the hour and by the month.

Knows nothing about which case is chosen.
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal

from breakeven.analysis.advise_family import Judged, Versus, versus
from breakeven.analysis.advise_findings import MoneyFinding, Price, Prices
from breakeven.analysis.advise_money import monthly, monthly_against_hours
from breakeven.analysis.advise_options import Candidate
from breakeven.records.case import Task

Priced = tuple[Candidate, Candidate, Versus | None]


def priced_pairs(fitting: Sequence[Candidate], prices: Prices) -> list[Priced]:
    """The best case of each device that keeps to the limits, every two of them: the device that costs more a
    month or hour, the other one, and which is the cheaper by the hour, the one that seems so as `chosen`."""
    best: dict[str, Candidate] = {}
    for c in fitting:
        mine = best.get(c.option.device_label)
        if mine is None or c.option.seconds_point < mine.option.seconds_point:
            best[c.option.device_label] = c
    known = [(c, p) for c in best.values() if (p := prices.of(c.option.device_label)) is not None]
    found: list[Priced] = []
    for i, one in enumerate(known):
        for two in known[i + 1 :]:
            (dear, p), (cheap, q) = sorted((one, two), key=lambda side: -side[1].an_hour)
            hours = None
            if p.hour is not None and q.hour is not None:
                ratio = (cheap.option.seconds_point * q.hour) / (dear.option.seconds_point * p.hour)
                hours = (
                    versus(cheap, dear, q.hour / p.hour)
                    if ratio > 1
                    else versus(dear, cheap, p.hour / q.hour)
                )
            found.append((dear, cheap, hours))
    return found


def money_of(
    one: Candidate, two: Candidate, prices: Prices, task: Task, hours: Versus | None, judged: Judged
) -> MoneyFinding:
    """What the two devices cost: by the hour, and by the month."""
    dear, cheap = one.option, two.option
    p, q = prices.of(dear.device_label) or Price(), prices.of(cheap.device_label) or Price()
    found = MoneyFinding(
        dear=dear.device_label,
        cheap=cheap.device_label,
        unit="image" if task == "infer" else "training run",
        hourly=hours.chosen.option.device_label if hours else None,
        hourly_ratio=hours.factor * hours.base.option.seconds_point / hours.chosen.option.seconds_point
        if hours
        else None,
        hourly_interval=hours.ratio.interval if hours and hours.ratio else None,
        hourly_verdict=judged.verdict,
        hourly_why=hours.why if hours else "",
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
