"""How a search closes in on the optimum: over the nodes it expands, or a planner's simulations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.result import Explanation
from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.explained import is_sequence
from counterplan.viz.quantity import Quantity
from counterplan.viz.style import BOUND_MARK, COUNTERFACTUAL_MARK, OBSERVED_MARK, SERIES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from counterplan.planning.bounds import ValueBounds
    from counterplan.planning.search.planners import Plan

# From so many nodes on the axis is logarithmic: most happens early.
MANY = 500
MARKERS = 12
# Intervals hold with probability 95 %.
QUANTILE = NormalDist().inv_cdf(0.975)


def progress_figure(found: Explanation, *, quantity: Quantity | None = None) -> Figure:
    """The search for the best sequence of a continuous problem: two staircases, the best value from
    below and the bound from above, the gap shaded."""
    if not is_sequence(found) or len(found.history) == 0:
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


def convergence_figure(
    plans: Sequence[Plan] | Mapping[str, Sequence[Plan]],
    bounds: ValueBounds | None = None,
    *,
    optimum: float | None = None,
    quantity: Quantity | None = None,
) -> Figure:
    """The value of a state against simulations: a curve with intervals for each planner, between
    two lines that V* lies between.

    plans    decisions at one state with more and more simulations, several for each number if they
             have seeds of their own; by name, or else by the planner's own
    bounds   of `value_bounds`
    optimum  V*, where it is known
    """
    named = plans if isinstance(plans, Mapping) else _grouped(plans, lambda plan: plan.planner)
    if not named or not all(named.values()):
        raise InputError("convergence_figure: there are no plans to draw")
    quantity = quantity or Quantity("value")
    figure, axes = style.new_axes(4.6, 3.3)
    for side, arrowhead in (("upper", "v"), ("lower", "^")) if bounds is not None else ():
        value = getattr(bounds, side)
        reach = QUANTILE * getattr(bounds, f"{side}_se")
        axes.axhspan(value - reach, value + reach, color=BOUND_MARK.colour, alpha=0.2, linewidth=0)
        # Without which algorithm and why.
        method = getattr(bounds, f"{side}_method").partition(" (")[0]
        axes.axhline(
            value, marker=arrowhead, markersize=5, markevery=[0, 1],
            label=style.literal(f"{side} bound: {method}"), **BOUND_MARK.look(1.3, 0),
        )  # fmt: skip
    if optimum is not None:
        axes.axhline(optimum, color=style.INK, linewidth=1.1, label="optimum V*")
    for (name, found), mark in zip(named.items(), cycle(SERIES), strict=False):
        simulations, values, reach = curve(found)
        axes.fill_between(
            simulations, values - reach, values + reach, color=mark.colour, alpha=0.16, linewidth=0
        )
        axes.plot(simulations, values, label=style.literal(name), **mark.look(1.5, 4.5))
    axes.set_xscale("log")
    axes.set_xlabel("simulations")
    axes.set_ylabel(style.wrapped(f"{quantity.label}; {quantity.better} is better", 2.5))
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    style.legend_above(figure)
    return figure


def curve(plans: Iterable[Plan]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(n,) numbers of simulations, ascending; mean values; and the reach of their 95 % intervals to
    either side, nan where it is not known."""
    points = []
    for count, group in _grouped(plans, lambda plan: plan.stats["simulations"]).items():
        values = np.array([one.value for one in group])
        error = group[0].se if np.isfinite(group[0].se) else np.nan
        if len(group) > 1:  # from the spread over searches
            error = np.std(values, ddof=1) / np.sqrt(len(group))
        points.append((float(count), values.mean(), QUANTILE * error))
    counts, means, reach = np.array(sorted(points), dtype=np.float64).T
    return counts, means, reach


def _grouped(plans: Iterable[Plan], key: Callable[[Plan], Any]) -> dict[Any, list[Plan]]:
    found: dict[Any, list[Plan]] = defaultdict(list)
    for one in plans:
        found[key(one)].append(one)
    return found
