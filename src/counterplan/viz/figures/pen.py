"""The marker language for matplotlib, and texts from data."""

from __future__ import annotations

from typing import Any

from counterplan.viz import style
from counterplan.viz.lines import in_lines
from counterplan.viz.marks import Mark

# Inches of a letter for each point of its size.
LETTER = 0.0083


def pen(mark: Mark, width: float = 1.6, size: float = 5.0) -> dict[str, Any]:
    """A line with markers in a meaning's own look."""
    return {**dots(mark, size), "linestyle": mark.line, "linewidth": width}


def dots(mark: Mark, size: float = 5.0) -> dict[str, Any]:
    """Markers without a line."""
    return {"color": mark.colour, "marker": mark.marker, "markersize": size, "linestyle": "none"}


def stroke(mark: Mark, width: float = 1.4) -> dict[str, Any]:
    """A line without markers."""
    return {"color": mark.colour, "linestyle": mark.line, "linewidth": width}


def plain(text: str) -> str:
    """A text from data as it is: a dollar is no formula."""
    return text.replace("$", r"\$")


def fitted(text: str, inches: float, size: float = style.TEXT_SIZE) -> str:
    """A text from data on as many lines as it needs where there is so much room."""
    return plain("\n".join(in_lines(text, int(inches / (LETTER * size)))))
