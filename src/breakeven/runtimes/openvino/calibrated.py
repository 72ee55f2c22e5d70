"""INT8 by NNCF's post-training quantisation: ranges from real images, scales in the graph.

Knows nothing about compiling or time.
"""

import contextlib
import io
import logging
import os
from pathlib import Path
from typing import Any

import openvino as ov
from openvino.passes import ConstantFolding, Manager

from breakeven.errors import Unsupported
from breakeven.runtimes.inference.inputs import Inputs, attends, calibration_images
from breakeven.runtimes.onnx import cache, graph

FILE = "int8.xml"

CHUNK = 8
"""Images in one calibration run."""

NO_TELEMETRY = "NNCF_CI"
"""Environment variable without which NNCF reports its use to a server."""


def recipe(inputs: Inputs) -> dict[str, str]:
    """The quantisation in words. Raises Unsupported without NNCF."""
    return {
        "by": f"nncf {_nncf().__version__}",
        "ranges": "min-max",
        "preset": "mixed",
        "activations": "8 bits, unsigned where never negative",
        "weights": "int8 symmetric per channel",
        "bias_correction": "fast",
        "model_type": "transformer" if attends(inputs.model) else "none",
    }


def quantised(inputs: Inputs) -> Any:
    """The case's `openvino.Model` in INT8 for any batch, from the cache where it was made before."""
    found = cache.kept(inputs, recipe(inputs), lambda folder: _save(_quantise(inputs), folder))
    return _quantise(inputs) if found is None else ov.Core().read_model(found / FILE)


def _save(model: Any, folder: Path) -> None:
    """Writes FILE and, beside it, its weights."""
    ov.save_model(model, folder / FILE, compress_to_fp16=False)


def _quantise(inputs: Inputs) -> Any:
    """NNCF's own recipe but for the ranges: least and greatest value seen, where it would average them."""
    nncf = _nncf()
    from nncf.quantization.range_estimator import RangeEstimatorParametersSet

    images = calibration_images(inputs)
    chunks = [images[start : start + CHUNK] for start in range(0, len(images), CHUNK)]
    model = ov.Core().read_model(graph.graph(inputs.model, inputs.weights).SerializeToString())
    # The reader leaves a reshape on the weights of grouped convolutions, which then would not run in INT8.
    passes = Manager()
    passes.register_pass(ConstantFolding())
    passes.run_passes(model)
    with contextlib.redirect_stdout(io.StringIO()):  # its progress bars
        return nncf.quantize(
            model,
            nncf.Dataset(chunks),
            subset_size=len(chunks),
            preset=nncf.QuantizationPreset.MIXED,
            model_type=nncf.ModelType.TRANSFORMER if attends(inputs.model) else None,
            fast_bias_correction=True,
            advanced_parameters=nncf.AdvancedQuantizationParameters(
                activations_range_estimator_params=RangeEstimatorParametersSet.MINMAX
            ),
        )


def _nncf() -> Any:
    os.environ.setdefault(NO_TELEMETRY, "1")
    try:
        import nncf
    except ImportError:
        raise Unsupported('openvino: INT8 needs nncf: pip install "breakeven[openvino]"') from None
    nncf.set_log_level(logging.ERROR)
    return nncf
