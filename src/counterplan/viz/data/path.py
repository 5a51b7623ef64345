"""A realised path of an exogenous future: what was seen, what everyone did, and with what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from counterplan.core.validation import FloatArray
from counterplan.errors import InputError
from counterplan.exogenous.model import ExogenousModel, State
from counterplan.io.scenario_form import form_of
from counterplan.planning.journey import checked_path
from counterplan.planning.regret import Regret
from counterplan.viz.data.path_names import PathNames, path_names, seen_numbers
from counterplan.viz.data.rows import Rows, as_rows, is_table
from counterplan.viz.marks import COUNTERFACTUAL, HINDSIGHT, OBSERVED, Mark
from counterplan.viz.quantity import Quantity

# Who decides: the name in tables, the one in figures, and what they look like.
PLAYERS = {
    "executed": ("executed", OBSERVED),
    "planned": ("planned", COUNTERFACTUAL),
    "policy": ("planned", COUNTERFACTUAL),
    "hindsight": ("hindsight", HINDSIGHT),
}


@dataclass(frozen=True, eq=False)
class Player:
    """Someone who decides along the path.

    name     who, and what it came to
    actions  (T, A)
    levels   (T + 1, D) the resource before each decision, and at the end
    """

    name: str
    mark: Mark
    actions: FloatArray
    levels: FloatArray


class PathPanel(NamedTuple):
    """One of the panels above each other.

    kind   seen, modes, amounts (of an action), choices (yes or no), levels or losses
    part   which number of the action or the resource
    title  what stands at its axis
    """

    kind: str
    title: str
    part: int = 0


@dataclass(frozen=True, eq=False)
class PathData:
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
    def steps(self) -> FloatArray:
        """(T,) where steps are drawn."""
        return np.arange(len(self.seen), dtype=np.float64)

    @property
    def axis_title(self) -> str:
        """What stands at the axis of steps."""
        return f"{self.names.step}   ({self.heading})" if self.heading else self.names.step

    @property
    def panels(self) -> tuple[PathPanel, ...]:
        """What is drawn, from top to bottom."""
        names = self.names
        several = len(names.seen) > 1
        seen = names.seen[0].rsplit(" ", 1)[0] if several else names.seen[0]
        found = [PathPanel("modes" if names.modes else "seen", seen)]
        if self.is_yes_or_no:
            found.append(PathPanel("choices", ""))
        else:
            found += [PathPanel("amounts", name, n) for n, name in enumerate(names.actions)]
        if self.has_levels:
            found += [PathPanel("levels", name, n) for n, name in enumerate(names.levels)]
        if self.losses is not None and self.losses.any():
            found.append(PathPanel("losses", "expected loss"))
        return tuple(found)

    @property
    def is_yes_or_no(self) -> bool:
        """Whether every action is to do something or not, such as exercising an option."""
        return all(bool(np.isin(player.actions, (0.0, 1.0)).all()) for player in self.players)

    @property
    def has_levels(self) -> bool:
        """Whether resources are drawn: what can be done once only says nothing more."""
        return not self.is_yes_or_no

    def offset(self, player: int) -> float:
        """How far a player's marks stand from the middle of a step."""
        return 0.2 * (player - (len(self.players) - 1) / 2)


def path_data(
    found: Regret | Rows | PathData,
    problem: ExogenousModel | None = None,
    path: ArrayLike | None = None,
    *,
    state: State | None = None,
    names: PathNames | None = None,
) -> PathData:
    """Prices (or modes), resources and decisions along one path.

    found    a regret, or rows of a run's `decisions` of one scenario
    problem  the planning problem
    path     (T, X) that was realised; rows know it
    state    where the path begins (default: the problem's start)
    names    titles of the numbers, for problems of one's own
    """
    if isinstance(found, PathData):
        return found
    if problem is None:
        raise InputError("path_figure: say which problem: problem=, such as domains.Bunkering()")
    titles = names or path_names(problem)
    if isinstance(found, Regret):
        if path is None:
            raise InputError("path_figure: a regret does not keep its path: pass it, path=")
        return _of_regret(found, problem, path, state, titles)
    if not is_table(found):
        raise InputError(f"path_figure: cannot draw a {type(found).__name__}")
    rows = as_rows(found, "path_figure", "scenario_id", "t")
    return _of_rows(rows, problem, titles)


def _of_regret(
    found: Regret, problem: ExogenousModel, path: ArrayLike, state: State | None, names: PathNames
) -> PathData:
    exogenous, start = checked_path(problem, path, state)
    written = Quantity()

    def player(key: str, value: float, actions: FloatArray, whose: str = "") -> Player:
        name, mark = PLAYERS[key]
        levels = _levels(problem, exogenous, actions, start)
        return Player(f"{name}{whose}: {written.write(value)}", mark, actions, levels)

    players = (
        player("executed", found.executed, found.actions),
        player("policy", found.without_foresight, found.policy_actions, f" ({found.policy})"),
        player("hindsight", found.hindsight, found.hindsight_actions),
    )
    heading = f"lost {written.write(found.regret_hindsight)} against hindsight"
    if found.expected_regret is not None:
        heading += f", {written.write(found.expected_regret)} in expectation"
    seen = seen_numbers(problem, exogenous)
    return PathData(seen, players, found.expected_losses, names, heading)


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
) -> PathData:
    if len({row["scenario_id"] for row in rows}) > 1:
        raise InputError("path_figure: the table holds several scenarios; choose one")
    steps = sorted(rows, key=lambda row: int(row["t"]))
    form = form_of(problem)
    seen = np.array([
        [entry.names.index(row[entry.column]) if entry.names else row[entry.column]
         for entry in form.seen] for row in steps
    ], dtype=np.float64)  # fmt: skip
    decides = "policy" if _known(steps, "planned", form.parts) is None else "planned"
    path, players = form.path(seen), []
    for key in ("executed", decides, "hindsight"):
        actions = _known(steps, key, form.parts)
        if actions is not None:
            name, mark = PLAYERS[key]
            start = form.state(path, _first_level(steps, decides, form.tanks))
            players.append(Player(name, mark, actions, _levels(problem, path, actions, start)))
    if not players:
        raise InputError("path_figure: this scenario failed: nobody's decisions are known")
    losses = _known(steps, "expected_loss", ("",))
    lost = None if losses is None else losses[:, 0]
    heading = "" if lost is None else f"lost {Quantity().write(float(lost.sum()))} in expectation"
    return PathData(seen, tuple(players), lost, names, heading)


def _first_level(
    steps: Sequence[Mapping[str, Any]], player: str, tanks: Sequence[str]
) -> FloatArray | None:
    """The resource that everyone began with, None for the problem's own."""
    known = _known(steps[:1], f"{player}_level", tanks)
    return None if known is None else known[0]


def _known(
    steps: Sequence[Mapping[str, Any]], name: str, endings: Sequence[str]
) -> FloatArray | None:
    """(T, n) the columns of a name, None if they are not there or empty."""
    columns = [f"{name}{ending}" for ending in endings]
    values = [[row.get(column) for column in columns] for row in steps]
    if any(value is None for row in values for value in row):
        return None
    return np.array(values, dtype=np.float64)
