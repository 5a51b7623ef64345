"""What a planner says a state is worth, the longer it looks, between what is known of the value."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from counterplan.viz.style import BOUND_MARK, SERIES, figure_function, fitted, pen, plain, stroke

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Intervals hold with this probability.
CONFIDENCE = 0.95
QUANTILE = NormalDist().inv_cdf(0.5 + CONFIDENCE / 2)


@dataclass(frozen=True, eq=False)
class Curve:
    """The values of one planner.

    simulations  (n,) ascending
    values       (n,) of the state; means where there are several searches
    reach        (n,) of a 95 % interval to either side; nan where it is not known
    """

    name: str
    simulations: FloatArray
    values: FloatArray
    reach: FloatArray


@dataclass(frozen=True)
class BoundLine:
    """One side of what the value lies between.

    value  mean over sampled futures
    reach  of its 95 % interval to either side
    name   which side, and what it is the value of
    """

    value: float
    reach: float
    name: str


@dataclass(frozen=True, eq=False)
class ConvergenceData:
    """What a convergence figure shows; lower, upper and optimum are None where not given."""

    curves: tuple[Curve, ...]
    lower: BoundLine | None = None
    upper: BoundLine | None = None
    optimum: float | None = None
    quantity: Quantity = field(default_factory=Quantity)

    @property
    def title(self) -> str:
        """What stands at the axis of values."""
        return f"{self.quantity.label}; {self.quantity.better} is better"


def convergence_data(
    plans: Sequence[Plan] | Mapping[str, Sequence[Plan]] | ConvergenceData,
    bounds: ValueBounds | None = None,
    *,
    optimum: float | None = None,
    quantity: Quantity | None = None,
) -> ConvergenceData:
    """The value of a state against simulations, a curve for each planner.

    plans    decisions at one state with more and more simulations, several for each number if they
             have seeds of their own; by name, or else by the planner's own
    bounds   of `value_bounds`
    optimum  V*, where it is known
    """
    if isinstance(plans, ConvergenceData):
        return plans
    named = plans if isinstance(plans, Mapping) else _by_planner(plans)
    if not named or not all(named.values()):
        raise InputError("convergence_figure: there are no plans to draw")
    curves = tuple(_curve(name, found) for name, found in named.items())
    lower = upper = None
    if bounds is not None:
        lower = _line(bounds.lower, bounds.lower_se, f"lower bound: {_short(bounds.lower_method)}")
        upper = _line(bounds.upper, bounds.upper_se, f"upper bound: {_short(bounds.upper_method)}")
    return ConvergenceData(curves, lower, upper, optimum, quantity or Quantity("value"))


def _by_planner(plans: Sequence[Plan]) -> dict[str, list[Plan]]:
    found: dict[str, list[Plan]] = defaultdict(list)
    for one in plans:
        found[one.planner].append(one)
    return found


def _curve(name: str, plans: Sequence[Plan]) -> Curve:
    by_count: dict[float, list[Plan]] = defaultdict(list)
    for one in plans:
        by_count[float(one.stats["simulations"])].append(one)
    counts = sorted(by_count)
    values = [np.array([one.value for one in by_count[count]]) for count in counts]
    reach = [_reach(by_count[count], found) for count, found in zip(counts, values, strict=True)]
    return Curve(
        name, np.array(counts), np.array([float(one.mean()) for one in values]), np.array(reach)
    )


def _reach(plans: Sequence[Plan], values: FloatArray) -> float:
    """From the spread over searches, or else from a single search's own standard error."""
    if len(values) > 1:
        return QUANTILE * float(values.std(ddof=1)) / float(np.sqrt(len(values)))
    error = plans[0].se
    return QUANTILE * error if np.isfinite(error) else float("nan")


def _line(value: float, error: float, name: str) -> BoundLine:
    return BoundLine(value, QUANTILE * error, name)


def _short(method: str) -> str:
    """Without which algorithm and why."""
    return method.partition(" (")[0]


# ----------------------------------------------------------------------------------------------
# What a planner says a state is worth, the longer it looks, for print.


def draw_convergence(data: ConvergenceData) -> Figure:
    """Curves with intervals between two lines that V* lies between."""
    from matplotlib.ticker import FuncFormatter

    figure, axes = style.new_axes(4.6, 3.3)
    for line, marker in ((data.upper, "v"), (data.lower, "^")):
        if line is not None:
            _draw_bound(axes, line, marker)
    if data.optimum is not None:
        axes.axhline(data.optimum, color=style.INK, linewidth=1.1, label="optimum V*")
    for curve, mark in zip(data.curves, cycle(SERIES), strict=False):
        axes.fill_between(
            curve.simulations, curve.values - curve.reach, curve.values + curve.reach,
            color=mark.colour, alpha=0.16, linewidth=0,
        )  # fmt: skip
        axes.plot(curve.simulations, curve.values, label=plain(curve.name), **pen(mark, 1.5, 4.5))
    axes.set_xscale("log")
    axes.set_xlabel("simulations")
    axes.set_ylabel(fitted(data.title, 2.5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    style.legend_above(figure)
    return figure


def _draw_bound(axes: Axes, line: BoundLine, marker: str) -> None:
    """A line with arrowheads that say on which side of it V* lies."""
    axes.axhspan(
        line.value - line.reach,
        line.value + line.reach,
        color=BOUND_MARK.colour,
        alpha=0.2,
        linewidth=0,
    )
    axes.axhline(
        line.value, marker=marker, markersize=5, markevery=[0, 1], label=plain(line.name),
        **stroke(BOUND_MARK, 1.3),
    )  # fmt: skip


convergence_figure = figure_function(convergence_data, draw_convergence, "convergence_figure")
