"""How far a precision may move a net's answers, or a first step of its training, before its speed counts for
nothing (contract R24).

Knows nothing about runtimes: all of them hold their nets to this one table. By the precision that ran, not
the one that was asked for.
"""

import math
from collections.abc import Mapping

PARITY_BATCH = 8
"""Samples of a first step against FP64: enough for batch norm, few enough for ResNet152 in FP64 on a CPU."""

PARITY = {"fp32": (1e-5, 1e-3), "tf32": (1e-2, 0.2), "fp16": (1e-2, 0.3), "bf16": (5e-2, 0.6)}
"""(relative loss, gradient relative L2) of a first step against FP64. FP32: design.md. The others bound gross
errors only: they keep 10, 10 and 7 bits of each factor. Seen on an H200, at worst: TF32 2e-4 and 0.10, BF16
1.3e-2 and 0.38 (ResNet152)."""

DAMPING = 0.05
"""Factor on the last batch norm of each residual branch in that comparison. Undamped, what FP32 rounds away
grows from block to block until ReLUs flip: FP32 gradients of ResNet50 and 152 were 1.6 % and 16 % off FP64's,
which is the net and not the device. Damped, they were 4e-6 and 4.5e-3 off."""

RESIDUAL_GRADIENT = 1e-2
"""FP32's gradient limit with residual branches: some ReLUs flip even so, each worth about 1e-3."""

PUSH = 2.0**-19
"""Most that a weight is moved by, as a share of it, to see whether a batch is decided: 32 roundings of FP32.
A ReLU at zero or two equal maxima send a gradient the one way or the other, and no arithmetic is wrong there:
with FP32's choices imposed, FP64 agrees with it to 1e-6. VGG16 makes 2 million of them for PARITY_BATCH
images; a single ReLU made FP32's gradient 0.3 % off. FP64 itself turns as far, by half or more, under a push:
so it did in 11 of 11 batches that were off by 1e-4 or more (conv6-seed, conv6 and VGG16 on `digits`), in 10
with half the push. It turns by more than 1e-3 in 6 to 25 % of `untied` batches of these nets and ResNet18."""

DRAWS = 4
"""Batches to be compared on at most, one after the other: all but the last may be undecided."""

SCALE = 1024.0
"""On the loss of that comparison: a power of two that changes no bit of what does not underflow in FP16."""

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


def parity_limits(ran: str, *, residual: bool) -> dict[str, float]:
    """Most that a first step's `loss` and `gradient` may be off; `residual`: the net has damped branches."""
    loss, gradient = PARITY[ran]
    return {"loss": loss, "gradient": RESIDUAL_GRADIENT if residual and ran == "fp32" else gradient}


def within(limits: Mapping[str, float], found: Mapping[str, float]) -> bool:
    """Whether each of what was found is within its limit; what is no number is not."""
    return all(found[name] <= limit for name, limit in limits.items())


def least_agreement(ran: str, images: int, *, trained: bool) -> float:
    """The least share of `images` with FP32's top-1, in whole images: one of few is no verdict by itself.

    Raises KeyError for a precision without a limit.
    """
    limit = (AGREEMENT if trained else UNTRAINED_AGREEMENT)[ran]
    return math.floor(limit * images) / images
