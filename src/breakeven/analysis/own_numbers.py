"""Claims that the numbers printed beside them decide: the arithmetic is done here, each time.

Knows nothing about results: a claim in, its verdict and the arithmetic out.
"""

import math
from itertools import pairwise

from breakeven.analysis.amdahl import speedup
from breakeven.analysis.findings import ClaimVerdict
from breakeven.catalog.claims import Claim
from breakeven.catalog.peaks import gpu_peak

Decided = tuple[ClaimVerdict, str]


def exponent_above(claim: Claim) -> Decided:
    """Whether the ratio grew faster than the size between two models: log ratio over log size."""
    sizes = claim.number("large_parameters") / claim.number("small_parameters")
    ratios = claim.number("large_ratio") / claim.number("small_ratio")
    exponent = math.log(ratios) / math.log(sizes)
    text = f"{ratios:.3g} times the ratio for {sizes:.3g} times the parameters: exponent {exponent:.2f}"
    return _verdict(exponent > _low(claim)), f"{text}, and linear is 1"


def units_reached(claim: Claim) -> Decided:
    """Whether a speed-up is near the number of units, and what Amdahl's law allows at the share that it
    implies."""
    units, seen = claim.number("units"), _value(claim)
    parallel = (1 - 1 / seen) / (1 - 1 / units)
    limit = speedup(parallel, math.inf)
    text = (
        f"{seen:g} is {100 * seen / units:.2g} % of {units:g} units; the law gives it at a parallel share of "
        f"{100 * parallel:.1f} %, where no number of units passes 1 / (1 - p) = {limit:.3g}"
    )
    return _verdict(seen >= _low(claim) * units), text


def falls_with_size(claim: Claim) -> Decided:
    """Whether the ratios fall from the smallest model to the largest."""
    pairs = sorted(zip(claim.several("sizes"), claim.several("ratios"), strict=True))
    shown = ", ".join(f"{size / 1e6:.3g} M {ratio:.3g}x" for size, ratio in pairs)
    falling = all(a > b for (_, a), (_, b) in pairwise(pairs))
    return _verdict(falling), f"by the parameters given there: {shown}"


def same_ranks(claim: Claim) -> Decided:
    """Whether two rows of ratios have one order, the second as base / candidate times."""
    first = claim.several("first")
    times = zip(claim.several("base"), claim.several("candidate"), strict=True)
    second = [base / candidate for base, candidate in times]
    shown = ", ".join(f"{a:.3g}x and {b:.3g}x" for a, b in zip(first, second, strict=True))
    return _verdict(_order(first) == _order(second)), f"training and inference by the times given: {shown}"


def within_peaks(claim: Claim) -> Decided:
    """Whether a ratio is one that the two devices' own peaks allow. Peaks that allow it do not confirm it."""
    peaks, seen = claim.number("candidate_tflop") / claim.number("base_tflop"), _value(claim)
    text = f"the peaks given there differ by {peaks:.3g}x"
    if seen <= peaks:
        return "cannot be told", f"{text}, which allows {seen:.3g}x"
    return "wrong by arithmetic", f"{text}: {seen:.3g}x is {seen / peaks:.2g} times that"


def within_limit(claim: Claim) -> Decided:
    """Whether a rate is one that its link allows."""
    limit, seen = claim.number("limit"), _value(claim)
    text = f"{seen:.3g} GB/s over a link of {limit:g} GB/s"
    if seen <= limit:
        return "cannot be told", f"{text} is possible"
    return "wrong by arithmetic", f"{text}: {seen / limit:.2g} times what it carries"


def more_bandwidth(claim: Claim) -> Decided:
    """Whether one GPU's datasheet has more memory bandwidth than another's."""
    names = [claim.numbers[side][0].replace("_", " ") for side in ("base", "candidate")]
    base, candidate = (gpu_peak(name) for name in names)
    if base is None or candidate is None:
        return "cannot be told", f"missing: the datasheets of {' and '.join(names)}"
    rates = base.bandwidth_gb_per_s, candidate.bandwidth_gb_per_s
    text = f"{names[1]} {rates[1]:g} GB/s, {names[0]} {rates[0]:g} GB/s by their datasheets"
    return _verdict(rates[1] > rates[0]), text


def _order(values: tuple[float, ...] | list[float]) -> list[int]:
    return sorted(range(len(values)), key=lambda i: -values[i])


def _verdict(right: bool) -> ClaimVerdict:
    return "confirmed" if right else "wrong by arithmetic"


def _value(claim: Claim) -> float:
    if claim.value is None:
        raise KeyError(f"claim {claim.claim} has no value")
    return claim.value


def _low(claim: Claim) -> float:
    if claim.low is None:
        raise KeyError(f"claim {claim.claim} has no lower bound")
    return claim.low
