"""Whole studies on simulated devices: planted ratios found, every way to die survived, nothing lost."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from breakeven import api
from breakeven.analysis import understand
from breakeven.cli import measuring
from breakeven.cli.listing import list_
from breakeven.errors import UsageError, UserError
from breakeven.records import file
from breakeven.records.lines import Attempt, Fingerprint
from breakeven.runner import run
from breakeven.runner.study import Study, read_study
from breakeven.stats import Verdict

# Options in the order of a label, so that the text is the label.
FAST, SLOW = "sim:gpu:noise=0.01:process=0.02:step_ms=2", "sim:cpu:noise=0.01:process=0.02:step_ms=10"


def study(*devices: str, **keys: Any) -> Study:
    listed = {"model": ["simple-cnn"], "device": list(devices), "attempt_time": 2.0, "max_replicates": 3}
    lines = [f"{key}: {value!r}" for key, value in (listed | keys).items()]
    return read_study("\n".join(["name: t", *lines]), "t.yaml")


def measured(folder: Path) -> tuple[Attempt, ...]:
    return file.read(folder).attempts


def test_a_planted_ratio_is_found_with_its_interval(tmp_path: Path) -> None:
    summary = api.measure(study(SLOW, FAST, replicates=5, max_replicates=5), tmp_path)
    assert (summary.stopped, summary.outcomes) == (None, {"ok": 10})
    found = api.understand([api.read(tmp_path)])
    assert found.simulated
    ratio = found.ratios[0].ratio
    assert ratio is not None
    assert ratio.low < 5.0 < ratio.high  # 10 ms against 2 ms, 2 % from process to process
    assert ratio.high / ratio.low < 1.2
    assert found.ratios[0].verdict == Verdict.FASTER


def test_a_ladder_of_planted_bounds_is_named_step_by_step(tmp_path: Path) -> None:
    """One device: starved as written, waiting for launches when fed, then at its own memory or arithmetic."""
    # Beyond any layer's need of memory, and launches of 2 ms for 13 layers that take 6 ms of arithmetic.
    gpu = "sim:gpu:channels_last=1:compile=1:gb_per_s=100000:gflops=1000:input_ms=90:launch_us=2000"
    ladder = ["as-written", "workers", "no-sync", "cuda-graph"]
    asked = study(gpu, tuning=ladder, attempt_time=20.0, data="cifar10", batch=128)
    summary = api.measure(asked, tmp_path)
    assert summary.stopped is None and set(summary.outcomes) == {"ok"}
    found = api.understand([api.read(tmp_path)])
    tunings = {case.case_id: case.tuning_name for case in found.cases}
    labels = {tunings[share.case_id]: share.label for share in found.shares}
    assert labels == {
        "as-written": "input", "workers": "launch", "no-sync": "launch", "cuda-graph": "compute"
    }  # fmt: skip
    assert {line.name for line in file.read(tmp_path).ceilings} == {"matmul_fp32", "copy"}
    (eager,) = (s for s in found.shares if tunings[s.case_id] == "no-sync")
    assert eager.launch_share is not None and eager.captured_id in tunings
    for line in measured(tmp_path):
        assert (line.phases is None) == ("phases" in line.nulls) == (line.tuning_name == "cuda-graph")


def test_replicates_come_from_fresh_parents_in_an_interleaved_order(tmp_path: Path) -> None:
    api.measure(study(SLOW, FAST), tmp_path)
    lines = measured(tmp_path)
    assert [line.replicate for line in lines] == [0, 0, 1, 1, 2, 2]
    for case_id in {line.case_id for line in lines}:
        assert len({line.parent_id for line in lines if line.case_id == case_id}) == 3
    assert [line.order_index for line in lines] == list(range(6))


def test_the_same_command_again_measures_nothing(tmp_path: Path) -> None:
    api.measure(study(SLOW, FAST), tmp_path)
    before = (tmp_path / file.NAME).read_bytes()
    summary = api.measure(study(SLOW, FAST), tmp_path)
    assert (summary.attempts, summary.reused) == (0, 6)
    assert (tmp_path / file.NAME).read_bytes() == before


def test_a_changed_study_reuses_equal_cases(tmp_path: Path) -> None:
    api.measure(study(FAST), tmp_path)
    summary = api.measure(study(FAST, SLOW), tmp_path)
    assert (summary.attempts, summary.reused) == (3, 3)
    assert len(file.read(tmp_path).studies) == 2


def test_another_version_of_the_tool_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api.measure(study(FAST), tmp_path)
    monkeypatch.setattr(run, "__version__", "9.9.9")
    api.measure(study(FAST), tmp_path)
    api.measure(study(FAST, SLOW), tmp_path)
    assert [line.tool_version for line in file.read(tmp_path).studies][1:] == ["9.9.9", "9.9.9"]


def test_a_case_ends_where_the_interval_that_is_shown_is_narrow(tmp_path: Path) -> None:
    """The rule looks at the widened interval: with the plain one a case may end and show more than asked."""
    noisy = [f"sim:gpu:noise=0.001:process=0.02:step_ms={ms}" for ms in (2, 3, 4, 5)]
    api.measure(study(*noisy, max_replicates=10, relative_ci=0.03), tmp_path)
    for case in understand([file.read(tmp_path)]).cases:
        assert case.step_s is not None
        assert case.processes == 10 or case.step_s.relative_half_width < 0.031
        assert ("not_converged" in case.flags) is ((case.step_s.high / case.step_s.low) ** 0.5 > 1.03)


def test_a_wide_interval_gets_more_processes(tmp_path: Path) -> None:
    noisy = "sim:gpu:noise=0.01:process=0.2:step_ms=2"
    api.measure(study(noisy, FAST, max_replicates=10, relative_ci=0.1), tmp_path)
    counts = {label: 0 for label in (noisy, FAST)}
    for line in measured(tmp_path):
        counts[line.device.label] += 1
    assert counts[FAST] >= 3
    assert max(counts.values()) == 10


@pytest.mark.parametrize(
    ("fault", "outcome", "words"),
    [
        ("kill", "killed", "SIGKILL"),
        ("error", "error", "simulated failure"),
        ("silent", "error", "exit status 0 without a result"),
        ("oom", "oom", "out of memory"),
        pytest.param("hang", "timeout", "no result within", marks=pytest.mark.slow),
        ("eat", "oom", "MemoryError"),
        ("garbage", "ok", None),
    ],
)
def test_a_fault_is_an_outcome_and_the_study_goes_on(
    tmp_path: Path, fault: str, outcome: str, words: str | None
) -> None:
    broken = f"sim:gpu:step_ms=2:fault={fault}:fault_step=5"
    summary = api.measure(study(broken, FAST, replicates=2, max_replicates=2, timeout=2.0), tmp_path)
    assert summary.stopped is None
    lines = measured(tmp_path)
    bad = [line for line in lines if "fault" in line.device.label]
    assert {line.outcome for line in bad} == {outcome}
    assert words is None or all(words in (line.reason or "") for line in bad)
    assert [line.outcome for line in lines if line.device.label == FAST] == ["ok", "ok"]


def test_what_failed_gets_one_more_try_on_the_next_run_and_no_third(tmp_path: Path) -> None:
    broken = study("sim:gpu:step_ms=2:fault=error", replicates=1, max_replicates=1)
    for expected in (1, 1, 0):
        assert api.measure(broken, tmp_path).attempts == expected
    assert [line.attempt for line in measured(tmp_path)] == [0, 1]


def test_what_failed_once_and_then_worked_is_ok(tmp_path: Path) -> None:
    once = study("sim:gpu:step_ms=2:fault=kill:fault_attempt=0", replicates=1, max_replicates=1)
    api.measure(once, tmp_path)
    api.measure(once, tmp_path)
    assert [line.outcome for line in measured(tmp_path)] == ["killed", "ok"]


def test_out_of_memory_skips_bigger_batches_of_the_same_device_only(tmp_path: Path) -> None:
    small, big = "sim:gpu:oom_batch=64:step_ms=2", "sim:cpu:step_ms=2"
    api.measure(study(small, big, batch="32..256", replicates=2, max_replicates=2), tmp_path)
    seen: dict[tuple[str, int], set[str]] = {}
    for line in measured(tmp_path):
        seen.setdefault((line.device.label, line.work.batch), set()).add(line.outcome)
    assert all(seen[big, batch] == {"ok"} for batch in (32, 64, 128, 256))
    assert seen[small, 32] == {"ok"}
    assert all(seen[small, batch] == {"oom"} for batch in (64, 128, 256))
    tried = [line for line in measured(tmp_path) if line.outcome == "oom"]
    assert len(tried) == 3  # once each: what ran out of memory once is not measured again


def test_a_failed_check_bars_the_case(tmp_path: Path) -> None:
    api.measure(study("sim:gpu:step_ms=2:fault=mismatch", FAST), tmp_path)
    results = file.read(tmp_path)
    assert {check.outcome for check in results.checks} == {"ok", "device_mismatch"}
    barred = [line for line in results.attempts if "mismatch" in line.device.label]
    assert [(line.outcome, line.blocks) for line in barred] == [("device_mismatch", ())]


def test_a_compile_inside_the_window_is_invalid(tmp_path: Path) -> None:
    late = "sim:gpu:drift=1:recompile_step=120:step_ms=2"
    api.measure(study(late, replicates=1, max_replicates=1), tmp_path)
    (line,) = measured(tmp_path)
    assert line.outcome == "invalid"
    assert "recompiles" in (line.reason or "")


def test_another_platform_is_refused_and_fresh_sets_it_aside(tmp_path: Path) -> None:
    api.measure(study(FAST), tmp_path)
    path = tmp_path / file.NAME
    lines = file.read(path).lines
    path.unlink()
    for line in lines:
        if isinstance(line, Fingerprint):
            import dataclasses

            other = dict(line.platform) | {"cpu_model": "Another CPU"}
            line = dataclasses.replace(line, platform=other, platform_id="0" * 16)
        file.append(path, line)
    with pytest.raises(UserError, match="another platform") as error:
        api.measure(study(FAST), tmp_path)
    assert "\n" not in str(error.value)
    api.measure(study(FAST), tmp_path, fresh=True)
    assert (tmp_path / "results-before-1.jsonl").exists()
    assert len(measured(tmp_path)) == 3


@pytest.mark.slow
def test_max_time_stops_between_attempts(tmp_path: Path) -> None:
    slow = "sim:gpu:step_ms=50:real=1"
    summary = api.measure(study(slow, max_time=0.5, attempt_time=0.4), tmp_path)
    assert summary.stopped == "max-time"
    assert 1 <= len(measured(tmp_path)) < 3
    assert api.measure(study(slow, attempt_time=0.4), tmp_path).stopped is None
    assert [line.replicate for line in measured(tmp_path)] == [0, 1, 2]


@pytest.mark.slow
def test_max_time_ends_an_attempt_that_takes_far_longer_than_those_before(tmp_path: Path) -> None:
    """Compilation is such: nobody knows beforehand how long it takes."""
    from breakeven.runner.plan import plan, schedule

    both = "sim:gpu:step_ms=5:real=1", "sim:cpu:step_ms=4000:real=1"
    keys = {"replicates": 1, "max_replicates": 1, "attempt_time": 0.4, "max_time": 4.0}
    cases = plan(study(*both, **keys), cores=2, gpus=0).cases
    quick_case = min(cases, key=lambda planned: float(dict(planned.case.device.options)["step_ms"]))
    seed = next(n for n in range(20) if schedule(cases, 1, n)[0][2] is quick_case)
    summary = api.measure(study(*both, order_seed=seed, **keys), tmp_path)
    assert summary.stopped == "max-time"
    quick, slow = measured(tmp_path)
    assert (quick.outcome, slow.outcome) == ("ok", "interrupted")
    assert slow.reason == "max_time was over before it ended" and not slow.blocks


# --- whole processes --------------------------------------------------------------------------------

REAL = "name: t\nmodel: simple-cnn\ndevice: ['sim:gpu:step_ms=20:real=1', 'sim:cpu:step_ms=30:real=1']\n"
REAL += "attempt_time: 0.3\nreplicates: 4\nmax_replicates: 4\n"


def start(folder: Path, text: str = REAL, *words: str) -> "subprocess.Popen[str]":
    (folder / "t.yaml").write_text(text)
    command = [sys.executable, "-m", "breakeven", "run", "t.yaml", "-o", "out", *words]
    return subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def wait_for_lines(path: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and path.read_bytes().count(b'"kind":"attempt"') >= count:
            return
        time.sleep(0.02)
    raise AssertionError("no attempts were written in time")


def processes_in(session: int) -> list[int]:
    """Live processes of a breakeven run: its own and those of its prepared parents (by command line)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"breakeven.runner.parent" in line and line.rstrip(b"\0").endswith(str(session).encode()):
                found.append(int(entry.name))
    return found


@pytest.mark.slow
def test_kill_9_half_way_loses_at_most_one_attempt_and_repeats_none(tmp_path: Path) -> None:
    run = start(tmp_path)
    path = tmp_path / "out" / file.NAME
    wait_for_lines(path, 3)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    kept = file.read(path).attempts
    deadline = time.monotonic() + 10
    while processes_in(run.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes_in(run.pid) == []  # a dead runner ends its parents and children
    again = start(tmp_path)
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    lines = file.read(path).attempts
    assert lines[: len(kept)] == kept
    keys = [(line.case_id, line.replicate) for line in lines]
    assert len(keys) == len(set(keys)) == 8


@pytest.mark.slow
def test_ctrl_c_once_finishes_the_attempt_and_says_how_to_go_on(tmp_path: Path) -> None:
    run = start(tmp_path)
    path = tmp_path / "out" / file.NAME
    wait_for_lines(path, 2)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "goes on from here" in err
    assert "Traceback" not in err
    assert {line.outcome for line in file.read(path).attempts} == {"ok"}


@pytest.mark.slow
def test_ctrl_c_twice_stops_at_once(tmp_path: Path) -> None:
    run = start(
        tmp_path, REAL.replace("attempt_time: 0.3", "attempt_time: 30").replace("step_ms=20", "step_ms=900")
    )
    path = tmp_path / "out" / file.NAME
    deadline = time.monotonic() + 60
    while not (path.exists() and b'"kind":"check"' in path.read_bytes()) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    run.send_signal(signal.SIGINT)
    time.sleep(0.3)
    run.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, err = run.communicate(timeout=60)
    assert time.monotonic() - began < 20
    assert run.returncode == 130
    assert "Traceback" not in err
    assert [line.outcome for line in file.read(path).attempts] == ["interrupted"]


FULL = "name: t\nmodel: simple-cnn\ndevice: ['sim:gpu:step_ms=10:real=1:train_samples=1280']\nfull: true\n"
FULL += "attempt_time: 0.1\nreplicates: 1\nmax_replicates: 1\nrecipe: {epochs: 12}\n"


@pytest.mark.slow
def test_a_killed_full_run_goes_on_at_its_last_epoch(tmp_path: Path) -> None:
    run = start(tmp_path, FULL)
    deadline = time.monotonic() + 60
    states = tmp_path / "out" / "checkpoints"
    while time.monotonic() < deadline:
        if any('"index": 3' in state.read_text() for state in states.glob("*/state/epochs.json")):
            break
        time.sleep(0.01)
    os.kill(run.pid, signal.SIGKILL)
    run.communicate()
    again = start(tmp_path, FULL)
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    first, second = [line for line in file.read(tmp_path / "out").attempts if line.region == "train_run"]
    assert (first.outcome, second.outcome) == ("interrupted", "ok")
    assert second.continues == first.attempt_id
    assert [epoch.index for epoch in (*first.epochs, *second.epochs)] == list(range(12))
    assert len(first.epochs) >= 4
    assert not any(states.glob("*/state"))


@pytest.mark.slow
def test_a_full_run_stopped_by_max_time_goes_on(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"replicates": 1, "max_replicates": 1, "attempt_time": 0.1}
    device = "sim:gpu:step_ms=50:real=1:train_samples=1280"
    api.measure(study(device, **keys), tmp_path)  # so that the limit below is the full run's alone
    first = api.measure(study(device, full=True, max_time=3.0, **keys), tmp_path)
    assert first.stopped == "max-time"
    second = api.measure(study(device, full=True, **keys), tmp_path)
    assert second.stopped is None
    runs = [line for line in measured(tmp_path) if line.region == "train_run"]
    assert [line.outcome for line in runs] == ["interrupted", "ok"]
    assert [epoch.index for line in runs for epoch in line.epochs] == list(range(10))


def test_a_file_in_the_place_of_the_folder_is_told_before_the_estimate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(UserError, match="taken is a file"):
        measuring.run(["resnet18"], device=["sim:gpu"], out=tmp_path / "taken")
    assert capsys.readouterr() == ("", "")


def test_list_alone_says_what_can_be_listed() -> None:
    with pytest.raises(UsageError, match=r"name what to list: studies, models, tunings, .*, published"):
        list_()
