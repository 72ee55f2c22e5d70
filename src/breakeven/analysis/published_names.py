"""What a case here is called where results are published.

Knows nothing about published rows.
"""

from breakeven.analysis.findings import CaseFinding

AUTOCAST = {"fp16": "amp", "bf16": "amp-bf16"}
"""Training in half precision is autocast here: what publications call mixed precision."""


def precision_of(case: CaseFinding) -> str | None:
    """What ran, as publications call it: `default` by what the fastest products ran in, autocast as amp."""
    label = case.case.tuning.precision
    if label == "default":
        return case.ceiling_precision if case.ceiling_precision in ("fp32", "tf32") else None
    return AUTOCAST.get(label, label) if case.case.work.task == "train" else label
