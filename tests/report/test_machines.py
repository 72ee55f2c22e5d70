"""Several results files in one report: which machine a row, a bar or a warning is of."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from pathlib import Path

import pytest

from breakeven.analysis import understand
from breakeven.analysis.findings import Understanding
from breakeven.records.file import read
from breakeven.report import build, machines, text
from breakeven.report.anonymity import anonymous
from breakeven.report.csv import sheet
from report.conftest import build_understanding

RESULTS = Path(__file__).parents[2] / "results"
UNIT, OTHER = "69558f4563dd3c45", "0123456789abcdef"


def _of(*paths: Path) -> Understanding:
    return understand([read(path) for path in paths])


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Understanding:
    """The same lines from two machines."""
    first = RESULTS / "cpu" / "cpu-threads" / "results.jsonl"
    second = tmp_path_factory.mktemp("other") / "results.jsonl"
    second.write_text(first.read_text(encoding="utf-8").replace(UNIT, OTHER), encoding="utf-8")
    return _of(first, second)


@pytest.fixture(scope="module")
def ladders() -> Understanding:
    return _of(*(RESULTS / place / "ladder" / "results.jsonl" for place in ("cpu", "h200")))


def test_no_two_rows_of_several_files_read_alike(twice: Understanding) -> None:
    for section in build(twice).sections:
        if section.table is None or section.table.is_list or section.key == "quality":
            continue
        keys = [i for i, column in enumerate(section.table.columns) if column.key]
        rows = [tuple(row[i].text for i in keys) for row in section.table.rows]
        assert len(set(rows)) == len(rows), section.key
        assert "case" not in [column.name for column in section.table.columns]


def test_a_mark_says_which_machine_and_folder_it_is(ladders: Understanding) -> None:
    report = build(ladders)
    shown = text(report, width=200)
    assert "@1 is AMD EPYC (cpu/ladder):" in report.sentences
    assert "@2 is NVIDIA H200, Intel(R) Xeon(R) Processor (h200/ladder):" in report.sentences
    assert "cuda:0 @2" in shown and "cuda:0 @1" not in shown
    assert all("@1: AMD EPYC" in chart.subtitle for chart in report.charts)
    assert "results.jsonl" not in report.sentences[0]


def test_one_bar_is_of_one_machine() -> None:
    charts = build(
        _of(RESULTS / "cpu/ladder/results.jsonl", RESULTS / "h200/ladder-cpu/results.jsonl")
    ).charts
    assert {"shares", "samples"} <= {chart.kind for chart in charts}
    for chart in charts:
        if chart.kind == "shares":
            begins = [(v["group"], v["tuning"], v["part"]) for v in chart.values]
            assert len(set(begins)) == len(begins)
        if chart.kind == "samples":
            assert {"cpu @1", "cpu @2"} == set(chart.devices)


def test_a_best_in_one_file_hides_no_ratio_of_another(ladders: Understanding) -> None:
    known = build_understanding()
    best = dataclasses.replace(known.ratios[0], contrast="best", source=ladders.sources[0])
    mixed = dataclasses.replace(ladders, ratios=(best, *ladders.ratios))
    table = next(s.table for s in build(mixed).sections if s.key == "summary")
    assert table is not None and len(table.rows) == 1 + len(ladders.ratios)


def test_warnings_count_within_their_file(twice: Understanding) -> None:
    warnings = build(twice).warnings
    assert warnings and all(w.startswith(("@1: ", "@2: ")) for w in warnings)
    assert all("of 8 cases" in w for w in warnings if "cases)" in w)


def test_settings_and_machines_have_a_column_each(ladders: Understanding) -> None:
    for key in ("study", "machine"):
        table = next(s.table for s in build(ladders).sections if s.key == key)
        assert table is not None
        assert [column.name for column in table.columns] == ["setting", "@1", "@2"]


def test_one_file_has_no_marks(understanding: Understanding) -> None:
    assert machines.told_apart(understanding) is understanding
    assert "@" not in text(build(understanding))


def test_anonymous_files_keep_their_marks_and_no_path(twice: Understanding) -> None:
    report = build(anonymous(twice))
    told = json.dumps([*report.facts, *report.sentences, *(c.subtitle for c in report.charts)])
    assert "@2 is AMD EPYC (results 2)" in told and "/" not in told.replace("1/s", "")


def test_a_sheet_of_several_files_names_them(twice: Understanding) -> None:
    rows = list(csv.DictReader(io.StringIO(sheet(twice))))
    assert list(dict.fromkeys(row["file"] for row in rows)) == list(twice.sources)


def test_paths_are_cut_where_they_still_differ() -> None:
    told = machines.short_paths(("a/x/ladder/results.jsonl", "b/y/ladder/results.jsonl", "y/one.jsonl"))
    assert list(told.values()) == ["x/ladder", "y/ladder", "y/one.jsonl"]
