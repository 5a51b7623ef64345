"""Pages of figures: self-contained and escaped (`tests/browser` draws them)."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from counterplan import viz
from counterplan.errors import CounterplanError
from counterplan.viz import interactive

from ..results import FIGURES

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
