"""INT8 on an x86 CPU: a net quantised after training by torchao, for torch's compiler to lower.

Knows nothing about how calls are timed. Weights int8 with a scale for each output channel, activations uint8
with one for each tensor (what the processor's VNNI and AMX instructions multiply); ranges are the extremes
over real images. The quantised graph is slow until it is compiled: only then its layers are INT8 kernels.
"""

import logging
import platform
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from torch import nn

from breakeven.errors import Unsupported, UserError
from breakeven.records.case import Case
from breakeven.workloads import data
from breakeven.workloads.calibration import images

RULE = "minmax"
INSTALL = 'pip install "breakeven[int8]"'
LOWERED = {
    "conv": "qconv_weight_prepack_matcher_count",
    "matmul": "qlinear_weight_prepack_matcher_count",
}
"""Kind of layer -> torch._inductor's count of those that it made INT8 kernels of."""

EPS = 2.0**-12
"""Least scale, as torchao's own configuration for this compiler has it."""


def quantized(case: Case, net: nn.Module, layout: torch.memory_format) -> tuple[nn.Module, dict[str, Any]]:
    """(the net with quantised layers, facts). Raises Unsupported where that can't run here.

    The graph is exported for the case's batch, to which calibration keeps, too.
    """
    recipe = case.tuning.calibration or f"{RULE}/256/train"
    images = _images(case, recipe)
    if platform.machine().lower() not in ("x86_64", "amd64"):
        raise Unsupported(f"torch's INT8 kernels are for x86 CPUs, not {platform.machine()}")
    if find_spec("torchao") is None:
        raise Unsupported(f"INT8 needs torchao: {INSTALL}")
    with _quiet():
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import X86InductorQuantizer

        batch = case.work.batch
        # No inference mode: the exported graph would keep tensors that nothing may change later.
        with torch.no_grad():
            filled = torch.from_numpy(np.resize(images[:batch], (batch, *images.shape[1:])))
            example = filled.contiguous(memory_format=layout)
            exported = torch.export.export(net, (example,)).module()
            quantizer = X86InductorQuantizer()
            quantizer.set_global(_config())
            observing = prepare_pt2e(exported, quantizer)
            for first in range(0, len(images), batch):
                # Filled up by repeating: no image is new, so no range changes.
                chosen = np.resize(images[first : first + batch], (batch, *images.shape[1:]))
                observing(torch.from_numpy(chosen).contiguous(memory_format=layout))
            made: nn.Module = convert_pt2e(observing)
    return made, {
        "calibration": recipe,
        "calibration_images": len(images),
        "activations": "uint8 per tensor",
        "weights": "int8 per channel",
    }


def lowered() -> Mapping[str, int]:
    """Layers that torch's compiler has made INT8 kernels of in this process, by kind."""
    from torch._dynamo.utils import counters

    return {kind: int(counters["inductor"][name]) for kind, name in LOWERED.items()}


def _images(case: Case, recipe: str) -> Any:
    """The images that the recipe names, normalised. Raises Unsupported where they are not here."""
    known = data.entry(case.work.data)
    try:
        return data.normalized(known, images(recipe, known))
    except UserError as error:
        raise Unsupported(str(error)) from error


def _config() -> Any:
    """torchao's configuration for this compiler, but for the rule of ranges: extremes, no histogram."""
    from torchao.quantization.pt2e import MinMaxObserver, PerChannelMinMaxObserver
    from torchao.quantization.pt2e.quantizer import QuantizationSpec
    from torchao.quantization.pt2e.quantizer.utils import QuantizationConfig

    # Without VNNI the sum of two products may overflow 16 bits: 7 bits of activation can't.
    most = 255 if torch.cpu._is_vnni_supported() else 127
    activation = QuantizationSpec(
        dtype=torch.uint8,
        quant_min=0,
        quant_max=most,
        qscheme=torch.per_tensor_affine,
        is_dynamic=False,
        observer_or_fake_quant_ctr=MinMaxObserver.with_args(eps=EPS),
    )
    weight = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-128,
        quant_max=127,
        qscheme=torch.per_channel_symmetric,
        ch_axis=0,
        is_dynamic=False,
        observer_or_fake_quant_ctr=PerChannelMinMaxObserver.with_args(eps=EPS),
    )
    return QuantizationConfig(activation, activation, weight, None, False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences torchao as it loads: CUDA libraries that a CPU has no use for, deprecations of its own."""
    logger = logging.getLogger("torch.utils._pytree")
    others = logging.getLogger("torchao")
    levels = logger.level, others.level
    logger.setLevel(logging.ERROR)
    others.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(levels[0])
        others.setLevel(levels[1])
