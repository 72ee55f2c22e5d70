"""The speed of light: impossible rates refused, rates above a measured ceiling flagged, nothing guessed."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from breakeven.analysis.ceilings import precisions_of
from breakeven.analysis.findings import CaseFinding
from breakeven.records.case import Case, Tuning
from breakeven.records.lines import Attempt, Ceiling, Check, Fingerprint
from breakeven.workloads import costs, models

from .conftest import a_case, a_machine, an_attempt, spread, understood

NET = models.model("resnet18", num_classes=10, input_shape=(3, 32, 32))
NOMINAL = costs.training_flops(NET, 128)
LEAST = costs.least_flops(NET, 128, training=True)
H200 = {"name": "NVIDIA H200", "memory_gib": 140, "max_sm_mhz": 1980, "power_limit_w": 700.0}
SEEN = {"device_name": "NVIDIA H200", "conv_precision": "tf32", "matmul_precision": "none"}
TF32 = 494.7 * 1980 / 1830  # the datasheet holds at 1830 MHz, this board goes up to 1980
CPU, GPU = a_case(), a_case(device="cuda:0")


def a_board(**changes: Any) -> Fingerprint:
    return a_machine(gpus=[H200 | changes])


def a_ceiling(
    value: float | None, name: str = "matmul_tf32", device: str = "cuda:0", **changes: Any
) -> Ceiling:
    values: dict[str, Any] = {
        "fingerprint_id": "f0",
        "started_utc": "2025-01-01T00:00:00+00:00",
        "name": name,
        "value": value,
        "unit": "tflop_per_s",
        "conditions": {"device": device, "dtype": "float32", "shape": [8192, 8192, 8192], "n": 2},
    }
    return Ceiling(**(values | changes))


def at_rate(case: Case, tflop_per_s: float, flops: float = NOMINAL, **changes: Any) -> list[Attempt]:
    """Three processes whose step makes so many TFLOP/s of `flops`."""
    seen = {"observed": SEEN} if case.device.kind == "cuda" else {}
    return spread(case, 1e3 * flops / (tflop_per_s * 1e12), **(seen | changes))


def found(*lines: Any) -> CaseFinding:
    return understood(*lines).cases[0]


def test_a_rate_that_no_algorithm_can_reach_is_invalid() -> None:
    result = understood(a_board(), spread(CPU, 100.0), at_rate(GPU, 1.2 * TF32, LEAST))
    case = next(c for c in result.cases if c.device_label == "cuda:0")
    assert (case.processes, case.step_s, case.step_point_s, case.total_point_s) == (0, None, None, None)
    assert case.outcomes == {"invalid": 3}
    assert case.failure is not None
    assert case.failure.startswith("invalid: faster than the hardware: ") and "NVIDIA H200" in case.failure
    assert "faster than the hardware" in case.reasons["step_s"]
    (ratio,) = result.ratios
    assert ratio.point is None and "faster than the hardware" in ratio.reasons["ratio"]


def test_ten_percent_of_slack_and_what_winograd_saves_are_no_breach() -> None:
    assert 2 * LEAST < NOMINAL < 4 * LEAST
    for nominal in (
        1.05 * TF32,
        1.9 * TF32,
    ):  # Winograd in TF32; beyond 1.1 times BF16's peak nothing is left
        case = found(a_board(), at_rate(GPU, nominal))
        assert case.processes == 3
        assert "above_ceiling" in case.flags  # nominally beyond the datasheet
    assert found(a_board(), at_rate(GPU, 2.3 * TF32)).failure is not None
    slack = found(a_board(), at_rate(a_case(device="cuda:0", tuning=Tuning(precision="bf16")), 2.1 * TF32))
    assert slack.processes == 3


def test_without_nvml_the_name_that_ran_has_to_do() -> None:
    assert found(a_machine(), at_rate(GPU, 1.2 * 989.4)).failure is not None
    assert (
        found(a_machine(), at_rate(GPU, 1.2 * 989.4, observed={"device_name": "NVIDIA H200"})).processes == 0
    )


def test_above_the_measured_ceiling_is_flagged_and_kept() -> None:
    below, above = (
        found(a_board(), a_ceiling(400.0), a_ceiling(50.0, "matmul_fp32"), at_rate(GPU, rate))
        for rate in (390.0, 410.0)
    )
    assert "above_ceiling" not in below.flags and below.share_of_ceiling == pytest.approx(0.975, rel=1e-3)
    assert above.flag_counts["above_ceiling"] == 3
    assert above.step_s is not None and above.share_of_ceiling == pytest.approx(1.025, rel=1e-3)
    assert (above.ceiling_precision, above.ceiling_tflop_per_s) == ("tf32", 400.0)


def test_an_unknown_board_has_no_peak_and_no_guess() -> None:
    other = {"observed": SEEN | {"device_name": "NVIDIA X1"}}
    case = found(a_board(name="NVIDIA X1"), at_rate(GPU, 1e6, **other))
    assert case.processes == 3
    assert case.peak_tflop_per_s is None
    assert case.reasons["peak_tflop_per_s"] == "no datasheet of NVIDIA X1 is known here"


@pytest.mark.parametrize(
    "machine", [a_machine(), a_machine(gpus=None), a_machine(gpus=[H200, H200 | {"name": "NVIDIA L4"}])]
)
def test_a_board_that_cannot_be_told_has_none_either(machine: Fingerprint) -> None:
    nameless = {"observed": {key: value for key, value in SEEN.items() if key != "device_name"}}
    case = found(machine, at_rate(GPU, 1e6, **nameless))
    assert case.processes == 3
    assert case.reasons["peak_tflop_per_s"] == "the fingerprint does not tell which board ran"


def test_a_cpu_has_a_measured_ceiling_only() -> None:
    case = found(
        a_machine(),
        a_ceiling(0.1, "matmul_fp32", "cpu"),
        at_rate(CPU, 0.05, observed={"matmul_precision": "none", "conv_precision": "none"}),
    )
    assert (case.ceiling_precision, case.ceiling_tflop_per_s, case.peak_tflop_per_s) == ("fp32", 0.1, None)
    assert case.share_of_ceiling == pytest.approx(0.5, rel=1e-3)
    assert "clock" in case.reasons["peak_tflop_per_s"]


def test_a_simulated_device_has_no_limits() -> None:
    case = found(a_board(), at_rate(a_case(device="sim:gpu"), 1e6))
    assert case.processes == 3
    assert not {"share_of_ceiling", "peak_tflop_per_s"} & set(case.reasons)


def test_a_null_ceiling_says_why() -> None:
    case = found(
        a_board(),
        a_ceiling(None, reason="oom: no memory"),
        a_ceiling(50.0, "matmul_fp32"),
        at_rate(GPU, 40.0),
    )
    assert case.share_of_ceiling is None
    assert case.reasons["share_of_ceiling"] == "no measured ceiling of tf32 on cuda:0: oom: no memory"


def test_a_ceiling_of_another_machine_or_device_bounds_nothing() -> None:
    for changes in ({"fingerprint_id": "f1"}, {"device": "cuda:1"}):
        case = found(
            a_board(), a_ceiling(1.0, **changes), a_ceiling(1.0, "matmul_fp32", **changes), at_rate(GPU, 40.0)
        )
        assert case.share_of_ceiling is None and "above_ceiling" not in case.flags


def test_a_ceiling_faster_than_the_hardware_is_none() -> None:
    result = understood(a_board(), a_ceiling(700.0), a_ceiling(50.0, "matmul_fp32"), at_rate(GPU, 40.0))
    assert result.cases[0].share_of_ceiling is None
    shown = {c.name: c for c in result.ceilings}
    assert (
        shown["matmul_tf32"].value is None
        and "faster than the hardware" in shown["matmul_tf32"].reasons["value"]
    )
    assert shown["matmul_fp32"].value == 50.0
    assert shown["matmul_fp32"].theoretical == 66.91


def test_the_best_of_several_lines_is_the_ceiling() -> None:
    lines = [a_ceiling(value) for value in (300.0, None, 350.0, 320.0)]
    (shown,) = understood(a_board(), lines, at_rate(GPU, 40.0)).ceilings
    assert shown.value == 350.0


def test_a_contended_ceiling_bounds_nothing_but_an_undisturbed_one_does() -> None:
    busy = {"conditions": {"device": "cuda:0", "flags": ["contended"]}}
    fp32 = a_ceiling(50.0, "matmul_fp32")
    case = found(a_board(), a_ceiling(30.0, **busy), fp32, at_rate(GPU, 40.0))
    assert case.share_of_ceiling is None and "above_ceiling" not in case.flags
    assert "others used the machine" in case.reasons["share_of_ceiling"]
    both = found(a_board(), a_ceiling(390.0, **busy), a_ceiling(380.0), fp32, at_rate(GPU, 40.0))
    assert both.ceiling_tflop_per_s == 380.0
    assert [line.split("/")[3] for line in both.ceiling_evidence] == ["matmul_fp32", "matmul_tf32"]


def test_the_ratio_of_ceilings_is_the_third_ratio() -> None:
    cpu_seen = {"observed": {"matmul_precision": "none", "conv_precision": "none"}}
    lines = [a_ceiling(400.0), a_ceiling(50.0, "matmul_fp32"), a_ceiling(2.0, "matmul_fp32", "cpu")]
    (ratio,) = understood(a_board(), lines, at_rate(CPU, 1.0, **cpu_seen), at_rate(GPU, 40.0)).ratios
    assert ratio.ceiling == 200.0
    (without,) = understood(a_board(), lines[:2], at_rate(CPU, 1.0, **cpu_seen), at_rate(GPU, 40.0)).ratios
    assert without.ceiling is None


@pytest.mark.parametrize(("watts", "believed"), [(690.0, True), (760.0, True), (780.0, False)])
def test_more_energy_than_the_limit_allows_is_no_reading(watts: float, believed: bool) -> None:
    energy = {"scope": "gpu_board", "gross_j": watts * 2, "window_ns": 2_000_000_000}
    case = found(a_board(), at_rate(GPU, 40.0, energy=energy))
    assert (case.power_w is not None) == believed
    assert believed or case.reasons["energy_j_per_step"] == "780 W, where the board's limit is 700 W"


def checked(**found: Any) -> Check:
    return Check(
        case_id="c", fingerprint_id="f0", started_utc="2025-01-01T00:00:00+00:00", outcome="ok",
        checks={name: {"asked": "?", "found": value, "ok": True} for name, value in found.items()},
    )  # fmt: skip


PROBED = {"conv": {"precision": "tf32"}, "matmul": {"precision": "fp32"}}


@pytest.mark.parametrize(
    ("precision", "check", "observed", "ran"),
    [
        ("default", {"precision": PROBED}, {}, ("fp32", "tf32")),
        ("default", {"precision": {"conv": {"precision": None}}}, {}, ()),
        ("default", None, SEEN, ("fp32", "tf32")),
        ("default", None, {"matmul_precision": "none", "conv_precision": "ieee"}, ("fp32",)),
        ("default", None, {}, ()),
        ("fp32", None, {}, ("fp32",)),
        ("bf16", {"dtype_in_hardware": "native"}, {}, ("bf16",)),
        ("bf16", {"dtype_in_hardware": "emulated"}, {}, ("fp32",)),
    ],
)
def test_the_precision_that_ran(precision: str, check: Any, observed: Any, ran: tuple[str, ...]) -> None:
    case = dataclasses.replace(GPU, tuning=Tuning(precision=precision))
    attempt = an_attempt(case, observed=observed)
    assert precisions_of(case, [attempt], [checked(**check)] if check else []) == ran
