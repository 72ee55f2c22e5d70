"""What compiling and capturing cost, and after how many steps a tuning has paid that back.

Knows nothing about ladders. A warm compiler finds kernels on disk, so processes with a cold cache are kept
apart: theirs is what a new user pays.
"""

import math
import statistics
from dataclasses import dataclass

from breakeven import stats
from breakeven.analysis.cases import Measured
from breakeven.stats import Interval


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Seconds before the first step: the median over processes whose cache was in one state.

    `state`: cold, warm, mixed; None where nothing was compiled (a capture alone).
    """

    seconds: float
    state: str | None
    processes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class PayBack:
    """Steps after which the faster steps have paid for the longer build; else the `reason`."""

    steps: Interval | None = None
    reason: str | None = None


def cost_of(measured: Measured) -> Cost | None:
    """The cost of a cold build where one was seen, else of what was. None where nothing is built."""
    by_state: dict[str | None, list[float]] = {}
    for seconds, state in measured.builds.values():
        by_state.setdefault(state, []).append(seconds)
    if not by_state:
        return None
    state = next(s for s in ("cold", "mixed", None, "warm") if s in by_state)
    found = by_state[state]
    return Cost(seconds=statistics.median(found), state=state, processes=len(found))


def pay_back(here: Measured, over: Measured) -> PayBack:
    """When `here` has paid back what it costs to build beyond `over`, from the processes of both.

    The interval is that of the seconds a step saves (Student t over paired processes); the cost is a median.
    """
    cost, before = cost_of(here), cost_of(over)
    extra = (cost.seconds if cost else 0.0) - (before.seconds if before else 0.0)
    if extra <= 0:
        return PayBack(reason="its build takes no longer")
    saved = [over.steps[key] - here.steps[key] for key in over.steps.keys() & here.steps.keys()]
    if len(saved) < 2:
        return PayBack(reason="one process" if saved else "no process in common")
    mean = statistics.fmean(saved)
    half = stats.t_quantile(0.975, len(saved) - 1) * statistics.stdev(saved) / math.sqrt(len(saved))
    if mean + half <= 0:
        return PayBack(reason="never: its steps are slower")
    if mean - half <= 0:
        return PayBack(reason="cannot be told: whether a step is faster is not sure")
    bounds = {"low": extra / (mean + half), "estimate": extra / mean, "high": extra / (mean - half)}
    return PayBack(steps=Interval(**bounds, confidence=0.95, n=len(saved)))
