"""Reference runs in FP64: where frameworks, residencies, layouts and threads must agree, they agree to 1e-8.

Knows nothing about tolerances.
"""

import jax
import numpy as np

from breakeven.records.case import Case
from breakeven.runtimes.jax import translated
from breakeven.runtimes.jax.session import build
from breakeven.workloads import models


def fp64_losses(case: Case, steps: int = 10) -> tuple[float, ...]:
    """Losses of the first training steps of a case in FP64."""
    with jax.enable_x64(True):
        session = (translated.build if models.translates(case.work.model) else build)(case, dtype=np.float64)
        made = session.training
        made.compile()
        for _ in range(steps):
            made.step()
        found = made.losses()
        made.source.close()
        return found
