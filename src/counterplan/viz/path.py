"""A realised path of an exogenous future: what was seen, what everyone did, and with what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.planning import description
from counterplan.planning.description import axes_of, columns_of
from counterplan.planning.model import ExogenousModel, State
from counterplan.planning.policies import Played, played
from counterplan.viz import style
from counterplan.viz.explained import Rows, as_rows, is_table
from counterplan.viz.quantity import Quantity
from counterplan.viz.style import (
    COUNTERFACTUAL_MARK,
    HINDSIGHT_MARK,
    OBSERVED_MARK,
    SERIES,
    Mark,
    literal,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from counterplan.counterfactual.executed.setting import AllocationExplanation
    from counterplan.planning.regret import Regret

# What the numbers of a problem are called, for problems that do not say so themselves.
PathNames = description.Axes
# Inches of a panel, and what a figure has besides.
PANEL, BESIDES = 1.15, 1.0
MOST_NUMBERS = 20
# Width and marker size of lines that lie upon each other, the lowest first.
LINES = ((2.0, 5.5), (1.6, 4.6), (1.2, 3.0))
WRITE = Quantity().write
# Who may have decided along a path, as columns of decisions begin.
PLAYERS = ("executed", "policy", "open_loop", "planned", "hindsight")

Steps = Sequence[Mapping[str, Any]]


class Player(NamedTuple):
    """Someone who decides along the path: who, and what it came to; the mark; what was done."""

    name: str
    mark: Mark
    done: Played


class RealisedPath(NamedTuple):
    """What a path figure shows.

    seen     (T, n) numbers that were revealed
    players  who decided, the executed decisions first
    losses   (T,) what each executed decision lost in expectation, None where that is not known
    heading  what was lost, in words
    """

    seen: FloatArray
    players: list[Player]
    losses: FloatArray | None
    heading: str = ""


def path_figure(
    found: Regret | AllocationExplanation | Rows,
    problem: ExogenousModel | None = None,
    path: ArrayLike | None = None,
    *,
    state: State | None = None,
    names: PathNames | None = None,
) -> Figure:
    """Prices (or modes), resources and decisions along one path, in panels above each other.

    found    a regret, an explanation of executed decisions, or rows of a run's `decisions` of one
             scenario
    problem  the planning problem; an explanation knows it
    path     (T, X) that was realised; rows know it
    state    where the path begins (default: the problem's start)
    names    titles of the numbers, for problems of one's own
    """
    from counterplan.counterfactual.executed.setting import AllocationExplanation

    if isinstance(found, AllocationExplanation):
        return _draw_path(_of_explanation(found), names or axes_of(found.problem))
    if problem is None:
        raise InputError("path_figure: say which problem: problem=")
    titles = names or axes_of(problem)
    if is_table(found):
        rows = as_rows(found, "path_figure", "scenario_id", "t")
        return _draw_path(_of_rows(rows, problem), titles)
    from counterplan.planning.regret import Regret

    if not isinstance(found, Regret):
        raise InputError(f"path_figure: cannot draw a {type(found).__name__}")
    if path is None:
        raise InputError("path_figure: a regret does not keep its path: pass it, path=")
    return _draw_path(_of_regret(found, problem, path, state), titles)


# --- From results ---


def _of_regret(
    found: Regret, problem: ExogenousModel, path: ArrayLike, state: State | None
) -> RealisedPath:
    from counterplan.planning.hindsight import checked_path

    exogenous, start = checked_path(problem, path, state)
    players = [
        Player(f"{name}: {WRITE(value)}", mark, _journey(problem, exogenous, start, actions))
        for name, mark, value, actions in (
            ("executed", OBSERVED_MARK, found.executed, found.actions),
            (f"planned ({found.policy})", COUNTERFACTUAL_MARK, found.without_foresight,
             found.policy_actions),
            ("hindsight", HINDSIGHT_MARK, found.hindsight, found.hindsight_actions),
        )
    ]  # fmt: skip
    heading = f"lost {WRITE(found.regret_hindsight)} against hindsight"
    if found.expected_regret is not None:
        heading += f", {WRITE(found.expected_regret)} in expectation"
    columns = columns_of(problem)
    seen = columns.written(exogenous, found.actions)[:, : len(columns.observed)]
    return RealisedPath(seen, players, found.expected_losses, heading)


def _of_explanation(found: AllocationExplanation) -> RealisedPath:
    problem, path = found.problem, found.path
    start = State(problem.horizon - len(path), path[0], found.levels[0])
    players = [
        Player(f"{name}: {WRITE(value)}", mark, _journey(problem, path, start, actions))
        for name, mark, value, actions in (
            ("executed", OBSERVED_MARK, found.factual_value, found.observed),
            ("instead", COUNTERFACTUAL_MARK, found.value, found.actions),
        )
    ]
    columns = columns_of(problem)
    seen = columns.written(path, found.observed)[:, : len(columns.observed)]
    unit = axes_of(problem).unit
    return RealisedPath(seen, players, None, f"values in {unit}" if unit else "")


def _journey(
    problem: ExogenousModel, path: FloatArray, start: State, actions: FloatArray
) -> Played:
    return played(problem, lambda t, x, d: actions[[t - start.t]], path, start)


def numbers_of(steps: Steps, name: str, endings: Sequence[str]) -> FloatArray | None:
    """(T, n) the columns of a name in rows of decisions, None if they are not there or not full."""
    values = [[row.get(f"{name}{ending}") for ending in endings] for row in steps]
    return None if any(None in row for row in values) else np.array(values, dtype=np.float64)


def journeys(problem: ExogenousModel, steps: Steps) -> dict[str, Played]:
    """What everyone whose decisions are known did along a path, by the rows of a run's `decisions`
    of one scenario: d_{t+1} = step_t(x_t, d_t, a_t)."""
    columns, axes = columns_of(problem), axes_of(problem)
    path = columns.path(columns.from_rows(steps))
    levels = (numbers_of(steps, f"{player}_level", axes.level_keys) for player in PLAYERS)
    start = columns.state(path, next((one[0] for one in levels if one is not None), None))
    given = {player: numbers_of(steps, player, axes.action_keys) for player in PLAYERS}
    return {
        player: _journey(problem, path, start, actions)
        for player, actions in given.items()
        if actions is not None
    }


def _of_rows(rows: Steps, problem: ExogenousModel) -> RealisedPath:
    if len({row["scenario_id"] for row in rows}) > 1:
        raise InputError("path_figure: the table holds several scenarios; choose one")
    steps = sorted(rows, key=lambda row: int(row["t"]))
    done = journeys(problem, steps)
    players = [
        Player(name, mark, done[player])
        for player, name, mark in (
            ("executed", "executed", OBSERVED_MARK),
            ("planned" if "planned" in done else "policy", "planned", COUNTERFACTUAL_MARK),
            ("hindsight", "hindsight", HINDSIGHT_MARK),
        )
        if player in done
    ]
    if not players:
        raise InputError("path_figure: this scenario failed: nobody's decisions are known")
    seen, losses = columns_of(problem).from_rows(steps), numbers_of(steps, "expected_loss", ("",))
    if losses is None:
        return RealisedPath(seen, players, None)
    heading = f"lost {WRITE(float(losses.sum()))} in expectation"
    return RealisedPath(seen, players, losses[:, 0], heading)


# --- Drawing ---


def _draw_path(path: RealisedPath, names: PathNames) -> Figure:
    """What was seen, what was done, what was left and what was lost, from top to bottom."""
    from matplotlib.lines import Line2D

    # To exercise an option or not: resources then say nothing more and are not drawn.
    is_yes_or_no = all(np.isin(player.done.actions, (0.0, 1.0)).all() for player in path.players)
    seen = names.observed[0].rsplit(" ", 1)[0] if len(names.observed) > 1 else names.observed[0]
    panels: list[tuple[str, Callable[[Axes], None]]]
    panels = [(seen, partial(_draw_seen, seen=path.seen, names=names))]
    if is_yes_or_no:
        panels.append(("", partial(_draw_choices, players=path.players, names=names.actions)))
    else:
        for draw, titles in ((_draw_amounts, names.actions), (_draw_levels, names.levels)):
            panels += [(title, partial(draw, path.players, n)) for n, title in enumerate(titles)]
    if path.losses is not None and path.losses.any():
        panels.append(("expected loss", partial(_draw_losses, losses=path.losses)))
    steps = len(path.seen)
    figure = style.new_figure(min(max(5.6, 2.0 + 0.3 * steps), 9.0), BESIDES + PANEL * len(panels))
    places = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (title, panel) in zip(places, panels, strict=True):
        style.style_axes(axes)
        Quantity().label_axis(axes.yaxis)
        panel(axes)
        axes.set_ylabel(style.wrapped(title, PANEL, style.SMALL_SIZE), size=style.SMALL_SIZE)
    figure.align_ylabels(places)
    axes.set_xticks(range(0, steps, -(-steps // MOST_NUMBERS)))
    axes.set_xlim(-0.6, steps - 0.4 + (0.0 if is_yes_or_no else 0.5))
    heading = f"   ({path.heading})" if path.heading else ""
    axes.set_xlabel(literal(f"{names.step}{heading}"))
    handles = [
        Line2D([], [], label=literal(one.name), **one.mark.look(1.3)) for one in path.players
    ]
    style.legend_above(figure, handles, columns=3)
    return figure


def _draw_seen(axes: Axes, seen: FloatArray, names: PathNames) -> None:
    """Prices, one line each, with its number at the end where there are several; or which of
    several modes it was, as a staircase."""
    steps = range(len(seen))
    look: dict[str, Any] = {"color": style.INK, "linewidth": 1.2, "marker": ".", "markersize": 5}
    if names.modes:
        axes.plot(steps, seen[:, 0], drawstyle="steps-mid", **look)
        axes.set_yticks(range(len(names.modes)), names.modes)
        axes.set_ylim(-0.5, len(names.modes) - 0.5)
        return
    for number, values in enumerate(seen.T):
        axes.plot(steps, values, linestyle=SERIES[number % len(SERIES)].line, **look)
        if len(names.observed) > 1:
            axes.annotate(
                literal(names.observed[number].split()[-1]), (steps[-1], values[-1]),
                xytext=(4, 0), textcoords="offset points", va="center", size=style.SMALL_SIZE,
                color=style.INK,
            )  # fmt: skip
    axes.margins(y=0.15)


def _offsets(players: Sequence[Player]) -> list[tuple[Player, float]]:
    """How far each player's marks stand from the middle of a step."""
    middle = (len(players) - 1) / 2
    return [(player, 0.2 * (number - middle)) for number, player in enumerate(players)]


def _draw_amounts(players: Sequence[Player], part: int, axes: Axes) -> None:
    """A stem with a marker for each player and step."""
    for player, offset in _offsets(players):
        places, values = np.arange(len(player.done.actions)) + offset, player.done.actions[:, part]
        axes.vlines(places, 0.0, values, color=player.mark.colour, linewidth=1.4)
        axes.plot(places, values, **player.mark.look(0, 5.0), label=player.name)
    axes.axhline(0.0, color=style.MUTED, linewidth=0.8)
    axes.margins(y=0.12)


def _draw_choices(axes: Axes, players: Sequence[Player], names: Sequence[str]) -> None:
    """A row for each thing that can be done, a marker where someone does it."""
    rows = len(names)
    for player, offset in _offsets(players):
        step, row = np.nonzero(player.done.actions)
        places = row + (offset if rows > 1 else 1.4 * offset)
        axes.plot(step, places, **player.mark.look(0, 6.0), label=player.name)
    axes.set_yticks(range(rows), [literal(name) for name in names])
    axes.set_ylim(rows - 0.5, -0.5)


def _draw_levels(players: Sequence[Player], part: int, axes: Axes) -> None:
    """The resource before each decision, and at the end."""
    # From the solid line up to the dashed one: where they are the same, all are seen.
    ordered = (*players[1:], *players[:1])
    for player, (width, size) in zip(ordered, LINES[-len(ordered) :], strict=True):
        values = player.done.levels[:, part]
        axes.plot(range(len(values)), values, **player.mark.look(width, size))
    axes.margins(y=0.12)


def _draw_losses(axes: Axes, losses: FloatArray) -> None:
    """What each executed decision lost in expectation."""
    axes.bar(range(len(losses)), losses, width=0.6, color=style.OBSERVED)
    axes.set_ylim(0.0, 1.15 * float(losses.max()) or 1.0)
