"""Theoretical peaks of GPUs, from their datasheets: dense rates, each number with its source and date.

Knows nothing about what was measured. A GPU that is not in the table has no peak here: nothing is guessed.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

MAKER = "NVIDIA "
"""Drivers before 470 left the maker's name out of a board's, later ones put it first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GpuPeak:
    """What a datasheet says of one GPU: tera-operations a second by precision, GB/s, watts.

    `rates` hold at `clock_mhz`, the lower one where the datasheet has two: a board that clocks higher
    (H100: tensor cores 1830 MHz, maximum 1980 MHz) may go beyond them by as much. FP16 is the rate with the
    cheaper accumulation. `sources` names where each field is from, and its date.
    """

    gpu: str
    memory_gib: int | None
    rates: Mapping[str, float]
    bandwidth_gb_per_s: float
    board_w: float
    clock_mhz: float
    sources: Mapping[str, str]


def gpu_peak(name: str, memory_gib: float | None = None) -> GpuPeak | None:
    """The GPU that NVML calls `name`, None if it is not in the table.

    Where one name covers boards that differ (RTX 3050), the memory has to agree too.
    """
    found = _table().get(name.removeprefix(MAKER).strip())
    if found is None or (found.memory_gib is not None and found.memory_gib != memory_gib):
        return None
    return found


@lru_cache(maxsize=1)
def _table() -> dict[str, GpuPeak]:
    text = (files("breakeven.catalog") / "peaks.csv").read_text(encoding="utf-8")
    rows: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader(text.splitlines()):
        rows.setdefault(row["gpu"], []).append(row)
    return {gpu: _gpu(gpu, mine) for gpu, mine in rows.items()}


def _gpu(gpu: str, rows: list[dict[str, str]]) -> GpuPeak:
    values = {row["field"]: float(row["value"]) for row in rows}
    memory = rows[0]["memory_gib"]
    return GpuPeak(
        gpu=gpu,
        memory_gib=int(memory) if memory else None,
        rates={name.partition("_")[0]: value for name, value in values.items() if name.endswith("op_per_s")},
        bandwidth_gb_per_s=values["bandwidth_gb_per_s"],
        board_w=values["board_w"],
        clock_mhz=values["clock_mhz"],
        sources={row["field"]: f"{row['source']} ({row['as_of']})" for row in rows},
    )
