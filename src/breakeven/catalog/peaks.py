"""Theoretical peaks of GPUs: what no measurement can exceed.

Knows nothing about what was measured.
"""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Peak:
    """The fastest dense rate with floats of 16 bits or more, 2 a multiply-accumulate, without sparsity."""

    tflop_per_s: float
    source: str


PEAKS: dict[str, Peak] = {
    "H200": Peak(tflop_per_s=989.5, source="NVIDIA H200 data sheet: BF16 1,979 with sparsity"),
    "H100": Peak(tflop_per_s=989.5, source="NVIDIA H100 data sheet, SXM: BF16 1,979 with sparsity"),
    "A100": Peak(tflop_per_s=312.0, source="NVIDIA A100 data sheet: BF16 312"),
    "V100": Peak(tflop_per_s=130.0, source="NVIDIA V100S data sheet: tensor 130"),
    "T4": Peak(tflop_per_s=65.0, source="NVIDIA T4 data sheet: mixed precision 65"),
    "L4": Peak(tflop_per_s=121.0, source="NVIDIA L4 data sheet: BF16 242 with sparsity"),
    "RTX 3090": Peak(tflop_per_s=142.0, source="NVIDIA GA102 white paper: FP16 tensor, FP16 accumulate, 142"),
    "RTX 4090": Peak(tflop_per_s=330.3, source="NVIDIA Ada white paper: FP16 tensor, FP16 accumulate, 330.3"),
}
"""By the words of the name that the driver gives. The fastest variant of a name stands for all of them."""


def peak_of(device_name: str) -> Peak | None:
    """The peak of a device by the name that its driver gives; None for one that is not listed."""
    words = f" {device_name.replace('-', ' ')} "
    return next((peak for name, peak in PEAKS.items() if f" {name} " in words), None)
