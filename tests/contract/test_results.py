"""Contract, group 9: results, reports, advice."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import breakeven
from analysis.conftest import a_case, file_of, sampled, spread, understood
from breakeven import api
from breakeven.analysis import understand
from breakeven.analysis.advise import advise
from breakeven.analysis.compare import compare
from breakeven.errors import UserError
from breakeven.records import file
from breakeven.records.lines import Attempt, Block, Epoch
from breakeven.report.csv import sheet
from breakeven.runner.study import read_study

from .worlds import QUIET, in_a_child, sim_case

SOURCE = Path(breakeven.__file__).parent


def test_r43_a_torn_last_line_is_forgiven_and_nothing_else_unsaid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / file.NAME
    synced: list[int] = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(fd), real(fd))[1])
    lines = [sampled(a_case(), i, 10.0) for i in range(3)]
    for line in lines:
        before = len(synced)
        file.append(path, line)
        assert len(synced) > before  # on the disk before the next attempt starts
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"attempt","case_id"')  # a power cut in mid-write
    with pytest.raises(ValueError):
        [json.loads(text) for text in path.read_bytes().decode().splitlines()]  # naive: all of it is lost
    results = file.read(path)
    assert results.torn and list(results.lines) == lines
    path.write_bytes(whole.replace(b"\n", b"\nGARBAGE\n", 1))
    damaged = file.read(path)
    assert list(damaged.lines) == lines and [line.number for line in damaged.unread] == [2]
    found = understand([damaged])
    assert any("line 2 of the file cannot be read (not JSON): left out" in q.text for q in found.quality)
    with pytest.raises(UserError, match="line 2 is damaged"):  # a run adds to what it can read, or to nothing
        file.read_whole(path)
    with pytest.raises(UserError, match=r"a gate decides on whole files only: .* line 2 is damaged"):
        compare(damaged, file_of(*lines), fail_if_slower=0.05)


@pytest.mark.slow
def test_r43_a_run_goes_on_where_its_file_ends(tmp_path: Path) -> None:
    text = "name: t\nmodel: simple-cnn\ndevice: ['sim:gpu:step_ms=2', 'sim:cpu:step_ms=9']\nattempt_time: 1\n"
    study = read_study(f"{text}replicates: 2\nmax_replicates: 2\n", "t.yaml")
    api.measure(study, tmp_path)
    path = tmp_path / file.NAME
    whole = path.read_bytes()
    kept = whole[: whole.rindex(b'{"accuracy"')]  # without its last attempt ...
    path.write_bytes(kept + b'{"accuracy": nu')  # ... of which a piece was written
    again = api.measure(study, tmp_path)
    assert (again.attempts, again.reused) == (1, 3)
    assert path.read_bytes().startswith(kept) and not file.read(path).torn


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {key for item in value.values() for key in keys_of(item)}
    return {key for item in value for key in keys_of(item)} if isinstance(value, list) else set()


def test_r44_units_stand_in_the_keys_and_missing_is_null() -> None:
    result = in_a_child(sim_case(f"sim:gpu:step_ms=5:{QUIET}"))
    # Counts and ids need no unit; a time, an energy or a size does.
    wordy = re.compile(r"(time|latency|duration|energy|power|memory)")
    allowed = {"memory", "energy"}  # sections, whose own keys carry the units
    assert {key for key in keys_of(json.loads(json.dumps(result))) if wordy.search(key)} - allowed == set()
    timed = [
        f.name
        for cls in (Attempt, Block, Epoch)
        for f in dataclasses.fields(cls)
        if "ns" in f.name.split("_")
    ]
    assert set(timed) == {"startup_ns", "cold_ns", "ns", "calls_ns", "train_ns", "eval_ns"}
    line = json.loads(file.encode(sampled(a_case(), 0, 10.0)))
    assert line["energy"] is None and line["schema"] == "1.1"  # missing is neither 0 nor left out
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError):
            file.encode(sampled(a_case(), 0, 10.0, losses=(bad,)))
    assert (
        json.loads(json.dumps({"x": float("nan")})) is not None
    )  # naive: Python writes NaN, which is no JSON


def test_r44_numbers_do_not_follow_the_locale() -> None:
    german = f"{1234.5:,.1f}".translate(str.maketrans(",.", ".,"))
    assert (
        german == "1.234,5" and float(german.replace(",", "")) == 1.2345
    )  # naive: read back 1,000 times less
    cells = [
        cell
        for row in sheet(understood(spread(a_case(), 1234.5))).split("\r\n")[1:]
        for cell in row.split(",")
    ]
    numbers = [float(cell) for cell in cells if re.fullmatch(r"[0-9.e+-]+", cell)]
    assert any(abs(number - 1.2345) < 1e-6 or abs(number - 1234.5) < 1e-3 for number in numbers)
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        assert "locale" not in imported
        formats = {
            part.value
            for n in ast.walk(tree)
            if isinstance(n, ast.FormattedValue) and isinstance(n.format_spec, ast.JoinedStr)
            for part in n.format_spec.values
            if isinstance(part, ast.Constant)
        }
        assert not [text for text in formats if str(text).endswith("n")], path  # the format that follows it


def test_r45_every_finding_cites_lines_and_goes_with_them() -> None:
    here = spread(a_case(), 20.0, n=3, sd=0.01)
    there = spread(a_case(device="cuda:0"), 5.0, n=3, sd=0.01)
    ids = {a.attempt_id for a in (*here, *there)}
    found = understood(here, there)
    (ratio,) = found.ratios
    assert set(ratio.evidence) == ids
    for cited in [*found.cases, *found.quality]:
        assert set(cited.evidence) <= ids
    assert "3.9x" in found.sentences[0] or "4.0x" in found.sentences[0] or "4x" in found.sentences[0]
    gone = understood(here)  # the cited lines deleted: naive, fixed text would still give its advice
    assert gone.ratios == () and "no ratio" in gone.sentences[0]


def test_r45_advice_goes_with_its_lines() -> None:
    """Each rule's three answers are planted in tests/analysis/test_advise.py."""
    here = spread(a_case(), 20.0, n=3, sd=0.01)
    there = spread(a_case(device="cuda:0"), 5.0, n=3, sd=0.01)
    (both,) = advise(file_of(here, there))
    device = next(rule for rule in both.rules if rule.rule == "device")
    assert device.answer == "holds" and set(device.evidence) == {a.attempt_id for a in (*here, *there)}
    assert device.ratio is not None and any("rule device" in text for text in both.sentences)
    (alone,) = advise(file_of(there))
    device = next(rule for rule in alone.rules if rule.rule == "device")
    assert device.answer == "open" and device.ratio is None and device.command is not None
    assert not any("rule device" in text for text in alone.sentences)
    assert any(text.startswith("Unknown from these measurements: device") for text in alone.sentences)
