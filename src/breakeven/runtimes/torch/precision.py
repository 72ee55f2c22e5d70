"""Numeric precision: the settings, what they read back as, and bit probes of what really runs.

Knows nothing about data, optimizers or the training loop.
Only the `fp32_precision` settings are used: once one of them is set, reading `allow_tf32` raises (torch 2.9).
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from breakeven.runtimes import bits

AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}
"""Training computes in these below master weights in FP32; inference has weights and activations in them."""


def set_precision(precision: str) -> None:
    """Sets matmul and convolution precision of every backend; `default` and autocast set nothing."""
    value = {"fp32": "ieee", "tf32": "tf32"}.get(precision)
    if value is not None:
        for setting in _settings().values():
            setting.fp32_precision = value


@contextmanager
def ieee_on(kind: str) -> Iterator[None]:
    """IEEE FP32 inside on devices of a kind, whatever a case has set; those of the other kind stay alone."""
    settings = [
        setting for name, setting in _settings().items() if name.startswith("mkldnn") == (kind == "cpu")
    ]
    before = [setting.fp32_precision for setting in settings]
    for setting in settings:
        setting.fp32_precision = "ieee"
    try:
        yield
    finally:
        for setting, value in zip(settings, before, strict=True):
            setting.fp32_precision = value


def read_back() -> dict[str, str]:
    """The precision settings as torch has them now, by backend and operation."""
    return {name: str(setting.fp32_precision) for name, setting in _settings().items()}


def autocast(precision: str, device: torch.device) -> AbstractContextManager[Any]:
    """The context of a forward pass: none at all where no autocast is asked, as entering one costs time."""
    dtype = AUTOCAST.get(precision)
    if dtype is None:
        return nullcontext()
    context: AbstractContextManager[Any] = torch.autocast(device.type, dtype=dtype)
    return context


def whole_dtype(precision: str) -> torch.dtype:
    """Type of weights and activations in inference. INT8 is quantised from a net in FP32."""
    return AUTOCAST.get(precision, torch.float32)


def autocast_dtype(precision: str) -> str | None:
    dtype = AUTOCAST.get(precision)
    return None if dtype is None else str(dtype).removeprefix("torch.")


Run = Callable[[nn.Module, torch.Tensor], torch.Tensor]
"""Computes a layer on an input, in another way than the layer itself."""


def probe(
    module: nn.Module,
    shape: tuple[int, ...],
    *,
    precision: str,
    device: torch.device,
    memory_format: torch.memory_format = torch.contiguous_format,
    dtype: torch.dtype = torch.float32,
    run: Run | None = None,
) -> dict[str, Any]:
    """Mantissa bits that a Conv2d or Linear of this shape keeps, and what precision that is.

    `run` computes the layer where that is not the layer itself.

    `dtype` is the type of weights and input: training's is float32, with autocast where the precision asks.

    One input element per sample is 1 + 2^-k and meets one weight of 1, all else is 0, so nothing is added up:
    the output is the product alone. A bit counts as kept if the output is nearer to 1 + 2^-k than 2^-(k+2),
    which lets Winograd's rounding pass and neither truncation nor rounding of the input.
    """
    layer = _unit_layer(module, device, memory_format).to(dtype)
    kept, found = bits.kept(
        lambda values: _response(layer, values, shape, precision, device, memory_format, run), shape[0]
    )
    return {"bits": kept, "precision": found, "shape": list(shape)}


def probe_attention(
    module: nn.Module,
    shape: tuple[int, ...],
    *,
    precision: str,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
) -> dict[str, Any]:
    """Mantissa bits that attention [n, tokens, 3 c] keeps of v, and what precision that is.

    Query and key of the first token agree so well that the softmax of its scores is 1 and zeros: what comes
    out is 1 times a value of v, by the kernel that torch chooses at this shape.
    """

    def product(values: NDArray[np.float64]) -> NDArray[np.floating]:
        x = torch.zeros(shape, dtype=torch.float32)
        width = shape[2] // 3
        x[:, 0, 0] = x[:, 0, width] = bits.CERTAIN
        x[:, 0, 2 * width] = torch.from_numpy(values).float()
        with torch.inference_mode(), autocast(precision, device):
            return numbers(module(x.to(device, dtype))[:, 0, 0])

    kept, found = bits.kept(product, shape[0])
    return {"bits": kept, "precision": found, "shape": list(shape)}


def numbers(values: torch.Tensor) -> NDArray[np.floating]:
    """A tensor's values in FP64 on the host."""
    found: NDArray[np.floating] = values.double().cpu().numpy()
    return found


ISA_CAPS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
"""Environment variables by which oneDNN is kept from instructions that the processor has."""


CPU_TYPES = {
    "bf16": {"avx512_bf16": "_is_avx512_bf16_supported", "amx_tile": "_is_amx_tile_supported"},
    "fp16": {"avx512_fp16": "_is_avx512_fp16_supported", "amx_fp16": "_is_amx_fp16_supported"},
    "int8": {"vnni": "_is_vnni_supported", "amx_tile": "_is_amx_tile_supported"},
}
"""Instructions by which a processor computes in a type itself -> the function of torch.cpu that tells."""


def hardware(precision: str, device: torch.device) -> tuple[bool, str]:
    """(whether the hardware computes in this precision itself, what says so)."""
    if device.type == "cuda":
        major, minor = torch.cuda.get_device_capability(device)
        # Tensor cores know TF32 and BF16 from Ampere (compute capability 8.0) on, INT8 from Turing (7.5) on:
        # CUDA C programming guide.
        first = {"tf32": (8, 0), "bf16": (8, 0), "int8": (7, 5)}.get(precision, (0, 0))
        return (major, minor) >= first, f"compute capability {major}.{minor}"
    if precision not in CPU_TYPES:
        return precision != "tf32", torch.backends.cpu.get_cpu_capability()
    capped = next((name for name in ISA_CAPS if os.environ.get(name)), None)
    if capped is not None:
        # torch asks the processor; oneDNN, which computes, was told not to use all of it.
        return False, f"capped by {capped}={os.environ[capped]}: perhaps emulated"
    flags = CPU_TYPES[precision]
    # Private names of torch.cpu: one that a release lacks counts as no support.
    here = [name for name, attribute in flags.items() if getattr(torch.cpu, attribute, lambda: False)()]
    wider = "wider integers" if precision == "int8" else "FP32"
    return bool(here), ", ".join(here) or f"neither {' nor '.join(flags)}: emulated with {wider}"


def _settings() -> dict[str, Any]:
    return {
        "cuda_matmul": torch.backends.cuda.matmul,
        "cudnn_conv": torch.backends.cudnn.conv,
        "cudnn_rnn": torch.backends.cudnn.rnn,
        "mkldnn_matmul": torch.backends.mkldnn.matmul,
        "mkldnn_conv": torch.backends.mkldnn.conv,
    }


def _unit_layer(module: nn.Module, device: torch.device, memory_format: torch.memory_format) -> nn.Module:
    """A copy of `module`'s shape whose output channel 0 is its input channel 0 (at the kernel's centre)."""
    if isinstance(module, nn.Conv2d):
        layer: nn.Module = nn.Conv2d(
            module.in_channels,
            module.out_channels,
            module.kernel_size,
            module.stride,
            module.padding,
            groups=module.groups,
            bias=module.bias is not None,
        )
    else:
        layer = nn.Linear(module.in_features, module.out_features, bias=module.bias is not None)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        centre = tuple(size // 2 for size in layer.weight.shape[2:])
        layer.weight[(0, 0, *centre)] = 1.0
    if isinstance(module, nn.Conv2d):
        return layer.to(device=device, memory_format=memory_format)
    return layer.to(device=device)


def _response(
    layer: nn.Module,
    values: NDArray[np.float64],
    shape: tuple[int, ...],
    precision: str,
    device: torch.device,
    memory_format: torch.memory_format,
    run: Run | None,
) -> NDArray[np.floating]:
    """Output element that one input element per sample meets; the element sits where a window is centred."""
    x, given = torch.zeros(shape, dtype=torch.float32), torch.from_numpy(values).float()
    if isinstance(layer, nn.Conv2d):
        # Output (0, 0) has its window's centre at kernel // 2 - padding.
        row, column = (k // 2 - p for k, p in zip(layer.kernel_size, layer.padding, strict=True))
        x[:, 0, row, column] = given
        x = x.contiguous(memory_format=memory_format)
    else:
        x.view(shape[0], -1)[:, 0] = given  # of a sample's first token, if it has tokens
    with torch.inference_mode(), autocast(precision, device):
        x = x.to(device, layer.weight.dtype)
        made = layer(x) if run is None else run(layer, x)
        return numbers(made.float().reshape(shape[0], -1)[:, 0])
