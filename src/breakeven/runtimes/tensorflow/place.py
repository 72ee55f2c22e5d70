"""The device of a case: finding it, waiting for it, its threads, its memory and its names.

Knows nothing about models, data or training.
"""

import os
from collections.abc import Callable, Mapping
from typing import Any

from breakeven.errors import Mismatch, Unsupported
from breakeven.records.case import Case, Device
from breakeven.runtimes import Place
from breakeven.runtimes.host import MIB, cpu, cpu_name, threads_of
from breakeven.runtimes.tensorflow.library import keras, tf

SETTINGS = (
    "TF_FORCE_GPU_ALLOW_GROWTH",
    "TF_ENABLE_ONEDNN_OPTS",
    "TF_XLA_FLAGS",
    "XLA_FLAGS",
    "TF_GPU_ALLOCATOR",
)
"""Environment variables that change what TensorFlow computes with, or what its memory counters mean."""


def set_up(case: Case) -> str:
    """Every global setting from scratch, before TensorFlow opens its devices; then the device's name there.

    A case on the CPU does not see the GPU, so that it takes none of its memory. Raises Unsupported if this
    machine does not have the device, or if TensorFlow runs already with other threads.
    """
    name = _visible(case.device)
    threads = threads_of(case)
    threading = tf.config.threading
    wanted = (threads, threads)
    if _threads() != wanted:
        try:
            threading.set_intra_op_parallelism_threads(threads)
            threading.set_inter_op_parallelism_threads(threads)
        except RuntimeError:
            raise Unsupported(f"TensorFlow runs with {_threads()} threads already, not {wanted}") from None
    # What is asked of a GPU is done there or fails: by default TensorFlow moves an operation in silence.
    tf.config.set_soft_device_placement(case.device.kind == "cpu")
    keras.config.set_image_data_format("channels_last")
    return name


def _visible(device: Device) -> str:
    """TensorFlow's name of the device, the only one of its kind that is visible from now on."""
    if device.kind == "cpu":
        if tf.config.get_visible_devices("GPU"):
            tf.config.set_visible_devices([], "GPU")
        return "/device:CPU:0"
    found = tf.config.list_physical_devices("GPU")
    if not found:
        raise Unsupported(f"no CUDA device: tensorflow {tf.__version__} sees none")
    if device.index >= len(found):
        raise Unsupported(f"no device cuda:{device.index}: there are {len(found)}")
    chosen = found[device.index]
    if tf.config.get_visible_devices("GPU") != [chosen]:
        tf.config.set_visible_devices([chosen], "GPU")
        tf.config.experimental.set_memory_growth(chosen, True)
    return "/device:GPU:0"


def same_device(tensors: Mapping[str, Any], name: str) -> None:
    """Raises Mismatch unless every tensor is on the device of that name."""
    for what, tensor in tensors.items():
        if not tensor.device.endswith(name):
            raise Mismatch("device_mismatch", f"{what} is on {tensor.device}, asked was {name}")


def sync_of(device: Device) -> Callable[[], None]:
    """The function that returns when the device is done."""
    if device.kind == "cuda":
        return lambda: tf.test.experimental.sync_devices()
    # Nothing to wait for: unless asked otherwise, a call returns when its operations on a CPU are done.
    return lambda: None


def memory(device: Device) -> dict[str, float]:
    """Bytes in use now and at their most since the last reset, as TensorFlow's own allocator counts them."""
    if device.kind != "cuda":
        return {}
    found = tf.config.experimental.get_memory_info("GPU:0")
    return {f"tf_{name}_mib": found[name] / MIB for name in ("current", "peak")}


def reset_memory(device: Device) -> None:
    if device.kind == "cuda":
        tf.config.experimental.reset_memory_stats("GPU:0")


def versions() -> dict[str, str]:
    built = tf.sysconfig.get_build_info()
    found = {
        "tensorflow": tf.__version__,
        "keras": keras.__version__,
        "cuda": built.get("cuda_version"),
        "cudnn": built.get("cudnn_version"),
    }
    return {name: str(version) for name, version in found.items() if version}


def facts(device: Device) -> dict[str, Any]:
    """What TensorFlow says about the device and its settings now."""
    threads, interop = _threads()
    found: dict[str, Any] = {
        "threads": threads,
        "interop_threads": interop,
        "env": {name: os.environ.get(name) for name in SETTINGS},
        "versions": versions(),
        "tensor_float_32": bool(tf.config.experimental.tensor_float_32_execution_enabled()),
        "soft_placement": bool(tf.config.get_soft_device_placement()),
        "device": device_label(device),
    }
    if device.kind == "cpu":
        return found | {"device_name": cpu_name(), "capability": None}
    gpu = tf.config.get_visible_devices("GPU")[0]
    details = tf.config.experimental.get_device_details(gpu)
    return found | {
        "device_name": details.get("device_name"),
        "capability": ".".join(map(str, details.get("compute_capability", ()))) or None,
        "memory_growth": bool(tf.config.experimental.get_memory_growth(gpu)),
    }


def device_label(device: Device) -> str:
    """As the record names devices."""
    return "cpu" if device.kind == "cpu" else f"{device.kind}:{device.index}"


def places() -> tuple[Place, ...]:
    """The CPU and every CUDA device that TensorFlow sees. It does not tell their memory."""
    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", "GPU") for gpu in gpus]
    return (cpu(), *(Place(label=f"cuda:{index}", name=name) for index, name in enumerate(names)))


def _threads() -> tuple[int, int]:
    threading = tf.config.threading
    return threading.get_intra_op_parallelism_threads(), threading.get_inter_op_parallelism_threads()
