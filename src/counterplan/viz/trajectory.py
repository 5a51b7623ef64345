"""One feature as it was and as it would have been, with every change of a dose where it is made."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.result import Explanation
from counterplan.core.validation import Seed
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.explained import STEP, Rows, Trajectory, trajectory_of
from counterplan.viz.labels import Named
from counterplan.viz.style import COUNTERFACTUAL_MARK, LETTER, OBSERVED_MARK, literal, wrapped

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


def trajectory_figure(
    found: Explanation | Rows | Trajectory,
    labels: Named | None = None,
    *,
    feature: str | int | None = None,
    seed: Seed = 0,
) -> Figure:
    """A feature of an explained episode over time, observed and counterfactual; arrows say which
    dose goes up or down, and by how much.

    found    an explanation, or the rows of a run's `trajectories` of one episode and k
    labels   where names and units come from: a schema, a layout, a model, or `Labels`
    feature  its name or number; if not given the first that says what is better
    seed     of the samples that show how far chance may lead a policy
    """
    if not isinstance(found, Trajectory):
        found = trajectory_of(found, labels, feature=feature, seed=seed)
    figure, axes = style.new_axes(5.6, 3.2)
    draw_trajectory(axes, found)
    style.legend_above(figure)
    return figure


def draw_trajectory(axes: Axes, trajectory: Trajectory) -> None:
    """Both trajectories into a panel, without a legend; the curves have labels."""
    style.style_axes(axes)
    times, before, after = trajectory.times, trajectory.observed, trajectory.counterfactual
    if not np.isfinite([before[0], after[0]]).all():
        raise InputError("trajectory_figure: a course is over before it begins: nothing to draw")
    if trajectory.low is not None and trajectory.high is not None:
        axes.fill_between(
            times, trajectory.low, trajectory.high, color=style.BAND, alpha=0.7, linewidth=0,
            label=trajectory.band,
        )  # fmt: skip
    else:
        axes.fill_between(times, before, after, color=style.BAND, alpha=0.6, linewidth=0)
    # Dashes over the solid line: where both are the same, both are seen.
    axes.plot(times, after, label="counterfactual", **COUNTERFACTUAL_MARK.look(2.0, 5.0))
    axes.plot(times, before, label="observed", **OBSERVED_MARK.look(1.4, 3.2))
    _draw_endings(axes, trajectory)
    _draw_moves(axes, trajectory)
    axes.set_xlabel(literal(f"time ({trajectory.unit}{'s' if trajectory.unit == STEP else ''})"))
    axes.set_ylabel(wrapped(trajectory.feature, _inches(axes)[1]))
    margin = 0.5 * trajectory.step
    axes.set_xlim(times[0] - margin, times[-1] + margin)
    every = -(-len(times) // 8)  # at most eight numbers
    axes.set_xticks(times[::every])


def _draw_endings(axes: Axes, trajectory: Trajectory) -> None:
    """How a trajectory ends that is over: in words, where the next value would be."""
    both = (trajectory.observed, trajectory.counterfactual)
    colours = (style.OBSERVED, style.COUNTERFACTUAL)
    for text, values, colour in zip(trajectory.endings, both, colours, strict=True):
        if text:
            t = int(np.isfinite(values).sum())
            axes.annotate(
                literal(text), xy=(trajectory.times[t], values[t - 1]), xytext=(0, 9),
                textcoords="offset points", ha="center", va="center", size=style.SMALL_SIZE,
                color=colour, weight="bold", bbox=BACKGROUND,
            )  # fmt: skip


def _draw_moves(axes: Axes, trajectory: Trajectory) -> None:
    """Arrows in rows below the curves, one row for each dose, as long as the change is large."""
    low, high = trajectory.extent
    height = max(high - low, 1e-3 * max(1.0, abs(high)))
    row, bottom = ROW_HEIGHT * height, low - 0.1 * height
    names = [wrapped(dose, DOSE, style.SMALL_SIZE) for dose in trajectory.doses]
    # The panel is less wide where the names beside it are long.
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    width = _inches(axes)[0] - LETTER * style.SMALL_SIZE * max(longest - USUAL_NAME, 0)
    step, letters = width / len(trajectory.observed), [LETTER * size for size in SIZES]
    middles = [bottom - (number + 0.5) * row for number in range(len(names))]
    for dose, middle in zip(trajectory.doses, middles, strict=True):
        axes.axhline(middle, color=style.GRID, linewidth=0.8, zorder=0.5)
        moves = [one for one in trajectory.moves if one.what == dose]
        largest = max([abs(one.size) for one in moves if one.direction], default=1.0)
        texts, size = move_texts(trajectory, dose, step, letters)
        for one, text in zip(moves, texts, strict=True):
            time = float(trajectory.times[one.t])
            axes.axvline(time, color=style.MUTED, linewidth=0.7, linestyle=":", zorder=0.6)
            if one.direction:
                reach = 0.38 * row * max(abs(one.size) / largest, 0.35)
                _draw_arrow(axes, time, middle, reach * one.direction)
            else:
                axes.plot(time, middle, "D", markersize=4.5, color=style.COUNTERFACTUAL, zorder=3)
            axes.annotate(
                literal(text), xy=(time, middle), xytext=(5, 0), textcoords="offset points",
                va="center", size=SIZES[size], color=style.INK, linespacing=0.9,
            )  # fmt: skip
    axes.set_ylim(bottom - len(names) * row, high + 0.08 * height)
    _write_ticks(axes, trajectory, bottom, list(zip(middles, names, strict=True)))


def move_texts(
    trajectory: Trajectory, dose: str, step: float, letters: list[float], arrow: float = ARROW
) -> tuple[list[str], int]:
    """How all changes of a dose are written, in the first way that fits between them, and which
    size of letters it takes; where none fits the markers alone tell it.

    step, arrow  widths of a step, on average, and of what marks a change
    letters      widths of a letter, of each size to try
    """
    moves = [move for move in trajectory.moves if move.what == dose]
    times = trajectory.times
    end = float(times[-1]) + trajectory.step
    unit = step * len(times) / (end - float(times[0]))
    places = [*(float(times[move.t]) for move in moves), end]
    gaps = [unit * (after - time) - arrow for time, after in pairwise(places)]
    for texts in zip(*(move.texts for move in moves), strict=True):
        lengths = [max(map(len, text.split("\n"))) for text in texts]
        for size, letter in enumerate(letters):
            fits = (letter * n <= gap for n, gap in zip(lengths, gaps, strict=True))
            if all(texts) and all(fits):
                return [*texts], size
    return [""] * len(moves), 0


def _inches(axes: Axes) -> tuple[float, float]:
    """About how wide and high a panel is."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    place = axes.get_position()
    return place.width * figure.get_figwidth(), place.height * figure.get_figheight()


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
    axes: Axes, trajectory: Trajectory, bottom: float, rows: list[tuple[float, str]]
) -> None:
    """Numbers (or names) beside the curves, the doses beside their rows."""
    top = axes.get_ylim()[1]
    named = [(value, text) for value, text in trajectory.ticks if bottom < value <= top]
    if not named or len(named) > MOST_NAMES:
        ticks = [float(tick) for tick in axes.get_yticks() if bottom < tick <= top]
        named = [(tick, f"{tick:g}".replace("-", "−")) for tick in ticks]
    named = [(place, literal(text)) for place, text in named]
    places, texts = zip(*named, *rows, strict=True)
    axes.set_yticks(np.array(places), texts)
