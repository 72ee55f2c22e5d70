"""Files for other tools: each is read by the tool itself, or by the schema that its documentation states."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import jsonschema
import pytest

from breakeven.analysis.findings import Understanding
from breakeven.report import build, write
from breakeven.report.exports import github_action
from report.inference_study import build_inference

# github-action-benchmark's README, "Custom benchmark": an array of objects; `range` and `extra` are optional.
CUSTOM = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["name", "unit", "value"],
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "unit": {"type": "string"},
            "value": {"type": "number", "exclusiveMinimum": 0},
            "range": {"type": "string"},
            "extra": {"type": "string"},
        },
        "additionalProperties": False,
    },
}


def stored(made: Understanding, folder: Path) -> str:
    """Our file where pytest-benchmark keeps its own; the folder as its `--storage` names it."""
    machine = folder / "Linux-CPython-3.13-64bit"
    machine.mkdir(parents=True)
    write(build(made), made, machine / "0001_study.json", form="pytest-benchmark")
    return f"file://{folder}"


def compared(
    made: Understanding, folder: Path, monkeypatch: pytest.MonkeyPatch, *options: str
) -> list[dict[str, str]]:
    """What `pytest-benchmark compare` makes of our file, as the rows of its CSV."""
    from pytest_benchmark.cli import main

    sheet = folder / "compared.csv"
    storage = stored(made, folder / "kept")
    asked = ["pytest-benchmark", "--storage", storage, "compare", "0001", f"--csv={sheet}", *options]
    monkeypatch.setattr("sys.argv", asked)
    main()
    with sheet.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("group", ["group", "param:model", "param:device", "func", "fullname"])
def test_pytest_benchmark_compares_our_file(
    understanding: Understanding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    rows = compared(understanding, tmp_path, monkeypatch, f"--group-by={group}")
    timed = [c for c in understanding.cases if c.samples_s]
    assert len(rows) == len(timed)
    assert sorted(int(row["rounds"]) for row in rows) == sorted(len(c.samples_s) for c in timed)
    assert sorted(float(row["min"]) for row in rows) == pytest.approx(sorted(min(c.samples_s) for c in timed))


def test_pytest_benchmark_takes_inference_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = build_inference()
    rows = compared(made, tmp_path, monkeypatch, "--sort=name", "--columns=min,ops,rounds")
    assert len(rows) == len([c for c in made.cases if c.samples_s])


def test_github_action_benchmark_gets_what_its_documentation_asks_for(understanding: Understanding) -> None:
    for made in (understanding, build_inference()):
        entries = json.loads(json.dumps(github_action(made), allow_nan=False))
        jsonschema.validate(entries, CUSTOM)
        names = [entry["name"] for entry in entries]
        # A chart of that action is one name over commits: two entries of one name would be drawn as one.
        assert entries and len(set(names)) == len(names)
