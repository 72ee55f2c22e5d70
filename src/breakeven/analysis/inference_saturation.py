"""From which batch a device is saturated: least batch near the best rate, and the law behind the sweep.

Knows nothing about other tunings. Every share of the best rate is a ratio of two rates paired by replicate;
B90 lies between the least batch that might reach 90 % and the least that surely does.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from breakeven import stats
from breakeven.analysis.inference import Served
from breakeven.analysis.inference_findings import BatchPoint, LaterFinding, Reach, SaturationFinding
from breakeven.analysis.naming import without_numerics
from breakeven.analysis.processes import all_looks, shared_keys
from breakeven.analysis.ratios import FEWEST, MARGIN, disturbed, one_unit
from breakeven.records.canonical import digest
from breakeven.stats import Interval, knee

SHARES = (0.9, 0.95)
MISFIT = 0.15
"""Largest relative error of the law at a measured batch with which it is shown."""
SHARED = "something else used the machine in most processes"


def saturation_of(cases: Sequence[Served]) -> list[SaturationFinding]:
    """One finding for every sweep of two batches or more that have a number."""
    sweeps: dict[tuple[str, str, str, str], list[Served]] = {}
    for one in cases:
        sweeps.setdefault(_sweep(one), []).append(one)
    found = []
    for sweep in sweeps.values():
        ordered = sorted(sweep, key=lambda s: s.measured.case.work.batch)
        if sum(one.ranked for one in ordered) > 1:
            found.append(_finding(ordered))
    return found


def _sweep(one: Served) -> tuple[str, str, str, str]:
    """All that must be equal along a sweep."""
    work = dataclasses.replace(one.measured.case.work, batch=1)
    return (
        one.finding.source, one.measured.finding.device_label, one.measured.tuning_id, digest("work", work)
    )  # fmt: skip


def _finding(sweep: Sequence[Served]) -> SaturationFinding:
    known = [one for one in sweep if one.ranked]
    best = max(known, key=_rate)
    first, tried = known[0].measured, [one.measured for one in sweep]
    full = [m for m in tried if "oom" in m.finding.outcomes and not m.finding.processes]
    gain = _ratio(known[-1], known[-2])
    finding = SaturationFinding(
        model=first.case.work.model,
        data=first.case.work.data,
        seed=first.case.work.seed,
        device_label=first.finding.device_label,
        tuning_name=without_numerics(first.finding.tuning_name),
        precision=first.case.tuning.precision,
        points=tuple(_point(one, best) for one in known),
        reaches=(),
        best_batch=best.measured.case.work.batch,
        largest=known[-1].measured.case.work.batch,
        oom_at=min((m.case.work.batch for m in full), default=None),
        gain=gain,
        gain_point=_rate(known[-1]) / _rate(known[-2]),
        balanced=_balanced(known),
        disturbed=any(disturbed(one.measured.finding) for one in known),
        missing=tuple(
            (str(one.measured.case.work.batch), one.finding.reasons.get("ranked", "no number"))
            for one in sweep
            if not one.ranked
        ),
        source=first.finding.source,
        evidence=tuple(line for m in tried for line in m.finding.evidence),
    )
    finding = dataclasses.replace(finding, reaches=tuple(_reach(finding, known, share) for share in SHARES))
    return _with_law(finding, known)


def _rate(one: Served) -> float:
    return one.finding.images_per_s_point or 0.0


def _ratio(one: Served, other: Served) -> Interval | None:
    """Rate of one over that of the other, paired by replicate; None with fewer than two pairs."""
    a, b = one_unit(one.rates, other.rates)
    ratio = stats.paired_ratio(a, b, looks=all_looks([one.measured.looks, other.measured.looks]))
    return ratio.interval if ratio else None


def _point(one: Served, best: Served) -> BatchPoint:
    """The point of one batch. Of the best one the share is 1 and has no interval."""
    middle = one.finding.quantile(0.5)
    own = middle.interval
    return BatchPoint(
        batch=one.measured.case.work.batch,
        case_id=one.finding.case_id,
        images_per_s=_rate(one),
        of_best=None if one is best else _ratio(one, best),
        of_best_point=_rate(one) / _rate(best),
        call_s=own.estimate if own else middle.value_s,
        low=one.finding.images_per_s.low if one.finding.images_per_s else None,
        high=one.finding.images_per_s.high if one.finding.images_per_s else None,
    )


def _balanced(known: Sequence[Served]) -> int | None:
    """The batch of most rate over latency: a larger one adds more waiting than work done.

    Reference: Kleinrock, "Power and deterministic rules of thumb", ICC (1979), who calls the quotient power.
    """
    quotients = {}
    for one in known:
        call = one.finding.quantile(0.5).value_s
        if call:
            quotients[one.measured.case.work.batch] = _rate(one) / call
    return max(quotients, key=lambda batch: quotients[batch]) if len(quotients) > 1 else None


def _reach(finding: SaturationFinding, known: Sequence[Served], share: float) -> Reach:
    """The least batch that reaches the share of the best rate, with what is known of it."""
    points = finding.points
    batch = next(p.batch for p in points if p.of_best_point >= share)
    gains = finding.gain
    unbounded = finding.best_batch == finding.largest and finding.oom_at is None
    few = min(p.of_best.n if p.of_best else 0 for p in points if p.batch != finding.best_batch)
    if few < FEWEST or gains is None:
        return Reach(share=share, answer="cannot be told", batch=batch, reason=_too_few(few))
    low = next(p.batch for p in points if p.of_best is None or p.of_best.high >= share)
    high = next(p.batch for p in points if p.of_best is None or p.of_best.low >= share)
    deciding = {finding.best_batch, *(p.batch for p in points if p.batch <= high)}
    if any(disturbed(o.measured.finding) for o in known if o.measured.case.work.batch in deciding):
        return Reach(share=share, answer="cannot be told", batch=batch, reason=SHARED)
    if unbounded and gains.low > 1 + MARGIN:
        why = f"batch {finding.largest} still gains {gains.estimate - 1:.0%} over the one before"
        return Reach(share=share, answer="not swept far enough", low=low, reason=why)
    if unbounded and gains.high > 1 + MARGIN:
        why = f"whether batch {finding.largest} still gains cannot be told"
        return Reach(share=share, answer="reached", batch=batch, low=low, reason=why)
    fits = finding.oom_at is not None and finding.best_batch == finding.largest
    note = f"of the rate at batch {finding.largest}, the largest that fits" if fits else None
    return Reach(share=share, answer="reached", batch=batch, low=low, high=high, reason=note)


def _too_few(count: int) -> str:
    return f"{count} process{'' if count == 1 else 'es'} in common: {FEWEST} are the fewest for an interval"


def _with_law(finding: SaturationFinding, known: Sequence[Served]) -> SaturationFinding:
    """Adds the law, chosen on the mean of the replicates that have the whole sweep."""
    keys = shared_keys([one.rates for one in known])
    x = [float(one.measured.case.work.batch) for one in known]
    if not keys:
        return _because(finding, law="no replicate has the whole sweep")
    curves = [[b / one.rates[key] for b, one in zip(x, known, strict=True)] for key in keys]
    mean = [stats.geometric_mean(column) for column in zip(*curves, strict=True)]
    law = knee.choose(x, mean)
    finding = dataclasses.replace(finding, processes=len(keys))
    if law is None:
        return _because(finding, law=f"{len(x)} batches: a law takes three")
    if law.misfit > MISFIT:
        return _because(finding, law=f"t = max(t0, c + B/X) is off by {law.misfit:.0%} at a measured batch")
    points = tuple(dataclasses.replace(p, law_s=law.at(b)) for p, b in zip(finding.points, x, strict=True))
    finding = dataclasses.replace(finding, law=law, points=points)
    if len(keys) < FEWEST:
        # Where B90 cannot be told from so few, the limit of the law behind it has no interval either.
        return _because(finding, law_interval=_too_few(len(keys)))
    fits = [knee.fit(x, curve, law.law) for curve in curves]
    found = _intervals(fits, all_looks(one.measured.looks for one in known))
    finding = dataclasses.replace(finding, **found)
    return finding if found else _because(finding, law_interval="some replicate shows another law")


def _intervals(fits: Sequence[knee.Fit | None], looks: Sequence[int]) -> dict[str, Any]:
    """Intervals of what the law has, from one fit a replicate; empty where a replicate has no such fit."""
    if any(one is None for one in fits):
        return {}
    made = [one for one in fits if one is not None]
    values: Mapping[str, list[float | None]] = {
        "floor_s": [one.floor for one in made],
        "limit_per_s": [one.rate for one in made],
        "knee": [one.knee for one in made],
    }
    found = {
        name: stats.case_interval([v for v in each if v is not None], looks=looks)
        for name, each in values.items()
        if None not in each
    }
    fixed = [one.fixed for one in made if one.fixed is not None]
    return found | ({"fixed_s": stats.mean_interval(fixed, looks=looks)} if fixed else {})


def later_of(sweeps: Sequence[SaturationFinding], share: float = 0.9) -> list[LaterFinding]:
    """Whether the faster of two devices saturates at a larger batch, for every pair at one tuning."""
    found = []
    for i, one in enumerate(sweeps):
        for other in sweeps[i + 1 :]:
            if _alike(one) == _alike(other) and one.device_label != other.device_label:
                found.append(_later(one, other, share))
    return found


def _alike(f: SaturationFinding) -> tuple[object, ...]:
    return f.source, f.model, f.data, f.seed, f.tuning_name, f.precision


def _later(one: SaturationFinding, other: SaturationFinding, share: float) -> LaterFinding:
    fast, slow = sorted((one, other), key=lambda f: -_best(f).images_per_s)
    a, b = fast.reach(share), slow.reach(share)
    finding = LaterFinding(
        model=fast.model,
        tuning_name=fast.tuning_name,
        precision=fast.precision,
        faster=fast.device_label,
        slower=slow.device_label,
        faster_batch=a,
        slower_batch=b,
        answer="cannot be told",
        rates=_best(fast).images_per_s / _best(slow).images_per_s,
        source=fast.source,
        evidence=(*fast.evidence, *slow.evidence),
    )
    low, high = _best(fast).low, _best(slow).high
    if low is None or high is None or low <= high:
        return dataclasses.replace(finding, reason="neither device is surely faster")
    for side in (a, b):
        if side.low is None:
            return dataclasses.replace(finding, reason=side.reason)
    if a.low is not None and b.high is not None and a.low > b.high:
        return dataclasses.replace(finding, answer="later")
    if b.low is not None and a.high is not None and b.low > a.high:
        return dataclasses.replace(finding, answer="earlier")
    if a.low == a.high == b.low == b.high:
        return dataclasses.replace(finding, answer="at the same batch")
    return dataclasses.replace(finding, reason=next(_overlap(a, b)))


def _overlap(a: Reach, b: Reach) -> Iterator[str]:
    yield f"batch {span(a)} against {span(b)}"


def span(reach: Reach) -> str:
    """A saturation batch with what is known of it: "16 [8, 32]", "at least 64"."""
    if reach.answer == "not swept far enough":
        return f"at least {reach.low}"
    if reach.low is None:
        return "cannot be told"
    if reach.low == reach.high:
        return str(reach.batch)
    return f"{reach.batch} [{reach.low}, {'or beyond' if reach.high is None else reach.high}]"


def _best(f: SaturationFinding) -> BatchPoint:
    return next(p for p in f.points if p.batch == f.best_batch)


def _because(finding: SaturationFinding, **reasons: str) -> SaturationFinding:
    return dataclasses.replace(finding, reasons={**finding.reasons, **reasons})
