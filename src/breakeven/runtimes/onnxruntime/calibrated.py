"""INT8 by ONNX Runtime's own static quantisation: ranges from real images, scales in the graph (QDQ).

Knows nothing about sessions or time.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import onnxruntime as ort
from onnxruntime import quantization

from breakeven.runtimes.inference.inputs import Images, Inputs, attends, calibration_images
from breakeven.runtimes.onnx import cache, graph
from breakeven.workloads.layers import Attention, leaves

FILE = "int8.onnx"

CHUNK = 8
"""Images in one calibration run: few, as every inner tensor is an output then."""


def recipe(inputs: Inputs) -> dict[str, str]:
    """The quantisation in words. Unsigned activations on a CPU, whose VNNI multiplies unsigned by signed
    (signed by signed ran 4 times slower); symmetric signed ones for TensorRT, which has no zero points."""
    activations = "uint8 with a zero point" if inputs.case.device.kind == "cpu" else "int8 symmetric"
    return {
        "by": f"onnxruntime {ort.__version__}",
        "ranges": "min-max",
        "activations": activations,
        "weights": "int8 symmetric per channel",
        "layers": "products with weights" if attends(inputs.model) else "all that can be",
        "format": "QDQ",
    }


def quantised(inputs: Inputs) -> Any:
    """The case's graph in INT8 for any batch, from the cache where it was made before."""
    if found := cache.kept(inputs, recipe(inputs), lambda folder: _quantise(inputs, folder)):
        return graph.parse((found / FILE).read_bytes())
    with TemporaryDirectory() as folder:
        _quantise(inputs, Path(folder))
        return graph.parse((Path(folder) / FILE).read_bytes())


def _quantise(inputs: Inputs, folder: Path) -> None:
    symmetric = inputs.case.device.kind != "cpu"
    options: dict[str, Any] = {"ActivationSymmetric": symmetric, "WeightSymmetric": True}
    if symmetric:
        # TensorRT quantises weights itself between a pair of nodes and adds biases in FP32.
        options |= {"AddQDQPairToWeight": True, "QuantizeBias": False, "DedicatedQDQPair": True}
    # With softmax, norms and sums in INT8 too, a ViT-B/16 was 22 % off FP32 and took twice FP32's time.
    attention = [leaf.name for leaf in leaves(inputs.model.nodes) if isinstance(leaf, Attention)]
    kinds = quantization.QuantType
    with _quiet():
        quantization.quantize_static(
            graph.graph(inputs.model, inputs.weights),
            folder / FILE,
            _Reader(calibration_images(inputs)),
            quant_format=quantization.QuantFormat.QDQ,
            op_types_to_quantize=["Conv", "Gemm", "MatMul"] if attention else None,
            nodes_to_exclude=[node for name in attention for node in graph.attention_products(name)],
            per_channel=True,
            activation_type=kinds.QInt8 if symmetric else kinds.QUInt8,
            weight_type=kinds.QInt8,
            calibrate_method=quantization.CalibrationMethod.MinMax,
            extra_options=options,
        )


class _Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Hands the images over, some at a time."""

    def __init__(self, images: Images) -> None:
        self.chunks = iter(images[start : start + CHUNK] for start in range(0, len(images), CHUNK))

    def get_next(self) -> dict[str, Images] | None:
        chunk = next(self.chunks, None)
        return None if chunk is None else {graph.INPUT: chunk}


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the quantiser's advice to fold batch norms first: they are folded."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
