"""Contract, group 5: memory, and running out of it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from analysis.conftest import a_case, an_attempt, sampled, understood
from breakeven import api
from breakeven.records import file
from breakeven.runner.child import classify
from breakeven.runner.rounds import _settled_elsewhere
from breakeven.runner.seat import close_seat, open_seat
from breakeven.runner.study import read_study
from breakeven.timing import Plan, sample_training
from breakeven.timing.probes.memory import MemoryProbe
from breakeven.timing.probes.nvml import open_board

from .worlds import QUIET, World, in_a_child, sim_case


@dataclasses.dataclass
class Allocator:
    """One search for kernels takes 3,685 MiB once; steps need 311 on top of 100 that stay."""

    tuned: bool = False
    reserved: float = 100.0
    peak: float = 100.0

    def step(self) -> None:
        need = 100.0 + 311.0 + (0.0 if self.tuned else 3685.0 - 311.0 + 311.0)
        self.tuned = True
        self.peak = max(self.peak, need)
        self.reserved = max(self.reserved, need)

    def memory(self) -> dict[str, float]:
        return {"allocated_peak_mib": self.peak, "reserved_peak_mib": self.reserved}

    def reset(self) -> None:
        self.peak = 100.0


def measured(allocator: Allocator) -> Any:
    world = World()

    def step() -> None:
        world.step()
        allocator.step()

    prepared = world.prepared(step=step, memory=allocator.memory, reset_memory=allocator.reset)
    return sample_training(prepared, Plan(budget_s=5.0))


def test_r29_cold_warm_and_reserved_are_three_numbers() -> None:
    samples = measured(Allocator())
    assert samples.memory_cold == {"allocated_peak_mib": 4096.0, "reserved_peak_mib": 4096.0}
    assert samples.memory_warm == {"allocated_peak_mib": 411.0, "reserved_peak_mib": 4096.0}
    # Naive: one peak of the whole process. Second in one process, the same case "saves 90 % of the memory".
    second = measured(Allocator(tuned=True))
    assert second.memory_cold["allocated_peak_mib"] == 411.0 != 4096.0
    assert second.memory_warm["allocated_peak_mib"] == samples.memory_warm["allocated_peak_mib"]
    found = in_a_child(sim_case(f"sim:gpu:step_ms=5:{QUIET}:mem_mib=80"))["memory"]
    assert found == {"sim_allocated_peak_cold_mib": 100.0, "sim_allocated_peak_mib": 80.0}
    assert pytest.approx(4295, abs=1) == 4096 * 2**20 / 1e6  # MiB are no MB: hence the unit in the name


def test_r29_device_and_host_memory_have_names_of_their_own(nvml: Any, plant: Any) -> None:
    nvml.used_mib = 5000.0
    root = plant({"proc/self/status": "VmHWM:\t 204800 kB\n", "proc/self/clear_refs": ""})
    board = open_board(0, nvml=nvml, environ={})
    probe = MemoryProbe(board=board, baseline_mib=1000.0, root=root, pid=1)
    probe.start()
    seen = probe.stop()
    assert seen["device_used_mib"] == 5000.0  # naive: all of it is ours
    assert seen["device_used_delta_mib"] == 4000.0 and seen["host_rss_peak_mib"] == 200.0
    assert all(key.endswith("_mib") for key in seen if key != "nulls")


def test_r30_an_allocators_policy_is_set_before_anything_is_imported() -> None:
    """A setting made in a running process comes too late: the library has read it."""
    seat = open_seat("sim", {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
    try:
        place = Path(f"/proc/{seat.process.pid}/environ")
        while not (environment := place.read_bytes().split(b"\0")) or environment == [b""]:
            time.sleep(0.01)  # empty for a moment, while the kernel lays out the new program
    finally:
        close_seat(seat)
    # The kernel keeps what a program was started with: what is set later in it does not show there.
    assert b"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in environment
    plain, tuned = sim_case("sim:gpu"), sim_case("sim:gpu", env=(("A", "b"),))
    assert plain.tuning_id != tuned.tuning_id  # part of the tuning, so of the case


WATCHED = """
import os, sys

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == {package!r}:
            print("at import:", os.environ.get({variable!r}))

sys.meta_path.insert(0, Watch())
from breakeven.runtimes import load
reason = load({runtime!r}).availability().reason
print("reason:", reason)
print("at use:", os.environ.get({variable!r}))
"""


@pytest.mark.framework
@pytest.mark.slow
@pytest.mark.parametrize(
    ("runtime", "package", "variable", "value"),
    [
        # TensorFlow reads it when it is imported, JAX when it first asks for devices.
        ("tensorflow", "tensorflow", "TF_FORCE_GPU_ALLOW_GROWTH", "true"),
        ("jax", "jax", "XLA_PYTHON_CLIENT_PREALLOCATE", "false"),
    ],
)
def test_r30_frameworks_that_take_the_device_whole_are_told_not_to(
    runtime: str, package: str, variable: str, value: str
) -> None:
    environment = {key: text for key, text in os.environ.items() if key != variable}
    script = WATCHED.format(runtime=runtime, package=package, variable=variable)
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120
    )
    told = dict(line.split(": ") for line in done.stdout.splitlines() if ": " in line)
    assert told["reason"] == "None", done.stdout + done.stderr
    assert told["at use"] == value
    assert runtime == "jax" or told["at import"] == value


def test_r31_endings_are_told_apart() -> None:
    told = {
        "CUDA out of memory. Tried to allocate 2 GiB": "oom",
        "CUBLAS_STATUS_ALLOC_FAILED": "oom",
        "DefaultCPUAllocator: can't allocate memory": "oom",
        "mat1 and mat2 shapes cannot be multiplied": "error",
        "'addmm' not implemented for 'Half'": "unsupported",
    }
    assert {text: classify(RuntimeError(text))["outcome"] for text in told} == told
    assert classify(MemoryError())["outcome"] == "oom"


def test_r31_larger_batches_are_skipped_for_the_same_device_and_tuning_only() -> None:
    """A published tool skips by batch alone: what does not fit on the GPU is then not tried on the CPU."""
    failed = an_attempt(a_case(device="cuda:0", batch=64), outcome="oom")
    session: Any = SimpleNamespace(attempts=lambda: [failed])
    half = dataclasses.replace(failed.tuning, precision="bf16")
    told = {
        "same": a_case(device="cuda:0", batch=128),
        "smaller": a_case(device="cuda:0", batch=32),
        "cpu": a_case(batch=128),
        "other GPU": a_case(device="cuda:1", batch=128),
        "other precision": a_case(device="cuda:0", batch=128, tuning=half),
        "other model": a_case("resnet50", "cuda:0", batch=128),
    }
    found = {name: _settled_elsewhere(session, case) for name, case in told.items()}
    assert found.pop("same") == ("oom", "not tried: limit found at 64, a batch that ran out of memory")
    assert set(found.values()) == {None}


def test_r31_memory_that_the_device_did_not_give_is_pointed_out() -> None:
    """A driver that lends the host's memory fails nothing: the steps cross the bus and the batch "fits"."""
    gpu = a_case(device="cuda:0")

    def flags(**memory: float) -> tuple[str, ...]:
        return understood([sampled(gpu, i, 50.0, memory=memory) for i in range(3)]).cases[0].flags

    held = "torch_allocated_peak_mib"
    assert "spilled" in flags(**{held: 12_000.0, "device_used_delta_mib": 7_900.0})
    assert "spilled" not in flags(**{held: 7_500.0, "device_used_delta_mib": 7_900.0})  # with its context
    assert "spilled" not in flags(**{held: 12_000.0})  # the device's use could not be read: nothing is told
    told = understood([sampled(gpu, 0, 1.0, memory={held: 900.0, "device_used_delta_mib": 100.0})]).quality
    assert [q.cases for q in told if q.flag == "spilled"] == [1]


@pytest.mark.slow
def test_r31_out_of_memory_is_a_result_and_skips_no_other_device(tmp_path: Path) -> None:
    """Real children; a study that ended at the first failure, or skipped by batch alone, would lose six."""
    text = """
name: t
model: simple-cnn
device: ["sim:gpu:oom_batch=64", "sim:gpu:fault=kill", "sim:gpu:fault=error", "sim:cpu"]
batch: [32, 64, 128]
attempt_time: 1
replicates: 1
max_replicates: 1
"""
    assert api.measure(read_study(text, "t.yaml"), tmp_path).stopped is None
    got = {(a.device.label, a.work.batch): a for a in file.read(tmp_path).attempts}
    assert len(got) == 12
    by_device = {
        label: [got[label, batch].outcome for batch in (32, 64, 128)] for label in {k for k, _ in got}
    }
    assert sorted(map(tuple, by_device.values())) == [
        ("error", "error", "error"), ("killed", "killed", "killed"), ("ok", "ok", "ok"), ("ok", "oom", "oom")
    ]  # fmt: skip
    assert by_device["sim:cpu"] == ["ok", "ok", "ok"]
    assert all(a.reason for a in got.values() if a.outcome != "ok")
