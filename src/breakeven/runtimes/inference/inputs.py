"""What an inference case computes with, before any runtime: model, weights, batches, calibration images.

Knows nothing about frameworks: NumPy arrays in, NumPy arrays out.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from breakeven.records.case import Case
from breakeven.workloads import data, models, order, sources
from breakeven.workloads.calibration import RECIPE, images
from breakeven.workloads.data import DataEntry, DataSet
from breakeven.workloads.fitting import known_data, misfits
from breakeven.workloads.layers import Attention, Model, leaves
from breakeven.workloads.weights import Weights

Images = NDArray[np.float32]
Logits = Callable[[Images], Images]
"""FP32 images [batch, C, H, W] of exactly the net's batch -> FP32 logits [batch, classes]; of a net that
translates, images [batch, C, H, W]."""

CALIBRATION = "minmax/256/train"
"""RULE/IMAGES/ORIGIN where the tuning names none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """Of one case: the declared model, its weights, and the test split that the batches are cut from."""

    case: Case
    known: DataEntry
    model: Model
    weights: Weights
    test: DataSet

    @property
    def batch(self) -> int:
        return self.case.work.batch

    def images(self, start: int, n: int) -> Images:
        """`n` test images from `start`, normalised, beginning again after the last."""
        rows = np.arange(start, start + n) % len(self.test.labels)
        return data.normalized(self.known, self.test.images[rows])

    @property
    def rows(self) -> NDArray[np.int64]:
        """The test images of the distinct batches that the timed calls take in turn, int64 [k, batch]."""
        work = self.case.work
        return order.inference_batches(work.seed, len(self.test.images), work.batch, work.input_shape)

    def resident(self) -> list[Images]:
        """Those batches, normalised."""
        return [data.normalized(self.known, self.test.images[chosen]) for chosen in self.rows]


def inputs_of(case: Case) -> Inputs:
    """Loads and verifies what the case needs. Raises Unsupported where this machine lacks it."""
    work = case.work
    known, test = known_data(work), data.load(work.data, "test")
    if models.translates(work.model):  # images of A, to which nobody knows the answer
        known, test = replace(known, labelled=False), data.of_domain(test, 0)
    model = models.model(work.model, num_classes=work.num_classes, input_shape=work.input_shape)
    return Inputs(
        case=case,
        known=known,
        model=model,
        weights=sources.of(work, model),
        test=test,
    )


def not_possible(case: Case) -> Iterator[str]:
    """Why no runtime of whole nets can run the case: what they have in common. Imports no framework."""
    work, tuning = case.work, case.tuning
    told = {
        f"no task {work.task}: it runs inference only": work.task != "infer",
        f"no device of kind {case.device.kind}": case.device.kind not in ("cpu", "cuda"),
        "several devices are not built yet": case.device.world_size != 1,
        "tf32 exists on CUDA devices only": tuning.precision == "tf32" and case.device.kind != "cuda",
        "it lays tensors out as it likes: set layout to channels-first": tuning.layout != "channels-first",
        "it tunes as it likes: set autotune to false": tuning.autotune,
        "threads must be at least 1": isinstance(tuning.threads, int) and tuning.threads < 1,
        f"{work.model} makes images, not scores, which it does not compare yet": models.translates(
            work.model
        ),
        "inference has no recipe": work.task == "infer" and work.recipe is not None,
    }
    yield from (reason for reason, holds in told.items() if holds)
    if tuning.precision == "int8":
        yield from _bad_calibration(tuning.calibration or CALIBRATION)
    yield from misfits(work)


def _bad_calibration(text: str) -> Iterator[str]:
    if RECIPE.fullmatch(text) is None:
        yield f"no calibration {text!r}: use minmax/IMAGES/train, such as {CALIBRATION}"


def calibration_images(inputs: Inputs) -> Images:
    """The images that the recipe names, real ones, normalised. Raises UserError where they are not here."""
    recipe = inputs.case.tuning.calibration or CALIBRATION
    return data.normalized(inputs.known, images(recipe, inputs.known))


def attends(model: Model) -> bool:
    """Whether the model has attention, for which quantisers have rules of their own."""
    return any(isinstance(leaf, Attention) for leaf in leaves(model.nodes))


def all_logits(run: Logits, images: Images, batch: int) -> Images:
    """Logits of any number of images by a net for `batch` of them: the last call is filled up and cut."""
    made = []
    for start in range(0, len(images), batch):
        part = images[start : start + batch]
        short = batch - len(part)
        full = np.concatenate([part, np.repeat(part[-1:], short, axis=0)]) if short else part
        made.append(run(full)[: len(part)])
    return np.concatenate(made)
