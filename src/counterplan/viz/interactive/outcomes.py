"""The distribution of outcomes, for screens."""

from __future__ import annotations

from typing import Any

from counterplan.viz import style
from counterplan.viz.interactive.canvas import axis, canvas, stroke
from counterplan.viz.labels import Quantity, share
from counterplan.viz.outcomes import OutcomeData, outcome_data
from counterplan.viz.style import FULL, OBSERVED_MARK, PALE, figure_function


def draw_outcomes(data: OutcomeData) -> Any:
    """Bars, those better than the observed outcome dark, others pale; the outcome as a line."""
    top = 1.05 * data.highest
    whole: dict[str, Any] = {"range": [-0.03, 1.03]} if data.quantity.percent else {}
    figure = canvas(
        330,
        barmode="stack",
        xaxis=axis(data.quantity.label, data.quantity, **whole),
        yaxis=axis(data.height_title, Quantity(percent=True), range=[0.0, top]),
    )
    better = f"better than observed: {share(data.probability_better)}"
    for height, colour, label in ((data.rest, PALE, "not better"), (data.better, FULL, better)):
        if height.any():
            figure.add_bar(
                x=data.left.tolist(), y=height.tolist(), width=data.width, offset=0.0, name=label,
                marker={"color": colour, "line": {"color": "white", "width": 0.6}},
            )  # fmt: skip
    lines = [("observed", data.observed, stroke(OBSERVED_MARK, 2.2))]
    if data.mean is not None:
        expected = {"mode": "lines", "line": {"color": style.INK, "width": 1.6}}
        lines.append(("expected", data.mean, expected))
    for name, place, look in lines:
        figure.add_scatter(x=[place, place], y=[0.0, top], name=name, **look)
    return figure


outcome_figure = figure_function(outcome_data, draw_outcomes, "outcome_figure")
