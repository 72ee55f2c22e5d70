"""Whether a net computes what was declared: its outputs against FP64, and against its own runtime's FP32.

Knows nothing about who computes: functions of images in, checks out.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from breakeven.runtimes.checks import HUGE, Check, Told, answers, check, relative_l2
from breakeven.runtimes.inference.inputs import Images, Inputs, Logits, all_logits
from breakeven.workloads.costs import forward_flops
from breakeven.workloads.layers import Conv2d, Linear, Model, leaves
from breakeven.workloads.models import translates
from breakeven.workloads.reference import logits
from breakeven.workloads.tolerances import OUTPUT_ERROR, least_agreement

OUTPUT_IMAGES = 4
"""Images whose logits are compared with FP64's, which NumPy computes at about 1 GFLOP/s."""

TRANSLATED_IMAGES = 4
"""Images that a net translates twice, the first of them in FP64 too: one of 128x128 is 25 GFLOP."""

AGREEMENT_IMAGES = 1024
AGREEMENT_FLOPS = 2e12
"""Limit of what FP32 computes for the agreement, about half a minute on two cores, but 64 images at least."""


def weighted(model: Model) -> int:
    """Declared layers that multiply by weights: what INT8 has to reach; attention multiplies activations."""
    return sum(isinstance(leaf, Conv2d | Linear) for leaf in leaves(model.nodes))


def fidelity(inputs: Inputs, ran: str, run: Logits, exact: Logits, exact_batch: int) -> Iterator[Told]:
    """Checks by name, with the outcome that a failed one means.

    `ran` is the precision that ran; `run` takes batches of the case, `exact` (FP32 on the CPU, by the same
    runtime) batches of `exact_batch`.
    """
    yield "output", "output_mismatch", _output(inputs, ran, run)
    translating = translates(inputs.case.work.model)
    n = TRANSLATED_IMAGES if translating else max(64, int(AGREEMENT_FLOPS / forward_flops(inputs.model)))
    n = min(AGREEMENT_IMAGES, len(inputs.test.labels), n)
    mine, theirs, right = _scored(inputs, run, exact, exact_batch, n)
    if not translating:
        yield "agreement", "output_mismatch", _agreement(inputs, ran, mine, theirs)
        yield answers(theirs)
    error = relative_l2(mine, theirs)
    limit = OUTPUT_ERROR[ran]
    yield "output_error", "output_mismatch", check(limit, error, error <= limit, f"relative L2, {n} images")
    if inputs.known.labelled:
        found = {name: float(np.mean(made.argmax(1) == right)) for name, made in _named(mine, theirs)}
        yield "accuracy", "output_mismatch", check(found["fp32"], found["case"], True, f"{n} images")


def _agreement(inputs: Inputs, ran: str, mine: Images, theirs: Images) -> Check:
    """The share of images whose best class is FP32's, too."""
    n, trained = len(mine), inputs.case.work.weights is not None
    same = float(np.mean(mine.argmax(1) == theirs.argmax(1)))
    note = f"same top-1 as FP32 on the CPU by the same runtime, {n} images of {inputs.known.name}"
    if not trained:
        note += "; random weights: it says little about trained ones"
    least = least_agreement(ran, n, trained=trained)
    return check(least, same, same >= least, note)


def _named(mine: Images, theirs: Images) -> tuple[tuple[str, Images], ...]:
    return ("case", mine), ("fp32", theirs)


def _output(inputs: Inputs, ran: str, run: Logits) -> Check:
    """The case's logits of a few images against the declared layers in FP64."""
    images = inputs.images(0, 1 if translates(inputs.case.work.model) else OUTPUT_IMAGES)
    expected = logits(inputs.model, inputs.weights, images)
    found = all_logits(run, images, inputs.batch)
    error = relative_l2(found, expected)
    worst = float(np.abs(found - expected).max()) if error < HUGE else HUGE
    note = f"against FP64 of the declared layers, {len(images)} images, as {ran}"
    return check(
        {"relative_l2": OUTPUT_ERROR[ran]},
        {"relative_l2": error, "max_abs": worst},
        error <= OUTPUT_ERROR[ran],
        note,
    )


def _scored(
    inputs: Inputs, run: Logits, exact: Logits, exact_batch: int, n: int
) -> tuple[Images, Images, Any]:
    """Logits of the first `n` test images by the case and by FP32, and their labels; piece by piece: 1,024
    images of 224x224 are 588 MiB."""
    mine, theirs = [], []
    piece = max(inputs.batch, exact_batch)
    for start in range(0, n, piece):
        images = inputs.images(start, min(piece, n - start))
        mine.append(all_logits(run, images, inputs.batch))
        theirs.append(all_logits(exact, images, exact_batch))
    return np.concatenate(mine), np.concatenate(theirs), inputs.test.labels[:n]
