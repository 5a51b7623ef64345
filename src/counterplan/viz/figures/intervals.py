"""How much of each case's value rests on the causal model, for print."""

from __future__ import annotations

from typing import TYPE_CHECKING

from counterplan.viz import style
from counterplan.viz.data.intervals import IntervalData, interval_data
from counterplan.viz.drawn import figure_function
from counterplan.viz.figures.pen import dots, fitted, plain, stroke
from counterplan.viz.marks import COUNTERFACTUAL, GUARANTEED, OBSERVED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_intervals(data: IntervalData) -> Figure:
    """A row for each case: ranges as bars, the value as a circle, the guarantee as a diamond."""
    rows = data.rows
    figure, axes = style.new_axes(4.6, 1.1 + 0.17 * max(len(rows), 2), grid="x")
    _draw_ranges(axes, data)
    if data.observed is not None:
        axes.axvline(data.observed, **stroke(OBSERVED), label="observed")
    places = range(len(rows))
    axes.plot(
        [row.value for row in rows], places, **dots(COUNTERFACTUAL, 4.5), label="best explanation"
    )
    if data.guaranteed:
        values, where = zip(*data.guaranteed, strict=True)
        axes.plot(values, where, **dots(GUARANTEED, 4.0), label="guaranteed in every model")
    axes.set_yticks(places, [plain(row.label) for row in rows])
    axes.tick_params(axis="y", length=0, labelsize=style.SMALL_SIZE - 1)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(fitted(data.quantity.label, 3.0))
    if data.quantity.percent:
        axes.set_xlim(-0.03, 1.03)
    data.quantity.label_axis(axes.xaxis)
    style.legend_above(figure)
    return figure


def _draw_ranges(axes: Axes, data: IntervalData) -> None:
    axes.hlines(
        range(len(data.rows)),
        [row.interval.low for row in data.rows],
        [row.interval.high for row in data.rows],
        color=style.BAND,
        linewidth=7,
        label="range over causal models",
    )
    if data.has_stable:
        known = [(row.stable, n) for n, row in enumerate(data.rows) if row.stable is not None]
        axes.hlines(
            [place for _, place in known],
            [stable.low for stable, _ in known],
            [stable.high for stable, _ in known],
            color=style.STABLE,
            linewidth=3,
            label="range over stable ones",
        )


interval_figure = figure_function(interval_data, draw_intervals, "interval_figure")
