"""What each further change brings, and that no more can be had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.result import Explanation, Interval
from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.labels import Quantity, Rows, as_rows, is_table
from counterplan.viz.style import (
    BOUND_MARK,
    COUNTERFACTUAL_MARK,
    GUARANTEED_MARK,
    OBSERVED_MARK,
    figure_function,
    fitted,
    pen,
    stroke,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class FrontierData:
    """What a frontier figure shows.

    budgets     (n,) how many changes are allowed
    values      (n,) of the best explanation found
    bounds      (n,) that nothing is better than; nan where nothing is known
    observed    the outcome that was
    intervals   (n, 2) of the values over all causal models that fit, None if not asked for
    guaranteed  (n,) what some policy reaches in every causal model, None if not asked for
    proved      whether every value is proved to be the optimum
    """

    budgets: IntArray
    values: FloatArray
    bounds: FloatArray
    observed: float
    intervals: FloatArray | None = None
    guaranteed: FloatArray | None = None
    proved: bool = False
    quantity: Quantity = field(default_factory=Quantity)

    @property
    def has_gap(self) -> bool:
        """Whether a bound lies beyond its value (above, or for costs below), so that there is
        something to draw."""
        return bool((np.abs(self.bounds - self.values) > 0.0).any())

    @property
    def value_name(self) -> str:
        """How the values are called."""
        return "best explanation, proved" if self.proved else "best explanation"


def frontier_data(
    frontier: Sequence[Explanation] | Rows | FrontierData,
    *,
    intervals: Sequence[Interval] | None = None,
    guaranteed: Sequence[float] | None = None,
    quantity: Quantity | None = None,
) -> FrontierData:
    """Value of the explanation for each budget k, the bound on any, and the observed outcome.

    frontier    the explanations for k = 0, 1, ..., or rows of a run's `results` of one episode
    intervals   for each k, the range of the explanation's value over all causal models
    guaranteed  for each k, the best value that some policy has in every causal model
    """
    if isinstance(frontier, FrontierData):
        return frontier
    points = _points_of_rows(frontier) if is_table(frontier) else _points(frontier)
    if not points:
        raise InputError("frontier_figure: there are no explanations to draw")
    ranges = intervals if intervals is not None else [point["interval"] for point in points]
    known = all(one is not None and None not in one for one in ranges)
    return FrontierData(
        np.array([point["k"] for point in points]),
        _drawable([point["value"] for point in points]),
        _drawable([point["bound"] for point in points]),
        float(points[0]["factual"]),
        np.array(ranges, dtype=np.float64).reshape(-1, 2) if known else None,
        None if guaranteed is None else np.array(guaranteed, dtype=np.float64),
        all(point["status"] == "optimal" for point in points),
        quantity or Quantity(),
    )


def _points(frontier: Any) -> list[dict[str, Any]]:
    return [
        {
            "k": one.k,
            "value": one.value,
            "bound": one.bound,
            "factual": one.factual_value,
            "status": one.status.value,
            "interval": None,
        }
        for one in frontier
    ]


def _points_of_rows(table: Any) -> list[dict[str, Any]]:
    rows = as_rows(table, "frontier_figure", "episode_id", "k", "value", "bound", "factual")
    if len({row["episode_id"] for row in rows}) > 1:
        raise InputError("frontier_figure: the table holds several episodes; choose one")
    return [
        {**row, "interval": (row.get("interval_low"), row.get("interval_high"))}
        for row in sorted(rows, key=lambda row: int(row["k"]))
        if row["status"] != "failed"
    ]


def _drawable(values: Sequence[float]) -> FloatArray:
    """Infinite ones are not drawn."""
    found = np.array(values, dtype=np.float64)
    return np.where(np.isfinite(found), found, np.nan)


# ----------------------------------------------------------------------------------------------
# What each further change brings, for print.

# Up to so many budgets each has its number.
MOST_NUMBERS = 10


def draw_frontier(data: FrontierData) -> Figure:
    """Values as a line over the observed outcome, the bound above them where there is a gap."""
    from matplotlib.ticker import MaxNLocator

    figure, axes = style.new_axes(4.6, 3.1)
    budgets, quantity = data.budgets, data.quantity
    _draw_ranges(axes, data)
    axes.axhline(data.observed, **stroke(OBSERVED_MARK), label="observed")
    if data.has_gap:
        axes.plot(
            budgets, data.bounds, **pen(BOUND_MARK, 1.2, 6.5), markerfacecolor="white",
            label="bound: nothing is better",
        )  # fmt: skip
    axes.plot(budgets, data.values, **pen(COUNTERFACTUAL_MARK, 1.8, 6.0), label=data.value_name)
    if data.guaranteed is not None:
        axes.plot(
            budgets, data.guaranteed, **pen(GUARANTEED_MARK, 1.2), label="guaranteed in every model"
        )
    if len(budgets) <= MOST_NUMBERS:
        axes.set_xticks(budgets)
    else:
        axes.xaxis.set_major_locator(MaxNLocator(MOST_NUMBERS, integer=True))
    axes.set_xlim(float(budgets[0]) - 0.4, float(budgets[-1]) + 0.4)
    axes.set_xlabel("changes allowed (k)")
    axes.set_ylabel(fitted(quantity.label, 2.5))
    if quantity.percent:
        axes.set_ylim(-0.03, 1.03)
    quantity.label_axis(axes.yaxis)
    style.legend_above(figure)
    return figure


def _draw_ranges(axes: Axes, data: FrontierData) -> None:
    if data.intervals is None:
        return
    low, high = np.asarray(data.intervals).T
    axes.vlines(
        data.budgets,
        low,
        high,
        color=style.BAND,
        linewidth=min(15.0, 160.0 / len(data.budgets)),
        label="range over causal models",
    )


frontier_figure = figure_function(frontier_data, draw_frontier, "frontier_figure")
