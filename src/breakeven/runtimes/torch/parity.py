"""Reference runs in FP64: where loaders, residencies, layouts and threads must agree, they agree to 1e-8.

Knows nothing about tolerances.
"""

import torch

from breakeven.records.case import Case
from breakeven.runtimes.torch import translated
from breakeven.runtimes.torch.session import build
from breakeven.workloads import models


def fp64_losses(case: Case, steps: int = 10) -> tuple[float, ...]:
    """Losses of the first training steps of a case in FP64. FP32 drifts 2 % by step 10 from threads alone."""
    session = (translated.build if models.translates(case.work.model) else build)(case, dtype=torch.float64)
    try:
        if session.training.build is not None:
            session.training.build()
        for _ in range(steps):
            session.training.step()
        return session.training.losses()
    finally:
        if session.batches is not None:
            session.batches.close()
