"""When an explanation changes the course, for print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplan.viz import style
from counterplan.viz.data.changes import ChangeStrip, change_strip_data
from counterplan.viz.drawn import figure_function
from counterplan.viz.figures.pen import fitted, plain
from counterplan.viz.quantity import Quantity, share

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches: of the widest strip, and of the narrowest cell that holds a text or a percentage.
WIDEST, NARROWEST, NUMBER = 11.0, 0.32, 0.24


def draw_change_strip(data: ChangeStrip) -> Figure:
    """Bars for how often a step is changed, above rows of shaded cells."""
    steps, rows = len(data.changed), len(data.bands)
    width = min(max(5.6, 2.2 + 0.42 * steps), WIDEST)
    figure = style.new_figure(width, 1.5 + 0.36 * rows)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[1.1, 0.36 * rows])
    cell = (width - 1.6) / steps
    _draw_changes(upper, data, numbers=cell >= NUMBER)
    _draw_bands(lower, data, texts=cell >= NARROWEST)
    lower.set_xlim(-0.6, steps - 0.4)
    lower.set_xticks(range(0, steps, data.every), data.times[:: data.every])
    lower.set_xlabel(plain(data.title), size=style.TEXT_SIZE, color=style.INK)
    return figure


def _draw_changes(axes: Axes, data: ChangeStrip, *, numbers: bool) -> None:
    style.style_axes(axes)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(axis="x", length=0, labelbottom=False)
    axes.bar(range(len(data.changed)), data.changed, width=0.82, color=style.COUNTERFACTUAL)
    for t, probability in enumerate(data.changed):
        if numbers and probability >= 0.005:
            axes.text(
                t, probability + 0.03, share(probability).removesuffix(" %"), ha="center",
                va="bottom", size=style.SMALL_SIZE, color=style.INK,
            )  # fmt: skip
    axes.set_ylim(0.0, 1.25)
    axes.set_yticks([0.0, 0.5, 1.0])
    Quantity(percent=True).label_axis(axes.yaxis)
    axes.set_ylabel("changed", size=style.TEXT_SIZE, color=style.INK)


def _draw_bands(axes: Axes, data: ChangeStrip, *, texts: bool) -> None:
    """Rows of cells, with their texts where these fit; how a course ends is always told."""
    style.bare_axes(axes)
    colours = style.severity_colours()
    for row, band in enumerate(data.bands):
        for t, (level, text) in enumerate(zip(band.levels, band.texts, strict=True)):
            if not text and np.isnan(level):  # the course is over
                continue
            colour = colours(data.shade(level)) if np.isfinite(level) else "white"
            axes.barh(
                row, 0.94, left=t - 0.47, height=0.86, color=colour,
                edgecolor=style.MUTED, linewidth=0.5,
            )  # fmt: skip
            if not texts and np.isfinite(level):
                continue
            size = style.SMALL_SIZE if len(text) <= 5 else style.SMALL_SIZE - 1.5
            axes.text(
                t, row, plain(text), ha="center", va="center", size=size,
                color=style.ink_on(colour),
            )  # fmt: skip
    axes.set_yticks(range(len(data.bands)), [plain(band.label) for band in data.bands])
    axes.tick_params(axis="y", labelsize=style.TEXT_SIZE, labelcolor=style.INK)
    axes.set_ylim(len(data.bands) - 0.45, -0.55)
    axes.set_title(
        fitted(data.heading, 4.0, style.SMALL_SIZE),
        size=style.SMALL_SIZE,
        color=style.SOFT_INK,
        pad=3,
    )


change_strip_figure = figure_function(change_strip_data, draw_change_strip, "change_strip_figure")
