"""Numeric precision: Keras's policies and TensorFlow's setting, and probes of what really runs.

Knows nothing about data, optimizers or the training loop.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from breakeven.records.case import Task
from breakeven.runtimes import bits
from breakeven.runtimes.tensorflow import nets
from breakeven.runtimes.tensorflow.library import tf
from breakeven.workloads import layers
from breakeven.workloads.layers import Shape

TRAINING = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16"}
INFERENCE = {"bf16": "bfloat16", "fp16": "float16"}
"""Precision -> Keras's policy; float32 for all others. Training computes in the narrow type below master
weights in float32; inference has weights and activations in it."""

FP64 = "float64"
"""The policy of comparisons."""


def policy_of(precision: str, task: Task) -> str:
    return (TRAINING if task == "train" else INFERENCE).get(precision, "float32")


def set_precision(precision: str) -> None:
    """Whether products of float32 may be computed in TF32. `default` and the narrow types set nothing."""
    if precision in ("fp32", "tf32"):
        tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")


def read_back(on_cpu: bool) -> str:
    """What products of float32 may be computed in, by the setting as it reads back."""
    allowed = tf.config.experimental.tensor_float_32_execution_enabled()
    return "tf32" if allowed and not on_cpu else "ieee"


def hardware(precision: str, on_cpu: bool) -> tuple[bool, str]:
    """(whether the hardware computes in this precision itself, what says so)."""
    if on_cpu:
        return bits.on_cpu(precision)
    gpu = tf.config.get_visible_devices("GPU")[0]
    major, minor = tf.config.experimental.get_device_details(gpu).get("compute_capability", (0, 0))
    # Tensor cores know TF32 and BF16 from Ampere (compute capability 8.0) on: CUDA C programming guide.
    return precision not in ("tf32", "bf16") or major >= 8, f"compute capability {major}.{minor}"


def probe(leaf: layers.Leaf, shape: Shape, batch: int, *, policy: str, xla: bool) -> dict[str, Any]:
    """Mantissa bits that a layer keeps at this shape under a policy, compiled as the case's step is."""
    net = nets.layer(leaf, shape, bits.unit(leaf), policy)
    run = tf.function(net, autograph=False, jit_compile=True if xla else None)
    kind = tf.as_dtype(policy.removeprefix("mixed_"))

    def product(x: NDArray[np.float32]) -> NDArray[np.floating]:
        made = run(tf.cast(nets.channels_last(x) if len(shape) == 3 else x, kind))
        found: NDArray[np.floating] = tf.cast(made, tf.float64).numpy()
        return found

    kept, found = bits.probed(leaf, shape, batch, product)
    return {"bits": kept, "precision": found, "shape": [batch, *shape]}


def probes(model: layers.Model, batch: int, *, policy: str, xla: bool) -> dict[str, dict[str, Any]]:
    """The costliest layer of each kind, probed."""
    return {
        kind: probe(leaf, shape, batch, policy=policy, xla=xla)
        for kind, (leaf, shape) in bits.costliest(model).items()
    }
