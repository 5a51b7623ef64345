"""A real browser: Debian's Chromium without a window, driven by playwright.

Tests are skipped, with a word why, where there is no browser. Nothing may be asked of another host,
and nothing may be complained about on the console.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
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
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")


@dataclass
class Watched:
    """A page, and what went wrong in it."""

    page: Any
    problems: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Fail on any error of the console and any request to another host."""
        assert self.problems == []


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


def watch(page: Any) -> Watched:
    """Note every complaint of a page and every request that leaves this machine."""
    watched = Watched(page)

    def message(one: Any) -> None:
        if one.type in ("error", "warning"):
            watched.problems.append(f"console: {one.text}")

    def request(one: Any) -> None:
        parts = urlsplit(one.url)
        if parts.scheme not in ("file", "data", "blob", "about") and parts.hostname not in LOOPBACK:
            watched.problems.append(f"request: {one.url}")

    page.on("console", message)
    page.on("pageerror", lambda error: watched.problems.append(f"error: {error}"))
    page.on("request", request)
    page.on("requestfailed", lambda one: watched.problems.append(f"failed: {one.url[:100]}"))
    return watched


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    """A new page of a laptop's size; nothing may have gone wrong in it at the end."""
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(PATIENCE)
    found = watch(page)
    yield found
    found.check()
    page.close()


@pytest.fixture(scope="package")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The explorer for a run of any kind, see `exploring`."""
    from .exploring import all_kinds

    with all_kinds(tmp_path_factory.mktemp) as serve:
        yield serve


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page in which nothing may go wrong and nothing is asked of another host."""
    page = browser.new_page(viewport={"width": 1366, "height": 768})
    page.set_default_timeout(PATIENCE)
    problems: list[str] = []
    page.on("console", lambda one: problems.append(f"console {one.type}: {one.text}"))
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("dialog", lambda one: problems.append(f"dialog: {one.message}"))

    def request(one: Any) -> None:
        if urlsplit(one.url).hostname != "127.0.0.1":
            problems.append(f"request: {one.url}")

    def failed(one: Any) -> None:
        if one.failure != ABORTED:
            problems.append(f"failed: {one.url} {one.failure}")

    page.on("request", request)
    page.on("requestfailed", failed)
    yield page
    page.close()
    assert problems == []
