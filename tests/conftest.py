"""What every test shares: skips with a reason, a deterministic Hypothesis, a cache of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A test machine may be slow or shared: a deadline per example would measure the machine.
# Derandomized: what failed once fails again.
settings.register_profile(
    "breakeven", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("breakeven")

# ONNX Runtime opens a line to its maker when it is imported, which a test may do before its runtime here.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Root needs --no-sandbox; the rest keep Chromium from calling home.
CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@cache
def no_gpu_reason() -> str | None:
    """Why no CUDA device can be used, or None. Asks the driver: torch takes a second to import."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "no CUDA device: nvidia-smi is not installed"
    listed = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=60, check=False)
    if listed.returncode != 0 or "GPU" not in listed.stdout:
        return f"no CUDA device: {(listed.stdout + listed.stderr).strip() or 'nvidia-smi lists none'}"
    return None


@cache
def chromium() -> str | None:
    named = os.environ.get("BREAKEVEN_CHROMIUM")
    return named or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def missing(item: pytest.Item) -> str | None:
    """Why this test can't run here, or None."""
    if item.get_closest_marker("gpu") and (reason := no_gpu_reason()):
        return reason
    if item.get_closest_marker("whole") and "whole" not in item.config.getoption("markexpr"):
        return "takes minutes: pytest -m whole"
    if item.get_closest_marker("framework") and find_spec("torch") is None:
        return "torch is not installed (make setup)"
    if item.get_closest_marker("browser"):
        if find_spec("playwright") is None:
            return "playwright is not installed (make dev)"
        if chromium() is None:
            return "no Chromium here (make browser)"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if reason := missing(item):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test writes to the user's own cache: BREAKEVEN_CACHE is a fresh folder, in child processes too.

    Data sets are read, never written, so BREAKEVEN_DATA stays where the user has it.
    """
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "breakeven"
    folder = tmp_path_factory.mktemp("breakeven-cache")
    monkeypatch.setenv("BREAKEVEN_CACHE", str(folder))
    if "BREAKEVEN_DATA" not in os.environ:
        monkeypatch.setenv("BREAKEVEN_DATA", str(user_cache / "data"))
    return folder


@pytest.fixture(scope="module")
def chromium_browser() -> Iterator[Any]:
    """This machine's Chromium, headless, driven by Playwright.

    Per module: Playwright keeps an event loop running in this thread, which a later test may want for itself.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=CHROMIUM_ARGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium_browser: Any) -> Iterator[Any]:
    """An empty page that may reach no network: a report has to work offline."""
    context = chromium_browser.new_context(offline=True)
    yield context.new_page()
    context.close()
