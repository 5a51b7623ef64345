"""What each further change brings, for screens."""

from __future__ import annotations

from typing import Any

from counterplan.viz import style
from counterplan.viz.frontier import FrontierData, frontier_data
from counterplan.viz.interactive.canvas import HIGH, axis, canvas, pen, stroke
from counterplan.viz.style import (
    BOUND_MARK,
    COUNTERFACTUAL_MARK,
    GUARANTEED_MARK,
    OBSERVED_MARK,
    figure_function,
)


def draw_frontier(data: FrontierData) -> Any:
    """Values as a line over the observed outcome, the bound above them where there is a gap."""
    budgets, quantity = data.budgets.tolist(), data.quantity
    ends = [budgets[0] - 0.4, budgets[-1] + 0.4]
    more: dict[str, Any] = {"range": [-0.03, 1.03]} if quantity.percent else {}
    whole: dict[str, Any] = {"dtick": max(1, len(budgets) // 10), "range": ends, "tickformat": "d"}
    figure = canvas(
        330,
        xaxis=axis("changes allowed (k)", **whole),
        yaxis=axis(quantity.label, quantity, HIGH, **more),
    )
    if data.intervals is not None:
        low, high = data.intervals.T
        figure.add_bar(
            x=budgets, base=low.tolist(), y=(high - low).tolist(), width=0.3,
            marker={"color": style.BAND}, name="range over causal models",
            customdata=data.intervals.tolist(),
            hovertemplate="%{customdata[0]:.4~g} to %{customdata[1]:.4~g}<extra></extra>",
        )  # fmt: skip
    figure.add_scatter(x=ends, y=[data.observed] * 2, name="observed", **stroke(OBSERVED_MARK))
    if data.has_gap:
        figure.add_scatter(
            x=budgets,
            y=data.bounds.tolist(),
            name="bound: nothing is better",
            **pen(BOUND_MARK, 1.5, 9),
        )
    figure.add_scatter(
        x=budgets, y=data.values.tolist(), name=data.value_name, **pen(COUNTERFACTUAL_MARK, 2.4, 9)
    )
    if data.guaranteed is not None:
        figure.add_scatter(
            x=budgets, y=data.guaranteed.tolist(), name="guaranteed in every model",
            **pen(GUARANTEED_MARK, 1.6, 7),
        )  # fmt: skip
    return figure


frontier_figure = figure_function(frontier_data, draw_frontier, "frontier_figure")
