"""Part of an evaluation, timed: how long scoring the test set takes, and what it scored.

Knows nothing about steps.
"""

from breakeven.records.lines import Block
from breakeven.runtimes import Evaluation, Prepared
from breakeven.timing.clocks import Clock, timed_ns
from breakeven.timing.plan import Plan, Progress, Tell

COLD_EVALUATIONS = 5
"""A first evaluation of more than this many times the time for all of them stands for itself."""


def evaluated(
    prepared: Prepared, plan: Plan, clock: Clock, tell: Tell
) -> tuple[tuple[Block, ...], Evaluation | None]:
    """Evaluations of 1, 2, 4, ... batches until the time is used or the whole test set was scored warm.

    The first call pays for kernels and buffers (on CUDA ten times a warm one), so a second one follows even
    where the time is used, unless a batch takes so long that the first cannot weigh much.
    """
    blocks: list[Block] = []
    found: Evaluation | None = None
    limit, start, batches = plan.eval_ns, clock(), 1
    while limit > 0:
        ns, found = _evaluation(prepared, batches, clock)
        blocks.append(Block(n_steps=found.steps, samples=found.samples, ns=ns, warmup=not blocks))
        spent = clock() - start
        tell(Progress(phase="evaluation", done=min(1.0, spent / limit)))
        whole = found.steps < batches or found.samples == prepared.eval_samples
        late = spent + (1 if whole else 2) * ns > limit
        if len(blocks) == 1 and late and ns <= COLD_EVALUATIONS * limit:
            continue
        if (whole and len(blocks) > 1) or late or batches >= 2**20:
            break
        batches *= 1 if whole else 2
    if len(blocks) == 1:  # nothing warmer follows: it has to stand for itself
        blocks = [Block(n_steps=blocks[0].n_steps, samples=blocks[0].samples, ns=blocks[0].ns)]
    return tuple(blocks), found


def _evaluation(prepared: Prepared, batches: int, clock: Clock) -> tuple[int, Evaluation]:
    found: list[Evaluation] = []
    ns = timed_ns(clock, prepared.sync, lambda: found.append(prepared.evaluate(batches)))
    return ns, found[0]
