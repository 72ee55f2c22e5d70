"""What compiling and capturing cost, and after how many steps a tuning has paid that back.

Knows nothing about ladders. A warm compiler finds kernels on disk, so processes with a cold cache are kept
apart: theirs is what a new user pays.
"""

import math
import statistics
from dataclasses import dataclass

from breakeven import stats
from breakeven.analysis.cases import Measured
from breakeven.analysis.findings import RatioFinding
from breakeven.analysis.processes import all_looks, shared_keys
from breakeven.stats import Interval, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Seconds before the first step: the median over processes whose cache was in one state.

    `state`: cold, warm, mixed; None where nothing was compiled (a capture alone).
    """

    seconds: float
    state: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class PayBack:
    """Steps after which the faster steps have paid for the longer build; else the `reason`."""

    steps: Interval | None = None
    reason: str | None = None


def cost_of(measured: Measured, unit: str | None = None) -> Cost | None:
    """The cost of a cold build where one was seen, else of what was. None where nothing is built.

    `unit`: the machine whose builds count; None: all do.
    """
    by_state: dict[str | None, list[float]] = {}
    for (where, _), (seconds, state) in measured.builds.items():
        if unit is None or where == unit:
            by_state.setdefault(state, []).append(seconds)
    if not by_state:
        return None
    state = next(s for s in ("cold", "mixed", None, "warm") if s in by_state)
    return Cost(seconds=statistics.median(by_state[state]), state=state)


def pay_back(here: Measured, over: Measured, win: RatioFinding | None) -> PayBack:
    """When `here` has paid back what it costs to build beyond `over`, from the processes of both.

    The interval is that of the seconds a step saves (Student t over paired processes, widened as any); the
    cost is a median. What forbids the `win` or its verdict forbids this: other work, a shared machine.
    """
    if win is None or win.ratio is None or win.verdict is None:
        return PayBack(reason=_no_verdict(win))
    keys = shared_keys([over.steps, here.steps])
    unit = keys[0][0] if keys else None
    cost, before = cost_of(here, unit), cost_of(over, unit)
    if cost and before and None not in (cost.state, before.state) and cost.state != before.state:
        return PayBack(reason=f"its builds were {cost.state}, those before it {before.state}")
    extra = (cost.seconds if cost else 0.0) - (before.seconds if before else 0.0)
    if extra <= 0:
        return PayBack(reason="its build takes no longer")
    saved = [over.steps[key] - here.steps[key] for key in keys]
    if len(saved) < 2:
        return PayBack(reason="one process" if saved else "no process in common")
    mean = statistics.fmean(saved)
    half = stats.t_quantile(0.975, len(saved) - 1) * statistics.stdev(saved) / math.sqrt(len(saved))
    half *= stats.widening(len(saved), all_looks([over.looks, here.looks]))
    if win.verdict is Verdict.UNCERTAIN:
        return PayBack(reason="cannot be told: whether a step is faster is not sure")
    if mean + half <= 0:
        return PayBack(reason="never: its steps are slower")
    if mean - half <= 0:
        return PayBack(reason="cannot be told: whether a step is faster is not sure")
    bounds = {"low": extra / (mean + half), "estimate": extra / mean, "high": extra / (mean - half)}
    return PayBack(steps=Interval(**bounds, confidence=0.95, n=len(saved)))


def _no_verdict(win: RatioFinding | None) -> str:
    reasons = win.reasons if win else {}
    return reasons.get("ratio") or reasons.get("verdict", "not compared with the step before")
