"""The tensorflow runtime: training and inference of declared models with Keras 3 on TensorFlow.

Knows nothing about clocks or studies. This module imports no tensorflow: the modules beside it do.
"""

from collections.abc import Iterator

from breakeven.records.case import Case
from breakeven.runtimes import Availability, Prepared

PRELOAD = (
    "numpy",
    "PIL.Image",  # the data set `photos`
    "breakeven.runtimes.tensorflow.library",  # first: sets what the imports read
    "breakeven.runtimes.tensorflow.prepared",
)

INSTALL = 'pip install "breakeven[tensorflow]"'
EXECUTIONS = ("tf.function", "xla", "eager")
PRECISIONS = ("default", "fp32", "tf32", "fp16", "bf16")


def availability() -> Availability:
    """TensorFlow's version and the devices that it sees."""
    from importlib.util import find_spec

    for name in ("tensorflow", "keras"):
        if find_spec(name) is None:
            return Availability(reason=f"{name} is not installed: {INSTALL}")
    try:
        from breakeven.runtimes.tensorflow import place
    except ImportError as error:  # another build of it, or of what it needs
        return Availability(reason=f"tensorflow cannot be imported: {' '.join(str(error).split())[:200]}")
    return Availability(versions=place.versions(), places=place.places())


def supports(case: Case) -> str | None:
    """The first reason why TensorFlow can't run this case anywhere, or None. Imports no tensorflow."""
    from breakeven.workloads.fitting import misfits

    reasons = [*_impossible(case), *(_of_training(case) if case.work.task == "train" else ())]
    reasons = reasons or list(misfits(case.work))
    return f"tensorflow runtime: {reasons[0]}" if reasons else None


def prepare(case: Case) -> Prepared:
    """Builds the case in this process."""
    from breakeven.errors import Unsupported

    if reason := supports(case):
        raise Unsupported(reason)
    from breakeven.runtimes.tensorflow import prepared

    return prepared.prepare(case)


def _impossible(case: Case) -> Iterator[str]:
    work, tuning = case.work, case.tuning
    told = {
        f"no device of kind {case.device.kind}": case.device.kind not in ("cpu", "cuda"),
        "several devices are not built yet": case.device.world_size != 1,
        f"no precision {tuning.precision}": tuning.precision not in PRECISIONS,
        "tf32 exists on CUDA devices only": tuning.precision == "tf32" and case.device.kind != "cuda",
        f"no execution {tuning.execution}: use {', '.join(EXECUTIONS)}": tuning.execution not in EXECUTIONS,
        "its convolutions on a CPU are channels last: set layout to channels-last": tuning.layout
        != "channels-last",
        "threads must be at least 1": isinstance(tuning.threads, int) and tuning.threads < 1,
        "it tunes as it likes: set autotune to false": tuning.autotune,
        "it has no page-locked input of its own: set pinned to false": bool(tuning.pinned),
        "inference has no recipe": work.task == "infer" and work.recipe is not None,
    }
    yield from (reason for reason, holds in told.items() if holds)


def _of_training(case: Case) -> Iterator[str]:
    work, tuning = case.work, case.tuning
    told = {
        "training needs a recipe": work.recipe is None,
        "one loss scale of two updates in turn is not built yet: fp16": work.recipe is not None
        and work.recipe.loss == "cyclegan"
        and tuning.precision == "fp16",
        "every tuning drops the incomplete batch: set drop_last": not work.drop_last,
        "augmentation on the device of data on the host is not built yet": tuning.residency == "host"
        and tuning.augment_on == "device",
        "its optimizer is the recipe's formula by TensorFlow's kernel: leave optimizer_impl out": (
            tuning.optimizer_impl not in ("auto", None)
        ),
        f"accumulation must divide the batch of {work.batch}": work.recipe is not None
        and (work.recipe.accumulation < 1 or work.batch % work.recipe.accumulation != 0),
    }
    yield from (reason for reason, holds in told.items() if holds)
