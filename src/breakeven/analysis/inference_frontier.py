"""The cases that no other beats in latency, rate and energy at once, for each work and device.

Knows nothing about how these were measured. Batches compete: a caller who may choose the batch chooses among
all of them. Figures are the estimates, and less than 3 % is no difference: where processes are too few for a
verdict the finding says so.
"""

import dataclasses
import math
from collections.abc import Sequence

from breakeven.analysis.inference import Served
from breakeven.analysis.inference_findings import FrontierFinding, FrontierPoint
from breakeven.analysis.processes import shared_keys
from breakeven.analysis.ratios import FEWEST as PROCESSES
from breakeven.analysis.ratios import MARGIN, disturbed
from breakeven.records.canonical import digest

FEWEST = 2
"""Cases that make a choice."""


def frontier_of(cases: Sequence[Served]) -> list[FrontierFinding]:
    """One frontier for each work but for its batch on each device with two ranked cases or more."""
    places: dict[tuple[str, str, str], list[Served]] = {}
    for one in cases:
        work = dataclasses.replace(one.measured.case.work, batch=1)
        place = one.finding.source, one.measured.finding.device_label, digest("work", work)
        places.setdefault(place, []).append(one)
    return [found for mine in places.values() if (found := _finding(mine)) is not None]


def _finding(mine: Sequence[Served]) -> FrontierFinding | None:
    ranked = [(one, point) for one in mine if one.ranked and (point := _point(one)) is not None]
    if len(ranked) < FEWEST:
        return None
    points = [point for _, point in ranked]
    with_energy = all(p.j_per_image is not None for p in points)
    if not with_energy:
        points = [dataclasses.replace(p, j_per_image=None) for p in points]
    kept = [p for p in points if not any(beats(q, p) for q in points)]
    first = mine[0].measured
    reasons = {} if with_energy else {"energy": _why_no_energy([one for one, _ in ranked])}
    if (why := _too_few([one for one, _ in ranked], kept)) is not None:
        reasons["choice"] = why
    return FrontierFinding(
        model=first.case.work.model,
        data=first.case.work.data,
        device_label=first.finding.device_label,
        points=tuple(sorted(kept, key=lambda p: p.call_s)),
        candidates=len(points),
        most_per_s=max(p.images_per_s for p in points),
        axes=("latency", "rate", "energy") if with_energy else ("latency", "rate"),
        left_out=tuple(
            (one.finding.case_id, one.finding.reasons.get("ranked", "no single calls"))
            for one in mine
            if one.finding.case_id not in {p.case_id for p in points}
        ),
        disturbed=any(disturbed(one.measured.finding) for one, _ in ranked),
        source=first.finding.source,
        evidence=tuple(line for p in points for line in p.evidence),
        reasons=reasons,
    )


def _point(one: Served) -> FrontierPoint | None:
    call, rate = _call(one), one.finding.images_per_s_point
    if not math.isfinite(call) or rate is None:
        return None
    return FrontierPoint(
        case_id=one.finding.case_id,
        batch=one.measured.case.work.batch,
        call_s=call,
        images_per_s=rate,
        j_per_image=one.finding.j_per_image_point,
        processes=len(one.rates),
        evidence=one.finding.evidence,
    )


def _too_few(ranked: Sequence[Served], kept: Sequence[FrontierPoint]) -> str | None:
    """Why the frontier's ends are no verdict: its own processes, or those that an end shares with its rival.

    The rival is the next best of all in what the end is named for, on the frontier or off it.
    """
    few = sum(p.processes < PROCESSES for p in kept)
    if few:
        those = f"{few} of the {len(kept)}" if len(kept) > 1 else "the one"
        verb = "has" if few == 1 else "have"
        return f"{those} that none beats {verb} fewer than {PROCESSES} processes"
    by_id = {one.finding.case_id: one for one in ranked}
    ends = (
        ("latency", min(kept, key=lambda p: p.call_s), lambda one: -_call(one)),
        ("rate", max(kept, key=lambda p: p.images_per_s), lambda one: one.finding.images_per_s_point or 0.0),
    )
    for name, end, worth in ends:
        others = [one for key, one in by_id.items() if key != end.case_id]
        rival = max(others, key=worth)
        n = len(shared_keys([by_id[end.case_id].rates, rival.rates]))
        if n < PROCESSES:
            counted = f"{n} process{'' if n == 1 else 'es'} in common"
            return f"the best in {name} and the next have {counted}, {PROCESSES} are the fewest for a verdict"
    return None


def _call(one: Served) -> float:
    middle = one.finding.quantile(0.5)
    return middle.interval.estimate if middle.interval else middle.value_s or math.inf


def _axes(p: FrontierPoint, q: FrontierPoint) -> list[float]:
    """On each axis how many times as good `p` is as `q`."""
    gains = [q.call_s / p.call_s, p.images_per_s / q.images_per_s]
    if p.j_per_image and q.j_per_image:
        gains.append(q.j_per_image / p.j_per_image)
    return gains


def beats(p: FrontierPoint, q: FrontierPoint) -> bool:
    """Whether `p` is better on one axis and as good on the others, within the margin."""
    gains = _axes(p, q)
    return max(gains) > 1 + MARGIN and min(gains) >= 1 / (1 + MARGIN)


def _why_no_energy(ranked: Sequence[Served]) -> str:
    reasons = (one.finding.reasons.get("j_per_image") for one in ranked)
    return next(filter(None, reasons), "energy is not known of every case")
