"""The distribution of the counterfactual outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.quantity import Quantity

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Values are drawn apart if so many of them, evenly spaced, would fill the plot.
MOST_BARS = 60
BINS = 25


def outcome_figure(
    outcomes: ArrayLike,
    observed: float,
    *,
    probabilities: ArrayLike | None = None,
    mean: float | None = None,
    quantity: Quantity | None = None,
) -> Figure:
    """How likely each counterfactual outcome is; those better than the observed one in colour.

    outcomes       values of an exact distribution, or sampled outcomes
    probabilities  of the values; None where the outcomes are samples
    mean           marked if given, e.g. the explanation's value
    """
    quantity = quantity or Quantity()
    values, weights = _distribution(outcomes, probabilities)
    better = values > observed
    left, width = _bars(values, observed)
    bar = np.searchsorted(left, values, side="right") - 1
    figure, axes = style.new_axes(4.6, 3.1)
    bottom = np.zeros(len(left))
    for chosen, colour, label in (
        (~better, style.MUTED, "not better"),
        (better, style.COUNTERFACTUAL, "better than observed"),
    ):
        height = np.bincount(bar[chosen], weights=weights[chosen], minlength=len(left))
        if chosen.any():
            axes.bar(
                left, height, width, bottom, align="edge", color=colour, label=label,
                edgecolor="white", linewidth=0.6,
            )  # fmt: skip
        bottom += height
    axes.axvline(
        observed, color=style.OBSERVED, linewidth=1.6, linestyle=(0, (4, 3)), label="observed"
    )
    if mean is not None:
        axes.axvline(mean, color=style.INK, linewidth=1.2, label="expected")
    axes.set_xlabel(quantity.title)
    axes.set_ylabel("probability")
    quantity.label_axis(axes.xaxis)
    Quantity(percent=True).label_axis(axes.yaxis)
    style.legend_above(figure)
    return figure


def _distribution(
    outcomes: ArrayLike, probabilities: ArrayLike | None
) -> tuple[FloatArray, FloatArray]:
    """Distinct finite outcomes in ascending order with their probabilities."""
    values = np.asarray(outcomes, dtype=np.float64)
    if values.size == 0:
        raise InputError("outcome_figure: there are no outcomes to draw")
    if probabilities is None:
        weights = np.full(values.shape, 1.0 / values.size)
    else:
        weights = np.asarray(probabilities, dtype=np.float64)
    distinct, position = np.unique(values, return_inverse=True)
    gathered: FloatArray = np.bincount(position, weights=weights).astype(np.float64)
    finite = np.isfinite(distinct)
    return distinct[finite], gathered[finite]


def _bars(values: FloatArray, observed: float) -> tuple[FloatArray, float]:
    """Left edges and width: one bar for each value where they lie far enough apart to be seen,
    otherwise equal bins over all values and the observed one."""
    low, high = min(observed, float(values[0])), max(observed, float(values[-1]))
    gap = float(np.diff(values).min()) if len(values) > 1 else (high - low) / BINS or 1.0
    if high - low <= MOST_BARS * gap:
        return values - 0.4 * gap, 0.8 * gap
    edges = np.linspace(low, high, BINS + 1)
    # The last edge belongs to the last bin, so that searching the left ones finds it.
    return edges[:-1], float(edges[1] - edges[0])
