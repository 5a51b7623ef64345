"""Pages of figures, drawn by a real browser without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from counterplan.viz import interactive

from ..viz.results import FIGURES, ODD, discrete, sequence


def test_a_browser_draws_every_figure_without_a_network(browser: Any, tmp_path: Path) -> None:
    page_file = tmp_path / "figures.html"
    figures = {name: draw(interactive) for name, draw in FIGURES.items()}
    page_file.write_text(interactive.figures_page(figures), encoding="utf-8")
    page = browser.new_page(viewport={"width": 1100, "height": 800})
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    places = page.locator(".plot")
    assert places.count() == len(FIGURES)
    drawn_first = page.locator(".plot .main-svg").count()
    for place in places.all():
        place.scroll_into_view_if_needed()
        place.locator(".main-svg").first.wait_for(state="attached", timeout=20_000)
    assert drawn_first < page.locator(".plot .main-svg").count(), "drawn when they come into view"
    assert said == []
    assert asked == [page_file.as_uri()]
    values = page.evaluate(
        "() => document.querySelectorAll('.plot')[2].data"
        ".find((one) => one.name.startsWith('best')).y"
    )
    assert list(values) == pytest.approx(discrete()[1].values)
    assert ODD in page.locator(".plot").nth(list(FIGURES).index("interval")).inner_text()
    ends = page.evaluate("() => document.querySelectorAll('.plot')[9].data.map((one) => one.y)")
    assert ends[1][-1] == pytest.approx(sequence().value)
    page.close()
