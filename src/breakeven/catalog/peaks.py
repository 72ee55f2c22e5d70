"""Theoretical peaks of the GPUs whose rates are known in every precision: upper bounds on what was measured.

Knows nothing about what was measured. A GPU that is not in the catalog, or not wholly, has no peak here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from breakeven.catalog.gpus import Gpu, gpu_in_machine

EARLY = ("fp32", "fp16")
AMPERE = ("fp32", "tf32", "fp16", "bf16", "int8")
AMPERE_FROM = "2020-05"
"""NVIDIA's GPUs from this month on have TF32, BF16 and INT8 products."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuPeak:
    """What a datasheet says of one GPU: tera-operations a second by precision, GB/s, watts.

    `rates` hold at `clock_mhz`, the lower one where the datasheet has two: a board that clocks higher
    (H100: tensor cores 1830 MHz, maximum 1980 MHz) may go beyond them by as much. FP16 is the rate with the
    cheaper accumulation. `sources` names where each field is from, and its date.
    """

    gpu: str
    rates: Mapping[str, float]
    bandwidth_gb_per_s: float
    board_w: float
    clock_mhz: float
    sources: Mapping[str, str]


def gpu_peak(name: str, memory_gib: float | None = None) -> GpuPeak | None:
    """The peaks of the GPU that NVML calls `name`; None if it is not known, or a rate of it is not.

    A bound with one rate missing would refuse what runs in that precision. Where one name covers boards
    that differ (RTX 3050), the memory has to agree too.
    """
    gpu = gpu_in_machine(name, None if memory_gib is None else memory_gib * 1024)
    return None if gpu is None else _peak(gpu)


def _peak(gpu: Gpu) -> GpuPeak | None:
    needed = AMPERE if gpu.release_date >= AMPERE_FROM else EARLY
    # Matrix units may clock lower than FP32 lanes (H100): without their own clock their bound is not known.
    if gpu.board_w is None or gpu.tensor_clock_mhz is None or not set(needed) <= set(gpu.rates):
        return None
    return GpuPeak(
        gpu=gpu.name,
        rates={name: rate for name, rate in gpu.rates.items() if name != "fp16_fp32"},
        bandwidth_gb_per_s=gpu.bandwidth_gb_per_s,
        board_w=gpu.board_w,
        clock_mhz=gpu.tensor_clock_mhz,
        sources=gpu.sources,
    )
