"""The contract's rules that only a GPU can show. Under four minutes on an H200; no network.

What was found goes to the file that BREAKEVEN_CONTRACT_OUT names, one JSON object a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from breakeven import api
from breakeven.catalog.peaks import gpu_peak
from breakeven.records import file
from breakeven.records.lines import Attempt, steady_step_ns
from breakeven.runner.study import read_study
from breakeven.timing.probes.nvml import Board, decode, load_nvml, open_board, throttle_mask
from runtimes.torch_cases import environment

pytestmark = [pytest.mark.gpu, pytest.mark.framework, pytest.mark.slow]

STUDY = """
name: contract
model: resnet18
device: cuda:0
data: synthetic
batch: 128
tuning: [no-sync]
replicates: 1
max_replicates: 1
"""


def found(rule: str, **facts: Any) -> None:
    """Notes what was seen. Printed too: `pytest -s`."""
    line = json.dumps({"rule": rule, **facts}, sort_keys=True, default=str)
    print(line)
    out = os.environ.get("BREAKEVEN_CONTRACT_OUT")
    if out:
        with open(out, "a", encoding="utf-8") as stream:
            stream.write(line + "\n")


def on_the_gpu(script: str, timeout_s: float = 120.0) -> Any:
    """What a script prints as JSON in its last line. A process of its own: this one must not open the GPU."""
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=timeout_s
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def attempted(folder: Path, seconds: float) -> Attempt:
    """One sampled attempt on the GPU, by the runner, in a fresh process."""
    summary = api.measure(read_study(f"{STUDY}attempt_time: {seconds}\n", "contract.yaml"), folder)
    assert summary.stopped is None
    (line,) = file.read(folder).attempts
    assert line.outcome == "ok", line.reason
    return line


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attempt]:
    """An attempt with the GPU to itself, long enough for a power sensor that averages over a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BREAKEVEN_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield attempted(tmp_path_factory.mktemp("alone"), 8.0)


def test_r22_gpu_the_bit_probe_follows_the_tf32_switch() -> None:
    script = """
import json
import torch
from breakeven.runtimes.torch import precision
device = torch.device("cuda", 0)
layers = {"matmul": (torch.nn.Linear(512, 512), (128, 512)), "conv": (torch.nn.Conv2d(64, 64, 3, padding=1), (128, 64, 16, 16))}
def probe(asked):
    return {k: precision.probe(layer, shape, precision=asked, device=device) for k, (layer, shape) in layers.items()}
seen = {"default": probe("default")}
for asked in ("tf32", "fp32", "tf32", "bf16"):
    precision.set_precision(asked)
    seen[asked] = probe(asked)
print(json.dumps({"seen": seen, "torch": torch.__version__, "device": torch.cuda.get_device_name(0)}))
"""  # noqa: E501
    result = on_the_gpu(script)
    found("R22", **result)
    names = {asked: {p["precision"] for p in probes.values()} for asked, probes in result["seen"].items()}
    assert names["fp32"] == {"fp32"} and names["tf32"] == {"tf32"} and names["bf16"] == {"bf16"}
    # "FP32" is no label: what torch does when nothing is set differs between the two operations.
    assert result["seen"]["default"]["conv"]["precision"] in ("tf32", "fp32")


def test_r02_gpu_device_events_and_host_clock_agree(alone: Attempt) -> None:
    timers = alone.observed["timers"]
    found("R2", **timers, step_ns=steady_step_ns(alone))
    assert 0 < timers["device_ns"] <= 1.01 * timers["host_ns"] + 50_000
    script = """
import json, time
import torch
from breakeven.errors import Mismatch
from breakeven.runtimes.torch import place
from breakeven.timing.clocks import both_timers
device = torch.device("cuda", 0)
a = torch.randn(8192, 8192, device=device)
work = lambda: [a @ a for _ in range(20)]
span, sync = place.span_of(device), place.sync_of(device)
work(); sync()
host_ns, device_ns = both_timers(time.perf_counter_ns, sync, span, work)
try:
    both_timers(time.perf_counter_ns, lambda: None, span, work)
    refused = None
except Mismatch as error:
    refused = str(error)
print(json.dumps({"host_ns": host_ns, "device_ns": device_ns, "refused": refused}))
"""
    result = on_the_gpu(script)
    found("R2", **result)
    assert result["device_ns"] == pytest.approx(result["host_ns"], rel=0.05)
    assert result["refused"] and "timers disagree" in result["refused"]  # without a synchronisation


def test_r03_gpu_latency_is_not_one_over_throughput() -> None:
    script = """
import json
from statistics import median
from breakeven.runtimes import load
from breakeven.timing import Plan, sample_calls, sample_inference
from runtimes.torch_cases import case, cuda
tuning = {"residency": "device", "loss_sync": "epoch"}
asked = case("simple-cnn", data_set="synthetic", batch=128, device=cuda(), **tuning)
prepared = load("torch").prepare(asked)
stream = sample_inference(prepared, Plan(budget_s=4.0))
calls = sample_calls(prepared, budget_s=4.0, calls=1000)
steady = [b.ns / b.n_steps for b in stream.blocks if not (b.warmup or b.boundary)]
print(json.dumps({"stream_ns": median(steady), "latency_ns": median(calls.ns), "calls": len(calls.ns),
                  "flags": [*stream.flags, *calls.flags]}))
"""
    result = on_the_gpu(script)
    found("R3", **result)
    assert result["latency_ns"] > 0.95 * result["stream_ns"] and result["calls"] <= 1000


def test_r09_gpu_the_rate_stays_below_the_peak(alone: Attempt) -> None:
    from breakeven.analysis.ceilings import flops_of

    ns, flops = steady_step_ns(alone), flops_of(alone.work)
    assert ns is not None and flops is not None
    rate, board = flops / ns / 1e3, gpu_peak(alone.observed["device_name"])
    peak = max(board.rates.values()) if board else None
    found("R9", tflop_per_s=rate, peak=peak)
    assert peak is None or 0 < rate < peak


def test_r18_gpu_throttle_bits_are_read_and_an_idle_gpu_is_not_throttled(alone: Attempt) -> None:
    clocks: Mapping[str, Any] = alone.clocks or {}
    found("R18", throttle=clocks.get("throttle"), benign=clocks.get("benign"), sm_mhz=clocks.get("sm_mhz"))
    assert clocks["throttle"] is not None or alone.nulls["clocks.throttle"]
    board = open_board(0, nvml=load_nvml())
    assert isinstance(board, Board)
    time.sleep(3.0)
    mask = throttle_mask(board)
    found("R18", idle_mask=mask)
    assert isinstance(mask, int)
    assert decode(mask)[0] == ()  # bool(mask) is true where the idle bit is set


def test_r29_gpu_cold_is_at_least_warm_and_reserved_at_least_allocated(alone: Attempt) -> None:
    memory = alone.memory
    found("R29", **memory)
    cold, warm = memory["torch_allocated_peak_cold_mib"], memory["torch_allocated_peak_mib"]
    assert cold >= warm > 0
    assert memory["torch_reserved_peak_mib"] >= warm
    assert memory["torch_reserved_peak_cold_mib"] >= cold
    if "device_used_delta_mib" in memory:
        # The context comes on top of what the allocator holds.
        assert memory["device_used_delta_mib"] >= 0.9 * memory["torch_reserved_peak_mib"]
    else:
        assert alone.nulls["memory.device_used_delta_mib"]


def test_r32_gpu_the_counter_and_the_integral_agree_over_the_window(alone: Attempt) -> None:
    energy: Mapping[str, Any] = alone.energy or {}
    nulls = {key: why for key, why in alone.nulls.items() if key.startswith("energy")}
    found("R32", energy=dict(energy), nulls=nulls, flags=alone.flags)
    if energy["gross_j"] is None:
        assert alone.nulls["energy.gross_j"]
        pytest.skip(f"no energy here: {alone.nulls['energy.gross_j']}")
    assert energy["window_ns"] >= 20 * 1e6 * energy["counter_period_ms"]
    assert 20 < energy["gross_j"] / (energy["window_ns"] / 1e9) < 1500  # watts of one board
    if energy["integral_j"] is None:
        assert alone.nulls["energy.integral_j"]
    else:
        assert abs(energy["gap_share"]) <= 0.20 or "energy_disagrees" in alone.flags


HOG = """
import sys, torch
a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
print("ready", flush=True)
while True:
    for _ in range(50):
        a @ a
    torch.cuda.synchronize()
"""


@pytest.fixture
def hog() -> Iterator[None]:
    """Another process that multiplies matrices on the GPU all the time."""
    process = subprocess.Popen([sys.executable, "-c", HOG], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline().strip() == "ready"
        time.sleep(2.0)  # NVML averages utilisation over up to a second
        yield
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_r17_gpu_a_second_process_is_seen_and_its_energy_not_booked_on_us(
    alone: Attempt, hog: None, tmp_path: Path
) -> None:
    line = attempted(tmp_path, 4.0)
    here, there = steady_step_ns(line), steady_step_ns(alone)
    assert here is not None and there is not None
    found(
        "R17", alone_ns=there, shared_ns=here, contention=dict(line.contention or {}), flags=line.flags,
        energy_null=line.nulls.get("energy.gross_j"),
    )  # fmt: skip
    assert "contended" in line.flags  # the naive number is `here`, without a word
    assert line.energy is not None and line.energy["gross_j"] is None


def test_r18_gpu_first_and_last_clock_are_kept(alone: Attempt) -> None:
    spread = (alone.clocks or {}).get("sm_mhz")
    steady = [b.ns / b.n_steps for b in alone.blocks if not (b.warmup or b.boundary)]
    half = len(steady) // 2
    early, late = median(steady[:half]), median(steady[half:])
    found("R18", sm_mhz=spread, early_ns=early, late_ns=late)
    assert spread is None or spread["min"] <= spread["last"] <= spread["max"]
    assert len(steady) >= 8


def test_r08_gpu_parts_add_up_and_copies_and_launches_show() -> None:
    """The parts of real steps: as written, from page-locked memory, and on the device."""
    script = """
import json
from breakeven.records.canonical import to_json
from breakeven.runtimes import load
from breakeven.timing import Parts, Plan, sample_training
from runtimes.torch_cases import case, cuda
tunings = {"as-written": {}, "pinned": {"workers": 2, "pinned": True}, "no-sync": {"residency": "device", "loss_sync": "epoch"}}
seen = {}
for name, tuning in tunings.items():
    prepared = load("torch").prepare(case("resnet18", data_set="synthetic", batch=128, device=cuda(), **tuning))
    samples = sample_training(prepared, Plan(budget_s=6.0))
    assert isinstance(samples.parts, Parts), samples.parts
    seen[name] = to_json(samples.parts) | {"flags": list(samples.flags)}
    prepared.close()
print(json.dumps(seen))
"""  # noqa: E501
    seen = on_the_gpu(script)
    found("R8", **seen)
    for name, parts in seen.items():
        exposed, busy, enqueue = parts["exposed_ms"], parts["busy_ms"], parts["enqueue_ms"]
        assert sum(exposed.values()) == pytest.approx(parts["step_ms"])
        assert all(enqueue[part] <= busy[part] for part in ("forward", "backward", "optimizer")), name
        assert ("copy" in busy) == (name != "no-sync") and ("cut" in busy) == (name == "no-sync")
    # A copy from page-locked memory is enqueued: the host is back before it is done.
    pinned = seen["pinned"]
    assert pinned["enqueue_ms"]["copy"] < pinned["busy_ms"]["copy"]
    # As written the loss is read in every step, so that the host waits there and not at the block's end.
    assert seen["as-written"]["exposed_ms"]["sync"] < 0.05 * seen["as-written"]["step_ms"]
    assert seen["no-sync"]["exposed_ms"]["loss_read"] < 0.5 * seen["no-sync"]["step_ms"]
