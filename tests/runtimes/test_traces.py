"""Traces: names of machine and user left out, kernels summed, gaps told by length, overlap counted once."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakeven.records.profile import Gaps, Kernel, Operator
from breakeven.runtimes import traces


def ran(name: str, start_us: float, us: float, category: str = "kernel", stream: int = 7) -> dict[str, Any]:
    return {"ph": "X", "cat": category, "name": name, "ts": start_us, "dur": us, "tid": stream}


PLANTED = [
    ran("conv", 0, 100),
    ran("copy", 50, 100, "gpu_memcpy", stream=8),  # on another stream, half beside the first
    ran("conv", 155, 45),  # 5 us later
    ran("add", 2_200, 300),  # 2 ms later
    ran("aten::conv2d", 0, 5_000, "cpu_op"),
    {"ph": "M", "name": "process_name", "args": {"name": "python"}},
]


def test_what_ran_on_the_device_is_summed_by_name() -> None:
    on_device = traces.on_device({"traceEvents": PLANTED}, {"kernel", "gpu_memcpy"})
    assert len(on_device) == 4
    assert traces.kernels(on_device) == (
        Kernel(name="add", calls=1, device_ns=300_000),
        Kernel(name="conv", calls=2, device_ns=145_000),
        Kernel(name="copy", calls=1, device_ns=100_000),
    )


def test_time_beside_another_kernel_is_no_gap() -> None:
    on_device = traces.on_device({"traceEvents": PLANTED}, {"kernel", "gpu_memcpy"})
    span, busy, gaps = traces.span_busy_gaps(on_device)
    assert (span, busy) == (2_500_000, 495_000)
    assert gaps == (
        Gaps(from_ns=1_000, to_ns=10_000, count=1, ns=5_000),
        Gaps(from_ns=1_000_000, to_ns=None, count=1, ns=2_000_000),
    )
    assert traces.span_busy_gaps([]) == (None, None, ())


@given(
    st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e5)), min_size=1, max_size=40),
)
def test_busy_time_and_gaps_add_up_to_the_span(stretches: list[tuple[float, float]]) -> None:
    span, busy, gaps = traces.span_busy_gaps([ran("k", start, us) for start, us in stretches])
    assert span is not None and busy is not None
    assert busy + sum(gap.ns for gap in gaps) == span
    assert busy <= sum(round(1000 * us) for _, us in stretches) + 2 * len(stretches)


def test_a_trace_says_neither_where_nor_by_whom_it_was_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "trace.json.gz"
    found = {"host_name": "secret", "traceName": "/home/me/trace.json", "traceEvents": PLANTED}
    traces.write(path, found)
    text = gzip.decompress(path.read_bytes()).decode()
    assert "secret" not in text and "/home" not in text
    assert traces.read(path) == {"traceEvents": PLANTED}
    first = path.read_bytes()
    traces.write(path, found)
    assert path.read_bytes() == first  # equal traces are equal files


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"events": []}))
    with pytest.raises(ValueError, match="no traceEvents"):
        traces.read(path)


Forest = list[tuple[int, int, int, "Forest"]]
"""Nested stretches: (gap before, own time before what it holds, own time after, what it holds)."""

LENGTHS = st.integers(1, 10**6)
FORESTS: st.SearchStrategy[Forest] = st.recursive(
    st.just([]),
    lambda inner: st.lists(st.tuples(LENGTHS, LENGTHS, LENGTHS, inner), max_size=4),
    max_leaves=30,
)


def laid_out(forest: Forest, at: int = 0) -> tuple[list[tuple[traces.Stretch, int]], int, int]:
    """((stretch, its own time) of all, gaps included in none), the end, and the time of the roots."""
    made: list[tuple[traces.Stretch, int]] = []
    roots = 0
    for gap, before, after, inner in forest:
        start = at + gap
        within, end, covered = laid_out(inner, start + before)
        stretch = start, end + after
        made += [(stretch, stretch[1] - start - covered), *within]
        at, roots = stretch[1], roots + stretch[1] - start
    return made, at, roots


@given(FORESTS, st.randoms(use_true_random=False))
def test_own_times_of_nested_stretches_are_those_planted_and_sum_to_the_roots(
    forest: Forest, luck: Any
) -> None:
    planted, _, roots = laid_out(forest)
    luck.shuffle(planted)
    stretches = [stretch for stretch, _ in planted]
    assert traces.own_ns(stretches) == [own for _, own in planted]
    assert sum(traces.own_ns(stretches)) == roots == traces.covered_ns(stretches)


def test_stretches_side_by_side_are_covered_once_and_counted() -> None:
    stretches = [(0, 10), (5, 20), (20, 30), (40, 41)]
    assert traces.covered_ns(stretches) == 31
    assert traces.most_at_once(stretches) == 2  # one that ends as another begins is not beside it
    assert (traces.covered_ns([]), traces.most_at_once([]), traces.own_ns([])) == (0, 0, [])


def test_rows_beyond_those_kept_are_summed() -> None:
    rows = [Operator(name=f"op{i}", calls=1, self_host_ns=i) for i in range(traces.MOST_ROWS + 3)]
    first, left_out = traces.kept(rows)
    assert len(first) == traces.MOST_ROWS and first[0].self_host_ns == traces.MOST_ROWS + 2
    assert left_out == {"rows": 3, "self_host_ns": 0 + 1 + 2, "self_device_ns": 0}
    assert traces.kept(rows[:5])[1] == {}
