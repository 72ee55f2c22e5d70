"""Reference runs in FP64: where frameworks, executions and residencies must agree, they agree to 1e-8.

Knows nothing about tolerances.
"""

from breakeven.records.case import Case
from breakeven.runtimes.tensorflow import translated
from breakeven.runtimes.tensorflow.session import build
from breakeven.workloads import models


def fp64_losses(case: Case, steps: int = 10) -> tuple[float, ...]:
    """Losses of the first training steps of a case in FP64."""
    training = (translated.build if models.translates(case.work.model) else build)(case, fp64=True).training
    training.build()
    try:
        for _ in range(steps):
            training.step()
        return training.losses()
    finally:
        training.source.close()
