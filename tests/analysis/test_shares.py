"""Planted steps, measured in virtual time, are found and named: shares, launches, floor and label."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from breakeven.analysis import phrases
from breakeven.analysis.bounds import BINDS, CLEAR, RULES
from breakeven.analysis.findings import ShareFinding
from breakeven.records.case import Case
from breakeven.records.lines import Attempt, Block, Ceiling, Line
from breakeven.runtimes import sim
from breakeven.timing import sample_peak
from breakeven.workloads import costs, models, roofline
from contract.worlds import QUIET, in_a_child, sim_case

from .conftest import an_attempt, understood

LONG = "train_samples=1000000"
APART = "noise=0.001:process=0.001"
"""Processes of a device without any noise are copies of each other, and but one of them is believed."""
RESIDENT: dict[str, Any] = {"residency": "device", "augment_on": "device"}


def sampled_in_virtual_time(case: Case, n: int = 1) -> list[Attempt]:
    """Attempts of a simulated case, each measured as a child measures it."""
    lines = []
    for replicate in range(n):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BREAKEVEN_SIM_SEED", f"0/{case.case_id}/{replicate}/0")
            result = in_a_child(case, budget_s=200.0)
        assert result["outcome"] == "ok", result
        lines.append(
            an_attempt(
                case,
                replicate,
                name=None,
                hashes=result["hashes"],
                flags=tuple(result["flags"]),
                blocks=tuple(Block(**block) for block in result["blocks"]),
                phases=result.get("phases"),
                nulls=result["base_nulls"] | result["nulls"],
            )
        )
    return lines


def ceilings_of(case: Case) -> list[Line]:
    """The ceilings that a device with a bandwidth shows."""
    return [
        Ceiling(
            fingerprint_id="f0",
            started_utc="2025-01-01T00:00:00+00:00",
            name=name,
            value=sample_peak(sim.peak(case.device, name), budget_s=0.5).per_second
            / (1e12 if unit == "tflop_per_s" else 1e9),
            unit=unit,
            conditions={"device": case.device.label},
        )
        for name, unit in sim.peaks(case.device).items()
    ]


def found(case: Case, *others: Case, n: int = 1) -> ShareFinding:
    lines = [line for one in (case, *others) for line in sampled_in_virtual_time(one, n)]
    whole = understood([*ceilings_of(case), *lines])
    (finding,) = (s for s in whole.shares if s.case_id == case.case_id)
    return finding


def device(options: str) -> str:
    return f"sim:gpu:{QUIET}:{LONG}:{options}"


PLANTED: dict[str, tuple[str, dict[str, Any], str, dict[str, float]]] = {
    # 30 ms of input before 10 ms of work: the loop that people write.
    "input, waited for": (
        "step_ms=10:input_ms=30", {"loss_sync": "every-step"}, "input",
        {"data_wait": 0.75, "forward": 1 / 12, "backward": 1 / 6},
    ),
    # The loader runs beside the device: of its 30 ms 10 are hidden, whatever the host sees of them.
    "input, overlapped": (
        "step_ms=10:input_ms=30", {}, "input", {"data_wait": 2 / 3, "forward": 1 / 9, "backward": 2 / 9},
    ),
    "input, workers": (
        "step_ms=10:input_ms=100", {"workers": 5}, "input", {"data_wait": 0.5, "forward": 1 / 6},
    ),
    "copy": (
        "step_ms=10:copy_ms=10", {"loss_sync": "every-step"}, "copy",
        {"copy": 0.5, "data_wait": 0.0, "forward": 1 / 6, "backward": 1 / 3},
    ),
    "copy, pinned": ("step_ms=10:copy_ms=10", {"pinned": True}, "copy", {"copy": 0.5, "backward": 1 / 3}),
    "launch": (
        "step_ms=4:launch_us=1000", RESIDENT, "launch", {"forward": 1 / 3, "backward": 2 / 3, "other": 0.0},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_step_is_named_and_its_shares_are_found(name: str) -> None:
    options, tuning, label, shares = PLANTED[name]
    finding = found(sim_case(device(options), **tuning))
    assert finding.label == label, finding.why
    assert sum(finding.shares.values()) == pytest.approx(1)
    for part, share in shares.items():
        # simple-cnn's forward pass is a third of its FLOPs, but for the first layer's input gradient
        assert finding.shares[part] == pytest.approx(share, abs=0.02), part
    assert finding.evidence and finding.processes == 1


def test_a_wait_that_the_device_does_not_notice_is_no_wait() -> None:
    """The host spends 9 of 20 ms in the loader while the device works: faster input would win nothing."""
    finding = found(sim_case(device("step_ms=20:input_ms=9:launch_us=10")))
    assert finding.exposed_ms["data_wait"] == pytest.approx(9, rel=0.01)
    assert finding.exposed_ms["data_wait"] / 20 > BINDS
    assert finding.shares["data_wait"] == pytest.approx(0, abs=0.01)
    assert finding.label == "cannot tell" and "ceiling" in finding.why


def test_parts_alone_longer_than_a_step_fill_it() -> None:
    """An enqueued copy hides behind launches: the step is as long without it."""
    finding = found(sim_case(device("step_ms=2:launch_us=500:copy_ms=3"), pinned=True))
    assert finding.shares["copy"] == pytest.approx(0, abs=0.02) and finding.label == "launch"
    assert finding.busy_ms["copy"] == pytest.approx(3, rel=0.01)


@pytest.mark.parametrize(
    ("rates", "label"), [("gflops=1000:gb_per_s=100000", "compute"), ("gflops=1e6:gb_per_s=100", "memory")]
)
def test_the_side_of_the_roofline_is_named(rates: str, label: str) -> None:
    case = sim_case(
        device(f"{rates}:launch_us=0:channels_last=1:compile=1"), model="resnet18-cifar", **RESIDENT
    )
    finding = found(case)
    assert finding.label == label, finding.why
    assert finding.floor_s == pytest.approx(finding.step_s, rel=0.01)  # the planted device is its own floor
    share = finding.floor_memory_share
    assert share is not None and (share > 0.95 if label == "memory" else share < 0.05)
    net = models.model("resnet18-cifar", num_classes=10, input_shape=(3, 32, 32))
    traffic = costs.training_bytes(net, 100) + roofline.ADAM_BYTES * costs.parameter_count(net)
    assert finding.flops_per_byte == pytest.approx(costs.training_flops(net, 100) / traffic)
    assert any("/ceiling/" in line for line in finding.evidence)


def test_a_step_far_above_its_floor_is_bound_by_neither_side() -> None:
    """Naive: "bound by compute", where arithmetic explains a tenth of the step."""
    case = sim_case(device("gflops=1000:gb_per_s=100000:launch_us=0:channels_last=1:compile=1"),
                    model="resnet18-cifar", **RESIDENT)  # fmt: skip
    ceilings = ceilings_of(case)
    faster = [
        dataclasses.replace(line, value=10 * line.value) if isinstance(line, Ceiling) and line.value else line
        for line in ceilings
    ]
    lines = sampled_in_virtual_time(case, 3)
    labels = [understood(*some, *lines).shares[0] for some in (ceilings, faster)]
    assert [found.label for found in labels] == ["compute", "cannot tell"]
    assert "10%" in labels[1].why


def test_a_floor_with_two_sides_has_no_label() -> None:
    def memory_share(gb_per_s: float) -> float:
        rates = {"flop_per_s": 1e13, "byte_per_s": gb_per_s * 1e9}
        share = roofline.floor(net, 100, **rates).memory_share
        assert 0 < share < 1
        return share

    net = models.model("resnet18-cifar", num_classes=10, input_shape=(3, 32, 32))
    even = min(range(100, 3000, 10), key=lambda gb: abs(memory_share(gb) - 0.5))
    assert max(memory_share(even), 1 - memory_share(even)) < CLEAR
    rates = f"gflops=10000:gb_per_s={even}:launch_us=0:channels_last=1:compile=1"
    finding = found(sim_case(device(rates), model="resnet18-cifar", **RESIDENT))
    assert finding.label == "cannot tell" and "of the layers' floor" in finding.why


@pytest.mark.parametrize(("launch_us", "share"), [(200, 0.0), (1000, 0.69)])
def test_launches_are_what_capturing_saves(launch_us: int, share: float) -> None:
    options = f"step_ms=4:launch_us={launch_us}:noise=0.01:process=0.02"
    eager = sim_case(device(options), **RESIDENT)
    captured = sim_case(device(options), execution="cuda-graph", optimizer_impl="fused", **RESIDENT)
    finding = found(eager, captured, n=3)
    truths = [sim.truth_of(c, sim.profile_of(c.device)).step_ns for c in (eager, captured)]
    planted = 1 - truths[1] / truths[0]
    assert planted == pytest.approx(share, abs=0.02)
    assert finding.launch_share is not None and finding.captured_id == captured.case_id
    assert finding.launch_share.low < planted + 0.02 and finding.launch_share.high > planted - 0.02
    assert (finding.label == "launch") == (planted > BINDS), finding.why


def test_a_captured_step_has_a_side_of_the_roofline_only() -> None:
    options = "gflops=1000:gb_per_s=100000:channels_last=1:compile=1:launch_us=1"
    case = sim_case(device(options), model="resnet18-cifar", execution="cuda-graph", **RESIDENT)
    finding = found(case)
    assert finding.shares == {} and "one piece" in finding.reasons["shares"]
    assert finding.label == "compute"


def test_processes_that_disagree_have_no_label() -> None:
    case = sim_case(device(f"step_ms=10:input_ms=30:{APART}"), loss_sync="every-step")
    one, *others = sampled_in_virtual_time(case, 3)
    phases = {**(one.phases or {}), "exposed_ms": {"data_wait": 1.0, "forward": 5.0, "backward": 6.0}}
    apart = dataclasses.replace(one, phases=phases)
    (finding,) = understood(apart, others).shares
    assert finding.label == "cannot tell" and "disagree" in finding.why


def test_parts_that_disagree_with_the_step_stand_for_nothing() -> None:
    case = sim_case(device(f"step_ms=10:input_ms=30:{APART}"), loss_sync="every-step")
    lines = [dataclasses.replace(a, flags=("parts_disagree",)) for a in sampled_in_virtual_time(case, 3)]
    whole = understood(lines)
    assert whole.shares[0].shares == {} and "10 %" in whole.shares[0].why
    assert "parts_disagree" in [q.flag for q in whole.quality]


def test_a_step_beside_a_neighbour_has_shares_and_no_label() -> None:
    """Naive: "bound by input", where the neighbour took the cores of the loader."""
    case = sim_case(device(f"step_ms=10:input_ms=30:{APART}"), loss_sync="every-step")
    lines = [dataclasses.replace(a, flags=("contended",)) for a in sampled_in_virtual_time(case, 3)]
    (share,) = understood(lines).shares
    assert share.label == "cannot tell" and "something else" in share.why and share.shares
    assert understood(sampled_in_virtual_time(case, 3)).shares[0].label == "input"


def test_a_law_turns_round_and_each_end_has_its_label() -> None:
    """As written the loader hides what a card gains on small models; tuned, they gain most by its memory."""
    options = f"{QUIET}:{LONG}:{APART}:input_ms=16:launch_us=0:channels_last=1:compile=1"
    cpu, gpu = f"sim:cpu:{options}:gflops=300:gb_per_s=2", f"sim:gpu:{options}:gflops=6000:gb_per_s=2000"
    tunings: dict[str, dict[str, Any]] = {"as-written": {"loss_sync": "every-step"}, "no-sync": RESIDENT}
    lines: list[Line] = []
    for where in (cpu, gpu):
        lines += ceilings_of(sim_case(where))
        for model in ("simple-cnn", "resnet18", "resnet18-cifar"):
            for name, tuning in tunings.items():
                case = sim_case(where, model=model, **tuning)
                lines += [dataclasses.replace(a, tuning_name=name) for a in sampled_in_virtual_time(case, 2)]
    whole = understood(lines)
    laws = {law.tuning_name: law for law in whole.scale if law.against == "flops"}
    rising, falling = ([ratio for _, _, ratio in laws[name].points] for name in tunings)
    assert rising == sorted(rising) and rising[-1] > 4 * rising[0]
    assert falling == sorted(falling, reverse=True) and falling[0] > 2 * falling[-1]
    labels = {
        (case.device_label.split(":")[1], case.case.work.model, case.tuning_name): share.label
        for share, case in zip(whole.shares, whole.cases, strict=True)
    }
    assert labels["gpu", "simple-cnn", "as-written"] == "input"
    assert labels["gpu", "resnet18-cifar", "as-written"] == "compute"
    assert {labels["gpu", model, "no-sync"] for model in ("simple-cnn", "resnet18-cifar")} == {"compute"}
    assert {labels["cpu", "simple-cnn", name] for name in tunings} == {"memory"}


def test_the_verdict_names_what_binds_the_candidate() -> None:
    def bound(share: float) -> ShareFinding:
        return ShareFinding(case_id="c", step_s=0.01, label="input", shares={"data_wait": share, "cut": 0.02})

    where = ("cuda:0", "as-written")
    assert phrases.bound(where, [bound(0.6), bound(0.84)], 3) == (
        "As written, cuda:0 is bound by input in 2 of 3 cases (62% to 86% of a step)."
    )
    assert phrases.bound(where, [bound(0.6)], 1) == "As written, cuda:0 is bound by input (62% of a step)."
    floor = ShareFinding(case_id="c", step_s=0.01, label="compute")
    assert phrases.bound(where, [floor], 1) == "As written, cuda:0 is bound by compute."
    case = sim_case("sim:gpu:input_ms=9", loss_sync="every-step")
    base = sim_case("sim:cpu:input_ms=9", loss_sync="every-step")
    lines = [*sampled_in_virtual_time(case, 3), *sampled_in_virtual_time(base, 3)]
    said = understood([dataclasses.replace(a, tuning_name="as-written") for a in lines]).sentences
    assert any(s.startswith("As written, sim:gpu:input_ms=9 is bound by input (") for s in said)


def test_the_floor_is_the_sum_of_each_layers_roofline() -> None:
    net = models.model("simple-cnn", num_classes=10, input_shape=(3, 32, 32))
    only_arithmetic = roofline.floor(net, 8, flop_per_s=1e9, byte_per_s=1e30)
    assert only_arithmetic.seconds == pytest.approx(costs.training_flops(net, 8) / 1e9)
    assert only_arithmetic.forward_s == pytest.approx(8 * costs.forward_flops(net) / 1e9)
    state = roofline.ADAM_BYTES * costs.parameter_count(net)
    only_traffic = roofline.floor(net, 8, flop_per_s=1e30, byte_per_s=1e9)
    assert only_traffic.seconds == pytest.approx((costs.training_bytes(net, 8) + state) / 1e9)
    assert only_traffic.memory_share == pytest.approx(1) and only_traffic.optimizer_s == state / 1e9
    both = roofline.floor(net, 8, flop_per_s=1e9, byte_per_s=1e9)
    assert max(only_arithmetic.seconds, only_traffic.seconds) < both.seconds
    assert both.seconds < only_arithmetic.seconds + only_traffic.seconds


def test_the_thresholds_stand_in_the_rules_that_a_reader_sees() -> None:
    assert f"{BINDS:.0%}" in RULES and f"{CLEAR:.0%}" in RULES
