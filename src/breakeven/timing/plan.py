"""How long and how well to sample, and how it is told where a sampling stands.

Knows nothing about steps or clocks.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from breakeven.timing.course import RESERVE

Phase = Literal["warm-up", "steps", "boundary", "calls", "evaluation", "epoch"]

WARMUP_SHARE, EVAL_SHARE, BOUNDARY_SHARE = 0.4, 0.1, 0.1
"""Shares of the budget: limits of warm-up and evaluation where the plan sets none, and of boundaries."""
CALLS_SHARE = 0.3
"""Share of an inference's budget for its single calls."""
MOST_CALLS = 5000
"""Latencies kept of one process: p99.9 takes 2,995 of them, and a line of results stays below 100 KB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How long and how well to sample; times in seconds by the clock used.

    `budget_s` bounds all but the cold step: warm-up (at most `warmup_s`, None: 40 % of it), evaluation (about
    `eval_s`, None: 10 %; 0: none), epoch boundaries (10 %), and the steady blocks, which get what warm-up
    leaves. Slow steps go beyond it: one to warm up, three steady ones (one if it alone exceeds their share),
    one at the boundary, one batch of evaluation. A step's parts come on top: 10 %, of slow steps up to 30 %.
    Inference gives `calls_s` (None: 30 % of the budget; 0: none) to `most_calls` single calls at most, and
    the rest to the others.

    `tight` is the relative half width of the median's 95 % interval at which sampling ends, after at least
    `min_blocks` blocks and `min_s` seconds (an energy counter needs some), which may go beyond the budget.
    `max_blocks` counts every block recorded. `min_block_ns`: a block pays one fill and drain of the device's
    queue, about 20 us on CUDA, which is 0.1 % of the default.
    """

    budget_s: float
    warmup_s: float | None = None
    eval_s: float | None = None
    calls_s: float | None = None
    most_calls: int = MOST_CALLS
    tight: float = 0.01
    min_blocks: int = 8
    max_blocks: int = 400
    min_s: float = 0.0
    min_block_ns: int = 20_000_000
    boundary: bool = True

    def __post_init__(self) -> None:
        if not (0 < self.budget_s < math.inf and self.tight > 0):
            raise ValueError(f"a plan needs a positive budget and tightness: {self}")
        if min(self.warmup_ns, self.eval_ns) < 0 or self.steady_ns <= 0:
            raise ValueError(f"warm-up and evaluation leave no time for steady blocks: {self}")
        if self.min_blocks < 6 or self.max_blocks < 2 * self.min_blocks + RESERVE:
            # Fewer than 6 blocks have no 95 % interval of their median; warm-up may use half of the most.
            raise ValueError(f"a plan needs 6 blocks or more, and more than twice as many at most: {self}")
        if not 0 <= self.calls_ns < self.budget_ns:
            raise ValueError(f"single calls leave no time for a stream of them: {self}")
        if not 1 <= self.most_calls <= MOST_CALLS:
            raise ValueError(f"1 to {MOST_CALLS} single calls are kept: {self}")

    @property
    def budget_ns(self) -> float:
        return 1e9 * self.budget_s

    @property
    def warmup_ns(self) -> float:
        return WARMUP_SHARE * self.budget_ns if self.warmup_s is None else 1e9 * self.warmup_s

    @property
    def eval_ns(self) -> float:
        return EVAL_SHARE * self.budget_ns if self.eval_s is None else 1e9 * self.eval_s

    @property
    def calls_ns(self) -> float:
        return CALLS_SHARE * self.budget_ns if self.calls_s is None else 1e9 * self.calls_s

    @property
    def steady_ns(self) -> float:
        """What is left for steady blocks if all others use their limits."""
        return self.budget_ns * (1 - BOUNDARY_SHARE) - self.warmup_ns - self.eval_ns


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Where a sampling stands. `done` is the share (0..1) of the phase; None is not known yet."""

    phase: Phase
    step_ns: float | None = None
    relative_half_width: float | None = None
    done: float = 0.0


Tell = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Nobody wants to know."""
