"""What can be listed of the catalog, and what a device here is known as."""

from __future__ import annotations

import json

import pytest

from breakeven.report.plain import columns
from breakeven.runner import inventory
from breakeven.runner.facts import UNKNOWN, of_device


@pytest.mark.parametrize("what", ["gpus", "cpus", "published"])
def test_a_list_fits_the_screen_and_is_json_in_full(what: str) -> None:
    shown = columns(inventory.rows(what, brief=True), width=80)
    assert max(map(len, shown.splitlines())) <= 80
    rows = json.loads(json.dumps(inventory.rows(what), allow_nan=False))
    assert len(rows) == len(inventory.rows(what))
    assert all(row.get("sources") or row.get("source") for row in rows)


def test_a_device_is_matched_to_its_row_or_said_to_be_unknown() -> None:
    assert of_device("cuda:0", "NVIDIA H200", 143771) == "H200 SXM 141 GB"
    assert of_device("cuda:0", "NVIDIA GeForce RTX 3050", 6144) == "GeForce RTX 3050 6 GB"
    assert of_device("cuda:0", "NVIDIA H999", 143771) == UNKNOWN
    assert of_device("cpu", "AMD EPYC 9654 96-Core Processor", None) == "EPYC 9654"
    assert of_device("cpu", "AMD EPYC", None) == UNKNOWN
    assert of_device("sim:gpu", "simulated gpu", None) is None


def test_a_column_of_boards_is_one_quantity_with_its_unit() -> None:
    boards = {row["gpu"]: row for row in inventory.rows("gpus", brief=True)}
    assert boards["H200 SXM 141 GB"]["fp16 TFLOP/s"] == 989
    assert boards["Tesla T4"]["fp16 TFLOP/s"] == 65
    # No matrix units: the rate of FP16 sums is another quantity.
    assert boards["Tesla P100 SXM2"]["fp16 TFLOP/s"] is None
    assert max(map(len, columns(list(boards.values())).splitlines())) <= 80


def test_cpus_come_by_date_and_the_undated_last() -> None:
    dates = [row["released"] for row in inventory.rows("cpus", brief=True)]
    assert dates == [*sorted(date for date in dates if date), *(date for date in dates if not date)]
