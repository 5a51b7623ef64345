"""How the figures of the 2025 paper are drawn: results as dots, values at the root as curves.

Colour tells the algorithm, a filled marker that leaf values were clipped, the marker's shape the
budget; V* and hindsight are lines, so a distance to the right line can be read off at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.viz import style
from experiments.panels import Look, canvas, set_title
from experiments.statistics import QUANTILE_95

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Drawing

# Okabe and Ito's green, which no other meaning has.
OPTIMUM = "#009e73"
ALGORITHMS = {
    "UCT": Look("#d55e00", "o"),
    "UCT+": Look("#e69f00", "^"),
    "MENTS": Look("#0072b2", "s"),
}
# Budgets by shape, and how far they are moved from the middle of their row.
BUDGETS = {"paper": ("o", -0.17), "reduced": ("o", -0.17), "equal time": ("D", 0.17)}


@dataclass(frozen=True)
class Lines:
    """What a panel is measured against.

    optimum    V*, as the ends of the interval it is known to lie in
    hindsight  the mean with foresight
    open_loop  the plan for expected values, executed
    """

    optimum: tuple[float, float]
    hindsight: float
    open_loop: float


class Dot(NamedTuple):
    """A method's result with its standard error, and what is written next to its row.

    budget  'paper', 'reduced' or 'equal time'; policies have none
    """

    method: str
    budget: str | None
    mean: float
    se: float
    note: str = ""


class Curve(NamedTuple):
    """Values at the root (n, seeds) after each of n numbers of simulations."""

    method: str
    simulations: Sequence[int]
    values: FloatArray


@dataclass(frozen=True)
class Panel:
    """One problem: its title, its axis label, its lines, and what was found."""

    title: str
    label: str
    lines: Lines
    dots: Sequence[Dot] = ()
    curves: Sequence[Curve] = ()


def look(method: str) -> tuple[str, str, str]:
    """Colour and marker of a method, and the colour of the marker's face."""
    algorithm = method.removesuffix(" clipped")
    colour, marker = ALGORITHMS.get(algorithm, Look(style.OBSERVED, "s"))
    is_open = algorithm == method and algorithm in ALGORITHMS
    return colour, marker, "white" if is_open else colour


def draw_comparison(title: str, panels: Sequence[Panel]) -> Drawing:
    """A row for each method, its mean with a 95 % interval, V* and hindsight as lines."""
    drawing, places = _grid(title, panels, height=2.35)
    for axes, panel in zip(places, panels, strict=True):
        style.style_axes(axes, grid="x")
        methods = list(dict.fromkeys(dot.method for dot in panel.dots))
        for dot in panel.dots:
            colour, _, face = look(dot.method)
            marker, shift = BUDGETS.get(dot.budget or "", ("s", 0.0))
            axes.errorbar(
                dot.mean, methods.index(dot.method) + shift, xerr=QUANTILE_95 * dot.se,
                color=colour, marker=marker, markersize=4.5, markerfacecolor=face,
                elinewidth=1.1, capsize=2.0, linestyle="none", zorder=3,
            )  # fmt: skip
            axes.annotate(
                dot.note, xy=(1.0, methods.index(dot.method)), xytext=(3, 0),
                xycoords=("axes fraction", "data"), textcoords="offset points", va="center",
                size=style.SMALL_SIZE - 0.5, color=style.SOFT_INK,
            )  # fmt: skip
        _optimum(axes.axvline, axes.axvspan, panel.lines)
        axes.axvline(panel.lines.hindsight, color=style.INK, linewidth=1.0, linestyle=(0, (4, 2)))
        axes.set_yticks(range(len(methods)), methods)
        axes.set_ylim(len(methods) - 0.4, -0.6)
        axes.set_xlabel(panel.label)
        axes.margins(x=0.08)
        _write_numbers(axes.xaxis)
        set_title(axes, panel.title)
    _legend(drawing, _comparison_keys(panels))
    return drawing


def draw_convergence(title: str, panels: Sequence[Panel]) -> Drawing:
    """Mean value at the root against simulations, with 95 % intervals over seeds."""
    drawing, places = _grid(title, panels, height=2.8)
    for axes, panel in zip(places, panels, strict=True):
        style.style_axes(axes)
        for curve in panel.curves:
            _draw_curve(axes, curve)
        _optimum(axes.axhline, axes.axhspan, panel.lines)
        dashes = {panel.lines.hindsight: (0, (4, 2)), panel.lines.open_loop: (0, (1, 1.5))}
        for value, dash in dashes.items():
            axes.axhline(value, color=style.INK, linewidth=1.0, linestyle=dash)
        axes.set_xscale("log")
        axes.set_xlabel("simulations")
        axes.set_ylabel(panel.label)
        _write_numbers(axes.yaxis)
        set_title(axes, panel.title)
    _legend(drawing, _convergence_keys(panels))
    return drawing


def _grid(title: str, panels: Sequence[Panel], height: float) -> tuple[Drawing, list[Axes]]:
    """A canvas with a place for each panel, three or two in a row."""
    columns, width = (2, 5.0) if len(panels) in (2, 4) else (3, 4.0)
    rows = -(-len(panels) // columns)
    drawing = canvas(width * columns, height * rows + 1.2, title)
    places = list(drawing.subplots(rows, columns, squeeze=False).flat)
    for unused in places[len(panels) :]:
        unused.set_axis_off()
    return drawing, places[: len(panels)]


def _draw_curve(axes: Axes, curve: Curve) -> None:
    colour, marker, face = look(curve.method)
    mean = curve.values.mean(axis=1)
    seeds = curve.values.shape[1]
    reach = QUANTILE_95 * curve.values.std(axis=1, ddof=1) / np.sqrt(seeds)
    axes.fill_between(
        curve.simulations, mean - reach, mean + reach, color=colour, alpha=0.15, linewidth=0
    )
    axes.plot(
        curve.simulations, mean, color=colour, marker=marker, markersize=4, markerfacecolor=face,
        linewidth=1.3, linestyle="-" if face == colour else (0, (3, 1.5)),
    )  # fmt: skip


def _optimum(line: Callable[..., Any], span: Callable[..., Any], lines: Lines) -> None:
    low, high = lines.optimum
    if high > low:
        span(low, high, color=OPTIMUM, alpha=0.25, linewidth=0, zorder=1)
    for end in {low, high}:
        line(end, color=OPTIMUM, linewidth=1.3, zorder=2)


def _write_numbers(axis: Axis) -> None:
    """Few of them, thousands set apart."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axis.set_major_locator(MaxNLocator(4))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _line_keys(panels: Sequence[Panel]) -> list[tuple[str, dict[str, Any]]]:
    interval = any(panel.lines.optimum[0] < panel.lines.optimum[1] for panel in panels)
    name = "V* (a band where only bounds on it are known)" if interval else "V*"
    return [
        (name, {"color": OPTIMUM, "linewidth": 1.3}),
        ("hindsight", {"color": style.INK, "linewidth": 1.0, "linestyle": (0, (4, 2))}),
    ]


def _comparison_keys(panels: Sequence[Panel]) -> list[tuple[str, dict[str, Any]]]:
    dot = {"color": style.SOFT_INK, "linestyle": "none", "markersize": 5}
    names = {
        "paper": "paper's number of simulations",
        "reduced": "fewer simulations than the paper's",
        "equal time": "as many as take UCT's time",
    }
    shown = {one.budget for panel in panels for one in panel.dots}
    keys = [(names[one], dot | {"marker": BUDGETS[one][0]}) for one in BUDGETS if one in shown]
    return [*_line_keys(panels), *keys, ("policy", dot | {"marker": "s"})]


def _convergence_keys(panels: Sequence[Panel]) -> list[tuple[str, dict[str, Any]]]:
    dotted = {"color": style.INK, "linewidth": 1.0, "linestyle": (0, (1, 1.5))}
    keys = [*_line_keys(panels), ("executed open loop", dotted)]
    for method in dict.fromkeys(curve.method for panel in panels for curve in panel.curves):
        colour, shape, face = look(method)
        dash = "-" if face == colour else (0, (3, 1.5))
        marker = {"color": colour, "marker": shape, "markersize": 4, "markerfacecolor": face}
        keys.append((method, marker | {"linewidth": 1.3, "linestyle": dash}))
    return keys


def _legend(drawing: Drawing, keys: Sequence[tuple[str, dict[str, Any]]]) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=name, **shape) for name, shape in keys]
    drawing.legend(
        handles=handles, loc="outside lower left", ncols=3, frameon=False,
        fontsize=style.SMALL_SIZE, labelcolor=style.INK,
    )  # fmt: skip
