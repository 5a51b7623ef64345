"""Pages of figures: self-contained, escaped, and drawn by a real browser without a word."""

from __future__ import annotations

import html
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from counterplan import viz
from counterplan.errors import CounterplanError
from counterplan.viz import interactive

from ..results import FIGURES, ODD, discrete, sequence

CHROMIUM = shutil.which("chromium")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
EVIL = "\"'><script>alert(1)</script>&amp;"


def test_a_figure_is_a_piece_of_a_page_that_reads_as_it_was() -> None:
    figure = interactive.trajectory_figure(
        viz.Trajectory(*[[1.0, 2.0]] * 2, feature=EVIL)  # type: ignore[arg-type]
    )
    piece = interactive.figure_html(figure, EVIL)
    assert "<script" not in piece
    assert piece.count("<") == 2, "one element, nothing inside"
    (stored,) = re.findall(r'data-plot="([^"]*)"', piece)
    title = json.loads(html.unescape(stored))["layout"]["yaxis"]["title"]["text"]
    title = title.replace("<br>", "")  # long names are broken into lines
    assert html.unescape(title) == EVIL
    assert "<" not in title


def test_no_piece_of_a_page_names_an_address() -> None:
    for name, draw in FIGURES.items():
        piece = interactive.figure_html(draw(interactive), name)
        assert not re.search(r"https?:|//|src=|href=|url\(", piece), name


def test_the_library_is_in_a_page_once_and_nothing_else_may_run() -> None:
    figures = {name: draw(interactive) for name, draw in FIGURES.items()}
    page = interactive.figures_page(figures, "All <figures>")
    assert page.count("plotly.js v") == 1
    assert page.count("<script") == 1
    assert len(page.encode()) < 6_000_000
    assert "<title>All &lt;figures&gt;</title>" in page
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src &#x27;none&#x27;" in policy
    assert "unsafe-eval" not in policy
    assert re.search(r"script-src &#x27;sha256-[^;]*&#x27;$|script-src &#x27;sha256", policy)
    assert "<script src" not in page
    assert "<link" not in page


def test_files(tmp_path: Path) -> None:
    figure = FIGURES["frontier"](interactive)
    viz.save_figure(figure, tmp_path / "a.html", title="Frontier")
    text = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<title>Frontier</title>" in text
    with pytest.raises(CounterplanError, match=r"a plotly figure is saved as \.html"):
        viz.save_figure(figure, tmp_path / "a.png")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium on this machine")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


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
