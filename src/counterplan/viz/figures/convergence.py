"""What a planner says a state is worth, the longer it looks, for print."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING

from counterplan.viz import style
from counterplan.viz.data.convergence import BoundLine, ConvergenceData, convergence_data
from counterplan.viz.drawn import figure_function
from counterplan.viz.figures.pen import fitted, pen, plain, stroke
from counterplan.viz.marks import BOUND, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_convergence(data: ConvergenceData) -> Figure:
    """Curves with intervals between two lines that V* lies between."""
    from matplotlib.ticker import FuncFormatter

    figure, axes = style.new_axes(4.6, 3.3)
    for line, marker in ((data.upper, "v"), (data.lower, "^")):
        if line is not None:
            _draw_bound(axes, line, marker)
    if data.optimum is not None:
        axes.axhline(data.optimum, color=style.INK, linewidth=1.1, label="optimum V*")
    for curve, mark in zip(data.curves, cycle(SERIES), strict=False):
        axes.fill_between(
            curve.simulations, curve.values - curve.reach, curve.values + curve.reach,
            color=mark.colour, alpha=0.16, linewidth=0,
        )  # fmt: skip
        axes.plot(curve.simulations, curve.values, label=plain(curve.name), **pen(mark, 1.5, 4.5))
    axes.set_xscale("log")
    axes.set_xlabel("simulations")
    axes.set_ylabel(fitted(data.title, 2.5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    style.legend_above(figure)
    return figure


def _draw_bound(axes: Axes, line: BoundLine, marker: str) -> None:
    """A line with arrowheads that say on which side of it V* lies."""
    axes.axhspan(
        line.value - line.reach, line.value + line.reach, color=BOUND.colour, alpha=0.2, linewidth=0
    )
    axes.axhline(
        line.value, marker=marker, markersize=5, markevery=[0, 1], label=plain(line.name),
        **stroke(BOUND, 1.3),
    )  # fmt: skip


convergence_figure = figure_function(convergence_data, draw_convergence, "convergence_figure")
