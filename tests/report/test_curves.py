"""Sections of curves and claims, from attempts to every format; the verb's `--claims`."""

from __future__ import annotations

import dataclasses
import json
import math
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from analysis.conftest import a_case, a_study, file_of, sampled
from breakeven import api
from breakeven.analysis import understand
from breakeven.analysis.findings import Understanding
from breakeven.records import file
from breakeven.records.lines import Attempt
from breakeven.report import build, charts, document, only_claims, text
from breakeven.report.html import page
from breakeven.report.markdown import markdown
from breakeven.report.view import Section
from breakeven.runner.study import read_study
from breakeven.workloads.costs import layer_costs, training_flops
from breakeven.workloads.models import model

BATCHES = (1, 2, 4, 8, 16)


def batches(tuning: str, even: float, seed: int = 0) -> list[Attempt]:
    """A GPU that takes as long for every batch, and is level with the CPU at `even` samples."""
    rng = random.Random(seed)
    return [
        sampled(
            a_case("simple-cnn", device, tuning, batch=b), i, ms * math.exp(rng.gauss(0, 0.01)), name=tuning
        )
        for b in BATCHES
        for device, ms in (("cpu", 10.0 * b), ("cuda:0", 10.0 * even))
        for i in range(3)
    ]


def cores() -> list[Attempt]:
    rng = random.Random(1)
    return [
        sampled(a_case(device=f"cpu:threads={n}"), i, 100 * (0.1 + 0.9 / n) * math.exp(rng.gauss(0, 0.01)))
        for n in (1, 2, 4, 8)
        for i in range(3)
    ]


def found(lines: Sequence[Attempt]) -> Understanding:
    cases = list({line.case_id: line.case for line in lines}.values())
    return understand([file_of(a_study(cases), list(lines))])


def section(understanding: Understanding, key: str) -> Section:
    return next(s for s in build(understanding).sections if s.key == key)


def cells(made: Section, heading: str) -> list[str]:
    assert made.table is not None
    index = [c.name for c in made.table.columns].index(heading)
    return [row[index].text for row in made.table.rows]


@pytest.fixture(scope="module")
def swept() -> Understanding:
    return found([*batches("as-written", 3.0), *batches("on-device", 0.5)])


def test_break_even_has_a_row_a_tuning_and_says_that_the_work_differs(swept: Understanding) -> None:
    made = section(swept, "break-even")
    assert cells(made, "the candidate wins") == ["above", "always, from 1 to 16"]
    assert cells(made, "break-even") == ["3.0", "-"]
    low, high = (float(x) for x in cells(made, "interval")[0].split(" to "))
    assert low <= 3.0 <= high
    assert "this is about speed only" in made.note
    assert made.table is not None and made.table.rows[0][2].evidence


def test_the_chart_marks_the_break_even(swept: Understanding) -> None:
    chart = section(swept, "break-even").chart
    assert chart is not None and chart.tunings == ("as-written", "on-device")
    (mark,) = [value for value in chart.values if value["mark"] == "crossing"]
    assert mark["batch"] == pytest.approx(3.0, rel=0.03) and mark["label"] == "break-even 3.0"
    assert len(chart.values) == 2 * len(BATCHES) + 1
    drawn = charts.svg(chart)
    assert "break-even 3.0" in drawn and "samples a step" in drawn


def test_cores_show_share_limit_and_every_number() -> None:
    understanding = found(cores())
    made = section(understanding, "cores")
    assert cells(made, "cores") == ["1, 2, 4, 8"] and cells(made, "serial share") == ["no trend"]
    (share,) = cells(made, "parallel share")
    assert share.startswith(("89", "90", "91")) and "[" in share
    assert cells(made, "limit")[0].startswith(("9", "10"))
    each = section(understanding, "cores-detail")
    assert cells(each, "speed-up")[0] == "1x" and cells(each, "serial share")[0] == "-"
    assert len(cells(each, "cores")) == 4


def test_cores_are_drawn_beside_the_law_and_the_line_of_equal_shares() -> None:
    chart = section(found(cores()), "cores").chart
    assert chart is not None
    marks = {kind: [v for v in chart.values if v["mark"] == kind] for kind in ("point", "law", "equal")}
    assert [v["cores"] for v in marks["point"]] == [1, 2, 4, 8] and marks["point"][0]["times"] == 1.0
    for mark in marks["point"][1:]:
        truth = 1 / (0.1 + 0.9 / int(mark["cores"] or 0))
        assert mark["times"] == pytest.approx(truth, rel=0.03) and "[" in str(mark["shown"])
    assert marks["law"][-1]["times"] == pytest.approx(1 / (0.1 + 0.9 / 8), rel=0.03)
    assert [(v["cores"], v["times"]) for v in marks["equal"]] == [(1, 1), (8, 8)]
    altair, drawn = pytest.importorskip("altair"), charts.spec(chart)
    assert drawn["config"].pop("background") is None
    altair.Chart.from_dict(drawn, validate=True)
    assert "Amdahl" in chart.subtitle
    two = section(found([line for line in cores() if line.device.threads in (1, 2)]), "cores").chart
    # Any law goes through two numbers of cores: none is drawn.
    assert two is not None and {v["mark"] for v in two.values} == {"point", "equal"}
    assert section(found([line for line in cores() if line.device.threads != 1]), "cores").chart is None


def test_what_the_input_allows() -> None:
    steps = {"as-written": (100.0, 45.0), "on-device": (60.0, 5.0)}
    lines = [
        sampled(a_case(device=device, tuning=tuning), i, ms, name=tuning)
        for tuning, pair in steps.items()
        for device, ms in zip(("cpu", "cuda:0"), pair, strict=True)
        for i in range(3)
    ]
    made = section(found(lines), "what-if")
    assert cells(made, "bound")[0].startswith("2.50x") and cells(made, "the bound") == ["within"]
    assert cells(made, "without it")[0].startswith("12.0x") and cells(made, "measured")[0].startswith("2.22x")


def test_every_format_takes_the_new_sections(swept: Understanding) -> None:
    report = build(swept)
    for width in (40, 80):
        assert "Where the candidate begins to win" in text(report, width=width)
    assert "## Where the candidate begins to win" in markdown(report)
    assert 'data-chart="break-even"' in page(report, swept)
    kept = json.loads(json.dumps(document(swept), allow_nan=False))
    assert {f["answer"] for f in kept["break_even"]} == {"between", "always"}


def test_claims_come_by_themselves_where_rows_decide_one() -> None:
    lines = [
        sampled(a_case("simple-cnn", d), i, ms)
        for d, ms in (("cpu", 20.0), ("cuda:0", 10.0))
        for i in range(3)
    ]
    decided = found(lines)
    made = section(decided, "claims")
    assert "confirmed" in cells(made, "verdict") and made.detail
    assert not any(s.key == "claims" for s in build(found(cores())).sections)
    alone = only_claims(found(cores()))
    assert alone.sentences == build(found(cores())).sentences and alone.sentences
    assert [s.key for s in alone.sections] == ["claims"] and "| wrong by arithmetic |" in markdown(alone)


def test_what_is_hidden_is_said_before_the_verdict() -> None:
    hiding = build(dataclasses.replace(found(cores()), hidden_cases=24))
    assert hiding.before[0] == "24 cases of an earlier study hidden: add --all."
    assert "hidden" not in " ".join(build(found(cores())).sentences)


def test_the_verb_prints_claims(tmp_path: Path) -> None:
    path = tmp_path / file.NAME
    for line in (a_study([case.case for case in cores()][:1]), *cores()):
        file.append(path, line)
    command = [sys.executable, "-m", "breakeven", "report", str(path), "--claims"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "What papers claimed" in shown and "Time of a step" not in shown
    both = subprocess.run([*command, "--published"], capture_output=True, text=True, check=False)
    assert both.returncode != 0 and "one at a time" in both.stderr and not both.stdout
    out = tmp_path / "claims.md"
    subprocess.run([*command, "-o", str(out)], capture_output=True, check=True)
    assert out.read_text().count("\n| ") > 20


@pytest.mark.slow
def test_planted_devices_show_their_break_even_and_their_serial_share(tmp_path: Path) -> None:
    """From a study through processes to the findings; the truth is that of the options.

    One sample takes the CPU 62.5 us, the launches of 13 layers the GPU 1.3 ms: level at 20.8 samples.
    """
    quiet = "input_ms=0:noise=0.01:process=0.01:cold_ms=0:drift=1"
    cpu, gpu = f"sim:cpu:gflops=1000:launch_us=0:{quiet}", f"sim:gpu:gflops=1e7:launch_us=100:{quiet}"
    head = "name: t\nmodel: simple-cnn\ntuning: on-device\nattempt_time: 1\nmax_replicates: 3\n"
    study = read_study(f"{head}device: ['{cpu}', '{gpu}']\nbatch: [4, 8, 16, 32]\ndata: cifar10\n", "t.yaml")
    api.measure(study, tmp_path / "batch")
    (finding,) = api.understand([api.read(tmp_path / "batch")]).break_even
    net = model("simple-cnn")
    even = len(layer_costs(net)) * 100e-6 * 1000e9 / training_flops(net, 1)
    assert finding.answer == "between" and finding.at == pytest.approx(even, rel=0.05)
    assert even == pytest.approx(20.8, abs=0.1)
    sweep = f"sim:cpu:step_ms=100:serial=0.2:{quiet}:threads=1..8"
    api.measure(read_study(f"{head}device: '{sweep}'\n", "t.yaml"), tmp_path / "cores")
    (law,) = api.understand([api.read(tmp_path / "cores")]).cores
    assert law.parallel is not None and law.parallel.low - 0.01 < 0.8 < law.parallel.high + 0.01
    assert law.parallel_point == pytest.approx(0.8, abs=0.02) and law.simulated
