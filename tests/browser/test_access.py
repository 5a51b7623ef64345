"""For everyone: axe-core finds nothing serious on any page, in light and in dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterplan.viz.report import report
from counterplan.viz.report.page import ReportOptions

from ..viz.report.runs import continuous_run, discrete_run, ensemble_run, regret_run
from .exploring import Served, improvable, open_case, open_list, shown

pytestmark = pytest.mark.slow  # in a real browser

axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright",
    reason="axe-playwright-python is not installed (pip install counterplan[test])",
)
SERIOUS = ("serious", "critical")
SCHEMES = ("light", "dark")


@pytest.fixture(params=SCHEMES)
def scheme(request: pytest.FixtureRequest, page: Any) -> str:
    page.emulate_media(color_scheme=request.param)
    return str(request.param)


def check(page: Any) -> None:
    """What axe-core finds, with the places."""
    found = axe.Axe().run(page).response["violations"]
    told = [
        f"{one['id']} ({one['impact']}): {node['html'][:120]} {node['failureSummary'][-160:]}"
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"][:3]
    ]
    assert told == [], "\n".join(told)


@pytest.mark.parametrize("kind", ["discrete", "members", "voyages"])
def test_lists(page: Any, served: Served, scheme: str, kind: str) -> None:
    open_list(page, served(kind))
    page.wait_for_load_state("networkidle")
    check(page)


@pytest.mark.parametrize("kind", ["discrete", "continuous", "members"])
def test_cases_and_what_if(page: Any, served: Served, scheme: str, kind: str) -> None:
    explorer = served(kind)
    open_case(page, explorer, improvable(explorer))
    shown(page)
    check(page)
    select = page.locator("table.steps select").first
    if select.count():
        select.select_option(index=1)
        shown(page)
        check(page)


@pytest.mark.parametrize("kind", ["voyages", "drives", "battery"])
def test_plans(page: Any, served: Served, scheme: str, kind: str) -> None:
    explorer = served(kind)
    open_list(page, explorer)
    page.locator("table.cases tbody td.name a").first.click()
    page.wait_for_selector("h1")
    page.wait_for_load_state("networkidle")
    check(page)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_case_that_is_not_there(browser: Any, served: Served, scheme: str) -> None:
    page = browser.new_page(color_scheme=scheme)  # its console tells of the 404
    page.goto(f"{served('discrete').url}/#/case?id=nobody")
    page.wait_for_selector(".wrong, [role=alert]")
    check(page)
    page.close()


REPORTS = {"discrete": lambda f: discrete_run(f, 60), "continuous": lambda f: continuous_run(f, 20),
           "members": ensemble_run, "voyages": regret_run}  # fmt: skip


@pytest.fixture(scope="module", params=REPORTS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    path = folder / "report.html"
    html = report(REPORTS[request.param](folder), ReportOptions(cases=2)).html
    path.write_text(html, encoding="utf-8")
    return path


def test_reports(page: Any, written: Path, scheme: str) -> None:
    page.goto(written.as_uri())
    check(page)
