"""How a search closed in on the optimum: the best value known and the bound, over nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.result import Explanation
from counterplan.core.validation import FloatArray
from counterplan.counterfactual.continuous.setting import SequenceExplanation
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.labels import Quantity
from counterplan.viz.style import (
    BOUND_MARK,
    COUNTERFACTUAL_MARK,
    OBSERVED_MARK,
    figure_function,
    fitted,
    pen,
    plain,
    stroke,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# From so many nodes on the axis is logarithmic: most happens early.
MANY = 500
MARKERS = 12


@dataclass(frozen=True, eq=False)
class ProgressData:
    """What a progress figure shows.

    nodes     (m,) expanded so far
    values    (m,) of the best sequence known by then
    bounds    (m,) that no sequence exceeds; nan where nothing is known yet
    observed  the outcome that was
    ending    how it ended, in words
    """

    nodes: FloatArray
    values: FloatArray
    bounds: FloatArray
    observed: float
    ending: str
    quantity: Quantity = field(default_factory=Quantity)

    @property
    def logarithmic(self) -> bool:
        """Whether nodes are drawn on a logarithmic axis."""
        return bool(self.nodes[-1] >= MANY)

    @property
    def places(self) -> FloatArray:
        """(m,) where the moments are drawn: the start, before any node, at 1 on a logarithm."""
        return np.maximum(self.nodes, 1.0) if self.logarithmic else self.nodes

    @property
    def marked(self) -> list[int]:
        """Moments with a marker: a few, evenly spaced, and always the last."""
        first, last = float(self.places[0]), float(self.places[-1])
        spaced = np.geomspace if self.logarithmic else np.linspace
        wanted = spaced(max(first, 1.0) if self.logarithmic else first, last, MARKERS)
        places = np.searchsorted(self.places, wanted)
        return [int(place) for place in np.unique(np.minimum(places, len(self.places) - 1))]


def progress_data(
    found: Explanation | ProgressData, *, quantity: Quantity | None = None
) -> ProgressData:
    """The course of a search for the best sequence of a continuous problem."""
    if isinstance(found, ProgressData):
        return found
    if not isinstance(found, SequenceExplanation) or len(found.history) == 0:
        raise InputError(
            "progress_figure: nothing was searched node by node here; only explanations of "
            "continuous states that AStar finds have a search to show"
        )
    nodes, values, bounds = found.history.T
    named = quantity or Quantity()
    return ProgressData(
        nodes,
        values,
        np.where(np.isfinite(bounds), bounds, np.nan),
        found.factual_value,
        _ending(found, named),
        named,
    )


def _ending(found: SequenceExplanation, quantity: Quantity) -> str:
    nodes = int(found.stats.get("nodes_expanded", found.history[-1, 0]))
    after = f"after {nodes:,} nodes"
    if found.gap == 0.0:
        return f"proved optimal {after}"
    return f"stopped {after}, gap {quantity.write(found.gap)}"


# ----------------------------------------------------------------------------------------------
# How a search closed in on the optimum, for print.


def draw_progress(data: ProgressData) -> Figure:
    """Two staircases, the best value from below and the bound from above, the gap shaded."""
    figure, axes = style.new_axes(4.6, 3.1)
    places = data.places
    axes.fill_between(
        places, data.values, data.bounds, where=np.isfinite(data.bounds).tolist(), step="post",
        color=style.BAND, alpha=0.6, linewidth=0,
    )  # fmt: skip
    axes.axhline(data.observed, **stroke(OBSERVED_MARK), label="observed")
    for values, mark, label in (
        (data.bounds, BOUND_MARK, "bound: nothing is better"),
        (data.values, COUNTERFACTUAL_MARK, "best found so far"),
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
