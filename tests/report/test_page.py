"""The HTML file in a browser without a network: light, dark, paper, phone, keyboard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from breakeven.report import build, write
from report.conftest import build_simulated, build_understanding, renamed
from report.inference_study import build_inference

pytestmark = pytest.mark.browser
NAME = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    study = build_understanding()
    for name, made in {
        "study": study, "simulated": build_simulated(), "hostile": renamed(study, NAME + "x" * 80),
        "inference": build_inference(),
    }.items():  # fmt: skip
        write(build(made), made, folder / f"{name}.html")
    return folder


@pytest.fixture
def seen(page: Any) -> list[str]:
    """What went wrong or out: console lines, page errors, requests, dialogs."""
    seen: list[str] = []
    page.on("console", lambda message: seen.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: seen.append(f"error: {error}"))
    page.on("request", lambda request: seen.append(f"request: {request.url}"))
    page.on("dialog", lambda dialog: (seen.append("dialog"), dialog.dismiss()))
    return seen


def open_page(page: Any, path: Path, *, charts: int = 3) -> None:
    """Opens it and waits for its charts, of which it has so many at least."""
    page.goto(path.as_uri())
    places = page.locator("[data-chart]").count()
    assert places >= charts
    page.wait_for_function("n => document.querySelectorAll('.chart svg').length === n", arg=places)
    # Charts are drawn twice, the second time fitted.
    page.wait_for_timeout(300)


def column(page: Any, table: str, index: int) -> list[str]:
    selector = f"#{table} tbody tr:not([hidden]) > :nth-child({index})"
    return [str(words) for words in page.locator(selector).all_inner_texts()]


@pytest.mark.parametrize("name", ["study", "simulated", "hostile", "inference"])
def test_it_opens_silently_and_asks_for_nothing(page: Any, seen: list[str], folder: Path, name: str) -> None:
    path = folder / f"{name}.html"
    open_page(page, path)
    assert seen == [f"request: {path.as_uri()}"]


def test_a_hostile_name_is_text(page: Any, folder: Path) -> None:
    open_page(page, folder / "hostile.html")
    assert page.locator("h1 + .verdict p").first.inner_text().startswith(NAME)


@pytest.mark.parametrize("width", [375, 768, 1600])
@pytest.mark.parametrize("name", ["study", "hostile", "inference"])
def test_the_page_does_not_scroll_sideways(page: Any, folder: Path, name: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    open_page(page, folder / f"{name}.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    widths = page.evaluate(
        "[...document.querySelectorAll('.chart')].map(c => [c.clientWidth, c.scrollWidth])"
    )
    assert all(inner <= outer for outer, inner in widths)


def test_charts_follow_the_window(page: Any, folder: Path) -> None:
    page.set_viewport_size({"width": 1000, "height": 800})
    open_page(page, folder / "study.html")
    before = page.evaluate("document.querySelector('.chart svg').clientWidth")
    page.set_viewport_size({"width": 500, "height": 800})
    page.wait_for_function("b => document.querySelector('.chart svg').clientWidth < 0.6 * b", arg=before)


def test_a_table_sorts_by_click_and_by_keyboard(page: Any, folder: Path) -> None:
    open_page(page, folder / "study.html")
    header = page.locator("#times-table th").nth(3)
    assert header.inner_text().startswith("step")
    header.locator("button").click()
    assert header.get_attribute("aria-sort") == "ascending"
    shown = column(page, "times-table", 4)
    assert (shown[0], shown[-1]) == ("871 us", "2.6 s")
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "descending"
    assert column(page, "times-table", 4) == shown[::-1]


def test_what_is_missing_sorts_last_both_ways(page: Any, folder: Path) -> None:
    open_page(page, folder / "study.html")
    button = page.locator("#times-table th button").nth(4)
    for _ in range(2):
        button.click()
        assert column(page, "times-table", 5)[-1] == "-"


def test_a_table_filters(page: Any, folder: Path) -> None:
    open_page(page, folder / "study.html")
    page.fill("[data-filter=times-table]", "CUDA resnet18")
    assert set(column(page, "times-table", 1)) == {"resnet18-cifar"}
    assert page.locator("[data-count=times-table]").inner_text() == "2 of 11 rows"
    page.fill("[data-filter=times-table]", "")
    assert len(column(page, "times-table", 1)) == 11


def test_dark_is_dark_and_paper_is_white(page: Any, folder: Path) -> None:
    page.emulate_media(color_scheme="dark")
    open_page(page, folder / "study.html")
    colour = "getComputedStyle(document.body).backgroundColor"
    label = "getComputedStyle(document.querySelector('.chart svg text')).fill"
    assert page.evaluate(colour) == "rgb(21, 24, 27)"
    assert page.evaluate(label) == "rgb(229, 232, 234)"
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(colour) == "rgb(255, 255, 255)"
    assert page.evaluate(label) == "rgb(0, 0, 0)"
    assert not page.locator("nav").is_visible()


def test_printing_opens_the_long_tables(page: Any, folder: Path) -> None:
    open_page(page, folder / "study.html")
    table = page.locator("#samples-table")
    assert not table.is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert table.is_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not table.is_visible()


def test_evidence_is_listed_once_and_linked(page: Any, folder: Path) -> None:
    open_page(page, folder / "study.html")
    lines = page.locator("#times-evidence dd").first
    assert not lines.is_visible()
    page.locator("#runs a[href='#times-evidence']").click()
    assert "train_step/measure/r0/a0" in lines.inner_text()


def test_data_downloads(page: Any, folder: Path) -> None:
    open_page(page, folder / "study.html")
    for kind, start in {"csv": "case_id,model", "json": "{"}.items():
        with page.expect_download() as caught:
            page.click(f"[data-download={kind}]")
        assert Path(caught.value.path()).read_text().startswith(start)


def test_every_chart_has_words_for_those_who_cannot_see_it(page: Any, folder: Path) -> None:
    open_page(page, folder / "study.html")
    labels = page.eval_on_selector_all(".chart", "charts => charts.map(c => c.getAttribute('aria-label'))")
    assert all(len(label) > 60 for label in labels)


def test_a_mark_tells_its_conditions(page: Any, folder: Path) -> None:
    page.set_viewport_size({"width": 1000, "height": 2000})
    open_page(page, folder / "study.html")
    page.locator("#scale .chart [aria-roledescription=point]").first.hover()
    tip = page.locator("#vg-tooltip-element")
    tip.wait_for(state="visible")
    assert "n = 3" in tip.inner_text()
