"""The report in a real browser, opened from disk: search, sort, open a case, print."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from counterplan.runs.run import CaseQuery, Run
from counterplan.viz.report import report
from counterplan.viz.report.page import ReportOptions

from ..viz.report.runs import ODD, continuous_run, discrete_run, regret_run

pytestmark = pytest.mark.slow  # in a real browser

COUNT = 130


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return discrete_run(tmp_path_factory.mktemp("run"), COUNT)


def written(run: Run, cases: int, folder: Path) -> str:
    """The address of its report."""
    path = folder / "report.html"
    path.write_text(report(run, ReportOptions(cases=cases)).html, encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def address(run: Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(run, 3, tmp_path_factory.mktemp("page"))


@pytest.fixture
def opened(address: str, page: Any) -> Any:
    page.goto(address)
    return page


def ids(page: Any) -> list[str]:
    """Of the rows that the table shows."""
    found: list[str] = page.locator("#ranking tbody td.name").all_inner_texts()
    return found


def ranked(run: Run) -> list[dict[str, Any]]:
    return run.cases(CaseQuery()).to_dicts()


def test_it_opens_from_disk(opened: Any, run: Run) -> None:
    assert opened.title() == "What should have been done differently?"
    assert ids(opened) == [row["episode_id"] for row in ranked(run)][:50]
    assert opened.locator("#ranking-status").inner_text() == f"1–50 of {len(ranked(run))}"
    pictures = opened.locator("img")
    assert pictures.count() > 6
    for number in range(pictures.count()):
        assert pictures.nth(number).evaluate("image => image.complete && image.naturalWidth > 0")
    # Nothing sticks out to the side.
    wide = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    assert opened.evaluate(wide)


def test_pages_of_the_table(opened: Any, run: Run) -> None:
    rows = [row["episode_id"] for row in ranked(run)]
    opened.get_by_role("button", name="next").click()
    assert ids(opened) == rows[50:100]
    opened.get_by_role("button", name="next").click()
    assert ids(opened) == rows[100:]
    assert opened.get_by_role("button", name="next").is_disabled()
    opened.get_by_role("button", name="previous").click()
    assert ids(opened) == rows[50:100]


def test_sorting(opened: Any, run: Run) -> None:
    rows = ranked(run)
    heading = opened.get_by_role("columnheader", name="Observed")
    heading.get_by_role("button").click()
    by_observed = sorted(rows, key=lambda row: -row["factual"])
    assert ids(opened) == [row["episode_id"] for row in by_observed][:50]
    assert heading.get_attribute("aria-sort") == "descending"
    heading.get_by_role("button").press("Enter")
    by_observed = sorted(rows, key=lambda row: row["factual"])
    assert ids(opened) == [row["episode_id"] for row in by_observed][:50]
    assert heading.get_attribute("aria-sort") == "ascending"
    opened.get_by_role("columnheader", name="#").get_by_role("button").click()
    assert ids(opened) == [row["episode_id"] for row in rows][:50]


def test_search(opened: Any, run: Run) -> None:
    opened.get_by_label("Search").fill("e12")
    wanted = [row["episode_id"] for row in ranked(run) if "e12" in row["episode_id"]]
    assert ids(opened) == wanted
    assert opened.locator("#ranking-status").inner_text().endswith(f"(of {len(ranked(run))})")
    opened.get_by_label("Search").fill("no such words")
    assert ids(opened) == []
    assert opened.locator("#ranking-status").inner_text().startswith("nothing found")
    opened.get_by_label("Search").fill("")
    opened.get_by_label("Data").select_option("seen")
    seen = [row["episode_id"] for row in ranked(run) if row["supported"]]
    assert 0 < len(seen) < len(ranked(run))
    assert ids(opened) == seen[:50]
    opened.get_by_label("cured").select_option("1")
    both = [row["episode_id"] for row in ranked(run)
            if row["supported"] and row["outcome:cured"] == "1"]  # fmt: skip
    assert ids(opened) == both[:50]


def test_names_that_are_markup_are_shown_as_they_are(opened: Any) -> None:
    for name in ODD:
        opened.get_by_label("Search").fill(name.lower())
        assert name in ids(opened)
    assert opened.locator("#ranking tbody img, #ranking tbody script").count() == 0


def test_a_case_opens_by_keyboard(opened: Any, run: Run) -> None:
    first = ranked(run)[0]
    link = opened.locator("#ranking tbody a").first
    link.focus()
    opened.keyboard.press("Enter")
    opened.wait_for_url("**#case-1")
    section = opened.locator("#case-1")
    assert section.locator("h3").inner_text() == f"1. {first['episode_id']}"
    assert section.is_visible()
    section.locator("summary").focus()
    opened.keyboard.press("Enter")
    assert section.locator("table.course tbody tr").count() == first["steps"]


def test_everything_can_be_reached_with_the_tab_key(opened: Any) -> None:
    reached = set()
    for _ in range(30):
        opened.keyboard.press("Tab")
        reached.add(
            opened.evaluate("document.activeElement.textContent + document.activeElement.id")
        )
    assert {"ranking-search", "In short"} <= reached
    assert any(text.startswith("Guaranteed") for text in reached)


def test_without_scripts_the_first_cases_are_there(browser: Any, address: str, run: Run) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(address)
    assert ids(page) == [row["episode_id"] for row in ranked(run)][:20]
    assert "This browser runs no scripts" in page.locator("noscript").inner_text()
    assert not page.locator("#ranking-controls").is_visible()
    context.close()


def printed(page: Any, folder: Path) -> list[str]:
    """The texts of the pages that come out of a printer."""
    page.pdf(path=folder / "report.pdf", prefer_css_page_size=True, print_background=True)
    if shutil.which("pdftotext") is None:
        pytest.skip("there is no pdftotext here (apt-get install poppler-utils)")
    text = subprocess.run(
        ["pdftotext", "-layout", folder / "report.pdf", "-"],
        capture_output=True, check=True, text=True,
    ).stdout  # fmt: skip
    return text.split("\f")[:-1]


def test_printing(opened: Any, tmp_path: Path) -> None:
    pages = printed(opened, tmp_path)
    assert len(pages) > 6
    assert "What should have been done differently?" in pages[0]
    # The table goes over several pages, each with its heading; what searches it is left out.
    of_table = [text for text in pages if "run (" in text or "rest (" in text]
    assert len(of_table) > 1
    heads = [text for text in pages if "Observed" in text and "Guaranteed" in text]
    assert len(heads) >= 2
    assert not any("next ▶" in text for text in pages)
    # Every case begins on a page of its own.
    for rank in (2, 3):
        starts = [text for text in pages if text.lstrip().startswith(f"{rank}. ")]
        assert len(starts) == 1, rank


@pytest.mark.parametrize("kind", ["continuous", "regret"])
def test_other_kinds_of_runs(kind: str, page: Any, tmp_path: Path) -> None:
    run = continuous_run(tmp_path, 8) if kind == "continuous" else regret_run(tmp_path)
    page.goto(written(run, 2, tmp_path))
    assert len(ids(page)) >= 5
    # Short texts stay on one line.
    lines = page.locator("#ranking tbody td.short:not(.name)").evaluate_all(
        """cells => cells.map(cell => {
          const range = document.createRange();
          range.selectNodeContents(cell);
          return range.getClientRects().length;
        })"""
    )
    assert max(lines) <= 1
    page.get_by_label("Search").fill("naïve")
    assert ids(page) == ["naïve 患者"]
    page.set_viewport_size({"width": 600, "height": 900})
    assert page.locator("#case-1").is_visible()
