"""A realised path and what everyone did along it, for print."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterplan.viz import style
from counterplan.viz.data.path import PathData, path_data
from counterplan.viz.drawn import figure_function
from counterplan.viz.figures.pen import dots, fitted, pen, plain
from counterplan.viz.marks import SERIES
from counterplan.viz.quantity import Quantity

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Inches of a panel, and what a figure has besides.
PANEL, BESIDES = 1.15, 1.0
MOST_NUMBERS = 20
# Width and marker size of lines that lie upon each other, the lowest first.
PENS = ((2.0, 5.5), (1.6, 4.6), (1.2, 3.0))


def draw_path(data: PathData) -> Figure:
    """Panels above each other: what was seen, what was done, what was left, what was lost."""
    steps, panels = len(data.seen), data.panels
    figure = style.new_figure(min(max(5.6, 2.0 + 0.3 * steps), 9.0), BESIDES + PANEL * len(panels))
    places = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, panel in zip(places, panels, strict=True):
        style.style_axes(axes)
        DRAWN[panel.kind](axes, data, panel.part)
        axes.set_ylabel(fitted(panel.title, PANEL, style.SMALL_SIZE), size=style.SMALL_SIZE)
        if panel.kind not in ("modes", "choices"):
            Quantity().label_axis(axes.yaxis)
    figure.align_ylabels(places)
    last = places[-1]
    last.set_xticks(range(0, steps, -(-steps // MOST_NUMBERS)))
    last.set_xlim(-0.6, steps - 0.4 + (0.5 if data.has_levels else 0.0))
    last.set_xlabel(plain(data.axis_title))
    _legend(figure, data)
    return figure


def _draw_seen(axes: Axes, data: PathData, part: int) -> None:
    """Prices, one line each, with its number at the end where there are several."""
    for values, mark in zip(data.seen.T, SERIES * len(data.seen.T), strict=False):
        axes.plot(data.steps, values, color=style.INK, linewidth=1.2, linestyle=mark.line,
                  marker=".", markersize=5)  # fmt: skip
    if len(data.names.seen) > 1:
        for title, value in zip(data.names.seen, data.seen[-1], strict=True):
            axes.annotate(
                plain(title.split()[-1]), (float(data.steps[-1]), float(value)), xytext=(4, 0),
                textcoords="offset points", va="center", size=style.SMALL_SIZE, color=style.INK,
            )  # fmt: skip
    axes.margins(y=0.15)


def _draw_modes(axes: Axes, data: PathData, part: int) -> None:
    """Which of several modes it was, as a staircase."""
    axes.plot(
        data.steps, data.seen[:, 0], color=style.INK, linewidth=1.2, drawstyle="steps-mid",
        marker=".", markersize=5,
    )  # fmt: skip
    axes.set_yticks(range(len(data.names.modes)), data.names.modes)
    axes.set_ylim(-0.5, len(data.names.modes) - 0.5)


def _draw_amounts(axes: Axes, data: PathData, part: int) -> None:
    """A stem with a marker for each player and step."""
    for number, player in enumerate(data.players):
        places = data.steps + data.offset(number)
        values = player.actions[:, part]
        axes.vlines(places, 0.0, values, color=player.mark.colour, linewidth=1.4)
        axes.plot(places, values, **dots(player.mark, 5.0), label=player.name)
    axes.axhline(0.0, color=style.MUTED, linewidth=0.8)
    axes.margins(y=0.12)


def _draw_choices(axes: Axes, data: PathData, part: int) -> None:
    """A row for each thing that can be done, a marker where someone does it."""
    rows = len(data.names.actions)
    for number, player in enumerate(data.players):
        step, row = np.nonzero(player.actions)
        places = row + (data.offset(number) if rows > 1 else 1.4 * data.offset(number))
        axes.plot(step, places, **dots(player.mark, 6.0), label=player.name)
    axes.set_yticks(range(rows), [plain(name) for name in data.names.actions])
    axes.set_ylim(rows - 0.5, -0.5)


def _draw_levels(axes: Axes, data: PathData, part: int) -> None:
    """The resource before each decision, and at the end."""
    # From the solid line up to the dashed one: where they are the same, all are seen.
    players = (*data.players[1:], *data.players[:1])
    for player, (width, size) in zip(players, PENS[-len(players) :], strict=True):
        values = player.levels[:, part]
        axes.plot(range(len(values)), values, **pen(player.mark, width, size))
    axes.margins(y=0.12)


def _draw_losses(axes: Axes, data: PathData, part: int) -> None:
    """What each executed decision lost in expectation."""
    assert data.losses is not None
    axes.bar(data.steps, data.losses, width=0.6, color=style.OBSERVED)
    axes.set_ylim(0.0, 1.15 * float(data.losses.max(initial=0.0)) or 1.0)


def _legend(figure: Figure, data: PathData) -> None:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], label=plain(one.name), **pen(one.mark, 1.3)) for one in data.players]
    style.legend_above(figure, handles, columns=3)


DRAWN = {
    "seen": _draw_seen,
    "modes": _draw_modes,
    "amounts": _draw_amounts,
    "choices": _draw_choices,
    "levels": _draw_levels,
    "losses": _draw_losses,
}

path_figure = figure_function(path_data, draw_path, "path_figure")
