"""Plotly figures in pages that need nothing from elsewhere.

    body = join(figure_html(first, "..."), figure_html(second, "..."))
    text = document("Title", body, css, figures_script())

The library (about 4.8 MB, the only bundle that plotly ships) is in a page once, however many
figures it has; a figure itself takes a few kB.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from counterplan.viz import style
from counterplan.viz.page import Html, document, element, join

CSS = f"""
body {{ margin: 1.5rem auto; max-width: 60rem; padding: 0 1rem; color: {style.INK};
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }}
figure {{ margin: 0 0 2rem; break-inside: avoid; }}
figcaption {{ color: {style.SOFT_INK}; font-size: 0.9rem; }}
"""


def figure_html(figure: Any, alternative: str) -> Html:
    """A place on a page that `figures_script` draws a plotly figure into; `alternative` tells it to
    those who cannot see it."""
    document_of_figure = json.loads(figure.to_json())
    text = json.dumps(document_of_figure, separators=(",", ":"), ensure_ascii=False)
    height = document_of_figure["layout"].get("height", 450)
    return element(
        "div",
        class_="plot",
        role="img",
        aria_label=alternative,
        style=f"min-height: {height}px",
        data_plot=text,
    )


@lru_cache(maxsize=1)
def figures_script() -> str:
    """The script of a page with figures: plotly's library, and what draws them with it."""
    from plotly.offline import get_plotlyjs

    own = files(__package__).joinpath("figures.js").read_text(encoding="utf-8")
    return f"{get_plotlyjs()}\n{own}"


def figures_page(figures: Mapping[str, Any], title: str = "Figures") -> str:
    """A page of figures, each under its caption."""
    shown = (
        element("figure", figure_html(figure, caption), element("figcaption", caption))
        for caption, figure in figures.items()
    )
    heading = Html("") if title in figures else element("h1", title)
    return document(title, join(heading, *shown), CSS, figures_script())
