"""What is known of GPUs from 2000 on: memory, bandwidth, dense rates, power. Board totals, each sourced.

Knows nothing about what was measured. What no source says is None: nothing is guessed. No prices.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from breakeven.catalog.facts import Fact, decimal_year, facts, provenance

MAKERS = ("NVIDIA ", "AMD ", "Intel ", "Intel(R) ")
"""Drivers before 470 left the maker's name out of a board's, later ones put it first."""
MEMORY_SLACK = 0.12
"""NVML reports up to a twelfth less than the board has (ECC, what the driver keeps)."""
RATES = ("fp32", "tf32", "fp16", "fp16_fp32", "bf16", "int8")


@dataclass(frozen=True, kw_only=True, slots=True)
class Gpu:
    """One board. Memory in MiB (binary), bandwidth in GB/s, clocks in MHz, power in W, process in nm.

    `rates`: dense tera-operations a second by precision. `fp16` is the rate with the cheaper accumulation,
    `fp16_fp32` FP16 products accumulated in FP32; both equal but on GeForce boards. `tensor_clock_mhz` is the
    clock at which the matrix rates hold, `clock_mhz` that of FP32: lanes x clock x `flop_per_lane_clock`
    x `chips`. `driver_name`: what NVML calls it, without the maker. `release_date` is a day or a month;
    sources mix announcement and sale.
    """

    name: str
    vendor: str
    segment: str
    release_date: str
    driver_name: str | None
    memory_mib: float
    bandwidth_gb_per_s: float
    rates: Mapping[str, float]
    board_w: float | None
    process_nm: float | None
    memory_type: str | None
    memory_bus_bits: float | None
    memory_clock_mhz: float | None
    fp32_lanes: float | None
    clock_mhz: float | None
    tensor_clock_mhz: float | None
    flop_per_lane_clock: float
    chips: int
    sources: Mapping[str, str]

    @property
    def year(self) -> float:
        """The release date as a year with a fraction."""
        return decimal_year(self.release_date)

    @property
    def memory_gib(self) -> float:
        return self.memory_mib / 1024

    @property
    def fp16_products(self) -> float | None:
        """FP16 products as networks use them: accumulated in FP32 where there are matrix units."""
        if "fp16_fp32" in self.rates:
            return self.rates["fp16_fp32"]
        # INT8 products came with matrix units: FP16 without a rate in FP32 accumulation is then too high.
        return None if "int8" in self.rates else self.rates.get("fp16")


@lru_cache(maxsize=1)
def gpus() -> tuple[Gpu, ...]:
    """All boards by release date."""
    return tuple(_gpu(name, fields) for name, fields in facts("gpus.csv", "gpu").items())


def gpu_named(name: str) -> Gpu | None:
    """The board of that name: as the catalog writes it, or as a driver does where only one is called so."""
    wanted = _plain(name)
    for gpu in gpus():
        if _plain(gpu.name) == wanted:
            return gpu
    same = [gpu for gpu in gpus() if gpu.driver_name and _plain(gpu.driver_name) == wanted]
    return same[0] if len(same) == 1 else None


@lru_cache(maxsize=64)
def gpu_in_machine(name: str, memory_mib: float | None = None) -> Gpu | None:
    """The board that a driver calls `name`, by its exact name and, if known, its memory; None if unknown.

    Where one name covers boards that differ (RTX 3050), the memory has to tell; a board with other memory
    than the one known is another board.
    """
    wanted = _plain(name)
    same = [gpu for gpu in gpus() if gpu.driver_name and _plain(gpu.driver_name) == wanted]
    if memory_mib is not None:
        same = [gpu for gpu in same if abs(memory_mib / gpu.memory_mib - 1) <= MEMORY_SLACK]
    return same[0] if len(same) == 1 else None


def _plain(name: str) -> str:
    for maker in MAKERS:
        name = name.removeprefix(maker)
    return " ".join(name.split()).casefold()


def _gpu(name: str, fields: Mapping[str, Fact]) -> Gpu:
    def number(field: str) -> float | None:
        return float(fields[field].value) if field in fields else None

    def text(field: str) -> str | None:
        return fields[field].value if field in fields else None

    units = ((rate, f"{rate}_{'top' if rate == 'int8' else 'tflop'}_per_s") for rate in RATES)
    return Gpu(
        name=name,
        vendor=fields["vendor"].value,
        segment=fields["segment"].value,
        release_date=fields["release_date"].value,
        driver_name=text("driver_name"),
        memory_mib=float(fields["memory_mib"].value),
        bandwidth_gb_per_s=float(fields["bandwidth_gb_per_s"].value),
        rates={rate: float(fields[field].value) for rate, field in units if field in fields},
        board_w=number("board_w"),
        process_nm=number("process_nm"),
        memory_type=text("memory_type"),
        memory_bus_bits=number("memory_bus_bits"),
        memory_clock_mhz=number("memory_clock_mhz"),
        fp32_lanes=number("fp32_lanes"),
        clock_mhz=number("clock_mhz"),
        tensor_clock_mhz=number("tensor_clock_mhz"),
        flop_per_lane_clock=number("flop_per_lane_clock") or 2.0,
        chips=int(number("chips") or 1),
        sources=provenance(fields),
    )
