"""Published values in a report: beside those of equal work, refused with a reason, in text and JSON."""

from __future__ import annotations

import dataclasses
import json

import pytest

from analysis.conftest import understood
from analysis.test_published import a_case
from breakeven.analysis.findings import Understanding
from breakeven.analysis.published import published_beside
from breakeven.report import build, document, text


@pytest.fixture
def understanding() -> Understanding:
    return dataclasses.replace(understood(), cases=(a_case(856.0),))


def test_equal_work_stands_beside_and_the_rest_has_its_reason(understanding: Understanding) -> None:
    report = build(understanding, published_beside(understanding.cases))
    keys = [section.key for section in report.sections]
    assert keys[-2:] == ["published", "published-refused"]
    printed = text(report, width=80)
    assert max(map(len, printed.splitlines())) <= 80
    assert "Tesla T4" in printed
    assert "precision tf32 there, fp32 here" in printed
    assert "no comparison of devices" in " ".join(printed.split())


def test_nothing_is_said_of_publications_unless_asked(understanding: Understanding) -> None:
    assert not [s for s in build(understanding).sections if s.key.startswith("published")]
    assert "published" not in document(understanding)


def test_the_document_holds_rows_and_refusals(understanding: Understanding) -> None:
    found = json.loads(json.dumps(document(understanding, published_beside(understanding.cases))))
    assert {one["row"]["batch"] for one in found["published"]["beside"]} == {64}
    assert {one["row"]["precision"] for one in found["published"]["beside"]} == {"fp32"}
    assert sum(one["rows"] for one in found["published"]["refused"]) > 300
