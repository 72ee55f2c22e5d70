"""The onnxruntime runtime: inference of declared models with ONNX Runtime's CPU, CUDA and TensorRT providers.

Knows nothing about clocks or studies. This module imports no onnxruntime: the modules beside it do.
"""

import os
from collections.abc import Iterator

from breakeven.records.case import Case
from breakeven.runtimes import Availability, Prepared

PRELOAD = (
    "numpy",
    "PIL.Image",
    "onnx",
    "onnxruntime",
    "breakeven.runtimes.onnxruntime.prepared",
)

INSTALL = 'pip install "breakeven[onnx]", or onnxruntime-gpu in place of onnxruntime for CUDA'
EXECUTIONS = ("session", "session:tensorrt")

NO_TELEMETRY = "ORT_DISABLE_TELEMETRY"
"""Environment variable without which ONNX Runtime 1.32 reports its use to a server, from a thread of its own
that begins when it is imported."""

os.environ.setdefault(NO_TELEMETRY, "1")


def availability() -> Availability:
    """ONNX Runtime's version and the devices that its providers can use."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        return Availability(reason=f"{error.name or 'onnxruntime'} is not installed: {INSTALL}")
    from breakeven.runtimes.onnxruntime import providers

    return Availability(versions=providers.versions(), places=providers.places())


def supports(case: Case) -> str | None:
    """The first reason why ONNX Runtime can't run this case anywhere, or None. Imports no onnxruntime."""
    from breakeven.runtimes.inference.inputs import not_possible

    reasons = [*_impossible(case), *not_possible(case)]
    return f"onnxruntime: {reasons[0]}" if reasons else None


def prepare(case: Case) -> Prepared:
    """Builds the case in this process."""
    from breakeven.errors import Unsupported
    from breakeven.runtimes.onnxruntime import prepared

    if reason := supports(case):
        raise Unsupported(reason)
    return prepared.prepare(case)


def _impossible(case: Case) -> Iterator[str]:
    tuning, tensorrt = case.tuning, case.tuning.execution == "session:tensorrt"
    told = {
        f"no execution {tuning.execution}: use {' or '.join(EXECUTIONS)}": tuning.execution not in EXECUTIONS,
        "TensorRT exists on CUDA devices only": tensorrt and case.device.kind != "cuda",
        # Its own table of kernels: CPU has no BF16 Conv, CUDA no BF16 MaxPool.
        "its providers lack BF16 kernels of common layers, TensorRT's aside": tuning.precision == "bf16"
        and not tensorrt,
        "its CUDA provider has no INT8 convolution: use session:tensorrt": tuning.precision == "int8"
        and case.device.kind == "cuda"
        and not tensorrt,
    }
    yield from (reason for reason, holds in told.items() if holds)
