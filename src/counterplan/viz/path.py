"""A realised path of an exogenous future: what was seen, what everyone did, and with what."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.planning import description
from counterplan.planning.description import axes_of, columns_of
from counterplan.planning.model import ExogenousModel, State
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

    from counterplan.planning.regret import Regret

# What the numbers of a problem are called, for problems that do not say so themselves.
PathNames = description.Axes
# Who decides, by name in tables: what they look like, the executed decisions first.
MARKS = {
    "executed": OBSERVED_MARK,
    "planned": COUNTERFACTUAL_MARK,
    "policy": COUNTERFACTUAL_MARK,
    "hindsight": HINDSIGHT_MARK,
}
# Inches of a panel, and what a figure has besides.
PANEL, BESIDES = 1.15, 1.0
MOST_NUMBERS = 20
# Width and marker size of lines that lie upon each other, the lowest first.
LINES = ((2.0, 5.5), (1.6, 4.6), (1.2, 3.0))
WRITE = Quantity().write


class Player(NamedTuple):
    """Someone who decides along the path.

    name     who, and what it came to
    actions  (T, A)
    levels   (T + 1, D) the resource before each decision, and at the end
    """

    name: str
    mark: Mark
    actions: FloatArray
    levels: FloatArray


@dataclass(frozen=True, eq=False)
class RealisedPath:
    """What a path figure shows.

    seen     (T, n) numbers that were revealed
    players  who decided, the executed decisions first
    losses   (T,) what each executed decision lost in expectation, None where that is not known
    names    titles of all numbers
    heading  what was lost, in words
    """

    seen: FloatArray
    players: tuple[Player, ...]
    losses: FloatArray | None
    names: PathNames
    heading: str = ""

    @property
    def is_yes_or_no(self) -> bool:
        """Whether every action is to do something or not, such as exercising an option; resources
        then say nothing more and are not drawn."""
        return all(bool(np.isin(player.actions, (0.0, 1.0)).all()) for player in self.players)

    def offset(self, player: int) -> float:
        """How far a player's marks stand from the middle of a step."""
        return 0.2 * (player - (len(self.players) - 1) / 2)


DrawPanel: TypeAlias = "Callable[[Axes, RealisedPath], None]"


def path_figure(
    found: Regret | Rows,
    problem: ExogenousModel | None = None,
    path: ArrayLike | None = None,
    *,
    state: State | None = None,
    names: PathNames | None = None,
) -> Figure:
    """Prices (or modes), resources and decisions along one path, in panels above each other.

    found    a regret, or rows of a run's `decisions` of one scenario
    problem  the planning problem
    path     (T, X) that was realised; rows know it
    state    where the path begins (default: the problem's start)
    names    titles of the numbers, for problems of one's own
    """
    if problem is None:
        raise InputError("path_figure: say which problem: problem=")
    titles = names or axes_of(problem)
    if is_table(found):
        rows = as_rows(found, "path_figure", "scenario_id", "t")
        return _draw_path(_of_rows(rows, problem, titles))
    from counterplan.planning.regret import Regret

    if not isinstance(found, Regret):
        raise InputError(f"path_figure: cannot draw a {type(found).__name__}")
    if path is None:
        raise InputError("path_figure: a regret does not keep its path: pass it, path=")
    return _draw_path(_of_regret(found, problem, path, state, titles))


# --- From results ---


def _of_regret(
    found: Regret, problem: ExogenousModel, path: ArrayLike, state: State | None, names: PathNames
) -> RealisedPath:
    from counterplan.planning.hindsight import checked_path

    exogenous, start = checked_path(problem, path, state)
    players = tuple(
        Player(
            f"{name}: {WRITE(value)}", MARKS[key], actions,
            _levels(problem, exogenous, actions, start),
        )
        for key, name, value, actions in (
            ("executed", "executed", found.executed, found.actions),
            ("policy", f"planned ({found.policy})", found.without_foresight, found.policy_actions),
            ("hindsight", "hindsight", found.hindsight, found.hindsight_actions),
        )
    )  # fmt: skip
    heading = f"lost {WRITE(found.regret_hindsight)} against hindsight"
    if found.expected_regret is not None:
        heading += f", {WRITE(found.expected_regret)} in expectation"
    columns = columns_of(problem)
    seen = columns.written(exogenous, found.actions)[:, : len(columns.observed)]
    return RealisedPath(seen, players, found.expected_losses, names, heading)


def _levels(
    problem: ExogenousModel, path: FloatArray, actions: FloatArray, state: State
) -> FloatArray:
    """(T + 1, D) the resource before each decision, and at the end."""
    resource = np.array(state.resource, dtype=np.float64)[np.newaxis]
    levels = [resource[0]]
    for s, action in enumerate(actions):
        _, resource = problem.step(state.t + s, path[s : s + 1], resource, action[np.newaxis])
        levels.append(resource[0])
    return np.array(levels)


def _of_rows(
    rows: Sequence[Mapping[str, Any]], problem: ExogenousModel, names: PathNames
) -> RealisedPath:
    if len({row["scenario_id"] for row in rows}) > 1:
        raise InputError("path_figure: the table holds several scenarios; choose one")
    steps = sorted(rows, key=lambda row: int(row["t"]))
    columns, axes = columns_of(problem), axes_of(problem)
    seen = columns.from_rows(steps)
    path, known = columns.path(seen), partial(_known, steps)
    decides = "policy" if known("planned", axes.action_keys) is None else "planned"
    players = []
    for key in ("executed", decides, "hindsight"):
        actions = known(key, axes.action_keys)
        if actions is not None:
            level = known(f"{decides}_level", axes.level_keys)
            start = columns.state(path, None if level is None else level[0])
            levels = _levels(problem, path, actions, start)
            name = "planned" if key == "policy" else key
            players.append(Player(name, MARKS[key], actions, levels))
    if not players:
        raise InputError("path_figure: this scenario failed: nobody's decisions are known")
    losses = known("expected_loss", ("",))
    if losses is None:
        return RealisedPath(seen, tuple(players), None, names)
    heading = f"lost {WRITE(float(losses.sum()))} in expectation"
    return RealisedPath(seen, tuple(players), losses[:, 0], names, heading)


def _known(
    steps: Sequence[Mapping[str, Any]], name: str, endings: Sequence[str]
) -> FloatArray | None:
    """(T, n) the columns of a name, None if they are not there or not full."""
    values = [[row.get(f"{name}{ending}") for ending in endings] for row in steps]
    return None if any(None in row for row in values) else np.array(values, dtype=np.float64)


# --- Drawing ---


def _draw_path(path: RealisedPath) -> Figure:
    """What was seen, what was done, what was left and what was lost, from top to bottom."""
    from matplotlib.lines import Line2D

    panels, steps = _panels(path), len(path.seen)
    figure = style.new_figure(min(max(5.6, 2.0 + 0.3 * steps), 9.0), BESIDES + PANEL * len(panels))
    places = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axes, (title, draw) in zip(places, panels, strict=True):
        style.style_axes(axes)
        Quantity().label_axis(axes.yaxis)
        draw(axes, path)
        axes.set_ylabel(style.wrapped(title, PANEL, style.SMALL_SIZE), size=style.SMALL_SIZE)
    figure.align_ylabels(places)
    last = places[-1]
    last.set_xticks(range(0, steps, -(-steps // MOST_NUMBERS)))
    last.set_xlim(-0.6, steps - 0.4 + (0.0 if path.is_yes_or_no else 0.5))
    heading = f"   ({path.heading})" if path.heading else ""
    last.set_xlabel(literal(f"{path.names.step}{heading}"))
    looks = {literal(one.name): one.mark.look(1.3) for one in path.players}
    handles = [Line2D([], [], label=name, **look) for name, look in looks.items()]
    style.legend_above(figure, handles, columns=3)
    return figure


def _panels(path: RealisedPath) -> list[tuple[str, DrawPanel]]:
    """Titles, and what draws each."""
    names = path.names
    seen = names.observed[0].rsplit(" ", 1)[0] if len(names.observed) > 1 else names.observed[0]
    panels: list[tuple[str, DrawPanel]] = [(seen, _draw_seen)]
    if path.is_yes_or_no:
        panels.append(("", _draw_choices))
    else:
        panels += [(name, partial(_draw_amounts, part=n)) for n, name in enumerate(names.actions)]
        panels += [(name, partial(_draw_levels, part=n)) for n, name in enumerate(names.levels)]
    if path.losses is not None and path.losses.any():
        panels.append(("expected loss", _draw_losses))
    return panels


def _draw_seen(axes: Axes, path: RealisedPath) -> None:
    """Prices, one line each, with its number at the end where there are several; or which of
    several modes it was, as a staircase."""
    names, steps = path.names, range(len(path.seen))
    look: dict[str, Any] = {"color": style.INK, "linewidth": 1.2, "marker": ".", "markersize": 5}
    if names.modes:
        axes.plot(steps, path.seen[:, 0], drawstyle="steps-mid", **look)
        axes.set_yticks(range(len(names.modes)), names.modes)
        axes.set_ylim(-0.5, len(names.modes) - 0.5)
        return
    for number, values in enumerate(path.seen.T):
        axes.plot(steps, values, linestyle=SERIES[number % len(SERIES)].line, **look)
        if len(names.observed) > 1:
            axes.annotate(
                literal(names.observed[number].split()[-1]), (steps[-1], values[-1]),
                xytext=(4, 0), textcoords="offset points", va="center", size=style.SMALL_SIZE,
                color=style.INK,
            )  # fmt: skip
    axes.margins(y=0.15)


def _draw_amounts(axes: Axes, path: RealisedPath, part: int) -> None:
    """A stem with a marker for each player and step."""
    for number, player in enumerate(path.players):
        places, values = np.arange(len(path.seen)) + path.offset(number), player.actions[:, part]
        axes.vlines(places, 0.0, values, color=player.mark.colour, linewidth=1.4)
        axes.plot(places, values, **player.mark.look(0, 5.0), label=player.name)
    axes.axhline(0.0, color=style.MUTED, linewidth=0.8)
    axes.margins(y=0.12)


def _draw_choices(axes: Axes, path: RealisedPath) -> None:
    """A row for each thing that can be done, a marker where someone does it."""
    rows = len(path.names.actions)
    for number, player in enumerate(path.players):
        step, row = np.nonzero(player.actions)
        places = row + (path.offset(number) if rows > 1 else 1.4 * path.offset(number))
        axes.plot(step, places, **player.mark.look(0, 6.0), label=player.name)
    axes.set_yticks(range(rows), [literal(name) for name in path.names.actions])
    axes.set_ylim(rows - 0.5, -0.5)


def _draw_levels(axes: Axes, path: RealisedPath, part: int) -> None:
    """The resource before each decision, and at the end."""
    # From the solid line up to the dashed one: where they are the same, all are seen.
    players = (*path.players[1:], *path.players[:1])
    for player, (width, size) in zip(players, LINES[-len(players) :], strict=True):
        values = player.levels[:, part]
        axes.plot(range(len(values)), values, **player.mark.look(width, size))
    axes.margins(y=0.12)


def _draw_losses(axes: Axes, path: RealisedPath) -> None:
    """What each executed decision lost in expectation."""
    assert path.losses is not None
    axes.bar(range(len(path.losses)), path.losses, width=0.6, color=style.OBSERVED)
    axes.set_ylim(0.0, 1.15 * float(path.losses.max(initial=0.0)) or 1.0)
