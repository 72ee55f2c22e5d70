"""The torch runtime: training and inference of declared models with PyTorch on CPUs and CUDA devices.

Knows nothing about clocks or studies. This module imports no torch: the modules beside it do.
"""

from collections.abc import Iterator, Mapping

from breakeven.records.case import Case, Device
from breakeven.records.transfers import KINDS, kind_and_size
from breakeven.runtimes import Availability, Peak, Prepared

PRELOAD = (
    "numpy",
    "PIL.Image",
    "PIL.ImageFile",
    "PIL.ImageOps",
    "multiprocessing.popen_fork",  # these three: the first loader with workers
    "multiprocessing.queues",
    "multiprocessing.synchronize",
    "torch",
    "torch.utils.data",
    "torch._dynamo",  # imported by the first optimizer otherwise, about one second
    "breakeven.runtimes.torch.prepared",  # torch.utils.flop_counter comes along
)

INSTALL = 'pip install "breakeven[torch]"'
PRECISIONS = ("default", "fp32", "tf32", "fp16", "bf16")
OPTIMIZER_IMPLS = ("auto", "for-loop", "foreach", "fused")

PEAKS = {
    "cpu": {
        "matmul_fp32": "tflop_per_s",
        "matmul_bf16": "tflop_per_s",
        "triad": "gb_per_s",
        "copy": "gb_per_s",
    },
    "cuda": {
        "matmul_fp32": "tflop_per_s",
        "matmul_tf32": "tflop_per_s",
        "matmul_fp16": "tflop_per_s",
        "matmul_bf16": "tflop_per_s",
        "matmul_int8": "top_per_s",
        "copy": "gb_per_s",
        "host_to_device_pinned": "gb_per_s",
        "host_to_device_pageable": "gb_per_s",
        "device_to_host_pinned": "gb_per_s",
        "device_to_host_pageable": "gb_per_s",
    },
}
"""Kind of device -> its measured ceilings, each with its unit."""


TRANSFERS = {"cpu": ("copy",), "cuda": KINDS}
"""Kind of device -> kinds of copies that can be measured by size."""


def availability() -> Availability:
    """Torch's version and the devices that it sees."""
    try:
        import PIL
        import torch  # noqa: F401
    except ImportError as error:
        return Availability(reason=f"{error.name or 'torch'} is not installed: {INSTALL}")
    from breakeven.runtimes.torch import place

    return Availability(versions=place.versions() | {"pillow": PIL.__version__}, places=place.places())


def supports(case: Case) -> str | None:
    """The first reason why torch can't run this case anywhere, or None. Imports no torch."""
    from breakeven.workloads.fitting import misfits

    reasons = [*_not_built(case), *_impossible(case)] or list(misfits(case.work))
    return f"torch runtime: {reasons[0]}" if reasons else None


def prepare(case: Case) -> Prepared:
    """Builds the case in this process."""
    from breakeven.errors import Unsupported
    from breakeven.runtimes.torch import prepared

    if reason := supports(case):
        raise Unsupported(reason)
    return prepared.prepare(case)


def peaks(device: Device) -> Mapping[str, str]:
    """The ceilings that can be measured on this kind of device: name and unit."""
    return PEAKS.get(device.kind, {})


def copies(device: Device) -> tuple[str, ...]:
    """The kinds of copies that can be measured by size on this kind of device."""
    return TRANSFERS.get(device.kind, ())


def peak(device: Device, name: str) -> Peak:
    """Builds one of them in this process, or a copy by size."""
    from breakeven.runtimes.torch import ceilings, transfers

    if sized := kind_and_size(name):
        return transfers.transfer(device, *sized)
    return ceilings.peak(device, name)


def _not_built(case: Case) -> Iterator[str]:
    work, tuning = case.work, case.tuning
    told = {
        "several devices are not built yet": case.device.world_size != 1,
        "augmentation on the device of data on the host is not built yet": work.task == "train"
        and tuning.residency == "host"
        and tuning.augment_on == "device",
    }
    yield from (reason for reason, holds in told.items() if holds)


def _impossible(case: Case) -> Iterator[str]:
    tuning = case.tuning
    told = {
        f"no device of kind {case.device.kind}": case.device.kind not in ("cpu", "cuda"),
        "tf32 exists on CUDA devices only": tuning.precision == "tf32" and case.device.kind != "cuda",
        "threads must be at least 1": isinstance(tuning.threads, int) and tuning.threads < 1,
        f"no execution {tuning.execution}": tuning.execution != "eager"
        and not tuning.captured
        and not tuning.fused
        and tuning.compile_mode is None,
        "a CUDA graph exists on CUDA devices only": tuning.captured and case.device.kind != "cuda",
    }
    yield from (reason for reason, holds in told.items() if holds)
    yield from (_impossible_training if case.work.task == "train" else _impossible_inference)(case)


def _impossible_training(case: Case) -> Iterator[str]:
    work, tuning = case.work, case.tuning
    translating = work.recipe is not None and work.recipe.loss == "cyclegan"
    told = {
        "fused convolutions keep nothing for a backward pass: they are of inference": tuning.fused,
        f"no precision {tuning.precision} in training": tuning.precision not in PRECISIONS,
        "training needs a recipe": work.recipe is None,
        "a captured step of two updates in turn is not built yet": translating and tuning.captured,
        "one loss scale of two updates in turn is not built yet: fp16": translating
        and tuning.precision == "fp16",
        "every tuning drops the incomplete batch: set drop_last": not work.drop_last,
        f"no optimizer implementation {tuning.optimizer_impl}": tuning.optimizer_impl
        not in (*OPTIMIZER_IMPLS, None),
        "a captured step cuts its batches on the device: set residency to device": tuning.captured
        and tuning.residency != "device",
        "a captured step cannot wait for its loss: set loss_sync to epoch": tuning.captured
        and tuning.loss_sync == "every-step",
        f"accumulation must divide the batch of {work.batch}": work.recipe is not None
        and (work.recipe.accumulation < 1 or work.batch % work.recipe.accumulation != 0),
    }
    yield from (reason for reason, holds in told.items() if holds)


def _impossible_inference(case: Case) -> Iterator[str]:
    tuning, int8 = case.tuning, case.tuning.precision == "int8"
    told = {
        f"no precision {tuning.precision}": tuning.precision not in (*PRECISIONS, "int8"),
        "inference has no recipe": case.work.recipe is not None,
        "fused convolutions are cuDNN's: they need a CUDA device": tuning.fused
        and case.device.kind != "cuda",
        "INT8 layers are kernels on a CPU only once compiled: set execution to compile:default": int8
        and case.device.kind == "cpu"
        and tuning.compile_mode is None,
    }
    yield from (reason for reason, holds in told.items() if holds)
    if int8 and case.device.kind == "cuda":
        yield from _impossible_int8_on_cuda(case)
    if tuning.fused:
        yield from _no_steps(case, "fused convolutions")


def _impossible_int8_on_cuda(case: Case) -> Iterator[str]:
    """What cuDNN's INT8 convolutions, which are all that torch has on CUDA devices, do not do."""
    tuning = case.tuning
    told = {
        "INT8 on CUDA is cuDNN's, not the compiler's: set execution to eager or cuda-graph": (
            tuning.compile_mode is not None
        ),
        "INT8 on CUDA is fused already: set execution to eager or cuda-graph": tuning.fused,
        "INT8 convolutions of cuDNN are channels last: set layout to channels-last": tuning.layout
        != "channels-last",
        "INT8 on CUDA takes the first plan of cuDNN's heuristics: set autotune to false": tuning.autotune,
    }
    yield from (reason for reason, holds in told.items() if holds)
    yield from _no_steps(case, "INT8 on CUDA")


def _no_steps(case: Case, what: str) -> Iterator[str]:
    """Why the net is no list of fused steps, if it is none."""
    from breakeven.errors import UserError
    from breakeven.workloads import fused, models

    work = case.work
    try:
        fused.fused(models.model(work.model, num_classes=work.num_classes, input_shape=work.input_shape))
    except UserError as error:
        yield f"{what}: {error}"
