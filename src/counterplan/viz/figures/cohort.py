"""How much a cohort of cases could have been improved, for print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from counterplan.viz import style
from counterplan.viz.data.cohort import CohortData, cohort_data
from counterplan.viz.drawn import figure_function
from counterplan.viz.figures.pen import fitted, plain
from counterplan.viz.marks import FULL, PALE, STRIPES, TAIL

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_cohort(data: CohortData) -> Figure:
    """Bars, "none" apart in grey, the tail dark and striped; what is guaranteed as an outline."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = style.new_axes(4.6, 3.1)
    width = data.width
    if data.has_none:
        axes.bar(data.apart, data.none, width, color=PALE, label="no change helps")
    shape: dict[str, Any] = {
        "width": width,
        "align": "edge",
        "edgecolor": "white",
        "linewidth": 0.6,
    }
    if data.has_body:
        axes.bar(data.edges[:-1], data.body, color=FULL, label="best explanation", **shape)
    if data.has_tail:
        axes.bar(
            data.edges[:-1], data.tail, bottom=data.body, color=TAIL, hatch=STRIPES,
            label=plain(data.tail_name), **shape,
        )  # fmt: skip
    _draw_guaranteed(axes, data)
    axes.set_xlabel(fitted(data.title, 3.8))
    axes.set_ylabel(data.count_title)
    axes.set_ylim(0.0, 1.08 * data.highest)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    places, texts = zip(*data.ticks, strict=True)
    axes.set_xticks(places, texts)
    axes.set_xlim(*data.ends)
    style.legend_above(figure)
    return figure


def _draw_guaranteed(axes: Axes, data: CohortData) -> None:
    if data.sure is None:
        return
    outline: dict[str, Any] = {"color": style.GUARANTEED, "linewidth": 1.8}
    if data.has_none:
        ends = [data.apart - data.width / 2, data.apart + data.width / 2]
        axes.stairs([data.unsure], ends, **outline)
    axes.stairs(data.sure, data.edges, label="guaranteed in every model", **outline)


cohort_figure = figure_function(cohort_data, draw_cohort, "cohort_figure")
