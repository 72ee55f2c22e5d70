"""--profile: after the timed attempts, once a case, in a process of its own; a line that names its trace."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from breakeven import api
from breakeven.errors import UserError
from breakeven.records import file
from breakeven.records.lines import Attempt, ProfileLine
from breakeven.report import build, text
from breakeven.runner import profiling
from breakeven.runner.study import Study, load_study, read_study
from breakeven.runtimes import traces


def study(**keys: Any) -> Study:
    listed = {"model": ["simple-cnn"], "device": ["sim:gpu"], "replicates": 1, "max_replicates": 1,
              "attempt_time": 1.0, "profile": True}  # fmt: skip
    return read_study("\n".join(["name: t", *(f"{k}: {v!r}" for k, v in (listed | keys).items())]), "t.yaml")


def test_a_runtime_without_a_profiler_says_so_once(tmp_path: Path) -> None:
    api.measure(study(device=["sim:gpu", "sim:cpu"]), tmp_path)
    lines = file.read(tmp_path).profiles
    assert [(line.outcome, line.reason) for line in lines] == 2 * [
        ("unsupported", "this runtime has no profiler")
    ]
    api.measure(study(device=["sim:gpu", "sim:cpu"]), tmp_path)
    assert len(file.read(tmp_path).profiles) == 2
    assert not (tmp_path / profiling.FOLDER).exists() or not list((tmp_path / profiling.FOLDER).iterdir())


def test_a_case_that_did_not_run_has_no_profile(tmp_path: Path) -> None:
    api.measure(study(device=["sim:gpu:fault=oom"]), tmp_path)
    results = file.read(tmp_path)
    assert {a.outcome for a in results.attempts} == {"oom"} and results.profiles == ()


def test_without_the_flag_there_is_none_and_it_comes_later(tmp_path: Path) -> None:
    api.measure(study(profile=False), tmp_path)
    assert file.read(tmp_path).profiles == ()
    summary = api.measure(study(), tmp_path)
    results = file.read(tmp_path)
    assert summary.attempts == 0 and len(results.profiles) == 1
    assert isinstance(results.lines[-1], ProfileLine)


def test_the_flag_is_a_key_of_the_study() -> None:
    assert load_study(["simple-cnn"], {"profile": True}).profile
    assert not load_study(["simple-cnn"]).profile
    with pytest.raises(UserError, match="true or false"):
        load_study(["simple-cnn"], {"set": ["profile=3"]})
    assert load_study(["bandwidth"]).bandwidth


@pytest.mark.framework
@pytest.mark.slow
@pytest.mark.parametrize(
    ("runtime", "profiler", "operator"),
    [
        ("torch", "torch.profiler", "aten::convolution_backward"),
        ("jax", "jax.profiler", "fusion"),
        ("tensorflow", "tf.profiler", "Conv2DBackpropFilter"),
    ],
)
def test_a_real_profile_with_its_trace_and_its_page(
    runtime: str, profiler: str, operator: str, tmp_path: Path
) -> None:
    pytest.importorskip(runtime)
    asked = study(
        device=["cpu"], runtime=runtime, batch=8, attempt_time=0.3, tuning="on-device", max_time=200.0
    )
    api.measure(asked, tmp_path)
    results = file.read(tmp_path)
    (line,) = results.profiles
    last = max(i for i, one in enumerate(results.lines) if isinstance(one, Attempt))
    assert results.lines.index(line) > last  # after all that is timed
    assert (line.outcome, line.case_id) == ("ok", results.attempts[0].case_id)
    assert line.parent_id != results.attempts[0].parent_id
    assert line.trace is not None
    trace = tmp_path / line.trace["file"]
    assert hashlib.sha256(trace.read_bytes()).hexdigest() == line.trace["sha256"]
    assert line.trace["sha256"][:8] in trace.name and list(trace.parent.iterdir()) == [trace]
    assert len(traces.read(trace)["traceEvents"]) == line.trace["events"]
    assert line.observed["profiler"] == profiler and line.observed["threads"] >= 1
    shown = text(build(api.understand([results])), width=80)
    assert operator in shown and "overhead" in shown and trace.name[:12] in shown
    assert max(map(len, shown.splitlines())) <= 80
    api.measure(asked, tmp_path)
    assert len(file.read(tmp_path).profiles) == 1
