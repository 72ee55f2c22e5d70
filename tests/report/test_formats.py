"""What each format promises whatever the names: width, escaping, no NaN, no formula, whole files only."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import re
import sys
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from breakeven.analysis.findings import Understanding, UnfinishedRun
from breakeven.errors import UserError
from breakeven.report import PICTURES, SUFFIXES, build, document, text, write
from breakeven.report import view as v
from breakeven.report.csv import sheet
from breakeven.report.html import page, whole
from breakeven.report.markdown import escape, markdown
from breakeven.report.names import short_devices
from breakeven.report.pictures import pictures
from breakeven.report.text import wrapped
from breakeven.report.words import amount, joules, significant
from breakeven.stats import Interval
from report.conftest import build_simulated, build_understanding, renamed

SCRIPT = "<script>alert(1)</script>"
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=120)


@settings(max_examples=60)
@given(name=NAMES, width=st.sampled_from([40, 80, 120]), which=st.sampled_from([0, 1]))
def test_no_line_is_wider_than_asked(name: str, width: int, which: int) -> None:
    made = renamed([build_understanding, build_simulated][which](), name)
    lines = text(build(made), width=width).splitlines()
    assert max(cell_len(line) for line in lines) <= width


@given(words=st.text(min_size=0, max_size=80), width=st.integers(2, 30))
def test_wrapping_loses_nothing_but_spaces(words: str, width: int) -> None:
    words = v.clean(words)
    lines = wrapped(words, width)
    assert "".join("".join(lines).split()) == "".join(words.split())
    assert all(cell_len(line) <= width for line in lines)


def test_a_long_name_breaks_at_its_marks() -> None:
    assert wrapped("models/resnet18-cifar.py:Net", 14) == ["models/", "resnet18-", "cifar.py:Net"]
    name = "_MklNativeConv2DBackpropFilterWithBias"
    assert wrapped(name, 18) == ["_MklNative", "Conv2DBackprop", "FilterWithBias"]


def test_the_longest_texts_get_the_room() -> None:
    """A name keeps its line; of the others each is wrapped to about as many lines."""
    columns = [v.label("number"), v.Column(name="short"), v.Column(name="long")]
    words = "pages of the process in host memory: libraries, data, weights and activations"
    table = v.build_table(
        columns, [(v.said("allocated peak cold"), v.said("device, allocated"), v.said(words))]
    )
    assert table is not None
    section = v.Section(key="s", title="t", table=table)
    found = v.Report(title="", banner=None, badge="", facts=(), sentences=(), sections=(section,))
    assert text(found, width=80).splitlines()[-3:] == [
        "number               short           long",
        "allocated peak cold  device,         pages of the process in host memory:",
        "                     allocated       libraries, data, weights and activations",
    ]


def test_numbers_are_never_cut(understanding: Understanding) -> None:
    shown = text(build(understanding))
    for cell in ("1.789x [1.784, 1.795]", "1 h 25 min to 1 h 30 min", "3.67 TFLOP/s"):
        assert cell in shown


def test_colour_is_asked_for(understanding: Understanding, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    report = build(understanding)
    assert "\x1b[" not in text(report)
    assert "\x1b[" in text(report, colour=True)
    assert re.sub(r"\x1b\[[0-9;]*m", "", text(report, colour=True)) == text(report)


def test_a_name_moves_no_cursor(understanding: Understanding) -> None:
    report = build(renamed(understanding, "a\x1b[31mb\u202ec\n"))
    assert not set("\x1b\u202e") & set(text(report) + markdown(report) + page(report, understanding))


def test_long_device_names_are_shortened_and_written_out_once(simulated: Understanding) -> None:
    shown = text(build(simulated))
    assert shown.count("noise=0.01") == 1
    assert "sim:gpu = sim:gpu:step_ms=2:noise=0.01" in shown


@given(st.lists(st.text(max_size=40), max_size=8))
def test_short_device_names_are_unique(labels: list[str]) -> None:
    short = short_devices(labels)
    assert len(set(short.values())) == len(short)


def test_simulated_results_say_so_everywhere(simulated: Understanding) -> None:
    report = build(simulated)
    html = page(report, simulated)
    sections = len(report.sections)
    assert report.banner and report.banner.startswith("SIMULATED")
    assert html.count('<span class="badge">simulated</span>') == sections
    assert text(report, brief=True).startswith("SIMULATED")
    shown = [section for section in report.sections if section.table is not None]
    assert markdown(report).count("(simulated)") == len(shown)
    assert all("simulated" in chart.title for chart in report.charts)


def test_real_results_carry_no_banner(understanding: Understanding) -> None:
    report = build(understanding)
    assert report.banner is None
    assert "simulated" not in page(report, understanding).split("</header>")[0].split("</style>")[1]


def test_one_simulated_case_is_counted(understanding: Understanding, simulated: Understanding) -> None:
    mixed = dataclasses.replace(
        understanding, cases=(*understanding.cases, simulated.cases[0]), simulated=True
    )
    banner = build(mixed).banner
    assert banner is not None
    assert "1 of 13 cases" in banner


def test_html_loads_nothing(understanding: Understanding) -> None:
    html = page(build(understanding), understanding)
    outside_scripts = re.sub(r"<script>.*?</script>", "", html, flags=re.DOTALL)
    assert not re.search(r"""(src|href|action)\s*=\s*["']?(?!["']?#)\S""", outside_scripts)
    assert "@import" not in html
    assert "url(" not in outside_scripts
    assert len(html.encode()) < 3_000_000


def test_html_shows_a_hostile_name_as_text(understanding: Understanding) -> None:
    hostile = renamed(understanding, SCRIPT + "\"' onmouseover=alert(1)")
    html = page(build(hostile), hostile)
    assert "alert(1)</script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    embedded = html.split('id="data">')[1].split("</script>")[0]
    findings = json.loads(json.loads(embedded)["findings"])
    assert findings["cases"][0]["case"]["work"]["model"].startswith(SCRIPT)
    assert html.lower().count("</script") == html.lower().count("<script")


def test_markdown_shows_a_hostile_name_as_text(understanding: Understanding) -> None:
    shown = markdown(build(renamed(understanding, "a|b <img> [x](javascript:1) *b*")))
    assert "a\\|b &lt;img\\> [x\\](javascript:1) \\*b\\*" in shown
    table = [line for line in shown.splitlines() if line.startswith("| a")]
    assert table


@given(NAMES)
def test_markdown_escapes_what_would_be_markup(name: str) -> None:
    escaped = escape(v.clean(name))
    assert "<" not in escaped
    assert not re.search(r"(?<!\\)(\\\\)*\|", escaped)


def test_csv_reads_back_and_runs_no_formula(understanding: Understanding) -> None:
    made = sheet(renamed(understanding, '=HYPERLINK("x"), "y"\n'))
    rows = list(csv.DictReader(io.StringIO(made, newline="")))
    assert len(rows) == len(understanding.cases)
    assert rows[0]["model"].startswith("'=HYPERLINK")
    assert float(rows[0]["step_s"]) == pytest.approx(0.0465, rel=0.01)
    failed = next(row for row in rows if row["outcomes"] == "oom=3")
    assert failed["step_s"] == failed["step_low_s"] == ""
    assert not any(value in ("nan", "inf", "None") for row in rows for value in row.values())


def test_json_has_no_nan(understanding: Understanding) -> None:
    broken = dataclasses.replace(understanding.cases[0], power_w=float("nan"), step_point_s=float("inf"))
    found = document(dataclasses.replace(understanding, cases=(broken,)))
    assert found["cases"][0]["power_w"] is None
    json.dumps(found, allow_nan=False)


def test_an_empty_study_is_still_a_report(understanding: Understanding, tmp_path: Path) -> None:
    empty = dataclasses.replace(
        understanding, cases=(), ratios=(), parity=(), scale=(), quality=(), skips=(), machines=(), study={},
        sentences=("Nothing was measured.",), ceilings=(),
    )  # fmt: skip
    report = build(empty)
    assert [section.key for section in report.sections] == ["reading"]
    for suffix in set(SUFFIXES) - set(PICTURES):
        write(report, empty, tmp_path / f"r{suffix}")
    with pytest.raises(UserError, match="no chart"):
        write(report, empty, tmp_path / "r.svg")


@pytest.mark.parametrize("suffix", [s for s in SUFFIXES if s not in PICTURES])
def test_write_makes_a_whole_file(understanding: Understanding, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"report{suffix}"
    path.write_text("old")
    write(build(understanding), understanding, path)
    starts = {".html": b"<!doctype", ".svg": b"<svg", ".png": b"\x89PNG", ".json": b"{", ".md": b"# "}
    assert path.read_bytes().startswith(starts.get(suffix, b""))
    assert path.stat().st_size > 500
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", PICTURES)
def test_every_chart_is_a_picture_of_its_own(
    understanding: Understanding, tmp_path: Path, suffix: str
) -> None:
    report = build(understanding)
    files = write(report, understanding, tmp_path / f"x{suffix}")
    assert [file.name for file in files] == [f"x-{chart.name}{suffix}" for chart in report.charts]
    assert sorted(tmp_path.iterdir()) == sorted(files)
    assert all(file.read_bytes().startswith((b"<svg", b"\x89PNG")) for file in files)


def test_a_report_of_one_chart_is_the_file_that_was_asked_for(
    understanding: Understanding, tmp_path: Path
) -> None:
    whole = build(understanding)
    one = dataclasses.replace(
        whole, sections=tuple(s for s in whole.sections if s.chart is None or s.key == "scale")
    )
    assert write(one, understanding, tmp_path / "x.svg") == (tmp_path / "x.svg",)


def test_pictures_have_names_that_a_file_may_have_and_that_no_other_has() -> None:
    values = ({"model": "a/B c"}, {"model": "a/b-c"}, {"model": "../x"}, {"model": "a/B c"}, {"model": "!"})
    chart = v.Chart(kind="ladder", name="ladder", title="Steps", alt_text="steps", values=values)
    made = pictures([chart, v.Chart(kind="scale", name="scale", title="", alt_text="", values=())])
    assert list(made) == ["ladder-a-b-c", "ladder-a-b-c-2", "ladder-x", "ladder-other", "scale"]
    assert made["ladder-a-b-c"].values == (values[0], values[3])
    assert made["ladder-a-b-c"].title == "Steps: a/B c"


def test_an_unknown_suffix_names_the_known(understanding: Understanding, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=re.escape(".html, .md, .csv")):
        write(build(understanding), understanding, tmp_path / "report.pdf")


def test_a_path_that_cannot_be_written_is_one_line(understanding: Understanding, tmp_path: Path) -> None:
    for target in (tmp_path / "no" / "report.md", tmp_path):
        with pytest.raises(UserError) as caught:
            write(build(understanding), understanding, target.with_suffix(".md") / "x.md")
        assert "\n" not in str(caught.value)
    (tmp_path / "folder.md").mkdir()
    with pytest.raises(UserError, match="cannot write"):
        write(build(understanding), understanding, tmp_path / "folder.md")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.md"]


@pytest.mark.parametrize("package", ["altair", "vl_convert"])
def test_without_the_extra_the_exact_line_is_said(
    understanding: Understanding, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=re.escape('pip install "breakeven[report]"')):
        write(build(understanding), understanding, tmp_path / "report.html")
    write(build(understanding), understanding, tmp_path / "report.md")


def test_a_section_without_lines_is_not_there(understanding: Understanding) -> None:
    keys = [section.key for section in build(dataclasses.replace(understanding, ratios=())).sections]
    assert "summary" not in keys and "ratios" not in keys
    assert "times" in keys


def test_why_a_cell_is_empty_stands_below(understanding: Understanding) -> None:
    times = next(s for s in build(understanding).sections if s.key == "times")
    assert times.table is not None
    assert times.table.missing == (
        "interval: one process (1 of 11 rows)",
        "bound by: 5 steps take too long: parts need an attempt of 33 s (1 of 11 rows)",
    )


def test_reasons_that_differ_in_their_numbers_alone_are_one() -> None:
    """Ten windows of ten lengths are one reason; quantiles of different columns are told apart."""
    columns = [v.label("case"), v.number("energy"), v.number("p90"), v.number("p99")]
    rows = [
        (
            v.said(f"c{n}"), v.absent(f"window {n}50 ms is too short" if n else "no counter"),
            v.absent("90 % takes 29"), v.absent("99 % takes 299") if n % 2 else v.said("1"),
        )
        for n in range(4)
    ]  # fmt: skip
    table = v.build_table(columns, rows)
    assert table is not None and table.missing == (
        "energy: no counter (1 of 4 rows)",
        "energy: window 150 ms is too short (3 of 4 rows; the numbers are of the first)",
        "p90: 90 % takes 29 (every row)",
        "p99: 99 % takes 299 (2 of 4 rows)",
    )
    assert [row[1].note for row in rows][2] == "window 250 ms is too short"  # a cell keeps its own


@given(st.text(max_size=60) | st.text(alphabet="x [],-1", max_size=40))
def test_a_sentence_is_kept_whole_and_escaped(sentence: str) -> None:
    made = whole(sentence)
    assert unescape(re.sub(r"</?span[^>]*>", "", made)).replace("\u00a0", " ") == sentence.replace(
        "\u00a0", " "
    )


def test_an_interval_is_never_broken() -> None:
    assert whole("resnet-18 is 6x [4, 8] as fast") == (
        '<span class="whole">resnet-18</span> is 6x\u00a0[4,\u00a08] as fast'
    )


def test_a_drawing_alone_says_whose_it_is(understanding: Understanding) -> None:
    """One model of three has shares: without a heading of its own its bars could be of any."""
    one = tuple(s for s in understanding.shares if s.case_id == understanding.shares[0].case_id)
    found = build(dataclasses.replace(understanding, shares=one))
    (chart,) = (c for c in found.charts if c.kind == "shares")
    assert chart.subtitle.startswith(f"{chart.values[0]['group']}.")


def test_an_unfinished_run_has_its_row(understanding: Understanding) -> None:
    run = UnfinishedRun(
        replicate=1, epochs=4, of=10, seconds=8.0, accuracy=0.875, ended="interrupted", evidence=("x/y",)
    )
    cases = (dataclasses.replace(understanding.cases[0], unfinished=(run,)), *understanding.cases[1:])
    found = build(dataclasses.replace(understanding, cases=cases))
    (section,) = (s for s in found.sections if s.key == "unfinished")
    assert section.table is not None
    (row,) = section.table.rows
    assert [c.text for c in row[-5:]] == ["4 of 10", "8.0 s", "2.0 s", "87.5 %", "interrupted"]
    assert row[-4].evidence == ("x/y",)
    lost = dataclasses.replace(run, epochs=None, seconds=None, reasons={"epochs": "gone", "seconds": "gone"})
    cases = (dataclasses.replace(cases[0], unfinished=(run, lost)), *cases[1:])
    found = build(dataclasses.replace(understanding, cases=cases))
    (section,) = (s for s in found.sections if s.key == "unfinished")
    assert section.table is not None
    assert [(c.text, c.note) for c in section.table.rows[1][-5:-2]] == [("-", "gone")] * 3


def test_cpu_times_are_called_orientation_and_gpu_times_are_not(understanding: Understanding) -> None:
    gpu = tuple(c for c in understanding.cases if c.case.device.kind == "cuda")
    assert "for orientation" in markdown(build(understanding))
    assert "for orientation" not in markdown(build(dataclasses.replace(understanding, cases=gpu)))


def test_every_number_names_its_lines(understanding: Understanding) -> None:
    summary = build(understanding).sections[0]
    assert summary.table is not None
    cells = [cell for row in summary.table.rows for cell in row[1:]]
    assert all(cell.evidence for cell in cells)


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (0, 2, "0"),
        (0.03141, 2, "0.031"),
        (9.96, 2, "10"),
        (312.4, 2, "312"),
        (-2.44, 2, "-2.4"),
        (1234.5, 3, "1,234"),
    ],
)
def test_significant(value: float, digits: int, shown: str) -> None:
    assert significant(value, digits) == shown


def within(low: float, estimate: float, high: float) -> Interval:
    return Interval(low=low, high=high, estimate=estimate, confidence=0.95, n=3)


@pytest.mark.parametrize(
    ("interval", "shown", "note"),
    [
        (within(0.568, 0.757, 1.010), "760 mJ [570, 1,000]", "570 mJ to 1,000 mJ"),
        (within(0.4, 1.0136, 2.6), "1 J [0.40, 2.6]", "0.40 J to 2.6 J"),
        (within(0.1700, 0.1753, 0.1808), "175 mJ", "170 mJ to 181 mJ"),
        (within(0.0320, 0.0353, 0.0389), "35.3 mJ", "32.0 mJ to 38.9 mJ"),
    ],
)
def test_energy_has_the_digits_of_its_interval(interval: Interval, shown: str, note: str) -> None:
    """Naive: three digits, 757 mJ, of what may be 565 or 1,010."""
    cell = joules(interval.estimate, "", interval)
    assert cell.text == shown and cell.sort == interval.estimate
    assert cell.note == f"95 % interval {note}, n = 3"


def test_energy_of_a_step_is_no_surer_than_the_step() -> None:
    assert joules(0.02124).text == "21.2 mJ" and joules(0.02124).note == "no interval"
    assert joules(0.02124, borne=within(0.8, 1.0, 1.25)).text == "21 mJ"
    assert amount(17_473.0, "J", borne=within(0.4, 1.0, 2.6)).text == "20 kJ"
    assert amount(17_473.0, "J", borne=within(0.995, 1.0, 1.005)).text == "17.5 kJ"


def test_amount_picks_a_prefix() -> None:
    assert amount(1.673e9, "FLOP").text == "1.67 GFLOP"
    assert amount(999.9e9, "FLOP").text == "1.00 TFLOP"
    assert amount(None, "FLOP", "not counted") == v.Cell(text="-", note="not counted")


def test_where_a_steps_time_goes_is_in_every_format(understanding: Understanding) -> None:
    report = build(understanding)
    shares = next(s for s in report.sections if s.key == "shares")
    assert shares.table is not None and shares.chart is not None
    assert "over 30% of a step" in shares.note and "over 90%" in shares.note  # thresholds beside the label
    assert all(len(line) <= 80 for line in text(report, 80).splitlines())
    row = next(r for r in shares.table.rows if r[1].text == "cuda:0" and r[2].text == "as-written")
    assert [cell.text for cell in row[3:]] == ["input", "86", "2.0", "3.0", "6.0", "2.0", "1.0"]
    assert row[3].note and row[3].evidence and sum(cell.sort for cell in row[4:]) == pytest.approx(1)  # type: ignore[misc]
    pieces = [v for v in shares.chart.values if v["group"] == "simple-cnn on cuda:0, batch 128"]
    ends = [float(v["end"] or 0) for v in pieces if v["tuning"] == "as-written"]
    assert ends == sorted(ends) and ends[-1] == pytest.approx(1)
    lines = sheet(understanding).splitlines()
    cells = dict(zip(lines[0].split(","), lines[3].split(","), strict=True))
    assert (cells["bound_by"], cells["data_wait_share"], cells["cut_share"]) == ("input", "0.86", "")
    assert document(understanding)["shares"][0]["label"] == "input"
