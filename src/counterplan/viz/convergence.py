"""What a planner says a state is worth, the longer it looks, between what is known of the value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import cycle
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.planning.bounds import ValueBounds
from counterplan.planning.search.planners import Plan
from counterplan.viz import style
from counterplan.viz.labels import Quantity
from counterplan.viz.style import BOUND_MARK, SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Intervals hold with this probability.
CONFIDENCE = 0.95
QUANTILE = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)


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
    named = plans if isinstance(plans, Mapping) else _by_planner(plans)
    if not named or not all(named.values()):
        raise InputError("convergence_figure: there are no plans to draw")
    from matplotlib.ticker import FuncFormatter

    quantity = quantity or Quantity("value")
    figure, axes = style.new_axes(4.6, 3.3)
    if bounds is not None:
        _draw_bound(axes, "upper", bounds.upper, bounds.upper_se, bounds.upper_method)
        _draw_bound(axes, "lower", bounds.lower, bounds.lower_se, bounds.lower_method)
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
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    style.legend_above(figure)
    return figure


def curve(plans: Sequence[Plan]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """(n,) numbers of simulations, ascending; mean values; and the reach of their 95 % intervals to
    either side, nan where it is not known."""
    by_count: dict[float, list[Plan]] = defaultdict(list)
    for one in plans:
        by_count[float(one.stats["simulations"])].append(one)
    counts = sorted(by_count)
    values = [float(np.mean([one.value for one in by_count[count]])) for count in counts]
    reach = [QUANTILE * _standard_error(by_count[count]) for count in counts]
    return np.array(counts), np.array(values), np.array(reach)


def _standard_error(plans: Sequence[Plan]) -> float:
    """From the spread over searches, or else a single search's own."""
    if len(plans) > 1:
        return float(np.std([one.value for one in plans], ddof=1) / np.sqrt(len(plans)))
    return plans[0].se if np.isfinite(plans[0].se) else float("nan")


def _by_planner(plans: Sequence[Plan]) -> dict[str, list[Plan]]:
    found: dict[str, list[Plan]] = defaultdict(list)
    for one in plans:
        found[one.planner].append(one)
    return found


def _draw_bound(axes: Axes, side: str, value: float, error: float, method: str) -> None:
    """A line with arrowheads that say on which side of it V* lies."""
    reach = QUANTILE * error
    axes.axhspan(value - reach, value + reach, color=BOUND_MARK.colour, alpha=0.2, linewidth=0)
    # Without which algorithm and why.
    name = f"{side} bound: {method.partition(' (')[0]}"
    axes.axhline(
        value, marker="v" if side == "upper" else "^", markersize=5, markevery=[0, 1],
        label=style.literal(name), **BOUND_MARK.look(1.3, 0),
    )  # fmt: skip
