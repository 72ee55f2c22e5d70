"""Text, Markdown and CSV against files a person has read. Refresh on purpose: see `refresh`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from breakeven.analysis.findings import Understanding
from breakeven.report import build, document, text
from breakeven.report.csv import sheet
from breakeven.report.markdown import markdown
from report.conftest import GOLDEN, build_simulated, build_understanding
from report.inference_study import build_inference

FORMATS: dict[str, Callable[[Understanding], str]] = {
    "txt": lambda u: text(build(u)),
    "brief.txt": lambda u: text(build(u), brief=True),
    "md": lambda u: markdown(build(u)),
    "csv": sheet,
}
STUDIES = {"study": build_understanding, "simulated": build_simulated, "inference": build_inference}


def path_of(study: str, suffix: str) -> Path:
    return GOLDEN / f"{study}.{suffix}"


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("study", STUDIES)
def test_a_format_is_as_it_was_read(study: str, suffix: str) -> None:
    expected = path_of(study, suffix).read_bytes().decode("utf-8")
    assert FORMATS[suffix](STUDIES[study]()) == expected


def test_json_holds_every_finding(understanding: Understanding) -> None:
    found = json.loads(json.dumps(document(understanding), allow_nan=False))
    assert found["schema"] == "breakeven.report/1"
    assert len(found["cases"]) == len(understanding.cases)
    assert found["cases"][0]["step_s"]["n"] == 3
    assert found["ratios"][0]["verdict"] == "faster"


def refresh() -> None:
    """Writes the golden files anew, to be read before they are committed.

    cd tests && ../.venv/bin/python -c 'from report.test_golden import refresh; refresh()'
    """
    GOLDEN.mkdir(exist_ok=True)
    for study, make in STUDIES.items():
        for suffix, form in FORMATS.items():
            path_of(study, suffix).write_bytes(form(make()).encode("utf-8"))
