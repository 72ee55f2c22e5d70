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
