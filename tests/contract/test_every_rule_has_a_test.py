"""Every rule of the contract has a test, and docs/method.md says where and how far it is kept."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "method.md"
RULES = tuple(range(1, 46))
DEVICE = (2, 3, 9, 17, 18, 22, 29, 32)
"""Rules that a GPU has to show as well."""


def names_in(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]


TESTS = {path.name: names_in(path) for path in sorted(Path(__file__).parent.glob("test_*.py"))}
NAMED = [name for names in TESTS.values() for name in names]
LINES = re.findall(r"^\| R\d+ .*$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
CELLS = [[cell.strip() for cell in line.strip("| ").split("|")] for line in LINES]
ROWS = {int(cells[0].removeprefix("R")): cells for cells in CELLS}


@pytest.mark.parametrize("rule", RULES)
def test_the_rule_has_a_test(rule: int) -> None:
    mine = [name for name in NAMED if name.startswith(f"test_r{rule:02d}_")]
    assert [name for name in mine if not name.startswith(f"test_r{rule:02d}_gpu_")]
    assert rule not in DEVICE or [n for n in TESTS["test_gpu.py"] if n.startswith(f"test_r{rule:02d}_gpu_")]


def test_no_test_names_a_rule_that_is_none() -> None:
    numbers = {int(m.group(1)) for name in NAMED if (m := re.match(r"test_r(\d+)_", name))}
    assert numbers == set(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_the_page_has_a_row_for_the_rule(rule: int) -> None:
    number, what, does, status, tests = ROWS[rule]
    assert number == f"R{rule}" and len(what) > 15 and len(does) > 15
    assert status in ("kept", "in part", "refused")
    assert re.findall(r"`([^`]+)`", tests)


def test_every_path_on_the_page_exists() -> None:
    paths = {p for p in re.findall(r"`((?:tests|src|docs)/[^`]+)`", PAGE.read_text(encoding="utf-8"))}
    assert len(paths) > 20
    missing = []
    for path in paths:
        name, _, test = path.partition("::")
        here = ROOT / name
        if not here.exists() or (test and test not in names_in(here)):
            missing.append(path)
    assert missing == []


def test_each_rules_own_module_is_named_in_its_row() -> None:
    where = {
        int(found[1]): name
        for name, names in TESTS.items()
        for test in names
        if (found := re.match(r"test_r(\d+)_(?!gpu)", test))
    }
    assert [rule for rule in RULES if f"`tests/contract/{where[rule]}`" not in ROWS[rule][4]] == []
