"""Contract, group 3: isolation and the state of the machine."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from analysis.conftest import a_case, a_machine, again, sampled, understood
from breakeven.analysis.comparable import Side, gate
from breakeven.records.canonical import to_json
from breakeven.records.lines import Block
from breakeven.runner.seat import Ending, Seat, attempt, close_seat, open_seat
from breakeven.runner.wire import case_to_json
from breakeven.timing import core
from breakeven.timing.machine import fingerprint
from breakeven.timing.probes.clocks import GpuClocksProbe, gpu_sample
from breakeven.timing.probes.contention import gpu_reasons, take_baseline
from breakeven.timing.probes.nvml import Board, decode, open_board
from breakeven.timing.probes.sampler import Sampler
from breakeven.workloads import data
from breakeven.workloads.order import apply_augmentation, augmentation_table, epoch_order

from .worlds import MS, World, in_a_child, sim_case


@pytest.fixture
def seat() -> Iterator[Seat]:
    opened = open_seat("sim", {"PLANTED_FOR_THE_CASE": "1"})
    yield opened
    close_seat(opened)


def run(seat: Seat, device: str, **request: Any) -> Ending:
    whole = {"what": "attempt", "case": case_to_json(sim_case(device)), "plan": {"budget_s": 2.0}} | request
    return attempt(seat, whole, timeout_s=30, on_event=lambda event: None, hurry=lambda: None)


def test_r16_what_one_attempt_sets_does_not_reach_the_next(
    seat: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted leak is an environment variable that changes the speed of the process."""
    device = "sim:gpu:step_ms=2:process=0.3:noise=0"
    key = "BREAKEVEN_SIM_SEED"

    def step(result: Any) -> float:
        return median(b["ns"] / b["n_steps"] for b in result["blocks"] if not b["warmup"])

    before, leaking, after = (run(seat, device, environ=env).result for env in ({}, {key: "1/2/3/4"}, {}))
    assert step(before) == step(after) != step(leaking)
    assert before is not None and after is not None and before["cold_ns"] == after["cold_ns"]
    from .worlds import in_a_child

    monkeypatch.delenv(key, raising=False)
    clean = step(in_a_child(sim_case(device), budget_s=2.0))
    monkeypatch.setenv(key, "1/2/3/4")  # the same in one process: left behind by the case before
    assert step(in_a_child(sim_case(device), budget_s=2.0)) != clean == step(before)


def test_r16_the_order_of_cases_changes_no_field(seat: Seat) -> None:
    """A case whose first step searches for kernels shows its cold start first or second in order alike."""
    a, b = "sim:gpu:step_ms=2:cold_ms=300:noise=0", "sim:cpu:step_ms=5:cold_ms=200:noise=0"
    first = [run(seat, device).result for device in (a, b)]
    other = [run(seat, device).result for device in (b, a)]
    fields = ("cold_ns", "blocks", "memory", "flags", "outcome")
    for one, two in zip(first, reversed(other), strict=True):
        assert one is not None and two is not None
        assert [one[field] for field in fields] == [two[field] for field in fields]
    shared = World(launch_ns=lambda i: 300 * MS if i == 0 else 0)
    colds = [shared.synced_ns() for _ in (a, b)]
    assert colds[0] > 25 * colds[1]  # one process for both: the second has no cold start left


def board_of(nvml: Any) -> Board:
    board = open_board(0, nvml=nvml, environ={})
    assert isinstance(board, Board)
    return board


def test_r17_a_busy_gpu_is_seen_even_where_no_process_is_listed(nvml: Any, tmp_path: Path) -> None:
    nvml.pids = []  # as in a container: a check of process ids says that all is well
    nvml.busy_percent, nvml.used_mib = 30, 4096.0
    before = take_baseline(board_of(nvml), tmp_path, sleep=lambda seconds: None)
    assert before.process_ids == frozenset()
    reasons = gpu_reasons(before, frozenset(), frozenset())
    assert len(reasons) == 2 and "30% busy" in reasons[0] and "4096 MiB" in reasons[1]
    nvml.busy_percent, nvml.used_mib = 0, 0.0
    quiet = take_baseline(board_of(nvml), tmp_path)
    assert gpu_reasons(quiet, frozenset({os.getpid()}), frozenset({os.getpid()})) == []


def test_r18_each_throttle_bit_is_decoded_and_idle_is_none(nvml: Any) -> None:
    assert bool(0x1) and decode(0x1) == ((), ("idle",))  # naive truth calls an idle GPU throttled
    assert decode(0x4)[0] == ("sw_power_cap",) and decode(0x60)[0] == ("hw_thermal", "sw_thermal")
    masks = iter([0x1, 0x0, 0x4, 0x4])
    clocks = iter([1980, 1980, 1500, 1410])

    def read() -> Any:
        nvml.mask, nvml.sm_mhz = next(masks), next(clocks)
        return gpu_sample(board_of(nvml))

    sampler = Sampler(read, period_s=3600.0)
    probe = GpuClocksProbe(sampler)
    probe.start()
    sampler._take()
    sampler._take()
    seen = probe.stop()
    assert seen["flags"] == ["throttled"] and seen["throttle"] == ["sw_power_cap"]
    assert seen["benign"] == ["idle"] and seen["throttle_share"] == {"sw_power_cap": 0.5}
    assert (seen["sm_mhz"]["first"], seen["sm_mhz"]["last"]) == (1980, 1410)  # boost and sustained
    # A second of 10 ms, then 12 ms for ever: the blocks keep both.
    blocks = tuple(Block(n_steps=1, samples=128, ns=(10 if i < 100 else 12) * MS) for i in range(300))
    line = sampled(a_case(), 0, 1.0, blocks=blocks, flags=("throttled",))
    kept = [b.ns for b in line.blocks if not (b.warmup or b.boundary)]
    assert median(kept[:50]) == 10 * MS and median(kept[150:]) == 12 * MS
    assert "throttled" in understood(line).cases[0].flags  # shown, never dropped


def test_r19_inputs_are_real_distinct_and_normal() -> None:
    """The naive input is one batch of zeros: it may take other paths and always hits the cache."""
    known = data.entry("digits")
    split = data.load("digits", "train")
    order = epoch_order(0, 0, known.n_train)
    table = augmentation_table(0, 0, known.n_train)
    mean, std = (np.asarray(v, np.float32)[:, None, None] for v in (known.mean, known.std))
    batches = []
    for step in range(8):
        rows = order[step * 128 : (step + 1) * 128]
        pixels = apply_augmentation(split.images[rows], table[rows]).astype(np.float32) / 255
        batches.append((pixels - mean) / std)
    assert len({batch.tobytes() for batch in batches}) == 8
    tiny = np.finfo(np.float32).tiny
    for batch in batches:
        assert batch.std() > 0.1 and np.isfinite(batch).all()
        assert not ((batch != 0) & (np.abs(batch) < tiny)).any()  # no denormals


@pytest.mark.framework
def test_r19_what_the_device_gets_is_distinct_and_normal() -> None:
    import torch

    from breakeven.runtimes.torch import session
    from runtimes.torch_cases import case

    for residency in ("host", "device"):
        built = session.build(case(batch=128, residency=residency))
        built.batches.begin(0, 0)
        batches = [built.batches.next()[0].clone() for _ in range(8)]
        built.batches.close()
        assert len({batch.numpy().tobytes() for batch in batches}) == 8
        tiny = torch.finfo(torch.float32).tiny
        assert all(batch.std() > 0.1 and torch.isfinite(batch).all() for batch in batches)
        assert not any(((batch != 0) & (batch.abs() < tiny)).any() for batch in batches)


def test_r20_the_speed_of_one_core_is_measured_outside_the_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two hosts of one name, one of them clocked down by half: a step that waits for launches takes twice."""
    turns: list[int] = []
    monkeypatch.setattr(core, "_turns", lambda: turns.append(0))
    ticks = iter([0, 9_000_000, 0, 2_000_000, 0, 1_000_000] + 4 * [0, 3_000_000])
    assert core.core_loop_ns(lambda: next(ticks)) == 50.0 and len(turns) == core.ROUNDS  # the fastest round
    assert core.core_loop_ns(lambda: 0) is None  # a clock that sees nothing
    monkeypatch.undo()
    here = core.core_loop_ns()
    assert here is not None and 0.1 < here < 100_000

    gpu, seen = a_case(device="cuda:0"), {"conv_precision": "ieee", "matmul_precision": "ieee", "threads": 2}
    fast, slow = (
        [sampled(gpu, i, ms, observed=seen | {"core_loop_ns": ns}) for i in range(3)]
        for ms, ns in ((5.0, 50.0), (10.0, 100.0))
    )
    assert fast[0].device == slow[0].device  # naive: the same GPU under the same name, twice as slow
    assert understood(a_machine(2), fast).machines[0]["core_loop_ns"] == 50.0
    one, other = (Side(attempt=a, machine=a_machine(2), tool_version="1") for a in (fast[0], slow[0]))
    (told,) = gate(one, other).shown
    assert (told.field, told.base, told.candidate) == ("core_loop_ns", 50.0, 100.0)
    near = again(fast[0], observed=seen | {"core_loop_ns": 53.0})
    assert gate(one, dataclasses.replace(one, attempt=near)).shown == ()  # no two readings are the same
    unread = dataclasses.replace(one, attempt=again(fast[0], observed=seen))
    assert [d.unknown for d in gate(unread, unread).shown] == ["not measured"]
    assert "core_loop_ns" not in in_a_child(sim_case("sim:gpu"))["observed"]


def test_r20_a_gpus_number_carries_its_host(nvml: Any, plant: Any) -> None:
    """Whether a step waits for launches is not told yet, so the host has to stand beside every GPU."""
    cpu, gpu = a_case(), a_case(device="cuda:0")
    lines = [sampled(case, i, ms) for case, ms in ((cpu, 20.0), (gpu, 5.0)) for i in range(3)]
    nameless = understood(lines)
    assert nameless.ratios[0].point == pytest.approx(4)  # naive: "the GPU", whatever fed it
    (missing,) = [q for q in nameless.quality if q.flag == "host_unknown"]
    assert missing.cases == 1 and "launches" in missing.text and set(missing.evidence)
    named = understood(a_machine(2), lines)
    assert not [q for q in named.quality if q.flag == "host_unknown"]
    assert named.machines[0]["cpu"] == "Test CPU"
    info = "processor: 0\nmodel name: Planted CPU\n"
    line = fingerprint({}, root=plant({"proc/cpuinfo": info}), nvml=nvml, affinity=[0])
    assert to_json(line.platform)["cpu"]["model"] == "Planted CPU"
    assert (
        line.platform["settings"]["governor"] is None
        and "cpufreq" in line.nulls["platform.settings.governor"]
    )
