"""Voyages, drives and option paths in the explorer, in a real browser."""

from __future__ import annotations

from typing import Any

import pytest

from counterplan.planning.regret import regret

from ..viz.report.runs import ODD
from .exploring import Served, fits, open_list, until

pytestmark = pytest.mark.slow  # in a real browser


def revealed(page: Any) -> int:
    """How many prices are drawn."""
    return int(page.locator("section.pictures svg.chart").first.locator("g.dot.observed").count())


def lost_now(page: Any) -> float:
    return float(page.locator("#lost-now").get_attribute("data-value"))


def suggested(page: Any) -> str:
    return str(page.locator("#suggestion").inner_text().lower())


def test_step_through_a_voyage(page: Any, served: Served) -> None:
    explorer = served("voyages")
    open_list(page, explorer)
    page.get_by_role("link", name="plain", exact=True).click()
    page.wait_for_selector("#suggestion", timeout=60_000)
    run = explorer.service.run
    scenario = run.scenario("plain")
    told = regret(run.problem, scenario.observed, scenario.decisions)  # type: ignore[arg-type]
    until(page, lambda: float(page.locator("#executed").get_attribute("data-value")), told.executed)
    assert told.expected_losses is not None
    for t in range(4):
        page.wait_for_function(
            "words => document.getElementById('step-words').textContent === words",
            arg=f"decision {t + 1} of 7",
        )
        until(page, lambda: lost_now(page), told.expected_losses[t])
        advice = explorer.finished({"kind": "advise", "id": "plain", "t": t})["advice"]
        page.wait_for_function(
            "exact => Number(document.getElementById('exact')?.dataset.value) === exact",
            arg=advice["exact"],
            timeout=60_000,
        )
        until(page, lambda: suggested(page), advice["words"].lower())
        # What comes later is not shown yet.
        until(page, lambda: revealed(page), t + 1)
        if t < 3:
            page.keyboard.press("ArrowRight")
    until(page, lambda: "t=3" in page.url)
    # What was bought stands on zero.
    bought = page.locator("section.pictures svg.chart").nth(1).locator("text.tick")
    until(page, lambda: "0" in bought.all_text_contents())
    page.check("#later")
    until(page, lambda: revealed(page), 7)
    page.click("#show-hindsight")
    until(page, lambda: page.locator("#show-hindsight").get_attribute("aria-pressed"), "false")
    page.reload()
    page.wait_for_selector("#step-words")
    until(page, lambda: page.locator("#step-words").inner_text(), "decision 4 of 7")
    until(page, lambda: page.locator("#later").is_checked())
    until(page, lambda: page.locator("#show-hindsight").get_attribute("aria-pressed"), "false")
    until(page, lambda: fits(page))


@pytest.mark.parametrize("kind", ["voyages", "battery"])
def test_names_that_are_markup_are_text(page: Any, served: Served, kind: str) -> None:
    explorer = served(kind)
    marked = "document.querySelectorAll('main script, main img, main b').length"
    for name in ODD:
        open_list(page, explorer)
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_selector("#suggestion", timeout=60_000)
        until(page, lambda name=name: name in page.locator("h1").inner_text())
        assert page.evaluate(marked) == 0


@pytest.mark.parametrize("kind", ["drives", "options"])
def test_other_plans(page: Any, served: Served, kind: str) -> None:
    explorer = served(kind)
    open_list(page, explorer)
    page.get_by_role("link", name="plain", exact=True).click()
    page.wait_for_selector("#suggestion", timeout=60_000)
    page.keyboard.press("End")
    page.wait_for_function("() => document.getElementById('next').disabled")
    page.goto(f"{explorer.url}/#/scenario?id=too-much")
    page.wait_for_selector("[role=alert]")
