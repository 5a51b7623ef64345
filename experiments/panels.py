"""The panels that the papers' figures share: curves with shaded intervals, and histograms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from counterplan.core.validation import FloatArray
from counterplan.viz import style
from experiments.statistics import Average

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing


class Look(NamedTuple):
    """Colour and marker of a curve."""

    colour: str
    marker: str


# From pale to dark, for curves in an order.
ORDERED = (
    Look("#8dbbe0", "o"),
    Look("#4292c6", "s"),
    Look("#2060a8", "^"),
    Look("#0b2a5b", "D"),
)


def canvas(width: float, height: float, title: str) -> Drawing:
    """An empty figure (inches) under a title."""
    drawing = style.new_figure(width, height)
    drawing.suptitle(title, x=0.01, ha="left", size=style.TEXT_SIZE + 0.5, color=style.INK)
    return drawing


def set_title(axes: Axes, text: str) -> None:
    """A panel's letter and what it shows."""
    axes.set_title(text, loc="left", size=style.TEXT_SIZE, color=style.INK)


def draw_curves(
    axes: Axes, curves: Mapping[str, Average], looks: Mapping[str, Look], label: str
) -> None:
    """Means against k with their 95 % intervals shaded."""
    style.style_axes(axes)
    # Bands that lie on top of each other must stay transparent enough to be told apart.
    shade = 0.2 if len(curves) == 1 else 0.12
    for name, curve in curves.items():
        colour, marker = looks[name]
        budgets = np.arange(len(curve.mean))
        axes.fill_between(budgets, curve.low, curve.high, color=colour, alpha=shade, linewidth=0)
        for edge in (curve.low, curve.high):
            axes.plot(budgets, edge, color=colour, alpha=0.35, linewidth=0.6)
        axes.plot(
            budgets, curve.mean, color=colour, marker=marker, markersize=3.5, linewidth=1.3,
            label=name,
        )  # fmt: skip
        axes.set_xticks(budgets[::2])
    axes.set_xlabel("changes allowed (k)")
    axes.set_ylabel(label)


def histogram_edges(percentages: FloatArray) -> FloatArray:
    """Bins from zero to the largest value, in whole per cent."""
    return np.linspace(0.0, max(1.0, float(np.ceil(percentages.max()))), 29)


def draw_histogram(axes: Axes, percentages: FloatArray, edges: FloatArray) -> None:
    """Counts of relative differences, with their mean marked."""
    from matplotlib.ticker import MaxNLocator

    style.style_axes(axes)
    axes.hist(
        percentages, bins=edges.tolist(), color=style.COUNTERFACTUAL, edgecolor="white",
        linewidth=0.5,
    )  # fmt: skip
    mean = float(percentages.mean())
    axes.axvline(mean, color=style.INK, linewidth=1.2)
    axes.annotate(
        f"mean {mean:.1f} %",
        xy=(mean, 1.0),
        xycoords=("data", "axes fraction"),
        xytext=(4, 0),
        textcoords="offset points",
        va="top",
        size=style.SMALL_SIZE,
        color=style.INK,
    )
    axes.xaxis.set_major_formatter("{x:g} %")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlim(float(edges[0]), float(edges[-1]))
    axes.set_xlabel("relative difference")
