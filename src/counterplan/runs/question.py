"""What is asked about every episode of a cohort: how many actions may change, by which method,
within which limits, and by which rules.

Rules say what may change by the names of actions and states:

    allow   what alone may be done instead: "heparin", "drug=none|heparin", "drug=cedin & dose=200"
    forbid  what may not be; "worn:replace" is an action that is never taken in that state
    cost    what a change takes of the budget: "surgery=2", "dose=400=3"
    keep    steps that stay as they were

An action is named as results write it, by its number (an int), or by values of its columns: between
| any of them, between & all of them. Rules of one kind add up: what one of them allows or forbids,
and the largest of several costs.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.limits import Limits
from counterplan.core.validation import LARGEST_BUDGET, BoolArray, whole_number
from counterplan.errors import InputError
from counterplan.tables.schema import Column, Grid

if TYPE_CHECKING:
    from counterplan.core.problem import Solver

EXACT = "exact"
# Every budget has its own row for every episode.
MOST_BUDGETS = 1_000
# Rules of a question, and how they are said.
RULES = {
    "allow": "Only these may be done instead",
    "forbid": "Forbidden",
    "keep": "Steps that stay as they were",
    "cost": "What changes take of the budget",
}
Rule = str | int
# Values of a column that are listed where none of them was meant.
SHOWN = 12


@dataclass(frozen=True)
class Question:
    """Budgets, method and limits.

    budgets   how many actions may change at most; several are answered from one frontier
    solver    exact, greedy, noisy-greedy, top-k or random
    nodes     after how many nodes each search stops; None: not before it is complete
    seconds   after how many seconds, likewise
    gap       between value and bound at which each search stops
    max_move  by how much a dose may differ from the one given, in the units of action vectors
    allow     rules, by the names of actions, for what alone may be done instead
    forbid    rules for what may not be
    cost      rules for what a change takes of the budget
    keep      steps that stay as they were; -1 is the last decision
    robust    whether to add the lowest and highest value over all causal models that fit
    risk      models with members: the share of them, the worst, whose mean is optimised; None: a
              quarter
    doubt     discrete models: the weight, from 0 to 1, of the worst causal model in every step;
              None: a fifth, of the exact solver
    supported whether alternatives stay inside the data, see `Constraints`; None: where the model
              has kept its data
    seed      of solvers that draw; every episode has a generator of its own
    """

    budgets: tuple[int, ...] = (3,)
    solver: str = EXACT
    nodes: int | None = None
    seconds: float | None = None
    gap: float = 0.0
    max_move: float | None = None
    robust: bool = False
    seed: int = 0
    allow: tuple[Rule, ...] = ()
    forbid: tuple[Rule, ...] = ()
    keep: tuple[int, ...] = ()
    cost: tuple[Rule, ...] = ()
    supported: bool | None = None
    risk: float | None = None
    doubt: float | None = None

    def __post_init__(self) -> None:
        # Plain values have a list.
        object.__setattr__(self, "budgets", tuple(self.budgets))
        for name in RULES:
            object.__setattr__(self, name, listed_rules(getattr(self, name), name))
        if any(isinstance(step, str) for step in listed_rules(self.keep, "keep")):
            raise InputError(f"keep {self.keep!r}: steps are whole numbers, such as [0, 3] or [-1]")
        if not self.budgets or tuple(sorted(set(self.budgets))) != self.budgets:
            raise InputError(f"budgets {self.budgets} must be whole numbers, each once, rising")
        largest = LARGEST_BUDGET if len(self.budgets) == 1 else MOST_BUDGETS
        for k in self.budgets:
            whole_number(k, "k, where there are several," if self.budgets[1:] else "k", 0, largest)
        whole_number(self.seed, "seed")
        if self.risk is not None and not 0.0 < self.risk <= 1.0:
            raise InputError(f"risk {self.risk}: is a share of members above 0 and up to 1")
        if self.doubt is not None and not 0.0 <= self.doubt <= 1.0:
            raise InputError(f"doubt {self.doubt}: is a weight from 0 to 1")
        self.solver_for("")
        self.limits()

    @property
    def is_repeatable(self) -> bool:
        """Whether the answer depends on nothing but the question; seconds are never the same."""
        return self.seconds is None

    def limits(self) -> Limits:
        seconds = math.inf if self.seconds is None else self.seconds
        return Limits(seconds=seconds, nodes=self.nodes, gap=self.gap)

    def solver_for(self, episode: str) -> Solver | None:
        """The solver of an episode, None for the exact one; what it draws depends on the seed and
        the episode's name, never on other episodes."""
        if self.solver == EXACT:
            return None
        from counterplan.counterfactual import baselines

        checksum = hashlib.sha256(f"{self.seed} {episode}".encode())
        seed = int.from_bytes(checksum.digest()[:8], "big")
        makers: dict[str, Any] = {
            "greedy": baselines.Greedy,
            "noisy-greedy": lambda: baselines.NoisyGreedy(seed),
            "top-k": baselines.TopK,
            "random": lambda: baselines.Random(seed),
        }
        if self.solver not in makers:
            known = ", ".join([EXACT, *makers])
            raise InputError(f"unknown solver {self.solver!r}: there are {known}")
        solver: Solver = makers[self.solver]()
        return solver

    def arguments(self, episodes: Sequence[str] = ()) -> dict[str, Any]:
        """What is asked, by option of the command line; what is as usual is left out.

        episodes  that alone are asked about
        """
        asked = {one.name: getattr(self, one.name) for one in fields(self)}
        usual = {one.name: one.default for one in fields(self)}
        del asked["budgets"], asked["seed"]
        return {
            "k": ",".join(map(str, self.budgets)),
            "solver": asked.pop("solver"),
            **({"episode": list(dict.fromkeys(episodes))} if episodes else {}),
            **{
                name: list(value) if isinstance(value, tuple) else value
                for name, value in asked.items()
                if value != usual[name]
            },
        }


def listed_rules(given: Any, kind: str) -> tuple[Rule, ...]:
    """Rules as they are stored: one or several, pairs of state and action, or costs by action."""
    if isinstance(given, Mapping):
        given = [f"{action}={cost}" for action, cost in given.items()]
    every = [given] if isinstance(given, str) or not isinstance(given, Iterable) else given
    found = [":".join(map(str, one)) if isinstance(one, list | tuple) else one for one in every]
    for one in found:
        if isinstance(one, bool) or not isinstance(one, str | int | np.integer):
            raise InputError(f"{kind} {one!r}: is no text; name an action")
    return tuple(one if isinstance(one, str) else int(one) for one in found)


def read_rules(
    actions: Grid,
    states: Grid | None,
    allow: Iterable[Rule] = (),
    forbid: Iterable[Rule] = (),
    cost: Iterable[Rule] = (),
) -> Constraints:
    """What rules stand for; `states` of a discrete model. A mistake is one line with what there
    is."""
    wanted = [_cells("allow", rule, actions) for rule in allow]
    allowed = np.any(wanted, axis=0) if wanted else np.ones(len(actions), dtype=np.bool_)
    pairs: list[tuple[int, int]] = []
    for rule in forbid:
        try:
            allowed &= ~_cells("forbid", rule, actions)
        except InputError:
            state, colon, action = str(rule).partition(":")
            if states is None or not colon:
                raise
            both = (_cells("forbid", state, states), _cells("forbid", action, actions))
            pairs += [(int(s), int(a)) for s, a in np.argwhere(np.outer(*both))]
    costs: dict[int, int] = {}
    for rule in cost:
        name, _, number = str(rule).rpartition("=")
        if not number.strip().isdecimal() or not 1 <= int(number) <= LARGEST_BUDGET:
            raise InputError(f"cost {rule!r}: write an action and a whole number, such as NAME=2")
        for one in np.flatnonzero(_cells("cost", name, actions)).tolist():
            costs[one] = max(int(number), costs.get(one, 1))
    return Constraints(allowed=allowed, forbidden=pairs or None, change_costs=costs or None)


def _cells(kind: str, rule: Rule, grid: Grid) -> BoolArray:
    """(N,) the cells of a grid that a rule names."""
    names, columns = grid.names(), grid.columns
    if isinstance(rule, str) and rule.strip() in names:
        rule = names.index(rule.strip())
    if isinstance(rule, int) and 0 <= rule < len(grid):
        return np.isin(np.arange(len(grid)), rule)
    # A name may hold any sign: columns are looked for by their names.
    axes = {column.name: axis for axis, column in enumerate(columns)}
    known = "|".join(re.escape(name) for name in sorted(axes, key=len, reverse=True))
    found = np.ones(grid.sizes, dtype=np.bool_)
    for part in re.split(rf"\s*&\s*(?=(?:{known})\s*=)", str(rule).strip()):
        match = re.fullmatch(rf"({known})\s*=\s*(.*)", part, re.DOTALL)
        meant = [axes[match[1]]] if match else [*axes.values()]
        value = match[2] if match else part
        right = {axis: _places(columns[axis], value) for axis in meant}
        right = {axis: places for axis, places in right.items() if places}
        if len(right) > 1:
            both = " or ".join(f"{columns[axis].name}={value}" for axis in right)
            raise InputError(f"{kind} {rule!r}: could be {both}; say which")
        if not right:
            what = "action" if columns[0].role == "action" else "state"
            some = _known([columns[axis] for axis in meant])
            raise InputError(f"{kind} {rule!r}: {value!r} is no {what}; there are {some}")
        ((axis, places),) = right.items()
        shape = [-1 if other == axis else 1 for other in axes.values()]
        found &= np.isin(np.arange(grid.sizes[axis]), places).reshape(shape)
    return found.ravel()


def _places(column: Column, text: str) -> list[int]:
    """Which values of a column a text names, none unless it knows all of them."""
    whole = column.place(text.strip())
    places = (
        [whole] if whole is not None else [column.place(one.strip()) for one in text.split("|")]
    )
    return [] if None in places else [place for place in places if place is not None]


def _known(columns: list[Column]) -> str:
    """What may be named: "rest, walk", or "drug=none|heparin & dose=0|200"."""
    texts = []
    for column in columns:
        values = [column.value_name(place) for place in range(min(column.size or 0, SHOWN))]
        values += ["..."] if (column.size or 0) > SHOWN else []
        texts.append(f"{column.name}={'|'.join(values)}")
        if len(columns) == 1:
            return ", ".join(values)
    return " & ".join(texts)
