"""How far a precision may move a net's answers before its speed counts for nothing (contract R24).

Knows nothing about runtimes: all of them hold their nets to this one table. By the precision that ran, not
the one that was asked for.
"""

import math

OUTPUT_ERROR = {"fp32": 1e-4, "tf32": 2e-2, "fp16": 5e-2, "bf16": 0.3, "int8": 0.7}
"""Greatest relative L2 error of the scores: bounds of gross errors, for scores of another net are off by 1 or
more. MobileNetV2 with trained weights, the most sensitive net seen, is off by 1e-6, 4e-3 (FP16), 4e-2 (BF16)
and 0.17 (INT8)."""

AGREEMENT = {"fp32": 0.99, "tf32": 0.99, "fp16": 0.95, "bf16": 0.95, "int8": 0.8}
"""Least share of images with the top-1 of FP32, of trained weights. INT8 of MobileNetV2 ranges from 65 to
85 % by recipe (one scale a tensor, one a channel, percentiles, mixed): a recipe that changes every fifth
answer is another net."""

UNTRAINED_AGREEMENT = {"fp32": 0.95, "tf32": 0.8, "fp16": 0.8, "bf16": 0.5, "int8": 0.5}
"""The same of random weights, whose best two scores may be near-ties that rounding alone decides. INT8 of
ResNet18 keeps 95 %; of unrelated scores the best agree about once in as many as there are classes."""


def least_agreement(ran: str, images: int, *, trained: bool) -> float:
    """The least share of `images` with FP32's top-1, in whole images: one of few is no verdict by itself.

    Raises KeyError for a precision without a limit.
    """
    limit = (AGREEMENT if trained else UNTRAINED_AGREEMENT)[ran]
    return math.floor(limit * images) / images
