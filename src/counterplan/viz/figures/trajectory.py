"""One feature as it was and as it would have been, with every change of a dose where it is made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.viz import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RAISED, LOWERED = style.GUARANTEED, "#009e73"
# Of a row of arrows, as a share of the curves' height.
ROW_HEIGHT = 0.22


class Move(NamedTuple):
    """At step t the dose `what` goes from `before` to `after`."""

    t: int
    what: str
    before: float
    after: float

    @property
    def size(self) -> float:
        """How much is added."""
        return self.after - self.before


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What `trajectory_figure` shows.

    observed        (T,) values of the feature
    counterfactual  (T,) the same with the changes made
    moves           those changes, one for each dose
    feature         what the values are
    step            length of a step
    unit            in which that length is given
    """

    observed: FloatArray
    counterfactual: FloatArray
    moves: tuple[Move, ...] = ()
    feature: str = "feature"
    step: float = 1.0
    unit: str = "step"

    def __post_init__(self) -> None:
        for name in ("observed", "counterfactual"):
            values = np.asarray(getattr(self, name), dtype=np.float64)
            if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
                raise InputError(f"trajectory: {name} must be a list of finite numbers")
            object.__setattr__(self, name, values)
        if len(self.observed) != len(self.counterfactual):
            raise InputError(
                f"trajectory: {len(self.observed)} observed values, but "
                f"{len(self.counterfactual)} counterfactual ones"
            )
        for move in self.moves:
            if not 0 <= move.t < len(self.observed):
                raise InputError(
                    f"trajectory: a change at step {move.t}, but the steps are "
                    f"0..{len(self.observed) - 1}"
                )

    @property
    def times(self) -> FloatArray:
        """(T,) in `unit`."""
        return np.asarray(self.step * np.arange(len(self.observed)))


def trajectory_figure(
    observed: ArrayLike,
    counterfactual: ArrayLike,
    moves: Sequence[Move] = (),
    *,
    feature: str = "feature",
    step: float = 1.0,
    unit: str = "step",
) -> Figure:
    """Observed and counterfactual values over time; arrows say which dose goes up or down, and by
    how much."""
    before, after = (np.asarray(values, dtype=np.float64) for values in (observed, counterfactual))
    trajectory = Trajectory(before, after, tuple(moves), feature, step, unit)
    figure, axes = style.new_axes(5.6, 3.2)
    draw_trajectory(axes, trajectory)
    style.legend_above(figure)
    return figure


def draw_trajectory(axes: Axes, trajectory: Trajectory) -> None:
    """The same into a panel, without a legend; its two curves have labels."""
    style.style_axes(axes)
    times = trajectory.times
    axes.fill_between(
        times, trajectory.observed, trajectory.counterfactual, color=style.BAND, alpha=0.6,
        linewidth=0,
    )  # fmt: skip
    axes.plot(
        times, trajectory.observed, color=style.OBSERVED, linestyle=(0, (4, 3)), linewidth=1.4,
        marker="s", markersize=3.2, label="observed",
    )  # fmt: skip
    axes.plot(
        times, trajectory.counterfactual, color=style.COUNTERFACTUAL, linewidth=1.6, marker="o",
        markersize=3.6, label="counterfactual",
    )  # fmt: skip
    _draw_moves(axes, trajectory)
    plural = "s" if trajectory.unit == "step" else ""
    axes.set_xlabel(f"time ({trajectory.unit}{plural})")
    axes.set_ylabel(trajectory.feature)
    margin = 0.5 * trajectory.step
    axes.set_xlim(times[0] - margin, times[-1] + margin)
    every = -(-len(times) // 8)  # at most eight numbers
    axes.set_xticks(times[::every])


def _draw_moves(axes: Axes, trajectory: Trajectory) -> None:
    """Arrows in rows below the curves, one row for each dose, as long as the change is large."""
    doses = list(dict.fromkeys(move.what for move in trajectory.moves))
    values = np.concatenate([trajectory.observed, trajectory.counterfactual])
    low, high = float(values.min()), float(values.max())
    height = max(high - low, 1e-3 * max(1.0, abs(high)))
    row, bottom = ROW_HEIGHT * height, low - 0.1 * height
    middles = [bottom - (number + 0.5) * row for number in range(len(doses))]
    for middle in middles:
        axes.axhline(middle, color=style.GRID, linewidth=0.8, zorder=0.5)
    largest = max((abs(move.size) for move in trajectory.moves), default=0.0) or 1.0
    for move in trajectory.moves:
        reach = 0.43 * row * max(abs(move.size) / largest, 0.35)
        _draw_arrow(axes, trajectory.step * move.t, middles[doses.index(move.what)], reach, move)
    axes.set_ylim(bottom - len(doses) * row, high + 0.08 * height)
    ticks = [tick for tick in axes.get_yticks() if bottom < tick <= high + 0.08 * height]
    texts = [f"{tick:g}".replace("-", "−") for tick in ticks]
    axes.set_yticks([*ticks, *middles], [*texts, *doses])


def _draw_arrow(axes: Axes, time: float, middle: float, reach: float, move: Move) -> None:
    """Up or down, with the size of the change beside it."""
    up = move.size > 0
    colour = RAISED if up else LOWERED
    start, end = (middle - reach, middle + reach) if up else (middle + reach, middle - reach)
    axes.axvline(time, color=style.MUTED, linewidth=0.7, linestyle=":", zorder=0.6)
    axes.annotate(
        "", xy=(time, end), xytext=(time, start), zorder=3,
        arrowprops={
            "arrowstyle": "-|>,head_width=0.28,head_length=0.4", "color": colour, "linewidth": 1.6,
            "shrinkA": 0, "shrinkB": 0,
        },
    )  # fmt: skip
    axes.annotate(
        f"{move.size:+g}".replace("-", "−"), xy=(time, middle), xytext=(4, 0),
        textcoords="offset points", va="center", size=style.SMALL_SIZE, color=colour,
    )  # fmt: skip
