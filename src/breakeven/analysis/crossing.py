"""Break-even: the batch, or the size of the model, at which the candidate starts to win over the base.

Knows nothing about how a ratio is measured. The log ratio of every replicate is joined by straight lines over
the logarithm of the axis; the interval of the crossing holds every place where the mean of the replicates
cannot be told from 0 (Fieller, "Some problems in interval estimation", JRSS B 16, 1954). So a replicate that
never crosses counts like any other, and an interval may be open at an end.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Literal

from breakeven import stats
from breakeven.analysis.curves import Answer, Axis, BreakEvenFinding, CurvePoint
from breakeven.analysis.findings import CONTRASTS, RatioFinding
from breakeven.analysis.pairs import Pair
from breakeven.analysis.processes import Key, all_looks, shared_keys

ENOUGH: Mapping[Axis, int] = {"batch": 2, "flops": 3, "parameters": 3}
"""Values of an axis that a curve takes: two models are no axis of sizes."""
ALPHA = 0.05

Logs = Mapping[Key, float]
"""Replicate -> log of base time / candidate time at one value of the axis."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class _Point:
    """One value of the axis: its pair, ratio and the log ratios of its replicates."""

    x: float
    name: str
    pair: Pair
    ratio: RatioFinding | None
    logs: Logs

    @property
    def unit(self) -> str | None:
        """The machine that its replicates ran on."""
        return next((unit for unit, _ in self.logs), None)

    @property
    def doubtful(self) -> bool:
        """Whether its ratio may not even be told from 1: a shared machine, sides not in turn, or moving."""
        return self.ratio is None or self.ratio.disturbed or self.ratio.apart or self.ratio.moving

    @property
    def looks(self) -> tuple[int, ...]:
        return all_looks([self.pair.base.looks, self.pair.candidate.looks])


def break_even_of(pairs: Sequence[Pair], ratios: Sequence[RatioFinding]) -> list[BreakEvenFinding]:
    """Break-even batches of every model and tuning, and break-even sizes where three models were compared."""
    by_ids = {(r.base_id, r.candidate_id, r.contrast): r for r in ratios if r.of == "step"}
    found = []
    logs = [_logs(pair) for pair in pairs]
    for axis in ("batch", "flops", "parameters"):
        groups: dict[tuple[object, ...], list[_Point]] = {}
        for pair, mine in zip(pairs, logs, strict=True):
            ids = (pair.base.finding.case_id, pair.candidate.finding.case_id, pair.contrast)
            point = _point(pair, axis, by_ids.get(ids), mine)
            if point is not None:
                groups.setdefault(_group(pair, axis), []).append(point)
        for group in groups.values():
            curve = sorted(group, key=lambda p: p.x)
            if len(curve) >= ENOUGH[axis] and any(p.logs for p in curve):
                found.append(_finding(curve, axis))
    return found


def _group(pair: Pair, axis: Axis) -> tuple[object, ...]:
    """All that must be equal along a curve. The best of each batch is a curve whatever its settings are."""
    work = pair.candidate.case.work
    alike = dataclasses.replace(work, batch=1) if axis == "batch" else dataclasses.replace(work, model="")
    pairs = pair.base, pair.candidate
    sides: list[object] = [m.finding.device_label for m in pairs]
    if pair.contrast == "tuning":
        sides += [(m.finding.tuning_name, m.case.tuning.precision) for m in pairs]
    return (pair.contrast, *sides, alike)


def _point(pair: Pair, axis: Axis, ratio: RatioFinding | None, logs: Logs) -> _Point | None:
    candidate, work = pair.candidate.finding, pair.candidate.case.work
    if pair.base.case.work != work or pair.contrast == "mixed":
        return None  # other work, or a tuned side against an untuned one, is no point of any curve
    size = {"batch": work.batch, "flops": candidate.flops_per_step, "parameters": candidate.parameters}[axis]
    if not size:
        return None
    name = str(work.batch) if axis == "batch" else work.model
    return _Point(x=float(size), name=name, pair=pair, ratio=ratio, logs=logs)


def _logs(pair: Pair) -> Logs:
    """Of the replicates that both sides share, on one unit only, as any ratio; none where it is refused."""
    if pair.refused:
        return {}
    a, b = pair.base.steps, pair.candidate.steps
    return {key: math.log(a[key] / b[key]) for key in shared_keys([a, b])}


def _finding(curve: Sequence[_Point], axis: Axis) -> BreakEvenFinding:
    known, elsewhere = _on_one_machine([p for p in curve if p.logs])
    ratios = [_paired(p) for p in known]
    sides = list(map(_side, known))
    first = known[0]
    work = first.pair.candidate.case.work
    finding = BreakEvenFinding(
        axis=axis,
        model=work.model if axis == "batch" else None,
        batch=None if axis == "batch" else work.batch,
        data=work.data,
        seed=work.seed,
        base_label=first.pair.base.finding.device_label,
        candidate_label=first.pair.candidate.finding.device_label,
        tuning_name=CONTRASTS.get(first.pair.contrast, first.pair.candidate.finding.tuning_name),
        tuning_base=CONTRASTS.get(first.pair.contrast, first.pair.base.finding.tuning_name),
        answer="cannot be told",
        points=tuple(map(_shown, known, ratios, sides)),
        changes=tuple(
            (a.x, b.x)
            for (a, one), (b, other) in pairwise((p, s) for p, s in zip(known, sides, strict=True) if s)
            if one != other
        ),
        missing=(
            *((p.name, p.pair.refused or "no replicate in common") for p in curve if not p.logs),
            *((p.name, "measured on another machine") for p in elsewhere),
        ),
        processes=min(len(p.logs) for p in known),
        mixed=any(p.ratio is not None and p.ratio.mixed for p in known),
        source=first.pair.candidate.finding.source,
        evidence=tuple(
            line for p in known for m in (p.pair.base, p.pair.candidate) for line in m.finding.evidence
        ),
    )
    return _answered(finding, known, sides)


def _on_one_machine(points: Sequence[_Point]) -> tuple[list[_Point], list[_Point]]:
    """The points of the machine that has most of them, and the others: a curve across machines is of none."""
    counts = Counter(p.unit for p in points)
    unit = max(sorted(counts, key=str), key=lambda name: counts[name])
    return [p for p in points if p.unit == unit], [p for p in points if p.unit != unit]


def _side(p: _Point) -> Literal[-1, 0, 1]:
    """Which device surely wins here, by the verdict on its ratio: a curve and a table give one answer."""
    verdict = None if p.ratio is None or p.doubtful else p.ratio.verdict
    return 1 if verdict is stats.Verdict.FASTER else -1 if verdict is stats.Verdict.SLOWER else 0


def _paired(p: _Point) -> stats.Ratio | None:
    times = {key: math.exp(value) for key, value in p.logs.items()}
    return stats.paired_ratio(times, dict.fromkeys(times, 1.0), looks=p.looks)


def _shown(p: _Point, ratio: stats.Ratio | None, side: Literal[-1, 0, 1]) -> CurvePoint:
    return CurvePoint(
        x=p.x,
        name=p.name,
        ratio=math.exp(fmean(p.logs.values())),
        low=ratio.interval.low if ratio else None,
        high=ratio.interval.high if ratio else None,
        side=side,
    )


def _answered(finding: BreakEvenFinding, known: Sequence[_Point], sides: Sequence[int]) -> BreakEvenFinding:
    """Adds the answer: from the sure sides, then where between them the curve passes 1."""
    sure = [(p.x, side) for p, side in zip(known, sides, strict=True) if side]
    if len(finding.changes) > 1:
        return dataclasses.replace(
            finding, answer="several", reason="which device wins changes more than once"
        )
    if len(finding.changes) == 1:
        (after, before), rises = finding.changes[0], sure[0][1] < 0
        unsure = zip(known, sides, strict=True)
        beyond = [p.name for p, side in unsure if not side and not after < p.x < before]
        finding = dataclasses.replace(
            finding,
            answer="between",
            after=after,
            before=before,
            wins_above=rises,
            reason=f"neither device surely wins at {', '.join(beyond)}" if beyond else None,
        )
        return _located(finding, [p for p in known if after <= p.x <= before])
    if len(sure) == len(known):
        answer: Answer = "always" if sure[0][1] > 0 else "never"
        return dataclasses.replace(finding, answer=answer)
    return _unsure(finding, known, sides)


def _unsure(finding: BreakEvenFinding, known: Sequence[_Point], sides: Sequence[int]) -> BreakEvenFinding:
    """Some sides are not known and none surely changes: one end of the crossing may be known all the same."""
    doubts = [
        p.ratio.reasons["verdict"] for p in known if p.ratio is not None and "verdict" in p.ratio.reasons
    ]
    open_points = ", ".join(p.name for p, side in zip(known, sides, strict=True) if not side)
    why = doubts[0] if doubts else f"neither device surely wins at {open_points}"
    finding = dataclasses.replace(finding, reason=why)
    sure = [i for i, side in enumerate(sides) if side]
    if not sure:
        rises = fmean(known[-1].logs.values()) > fmean(known[0].logs.values())
        return _located(dataclasses.replace(finding, wins_above=rises), known)
    first, last, wins = sure[0], sure[-1], sides[sure[0]] > 0
    if len(sure) <= last - first or (first > 0 and last < len(known) - 1):
        return finding  # unsure in the middle, or at both ends: no single place to look at
    if first > 0:
        finding = dataclasses.replace(finding, before=known[first].x, wins_above=wins)
        return _located(finding, known[: first + 1])
    return _located(dataclasses.replace(finding, after=known[last].x, wins_above=not wins), known[last:])


def _located(finding: BreakEvenFinding, curve: Sequence[_Point]) -> BreakEvenFinding:
    """Adds where the curve passes 1, with the interval of that place; its end is open where no measured
    value surely lies beyond it. Where others are sound, a value that something else
    made is no place to look at."""
    curve = [p for p in curve if not p.doubtful] or curve
    keys = sorted(set.intersection(*(set(p.logs) for p in curve)))
    if not keys:
        return finding
    x = [math.log(p.x) for p in curve]
    rows = [[p.logs[key] for p in curve] for key in keys]
    zeros = list(_zeros(x, [fmean(row[i] for row in rows) for i in range(len(x))]))
    at = math.exp(zeros[len(zeros) // 2]) if zeros else None
    finding = dataclasses.replace(finding, at=at, processes=len(keys))
    if len(keys) < 2:
        return finding
    spans = list(_undecided(x, rows, all_looks(p.looks for p in curve)))
    low, high = min((a for a, _ in spans), default=None), max((b for _, b in spans), default=None)
    if low is None or high is None:
        return dataclasses.replace(finding, low=at, high=at)  # replicates that agree to the last digit
    return dataclasses.replace(
        finding,
        low=None if low <= x[0] and finding.after is None else math.exp(low),
        high=None if high >= x[-1] and finding.before is None else math.exp(high),
    )


def _zeros(x: Sequence[float], y: Sequence[float]) -> Iterator[float]:
    """Where straight lines through the points pass 0 from one side to the other."""
    for (u, a), (v, b) in pairwise(zip(x, y, strict=True)):
        if (a >= 0) != (b >= 0):
            yield u + (v - u) * (a / (a - b))


def _undecided(
    x: Sequence[float], rows: Sequence[Sequence[float]], looks: Sequence[int]
) -> Iterator[tuple[float, float]]:
    """Spans of x where the t interval of the replicates' mean holds 0.

    On one line between two points the mean is linear in the place w from 0 to 1 and its variance is
    quadratic, so mean(w)**2 = t**2 variance(w) / n has at most two roots. `looks` widen t.
    """
    n = len(rows)
    t2 = (stats.t_quantile(1 - ALPHA / 2, n - 1) * stats.widening(n, looks)) ** 2 / n
    for i, (u, v) in enumerate(pairwise(x)):
        starts, steps = [row[i] for row in rows], [row[i + 1] - row[i] for row in rows]
        a, d = fmean(starts), fmean(steps)
        c0 = a * a - t2 * _covariance(starts, starts)
        c1 = 2 * (a * d - t2 * _covariance(starts, steps))
        c2 = d * d - t2 * _covariance(steps, steps)
        ends = sorted({0.0, 1.0, *(w for w in _roots(c2, c1, c0) if 0 < w < 1)})
        for low, high in pairwise(ends):
            middle = (low + high) / 2
            if (c2 * middle + c1) * middle + c0 <= 0:
                yield u + (v - u) * low, u + (v - u) * high


def _covariance(a: Sequence[float], b: Sequence[float]) -> float:
    mean_a, mean_b = fmean(a), fmean(b)
    return math.fsum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True)) / (len(a) - 1)


def _roots(a: float, b: float, c: float) -> list[float]:
    """Real roots of a w**2 + b w + c, without cancellation."""
    if a == 0:
        return [-c / b] if b else []
    inside = b * b - 4 * a * c
    if inside < 0:
        return []
    q = -(b + math.copysign(math.sqrt(inside), b)) / 2
    return [q / a, c / q] if q else [0.0]
