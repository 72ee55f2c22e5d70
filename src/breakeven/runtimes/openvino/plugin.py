"""OpenVINO's CPU plugin: compiling a graph as a case says, and reading back what it resolved to.

Knows nothing about data or time.
"""

from typing import Any

import openvino as ov

from breakeven.errors import Unsupported
from breakeven.records.case import Case
from breakeven.runtimes import host
from breakeven.runtimes.checks import Check, check

HINTS = {"fp32": "f32", "bf16": "bf16", "fp16": "f16", "int8": "f32"}
"""Precision -> INFERENCE_PRECISION_HINT, which rules the float parts. Of INT8 these are FP32 as with ONNX
Runtime; left alone they would be BF16 where the CPU has it. `default` sets none."""

NAMES = {"f32": "fp32", "bf16": "bf16", "f16": "fp16"}
TYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
CAPABILITIES = {"bf16": "BF16", "fp16": "FP16", "int8": "INT8"}
PRODUCTS = ("Convolution", "FullyConnected", "MatMul")
INTEGERS = ("i8", "u8")
NAMED = 5


def core() -> ov.Core:
    return ov.Core()


def versions() -> dict[str, str]:
    return {"openvino": ov.get_version()}


def refuse_emulation(precision: str) -> None:
    """Raises Unsupported where the CPU lacks the type: the plugin would take another one without a word."""
    needed = CAPABILITIES.get(precision)
    has = core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    if needed and needed not in has:
        raise Unsupported(
            f"openvino: this CPU has no {needed}, it would compute in another type; it has {has}"
        )


def configuration(case: Case) -> dict[str, Any]:
    """One request at a time on all the threads: latency hint, one stream."""
    settings: dict[str, Any] = {
        "PERFORMANCE_HINT": "LATENCY",
        "NUM_STREAMS": 1,
        "INFERENCE_NUM_THREADS": host.threads_of(case),
    }
    hint = HINTS.get(case.tuning.precision)
    return settings | ({"INFERENCE_PRECISION_HINT": hint} if hint else {})


def compiled(model: Any, settings: dict[str, Any]) -> Any:
    """An `openvino.CompiledModel`."""
    return core().compile_model(model, "CPU", settings)


def facts(made: Any) -> dict[str, Any]:
    """What a compiled model says about itself."""
    return {
        "execution_devices": list(made.get_property("EXECUTION_DEVICES")),
        "inference_precision": resolved(made),
        "performance_hint": str(made.get_property("PERFORMANCE_HINT")).rpartition(".")[2].lower(),
        "execution_mode": str(made.get_property("EXECUTION_MODE_HINT")).rpartition(".")[2].lower(),
        "streams": int(made.get_property("NUM_STREAMS")),
        "threads": int(made.get_property("INFERENCE_NUM_THREADS")),
        "pinned_threads": bool(made.get_property("ENABLE_CPU_PINNING")),
        "versions": versions(),
    }


def resolved(made: Any) -> str:
    """The float type that the compiled model computes in, by our name."""
    name = made.get_property("INFERENCE_PRECISION_HINT").get_type_name()
    return NAMES.get(name) or TYPES.get(name, name)


def products(made: Any) -> dict[str, tuple[str, ...]]:
    """Execution type -> layers that multiply matrices, from the model as it runs after all fusions."""
    found: dict[str, tuple[str, ...]] = {}
    for node in made.get_runtime_model().get_ordered_ops():
        info = node.get_rt_info()
        if _text(info, "layerType") in PRODUCTS:
            kind = _text(info, "runtimePrecision")
            found[kind] = (*found.get(kind, ()), node.get_friendly_name())
    return dict(sorted(found.items()))


def computed(made: Any, precision: str, weighted: int) -> Check:
    """Whether every matrix product runs in the asked type.

    In INT8 as many as the `weighted` layers have to; attention's products of activations may stay FP32.
    """
    found = products(made)
    counts = {kind: len(names) for kind, names in found.items()}
    allowed = {"int8": INTEGERS}.get(precision, (HINTS.get(precision, ""),))
    others = [name for kind, names in found.items() if kind not in allowed for name in names]
    right = sum(counts.values()) - len(others)
    ok = right >= weighted if precision == "int8" else right > 0 and not others
    note = f"{weighted} layers with weights" + (f"; other: {', '.join(others[:NAMED])}" if others else "")
    return check(precision, counts, ok, note)


def _text(info: Any, key: str) -> str:
    return str(info[key].astype(str)) if key in info else ""
