"""What each further change brings: the value of the best explanation for each budget k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.result import Explanation, Interval
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.explained import Rows, as_rows, is_table
from counterplan.viz.quantity import Quantity
from counterplan.viz.style import BOUND_MARK, COUNTERFACTUAL_MARK, GUARANTEED_MARK, OBSERVED_MARK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Up to so many budgets each has its number.
MOST_NUMBERS = 10


def frontier_figure(
    frontier: Sequence[Explanation] | Rows,
    *,
    intervals: Sequence[Interval] | None = None,
    guaranteed: Sequence[float] | None = None,
    quantity: Quantity | None = None,
) -> Figure:
    """Value of the explanation for each budget k, the bound on any, and the observed outcome.

    frontier    the explanations for k = 0, 1, ..., or rows of a run's `results` of one episode
    intervals   for each k, the range of the explanation's value over all causal models
    guaranteed  for each k, the best value that some policy has in every causal model
    """
    from matplotlib.ticker import MaxNLocator

    rows, quantity = _rows(frontier), quantity or Quantity()
    if not rows:
        raise InputError("frontier_figure: there are no explanations to draw")
    budgets = np.array([row["k"] for row in rows])
    numbers = np.array([[row["value"], row["bound"]] for row in rows], dtype=np.float64)
    values, bounds = np.where(np.isfinite(numbers), numbers, np.nan).T  # no line to infinity
    ranges: Sequence[Any] = intervals or [
        (row.get("interval_low"), row.get("interval_high")) for row in rows
    ]
    figure, axes = style.new_axes(4.6, 3.1)
    if all(None not in one for one in ranges):
        low, high = np.array(ranges, dtype=np.float64).T
        axes.vlines(
            budgets, low, high, color=style.BAND, linewidth=min(15.0, 160.0 / len(budgets)),
            label="range over causal models",
        )  # fmt: skip
    axes.axhline(float(rows[0]["factual"]), **OBSERVED_MARK.look(1.4, 0), label="observed")
    if (np.abs(bounds - values) > 0.0).any():
        axes.plot(
            budgets, bounds, **BOUND_MARK.look(1.2, 6.5), markerfacecolor="white",
            label="bound: nothing is better",
        )  # fmt: skip
    proved = ", proved" if all(row["status"] == "optimal" for row in rows) else ""
    look = COUNTERFACTUAL_MARK.look(1.8, 6.0)
    axes.plot(budgets, values, **look, label=f"best explanation{proved}")
    if guaranteed is not None:
        look = GUARANTEED_MARK.look(1.2)
        axes.plot(budgets, list(guaranteed), **look, label="guaranteed in every model")
    if len(budgets) <= MOST_NUMBERS:
        axes.set_xticks(budgets)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(MOST_NUMBERS, integer=True))
    axes.set_xlim(float(budgets[0]) - 0.4, float(budgets[-1]) + 0.4)
    axes.set_xlabel("changes allowed (k)")
    style.label_quantity(axes, "y", quantity, 2.5)
    style.legend_above(figure)
    return figure


def _rows(frontier: Any) -> list[Mapping[str, Any]]:
    """Explanations as rows of a run's `results`, in the order of k."""
    if not is_table(frontier):
        return [
            {"k": one.k, "value": one.value, "bound": one.bound, "factual": one.factual_value,
             "status": one.status.value}
            for one in frontier
        ]  # fmt: skip
    rows = as_rows(frontier, "frontier_figure", "episode_id", "k", "value", "bound", "factual")
    if len({row["episode_id"] for row in rows}) > 1:
        raise InputError("frontier_figure: the table holds several episodes; choose one")
    known = [row for row in rows if row["status"] != "failed"]
    return sorted(known, key=lambda row: int(row["k"]))
