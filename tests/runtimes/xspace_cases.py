"""What profiles of JAX and TensorFlow must hold alike. Imports no framework."""

from __future__ import annotations

from pathlib import Path

from breakeven.runtimes import Prepared, traces
from breakeven.timing import Profiled, profile_steps


def profiled(prepared: Prepared, folder: Path, *, epochs: bool = True) -> Profiled:
    try:
        if prepared.build is not None:
            prepared.build()
        made = profile_steps(prepared, folder / "t.json.gz", budget_s=0.1, epochs=epochs)
    finally:
        prepared.close()
    is_sound(made, folder / "t.json.gz")
    return made


def is_sound(made: Profiled, trace: Path) -> None:
    """A CPU's profile in itself and beside its trace: times fit into the steps, names and steps are there."""
    found = made.found
    assert found.operators and {op.kind for op in found.operators} == {"operator"}
    assert all(0 <= (op.self_host_ns or 0) <= (op.total_host_ns or 0) for op in found.operators)
    own = sum(op.self_host_ns or 0 for op in found.operators)
    assert found.host_busy_ns is not None
    assert 0 < found.host_busy_ns <= own <= made.ns * found.observed["at_once"]
    assert found.host_busy_ns <= made.ns
    # A CPU launches nothing: None, never 0; nor is anything else made up.
    assert (found.kernels, found.gaps, found.device_span_ns) == ((), (), None)
    for op in found.operators:
        assert (op.self_device_ns, op.shapes, op.flops, op.self_host_mib) == (None, None, None, None)
    assert set(found.nulls) >= {"device_span_ns", "device_busy_ns", "shapes", "flops", "self_host_mib"}
    assert found.observed["activities"] == ["CPU"]
    events = traces.read(trace)["traceEvents"]
    assert len(events) == found.events
    steps = [e for e in events if e["name"] == traces.STEP and e["ph"] == "X"]
    assert len(steps) == made.n_steps
    named = " ".join(str(e["name"]) for e in events if e.get("cat") == "operator")
    assert all(op.name in named for op in found.operators)
