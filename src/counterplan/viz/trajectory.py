"""One feature as it was and as it would have been, with every change of a dose where it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from counterplan.core.result import Change, Explanation
from counterplan.core.validation import FloatArray, IntArray, Seed
from counterplan.counterfactual.continuous.setting import SequenceExplanation
from counterplan.counterfactual.discrete.budget_dp import PolicyExplanation
from counterplan.errors import InputError
from counterplan.viz import style
from counterplan.viz.labels import (
    Labels,
    Move,
    Named,
    Rows,
    as_rows,
    is_table,
    labels_of,
    move,
    moves_of,
    one_episode,
)
from counterplan.viz.style import COUNTERFACTUAL_MARK, LETTER, OBSERVED_MARK, literal, wrapped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEP = "step"
# How many sampled trajectories tell the range of a policy's, and the share left out on each side.
SAMPLES = 1_000
OUTSIDE = 0.1
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
# How a change may be written, from long to short; the last is not at all.
MOVE_TEXTS: tuple[Callable[[Move], str], ...] = (
    attrgetter("label"),
    attrgetter("two_lines"),
    attrgetter("number"),
    lambda move: "",
)


class TrajectoryEnd(NamedTuple):
    """A trajectory is over: at step t, after a last value, and how."""

    t: int
    last: float
    text: str
    is_observed: bool


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What a trajectory figure shows.

    observed        (T,) values of the feature; nan from where it is over
    counterfactual  (T,) the same with the changes made; the likeliest one where chance decides
    moves           those changes, one for each dose
    feature         what the values are, with their unit
    step            length of a step
    unit            in which that length is given
    begin           when the first step begins
    low, high       (T,) between which 8 in 10 counterfactual ones lie, where chance decides
    ticks           numbers of the feature that have names
    ends            how those end that are over before the last step
    starts          (T,) when each step begins, where not all are of the same length
    """

    observed: FloatArray
    counterfactual: FloatArray
    moves: tuple[Move, ...] = ()
    feature: str = "feature"
    step: float = 1.0
    unit: str = STEP
    begin: float = 0.0
    low: FloatArray | None = None
    high: FloatArray | None = None
    ticks: tuple[tuple[float, str], ...] = ()
    ends: tuple[TrajectoryEnd, ...] = ()
    starts: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("observed", "counterfactual"):
            values = np.asarray(getattr(self, name), dtype=np.float64)
            object.__setattr__(self, name, values)
            if values.ndim != 1 or values.size == 0 or not _is_finite_until_over(values):
                raise InputError(
                    f"trajectory: {name} must be a list of finite numbers (nan only from where a "
                    "course is over)"
                )
        if len(self.observed) != len(self.counterfactual):
            raise InputError(
                f"trajectory: {len(self.observed)} observed values, but "
                f"{len(self.counterfactual)} counterfactual ones"
            )
        for one in self.moves:
            if not 0 <= one.t < len(self.observed):
                raise InputError(
                    f"trajectory: a change at step {one.t}, but the steps are "
                    f"0..{len(self.observed) - 1}"
                )

    @property
    def times(self) -> FloatArray:
        """(T,) in `unit`."""
        if self.starts is not None:
            return self.starts
        return np.asarray(self.begin + self.step * np.arange(len(self.observed)))

    @property
    def time_title(self) -> str:
        """What stands at the axis of time."""
        return f"time ({self.unit}{'s' if self.unit == STEP else ''})"

    @property
    def doses(self) -> tuple[str, ...]:
        """The doses that change."""
        return tuple(dict.fromkeys(one.what for one in self.moves))

    @property
    def extent(self) -> tuple[float, float]:
        """The lowest and the highest of all values."""
        given = [self.observed, self.counterfactual, self.low, self.high]
        values = np.concatenate([one for one in given if one is not None])
        return float(np.nanmin(values)), float(np.nanmax(values))

    def move_text(
        self, dose: str, step: float, arrow: float, letters: Sequence[float]
    ) -> tuple[Callable[[Move], str], int]:
        """How all changes of a dose are written, in the first way that fits between them, and which
        size of letters it takes; where none fits the markers alone tell it.

        step, arrow  widths of a step, on average, and of what marks a change
        letters      widths of a letter, of each size to try
        """
        moves = [move for move in self.moves if move.what == dose]
        end = float(self.times[-1]) + self.step
        places = [*(float(self.times[move.t]) for move in moves), end]
        unit = step * len(self.observed) / (end - float(self.times[0]))
        gaps = [unit * (after - time) - arrow for time, after in pairwise(places)]
        for text in MOVE_TEXTS[:-1]:
            longest = [max(map(len, text(move).split("\n"))) for move in moves]
            for size, letter in enumerate(letters):
                fits = (letter * n <= gap for n, gap in zip(longest, gaps, strict=True))
                if all(text(move) for move in moves) and all(fits):
                    return text, size
        return MOVE_TEXTS[-1], 0

    def relative_size(self, move: Move) -> float:
        """The size of a change as a share of the largest of the same dose; a half where there is
        no more or less."""
        sizes = [abs(one.size) for one in self.moves if one.what == move.what and one.direction]
        return abs(move.size) / max(sizes) if move.direction else 0.5


def _is_finite_until_over(values: FloatArray) -> bool:
    """Finite numbers, then nothing but nan; at least one number."""
    finite = np.isfinite(values)
    ended = not np.isinf(values).any() and bool((np.diff(finite.astype(int)) <= 0).all())
    return bool(finite[0]) and ended


def trajectory_figure(
    found: Explanation | Rows | Trajectory,
    labels: Named | None = None,
    *,
    feature: str | int | None = None,
    begin: float = 0.0,
    seed: Seed = 0,
) -> Figure:
    """A feature of an explained episode over time, observed and counterfactual; arrows say which
    dose goes up or down, and by how much.

    found    an explanation, or the rows of a run's `trajectories` of one episode and k
    labels   where names and units come from: a schema, a layout, a model, or `Labels`
    feature  its name or number; if not given the first that says what is better
    begin    when the first step begins
    seed     of the samples that show how far chance may lead a policy
    """
    if not isinstance(found, Trajectory):
        found = trajectory_of(found, labels, feature=feature, begin=begin, seed=seed)
    figure, axes = style.new_axes(5.6, 3.2)
    draw_trajectory(axes, found)
    style.legend_above(figure)
    return figure


# --- From results ---


def trajectory_of(
    found: Explanation | Rows,
    labels: Named | None,
    *,
    feature: str | int | None = None,
    begin: float = 0.0,
    seed: Seed = 0,
) -> Trajectory:
    """A feature of an explained episode; arguments as of `trajectory_figure`."""
    if labels is None:
        raise InputError(
            "trajectory_figure: say what the features are called: labels=, such as a SchemaLayout "
            "or viz.Labels.named(features, doses, actions)"
        )
    known = labels_of(labels)
    place = known.place(feature)
    if is_table(found):
        return _from_rows(as_rows(found, "trajectory_figure", "episode_id", "t"), known, place)
    if isinstance(found, SequenceExplanation):
        both = [known.values(states, place) for states in (found.episode.states, found.states)]
        return _labelled(known, place, both, moves_of(found.changes, known), begin=begin)
    if isinstance(found, PolicyExplanation):
        states = (found.episode.states, found.most_likely.states)
        both = [_until_over(known.values(one, place)) for one in states]
        low, high = _range(known.values(found.sample(SAMPLES, seed=seed).states, place))
        more = {"begin": begin, "low": low, "high": high, "ends": _ends(known, states, both)}
        return _labelled(known, place, both, moves_of(found.changes, known), **more)
    raise InputError(f"trajectory_figure: cannot draw a {type(found).__name__}")


def _labelled(
    labels: Labels, place: int, both: Sequence[FloatArray], moves: tuple[Move, ...], **more: Any
) -> Trajectory:
    title, unit = labels.title(place), labels.unit or STEP
    ticks = labels.ticks(place)
    return Trajectory(both[0], both[1], moves, title, labels.step, unit, ticks=ticks, **more)


def _ends(
    labels: Labels, states: Sequence[Sequence[int] | IntArray], both: Sequence[FloatArray]
) -> tuple[TrajectoryEnd, ...]:
    """How the observed and the counterfactual trajectory end."""
    found = []
    for number, (visited, values) in enumerate(zip(states, both, strict=True)):
        over = np.flatnonzero(np.isnan(values))
        if over.size:
            t = int(over[0])
            text = labels.endings.get(int(visited[t]), "")
            found.append(TrajectoryEnd(t, float(values[t - 1]), text, number == 0))
    return tuple(found)


def _range(sampled: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(T,) low and high of those trajectories that are not over; nan where all are."""
    low, high = np.full((2, sampled.shape[1]), np.nan)
    for t, values in enumerate(sampled.T):
        going = values[np.isfinite(values)]
        if going.size:
            low[t], high[t] = np.quantile(going, [OUTSIDE, 1.0 - OUTSIDE], method="nearest")
    return low, high


def _until_over(values: FloatArray) -> FloatArray:
    """A trajectory that is nan ends there, whatever follows."""
    return np.where(np.cumsum(np.isnan(values)) > 0, np.nan, values)


def _from_rows(rows: Sequence[Mapping[str, Any]], labels: Labels, place: int) -> Trajectory:
    steps = one_episode(list(rows), "trajectory_figure")
    is_discrete = labels.states is not None
    column = "state" if is_discrete else f"state:{labels.features[place].name}"
    if column not in steps[0]:
        raise InputError(f"trajectory_figure: the table has no column {column!r}")
    given = [[row[prefix + column] for row in steps] for prefix in ("", "counterfactual_")]
    if is_discrete:
        both = [_until_over(labels.values(states, place)) for states in given]
    else:
        both = [np.array(values, dtype=np.float64) for values in given]
    times = np.array([row["time"] for row in steps], dtype=np.float64)
    ends = _ends(labels, given, both) if is_discrete else ()
    moves = _discrete_moves(steps, labels) if is_discrete else _dose_moves(steps, labels)
    made = _labelled(labels, place, both, moves, begin=float(times[0]), ends=ends)
    if len(times) == 1:
        return made
    lengths = np.diff(times)
    if np.allclose(lengths, lengths[0]):
        return replace(made, step=float(lengths[0]))
    return replace(made, step=float(lengths.min()), starts=times)  # rows are missing


def _discrete_moves(steps: Sequence[Mapping[str, Any]], labels: Labels) -> tuple[Move, ...]:
    changed = [row for row in steps if row["changed"]]
    both = [Change(row["t"], row["action"], row["counterfactual_action"]) for row in changed]
    return moves_of(both, labels)


def _dose_moves(steps: Sequence[Mapping[str, Any]], labels: Labels) -> tuple[Move, ...]:
    found: list[Move] = []
    for row in steps:
        for dose in labels.doses:
            before = row.get(f"action:{dose.name}")
            after = row.get(f"counterfactual_action:{dose.name}")
            if before is not None and after is not None and before != after:
                found.append(move(int(row["t"]), dose, float(before), float(after)))
    return tuple(found)


# --- Drawing ---


def draw_trajectory(axes: Axes, trajectory: Trajectory) -> None:
    """Both trajectories into a panel, without a legend; the curves have labels."""
    style.style_axes(axes)
    times, before, after = trajectory.times, trajectory.observed, trajectory.counterfactual
    if trajectory.low is not None and trajectory.high is not None:
        axes.fill_between(
            times, trajectory.low, trajectory.high, color=style.BAND, alpha=0.7, linewidth=0,
            label="8 in 10 courses",
        )  # fmt: skip
    else:
        axes.fill_between(times, before, after, color=style.BAND, alpha=0.6, linewidth=0)
    # Dashes over the solid line: where both are the same, both are seen.
    axes.plot(times, after, label="counterfactual", **COUNTERFACTUAL_MARK.look(2.0, 5.0))
    axes.plot(times, before, label="observed", **OBSERVED_MARK.look(1.4, 3.2))
    _draw_ends(axes, trajectory)
    _draw_moves(axes, trajectory)
    axes.set_xlabel(literal(trajectory.time_title))
    axes.set_ylabel(wrapped(trajectory.feature, _inches(axes)[1]))
    margin = 0.5 * trajectory.step
    axes.set_xlim(times[0] - margin, times[-1] + margin)
    every = -(-len(times) // 8)  # at most eight numbers
    axes.set_xticks(times[::every])


def _draw_ends(axes: Axes, trajectory: Trajectory) -> None:
    """How a trajectory ends that is over: in words, where the next value would be."""
    for end in trajectory.ends:
        colour = style.OBSERVED if end.is_observed else style.COUNTERFACTUAL
        axes.annotate(
            literal(end.text), xy=(trajectory.times[end.t], end.last), xytext=(0, 9),
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
    names = [wrapped(dose, DOSE, style.SMALL_SIZE) for dose in doses]
    # The panel is less wide where the names beside it are long.
    longest = max((len(line) for name in names for line in name.split("\n")), default=0)
    width = _inches(axes)[0] - LETTER * style.SMALL_SIZE * max(longest - USUAL_NAME, 0)
    step, letters = width / len(trajectory.observed), [LETTER * size for size in SIZES]
    texts = {dose: trajectory.move_text(dose, step, ARROW, letters) for dose in doses}
    for one in trajectory.moves:
        time, middle = float(trajectory.times[one.t]), middles[doses.index(one.what)]
        axes.axvline(time, color=style.MUTED, linewidth=0.7, linestyle=":", zorder=0.6)
        if one.direction:
            reach = 0.38 * row * max(trajectory.relative_size(one), 0.35)
            _draw_arrow(axes, time, middle, reach * one.direction)
        else:
            axes.plot(
                time, middle, marker="D", markersize=4.5, color=style.COUNTERFACTUAL, zorder=3
            )
        text, size = texts[one.what]
        axes.annotate(
            literal(text(one)), xy=(time, middle), xytext=(5, 0), textcoords="offset points",
            va="center", size=SIZES[size], color=style.INK, linespacing=0.9,
        )  # fmt: skip
    axes.set_ylim(bottom - len(doses) * row, high + 0.08 * height)
    _write_ticks(axes, trajectory, bottom, list(zip(middles, names, strict=True)))


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
