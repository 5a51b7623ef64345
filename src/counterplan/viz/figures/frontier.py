"""What each further change brings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from counterplan.core.result import Explanation, Interval
from counterplan.viz import style
from counterplan.viz.quantity import Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def frontier_figure(
    frontier: Sequence[Explanation],
    *,
    intervals: Sequence[Interval] | None = None,
    guaranteed: Sequence[float] | None = None,
    quantity: Quantity | None = None,
) -> Figure:
    """Value of the explanation for each budget k, and the observed outcome.

    frontier    the explanations for k = 0, 1, ...
    intervals   for each k, the range of the explanation's value over all causal models
    guaranteed  for each k, the best value that some policy has in every causal model
    """
    from matplotlib.ticker import MaxNLocator

    quantity = quantity or Quantity()
    figure, axes = style.new_axes(4.6, 3.1)
    budgets = [explanation.k for explanation in frontier]
    if intervals is not None:
        axes.vlines(
            budgets,
            [interval.low for interval in intervals],
            [interval.high for interval in intervals],
            color=style.BAND,
            linewidth=min(15.0, 160.0 / len(budgets)),
            label="range over causal models",
        )
    observed = frontier[0].factual_value
    axes.axhline(
        observed, color=style.OBSERVED, linewidth=1.3, linestyle=(0, (4, 3)), label="observed"
    )
    axes.plot(
        budgets, [explanation.value for explanation in frontier], color=style.COUNTERFACTUAL,
        marker="o", markersize=6, linewidth=1.8, label="best explanation",
    )  # fmt: skip
    if guaranteed is not None:
        axes.plot(
            budgets, guaranteed, color=style.GUARANTEED, marker="D", markersize=5, linewidth=1.2,
            linestyle=":", label="guaranteed in every model",
        )  # fmt: skip
    axes.xaxis.set_major_locator(MaxNLocator(min(len(budgets), 10), integer=True))
    axes.set_xlim(budgets[0] - 0.4, budgets[-1] + 0.4)
    axes.set_xlabel("changes allowed (k)")
    axes.set_ylabel(quantity.title)
    if quantity.percent:
        axes.set_ylim(-0.03, 1.03)
    quantity.label_axis(axes.yaxis)
    style.legend_above(figure)
    return figure
