"""The distribution of outcomes, held against the one that was."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray, Seed
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.evaluate import Evaluation
from counterplan.viz import style
from counterplan.viz.labels import Quantity, share
from counterplan.viz.style import FULL, OBSERVED_MARK, PALE, figure_function, fitted, stroke

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Values are drawn apart if so many of them, evenly spaced, would fill the plot.
MOST_BARS = 60
BINS = 25
SAMPLES = 2_000


@dataclass(frozen=True, eq=False)
class OutcomeData:
    """What an outcome figure shows.

    left, width   left edges (n,) and the width of the bars
    better, rest  (n,) probabilities of outcomes that are better than the observed one, and not
    observed      the outcome that was
    mean          the expected outcome, None if not given
    sampled       whether the probabilities are shares of samples
    """

    left: FloatArray
    width: float
    better: FloatArray
    rest: FloatArray
    observed: float
    mean: float | None = None
    sampled: bool = False
    quantity: Quantity = field(default_factory=Quantity)

    @property
    def probability_better(self) -> float:
        """That the outcome beats the observed one."""
        return float(self.better.sum())

    @property
    def highest(self) -> float:
        """Of all bars."""
        return float((self.better + self.rest).max())

    @property
    def height_title(self) -> str:
        """What stands at the axis of heights."""
        return "share of samples" if self.sampled else "probability"


def outcome_data(
    outcomes: PolicyExplanation | Evaluation | ArrayLike | OutcomeData,
    observed: float | None = None,
    *,
    probabilities: ArrayLike | None = None,
    mean: float | None = None,
    quantity: Quantity | None = None,
    seed: Seed = 0,
) -> OutcomeData:
    """How likely each outcome is; those better than the observed one in colour.

    outcomes       an explanation (its exact distribution where there is one, otherwise samples), an
                   evaluation of a planner, values of a distribution, or samples
    observed       the outcome that was; an explanation knows it
    probabilities  of the values; None where the outcomes are samples
    mean           marked if given; an explanation or evaluation knows it
    """
    if isinstance(outcomes, OutcomeData):
        return outcomes
    if isinstance(outcomes, PolicyExplanation):
        observed = outcomes.factual_value if observed is None else observed
        mean = outcomes.outcome_mean if mean is None else mean
        outcomes, probabilities = _of_policy(outcomes, seed)
    elif isinstance(outcomes, Evaluation):
        better = "lower" if outcomes.sense == "min" else "higher"
        quantity = quantity or Quantity(better=better)  # type: ignore[arg-type]
        mean = outcomes.mean if mean is None else mean
        outcomes = outcomes.outcomes
    if observed is None:
        raise InputError("outcome_figure: say what was observed: observed=")
    named = quantity or Quantity()
    values, weights = _distribution(outcomes, probabilities)
    is_better = values > observed if named.better == "higher" else values < observed
    left, width = _bars(values, observed, named)
    bar = np.searchsorted(left, values, side="right") - 1
    better_height, rest = (
        np.bincount(bar[chosen], weights[chosen], len(left)).astype(np.float64)
        for chosen in (is_better, ~is_better)
    )
    sampled = probabilities is None
    return OutcomeData(left, width, better_height, rest, observed, mean, sampled, named)


def _of_policy(found: PolicyExplanation, seed: Seed) -> tuple[FloatArray, FloatArray | None]:
    """Outcomes and their probabilities, None where they are samples."""
    try:
        exact = found.outcome_distribution()
    except NotApplicableError:
        return found.sample(SAMPLES, seed=seed).outcomes, None
    return exact.values, exact.probabilities


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
    if not finite.any():
        raise InputError("outcome_figure: no outcome is finite, so there are none to draw")
    return distinct[finite], gathered[finite]


def _bars(values: FloatArray, observed: float, quantity: Quantity) -> tuple[FloatArray, float]:
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


# ----------------------------------------------------------------------------------------------
# The distribution of outcomes, for print.


def draw_outcomes(data: OutcomeData) -> Figure:
    """Bars, those better than the observed outcome dark, others pale; the outcome as a line."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = style.new_axes(4.6, 3.1)
    better = f"better than observed: {share(data.probability_better)}"
    for height, bottom, colour, label in (
        (data.rest, 0.0 * data.rest, PALE, "not better"),
        (data.better, data.rest, FULL, better),
    ):
        if height.any():
            axes.bar(
                data.left, height, data.width, bottom, align="edge", color=colour, label=label,
                edgecolor="white", linewidth=0.6,
            )  # fmt: skip
    axes.axvline(data.observed, **stroke(OBSERVED_MARK, 1.6), label="observed")
    if data.mean is not None:
        axes.axvline(data.mean, color=style.INK, linewidth=1.2, label="expected")
    axes.set_xlabel(fitted(data.quantity.label, 3.8))
    # Few numbers, so that long ones do not touch.
    axes.xaxis.set_major_locator(MaxNLocator(5))
    if data.quantity.percent:
        axes.set_xlim(-0.03, 1.03)
    axes.set_ylabel(data.height_title)
    axes.set_ylim(0.0, 1.05 * data.highest)
    data.quantity.label_axis(axes.xaxis)
    Quantity(percent=True).label_axis(axes.yaxis)
    style.legend_above(figure)
    return figure


outcome_figure = figure_function(outcome_data, draw_outcomes, "outcome_figure")
