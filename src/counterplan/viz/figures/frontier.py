"""What each further change brings, for print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplan.viz import style
from counterplan.viz.data.frontier import FrontierData, frontier_data
from counterplan.viz.drawn import figure_function
from counterplan.viz.figures.pen import fitted, pen, stroke
from counterplan.viz.marks import BOUND, COUNTERFACTUAL, GUARANTEED, OBSERVED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Up to so many budgets each has its number.
MOST_NUMBERS = 10


def draw_frontier(data: FrontierData) -> Figure:
    """Values as a line over the observed outcome, the bound above them where there is a gap."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = style.new_axes(4.6, 3.1)
    budgets, quantity = data.budgets, data.quantity
    _draw_ranges(axes, data)
    axes.axhline(data.observed, **stroke(OBSERVED), label="observed")
    if data.has_gap:
        axes.plot(
            budgets, data.bounds, **pen(BOUND, 1.2, 6.5), markerfacecolor="white",
            label="bound: nothing is better",
        )  # fmt: skip
    axes.plot(budgets, data.values, **pen(COUNTERFACTUAL, 1.8, 6.0), label=data.value_name)
    if data.guaranteed is not None:
        axes.plot(
            budgets, data.guaranteed, **pen(GUARANTEED, 1.2), label="guaranteed in every model"
        )
    if len(budgets) <= MOST_NUMBERS:
        axes.set_xticks(budgets)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(MOST_NUMBERS, integer=True))
    axes.set_xlim(float(budgets[0]) - 0.4, float(budgets[-1]) + 0.4)
    axes.set_xlabel("changes allowed (k)")
    axes.set_ylabel(fitted(quantity.label, 2.5))
    if quantity.percent:
        axes.set_ylim(-0.03, 1.03)
    quantity.label_axis(axes.yaxis)
    style.legend_above(figure)
    return figure


def _draw_ranges(axes: Axes, data: FrontierData) -> None:
    if data.intervals is None:
        return
    low, high = np.asarray(data.intervals).T
    axes.vlines(
        data.budgets,
        low,
        high,
        color=style.BAND,
        linewidth=min(15.0, 160.0 / len(data.budgets)),
        label="range over causal models",
    )


frontier_figure = figure_function(frontier_data, draw_frontier, "frontier_figure")
