"""How fast a device runs one piece of work over and over: a measured ceiling of one process.

Knows nothing about what the work is. It is timed by the same loop as training steps.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from breakeven.runtimes import Evaluation, Peak, Prepared
from breakeven.timing.clocks import Clock
from breakeven.timing.loop import sample_training
from breakeven.timing.plan import Plan
from breakeven.timing.watching import Probe

TIGHT = 0.03
"""Relative half width of the median's interval that is enough: a ceiling is shown to two digits."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reached:
    """FLOPs or bytes a second at the median call of the steady blocks; flags of the loop and the probes."""

    per_second: float
    flags: tuple[str, ...]


def sample_peak(
    peak: Peak, *, budget_s: float, clock: Clock | None = None, watch: Mapping[str, Probe] | None = None
) -> Reached:
    """Calls the work until it is steady and its median tight, for about `budget_s` seconds.

    Raises Mismatch `invalid` for a clock that stands still, and whatever a call raises.
    """
    plan = Plan(budget_s=budget_s, eval_s=0.0, boundary=False, tight=TIGHT)
    samples = sample_training(_as_steps(peak), plan, clock=clock, watch=watch)
    calls = [block.ns / block.n_steps for block in samples.blocks if not block.warmup]
    seen = (flag for found in samples.probes.values() for flag in found.get("flags", ()))
    return Reached(
        per_second=peak.amount / (median(calls) * 1e-9), flags=tuple(dict.fromkeys([*samples.flags, *seen]))
    )


def _as_steps(peak: Peak) -> Prepared:
    """The work as steps of one epoch without an end, which nothing is learned from."""

    def nothing(*_: object) -> None:
        """There is no state."""

    return Prepared(
        step=peak.call,
        sync=peak.sync,
        samples_per_step=1,
        steps_per_epoch=sys.maxsize,
        next_epoch=nothing,
        evaluate=lambda n: Evaluation(steps=0, samples=0),
        losses=tuple,
        checks=dict,
        observed=dict,
        counters=dict,
        memory=dict,
        reset_memory=nothing,
        save=nothing,
        restore=nothing,
        close=nothing,
        hashes={},
        parameters=None,
        eval_samples=None,
        clock=peak.clock,
    )
