"""The gate of this project's own continuous integration: two simulated runs, the same and a fifth slower."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

STUDY = """\
name: gate
model: [simple-cnn, resnet18]
device: sim:gpu:step_ms=2:process=0.01
data: digits
tuning: [on-device]
replicates: 3
max_replicates: 3
attempt_time: 2
"""


def breakeven(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "breakeven", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        env={**os.environ, **environ},
    )


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_gate_passes_the_same_again_and_fails_a_planted_fifth(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text(STUDY)
    for name, seed, factor in (("base", "0", "1"), ("same", "1", "1"), ("slow", "2", "1.2")):
        run = breakeven(
            tmp_path, "run", "gate.yaml", "-q", "-o", name, "--set", f"order_seed={seed}",
            BREAKEVEN_SIM_SLOWER=factor,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
    gate = ("--fail-if-slower", "5%")
    same = breakeven(tmp_path, "compare", "base", "same", *gate)
    assert same.returncode == 0, same.stdout
    assert "PASSED" in same.stdout and "SIMULATED" in same.stdout
    slow = breakeven(tmp_path, "compare", "base", "slow", *gate, "--json", "-o", "summary.md")
    found = json.loads(slow.stdout)
    assert slow.returncode == 4 and found["passed"] is False
    assert len(found["gate"]["failed"]) == 2
    for row in found["cases"]:
        assert row["verdict"] == "slower" and 0.15 < row["slower_by"] < 0.25
    summary = (tmp_path / "summary.md").read_text()
    assert "| model |" in summary and "FAILED" in summary
    # Fresh processes alone decide: without the planted slowdown the suspects are cleared, with it they stay.
    cleared = breakeven(tmp_path, "compare", "base", "slow", *gate, "--confirm", "-q")
    assert cleared.returncode == 0 and "none was confirmed" in cleared.stdout, cleared.stderr
    kept = breakeven(
        tmp_path, "compare", "base", "slow", *gate, "--confirm", "-q", BREAKEVEN_SIM_SLOWER="1.2"
    )
    assert kept.returncode == 4 and "confirmed slower" in kept.stdout, kept.stderr
    assert sorted(path.name for path in (tmp_path / "slow").glob("confirm-*")) == ["confirm-1", "confirm-2"]


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("a",), 2, "BASE and NEW"),
        (("a", "b", "--by", "speed"), 2, "--by takes"),
        (("a", "b", "--by", "device"), 2, "within one RESULTS"),
        (("a", "b", "--strict"), 2, "add --fail-if-slower"),
        (("a", "b", "--fail-if-slower", "5"), 2, "not a share"),
        (("a", "b", "--fail-if-slower", "0%"), 2, "exactly 0"),
        (("a", "b", "--fail-if-slower", "5%"), 1, "no results at a"),
    ],
)
def test_a_wrong_command_is_one_line(tmp_path: Path, words: tuple[str, ...], status: int, says: str) -> None:
    done = breakeven(tmp_path, "compare", *words)
    assert done.returncode == status and says in " ".join(done.stderr.split())
    assert len(done.stderr.strip().splitlines()) == 1
