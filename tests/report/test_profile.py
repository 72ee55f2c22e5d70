"""Profiles, bandwidth and memory as they are shown: columns explained, never wider than the screen."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from breakeven.analysis.bandwidth import BandwidthFinding
from breakeven.analysis.findings import Understanding
from breakeven.analysis.memory import ADDED, ALLOCATED, BOARD, ORDER, OWN, RESERVED, RESIDENT, meaning_of
from breakeven.analysis.profile import KernelFinding, OperatorFinding, ProfileFinding
from breakeven.records.profile import Gaps
from breakeven.report import build, text, write
from breakeven.report.view import Report, Section
from breakeven.report.words import significant


def an_operator(name: str, share: float, **changes: object) -> OperatorFinding:
    values = {"kind": "operator", "calls": 4.0, "self_host_s": share / 10, "total_host_s": share / 8}
    return OperatorFinding(name=name, share=share, **(values | changes))  # type: ignore[arg-type]


ON_CPU = (
    an_operator("aten::convolution_backward", 0.4, self_host_mib=-3.0),
    *(an_operator(f"aten::small_{i}", 0.01) for i in range(20)),
    an_operator("aten::conv2d", 0.0, total_host_s=0.03, flops=2e9),
)


@pytest.fixture
def profiled(understanding: Understanding) -> Understanding:
    """Two of the study's cases profiled, one on each device, and a third that could not be."""
    cpu, cuda, other = (
        next(c for c in understanding.cases if c.device_label == label and c.tuning_name == tuning)
        for label, tuning in (("cpu", "as-written"), ("cuda:0", "as-written"), ("cuda:0", "channels-last"))
    )
    on_gpu = (
        an_operator("aten::cudnn_convolution", 0.7, self_device_s=0.007, total_device_s=0.007),
        *(an_operator(f"aten::tiny_{i}", 0.02, self_device_s=2e-4, self_host_s=0) for i in range(15)),
        an_operator("cudaLaunchKernel", 0.0, self_device_s=0.0, self_host_s=0.05),
    )
    common = {"n_steps": 10, "plain_step_s": 0.08, "step_s": 0.1, "overhead": 1.25, "outside_s": 0.01}
    found = (
        ProfileFinding(
            case_id=cpu.case_id, operators=ON_CPU, by_shape=(an_operator("aten::mm", 0.4, shapes="2x3 3x4"),),
            reasons={"device_span_ns": "a CPU launches nothing"}, trace="profiles/a.json.gz",
            trace_sha256="00", evidence=("p1",), source=cpu.source, **common,
        ),
        ProfileFinding(
            case_id=cuda.case_id, operators=on_gpu, on_device=True, idle_share=0.8,
            kernels=(
                KernelFinding(name="void gemm" + "<float>" * 40, calls=3, device_s=0.007, share=0.7),
                KernelFinding(name="Memcpy HtoD", calls=1, device_s=0.003, share=0.3),
            ),
            gaps=(
                Gaps(from_ns=0, to_ns=1_000, count=20, ns=9_000),
                Gaps(from_ns=1_000_000, to_ns=None, count=10, ns=9**9),
            ),
            trace="profiles/b.json.gz", trace_sha256="01", evidence=("p2",), source=cuda.source, **common,
        ),
        ProfileFinding(
            case_id=other.case_id, reasons={"operators": "error: CUPTI did not start"}, source=other.source
        ),
    )  # fmt: skip
    return dataclasses.replace(understanding, profiles=found)


def section(report: Report, key: str) -> Section:
    return next(s for s in report.sections if s.key == key)


def column(shown: Section, name: str) -> list[str]:
    assert shown.table is not None
    index = [c.name for c in shown.table.columns].index(name)
    return [row[index].text for row in shown.table.rows]


def test_the_largest_operators_and_those_whose_flops_matter_have_a_row(profiled: Understanding) -> None:
    names = column(section(build(profiled), "operators"), "operator")
    assert names[0] == "aten::convolution_backward"
    assert "aten::conv2d" in names and "aten::small_19" not in names and "(no operator)" in names
    # On a GPU also what keeps the host: a launch-bound step shows it there.
    assert "cudaLaunchKernel" in names and names.count("(no operator)") == 1


def test_columns_are_explained_as_what_they_are(profiled: Understanding) -> None:
    note = section(build(profiled), "operators").note
    assert "no measure of how fast a CPU is" in note and "never stands against its device column" in note
    assert "totals hold one another" in note and "backward pass" in note


def test_a_cpu_has_no_device_time_and_no_gaps(profiled: Understanding) -> None:
    shown = section(build(profiled), "operators")
    own = dict(zip(column(shown, "operator"), column(shown, "self device"), strict=True))
    assert own["aten::convolution_backward"] == "-" and own["aten::cudnn_convolution"] == "7.0 ms"
    only = dataclasses.replace(profiled, profiles=profiled.profiles[:1])
    keys = [s.key for s in build(only).sections]
    assert "operators" in keys and not {"kernels", "gaps"} & set(keys)
    table = section(build(only), "operators").table
    assert table is not None and "self device" not in [c.name for c in table.columns]


def test_gaps_kernels_and_cost(profiled: Understanding) -> None:
    report = build(profiled)
    assert column(section(report, "gaps"), "gap") == ["below 1.0 us", "from 1.0 ms"]
    assert column(section(report, "gaps"), "a step") == ["2", "1"]
    kernel, copy = column(section(report, "kernels"), "kernel")
    assert copy == "Memcpy HtoD"
    assert kernel.startswith("gemm<float>") and len(kernel) < 70
    cost = section(report, "profiles")
    assert column(cost, "overhead") == ["1.25x", "1.25x", "-"]
    assert column(cost, "device idle") == ["-", "80 %", "-"]
    assert cost.table is not None and any("CUPTI did not start" in why for why in cost.table.missing)
    assert "sha256 00" in [row[-1].note for row in cost.table.rows]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_screen(profiled: Understanding, width: int) -> None:
    assert max(map(len, text(build(profiled), width=width).splitlines())) <= width


def bandwidths() -> tuple[BandwidthFinding, ...]:
    def one(kind: str, size: int, value: float | None, **changes: object) -> BandwidthFinding:
        rate = {"gb_per_s": value, "copy_s": size / (value or 1) / 1e9, "evidence": ("b",)}
        return BandwidthFinding(device_label="cuda:0", kind=kind, bytes=size, **(rate | changes))  # type: ignore[arg-type]

    link = {"limit_gb_per_s": 15.75, "limit_of": "PCI Express 3.0 x16"}
    return (
        one("copy", 4096, 3.1),
        one("copy", 2**20, 812.0, flags=("contended",)),
        one("host_to_device_pinned", 4096, 0.8, **link),
        one("host_to_device_pinned", 2**20, None, reasons={"gb_per_s": "faster than the hardware"}, **link),
    )


def test_bandwidth_has_a_row_a_size_and_a_column_a_kind(understanding: Understanding, tmp_path: Path) -> None:
    report = build(dataclasses.replace(understanding, bandwidths=bandwidths()))
    shown = section(report, "bandwidth")
    assert column(shown, "size") == ["4 KiB", "1 MiB"]
    assert column(shown, "copy within") == [significant(3.1, 3), "812"]
    assert column(shown, "to device, pinned") == ["0.800", "-"]
    assert column(shown, "flags") == ["-", "contended"]
    assert "PCI Express 3.0 x16: 15.75 GB/s" in shown.note
    assert shown.table is not None and any("faster than the hardware" in why for why in shown.table.missing)
    # What is refused is no mark either.
    assert shown.chart is not None and len(shown.chart.values) == 3
    pytest.importorskip("vl_convert")
    from breakeven.report.charts import svg

    assert "1 MiB" in svg(shown.chart) and "4 KiB" in svg(shown.chart)
    write(report, understanding, tmp_path / "r.html")


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("host_rss_peak_mib", RESIDENT),
        ("host_rss_peak_since_start_mib", RESIDENT),
        ("torch_allocated_peak_mib", ALLOCATED),
        ("torch_allocated_peak_cold_mib", ALLOCATED),
        ("torch_reserved_peak_mib", RESERVED),
        ("tf_current_mib", ALLOCATED),
        ("tf_peak_mib", ALLOCATED),
        ("jax_bytes_in_use_mib", ALLOCATED),
        ("jax_peak_bytes_in_use_mib", ALLOCATED),
        ("jax_bytes_limit_mib", RESERVED),
        ("device_used_mib", BOARD),
        ("device_used_delta_mib", ADDED),
        ("another_counter_mib", OWN),
    ],
)
def test_every_number_of_memory_has_one_meaning(name: str, meaning: object) -> None:
    assert meaning_of(name) is meaning and meaning in ORDER


def test_columns_of_memory_stand_by_meaning_and_are_explained(understanding: Understanding) -> None:
    mib = {"device_used_delta_mib": 9.0, "torch_reserved_peak_mib": 5.0, "host_rss_peak_mib": 3.0}
    cases = tuple(dataclasses.replace(c, memory_mib=mib) for c in understanding.cases)
    report = build(dataclasses.replace(understanding, cases=cases))
    table = section(report, "memory").table
    assert table is not None
    assert [c.name for c in table.columns if not c.key] == [
        "host rss peak", "torch reserved peak", "device used delta"
    ]  # fmt: skip
    meanings = section(report, "memory_meanings")
    assert column(meanings, "counted by") == ["the kernel", "the framework", "the driver (NVML)"]
    assert "no other column" in section(report, "memory").note
