"""Reference runs in FP64: where frameworks, executions and residencies must agree, they agree to 1e-8.

Knows nothing about tolerances.
"""

from breakeven.records.case import Case
from breakeven.runtimes.tensorflow.session import build


def fp64_losses(case: Case, steps: int = 10) -> tuple[float, ...]:
    """Losses of the first training steps of a case in FP64."""
    session = build(case, fp64=True)
    session.training.build()
    try:
        for _ in range(steps):
            session.training.step()
        return session.training.losses()
    finally:
        session.training.source.close()
