"""results.jsonl: round trips, torn lines, damage, full disks, two runs on one folder."""

import dataclasses
import json
import multiprocessing
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakeven.errors import UserError
from breakeven.records import file
from breakeven.records.case import Case, Device, Recipe, Tuning, Work
from breakeven.records.lines import (
    Attempt,
    Block,
    Ceiling,
    Check,
    Epoch,
    Fingerprint,
    ProfileLine,
    StudyLine,
)
from breakeven.records.profile import Gaps, Kernel, Operator
from breakeven.workloads import cyclegan

CASE = Case(
    work=Work(
        task="train",
        model="simple-cnn",
        data="digits",
        data_version="1",
        data_hash="md5:0",
        batch=8,
        recipe=Recipe(),
    ),
    tuning=Tuning(env=(("A", "b"),)),
    device=Device(kind="sim", name="gpu", options=(("noise", "0.1"),)),
)


def attempt(**changes: Any) -> Attempt:
    values: dict[str, Any] = {
        "case_id": CASE.case_id, "work_id": CASE.work_id, "tuning_id": CASE.tuning_id, "work": CASE.work,
        "tuning": CASE.tuning, "device": CASE.device, "replicate": 0, "order_index": 3,
        "started_utc": "2026-01-01T00:00:00+00:00", "outcome": "ok", "region": "train_step",
        "blocks": (Block(n_steps=2, samples=16, ns=5_000), Block(n_steps=1, samples=8, ns=9, boundary=True)),
        "memory": {"torch_allocated_peak_mib": 12.5}, "hashes": {"weights": "w"},
        "epochs": (Epoch(index=0, train_ns=5, eval_ns=None, steps=1, samples=8, accuracy=0.5),),
        "nulls": {"energy": "no sensor"}, "losses": (2.3, 2.2),
    }  # fmt: skip
    return Attempt(**(values | changes))


LINES = [
    attempt(),
    Check(case_id="c", fingerprint_id="f", started_utc="t", outcome="ok", checks={"device": {"ok": True}}),
    StudyLine(tool_version="0", started_utc="t", name="n", study={"model": ["a"]}, case_ids=("x",)),
    Fingerprint(fingerprint_id="f", platform_id="p", platform={"cpu": "x"}, unit={}),
    Ceiling(fingerprint_id="f", started_utc="t", name="gemm", value=1.5, unit="tflop_per_s"),
    ProfileLine(
        case_id="c",
        fingerprint_id="f",
        started_utc="t",
        outcome="ok",
        n_steps=2,
        profiled_ns=9,
        plain_ns=(8, 7),
        blocks=(Block(n_steps=2, samples=16, ns=8),),
        operators=(
            Operator(name="aten::mm", shapes=((2, 3), (3, 4), ()), calls=2, self_host_ns=5, flops=48),
            Operator(name="loader", kind="annotation", calls=1),
        ),
        left_out={"rows": 3, "self_host_ns": 1, "self_device_ns": 0},
        kernels=(Kernel(name="gemm", calls=2, device_ns=4),),
        device_span_ns=8,
        device_busy_ns=4,
        gaps=(Gaps(from_ns=1_000_000, to_ns=None, count=1, ns=4),),
        trace={"file": "profiles/a.json.gz"},
    ),
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.kind)
def test_a_line_is_read_back_as_written(line: Any) -> None:
    again = file.decode(file.encode(line))
    assert again == line
    assert file.encode(again) == file.encode(line)


def test_single_calls_and_weights_are_read_back_and_left_out_where_there_are_none() -> None:
    plain = json.loads(file.encode(attempt()))
    assert "calls_ns" not in plain and "weights" not in plain["work"]
    work = dataclasses.replace(CASE.work, task="infer", recipe=None, weights="sha256:ab")
    line = attempt(region="infer_stream", calls_ns=(5, 7, 6), work=work)
    again = file.decode(file.encode(line))
    assert isinstance(again, Attempt)
    assert (again.calls_ns, again.work.weights) == ((5, 7, 6), "sha256:ab")
    assert again.case.case_id != CASE.case_id


@pytest.mark.parametrize("recipe", [Recipe(), cyclegan.RECIPE, dataclasses.replace(cyclegan.RECIPE, pool=0)])
def test_what_only_one_loss_has_is_left_out_with_another(recipe: Recipe) -> None:
    case = dataclasses.replace(CASE, work=dataclasses.replace(CASE.work, recipe=recipe))
    written = file.encode(attempt(work=case.work, case_id=case.case_id, work_id=case.work_id))
    read = file.decode(written)
    assert isinstance(read, Attempt)
    assert (read.work.recipe, read.case.case_id) == (recipe, case.case_id)
    assert (b'"pool"' in written) == (recipe.pool is not None)


def test_a_case_read_back_has_the_same_id() -> None:
    again = file.decode(file.encode(attempt()))
    assert isinstance(again, Attempt)
    assert again.case.case_id == CASE.case_id


def test_fields_of_a_later_version_are_kept() -> None:
    value = json.loads(file.encode(attempt())) | {"schema": "1.7", "later": {"a": [1]}}
    line = file.decode(json.dumps(value))
    assert line.unknown == {"later": {"a": [1]}}
    assert json.loads(file.encode(line)) == value


CHANGES: dict[str, dict[str, Any]] = {
    "none": {}, "a later field": {"later": [1]}, "a field named unknown": {"unknown": {"a": 1}},
    "a later field of the work": {"work": json.loads(file.encode(attempt()))["work"] | {"later": 1}},
    "another kind of value": {"replicate": "three"}, "a number as text": {"replicate": "3"},
    "no number": {"observed": {"x": float("nan")}}, "too large": {"cold_ns": 10**30},
    "another schema": {"schema": "2.0"}, "another kind": {"kind": "check"}, "no text": {"reason": "\ud800"},
    "a whole float": {"replicate": 3.0}, "a truth": {"cold_ns": True}, "a count as a float": {"accuracy": 1},
    "an endless float": {"observed": {"x": 2 * 10**400}}, "blocks that cannot be": {"eval_blocks": [{}]},
    "two of one": {"flags": ["a", "a"]}, "null": {"memory": None}, "a word": {"reason": "NaN, Infinity"},
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_an_attempt_is_read_alike_in_one_go_and_step_by_step(change: str) -> None:
    value = json.loads(file.encode(attempt())) | CHANGES[change]
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    read = []
    for form in (text.encode("ascii"), text):  # blocks are taken apart from bytes only
        try:
            read.append(file.decode(form))
        except ValueError as error:
            read.append(str(error))
    assert read[0] == read[1]


def test_committed_lines_are_read_in_one_go() -> None:
    """Whatever is measured now: reading it step by step takes four times as long."""
    for path in sorted((Path(__file__).parents[2] / "results").glob("*/*/results.jsonl")):
        for text in path.read_bytes().splitlines():
            plain = file._plain_line(text)
            assert plain is not None and plain == file._any_line(text)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_no_number_is_refused_both_ways(bad: float) -> None:
    with pytest.raises(ValueError):
        file.encode(attempt(losses=(bad,)))
    text = file.encode(attempt()).replace(b"2.3", b"NaN")
    with pytest.raises(ValueError):
        file.decode(text)


def test_append_then_read(tmp_path: Path) -> None:
    for line in LINES:
        file.append(tmp_path / file.NAME, line)
    results = file.read(tmp_path)
    assert results.lines == tuple(LINES)
    assert not results.torn
    assert [len(results.attempts), len(results.checks), len(results.studies)] == [1, 1, 1]


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_only_a_torn_last_line_is_forgiven(tmp_path: Path, cut: int) -> None:
    path = tmp_path / file.NAME
    for line in LINES:
        file.append(path, line)
    whole = path.read_bytes()
    last = len(file.encode(LINES[-1]))
    path.write_bytes(whole[: -min(cut, last - 2) - 1] if cut > 1 else whole[:-2])
    results = file.read(path)
    assert results.torn
    assert results.lines == tuple(LINES[:-1])
    file.append(path, LINES[-1])  # the next append cuts the torn piece off and keeps the rest
    assert file.read(path).lines == tuple(LINES)


def test_a_last_line_that_only_lacks_its_newline_is_kept(tmp_path: Path) -> None:
    path = tmp_path / file.NAME
    file.append(path, LINES[0])
    path.write_bytes(path.read_bytes()[:-1])
    assert file.read(path).lines == (LINES[0],)
    file.append(path, LINES[1])
    assert file.read(path).lines == (LINES[0], LINES[1])


@pytest.mark.parametrize(
    "damage", [b"\x00\xff", b"{}", b'{"kind":"attempt"}', b'{"kind":"nonsense","schema":"1.0"}']
)
def test_damage_in_the_middle_is_left_out_by_number_and_refused_by_who_goes_on(
    tmp_path: Path, damage: bytes
) -> None:
    path = tmp_path / file.NAME
    path.write_bytes(file.encode(LINES[0]) + damage + b"\n" + file.encode(LINES[1]))
    results = file.read(path)
    assert results.lines == (LINES[0], LINES[1]) and not results.torn
    ((number, why),) = ((line.number, line.why) for line in results.unread)
    assert number == 2
    assert file.left_out(results.unread, "x") == f"line 2 of x cannot be read ({why}): left out"
    with pytest.raises(UserError, match="line 2 is damaged") as error:
        file.read_whole(path)
    assert "\n" not in str(error.value) and "--fresh" in str(error.value)


def test_a_file_without_one_record_is_no_results_file(tmp_path: Path) -> None:
    path = tmp_path / file.NAME
    path.write_bytes(b"name,value\n" * 40)
    with pytest.raises(UserError, match=r"line 1 is damaged \(not JSON\), or this is no results file"):
        file.read(path)


@given(st.lists(st.none() | st.binary(max_size=40).filter(lambda b: b"\n" not in b), min_size=1, max_size=12))
def test_of_any_damage_the_good_lines_stay_and_every_other_is_counted(pieces: list[bytes | None]) -> None:
    """None: a good line. What is told names every damaged line, and nothing else; blank lines are none."""
    good = file.encode(LINES[0])
    bad = [n for n, piece in enumerate(pieces, start=1) if piece is not None and piece.strip()]
    data = b"".join(good if piece is None else piece + b"\n" for piece in pieces)
    if None not in pieces:
        if bad:
            with pytest.raises(UserError):
                file.read_text(data, "x")
        return
    results = file.read_text(data, "x")
    assert results.lines == (LINES[0],) * pieces.count(None)
    assert [line.number for line in results.unread] == bad


def test_many_damaged_lines_are_one_line_of_words() -> None:
    unread = [file.Unread(number=n, why=f"why {n % 4}") for n in range(3, 12)]
    assert file.left_out(unread, "f") == (
        "lines 3, 4, 5, 6, 7 and 4 more of f cannot be read (why 3; why 0; ...): left out"
    )
    assert file.left_out(unread[:2], "f") == "lines 3 and 4 of f cannot be read (why 3; why 0): left out"


@pytest.mark.parametrize(("old", "new"), [(b'"ns":5000', b'"ns":-5'), (b'"n_steps":2', b'"n_steps":0')])
def test_a_block_that_cannot_be_is_refused(old: bytes, new: bytes) -> None:
    text = file.encode(attempt())
    assert old in text
    with pytest.raises(ValueError, match="no block of steps"):
        file.decode(text.replace(old, new))


@pytest.mark.parametrize("calls", ["[0,0,0]", "[5,-7,9]"])
def test_a_call_that_took_no_time_is_refused_in_one_line(tmp_path: Path, calls: str) -> None:
    good = file.encode(attempt(calls_ns=(5, 6, 7)))
    assert b'"calls_ns":[5,6,7]' in good
    where = tmp_path / file.NAME
    where.write_bytes(good + good.replace(b"[5,6,7]", calls.encode()) + good)
    results = file.read(where)
    assert len(results.lines) == 2
    with pytest.raises(UserError, match=r"line 2 is damaged .*calls_ns.*: no call takes") as raised:
        file.read_whole(where)
    assert "\n" not in str(raised.value)


def test_another_major_version_is_refused() -> None:
    with pytest.raises(ValueError, match="schema"):
        file.decode(file.encode(attempt()).replace(b'"schema":"1.1"', b'"schema":"2.0"'))


def test_what_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no results"):
        file.read(tmp_path)
    (tmp_path / file.NAME).write_bytes(b"")
    with pytest.raises(UserError, match="holds no results"):
        file.read(tmp_path)


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_fuzzed_bytes_are_read_or_refused_in_one_line(data: bytes) -> None:
    try:
        file.read_text(data, "x")
    except UserError as error:
        assert "\n" not in str(error)


@given(st.data())
@settings(max_examples=1000)
def test_fuzzed_records_are_read_or_refused(data: st.DataObject) -> None:
    value = json.loads(file.encode(attempt()))
    key = data.draw(st.sampled_from(sorted(value)))
    value[key] = data.draw(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=5,
        )
    )
    try:
        line = file.decode(json.dumps(value))
    except ValueError as error:
        assert len(str(error)) < 500
    else:
        assert file.decode(file.encode(line)) == line


def _hold(folder: Path, ready: Any, done: Any) -> None:
    with file.locked(folder):
        ready.set()
        done.wait(30)


def test_two_runs_cannot_share_a_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, done = context.Event(), context.Event()
    other = context.Process(target=_hold, args=(tmp_path, ready, done))
    other.start()
    try:
        assert ready.wait(30)
        with pytest.raises(UserError, match="another run"), file.locked(tmp_path):
            pass
    finally:
        done.set()
        other.join(30)
    with file.locked(tmp_path):
        pass


FILL = """
import resource, signal, sys
from pathlib import Path
from breakeven.errors import UserError
from breakeven.records import file
line = file.read(sys.argv[1]).lines[0]
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    while True:
        file.append(Path(sys.argv[1]), line)
except UserError as error:
    print(error)
"""


def test_a_full_disk_is_one_line_and_leaves_what_was_there(tmp_path: Path) -> None:
    """The limit on a file's size stands in for the disk's end: the last write is cut in the middle."""
    path = tmp_path / file.NAME
    file.append(path, LINES[0])
    done = subprocess.run([sys.executable, "-c", FILL, str(path)], capture_output=True, text=True, check=True)
    assert "cannot write" in done.stdout
    assert done.stdout.count("\n") == 1
    results = file.read(path)
    assert not results.torn
    assert len(results.lines) == 20_000 // len(file.encode(LINES[0]))
    assert set(map(file.encode, results.lines)) == {file.encode(LINES[0])}


def test_replacing_fields_makes_a_new_line() -> None:
    line = attempt()
    assert dataclasses.replace(line, outcome="oom").outcome == "oom"
    assert line.outcome == "ok"


def test_a_folder_of_folders_with_results_names_some_of_them(tmp_path: Path) -> None:
    for name in ("a", "b", "c/d", "e"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / file.NAME).touch()
    told = rf"no results at {tmp_path} itself: name one of the folders in it: {tmp_path}/a, .* and 1 more"
    with pytest.raises(UserError, match=told):
        file.locate(tmp_path)
    with pytest.raises(UserError, match=f"name one of the folders in it: {tmp_path}/c/d$"):
        file.locate(tmp_path / "c")


def test_results_need_a_folder_and_say_what_is_a_file(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    for folder in (taken, taken / "deeper"):
        with pytest.raises(UserError, match=f"^{taken} is a file, and results need a folder"):
            file.refuse_file(folder)
        with pytest.raises(UserError, match="is a file"), file.locked(folder):
            pass
    file.refuse_file(tmp_path / "new" / "deeper")
