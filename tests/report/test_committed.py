"""The reports of the studies in results/: opened, sorted, filtered, dark, printed, on a phone; no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from breakeven import report
from breakeven.analysis import understand
from breakeven.records import file
from breakeven.report.html import FILTER_FROM

pytestmark = pytest.mark.browser
RESULTS = Path(__file__).parents[2] / "results"
SHORT = {
    "cpu/agreement",
    "cpu/fashion-mnist",
    "cpu/load",
    "h200/full-captured",
    "h200/ladder-cpu",
    "h200/full-simple-cnn",
    "h200/resnet50-cpu",
}
"""Studies whose tables in sight are a few rows each."""
STUDIES = sorted(
    str(path.parent.relative_to(RESULTS)) for path in RESULTS.glob("**/results.jsonl") if path.is_file()
)
MOST_BYTES = 3_000_000
"""Of the page of a study as people run it."""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("committed")
    out = {}
    for name in STUDIES:
        found = understand([file.read(RESULTS / name)], show_all=True)
        out[name] = folder / f"{name.replace('/', '-')}.html"
        report.write(report.build(found), found, out[name])
    return out


def open_page(page: Any, path: Path) -> list[str]:
    """Opens it, waits for every chart and gives what went wrong or out."""
    seen: list[str] = []
    page.on("console", lambda message: seen.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: seen.append(f"error: {error}"))
    page.on("request", lambda request: seen.append(request.url))
    page.goto(path.as_uri())
    page.wait_for_function(
        "document.querySelectorAll('.chart svg').length === document.querySelectorAll('[data-chart]').length"
    )
    return [line for line in seen if line != path.as_uri()]


@pytest.mark.parametrize("name", STUDIES)
def test_it_opens_sorts_filters_and_fits_a_phone(page: Any, pages: dict[str, Path], name: str) -> None:
    assert pages[name].stat().st_size <= MOST_BYTES
    assert open_page(page, pages[name]) == []
    table = page.locator("table:visible").filter(has=page.locator("thead button")).first
    header = table.locator("thead th").last
    header.locator("button").focus()
    page.keyboard.press("Enter")
    assert header.get_attribute("aria-sort") == "ascending"
    boxes = page.locator("input[data-filter]:visible")
    long = [t for t in page.locator("table:visible").all() if t.locator("tbody tr").count() > FILTER_FROM]
    # A study of a case or two has no table in sight that is long enough to be filtered.
    assert boxes.count() == len(long) and (long or name in SHORT)
    if long:
        boxes.first.fill("no such row anywhere")
        rows = page.locator(f"#{boxes.first.get_attribute('data-filter')} tbody tr")
        assert rows.count() > 0 and not any(row.is_visible() for row in rows.all())
    page.set_viewport_size({"width": 375, "height": 800})
    page.wait_for_timeout(400)  # charts follow the window a little later
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


@pytest.mark.parametrize("name", STUDIES)
def test_words_are_readable_light_dark_and_on_paper(page: Any, pages: dict[str, Path], name: str) -> None:
    """WCAG 2: 4.5 between a text and what it stands on."""
    for scheme, media in (("light", "screen"), ("dark", "screen"), ("dark", "print")):
        page.emulate_media(color_scheme=scheme, media=media)
        open_page(page, pages[name])
        assert page.evaluate(CONTRAST) >= 4.5
        assert page.locator("nav").is_visible() == (media == "screen")
    assert len(page.pdf()) > 10_000


CONTRAST = """() => {
  const light = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map((x) => x / 255)
      .map((x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = light(getComputedStyle(document.body).backgroundColor);
  const words = [...document.querySelectorAll("h1, h2, p, td, th, li, summary, thead button, .unfold, a")];
  return Math.min(...words.filter((word) => !word.closest(".badge, .banner")).map((word) => {
    const ink = light(getComputedStyle(word).color);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  }));
}"""


def test_a_long_table_shows_its_first_rows_until_it_is_unfolded(page: Any, pages: dict[str, Path]) -> None:
    open_page(page, pages["h200/ladder"])
    button = page.locator("[data-unfold]:visible").first
    rows = page.locator(f"#{button.get_attribute('data-unfold')} tbody tr")
    every = rows.count()
    assert every > 16 and sum(row.is_visible() for row in rows.all()) == 10
    button.click()
    assert all(row.is_visible() for row in rows.all()) and button.get_attribute("aria-expanded") == "true"


def test_a_number_leads_to_the_lines_behind_it(page: Any, pages: dict[str, Path]) -> None:
    open_page(page, pages["cpu/break-even"])
    link = page.locator("td a.line:visible").first
    target = page.locator(str(link.get_attribute("href")))
    assert not target.is_visible()
    link.click()
    assert target.is_visible()
    assert "train_step/measure/r0/a0" in page.locator(f"{link.get_attribute('href')} + dd").inner_text()


def test_several_machines_are_one_page(page: Any, tmp_path: Path) -> None:
    files = [file.read(RESULTS / name) for name in ("h200/model-scale", "cpu/break-even")]
    found = understand(files)
    report.write(report.build(found), found, tmp_path / "both.html")
    assert open_page(page, tmp_path / "both.html") == []
    words = page.locator("body").inner_text()
    assert "h200/model-scale/results.jsonl" in words and "cpu/break-even/results.jsonl" in words


def test_a_notebook_shows_it_in_a_frame_of_its_own(page: Any) -> None:
    from breakeven import api

    shown = api.show(understand([file.read(RESULTS / "cpu/break-even")]))
    page.set_content(shown._repr_html_())
    frame = page.frame_locator("iframe")
    frame.locator(".chart svg").first.wait_for()
    assert frame.locator("h1").inner_text()
    assert "batch" in repr(shown)
