"""torch's profiler on real steps of this CPU: what is counted, what is None, a trace that opens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from breakeven.runtimes import Prepared, load, traces
from breakeven.timing import Profiled, profile_steps
from breakeven.workloads import costs, models
from runtimes.torch_cases import calls, case, cuda

from .profile_cases import trains_on

pytestmark = pytest.mark.framework


def profiled(prepared: Prepared, folder: Path, *, epochs: bool = True) -> Profiled:
    try:
        return profile_steps(prepared, folder / "t.json.gz", budget_s=0.1, epochs=epochs)
    finally:
        prepared.close()


def test_operators_kernels_and_trace_of_training_on_a_cpu(tmp_path: Path) -> None:
    made = profiled(load("torch").prepare(case(batch=8, residency="device")), tmp_path)
    found, n = made.found, made.n_steps
    by_name = {op.name: [o for o in found.operators if o.name == op.name] for op in found.operators}
    assert sum(op.calls for op in by_name["aten::convolution_backward"]) == 3 * n
    assert {op.kind for op in by_name["aten::conv2d"]} == {"operator"}
    assert {op.kind for op in by_name["Optimizer.step#Adam.step"]} == {"annotation"}
    assert not any(op.name.startswith("breakeven") for op in found.operators)
    # Own times are of one thread and exclude each other: they fit into the steps' wall time.
    own = sum(op.self_host_ns or 0 for op in found.operators)
    assert 0.3 * made.ns < own <= 1.02 * made.ns
    assert all((op.total_host_ns or 0) >= (op.self_host_ns or 0) for op in found.operators)
    # A CPU launches nothing: None, never 0.
    assert {op.self_device_ns for op in found.operators} == {None}
    assert (found.kernels, found.gaps, found.device_span_ns) == ((), (), None)
    assert set(found.nulls) == {"device_span_ns", "device_busy_ns"}
    assert found.observed["activities"] == ["CPU"]


def test_flops_of_the_convolutions_are_those_of_the_layers(tmp_path: Path) -> None:
    made = profiled(load("torch").prepare(calls(batch=4)), tmp_path, epochs=False)
    net = models.model("simple-cnn", num_classes=10, input_shape=(3, 32, 32))
    counted = sum(op.flops or 0 for op in made.found.operators if op.name in ("aten::conv2d", "aten::addmm"))
    declared = 4 * costs.forward_flops(net)
    assert counted / made.n_steps == pytest.approx(declared, rel=0.01)  # activations and pooling besides
    shapes = {op.shapes for op in made.found.operators if op.name == "aten::conv2d"}
    assert (4, 3, 32, 32) in {shape[0] for shape in shapes if shape}


def test_the_trace_opens_and_holds_every_step(tmp_path: Path) -> None:
    made = profiled(load("torch").prepare(case(batch=8, workers=0)), tmp_path)
    trace = traces.read(tmp_path / "t.json.gz")
    steps = [e for e in trace["traceEvents"] if e.get("name") == "breakeven::step" and e.get("ph") == "X"]
    assert len(steps) == made.n_steps
    assert len(trace["traceEvents"]) == made.found.events > 100
    assert "host_name" not in trace and "traceName" not in trace
    # As written the loader works in this process: its time has a row of its own.
    assert any("DataLoader" in op.name for op in made.found.operators)


def test_profiled_steps_are_steps_as_any_other(tmp_path: Path) -> None:
    trains_on(
        lambda: load("torch").prepare(case(batch=8, residency="device", threads=1)), tmp_path, built=False
    )


@pytest.mark.gpu
@pytest.mark.parametrize("execution", ["eager", "cuda-graph"])
def test_kernels_and_gaps_of_a_gpu(tmp_path: Path, execution: str) -> None:
    driven: dict[str, Any] = (
        {"loss_sync": "epoch", "optimizer_impl": "fused"} if execution == "cuda-graph" else {}
    )
    asked = case(batch=64, residency="device", device=cuda(), execution=execution, **driven)
    prepared = load("torch").prepare(asked)
    if prepared.build is not None:
        prepared.build()
    made = profiled(prepared, tmp_path)
    found = made.found
    assert found.device_span_ns is not None and found.device_busy_ns is not None
    assert 0 < found.device_busy_ns <= found.device_span_ns <= made.ns * 1.1
    assert found.device_busy_ns + sum(gap.ns for gap in found.gaps) == found.device_span_ns
    assert sum(kernel.calls for kernel in found.kernels) >= 10 * made.n_steps
    assert not found.nulls and found.observed["activities"] == ["CPU", "CUDA"]
    # A captured step launches one graph: its kernels belong to no operator.
    launched = sum(op.self_device_ns or 0 for op in found.operators)
    assert launched > 0 if execution == "eager" else launched <= sum(k.device_ns for k in found.kernels)
    assert not any(op.name == kernel.name for op in found.operators for kernel in found.kernels)
