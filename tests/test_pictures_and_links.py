"""What pages point to or name is there, and every picture is shown by one of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import counterplan

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    path
    for kind in ("*.md", "benchmarks/*.md", "experiments/*.md", "tests/*.md", "docs/**/*.md")
    for path in ROOT.glob(kind)
)
# Inline links and pictures, in Markdown or as HTML; fragments and other hosts are left out.
TARGET = re.compile(r'(?:\]\(|src=")([^)"#\s]+)')
README_LINES = 64


def targets(page: Path) -> set[Path]:
    prose = re.sub(
        r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE
    )
    found = re.sub(r"`[^`]*`", "", prose)
    local = (name for name in TARGET.findall(found) if "://" not in name)
    return {(page.parent / name).resolve() for name in local}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert {path for path in targets(page) if not path.exists()} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_that_are_named_exist(page: Path) -> None:
    """`tests/scm/test_rows.py`, or with `::test_name` behind it."""
    text = page.read_text(encoding="utf-8")
    for name, test in re.findall(r"\b(tests/[\w/]+\.py)(?:::(?:\w+::)*(\w+))?", text):
        assert (ROOT / name).is_file(), name
        assert f"def {test}(" in (ROOT / name).read_text(encoding="utf-8") or not test, test


def test_every_picture_is_shown() -> None:
    pictures = {path for path in (ROOT / "docs" / "images").rglob("*") if path.is_file()}
    assert pictures - set().union(*map(targets, PAGES)) == set()


def test_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES


SITE = sorted(ROOT.glob("docs/**/*.md"))


@pytest.mark.parametrize("page", SITE, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_opens_with_what_it_is_for(page: Path) -> None:
    opening = page.read_text(encoding="utf-8").split("\n## ")[0]
    assert opening.startswith("# ")
    assert "\n\n*For*: " in opening


def test_the_pages_say_of_which_version_they_are() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert f"site_name: counterplan {counterplan.__version__}\n" in settings
    assert f"\nversion: {counterplan.__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "CONTRIBUTING.md"], ids=lambda path: path.name)
def test_make_targets_that_are_named_exist(path: Path) -> None:
    known = set(
        re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    )
    # `make docs reproduce PYTHON=python`: targets up to the first variable.
    calls = re.findall(
        r"(?:`|run: |^ {4,})make((?: [a-z-]+)+)(?= [A-Z]|`|\s*$)",
        path.read_text("utf-8"),
        re.MULTILINE,
    )
    named = {target for call in calls for target in call.split()}
    assert named
    assert named <= known
