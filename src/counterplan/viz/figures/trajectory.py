"""One feature as it was and as it would have been, for print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplan.viz import style
from counterplan.viz.data.courses import Trajectory as Trajectory
from counterplan.viz.data.moves import Move as Move
from counterplan.viz.data.trajectory import trajectory_data
from counterplan.viz.drawn import figure_function
from counterplan.viz.figures.pen import LETTER, fitted, pen, plain
from counterplan.viz.marks import COUNTERFACTUAL, OBSERVED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Of a row of arrows, as a share of the curves' height.
ROW_HEIGHT = 0.22
# Inches: of an arrow with the space around it, and of the room for the name of a dose.
ARROW, DOSE = 0.12, 1.7
# Letters in the name of a dose that a panel has room for anyway.
USUAL_NAME = 20
SIZES = (style.SMALL_SIZE, style.SMALL_SIZE - 1.5)
# Named numbers of a feature that fit beside an axis.
MOST_NAMES = 12
BACKGROUND = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 0.6}


def draw_trajectory_figure(data: Trajectory) -> Figure:
    """Both courses over time; arrows say which dose goes up or down, and by how much."""
    figure, axes = style.new_axes(5.6, 3.2)
    draw_trajectory(axes, data)
    style.legend_above(figure)
    return figure


def draw_trajectory(axes: Axes, trajectory: Trajectory) -> None:
    """The same into a panel, without a legend; its curves have labels."""
    style.style_axes(axes)
    times = trajectory.times
    if trajectory.low is not None and trajectory.high is not None:
        axes.fill_between(
            times, trajectory.low, trajectory.high, color=style.BAND, alpha=0.7, linewidth=0,
            label="8 in 10 courses",
        )  # fmt: skip
    else:
        axes.fill_between(
            times, trajectory.observed, trajectory.counterfactual, color=style.BAND, alpha=0.6,
            linewidth=0,
        )  # fmt: skip
    # Dashes over the solid line: where both are the same, both are seen.
    axes.plot(
        times, trajectory.counterfactual, label="counterfactual", **pen(COUNTERFACTUAL, 2.0, 5.0)
    )
    axes.plot(times, trajectory.observed, label="observed", **pen(OBSERVED, 1.4, 3.2))
    _draw_ends(axes, trajectory)
    _draw_moves(axes, trajectory)
    axes.set_xlabel(plain(trajectory.time_title))
    axes.set_ylabel(fitted(trajectory.feature, _height(axes)))
    margin = 0.5 * trajectory.step
    axes.set_xlim(times[0] - margin, times[-1] + margin)
    every = -(-len(times) // 8)  # at most eight numbers
    axes.set_xticks(times[::every])


def _draw_ends(axes: Axes, trajectory: Trajectory) -> None:
    """How a course ends that is over: in words, where the next value would be."""
    for end in trajectory.ends:
        colour = style.OBSERVED if end.is_observed else style.COUNTERFACTUAL
        axes.annotate(
            plain(end.text), xy=(trajectory.time(end.t), end.last), xytext=(0, 9),
            textcoords="offset points", ha="center", va="center", size=style.SMALL_SIZE,
            color=colour, weight="bold", bbox=BACKGROUND,
        )  # fmt: skip


def _draw_moves(axes: Axes, trajectory: Trajectory) -> None:
    """Arrows in rows below the curves, one row for each dose, as long as the change is large."""
    doses = trajectory.doses
    low, high = trajectory.extent
    height = max(high - low, 1e-3 * max(1.0, abs(high)))
    row, bottom = ROW_HEIGHT * height, low - 0.1 * height
    middles = [bottom - (number + 0.5) * row for number in range(len(doses))]
    for middle in middles:
        axes.axhline(middle, color=style.GRID, linewidth=0.8, zorder=0.5)
    names = [fitted(dose, DOSE, style.SMALL_SIZE) for dose in doses]
    step = _width(axes, names) / len(trajectory.observed)
    letters = [LETTER * size for size in SIZES]
    written = {dose: trajectory.beside(dose, step, ARROW, letters) for dose in doses}
    for move in trajectory.moves:
        time, middle = trajectory.time(move.t), middles[doses.index(move.what)]
        axes.axvline(time, color=style.MUTED, linewidth=0.7, linestyle=":", zorder=0.6)
        if move.direction:
            reach = 0.38 * row * max(trajectory.share(move), 0.35)
            _draw_arrow(axes, time, middle, reach * move.direction)
        else:
            axes.plot(
                time, middle, marker="D", markersize=4.5, color=style.COUNTERFACTUAL, zorder=3
            )
        words, size = written[move.what]
        axes.annotate(
            plain(words(move)), xy=(time, middle), xytext=(5, 0), textcoords="offset points",
            va="center", size=SIZES[size], color=style.INK, linespacing=0.9,
        )  # fmt: skip
    axes.set_ylim(bottom - len(doses) * row, high + 0.08 * height)
    _write_ticks(axes, trajectory, bottom, list(zip(middles, names, strict=True)))


def _width(axes: Axes, names: Sequence[str]) -> float:
    """About how wide a panel is, in inches: less where the names beside it are long."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    lost = LETTER * style.SMALL_SIZE * max(longest - USUAL_NAME, 0)
    return axes.get_position().width * figure.get_figwidth() - lost


def _height(axes: Axes) -> float:
    """About how high a panel is, in inches."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return axes.get_position().height * figure.get_figheight()


def _draw_arrow(axes: Axes, time: float, middle: float, reach: float) -> None:
    """Up with a full head, down with an open one."""
    face = style.COUNTERFACTUAL if reach > 0 else "white"
    axes.annotate(
        "", xy=(time, middle + reach), xytext=(time, middle - reach), zorder=3,
        arrowprops={
            "arrowstyle": "-|>,head_width=0.28,head_length=0.4", "linewidth": 1.6,
            "edgecolor": style.COUNTERFACTUAL, "facecolor": face, "shrinkA": 0, "shrinkB": 0,
        },
    )  # fmt: skip


def _write_ticks(
    axes: Axes, data: Trajectory, bottom: float, rows: list[tuple[float, str]]
) -> None:
    """Numbers (or names) beside the curves, the doses beside their rows."""
    top = axes.get_ylim()[1]
    named = [(value, text) for value, text in data.ticks if bottom < value <= top]
    if not named or len(named) > MOST_NAMES:
        ticks = [float(tick) for tick in axes.get_yticks() if bottom < tick <= top]
        named = [(tick, f"{tick:g}".replace("-", "−")) for tick in ticks]
    named = [(place, plain(text)) for place, text in named]
    places, texts = zip(*named, *rows, strict=True)
    axes.set_yticks(np.array(places), texts)


trajectory_figure = figure_function(trajectory_data, draw_trajectory_figure, "trajectory_figure")
