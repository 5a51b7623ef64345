"""How much a cohort of cases could have been improved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.quantity import Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BINS = 20


def cohort_figure(
    improvements: ArrayLike,
    *,
    guaranteed: ArrayLike | None = None,
    quantity: Quantity | None = None,
) -> Figure:
    """Histogram of the cases' improvements; those that cannot be improved stand apart, in grey.

    guaranteed  the improvement of each case that holds in every causal model, as an outline
    """
    from matplotlib.ticker import MaxNLocator

    gains = np.asarray(improvements, dtype=np.float64)
    sure = None if guaranteed is None else np.asarray(guaranteed, dtype=np.float64)
    if gains.size == 0:
        raise InputError("cohort_figure: there are no cases to draw")
    quantity = quantity or Quantity()
    top = 1.0 if quantity.percent else float(max(gains.max(), 0.0)) or 1.0
    edges = np.linspace(0.0, top, BINS + 1)
    figure, axes = style.new_axes(4.6, 3.1)
    # A bar of its own, left of zero, so that "none" is not mistaken for "a little".
    apart = -2.5 * edges[1]
    none = int((gains <= 0.0).sum())
    axes.bar(apart, none, edges[1], color=style.MUTED, label="no change helps")
    heights, _ = np.histogram(gains[gains > 0.0], edges)
    axes.bar(
        edges[:-1], heights, edges[1], align="edge", color=style.COUNTERFACTUAL,
        edgecolor="white", linewidth=0.6, label="best explanation",
    )  # fmt: skip
    if sure is not None:
        sure_heights, _ = np.histogram(sure[sure > 0.0], edges)
        unsure = [apart - edges[1] / 2, apart + edges[1] / 2]
        axes.stairs([(sure <= 0.0).sum()], unsure, color=style.GUARANTEED, linewidth=1.8)
        axes.stairs(
            sure_heights, edges, color=style.GUARANTEED, linewidth=1.8,
            label="guaranteed in every model",
        )  # fmt: skip
    axes.set_xlabel(f"improvement of the {quantity.name}")
    axes.set_ylabel("cases")
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    ticks = np.linspace(0.0, top, 6)
    quantity.label_axis(axes.xaxis)
    labels = [quantity.write(tick).replace(".0 %", " %") for tick in ticks]
    axes.set_xticks([apart, *ticks], ["none", *labels])
    style.legend_above(figure)
    return figure
