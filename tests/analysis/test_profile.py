"""Profiles: shares of planted operators, idle time, the profiler's cost; failures say why."""

from __future__ import annotations

from typing import Any

import pytest

from breakeven.analysis.profile import profiles_of, sentences_of_profiles
from breakeven.records.file import Results
from breakeven.records.lines import Block, ProfileLine
from breakeven.records.profile import Gaps, Kernel, Operator

MS = 1_000_000
CONV, SMALL = ((8, 3, 32, 32), (16, 3, 3, 3), ()), ((8, 16, 8, 8), (16, 16, 3, 3), ())


def a_line(**changes: Any) -> ProfileLine:
    """Two steps of 100 ms on a CPU, 80 ms without the profiler: 60 in two convolutions, 10 in a loader."""
    values: dict[str, Any] = {
        "case_id": "c", "fingerprint_id": "f", "started_utc": "2026-01-01", "outcome": "ok",
        "blocks": (Block(n_steps=1, samples=8, ns=900 * MS, warmup=True),),
        "n_steps": 2, "profiled_ns": 200 * MS, "plain_ns": (150 * MS, 170 * MS),
        "operators": (
            Operator(name="aten::conv", shapes=CONV, calls=2, self_host_ns=80 * MS, total_host_ns=81 * MS),
            Operator(name="aten::conv", shapes=SMALL, calls=4, self_host_ns=40 * MS, total_host_ns=41 * MS),
            Operator(name="loader", kind="annotation", calls=2, self_host_ns=20 * MS, total_host_ns=20 * MS),
            Operator(name="aten::mm", calls=2, self_host_ns=10 * MS, total_host_ns=10 * MS, flops=4_000),
        ),
        "left_out": {"rows": 9, "self_host_ns": 30 * MS, "self_device_ns": 0},
        "trace": {"file": "profiles/a.json.gz", "sha256": "00", "events": 5},
        "nulls": {"device_span_ns": "nothing is launched"},
    }  # fmt: skip
    return ProfileLine(**(values | changes))


def on_gpu(**changes: Any) -> ProfileLine:
    """The host spends 90 ms launching what takes the device 20 ms of 100: not a CPU against a GPU."""
    values: dict[str, Any] = {
        "operators": (
            Operator(name="aten::cudnn_convolution", calls=2, self_host_ns=180 * MS,
                     total_host_ns=180 * MS, self_device_ns=30 * MS, total_device_ns=30 * MS),
            Operator(name="aten::add", calls=2, self_host_ns=10 * MS, total_host_ns=10 * MS,
                     self_device_ns=10 * MS, total_device_ns=10 * MS),
        ),
        "left_out": {}, "nulls": {}, "device_span_ns": 200 * MS, "device_busy_ns": 40 * MS,
        "kernels": (
            Kernel(name="gemm", calls=4, device_ns=30 * MS), Kernel(name="add", calls=2, device_ns=10 * MS),
        ),
        "gaps": (Gaps(from_ns=1_000_000, to_ns=None, count=4, ns=160 * MS),),
    }  # fmt: skip
    return a_line(**(values | changes))


def found(*lines: ProfileLine) -> Any:
    (one,) = profiles_of(Results(path="r", lines=lines), ["c", "another"])
    return one


def test_operators_of_all_shapes_by_their_own_time() -> None:
    one = found(a_line())
    assert [(op.name, op.kind) for op in one.operators] == [
        ("aten::conv", "operator"), ("loader", "annotation"), ("aten::mm", "operator")
    ]  # fmt: skip
    conv = one.operators[0]
    assert (conv.calls, conv.self_host_s, conv.share) == (3.0, pytest.approx(0.06), pytest.approx(0.6))
    assert conv.total_host_s == pytest.approx(0.061)
    assert (conv.self_device_s, conv.flops, one.operators[2].flops) == (None, None, 2_000)
    assert [op.shapes for op in one.by_shape[:2]] == ["8x3x32x32 16x3x3x3", "8x16x8x8 16x16x3x3"]
    # 90 ms of 100 are in operators, those left out included.
    assert one.outside_s == pytest.approx(0.01)
    assert one.left_out == 9


def test_operators_side_by_side_are_covered_once() -> None:
    """Two threads: 210 ms of operators in 190 of the 200 that the steps took."""
    rows = (
        Operator(name="conv", calls=4, self_host_ns=150 * MS, total_host_ns=150 * MS),
        Operator(name="add", calls=2, self_host_ns=60 * MS, total_host_ns=60 * MS),
    )
    one = found(a_line(operators=rows, left_out={}, host_busy_ns=190 * MS, observed={"at_once": 2}))
    assert one.outside_s == pytest.approx(0.005)
    assert [op.share for op in one.operators] == [pytest.approx(0.75), pytest.approx(0.3)]


@pytest.mark.parametrize(
    ("at_once", "busy_ms", "why"),
    [(2, 190, None), (1, 190, "conv took 150%"), ("2", 190, "conv took 150%"), (2, 300, "longer than the")],
)
def test_one_kind_may_take_as_much_as_runs_of_it_fit_side_by_side(
    at_once: object, busy_ms: int, why: str | None
) -> None:
    rows = (Operator(name="conv", calls=4, self_host_ns=300 * MS, total_host_ns=300 * MS),)
    line = a_line(operators=rows, left_out={}, host_busy_ns=busy_ms * MS, observed={"at_once": at_once})
    told = found(line).reasons.get("operators")
    assert (told is None) if why is None else (why in told)


def test_the_profilers_cost_is_against_steps_right_before_and_after() -> None:
    one = found(a_line())
    assert (one.plain_step_s, one.step_s) == (pytest.approx(0.08), pytest.approx(0.1))
    assert one.overhead == pytest.approx(1.25)
    assert found(a_line(plain_ns=())).overhead is None
    assert "overhead" in found(a_line(plain_ns=())).reasons
    noisy = found(a_line(plain_ns=(250 * MS, 210 * MS)))
    assert "less than the steps differ by" in sentences_of_profiles([noisy], {"c": "x"})[0]


def test_shares_on_a_gpu_are_of_its_kernels_and_idle_time_is_named() -> None:
    one = found(on_gpu())
    assert [(op.name, op.share) for op in one.operators] == [
        ("aten::cudnn_convolution", pytest.approx(0.75)), ("aten::add", pytest.approx(0.25))
    ]  # fmt: skip
    assert one.idle_share == pytest.approx(0.8)
    assert one.kernels[0].device_s == pytest.approx(0.015) and one.kernels[0].calls == 2
    (sentence,) = sentences_of_profiles([one], {"c": "resnet18 on cuda:0 (as-written)"})
    assert sentence == (
        "Profile of resnet18 on cuda:0 (as-written): aten::cudnn_convolution 75 %, aten::add 25 % of its "
        "kernels' time; the device idle 80 % between kernels; the profiler made a step 1.25x as long (much: "
        "trust the shares less)."
    )
    assert "CPU" not in sentence


def test_kernels_of_a_captured_step_are_named_where_no_operator_launches_them() -> None:
    launch = Operator(name="cudaGraphLaunch", calls=2, self_host_ns=4 * MS, self_device_ns=0)
    one = found(on_gpu(operators=(launch,)))
    assert one.on_device and one.operators[0].share == 0.0
    (sentence,) = sentences_of_profiles([one], {"c": "x"})
    assert sentence.startswith("Profile of x: gemm 75 %, add 25 % of its kernels' time")


def test_a_failed_profile_says_why_and_a_later_one_replaces_it() -> None:
    failed = a_line(outcome="unsupported", reason="this runtime has no profiler", n_steps=None)
    one = found(failed)
    assert one.reasons == {"operators": "unsupported: this runtime has no profiler"}
    assert sentences_of_profiles([one], {"c": "x"}) == []
    assert found(failed, a_line()).operators
    assert found(a_line(), failed).operators  # a failure hides no profile that is there
    assert found(a_line(), a_line(n_steps=4)).n_steps == 4


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"self_host_ns": 90 * MS, "total_host_ns": 40 * MS}, "alone took longer on the host"),
        ({"self_device_ns": 9 * MS, "total_device_ns": 4 * MS}, "alone took longer on the device"),
        ({"self_host_ns": 300 * MS, "total_host_ns": 300 * MS}, "took 150% of the profiled steps"),
        ({"self_host_ns": -MS}, "less than no time"),
    ],
)
def test_a_profile_that_cannot_be_shows_no_share(changes: dict[str, int], why: str) -> None:
    one = found(a_line(operators=(Operator(name="aten::conv", calls=2, **changes),)))
    assert one.operators == () and why in one.reasons["operators"]
    assert sentences_of_profiles([one], {"c": "c"}) == []
