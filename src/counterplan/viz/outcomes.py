"""The distribution of outcomes, held against the one that was."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, Seed
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.evaluate import Evaluation
from counterplan.viz import style
from counterplan.viz.labels import Quantity, share
from counterplan.viz.style import FULL, OBSERVED_MARK, PALE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Values are drawn apart if so many of them, evenly spaced, would fill the plot.
MOST_BARS = 60
BINS = 25
SAMPLES = 2_000


class Bars(NamedTuple):
    """Left edges (n,) and the width of bars; (n,) probabilities of outcomes that are better than
    the observed one, and of those that are not."""

    left: FloatArray
    width: float
    better: FloatArray
    rest: FloatArray


def outcome_figure(
    outcomes: PolicyExplanation | Evaluation | ArrayLike,
    observed: float | None = None,
    *,
    probabilities: ArrayLike | None = None,
    mean: float | None = None,
    quantity: Quantity | None = None,
    seed: Seed = 0,
) -> Figure:
    """How likely each outcome is; those better than the observed one in colour.

    outcomes       an explanation (its exact distribution where there is one, otherwise samples), an
                   evaluation of a planner, values of a distribution, or samples
    observed       the outcome that was; an explanation knows it
    probabilities  of the values; None where the outcomes are samples
    mean           marked if given; an explanation or evaluation knows it
    """
    if isinstance(outcomes, PolicyExplanation):
        observed = outcomes.factual_value if observed is None else observed
        mean = outcomes.outcome_mean if mean is None else mean
        outcomes, probabilities = _distribution(outcomes, seed)
    elif isinstance(outcomes, Evaluation):
        lower = outcomes.sense == "min"
        quantity = quantity or Quantity(better="lower" if lower else "higher")
        mean = outcomes.mean if mean is None else mean
        outcomes = outcomes.outcomes
    if observed is None:
        raise InputError("outcome_figure: say what was observed: observed=")
    quantity = quantity or Quantity()
    bars = outcome_bars(outcomes, probabilities, observed, quantity)
    heights = "share of samples" if probabilities is None else "probability"
    return _draw(bars, observed, mean, quantity, heights)


def _draw(
    bars: Bars, observed: float, mean: float | None, quantity: Quantity, heights: str
) -> Figure:
    from matplotlib.ticker import MaxNLocator

    figure, axes = style.new_axes(4.6, 3.1)
    better = f"better than observed: {share(float(bars.better.sum()))}"
    for height, bottom, colour, label in (
        (bars.rest, 0.0 * bars.rest, PALE, "not better"),
        (bars.better, bars.rest, FULL, better),
    ):
        if height.any():
            axes.bar(
                bars.left, height, bars.width, bottom, align="edge", color=colour, label=label,
                edgecolor="white", linewidth=0.6,
            )  # fmt: skip
    axes.axvline(observed, **OBSERVED_MARK.look(1.6, 0), label="observed")
    if mean is not None:
        axes.axvline(mean, color=style.INK, linewidth=1.2, label="expected")
    axes.set_xlabel(style.wrapped(quantity.label, 3.8))
    # Few numbers, so that long ones do not touch.
    axes.xaxis.set_major_locator(MaxNLocator(5))
    if quantity.percent:
        axes.set_xlim(-0.03, 1.03)
    axes.set_ylabel(heights)
    axes.set_ylim(0.0, 1.05 * float((bars.better + bars.rest).max()))
    quantity.label_axis(axes.xaxis)
    Quantity(percent=True).label_axis(axes.yaxis)
    style.legend_above(figure)
    return figure


def _distribution(found: PolicyExplanation, seed: Seed) -> tuple[FloatArray, FloatArray | None]:
    """Outcomes and their probabilities, None where they are samples."""
    try:
        exact = found.outcome_distribution()
    except NotApplicableError:
        return found.sample(SAMPLES, seed=seed).outcomes, None
    return exact.values, exact.probabilities


def outcome_bars(
    outcomes: ArrayLike, probabilities: ArrayLike | None, observed: float, quantity: Quantity
) -> Bars:
    """The finite outcomes as bars."""
    given = np.asarray(outcomes, dtype=np.float64)
    if given.size == 0:
        raise InputError("outcome_figure: there are no outcomes to draw")
    if probabilities is None:
        weights = np.full(given.shape, 1.0 / given.size)
    else:
        weights = np.asarray(probabilities, dtype=np.float64)
    finite = np.isfinite(given)
    if not finite.any():
        raise InputError("outcome_figure: no outcome is finite, so there are none to draw")
    values, weights = given[finite], weights[finite]
    left, width = _places(np.unique(values), observed, quantity)
    bar = np.searchsorted(left, values, side="right") - 1
    is_better = values > observed if quantity.better == "higher" else values < observed
    better, rest = (
        np.bincount(bar[chosen], weights[chosen], len(left)).astype(np.float64)
        for chosen in (is_better, ~is_better)
    )
    return Bars(left, width, better, rest)


def _places(values: FloatArray, observed: float, quantity: Quantity) -> tuple[FloatArray, float]:
    """Left edges and width: one bar for each value where they lie far enough apart to be seen,
    otherwise equal bins over all values and the observed one."""
    low, high = float(values[0]), float(values[-1])
    if np.isfinite(observed):
        low, high = min(observed, low), max(observed, high)
    # A single certain outcome: a narrow bar, in percent too.
    alone = 0.05 if quantity.percent else max(1.0, 0.05 * abs(high))
    gap = float(np.diff(values).min()) if len(values) > 1 else (high - low) / BINS or alone
    if high - low <= MOST_BARS * gap:
        return values - 0.4 * gap, 0.8 * gap
    edges = np.linspace(low, high, BINS + 1)
    # The last edge belongs to the last bin, so that searching the left ones finds it.
    return edges[:-1], float(edges[1] - edges[0])
