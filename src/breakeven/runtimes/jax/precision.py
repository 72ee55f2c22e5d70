"""Numeric precision: the setting, what it reads back as, and bit probes of what really runs.

Knows nothing about data, optimizers or the training loop.
"""

import re
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray

from breakeven.runtimes import bits
from breakeven.runtimes.jax import nets
from breakeven.workloads import layers
from breakeven.workloads.layers import Shape

SETTINGS = {"fp32": "highest", "tf32": "tensorfloat32"}
"""Precision -> `jax_default_matmul_precision`, which convolutions follow as well. Others set nothing: JAX's
own default on an NVIDIA GPU from Ampere on is TF32."""

TYPES = {"bf16": jnp.bfloat16, "fp16": jnp.float16}


def set_precision(precision: str) -> None:
    """Sets what products of FP32 are computed in, from now traced programs on."""
    jax.config.update("jax_default_matmul_precision", SETTINGS.get(precision))


def compute_type(precision: str) -> Any:
    """The type that products are computed in; None: that of their factors."""
    return TYPES.get(precision)


def hardware(precision: str, device: jax.Device) -> tuple[bool, str]:
    """(whether the hardware computes in this precision itself, what says so)."""
    if device.platform != "cpu":
        capability = str(getattr(device, "compute_capability", "0"))
        # Tensor cores know TF32 and BF16 from Ampere (compute capability 8.0) on: CUDA C programming guide.
        newer = float(capability or 0) >= 8
        return precision not in ("tf32", "bf16") or newer, f"compute capability {capability}"
    if precision not in TYPES:
        return precision != "tf32", "FP32 units"
    used = _product_types(TYPES[precision], device)
    if "f32" in used:
        return False, f"XLA computes products of {np.dtype(TYPES[precision]).name} in FP32 on this processor"
    return True, f"XLA computes products in {', '.join(sorted(used)) or 'a library of its own'}"


def _product_types(dtype: Any, device: jax.Device) -> set[str]:
    """What XLA makes convolutions and matrix products of a type compute in, as HLO names types."""
    rows = jax.ShapeDtypeStruct((64, 64), dtype)
    images, filters = (jax.ShapeDtypeStruct(s, dtype) for s in ((8, 16, 16, 64), (3, 3, 64, 64)))

    def both(a: Any, x: Any, w: Any) -> Any:
        return a @ a, lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )

    with jax.default_device(device):
        text = str(jax.jit(both).lower(rows, images, filters).compile().as_text())
    return set(re.findall(r"= (\w+)\[\S* (?:convolution|dot)\(", text))


def roughest(probed: Mapping[str, Mapping[str, Any]]) -> str:
    """The roughest precision that the probes have a name for: one without a name loosens nothing."""
    return bits.roughest({kind: found["precision"] for kind, found in probed.items() if found["precision"]})


def probe(
    leaf: layers.Leaf, shape: Shape, batch: int, *, how: nets.How, weights_type: Any, device: jax.Device
) -> dict[str, Any]:
    """Mantissa bits that a layer keeps at this shape, by the function and the compiler that run the net."""
    model = layers.Model(name="probe", num_classes=1, input_shape=(1, 1, 1), nodes=(leaf,))
    arrays = {
        name: jax.device_put(np.asarray(value).astype(weights_type), device)
        for name, value in nets.placed(bits.unit(leaf), channels_last=how.channels_last).items()
    }
    run = jax.jit(lambda arrays, x: nets.forward(model, arrays, x, how)[0])

    def product(x: NDArray[np.floating]) -> NDArray[np.floating]:
        if len(shape) == 3:
            x = nets.in_layout(x, channels_last=how.channels_last)
        if how.dtype is None:
            with np.errstate(over="ignore"):  # which is what it is looked for
                x = x.astype(weights_type)
        # Of both layouts the first element is the first channel's.
        return np.asarray(run(arrays, jax.device_put(x, device))).astype(np.float64)

    kept, found = bits.probed(leaf, shape, batch, product)
    return {"bits": kept, "precision": found, "shape": [batch, *shape]}
