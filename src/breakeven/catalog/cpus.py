"""What is known of some CPUs: cores, clocks, width, memory. One socket each, every field with its source.

Knows nothing about what was measured. What no source says is None; a CPU's own peak is better measured.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from breakeven.catalog.facts import Fact, facts, provenance


@dataclass(frozen=True, kw_only=True, slots=True)
class Cpu:
    """One socket. Clocks in MHz, bandwidth in GB/s, power in W.

    `fp32_flop_per_cycle`: of one core, a fused multiply-add counted as two; with two kinds of core that of
    the `fast_cores`. `base_mhz` and `boost_mhz` are the fast cores' too.
    """

    name: str
    vendor: str
    segment: str
    release_date: str | None
    cores: int | None
    fast_cores: int | None
    threads: int | None
    base_mhz: float | None
    boost_mhz: float | None
    isa: str | None
    fp32_flop_per_cycle: float | None
    memory_channels: int | None
    memory_mt_per_s: float | None
    bandwidth_gb_per_s: float | None
    tdp_w: float | None
    process_nm: float | None
    sources: Mapping[str, str]

    def fp32_tflop_per_s(self, clock_mhz: float | None) -> float | None:
        """The peak of the fast cores at a clock, in TFLOP/s; None where a factor is not known."""
        cores = self.fast_cores or self.cores
        if cores is None or clock_mhz is None or self.fp32_flop_per_cycle is None:
            return None
        return cores * clock_mhz * self.fp32_flop_per_cycle / 1e6


@lru_cache(maxsize=1)
def cpus() -> tuple[Cpu, ...]:
    """All CPUs, the earlier first; those without a date last."""
    every = [_cpu(name, fields) for name, fields in facts("cpus.csv", "cpu").items()]
    return tuple(sorted(every, key=lambda cpu: (cpu.release_date is None, cpu.release_date or "")))


def cpu_named(name: str) -> Cpu | None:
    """The CPU of that name, also as the kernel prints it (`Intel(R) Core(TM) i9-14900K`); None if unknown."""
    wanted = _plain(name)
    return next((cpu for cpu in cpus() if _plain(cpu.name) == wanted), None)


def _plain(name: str) -> str:
    """Without the maker, its marks, the clock and the number of cores."""
    text = re.sub(
        r"\((?:R|TM|r|tm)\)|\bCPU\b|@.*$|\d+-Core Processor|\b(?:Intel|AMD)\b|^\d+th Gen", " ", name
    )
    return " ".join(text.split()).casefold()


def _cpu(name: str, fields: Mapping[str, Fact]) -> Cpu:
    def number(field: str) -> float | None:
        return float(fields[field].value) if field in fields else None

    def count(field: str) -> int | None:
        value = number(field)
        return None if value is None else int(value)

    def text(field: str) -> str | None:
        return fields[field].value if field in fields else None

    return Cpu(
        name=name,
        vendor=fields["vendor"].value,
        segment=fields["segment"].value,
        release_date=text("release_date"),
        cores=count("cores"),
        fast_cores=count("fast_cores"),
        threads=count("threads"),
        base_mhz=number("base_mhz"),
        boost_mhz=number("boost_mhz"),
        isa=text("isa"),
        fp32_flop_per_cycle=number("fp32_flop_per_cycle"),
        memory_channels=count("memory_channels"),
        memory_mt_per_s=number("memory_mt_per_s"),
        bandwidth_gb_per_s=number("bandwidth_gb_per_s"),
        tdp_w=number("tdp_w"),
        process_nm=number("process_nm"),
        sources=provenance(fields),
    )
