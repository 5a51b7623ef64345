"""The distribution of outcomes, held against the one that was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, Seed
from counterplan.errors import InputError, NotApplicableError
from counterplan.viz import style
from counterplan.viz.explained import is_policy
from counterplan.viz.quantity import Quantity, share
from counterplan.viz.style import FULL, OBSERVED_MARK, PALE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
    from counterplan.planning.evaluate import Evaluation

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
    given: Any = outcomes
    if is_policy(outcomes):
        observed = outcomes.factual_value if observed is None else observed
        mean = outcomes.outcome_mean if mean is None else mean
        try:
            exact = outcomes.outcome_distribution()
            given, probabilities = exact.values, exact.probabilities
        except NotApplicableError:
            given = outcomes.sample(SAMPLES, seed=seed).outcomes
    elif hasattr(outcomes, "sense"):  # an evaluation; planners are not loaded to know one
        quantity = quantity or Quantity(better="lower" if given.sense == "min" else "higher")
        mean = given.mean if mean is None else mean
        given = given.outcomes
    if observed is None:
        raise InputError("outcome_figure: say what was observed: observed=")
    quantity = quantity or Quantity()
    bars = outcome_bars(given, probabilities, observed, quantity)
    return _draw(bars, observed, mean, quantity, probabilities is None)


def _draw(
    bars: Bars, observed: float, mean: float | None, quantity: Quantity, is_sampled: bool
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
    # Few numbers, so that long ones do not touch.
    axes.xaxis.set_major_locator(MaxNLocator(5))
    style.label_quantity(axes, "x", quantity, 3.8)
    axes.set_ylabel("share of samples" if is_sampled else "probability")
    axes.set_ylim(0.0, 1.05 * float((bars.better + bars.rest).max()))
    Quantity(percent=True).label_axis(axes.yaxis)
    style.legend_above(figure)
    return figure


def outcome_bars(
    outcomes: ArrayLike, probabilities: ArrayLike | None, observed: float, quantity: Quantity
) -> Bars:
    """The finite outcomes as bars."""
    given = np.asarray(outcomes, dtype=np.float64)
    finite = np.isfinite(given)
    if not finite.any():
        what = "no outcome is finite, so there are none" if given.size else "there are no outcomes"
        raise InputError(f"outcome_figure: {what} to draw")
    every = 1.0 / given.size if probabilities is None else np.asarray(probabilities)
    values, weights = given[finite], np.broadcast_to(every, given.shape)[finite]
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
    # The last edge belongs to the last bin, so that searching the left ones finds it.
    edges = np.linspace(low, high, BINS + 1)
    return edges[:-1], float(edges[1] - edges[0])
