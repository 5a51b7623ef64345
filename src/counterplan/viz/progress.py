"""How a search closed in on the optimum: the best value known and the bound, over nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.result import Explanation
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.continuous.setting import SequenceExplanation
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.quantity import Quantity
from counterplan.viz.style import BOUND_MARK, COUNTERFACTUAL_MARK, OBSERVED_MARK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# From so many nodes on the axis is logarithmic: most happens early.
MANY = 500
MARKERS = 12


def progress_figure(found: Explanation, *, quantity: Quantity | None = None) -> Figure:
    """The search for the best sequence of a continuous problem: two staircases, the best value from
    below and the bound from above, the gap shaded."""
    if not isinstance(found, SequenceExplanation) or len(found.history) == 0:
        raise InputError(
            "progress_figure: nothing was searched node by node here; only explanations of "
            "continuous states that AStar finds have a search to show"
        )
    quantity = quantity or Quantity()
    places, values, bounds = found.history.T
    bounds = np.where(np.isfinite(bounds), bounds, np.nan)
    logarithmic = bool(places[-1] >= MANY)
    figure, axes = style.new_axes(4.6, 3.1)
    if logarithmic:
        places = np.maximum(places, 1.0)  # the start, before any node
        axes.set_xscale("log")
    elif len(places) == 1:  # nothing was to be searched
        axes.set_xticks(places)
    axes.fill_between(
        places, values, bounds, where=np.isfinite(bounds).tolist(), step="post",
        color=style.BAND, alpha=0.6, linewidth=0,
    )  # fmt: skip
    axes.axhline(found.factual_value, **OBSERVED_MARK.look(1.4, 0), label="observed")
    for heights, mark, label in (
        (bounds, BOUND_MARK, "bound: nothing is better"),
        (values, COUNTERFACTUAL_MARK, "best found so far"),
    ):
        axes.plot(
            places, heights, drawstyle="steps-post", markevery=marked(places, logarithmic),
            label=label, **mark.look(1.6, 4.5),
        )  # fmt: skip
    nodes = int(found.stats.get("nodes_expanded", found.history[-1, 0]))
    ending = f"proved optimal after {nodes:,} nodes"
    if found.gap:
        ending = f"stopped after {nodes:,} nodes, gap {quantity.write(found.gap)}"
    axes.set_xlabel(f"nodes expanded; {style.literal(ending)}")
    style.label_quantity(axes, "y", quantity, 2.5)
    style.legend_above(figure)
    return figure


def marked(places: FloatArray, logarithmic: bool) -> list[int]:
    """Moments with a marker: a few, evenly spaced, and always the last."""
    spaced = np.geomspace if logarithmic else np.linspace
    wanted = np.searchsorted(places, spaced(float(places[0]), float(places[-1]), MARKERS))
    return [*map(int, np.unique(np.minimum(wanted, len(places) - 1)))]
