"""The cases that no other beats in latency, rate and energy at once, for each work and device.

Knows nothing about how these were measured. Batches compete: a caller who may choose the batch chooses among
all of them. Figures are the estimates, and less than 3 % is no difference.
"""

import dataclasses
from collections.abc import Sequence

from breakeven.analysis.inference import Served
from breakeven.analysis.inference_findings import FrontierFinding, FrontierPoint
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
    return FrontierFinding(
        model=first.case.work.model,
        data=first.case.work.data,
        device_label=first.finding.device_label,
        points=tuple(sorted(kept, key=lambda p: p.call_s)),
        candidates=len(points),
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
    middle, rate = one.finding.quantile(0.5), one.finding.images_per_s_point
    call = middle.interval.estimate if middle.interval else middle.value_s
    if call is None or rate is None:
        return None
    return FrontierPoint(
        case_id=one.finding.case_id,
        batch=one.measured.case.work.batch,
        call_s=call,
        images_per_s=rate,
        j_per_image=one.finding.j_per_image_point,
        evidence=one.finding.evidence,
    )


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
