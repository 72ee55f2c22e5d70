"""The format is settled: its page names every field, and files of released versions are read for ever."""

import dataclasses
import re
from pathlib import Path

import pytest

from breakeven.analysis import understand
from breakeven.records import file
from breakeven.records.case import Case, Device, Recipe, Tuning, Work
from breakeven.records.lines import KINDS, OUTCOMES, SCHEMA, Block, Epoch
from breakeven.records.profile import Gaps, Kernel, Operator

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "results-format.md").read_text(encoding="utf-8")
FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.jsonl"))


@pytest.mark.parametrize(
    "record", [*KINDS.values(), Block, Epoch, Operator, Kernel, Gaps, Work, Tuning, Recipe, Device]
)
def test_the_page_names_every_field(record: type) -> None:
    named = set(re.findall(r"`([a-z_0-9]+)`", PAGE))
    fields = {f.name for f in dataclasses.fields(record)} - {"unknown"}
    assert fields - named == set()


def test_the_page_names_every_outcome() -> None:
    assert set(OUTCOMES) <= set(re.findall(r"`([a-z_0-9]+)`", PAGE))


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_files_of_released_versions_are_read_for_ever(path: Path) -> None:
    """Never edit a fixture: it stands for the files that people have."""
    results = file.read(path)
    assert not results.torn
    assert {line.kind for line in results.lines} >= {"study", "fingerprint", "check", "attempt"}
    for attempt in results.attempts:
        case: Case = attempt.case
        assert (case.case_id, case.work_id, case.tuning_id) == (
            attempt.case_id,
            attempt.work_id,
            attempt.tuning_id,
        )
    again = b"".join(file.encode(line) for line in results.lines)
    assert again == path.read_bytes()
    found = understand([results])
    assert found.cases
    assert found.sentences


def test_there_is_a_fixture_of_every_schema() -> None:
    named = {path.stem.split("-")[1] for path in FIXTURES}
    assert named == {"1.0", SCHEMA}


def test_lines_of_the_first_schema_have_no_field_of_a_later_one() -> None:
    """Written again they are as they were, though their records have the new fields now."""
    for path in (path for path in FIXTURES if "1.0" in path.stem):
        for attempt in file.read(path).attempts:
            assert (attempt.schema, attempt.calls_ns, attempt.work.weights) == ("1.0", (), None)


def test_single_calls_are_in_the_fixture_of_schema_1_1() -> None:
    found = file.read(next(path for path in FIXTURES if "1.1" in path.stem)).attempts
    assert {a.region for a in found if a.calls_ns} == {"infer_stream"}
    assert {"ok", "oom", "output_mismatch"} <= {a.outcome for a in found}
