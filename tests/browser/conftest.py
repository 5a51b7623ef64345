"""A real browser: Debian's Chromium without a window, driven by playwright.

Tests are skipped, with a word why, where there is no browser. Nothing may be asked of another host,
and nothing may be complained about on the console.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
NAMES = ("chromium", "chromium-browser", "google-chrome")
# What a request reports that nobody waits for any more.
ABORTED = "net::ERR_ABORTED"
# Milliseconds: where nothing has been compiled yet, a first answer of the explorer waits for that.
PATIENCE = 120_000


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """Chromium, once for all tests here; others would find its event loop running."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (pip install counterplan[test])"
    )
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("there is no browser here (apt-get install chromium)")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=path, args=list(FLAGS))
        yield started
        started.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of a laptop's size, in which nothing goes wrong and no other host is asked."""
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    page.set_default_timeout(PATIENCE)
    problems: list[str] = []

    def request(one: Any) -> None:
        parts = urlsplit(one.url)
        if parts.scheme not in ("file", "data") and parts.hostname != "127.0.0.1":
            problems.append(f"request: {one.url}")

    def failed(one: Any) -> None:
        if one.failure != ABORTED:
            problems.append(f"failed: {one.url[:100]} {one.failure}")

    page.on("console", lambda one: problems.append(f"console {one.type}: {one.text}"))
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("dialog", lambda one: problems.append(f"dialog: {one.message}"))
    page.on("request", request)
    page.on("requestfailed", failed)
    yield page
    page.close()
    assert problems == []


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The explorer for a run of any kind, see `exploring`."""
    from .exploring import all_kinds

    with all_kinds(tmp_path_factory.mktemp) as serve:
        yield serve
