"""How much of each case's value rests on the causal model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from counterplan.core.result import Interval
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.quantity import Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class IntervalRow(NamedTuple):
    """One case: its value, the value's range over all causal models, and the best guarantee."""

    label: str
    value: float
    interval: Interval
    guaranteed: float


def interval_figure(
    rows: Sequence[IntervalRow], *, observed: float | None = None, quantity: Quantity | None = None
) -> Figure:
    """One line for each case, first case on top; `observed` is marked where all cases share it."""
    if not rows:
        raise InputError("interval_figure: there are no cases to draw")
    quantity = quantity or Quantity()
    figure, axes = style.new_axes(4.6, 1.1 + 0.17 * len(rows), grid="x")
    places = range(len(rows))
    axes.hlines(
        places,
        [row.interval.low for row in rows],
        [row.interval.high for row in rows],
        color=style.BAND,
        linewidth=7,
        label="range over causal models",
    )
    if observed is not None:
        axes.axvline(
            observed, color=style.OBSERVED, linewidth=1.3, linestyle=(0, (4, 3)), label="observed"
        )
    axes.plot(
        [row.value for row in rows], places, linestyle="", marker="o", markersize=4.5,
        color=style.COUNTERFACTUAL, label="best explanation",
    )  # fmt: skip
    axes.plot(
        [row.guaranteed for row in rows], places, linestyle="", marker="D", markersize=4,
        color=style.GUARANTEED, label="guaranteed in every model",
    )  # fmt: skip
    axes.set_yticks(places, [row.label for row in rows])
    axes.tick_params(axis="y", length=0, labelsize=style.SMALL_SIZE - 1)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(quantity.title)
    if quantity.percent:
        axes.set_xlim(-0.03, 1.03)
    quantity.label_axis(axes.xaxis)
    style.legend_above(figure)
    return figure
