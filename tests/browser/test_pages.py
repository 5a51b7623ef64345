"""The documentation opened as files: its search box works without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = """
INHERIT: {inherited}
docs_dir: {pages}
nav: []
plugins: [search, offline]
validation: {{omitted_files: ignore, not_found: ignore, anchors: ignore}}
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as `make docs` builds them, but for the reference, which takes long to collect."""
    folder = tmp_path_factory.mktemp("pages")
    settings = SETTINGS.format(inherited=ROOT / "mkdocs.yml", pages=ROOT / "docs")
    (folder / "mkdocs.yml").write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "-d", str(folder / "site")]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    return folder / "site"


@pytest.mark.slow
def test_search_works_where_pages_are_files(site: Path, page: Any) -> None:
    """The fixture `page` sees to it that no other host is asked."""
    page.goto((site / "index.html").as_uri())
    page.locator(".md-search__input").click()
    page.locator(".md-search__input").press_sequentially("exit codes")
    first = page.locator(".md-search-result__item a").first
    first.wait_for(timeout=30_000)
    assert first.get_attribute("href").startswith((site / "errors.html").as_uri())
    first.click()
    page.wait_for_url("**/errors.html*")
    assert "Errors and exit codes" in page.title()
