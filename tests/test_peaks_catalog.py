"""The datasheets that ship: sourced, dated, dense, and matched by exact name."""

from __future__ import annotations

import csv
from importlib.resources import files

import pytest

from breakeven.catalog.peaks import gpu_peak

ROWS = list(csv.DictReader((files("breakeven.catalog") / "peaks.csv").read_text().splitlines()))
GPUS = sorted({row["gpu"] for row in ROWS})


def test_every_number_has_a_source_and_a_date() -> None:
    assert all(row["source"] and row["as_of"] >= "2025-12" and float(row["value"]) > 0 for row in ROWS)
    assert len({(row["gpu"], row["field"]) for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("gpu", GPUS)
def test_rates_are_dense_and_in_order(gpu: str) -> None:
    """Where a board has them: FP32 <= TF32 = BF16 / 2, FP16 = BF16 or twice it, INT8 = 2 or 4 times BF16."""
    memory = next(row["memory_gib"] for row in ROWS if row["gpu"] == gpu)
    peak = gpu_peak(f"NVIDIA {gpu}", float(memory) if memory else None)
    assert peak is not None
    rates = peak.rates
    assert rates["fp32"] < rates["fp16"]
    if "tf32" in rates:
        bf16 = rates["bf16"]
        assert rates["fp32"] <= 1.01 * rates["tf32"]
        assert rates["tf32"] == pytest.approx(bf16 / 2, rel=0.02)
        assert round(rates["fp16"] / bf16, 1) in (1, 2)
        assert round(rates["int8"] / bf16, 1) in (2, 4)


@pytest.mark.parametrize(
    "name", ["NVIDIA GeForce RTX 3050 Laptop GPU", "NVIDIA H100 NVL", "NVIDIA", "", "AMD EPYC"]
)
def test_an_unknown_name_has_no_peak(name: str) -> None:
    assert gpu_peak(name) is None


def test_one_name_of_two_boards_needs_the_memory() -> None:
    assert gpu_peak("NVIDIA GeForce RTX 3050", 8) is not None
    assert gpu_peak("NVIDIA GeForce RTX 3050", 6) is None
    assert gpu_peak("NVIDIA GeForce RTX 3050") is None


def test_names_of_older_drivers_are_known() -> None:
    assert gpu_peak("A100-SXM4-80GB") == gpu_peak("NVIDIA A100-SXM4-80GB")
