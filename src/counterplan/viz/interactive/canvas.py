"""The drawing conventions and the marker language for plotly."""

from __future__ import annotations

from html import escape
from typing import Any

from counterplan.viz import style
from counterplan.viz.labels import Quantity
from counterplan.viz.style import Mark, in_lines

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
TEXT, SMALL = 13, 11
# Letters that fit below a figure, beside it, and beside a panel of it.
BROAD, HIGH, LOW = 90, 30, 14


def canvas(height: int, **layout: Any) -> Any:
    """An empty figure, as wide as its place on the page and this many pixels high."""
    import plotly.graph_objects as go

    figure = go.Figure()
    dress(figure, height)
    figure.update_layout(**layout)
    return figure


def dress(figure: Any, height: int) -> None:
    """The shared look. The template is empty: with plotly's own, every figure would carry it."""
    figure.update_layout(
        template="none",
        height=height,
        autosize=True,
        paper_bgcolor="white",
        plot_bgcolor="white",
        font={"family": FONT, "size": TEXT, "color": style.INK},
        # Room for the buttons above the legend.
        margin={"l": 56, "r": 16, "t": 60, "b": 44},
        legend={
            "orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom",
            "traceorder": "normal",
        },
        # Plotly leaves it out where there is a single entry.
        showlegend=True,
        hoverlabel={"bgcolor": "white", "font": {"color": style.INK}},
        hovermode="closest",
        barmode="overlay",
    )  # fmt: skip


def axis(
    title: str = "", quantity: Quantity | None = None, letters: int = BROAD, **more: Any
) -> dict[str, Any]:
    """An axis with this title in lines of so many letters, its numbers written in the way of a
    quantity."""
    shape = {
        "title": {"text": "<br>".join(map(plain, in_lines(title, letters))), "standoff": 8},
        "gridcolor": style.GRID,
        "linecolor": style.MUTED,
        "tickcolor": style.MUTED,
        "tickfont": {"size": SMALL, "color": style.SOFT_INK},
        "ticks": "outside",
        "showline": True,
        "zeroline": False,
        "automargin": True,
        "tickformat": ".3~%" if quantity is not None and quantity.percent else ",.6~g",
    }
    return {**shape, **more}


def pen(mark: Mark, width: float = 2.0, size: float = 7.0) -> dict[str, Any]:
    """A line with markers in a meaning's own look."""
    return {**dots(mark, size), **stroke(mark, width), "mode": "lines+markers"}


def dots(mark: Mark, size: float = 8.0) -> dict[str, Any]:
    """Markers without a line."""
    marker = {"color": mark.colour, "symbol": mark.symbol, "size": size}
    return {"mode": "markers", "marker": marker}


def stroke(mark: Mark, width: float = 2.0) -> dict[str, Any]:
    """A line without markers."""
    return {
        "mode": "lines",
        "line": {"color": mark.colour, "dash": mark.dash, "width": width},
    }


def plain(text: str) -> str:
    """A text from data as it is: plotly reads some markup, and dollars as formulas."""
    return escape(text, quote=False).replace("$", "&#36;")


def faint(colour: str, share: float) -> str:
    """A colour that lets through what lies below it."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{share:g})"
