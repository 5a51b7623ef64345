"""The distribution of outcomes, for print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplan.viz import style
from counterplan.viz.data.outcomes import OutcomeData, outcome_data
from counterplan.viz.drawn import figure_function
from counterplan.viz.figures.pen import fitted, stroke
from counterplan.viz.marks import FULL, OBSERVED, PALE
from counterplan.viz.quantity import Quantity, share

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_outcomes(data: OutcomeData) -> Figure:
    """Bars, those better than the observed outcome dark, others pale; the outcome as a line."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = style.new_axes(4.6, 3.1)
    better = f"better than observed: {share(data.probability_better)}"
    for height, bottom, colour, label in (
        (data.rest, 0.0 * data.rest, PALE, "not better"),
        (data.better, data.rest, FULL, better),
    ):
        if height.any():
            axes.bar(
                data.left, height, data.width, bottom, align="edge", color=colour, label=label,
                edgecolor="white", linewidth=0.6,
            )  # fmt: skip
    axes.axvline(data.observed, **stroke(OBSERVED, 1.6), label="observed")
    if data.mean is not None:
        axes.axvline(data.mean, color=style.INK, linewidth=1.2, label="expected")
    axes.set_xlabel(fitted(data.quantity.label, 3.8))
    # Few numbers, so that long ones do not touch.
    axes.xaxis.set_major_locator(MaxNLocator(5))
    if data.quantity.percent:
        axes.set_xlim(-0.03, 1.03)
    axes.set_ylabel(data.height_title)
    axes.set_ylim(0.0, 1.05 * data.highest)
    data.quantity.label_axis(axes.xaxis)
    Quantity(percent=True).label_axis(axes.yaxis)
    style.legend_above(figure)
    return figure


outcome_figure = figure_function(outcome_data, draw_outcomes, "outcome_figure")
