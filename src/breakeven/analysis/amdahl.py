"""Amdahl's law where it holds: one kind of core, more and more of them.

Knows nothing about other devices: a GPU beside a CPU is no second processor of one kind (`whatif`).
References: Amdahl, "Validity of the single processor approach", AFIPS 30 (1967); Karp and Flatt, "Measuring
parallel processor performance", CACM 33 (1990).
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from breakeven import stats
from breakeven.analysis.cases import Measured
from breakeven.analysis.curves import CoresFinding, CoresPoint, Trend
from breakeven.analysis.pairs import is_cpu
from breakeven.analysis.processes import all_looks, shared_keys
from breakeven.analysis.ratios import FEWEST, apart, busy, disturbed
from breakeven.records.case import Device
from breakeven.stats import Interval

Times = Mapping[int, float]
"""Cores -> seconds of a step, of one replicate."""


def cores_of(device: Device) -> int | None:
    """How many cores a device was limited to; None: not limited, so it may hold cores of several kinds."""
    if device.kind == "sim":
        text = dict(device.options).get("threads", "")
        return int(text) if text.isdecimal() and int(text) > 0 else None
    return device.threads if device.kind == "cpu" else None


def speedup(parallel: float, cores: float) -> float:
    """What Amdahl's law gives for so many cores; the limit for infinitely many is 1 / (1 - parallel)."""
    return 1 / ((1 - parallel) + parallel / cores)


def karp_flatt(speed_up: float, cores: int) -> float:
    """The serial share that would explain this speed-up on `cores` > 1. Negative where it passes `cores`."""
    return (1 / speed_up - 1 / cores) / (1 - 1 / cores)


def fitted(times: Times) -> float:
    """The parallel share by least squares of relative errors on T(n) = a + b / n; two numbers of cores give
    it exactly.

    Not held within 0..1: a step that gets slower on more cores has a negative share, and a replicate that is
    cut off there would bias the mean.
    """
    # Weights 1 / T**2: processes differ by factors, so a long step is off by more seconds.
    rows = [(1 / t, 1 / (n * t)) for n, t in times.items()]
    aa, ab, bb = (math.fsum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a1, b1 = (math.fsum(r[i] for r in rows) for i in (0, 1))
    determinant = aa * bb - ab * ab
    a, b = (a1 * bb - b1 * ab) / determinant, (b1 * aa - a1 * ab) / determinant
    return b / (a + b)


FEWEST_COUNTS = 3
"""Numbers of cores that can speak against the law, so that its limit may be believed."""
FIT_ANY = "two numbers of cores fit any law"


def cores_findings(measured: Sequence[Measured], identical: int | None = None) -> list[CoresFinding]:
    """One finding for every case but for its number of cores, measured at two of them or more.

    `identical`: how many cores of one kind the machine offers, where it has several kinds (None: all are
    alike). What ran on more is left out.
    """
    groups: dict[tuple[str, ...], dict[int, Measured]] = {}
    for m in measured:
        n = cores_of(m.case.device)
        if n is not None and is_cpu(m.case.device) and m.steps:
            key = (m.work_id, m.tuning_id, _unlimited(m.case.device))
            groups.setdefault(key, {}).setdefault(n, m)
    return [_finding(group, identical) for group in groups.values() if len(group) > 1]


def _unlimited(device: Device) -> str:
    """The device's label without its number of cores."""
    options = tuple(pair for pair in device.options if pair[0] != "threads")
    return dataclasses.replace(device, threads=None, options=options).label


def _finding(group: Mapping[int, Measured], identical: int | None) -> CoresFinding:
    used = {n: m for n, m in sorted(group.items()) if identical is None or n <= identical}
    first = next(iter(group.values()))
    finding = CoresFinding(
        model=first.case.work.model,
        batch=first.case.work.batch,
        data=first.case.work.data,
        seed=first.case.work.seed,
        tuning_name=first.finding.tuning_name,
        device_label=_unlimited(first.case.device),
        points=(),
        processes=0,
        simulated=first.finding.simulated,
        disturbed=any(disturbed(m.finding) for m in used.values()),
        source=first.finding.source,
        evidence=tuple(line for m in used.values() for line in m.finding.evidence),
    )
    if len(used) < len(group):
        left = ", ".join(str(n) for n in sorted(group) if n not in used)
        finding = _because(finding, points=f"{left} cores are not all of one kind here: left out")
    if len(used) < 2:
        return _because(finding, parallel="fewer than two numbers of identical cores")
    replicates = _replicates(used)
    if not replicates:
        return _because(finding, parallel="no replicate was measured at every number of cores")
    looks = all_looks(m.looks for m in used.values())
    keys = shared_keys([m.steps for m in used.values()])
    others = any(busy(m, keys) for m in used.values())
    finding = dataclasses.replace(finding, apart=_apart(used), disturbed=others)
    finding = _with_fit(_with_points(finding, replicates, looks), replicates, looks)
    return _judged(finding, replicates, looks)


def _apart(used: Mapping[int, Measured]) -> bool:
    """Whether some number of cores was not measured in turn with the least."""
    first, *others = used.values()
    keys = shared_keys([m.steps for m in used.values()])
    return any(apart(first, other, keys) for other in others)


def _replicates(used: Mapping[int, Measured]) -> list[Times]:
    """The step by number of cores of every replicate that has all of them, on the unit that has most."""
    keys = shared_keys([m.steps for m in used.values()])
    return [{n: m.steps[key] for n, m in used.items()} for key in keys]


def _with_points(finding: CoresFinding, replicates: Sequence[Times], looks: Sequence[int]) -> CoresFinding:
    points = []
    for n in replicates[0]:
        step = stats.geometric_mean(times[n] for times in replicates)
        point = CoresPoint(cores=n, step_s=step)
        if 1 in replicates[0] and n > 1:
            gains = [times[1] / times[n] for times in replicates]
            shares = [karp_flatt(gain, n) for gain in gains]
            point = dataclasses.replace(
                point,
                speedup=stats.case_interval(gains, looks=looks),
                serial=stats.mean_interval(shares, looks=looks),
                serial_point=fmean(shares),
            )
        points.append(point)
    return dataclasses.replace(finding, points=tuple(points), processes=len(replicates))


def _with_fit(finding: CoresFinding, replicates: Sequence[Times], looks: Sequence[int]) -> CoresFinding:
    shares = [fitted(times) for times in replicates]
    parallel, point = stats.mean_interval(shares, looks=looks), fmean(shares)
    ends = (parallel.low, parallel.high) if parallel else (None, None)
    limits = [1 / (1 - p) if p is not None and 0 < p < 1 else None for p in (point, *ends)]
    one = min(finding.points, key=lambda p: p.cores)
    scale = one.step_s * speedup(point, one.cores)  # seconds on one core, by the law
    errors = [scale / speedup(point, p.cores) / p.step_s - 1 for p in finding.points]
    if len(errors) < FEWEST_COUNTS:
        finding = _because(finding, misfit=FIT_ANY, limit=FIT_ANY)
        limits = [None] * len(limits)
    if parallel is None:
        finding = _because(finding, parallel="one process: no interval")
    return dataclasses.replace(
        finding,
        parallel=parallel,
        parallel_point=point,
        limit=limits[0],
        limit_low=limits[1],
        limit_high=limits[2],
        misfit=max(map(abs, errors)) if len(errors) >= FEWEST_COUNTS else None,
    )


def _judged(finding: CoresFinding, replicates: Sequence[Times], looks: Sequence[int]) -> CoresFinding:
    """Adds how the Karp-Flatt share moves with the number of cores, and what that says."""
    several = [n for n in replicates[0] if n > 1]
    if 1 not in replicates[0]:
        return _because(finding, trend="one core was not measured")
    if len(several) < 2:
        return _because(finding, trend="one number of cores above one shows no trend")
    x = [math.log2(n) for n in several]
    slopes = [_slope(x, [karp_flatt(times[1] / times[n], n) for n in several]) for times in replicates]
    slope = stats.mean_interval(slopes, looks=looks)
    finding = dataclasses.replace(finding, per_doubling=slope)
    if slope is None or slope.n < FEWEST:
        return _because(finding, trend=f"{len(replicates)} processes: {FEWEST} are the fewest for a verdict")
    if finding.disturbed:
        return _because(finding, trend="something else used the machine in most processes of a case")
    if finding.apart:
        return _because(finding, trend="the numbers of cores were not measured in turn")
    trend = _trend(slope, finding.points[-1].serial)
    if trend == "cannot be told":
        return _because(finding, trend="the serial share is not surely above 0")
    return dataclasses.replace(finding, trend=trend)


def _trend(slope: Interval, last: Interval | None) -> Trend:
    """`last`: the serial share on most cores. Only one above 0 can be an overhead."""
    if last is not None and last.high < 0:
        return "super-linear"
    if slope.contains(0.0):
        return "no trend"
    if slope.low > 0:
        return "grows" if last is not None and last.low > 0 else "cannot be told"
    return "falls"


def _slope(x: Sequence[float], y: Sequence[float]) -> float:
    mean = fmean(x)
    return math.fsum((a - mean) * b for a, b in zip(x, y, strict=True)) / math.fsum(
        (a - mean) ** 2 for a in x
    )


def _because(finding: CoresFinding, **reasons: str) -> CoresFinding:
    return dataclasses.replace(finding, reasons={**finding.reasons, **reasons})
