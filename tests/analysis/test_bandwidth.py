"""Bandwidth by size: the link's limit refuses, caches are no fault, and what is said of each device."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from breakeven.analysis import understand
from breakeven.analysis.bandwidth import bandwidths_of, link_limit, sentences_of_bandwidths
from breakeven.records.file import Results
from breakeven.records.lines import Ceiling, Fingerprint
from breakeven.records.transfers import KINDS, SIZES, kind_and_size, name_of

KIB, MIB = 1024, 1024**2
T4 = {"name": "Tesla T4", "memory_gib": 15, "max_pcie_generation": 3, "max_pcie_width": 16}
H200 = {"name": "NVIDIA H200", "memory_gib": 141, "max_pcie_generation": 5, "max_pcie_width": 16}


def a_line(kind: str, size: int, value: float | None, board: dict[str, Any] = T4, **changes: Any) -> Ceiling:
    conditions = {
        "device": "cuda:0", "device_name": board["name"], "bytes_per_element": 8 if kind == "copy" else 4,
        "cache_bytes": 4 * MIB, "flags": [],
    }  # fmt: skip
    values: dict[str, Any] = {
        "fingerprint_id": "f", "started_utc": "t", "name": name_of(kind, size), "value": value,
        "unit": "gb_per_s", "conditions": conditions | changes.pop("conditions", {}),
    }  # fmt: skip
    return Ceiling(**(values | changes))


def found(*lines: Ceiling, board: dict[str, Any] = T4) -> Any:
    machine = Fingerprint(fingerprint_id="f", platform_id="p", platform={"gpus": [board]}, unit={})
    return bandwidths_of(Results(path="r", lines=(machine, *lines)))


def test_sizes_go_from_4_kib_to_1_gib_by_four() -> None:
    assert (SIZES[0], SIZES[-1], len(SIZES)) == (4 * KIB, 1024 * MIB, 10)
    assert {b // a for a, b in itertools.pairwise(SIZES)} == {4}
    assert all(kind_and_size(name_of(kind, size)) == (kind, size) for kind in KINDS for size in SIZES)
    assert kind_and_size("copy") is None and kind_and_size("matmul_fp32/4096") is None


@pytest.mark.parametrize(
    ("board", "limit", "name"),
    [
        (T4, 15.75, "PCI Express 3.0 x16"),
        (H200, 63.02, "PCI Express 5.0 x16"),
        (T4 | {"max_pcie_generation": 4, "max_pcie_width": 8}, 15.75, "PCI Express 4.0 x8"),
        (T4 | {"max_pcie_generation": 2}, 8.0, "PCI Express 2.0 x16"),
    ],
)
def test_the_limit_of_a_link(board: dict[str, Any], limit: float, name: str) -> None:
    assert link_limit(board) == (pytest.approx(limit, abs=0.01), name)


def test_a_link_that_is_not_known_has_no_limit() -> None:
    assert "does not tell" in str(link_limit({"name": "x", "max_pcie_generation": None}))
    assert "C2C" in str(link_limit(H200 | {"name": "NVIDIA GH200 480GB"}))


def test_a_published_102_gb_s_over_a_t4s_link_is_refused() -> None:
    """PCI Express 3.0 x16 carries 15.75 GB/s: that was no copy from host to device."""
    fast, sound = found(
        a_line("host_to_device_pageable", 64 * MIB, 102.0), a_line("host_to_device_pinned", 64 * MIB, 12.3)
    )
    assert fast.gb_per_s is None
    assert fast.reasons["gb_per_s"] == ("faster than the hardware: 102 of 15.75 GB/s (PCI Express 3.0 x16)")
    assert sound.gb_per_s == 12.3 and sound.copy_s == pytest.approx(64 * MIB / 12.3e9)
    last = sentences_of_bandwidths([fast, sound])[-1]
    assert last.startswith("1 bandwidths are refused: faster than the hardware")


def test_a_copy_within_a_cache_may_pass_the_memorys_datasheet() -> None:
    small, large = found(a_line("copy", 4 * MIB, 900.0), a_line("copy", 256 * MIB, 900.0))
    assert small.gb_per_s == 900.0 and "cache" in small.reasons["limit_gb_per_s"]
    assert large.gb_per_s is None and "the memory's datasheet" in large.reasons["gb_per_s"]
    assert small.copy_s == pytest.approx(2 * 4 * MIB / 900e9)  # read and written


def test_a_cpu_has_no_limit_and_its_busy_hour_is_said() -> None:
    where = {"device": "cpu", "flags": ["contended"], "bytes_per_element": 8}
    lines = [
        a_line("copy", size, value, conditions=where)
        for size, value in ((4 * KIB, 4.0), (64 * KIB, 30.0), (16 * MIB, 8.0))
    ]
    assert [f.reasons for f in found(*lines)] == [{}, {}, {}]
    assert sentences_of_bandwidths(found(*lines)) == [
        "Bandwidth of cpu: copy at most 30 GB/s (copies of 64 KiB), half of it from 64 KiB (others used the "
        "machine meanwhile: it can do more)."
    ]


def test_they_are_no_ceilings_of_the_device() -> None:
    lines = (a_line("copy", 4 * KIB, 4.0), a_line("copy", 4 * KIB, None, reason="no memory"))
    machine = Fingerprint(fingerprint_id="f", platform_id="p", platform={"gpus": [T4]}, unit={})
    whole = understand([Results(path="r", lines=(machine, *lines))])
    assert whole.ceilings == () and [b.gb_per_s for b in whole.bandwidths] == [4.0]
