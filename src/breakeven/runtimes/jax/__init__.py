"""The jax runtime: training and inference of declared models with JAX, as programs that XLA compiles.

Knows nothing about clocks or studies. This module imports no jax: the modules beside it do.
"""

from collections.abc import Iterator

from breakeven.records.case import Case
from breakeven.runtimes import Availability, Prepared

PRELOAD = (
    "numpy",
    "PIL.Image",  # the data set `photos`
    "jax",
    "jax.numpy",
    "jax.monitoring",
    "jaxlib.mlir.dialects.mhlo",  # these two: the first program
    "jaxlib.mlir.extras",
    "breakeven.runtimes.jax.prepared",
)

INSTALL = 'pip install "breakeven[jax]", or jax[cuda13] or jax[cuda12] beside it for CUDA'
EXECUTIONS = ("jit", "eager")
PRECISIONS = ("default", "fp32", "tf32", "fp16", "bf16")


def availability() -> Availability:
    """JAX's version and the devices that it sees."""
    try:
        import jax  # noqa: F401
    except ImportError as error:
        return Availability(reason=f"{error.name or 'jax'} is not installed: {INSTALL}")
    from breakeven.runtimes.jax import place

    return Availability(versions=place.versions(), places=place.places())


def supports(case: Case) -> str | None:
    """The first reason why JAX can't run this case anywhere, or None. Imports no jax."""
    from breakeven.workloads.fitting import misfits

    reasons = [*_impossible(case), *(_of_training(case) if case.work.task == "train" else ())]
    reasons = reasons or list(misfits(case.work))
    return f"jax runtime: {reasons[0]}" if reasons else None


def prepare(case: Case) -> Prepared:
    """Builds the case in this process."""
    from breakeven.errors import Unsupported
    from breakeven.runtimes.jax import prepared

    if reason := supports(case):
        raise Unsupported(reason)
    return prepared.prepare(case)


def _impossible(case: Case) -> Iterator[str]:
    work, tuning = case.work, case.tuning
    told = {
        f"no device of kind {case.device.kind}": case.device.kind not in ("cpu", "cuda"),
        "several devices are not built yet": case.device.world_size != 1,
        f"no precision {tuning.precision}": tuning.precision not in PRECISIONS,
        "tf32 exists on CUDA devices only": tuning.precision == "tf32" and case.device.kind != "cuda",
        f"no execution {tuning.execution}: use {' or '.join(EXECUTIONS)}": tuning.execution not in EXECUTIONS,
        "threads must be at least 1": isinstance(tuning.threads, int) and tuning.threads < 1,
        "XLA tunes as it likes: set autotune to false": tuning.autotune,
        "XLA stages transfers in page-locked memory by itself: set pinned to false": bool(tuning.pinned),
        "its update is the recipe's formula in one program: leave optimizer_impl out": tuning.optimizer_impl
        not in ("auto", None),
        "inference has no recipe": work.task == "infer" and work.recipe is not None,
    }
    yield from (reason for reason, holds in told.items() if holds)


def _of_training(case: Case) -> Iterator[str]:
    work, tuning = case.work, case.tuning
    translating = work.recipe is not None and work.recipe.loss == "cyclegan"
    told = {
        "training needs a recipe": work.recipe is None,
        "one loss scale of two updates in turn is not built yet: fp16": translating
        and tuning.precision == "fp16",
        "every tuning drops the incomplete batch: set drop_last": not work.drop_last,
        "augmentation on the device of data on the host is not built yet": tuning.residency == "host"
        and tuning.augment_on == "device",
        "a loader has 0 workers or more": (tuning.workers or 0) < 0,
        f"accumulation must divide the batch of {work.batch}": work.recipe is not None
        and (work.recipe.accumulation < 1 or work.batch % work.recipe.accumulation != 0),
    }
    yield from (reason for reason, holds in told.items() if holds)
