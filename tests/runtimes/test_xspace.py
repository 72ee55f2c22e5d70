"""XSpace events, planted: which are operators, what XLA's threads took over, kernels of a GPU, the trace."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from breakeven.records.profile import Kernel, Operator
from breakeven.runtimes import traces, xspace

HOST, GPU = "/host:CPU", "/device:GPU:0"


def seen(name: str, start_ns: int, ns: int, number: int = 0, plane: str = HOST, **stats: Any) -> xspace.Event:
    line = f"Stream #{number}(Compute)" if plane == GPU else f"thread/{number}"
    return xspace.Event(
        plane=plane, line=line, number=number, name=name, start_ns=start_ns, end_ns=start_ns + ns, stats=stats
    )


def thunk(name: str, start_ns: int, ns: int, number: int = 0, producer: int = 1) -> xspace.Event:
    return seen(name, start_ns, ns, number, hlo_op=name, _p=producer)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gradients/conv_1/Conv2DBackpropFilter:Conv2DBackpropFilter", "Conv2DBackpropFilter"),
        ("cond/then/_0/ReverseV2:ReverseV2", "ReverseV2"),
        ("functional_1/Relu:_MklNativeFusedConv2D", "_MklNativeFusedConv2D"),
        ("EagerLocalExecute: MatMul", "MatMul"),
        ("EagerLocalExecute: __inference_step_587", None),
        ("__inference_step_587:__inference_step_587", None),
        ("Iterator::Root::MapAndBatch", None),
        ("ThunkExecutor::Execute (wait for completion)", None),
        ("PjitFunction(jit(step))", None),
        ("breakeven::step", None),
    ],
)
def test_what_is_an_operator(name: str, kind: str | None) -> None:
    assert xspace.operator(seen(name, 0, 1)) == kind


def test_a_thunk_lasts_until_it_is_done_wherever_that_is_told() -> None:
    """A convolution that is handed to a pool: its own thread goes on after 10 ns, it is done after 90."""
    events = [
        thunk("convolution.12", 100, 10, producer=7),
        thunk("convolution.12", 1_000, 30, producer=8),  # never told: until its thread went on
        seen("end: convolution.12", 190, 1, number=3, _c=7),
        thunk("add_fusion.3", 120, 20, number=1, producer=9),
        seen("end: add_fusion.3", 138, 1, number=1, _c=9),
    ]
    rows = xspace.rows(xspace.runs(events), events, on_device=False)
    assert rows == [
        Operator(name="convolution", calls=2, self_host_ns=120, total_host_ns=120),
        Operator(name="add_fusion", calls=1, self_host_ns=18, total_host_ns=18),
    ]


def test_what_holds_others_on_its_thread_has_the_rest_for_its_own() -> None:
    events = [
        seen("while:While", 0, 100),
        seen("a:MatMul", 10, 30),
        seen("b:MatMul", 50, 20),
        seen("c:Relu", 0, 100, number=1),  # on another thread
    ]
    rows = {row.name: row for row in xspace.rows(xspace.runs(events), events, on_device=False)}
    assert (rows["While"].self_host_ns, rows["While"].total_host_ns) == (50, 100)
    assert (rows["MatMul"].calls, rows["MatMul"].self_host_ns) == (2, 50)
    assert rows["Relu"].self_host_ns == 100
    assert {row.self_device_ns for row in rows.values()} == {None}


PLANTED = [
    seen("breakeven::step", 0, 9_000_000),
    seen("EagerLocalExecute: Conv2D", 1_000, 5_000),
    seen("sm80_xmma_fprop", 10_000, 40_000, 13, GPU, tf_op="model/conv:Conv2D", correlation_id=1),
    seen("sm80_xmma_fprop", 60_000, 40_000, 13, GPU, tf_op="model/conv:Conv2D", correlation_id=2),
    seen("loop_add_fusion_3", 100_500, 500, 13, GPU, hlo_op="loop_add_fusion.3", hlo_module="jit_f"),
    seen("MemcpyH2D", 0, 20_000, 14, GPU),
    dataclasses.replace(seen("all of it", 0, 9_000_000, 20, GPU), line="XLA Modules"),
]


def test_a_gpus_kernels_are_told_by_stream_and_their_operators_by_annotation(tmp_path: Path) -> None:
    found = xspace.profile(PLANTED, tmp_path / "t.json.gz", profiler="planted", on_device=True)
    assert found.operators == (
        Operator(name="Conv2D", calls=1, self_host_ns=5_000, total_host_ns=5_000,
                 self_device_ns=80_000, total_device_ns=80_000),
        Operator(name="loop_add_fusion", calls=1, self_device_ns=500, total_device_ns=500),
    )  # fmt: skip
    assert found.kernels == (
        Kernel(name="sm80_xmma_fprop", calls=2, device_ns=80_000),
        Kernel(name="MemcpyH2D", calls=1, device_ns=20_000),
        Kernel(name="loop_add_fusion_3", calls=1, device_ns=500),
    )
    assert (found.device_span_ns, found.device_busy_ns) == (101_000, 90_500)
    assert [(gap.from_ns, gap.count, gap.ns) for gap in found.gaps] == [(0, 1, 500), (10_000, 1, 10_000)]
    assert set(found.nulls) == {"shapes", "flops", "self_host_mib", "self_device_mib"}


def test_the_trace_names_threads_and_shows_what_pools_took(tmp_path: Path) -> None:
    events = [
        thunk("convolution.12", 5_100, 10, producer=7),
        seen("end: convolution.12", 5_190, 1, number=3, _c=7),
        seen("ThreadpoolListener::Record", 5_101, 0, _p=1),
        seen("ThreadpoolListener::StartRegion", 5_105, 0, number=3, _c=1),
        seen("ThreadpoolListener::StopRegion", 5_185, 0, number=3),
    ]
    path = tmp_path / "t.json.gz"
    found = xspace.profile(events, path, profiler="planted", on_device=False)
    made = traces.read(path)["traceEvents"]
    assert found.events == len(made)
    assert [e["args"]["name"] for e in made if e["ph"] == "M"] == [HOST, "thread/0", "thread/3"]
    work = [(e["name"], e["cat"], e["tid"], e["ts"], e["dur"]) for e in made if e["ph"] == "X"]
    assert work == [("convolution.12", "operator", 0, 0.0, 0.01), ("pool", "pool", 3, 0.005, 0.08)]
    assert [(e["ph"], e["ts"]) for e in made if e["ph"] in "be"] == [("b", 0.0), ("e", 0.09)]
    assert made[3]["args"] == {"hlo_op": "convolution.12"}
    assert (found.host_busy_ns, found.observed["at_once"], found.observed["unended"]) == (90, 1, 0)
    assert found.nulls["device_span_ns"] == traces.NOTHING_LAUNCHED
