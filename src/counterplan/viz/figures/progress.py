"""How a search closed in on the optimum, for print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplan.viz import style
from counterplan.viz.data.progress import ProgressData, progress_data
from counterplan.viz.drawn import figure_function
from counterplan.viz.figures.pen import fitted, pen, plain, stroke
from counterplan.viz.marks import BOUND, COUNTERFACTUAL, OBSERVED

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_progress(data: ProgressData) -> Figure:
    """Two staircases, the best value from below and the bound from above, the gap shaded."""
    figure, axes = style.new_axes(4.6, 3.1)
    places = data.places
    axes.fill_between(
        places, data.values, data.bounds, where=np.isfinite(data.bounds).tolist(), step="post",
        color=style.BAND, alpha=0.6, linewidth=0,
    )  # fmt: skip
    axes.axhline(data.observed, **stroke(OBSERVED), label="observed")
    for values, mark, label in (
        (data.bounds, BOUND, "bound: nothing is better"),
        (data.values, COUNTERFACTUAL, "best found so far"),
    ):
        axes.plot(
            places, values, drawstyle="steps-post", markevery=data.marked, label=label,
            **pen(mark, 1.6, 4.5),
        )  # fmt: skip
    if data.logarithmic:
        axes.set_xscale("log")
    elif len(places) == 1:  # nothing was to be searched
        axes.set_xticks(places)
    axes.set_xlabel(f"nodes expanded; {plain(data.ending)}")
    axes.set_ylabel(fitted(data.quantity.label, 2.5))
    data.quantity.label_axis(axes.yaxis)
    style.legend_above(figure)
    return figure


progress_figure = figure_function(progress_data, draw_progress, "progress_figure")
