"""What each further change brings: the value of the best explanation for each budget k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.result import Explanation, Interval
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.claims import claim_of
from counterplan.viz.explained import Rows, as_rows, is_table
from counterplan.viz.quantity import Quantity
from counterplan.viz.style import BOUND_MARK, COUNTERFACTUAL_MARK, GUARANTEED_MARK, OBSERVED_MARK

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Up to so many budgets each has its number.
MOST_NUMBERS = 10
# Of the plot's extent: how far apart points are that have a label each.
LABEL_ROOM = 0.08
WORST = "mean of the worst models"


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
    claims = [claim_of({"improvement": 0.0, **row}) for row in rows]
    ranges: Sequence[Any] = intervals or [
        (None, None) if None in one[1:3] else tuple(row["factual"] + end for end in one[1:3])
        for row, one in zip(rows, claims, strict=True)
    ]
    is_causal = intervals is not None or any(one.is_causal for one in claims)
    figure, axes = style.new_axes(4.6, 3.1)
    if all(None not in one for one in ranges):
        low, high = np.array(ranges, dtype=np.float64).T
        axes.vlines(
            budgets, low, high, color=style.BAND, linewidth=min(15.0, 160.0 / len(budgets)),
            label="range over causal models" if is_causal else "interval of 90 %",
        )  # fmt: skip
    axes.axhline(float(rows[0]["factual"]), **OBSERVED_MARK.look(1.4, 0), label="observed")
    if (np.abs(bounds - values) > 0.0).any():
        axes.plot(
            budgets, bounds, **BOUND_MARK.look(1.2, 6.5), markerfacecolor="white",
            label="bound: nothing is better",
        )  # fmt: skip
    name = "best explanation" if is_causal or not any(one.low for one in claims) else WORST
    proved = "; search complete" if all(row["status"] == "optimal" for row in rows) else ""
    look = COUNTERFACTUAL_MARK.look(1.8, 6.0)
    axes.plot(budgets, values, **look, label=f"{name}{proved}")
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


def doubt_figure(
    found: Mapping[float, Any], *, chosen: float | None = None, quantity: Quantity | None = None
) -> Figure:
    """What the causal model expects of a plan against what is guaranteed in every one, a point for
    each doubt: up is better by the model, right is surer.

    found   doubt -> explanation, as `cp.explain(..., doubt=)` gives it, or (value, guaranteed)
    chosen  the doubt that is marked
    """
    quantity = quantity or Quantity()
    pairs = {
        doubt: one if isinstance(one, tuple) else (one.value, one.guaranteed)
        for doubt, one in sorted(found.items())
    }
    if not pairs or not np.isfinite(list(pairs.values())).all():
        raise InputError("doubt_figure: there are no finite values to draw")
    values, sure = np.array(list(pairs.values())).T
    figure, axes = style.new_axes(4.6, 2.7)
    axes.plot(sure, values, **COUNTERFACTUAL_MARK.look(1.4, 5.0), label="a plan for each doubt")
    if chosen in pairs:
        value, least = pairs[chosen]
        axes.plot(least, value, **GUARANTEED_MARK.look(0, 8.0), label=f"doubt {chosen:g}")
    size, told = np.maximum(np.ptp([sure, values], axis=1), 1e-9), list[Any]()
    for doubt, (value, least) in pairs.items():
        # Plans that are nearly the same have one label.
        place = np.array([least, value]) / size
        if all(np.abs(place - other).max() > LABEL_ROOM for other in told):
            told.append(place)
            axes.annotate(
                f"{doubt:g}", (least, value), xytext=(5, 4), textcoords="offset points",
                size=style.SMALL_SIZE, color=style.INK,
            )  # fmt: skip
    axes.margins(0.12, 0.18)
    axes.set_xlabel(f"{quantity.name}, guaranteed in every causal model")
    axes.set_ylabel(style.wrapped(f"{quantity.name}, expected", 2.0))
    for axis in (axes.xaxis, axes.yaxis):
        quantity.label_axis(axis)
    style.legend_above(figure)
    return figure


def _rows(frontier: Any) -> list[Mapping[str, Any]]:
    """Explanations as rows of a run's `results`, in the order of k."""
    if not is_table(frontier):
        return [
            {"k": one.k, "value": one.value, "bound": one.bound, "factual": one.factual_value,
             "status": one.status.value, **_ends(one)}
            for one in frontier
        ]  # fmt: skip
    rows = as_rows(frontier, "frontier_figure", "episode_id", "k", "value", "bound", "factual")
    if len({row["episode_id"] for row in rows}) > 1:
        raise InputError("frontier_figure: the table holds several episodes; choose one")
    known = [row for row in rows if row["status"] != "failed"]
    return sorted(known, key=lambda row: int(row["k"]))


def _ends(found: Any) -> dict[str, float]:
    """Of the interval of an improvement, where members of a model differ."""
    if found.harm is None:
        return {}
    return dict(zip(("improvement_low", "improvement_high"), found.interval, strict=True))
