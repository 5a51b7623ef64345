"""How a search closed in on the optimum, for screens."""

from __future__ import annotations

from typing import Any

from counterplan.viz import style
from counterplan.viz.interactive.canvas import HIGH, axis, canvas, faint, pen, stroke
from counterplan.viz.progress import ProgressData, progress_data
from counterplan.viz.style import (
    BOUND_MARK,
    COUNTERFACTUAL_MARK,
    OBSERVED_MARK,
    Mark,
    figure_function,
)


def draw_progress(data: ProgressData) -> Any:
    """Two staircases, the best value from below and the bound from above, the gap shaded."""
    places = data.places.tolist()
    scale: dict[str, Any] = (
        {"type": "log", "tickformat": ",d", "dtick": "D2"} if data.logarithmic else {}
    )
    figure = canvas(
        330,
        hovermode="x unified",
        xaxis=axis(f"nodes expanded; {data.ending}", **scale),
        yaxis=axis(data.quantity.label, data.quantity, HIGH),
    )
    figure.add_scatter(
        x=[places[0], places[-1]], y=[data.observed] * 2, name="observed", **stroke(OBSERVED_MARK)
    )
    figure.add_scatter(
        x=places, y=data.values.tolist(), name="best found so far",
        **_staircase(data, COUNTERFACTUAL_MARK),
    )  # fmt: skip
    figure.add_scatter(
        x=places, y=data.bounds.tolist(), name="bound: nothing is better", fill="tonexty",
        fillcolor=faint(style.BAND, 0.5), **_staircase(data, BOUND_MARK),
    )  # fmt: skip
    return figure


def _staircase(data: ProgressData, mark: Mark) -> dict[str, Any]:
    """A line of steps with markers at some moments only."""
    look = pen(mark)
    marked = set(data.marked)
    look["marker"]["size"] = [9 if place in marked else 0 for place in range(len(data.nodes))]
    look["marker"]["opacity"] = 1.0
    look["line"]["shape"] = "hv"
    return look


progress_figure = figure_function(progress_data, draw_progress, "progress_figure")
