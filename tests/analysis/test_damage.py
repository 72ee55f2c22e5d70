"""Lost lines: every output tells of them, and what may have failed a lost check wins nothing."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path

import pytest

from breakeven.analysis import understand
from breakeven.analysis.advise import advise
from breakeven.analysis.compare import compare
from breakeven.analysis.compare_axis import compare_by
from breakeven.analysis.predict.forecasts import predict
from breakeven.errors import UserError
from breakeven.records.file import Results, Unread
from breakeven.report import build, document
from breakeven.report.advise import advice_document, advice_report
from breakeven.report.compare import comparison_document, written
from breakeven.report.csv import sheet
from breakeven.report.html import page
from breakeven.report.text import text

from .conftest import a_case, a_machine, a_study, file_of, sampled
from .inference_lines import checked, infer_case, processes

LOST = (Unread(number=3, why="not JSON"),)
RIGHT, WRONG, SLOWER = infer_case(), infer_case(precision="int8"), infer_case(precision="bf16")
SAID = "1 line of results.jsonl could not be read: what stood there, a failed check maybe, is missing here"


def served_file(*, damaged: bool, path: str = "run/results.jsonl") -> Results:
    """INT8 is five times as fast, and the line that says it is wrong is lost."""
    lines = [
        *processes(RIGHT, 5.0, sd=0.01),
        *processes(WRONG, 1.0, sd=0.01),
        *processes(SLOWER, 4.0, sd=0.01),
    ]
    study = a_study([RIGHT, WRONG, SLOWER], {"replicates": 3, "max_replicates": 3})
    wrong = () if damaged else (checked(WRONG),)
    whole = file_of(study, a_machine(), checked(RIGHT), checked(SLOWER), *wrong, *lines, path=path)
    return dataclasses.replace(whole, unread=LOST) if damaged else whole


def test_a_case_whose_check_may_be_lost_wins_nothing() -> None:
    sound = understand([served_file(damaged=False)])
    assert sound.inference.gains[0].best_id == WRONG.case_id
    found = understand([served_file(damaged=True)])
    unproven = {c.case_id: c.unproven for c in found.cases if c.unproven}
    assert list(unproven) == [WRONG.case_id] and "no check of it is on file" in str(unproven[WRONG.case_id])
    assert [f.case_id for f in found.inference.cases if not f.ranked] == [WRONG.case_id]
    assert found.inference.gains[0].best_id == SLOWER.case_id
    assert all(WRONG.case_id not in (f.base_id, f.candidate_id) for f in found.inference.factors)
    (frontier,) = found.inference.frontier
    assert WRONG.case_id not in {p.case_id for p in frontier.points}
    ratios = {r.candidate_id: r for r in compare_by(served_file(damaged=True), "precision").ratios}
    assert ratios[WRONG.case_id].point is None and ratios[SLOWER.case_id].verdict == "faster"
    (advice,) = advise(served_file(damaged=True))
    assert advice.choice is not None and advice.choice.case_id == SLOWER.case_id
    assert [why for name, why in advice.left_out if "int8" in name] == [unproven[WRONG.case_id]]


def test_a_training_case_without_a_check_is_in_no_ratio_of_a_damaged_file() -> None:
    cpu, gpu = a_case(), a_case(device="cuda:0")
    lines = [sampled(c, i, ms + i / 100) for c, ms in ((cpu, 20.0), (gpu, 5.0)) for i in range(3)]
    whole = file_of(a_study([cpu, gpu]), a_machine(), checked(cpu), *lines, path="a")
    (ratio,) = understand([whole]).ratios
    assert ratio.verdict == "faster"  # nothing is lost: nobody checked it, and its flag says so
    for harm in ({"unread": LOST}, {"torn": True}):
        damaged = dataclasses.replace(whole, **harm)
        (ratio,) = understand([damaged]).ratios
        assert ratio.point is None and "could not be read" in ratio.reasons["ratio"]
        (advice,) = advise(damaged)
        assert advice.choice is not None and advice.choice.case_id == cpu.case_id
    later = [dataclasses.replace(line, started_utc="2025-01-02T00:00:00+00:00") for line in lines]
    again = file_of(a_study([cpu, gpu]), a_machine(), checked(cpu), checked(gpu), *later, path="b")
    rows = {r.case_id: r for r in compare(dataclasses.replace(whole, unread=LOST), again).cases}
    assert "no check" in rows[gpu.case_id].reasons["ratio"] and rows[gpu.case_id].point is None


def test_the_top_of_a_report_says_what_is_lost() -> None:
    found = understand([served_file(damaged=True)])
    assert build(found).before == (f"{SAID}; 1 case without a check is not ranked.",)
    assert SAID in " ".join(text(build(found)).split()) and SAID in page(build(found), found)
    assert build(understand([served_file(damaged=False)])).before == ()
    two = understand([served_file(damaged=False, path="a/results.jsonl"), served_file(damaged=True)])
    assert [s.partition(" could")[0] for s in build(two).before] == ["1 line of @2"]
    made = document(two)
    assert (made["lost_lines"], made["left_out_lines"]) == ([0, 1], [0, 1])


def test_every_output_tells_of_lines_that_are_left_out() -> None:
    damaged = served_file(damaged=True)
    edited = dataclasses.replace(damaged.attempts[0], startup_ns=1)
    damaged = dataclasses.replace(damaged, lines=(*damaged.lines, edited))
    by = compare_by(damaged, "precision")
    assert by.left_out_lines == comparison_document(by)["left_out_lines"] == 2
    assert ["same id" in by.faults[0], "cannot be read" in by.faults[1]] == [True, True]
    for suffix in (".html", ".md", ".txt"):
        assert "line 3 of the file" in " ".join(str(written(by, Path(f"x{suffix}"))).split())
    (first, *_) = csv.DictReader(io.StringIO(written(by, Path("x.csv"))))
    assert first["left_out_lines"] == "2"
    (first, *_) = csv.DictReader(io.StringIO(sheet(understand([damaged]))))
    assert first["left_out_lines"] == "2"
    advice = advise(damaged)
    (told,) = json.loads(json.dumps(advice_document(advice)))["advice"]
    assert told["left_out_lines"] == 2 and any("line 3" in fault for fault in told["faults"])
    assert "Not believed: run/results.jsonl: line 3" in " ".join(text(advice_report(advice)).split())


def test_a_forecast_tells_too_and_forecasts_nothing_unproven() -> None:
    from breakeven.report.predict import document as forecast_document
    from breakeven.report.predict import report as forecast_report

    damaged = served_file(damaged=True)
    found = predict([damaged], understand([damaged]), "L4")
    assert {f.case_id for f in found.forecasts} == {RIGHT.case_id, SLOWER.case_id}
    made = forecast_document(found)
    assert made["left_out_lines"] == 1 and "line 3" in made["faults"][0]
    assert "line 3 of the file cannot be read" in forecast_report(found).sentences[0]
    assert any(note.startswith("1 of 3 cases not forecast") for note in found.notes)
    bare = dataclasses.replace(damaged, lines=tuple(x for x in damaged.lines if x not in damaged.checks))
    with pytest.raises(UserError, match="no check of it is on file"):
        predict([bare], understand([bare]), "L4")
