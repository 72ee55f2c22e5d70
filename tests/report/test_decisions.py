"""`compare`, `advise` and `report --price` as commands on the committed results; README tells the truth."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
H200, PRICES = "results/h200/model-scale", "docs/prices.yaml"


def breakeven(*words: str, **changes: str) -> subprocess.CompletedProcess[str]:
    environ = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "FORCE_COLOR")}
    environ |= changes
    return subprocess.run(
        [sys.executable, "-m", "breakeven", *words],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False, env=environ,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def shown() -> list[tuple[str, list[str]]]:
    """Commands on committed results that the README shows with their output, and that output in chunks."""
    blocks = re.findall(
        r"```console\n(\$ breakeven \w+ results/.*?)```", (ROOT / "README.md").read_text(), re.DOTALL
    )
    split = [block.partition("\n") for block in blocks]
    return [(first.removeprefix("$ breakeven "), rest.split("...\n")) for first, _, rest in split]


@pytest.mark.parametrize(
    ("command", "chunks"), shown(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_the_readme_shows_what_the_command_prints(command: str, chunks: list[str]) -> None:
    printed = breakeven(*shlex.split(command)).stdout
    place = 0
    for chunk in filter(None, chunks):
        found = printed.find(chunk, place)
        assert found >= 0, f"not in the output of {command}:\n{chunk}"
        place = found + len(chunk)


def test_a_terminal_without_the_characters_is_spoken_to_plainly() -> None:
    done = breakeven("report", H200, PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "Traceback" not in done.stderr
    told = breakeven("report", H200, PYTHONIOENCODING="utf-8").stdout
    assert "\u00b1" in told and done.stdout == told.replace("\u00b1", "+/-")


def test_the_readme_shows_two_pieces_of_advice() -> None:
    assert [command.split()[:2] for command, _ in shown()] == [
        ["advise", H200], ["advise", "results/cpu/cpu-threads"],
    ]  # fmt: skip


def test_advice_as_json_cites_lines_that_are_there() -> None:
    done = breakeven("advise", H200, "--price", PRICES, "--co2", "400", "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["schema"] == "breakeven.advice/1"
    lines = (ROOT / H200 / "results.jsonl").read_text().splitlines()
    ids = {a["case_id"] for line in lines if (a := json.loads(line))["kind"] == "attempt"}
    for advice in found["advice"]:
        assert advice["choice"]["device_label"] == "cuda:0" and advice["currency"] == "EUR"
        assert {line.partition("/")[0] for line in advice["evidence"]} <= ids and advice["evidence"]
        price = advice["choice"]["seconds_point"] * 4.5 / 3600
        assert advice["choice"]["cost"] == pytest.approx(price)


def test_a_report_with_prices_says_what_a_case_costs() -> None:
    printed = breakeven("report", H200, "--price", PRICES).stdout
    assert "What it costs" in printed and "a run" in printed
    assert "What it costs" not in breakeven("report", H200).stdout


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("advise", H200, "--for", "fun"), 2, "--for takes train or infer"),
        (("advise", H200, "--max-p99", "soon"), 2, "--max-p99: not a duration"),
        (("advise", H200, "--max-p99", "20"), 2, "--max-p99: not a duration without its unit: '20'"),
        (("advise", H200, "--max-accuracy-drop", "0.5"), 2, "(such as 0.5%)"),
        (("advise", H200, "--accuracy", "0.9"), 2, "--accuracy: not a share without its unit"),
        (("advise", H200, "--max-memory", "8"), 2, "--max-memory: not a size"),
        (("advise", H200, "--for", "infer"), 1, "no case to infer"),
        (("advise", H200, "--price", "none.yaml"), 1, "cannot read none.yaml"),
        (("compare", H200, "--by", "runtime"), 1, "one runtime of each work"),
        (("compare", H200, "results/cpu/ladder"), 1, "no case in common"),
        (("compare", H200, "--by", "tuning", "-o", "/tmp/x.svg"), 1, "written as .html, .md, .txt"),
    ],
)
def test_a_wrong_command_is_one_line(words: tuple[str, ...], status: int, says: str) -> None:
    done = breakeven(*words)
    assert done.returncode == status and says in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_file_against_itself_is_no_comparison() -> None:
    done = breakeven("compare", H200, H200, "--json")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and "both sides hold the same measurements" in done.stderr
