"""What a planner says a state is worth, the longer it looks, for screens."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np

from counterplan.viz import style
from counterplan.viz.convergence import BoundLine, ConvergenceData, Curve, convergence_data
from counterplan.viz.interactive.canvas import HIGH, axis, canvas, faint, pen, plain
from counterplan.viz.style import BOUND_MARK, SERIES, figure_function


def draw_convergence(data: ConvergenceData) -> Any:
    """Curves with intervals between two lines that V* lies between."""
    figure = canvas(
        360,
        xaxis=axis("simulations", type="log", tickformat=",d", dtick="D2"),
        yaxis=axis(data.title, data.quantity, HIGH),
    )
    every = np.concatenate([curve.simulations for curve in data.curves])
    ends = [float(every.min()), float(every.max())]
    for line, symbol in ((data.upper, "triangle-down"), (data.lower, "triangle-up")):
        if line is not None:
            _add_bound(figure, line, ends, symbol)
    if data.optimum is not None:
        figure.add_scatter(
            x=ends, y=[data.optimum] * 2, name="optimum V*", mode="lines",
            line={"color": style.INK, "width": 1.5},
        )  # fmt: skip
    for curve, mark in zip(data.curves, cycle(SERIES), strict=False):
        _add_range(figure, curve, mark.colour)
        figure.add_scatter(
            x=curve.simulations.tolist(), y=curve.values.tolist(), name=plain(curve.name),
            **pen(mark),
        )  # fmt: skip
    return figure


def _add_range(figure: Any, curve: Curve, colour: str) -> None:
    known = np.isfinite(curve.reach)
    places, middle = curve.simulations[known], curve.values[known]
    reach = curve.reach[known]
    figure.add_scatter(
        x=[*places, *places[::-1]], y=[*(middle + reach), *(middle - reach)[::-1]], fill="toself",
        fillcolor=faint(colour, 0.16), mode="none", hoverinfo="skip", showlegend=False,
        name=f"{plain(curve.name)}, 95 %",
    )  # fmt: skip


def _add_bound(figure: Any, line: BoundLine, ends: list[float], symbol: str) -> None:
    """A line with arrowheads that say on which side of it V* lies."""
    look = pen(BOUND_MARK, 1.8, 9)
    look["marker"]["symbol"] = symbol
    figure.add_scatter(x=ends, y=[line.value] * 2, name=plain(line.name), **look)
    figure.add_hrect(
        y0=line.value - line.reach, y1=line.value + line.reach, line_width=0,
        fillcolor=faint(BOUND_MARK.colour, 0.2), layer="below",
    )  # fmt: skip


convergence_figure = figure_function(convergence_data, draw_convergence, "convergence_figure")
