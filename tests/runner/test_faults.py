"""What can go wrong around a run: deaf workers, floods, full disks, odd files, clocks, bad states."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven import api
from breakeven.errors import UserError
from breakeven.records import file
from breakeven.records.lines import Attempt, Epoch
from breakeven.runner import checkpoint
from breakeven.runner.study import Study, read_study

from .processes import TAG, attempts, finish, kill, no_orphans, start, tagged, wait_until

FAST = "sim:gpu:step_ms=2"


def study(*devices: str, **keys: Any) -> Study:
    listed = {"model": ["simple-cnn"], "device": list(devices), "replicates": 1, "max_replicates": 1}
    lines = [f"{key}: {value!r}" for key, value in ({"attempt_time": 0.5} | listed | keys).items()]
    return read_study("\n".join(["name: t", *lines]), "t.yaml")


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(UserError) as error:
        act()
    text = str(error.value)
    assert text.isprintable(), text
    return text


def cli(folder: Path, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "breakeven", *words],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False, **options,
    )  # fmt: skip


@pytest.fixture
def tag(monkeypatch: pytest.MonkeyPatch) -> str:
    """What runs of this process start is told by this word in its environment."""
    monkeypatch.setenv(TAG, word := uuid.uuid4().hex)
    return word


# --- workers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "outcome"), [("stubborn", "timeout"), ("forge", "ok")])
def test_a_process_in_a_session_of_its_own_ends_with_its_attempt(
    tmp_path: Path, tag: str, fault: str, outcome: str
) -> None:
    api.measure(study(f"{FAST}:fault={fault}", FAST, timeout=1.0), tmp_path)
    lines = api.read(tmp_path).attempts
    assert sorted(line.outcome for line in lines) == sorted(["ok", outcome])
    assert all(line.blocks and line.cold_ns != 1 for line in lines if line.outcome == "ok")  # not the forged
    assert no_orphans(tag)


@pytest.mark.slow
@pytest.mark.parametrize("who", ["runner", "parent"])
def test_a_stubborn_child_ends_with_its_runner_or_parent(tmp_path: Path, who: str) -> None:
    tag = uuid.uuid4().hex
    run = start(tmp_path, f"name: t\nmodel: simple-cnn\ndevice: '{FAST}:fault=stubborn'\nreplicates: 1\n"
                          "max_replicates: 1\n", tag=tag)  # fmt: skip
    assert wait_until(lambda: any(b"sleep" in line for _, _, line in tagged(tag)))
    parents = [pid for pid, up, line in tagged(tag) if up == run.pid and b"runner.parent" in line]
    kill(run.pid if who == "runner" else parents[0])
    assert "Traceback" not in finish(run, tmp_path)
    assert no_orphans(tag)
    assert [line.outcome for line in attempts(tmp_path)] == ([] if who == "runner" else ["killed"])


def test_a_parent_that_died_between_two_attempts_costs_none(tmp_path: Path, tag: str) -> None:
    def on_event(event: api.Event) -> None:
        if event.kind == "line":
            for pid, up, _ in tagged(tag):
                if up == os.getpid():
                    kill(pid)
                    wait_until(lambda: not list(tagged(tag)))

    api.measure(study(FAST, "sim:cpu:step_ms=2", replicates=2, max_replicates=2), tmp_path, on_event=on_event)
    lines = api.read(tmp_path).attempts
    assert [line.outcome for line in lines] == ["ok"] * 4
    assert len({line.parent_id for line in lines}) == 4


@pytest.mark.slow
def test_a_parent_that_stopped_answering_is_ended_after_a_while(
    tmp_path: Path, tag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("breakeven.runner.seat.GRACE_S", 0.5)

    def on_event(event: api.Event) -> None:
        if event.kind == "progress":
            for pid, up, _ in tagged(tag):
                if up == os.getpid():
                    os.kill(pid, signal.SIGSTOP)

    slow = "sim:gpu:step_ms=50:real=1:cold_ms=0"
    api.measure(study(slow, timeout=1.0, attempt_time=5.0), tmp_path, on_event=on_event)
    assert [line.outcome for line in api.read(tmp_path).attempts] == ["timeout"]
    assert no_orphans(tag)


@pytest.mark.slow
def test_a_flood_of_50_mb_is_read_and_dropped(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    api.measure(study(f"{FAST}:fault=flood"), tmp_path)
    assert api.read(tmp_path).attempts[0].outcome == "ok"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
KEYS = [*Attempt.__dataclass_fields__, "base_flags", "base_nulls"]


@given(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=4))
@settings(max_examples=200)
def test_any_result_of_a_child_is_a_line(result: dict[str, Any]) -> None:
    from breakeven.runner.rounds import _check_line
    from breakeven.runner.session import Session, attempt_line

    one = study(FAST)
    planned = api.plan(one, api.look(one))
    session = Session(one, planned, Path("none"), lambda event: None, lambda: None, 0.0)
    case = planned.cases[0]
    line = attempt_line(session, case, 0, 0, "train_step", "t", None, result)
    assert file.decode(file.encode(line)) == line
    check = _check_line(session, case.case, "t", result)
    assert file.decode(file.encode(check)) == check


# --- files ---------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"cannot mount a small disk: {made.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


MANY = (
    f"name: t\nmodel: simple-cnn\ndevice: '{FAST}'\nreplicates: 12\nmax_replicates: 12\nattempt_time: 0.5\n"
)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))


def goes_on_after(folder: Path, out: Path, free: Callable[[], object], **options: Any) -> None:
    (folder / "t.yaml").write_text(MANY)
    full = cli(folder, "run", "t.yaml", "-o", str(out), "-q", **options)
    assert (full.returncode, full.stderr.count("\n")) == (1, 1), full.stderr
    assert "cannot write" in full.stderr and "free space" in full.stderr
    kept = api.read(out)
    assert kept.attempts and not kept.torn
    free()
    again = cli(folder, "run", "t.yaml", "-o", str(out), "-q")
    assert again.returncode == 0, again.stderr
    lines = api.read(out).attempts
    assert lines[: len(kept.attempts)] == kept.attempts
    assert [line.replicate for line in lines] == list(range(12))


@pytest.mark.slow
def test_a_limit_on_the_file_is_one_line_and_the_run_goes_on_later(tmp_path: Path) -> None:
    goes_on_after(tmp_path, tmp_path / "out", lambda: None, preexec_fn=limited)


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_run_goes_on_when_there_is_space(
    tmp_path: Path, small_disk: Path
) -> None:
    def free() -> None:
        subprocess.run(["mount", "-o", "remount,size=4m", str(small_disk)], check=True)

    (small_disk / "filler").write_bytes(b"x" * 30_000)
    goes_on_after(tmp_path, small_disk / "out", free)


def test_a_read_only_folder_is_one_line(tmp_path: Path, small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    assert "Read-only" in refusal(lambda: api.measure(study(FAST), small_disk / "out"))
    assert "cannot write" in refusal(lambda: api.measure(study(FAST), Path("/proc/none/out")))


def loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("make", [Path.mkdir, loop, os.mkfifo], ids=["folder", "loop", "pipe"])
def test_results_that_are_no_file_are_refused_and_never_waited_for(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / file.NAME)
    assert "cannot read" in refusal(lambda: api.measure(study(FAST), tmp_path))
    assert file.NAME in refusal(lambda: api.read(tmp_path))


@pytest.mark.parametrize("make", [Path.mkdir, loop], ids=["folder", "loop"])
def test_a_lock_that_is_no_file_is_refused(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path / file.LOCK_NAME)
    assert "cannot write" in refusal(lambda: api.measure(study(FAST), tmp_path))


@pytest.mark.slow
def test_damage_is_told_by_reports_and_refused_by_runs(tmp_path: Path) -> None:
    api.measure(study(FAST, "sim:cpu:step_ms=2"), tmp_path)
    path = tmp_path / file.NAME
    whole = path.read_bytes()
    path.write_bytes(whole[:-40])
    torn = cli(tmp_path, "report", ".")
    assert torn.returncode == 0
    assert "cut off" in torn.stdout
    lines = whole.split(b"\n")
    path.write_bytes(b"\n".join([*lines[:2], lines[2][:50], *lines[3:]]))
    damaged = cli(tmp_path, "report", ".")
    assert (damaged.returncode, damaged.stderr) == (
        0, "breakeven: line 3 of results.jsonl cannot be read (not JSON): left out\n"
    )  # fmt: skip
    assert "line 3 of the file cannot be read" in " ".join(damaged.stdout.split())
    written = cli(tmp_path, "report", ".", "-q", "-o", "x.md")
    assert "line 3 of results.jsonl" in written.stderr  # whatever is asked for
    assert "line 3 of the file" in (tmp_path / "x.md").read_text()
    assert "line 3 is damaged" in refusal(lambda: api.measure(study(FAST), tmp_path))
    assert path.read_bytes().split(b"\n")[2] == lines[2][:50]  # refused, not mended


@pytest.mark.slow
def test_a_second_run_on_a_folder_is_one_line(tmp_path: Path) -> None:
    with file.locked(tmp_path / "out"):
        (tmp_path / "t.yaml").write_text(MANY)
        second = cli(tmp_path, "run", "t.yaml", "-o", "out", "-q")
    assert (second.returncode, second.stderr.count("\n")) == (1, 1)
    assert "another run is writing" in second.stderr


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "..", ".", "", "a\nb", "<b>x</b>", "x" * 300, "a\0b", "/etc", "-o", "a b", "ä"]
)
def test_no_name_leads_out_of_the_results(tmp_path: Path, name: str) -> None:
    text = f"name: {json.dumps(name)}\nmodel: simple-cnn\n"
    try:
        read = read_study(text, "t.yaml")
    except UserError as error:
        assert str(error).isprintable() and len(str(error)) <= 400
    else:
        assert api.results_folder(read, None).resolve().parent == Path("breakeven-results").resolve()


@pytest.mark.slow
def test_hostile_names_in_results_do_no_harm(tmp_path: Path) -> None:
    api.measure(study(FAST, "sim:cpu:step_ms=2"), tmp_path / "out")
    hostile = "../../<script>alert(1)</script>\n\x1b[2J" + "x" * 5000
    path = tmp_path / "out" / file.NAME
    values = [json.loads(line) for line in path.read_bytes().splitlines()]
    for value in values:
        value.update({key: hostile for key in ("name", "tuning_name", "reason") if value.get(key)})
        if value["kind"] == "study":
            value["study"] |= {"name": hostile, "title": hostile}
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    done = cli(tmp_path, "report", "out", "-o", "page.html")
    assert done.returncode == 0, done.stderr
    assert "<script>alert" not in (tmp_path / "page.html").read_text()
    shown = cli(tmp_path, "report", "out")
    assert "\x1b[2J" not in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 80
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["out", "page.html"]


# --- clocks --------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("step_s", [-3600, 0, 3600])
def test_a_wall_clock_that_is_set_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step_s: int
) -> None:
    """Each reading is an hour before or after the last: one retry all the same, and only on the next run."""
    from datetime import UTC, datetime, timedelta

    readings = [datetime(2026, 1, 1, tzinfo=UTC)]

    def now() -> str:
        readings.append(readings[-1] + timedelta(seconds=step_s))
        return readings[-1].isoformat(timespec="milliseconds")

    for module in ("session", "run", "full"):
        monkeypatch.setattr(f"breakeven.runner.{module}.now", now)
    broken = study(f"{FAST}:fault=error", f"{FAST}:fault=kill", FAST, replicates=2, max_replicates=2)
    assert [api.measure(broken, tmp_path).attempts for _ in range(3)] == [6, 4, 0]
    durations = [block.ns for line in api.read(tmp_path).attempts for block in line.blocks]
    assert all(0 < ns < 10e9 for ns in durations)


# --- saved states --------------------------------------------------------------------------------------

EPOCHS = tuple(Epoch(index=i, train_ns=10 + i, eval_ns=5, steps=2, samples=4, loss=0.5) for i in range(3))


def saved(count: int = 3, case_id: str = "c", replicate: int = 0) -> checkpoint.Saved:
    return checkpoint.Saved(case_id=case_id, replicate=replicate, attempt=0, epochs=EPOCHS[:count])


def write(folder: Path) -> None:
    (folder / "weights").write_bytes(b"w" * 1000)


def test_a_state_is_read_back_as_saved(tmp_path: Path) -> None:
    assert checkpoint.load(tmp_path, "c", 0) is None
    for count in (1, 2, 3):
        checkpoint.save(tmp_path, saved(count), write)
        assert checkpoint.load(tmp_path, "c", 0) == saved(count)
    assert [entry.name for entry in tmp_path.iterdir()] == ["state"]


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("first", [False, True])
def test_a_save_that_ends_at_any_call_leaves_the_old_state_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    calls = 0

    def counted(real: Callable[..., Any], at: int) -> Callable[..., Any]:
        def call(*args: Any, **keys: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at:
                raise Killed
            return real(*args, **keys)

        return call

    found = set()
    for at in range(1, 60):
        calls, folder = 0, tmp_path / str(at)
        if not first:
            checkpoint.save(folder, saved(1), write)
        with monkeypatch.context() as patch:
            for owner, name in ((Path, "rename"), (Path, "mkdir"), (Path, "write_text"), (Path, "open"),
                                (os, "fsync"), (shutil, "rmtree")):  # fmt: skip
                patch.setattr(owner, name, counted(getattr(owner, name), at))
            try:
                checkpoint.save(folder, saved(2), write)
            except Killed:
                pass
            else:
                break
        state = checkpoint.load(folder, "c", 0)
        found.add(len(state.epochs) if state else 0)
        checkpoint.save(folder, saved(3), write)  # and the next save is not hindered
        assert checkpoint.load(folder, "c", 0) == saved(3)
    assert found == ({0, 2} if first else {1, 2})
    assert at > 10


@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b"[]", b"7", b"{}", b'{"attempt": 0, "epochs": []}', b"\xff\xfe", b"[" * 100_000,
     b'{"attempt": 0, "case_id": "c", "replicate": 0, "epochs": 3, "files": {}}',
     b'{"attempt": 0, "case_id": "c", "replicate": 0, "epochs": [], "files": {"../x": "0"}}'],
)  # fmt: skip
def test_a_damaged_index_is_one_line(tmp_path: Path, damage: bytes) -> None:
    checkpoint.save(tmp_path, saved(), write)
    (tmp_path / "state" / checkpoint.INDEX).write_bytes(damage)
    assert "is damaged" in refusal(lambda: checkpoint.load(tmp_path, "c", 0))


def test_a_state_that_is_half_there_or_of_another_run_is_one_line(tmp_path: Path) -> None:
    checkpoint.save(tmp_path, saved(), write)
    for case_id, replicate in (("d", 0), ("c", 1)):
        assert "another case" in refusal(
            lambda case_id=case_id, replicate=replicate: checkpoint.load(tmp_path, case_id, replicate)
        )
    weights = tmp_path / "state" / "weights"
    weights.write_bytes(b"w" * 999)
    assert "weights" in refusal(lambda: checkpoint.load(tmp_path, "c", 0))
    weights.unlink()
    assert "is damaged" in refusal(lambda: checkpoint.load(tmp_path, "c", 0))


FULL = {"full": True, "attempt_time": 0.1, "recipe": {"epochs": 12}}
TRAINED = "sim:gpu:step_ms=20:real=1:train_samples=1280:cold_ms=0"


def runs(folder: Path) -> list[Attempt]:
    return [line for line in api.read(folder).attempts if line.region == "train_run"]


@pytest.mark.slow
def test_a_state_is_never_joined_to_another_run(tmp_path: Path) -> None:
    """Damaged: one line. Of another run of the case: begun again, with no epoch of either in the other."""
    here, other = tmp_path / "here", tmp_path / "other"
    for folder in (here, other):
        api.measure(study(TRAINED, max_time=1.2, **FULL), folder)
        assert [line.outcome for line in runs(folder)] == ["interrupted"]
    (state,) = (here / "checkpoints").iterdir()
    index = state / "state" / checkpoint.INDEX
    good = index.read_bytes()
    index.write_bytes(good[:-9])
    assert "is damaged" in refusal(lambda: api.measure(study(TRAINED, **FULL), here))
    index.write_bytes(good)
    shutil.rmtree(state)
    shutil.copytree(other / "checkpoints" / state.name, state)
    summary = api.measure(study(TRAINED, **FULL), here)
    assert summary.stopped is None
    last = runs(here)[-1]
    chain = {line.attempt_id: line for line in runs(here)}
    joined = [*(chain[last.continues].epochs if last.continues else ()), *last.epochs]
    assert [epoch.index for epoch in joined] == list(range(12))
    assert not set(joined) & set(runs(here)[0].epochs)
