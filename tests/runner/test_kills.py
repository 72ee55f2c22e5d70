"""SIGKILL at fifty seeded moments: of the runner, of prepared parents, of children, and in full runs."""

from __future__ import annotations

import contextlib
import random
import subprocess
import time
import uuid
from collections import Counter
from pathlib import Path

import pytest

from .processes import attempts, finish, kill, no_orphans, start, tagged, wait_until

pytestmark = pytest.mark.slow

RUNNER_KILLS, CHILD_KILLS, FULL_KILLS = 20, 20, 10


def study(replicates: int, step_ms: int = 5, more: str = "") -> str:
    devices = f"['sim:gpu:step_ms={step_ms}:real=1:cold_ms=0', 'sim:cpu:step_ms={step_ms}:real=1:cold_ms=0']"
    return (
        f"name: t\nmodel: simple-cnn\ndevice: {devices}\nattempt_time: 0.1\n"
        f"replicates: {replicates}\nmax_replicates: {replicates}\n{more}"
    )


def test_the_runner_killed_at_any_moment_loses_at_most_one_attempt_and_repeats_none(tmp_path: Path) -> None:
    rng, text, killed = random.Random(1), study(45), 0
    for _ in range(RUNNER_KILLS):
        before = attempts(tmp_path)
        tag = uuid.uuid4().hex
        run = start(tmp_path, text, tag=tag)
        try:
            run.wait(rng.uniform(0.05, 3.0))
        except subprocess.TimeoutExpired:
            killed += kill(run.pid)
        told = finish(run, tmp_path).count("\n[") + finish(run, tmp_path).startswith("[")
        assert no_orphans(tag)
        after = attempts(tmp_path)
        assert after[: len(before)] == before
        # A line is told after it was fsynced; one may have been fsynced and not told.
        assert told <= len(after) - len(before) <= told + 1
    last = start(tmp_path, text)
    err = finish(last, tmp_path)
    assert last.returncode == 0, err
    keys = Counter((line.case_id, line.replicate) for line in attempts(tmp_path))
    assert (len(keys), set(keys.values())) == (90, {1})
    assert {line.outcome for line in attempts(tmp_path)} == {"ok"}
    assert killed >= RUNNER_KILLS // 2


def test_parents_and_children_killed_at_any_moment_cost_one_attempt_each(tmp_path: Path) -> None:
    rng, text, tag, killed = random.Random(2), study(30, step_ms=8), uuid.uuid4().hex, 0
    run = start(tmp_path, text, tag=tag)
    while run.poll() is None and killed < CHILD_KILLS:
        time.sleep(rng.uniform(0.02, 0.5))
        parents = [(pid, up) for pid, up, line in tagged(tag) if b"runner.parent" in line]
        of_runner = [pid for pid, up in parents if up == run.pid]
        of_parent = [pid for pid, up in parents if up in of_runner]
        if targets := rng.choice([of_runner, of_parent]):
            killed += kill(targets[0])
    assert finish(run, tmp_path).count("Traceback") == 0
    assert no_orphans(tag)
    first = attempts(tmp_path)
    keys = Counter((line.case_id, line.replicate) for line in first)
    assert (len(keys), set(keys.values())) == (60, {1})
    outcomes = Counter(line.outcome for line in first)
    assert set(outcomes) <= {"ok", "killed"}
    assert killed == CHILD_KILLS
    assert outcomes["killed"] <= killed
    again = start(tmp_path, text)
    err = finish(again, tmp_path)
    assert again.returncode == 0, err
    assert attempts(tmp_path)[:60] == first
    assert Counter(line.outcome for line in attempts(tmp_path)) == outcomes + Counter(ok=outcomes["killed"])


FULL = "name: t\nmodel: simple-cnn\ndevice: ['sim:gpu:step_ms=1:real=1:cold_ms=0:train_samples=640']\n"
FULL += "attempt_time: 0.1\nreplicates: 1\nmax_replicates: 1\nfull: true\nrecipe: {epochs: 300}\n"


def test_a_full_run_killed_at_any_moment_keeps_every_saved_epoch(tmp_path: Path) -> None:
    rng = random.Random(3)

    def saved() -> dict[Path, int]:
        times = {}
        for path in (tmp_path / "out" / "checkpoints").glob("*"):
            with contextlib.suppress(FileNotFoundError):  # renamed since
                times[path] = path.stat().st_mtime_ns
        return times

    for index in range(FULL_KILLS):
        tag, before = uuid.uuid4().hex, saved()
        run = start(tmp_path, FULL, tag=tag)
        # From its first saved epoch on: how long a start takes is the machine's business.
        assert wait_until(lambda: saved() != before or run.poll() is not None, seconds=60)  # noqa: B023
        try:
            run.wait(rng.uniform(0.0, 0.5))
        except subprocess.TimeoutExpired:
            children = [pid for pid, up, line in tagged(tag) if up != run.pid and b"runner.parent" in line]
            kill(children[0] if children and index % 3 == 0 else run.pid)
            kill(run.pid)
        assert "Traceback" not in finish(run, tmp_path)
        assert no_orphans(tag)
    last = start(tmp_path, FULL)
    err = finish(last, tmp_path)
    assert last.returncode == 0, err
    lines = [line for line in attempts(tmp_path) if line.region == "train_run"]
    joined = [line for line in lines if line.outcome in ("interrupted", "ok")]
    assert [epoch.index for line in joined for epoch in line.epochs] == list(range(300))
    assert joined[-1].accuracy is not None
    assert [line.outcome for line in joined].count("ok") == 1
    assert len(joined) > FULL_KILLS // 2
    assert not list((tmp_path / "out" / "checkpoints").glob("*"))
