"""The project as a whole: links, versions, pins, names, clocks, and what an import costs."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import breakeven

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "breakeven"
MODULES = sorted(SOURCE.rglob("*.py"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

FORBIDDEN_WORDS = {"Manager", "Handler", "Factory", "Helper", "Base", "Mixin", "Util", "Impl"}
HEAVY = {
    *("altair", "pandas", "playwright", "scipy", "sklearn", "vl_convert"),
    *("flax", "jax", "keras", "nncf", "onnx", "onnxruntime", "openvino", "ray", "tensorflow", "torch"),
}
CLOCKS = {
    *("time", "perf_counter", "monotonic", "process_time", "thread_time", "clock_gettime"),
    *("time_ns", "perf_counter_ns", "monotonic_ns", "process_time_ns", "thread_time_ns", "clock_gettime_ns"),
}
WALL_CLOCKS = {"time", "time_ns"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=name_of(path))


def clock_reads(tree: ast.Module, clocks: set[str]) -> Iterator[tuple[int, str]]:
    """Where a module takes one of the clocks from `time`, under whatever name."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.Import)]
    aliases = {a.asname or a.name for node in imports for a in node.names if a.name == "time"}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module="time"):
                yield from ((node.lineno, a.name) for a in node.names if a.name in {*clocks, "*"})
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in aliases and name in clocks:
                yield node.lineno, name


def imported_at_start(statements: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """The top-level packages that importing a module imports: not those in functions or for type checkers."""
    for node in statements:
        match node:
            case ast.Import():
                yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield node.lineno, module.partition(".")[0]
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                yield from imported_at_start(node.orelse)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                pass
            case _:
                for field in ("body", "orelse", "finalbody"):
                    yield from imported_at_start(getattr(node, field, []))
                for handler in getattr(node, "handlers", []):
                    yield from imported_at_start(handler.body)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(<?([^)\s>]+)", prose) + re.findall(r"^\[[^\]]+\]: *(\S+)", prose, re.MULTILINE)
    relative = [target.partition("#")[0] for target in targets if not re.match(r"[a-z]+:|#", target)]
    assert [target for target in relative if not (page.parent / target).exists()] == []


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    pages = [*PAGES, *ROOT.glob("tools/*"), ROOT / "tests" / "conftest.py"]
    code = "\n".join(
        line for page in pages for line in re.findall(r"(?:`|\(|\$ )(make [a-z]+.*)", page.read_text())
    )
    named = set(re.findall(r"\bmake ([a-z]+)", code))
    assert named - targets == set()


def test_the_version_is_one() -> None:
    citation = (ROOT / "CITATION.cff").read_text()
    assert PROJECT["version"] == breakeven.__version__
    assert f"\nversion: {breakeven.__version__}\n" in citation


def pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    rows = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in rows}


def test_every_dependency_is_pinned_within_its_range() -> None:
    extras = chain.from_iterable(PROJECT["optional-dependencies"].values())
    for requirement in map(Requirement, [*PROJECT["dependencies"], *extras]):
        assert pins()[canonicalize_name(requirement.name)] in requirement.specifier, requirement


def test_what_torch_brings_for_cuda_is_not_pinned() -> None:
    cuda = [name for name in pins() if name.startswith(("nvidia-", "cuda-", "triton"))]
    assert cuda == ["nvidia-cudnn-frontend", "nvidia-ml-py"]


@pytest.mark.parametrize("package", ["numpy==2.5.2", "torch==2.11.0"])
def test_the_ranges_admit_an_older_or_newer_machine(package: str) -> None:
    name, version = package.split("==")
    extras = PROJECT["optional-dependencies"]["torch"]
    ranges = {r.name: r.specifier for r in map(Requirement, [*PROJECT["dependencies"], *extras])}
    assert version in ranges[name]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_names_say_what_a_thing_is(path: Path) -> None:
    classes = [node.name for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
    files = [part.title() for part in re.split(r"[_/]", path.relative_to(SOURCE).with_suffix("").as_posix())]
    words = {
        word.removesuffix("s") for name in [*classes, *files] for word in re.findall("[A-Z][a-z]+", name)
    }
    assert words & FORBIDDEN_WORDS == set()


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_clocks_are_read_by_the_timing_loop(path: Path) -> None:
    """A runtime reads no clock. time.time() steps with the wall clock: no duration is taken from it."""
    forbidden = CLOCKS if path.is_relative_to(SOURCE / "runtimes") else WALL_CLOCKS
    assert list(clock_reads(tree_of(path), forbidden)) == []


UNSAFE = {"cPickle", "cloudpickle", "dill", "joblib", "marshal", "pickle", "shelve"}
YAML = {
    "compose",
    "Node",
    "ScalarNode",
    "SequenceNode",
    "MappingNode",
    "SafeLoader",
    "MarkedYAMLError",
    "reader",
}


def unsafe_reads(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Where a module may run code that a file holds: pickles, and YAML that makes objects."""
    for node in ast.walk(tree):
        match node:
            case ast.Import() | ast.ImportFrom():
                names = [alias.name for alias in node.names]
                module = getattr(node, "module", None) or ""
                yield from ((node.lineno, n) for n in [module, *names] if n.partition(".")[0] in UNSAFE)
                if module.partition(".")[0] == "yaml":
                    yield node.lineno, "from yaml"
            case ast.Attribute(value=ast.Name(id="yaml"), attr=name) if name not in YAML:
                yield node.lineno, f"yaml.{name}"
            case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="load"), keywords=keywords):
                if not any(k.arg == "weights_only" and ast.unparse(k.value) == "True" for k in keywords):
                    yield node.lineno, "torch.load"
            case ast.keyword(arg="allow_pickle", value=value) if ast.unparse(value) != "False":
                yield value.lineno, "allow_pickle"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_file_can_bring_code_with_it(path: Path) -> None:
    """CIFAR-10 and torch's state dicts are pickles: their readers admit a few harmless names."""
    readers = {SOURCE / "workloads" / name for name in ("cifar.py", "state_dict.py")}
    allowed = {"pickle"} if path in readers else set()
    assert [row for row in unsafe_reads(tree_of(path)) if row[1] not in allowed] == []


def test_a_date_is_read_in_one_place_and_only_written_down() -> None:
    """No duration and no decision comes from the wall clock."""
    users = [name_of(path) for path in MODULES if re.search(r"\bdatetime\b", path.read_text())]
    assert users == ["src/breakeven/runner/session.py"]
    assert (SOURCE / "runner" / "session.py").read_text().count("datetime") == 3  # import, now


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_heavy_packages_are_imported_in_functions(path: Path) -> None:
    """A runtime's own modules may import its framework: its `__init__` imports them in functions only."""
    inside = path.relative_to(SOURCE).parts
    own = {inside[1], "PIL"} if inside[0] == "runtimes" and len(inside) == 3 else set()
    own |= {"keras"} if "tensorflow" in own else set()
    forbidden = HEAVY if path.name == "__init__.py" else HEAVY - own
    assert [row for row in imported_at_start(tree_of(path).body) if row[1] in forbidden] == []


@pytest.mark.parametrize("module", ["breakeven.cli", "breakeven.api", "breakeven.runtimes.torch"])
def test_importing_loads_nothing_heavy(module: str) -> None:
    """The command line starts at once, and a runtime can be listed where its framework is missing."""
    code = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(loaded.stdout.split()) & HEAVY == set()


def test_the_checks_above_can_fail() -> None:
    clocks = ast.parse("import time as t\nfrom time import monotonic_ns as now\nt.perf_counter()\nt.sleep(1)")
    assert sorted(name for _, name in clock_reads(clocks, CLOCKS)) == ["monotonic_ns", "perf_counter"]
    assert list(clock_reads(clocks, WALL_CLOCKS)) == []
    unsafe = ast.parse(
        "import pickle\nfrom yaml import load\nyaml.full_load(x)\ntorch.load(x)\n"
        "torch.load(x, weights_only=False)\nnp.load(x, allow_pickle=True)\n"
        "torch.load(x, weights_only=True)\nyaml.compose(x, Loader=yaml.SafeLoader)\n"
    )
    assert sorted({line for line, _ in unsafe_reads(unsafe)}) == [1, 2, 3, 4, 5, 6]
    imports = ast.parse(
        "try:\n import torch.nn\nexcept ImportError:\n import jax\n"
        "class A:\n from scipy import stats\n"
        "def f():\n import pandas\n"
        "if TYPE_CHECKING:\n import altair\n"
    )
    assert [name for _, name in imported_at_start(imports.body)] == ["torch", "jax", "scipy"]
