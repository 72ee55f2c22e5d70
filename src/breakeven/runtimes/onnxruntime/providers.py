"""Which execution providers there are, and the options that make one compute as a case says.

Knows nothing about models or data.
"""

import os
from importlib import metadata
from typing import Any

import onnxruntime as ort
import pynvml

from breakeven.errors import Unsupported
from breakeven.records.case import Case
from breakeven.runtimes import Place, host

CPU, CUDA, TENSORRT = (f"{name}ExecutionProvider" for name in ("CPU", "CUDA", "Tensorrt"))

Provider = tuple[str, dict[str, str]]


def wanted(case: Case) -> str:
    """The provider that has to run every node of the case."""
    if case.device.kind == "cpu":
        return CPU
    return TENSORRT if case.tuning.execution == "session:tensorrt" else CUDA


def providers_of(case: Case) -> list[Provider]:
    """The case's provider and what a session falls back to. Raises Unsupported where this build lacks it."""
    name, precision = wanted(case), case.tuning.precision
    if name == CPU:
        return [(CPU, {})]
    if name not in ort.get_available_providers():
        raise Unsupported(
            f"this build of onnxruntime {ort.__version__} has no {name}: install onnxruntime-gpu"
        )
    # CUDA and cuDNN come with torch or in NVIDIA's own packages, where the loader does not look.
    ort.preload_dlls()
    device = {"device_id": str(case.device.index)}
    # The CPU stays last: ONNX Runtime adds it in any case, and what lands there is found by `placement`.
    chain: list[Provider] = [(CUDA, device | _tf32(precision)), (CPU, {})]
    return [(TENSORRT, device | engine_options(precision)), *chain] if name == TENSORRT else chain


def _tf32(precision: str) -> dict[str, str]:
    """`default` leaves the option as ONNX Runtime has it: on."""
    return {} if precision == "default" else {"use_tf32": "1" if precision == "tf32" else "0"}


def engine_options(precision: str) -> dict[str, str]:
    """Engines are kept nowhere: each process builds its own, and that is a cost of its own."""
    if precision in ("fp32", "int8"):
        # No option of this provider turns TF32 off; NVIDIA's variable does, if set before an engine is built.
        os.environ["NVIDIA_TF32_OVERRIDE"] = "0"
    enabled = {f"trt_{precision}_enable": "1"} if precision in ("fp16", "bf16", "int8") else {}
    return enabled | {"trt_engine_cache_enable": "0", "trt_timing_cache_enable": "0"}


def session_options(threads: int) -> Any:
    """All optimisations, one operator at a time with `threads` inside it, no warnings."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    # A number, never its own 0: that pins threads to cores by number, whether they were offered or not.
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return options


def session(proto: Any, case: Case, options: Any) -> Any:
    """An `InferenceSession`. ONNX Runtime may leave the asked provider out: see `same_provider`."""
    return ort.InferenceSession(proto.SerializeToString(), options, providers=providers_of(case))


def versions() -> dict[str, str]:
    found = {"onnxruntime": ort.__version__, "onnx": metadata.version("onnx")}
    cuda = getattr(ort, "cuda_version", None)
    return found | ({"cuda": str(cuda)} if cuda else {})


def places() -> tuple[Place, ...]:
    """The CPU, and every GPU that NVML lists where this build has the CUDA provider."""
    return host.cpu(), *(_gpus() if CUDA in ort.get_available_providers() else ())


def _gpus() -> tuple[Place, ...]:
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ()  # a CUDA build on a machine without a driver
    found = []
    for index in range(pynvml.nvmlDeviceGetCount()):
        board = pynvml.nvmlDeviceGetHandleByIndex(index)
        memory = pynvml.nvmlDeviceGetMemoryInfo(board).total / host.MIB
        found.append(Place(label=f"cuda:{index}", name=pynvml.nvmlDeviceGetName(board), memory_mib=memory))
    pynvml.nvmlShutdown()
    return tuple(found)


def facts(made: Any) -> dict[str, Any]:
    """What a session says about itself."""
    options = made.get_session_options()
    return {
        "providers": made.get_providers(),
        "provider_options": made.get_provider_options(),
        "threads": options.intra_op_num_threads,
        "interop_threads": options.inter_op_num_threads,
        "graph_optimization": options.graph_optimization_level.name,
        "execution_mode": options.execution_mode.name,
        "versions": versions(),
    }
