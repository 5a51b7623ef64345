"""What a planning problem says about itself: the columns of its tables, its axes, its words.

A problem may have any of these methods; tables, figures, reports, the command line and the explorer
know it by nothing else. What it does not say is made up from the sizes of its arrays.

    columns()              `Columns`: what a table of scenarios has, and how it is translated
    axes()                 `Axes`: what its numbers are called where they are drawn
    describe(action)       an action (A,) in words: "buy 12 units"
    describe_state(state)  a state in words: "port 1 of 8, price 1000, 0 units in the tank"
    about                  one line on what is decided
    label                  which of several configurations it is, None for none of them
    configured(...)        class method: the problem from options of the command line (default: the
                           class itself); their names, kinds and help are those of its signature
                           and docstring
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from counterplan.core.validation import BoolArray, FloatArray
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.model import ExogenousModel, State

if TYPE_CHECKING:
    from counterplan.planning.bounds import ValueBounds
    from counterplan.planning.search.planners import Plan

Kind: TypeAlias = Literal["number", "price", "amount", "whole", "flag", "name"]
# Larger prices are slips of the keyboard, and their sums would overflow.
LARGEST_PRICE = 1e12
# What outcomes are counted in where prices name no currency.
MONEY = "money units"
# Rows of the 2025 paper's tables.
CONFIGS = ("A", "B", "C", "D", "E", "F")


@dataclass(frozen=True)
class Column:
    """A column of numbers, or of names that stand for 0, 1, 2, ...

    meaning  what to give, as part of a sentence: "the units bought, 0 for none"
    kind     'number'; 'price': above 0; 'amount': 0 or more; 'whole': such an amount in whole
             units; 'flag': 0 or 1; 'name': one of `names`
    most     the largest amount
    """

    name: str
    meaning: str = "a number"
    kind: Kind = "number"
    unit: str = ""
    most: float = math.inf
    names: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """What it is called where it is drawn."""
        return self.name.replace("_", " ") + (f" ({self.unit})" if self.unit else "")

    def accepts(self, values: FloatArray) -> BoolArray:
        """Which of the numbers (n,) are right."""
        if self.kind == "price":
            return np.asarray((values > 0) & (values <= LARGEST_PRICE))
        if self.kind == "flag":
            return np.isin(values, (0.0, 1.0))
        if self.kind in ("number", "name"):
            return np.isfinite(values)
        inside = (values >= 0) & (values <= self.most)
        return np.asarray(inside & (values == np.rint(values)) if self.kind == "whole" else inside)

    @property
    def problem(self) -> str:
        """What is wrong with a number that is not accepted, and what to do."""
        if self.kind == "price":
            return f"is not a price; give one above 0 and at most {LARGEST_PRICE:g}"
        if self.kind == "flag":
            return f"is neither 0 nor 1; {self.meaning}"
        if self.kind == "name":
            return f"is not one of {', '.join(self.names)}; give {self.meaning}"
        if math.isfinite(self.most):
            units = " in whole units" if self.kind == "whole" else ""
            return f"does not fit; give {self.meaning}, 0 to {self.most:g}{units}"
        wrong = "is not a whole number of units" if self.kind == "whole" else "is below 0"
        return f"{wrong}; give {self.meaning}"


@dataclass(frozen=True, eq=False)
class Columns:
    """How scenarios of a problem are written down, one row for each step.

    observed   what is revealed at each step
    decisions  what was done; may be left out of a table
    start      the resource before the first step; may be left out
    instead    columns that may stand in for `observed`: `derive`

    As it stands, `observed` are the numbers of x_t and `decisions` those of a_t; a problem whose
    tables say it in other words overrides the methods.
    """

    problem: Any
    observed: tuple[Column, ...]
    decisions: tuple[Column, ...]
    start: tuple[Column, ...] = ()
    instead: tuple[Column, ...] = ()

    def path(self, observed: FloatArray) -> FloatArray:
        """(T, X) the path that was revealed, from the table's numbers (T, n)."""
        return observed

    def from_rows(self, rows: Sequence[Mapping[str, Any]]) -> FloatArray:
        """(T, n) the numbers of `observed` from rows of a table, names as numbers."""
        found = np.empty((len(rows), len(self.observed)))
        for i, one in enumerate(self.observed):
            entries = [row[one.name] for row in rows]
            found[:, i] = [one.names.index(entry) for entry in entries] if one.names else entries
        return found

    def exogenous(self, observed: FloatArray) -> FloatArray:
        """(X,) what is known at one step, from one row of numbers (n,)."""
        return np.asarray(self.path(observed[np.newaxis])[0])

    def state(self, path: FloatArray, level: FloatArray | None) -> State:
        """Where a path began."""
        start: State = self.problem.start
        return State(start.t, path[0], start.resource if level is None else level)

    def actions(self, path: FloatArray, state: State, decisions: FloatArray) -> FloatArray:
        """(T, A) the actions, from the table's numbers (T, n)."""
        return decisions

    def derive(self, values: FloatArray) -> FloatArray:
        """(n, s) the numbers of `observed` from those of `instead` (n, i)."""
        return values

    def written(self, path: FloatArray, actions: FloatArray) -> FloatArray:
        """(T, n + m) the table's numbers of a path (T, X) and actions (T, A)."""
        return np.hstack([path, actions])


@dataclass(frozen=True)
class Axes:
    """What the numbers of a path are called, with their units.

    observed     titles of each number that is revealed
    actions      of each number of an action
    levels       of each resource
    modes        names of 0, 1, ..., where what is revealed is one of several modes
    step         what a step is
    scenario     what a whole path is
    choices      what 0 and 1 of an action mean, where each is done or not
    unit         what outcomes are counted in, where that is known
    action_keys  what the numbers of an action end with in the columns of results
    level_keys   likewise those of the resource
    """

    observed: tuple[str, ...]
    actions: tuple[str, ...]
    levels: tuple[str, ...]
    modes: tuple[str, ...] = ()
    step: str = "step t"
    scenario: str = "scenario"
    choices: tuple[str, ...] = ()
    action_keys: tuple[str, ...] = ()
    level_keys: tuple[str, ...] = ()
    unit: str = ""

    def __post_init__(self) -> None:
        for name, titles in (("action_keys", self.actions), ("level_keys", self.levels)):
            if not getattr(self, name):
                object.__setattr__(self, name, numbered("", "_", len(titles)))


def _sizes(problem: ExogenousModel) -> tuple[int, int, int]:
    """How many numbers x, an action and the resource have."""
    start = problem.start
    return len(start.exogenous), problem.actions(start).shape[1], len(start.resource)


def columns_of(problem: ExogenousModel) -> Columns:
    """How scenarios of a problem are written down."""
    own: Callable[[], Columns] | None = getattr(problem, "columns", None)
    if own is not None:
        return own()
    named = zip(("x", "action", "level"), _sizes(problem), strict=True)
    return Columns(problem, *(tuple(map(Column, numbered(name, "_", n))) for name, n in named))


def axes_of(problem: ExogenousModel) -> Axes:
    """What the numbers of a problem are called."""
    own: Callable[[], Axes] | None = getattr(problem, "axes", None)
    if own is not None:
        return own()
    named = zip(("x", "action", "resource"), _sizes(problem), strict=True)
    observed, actions, levels = (numbered(name, " ", n) for name, n in named)
    if not hasattr(problem, "columns"):
        return Axes(observed, actions, levels)
    columns = columns_of(problem)
    if len(columns.decisions) == len(actions):
        actions = tuple(column.title for column in columns.decisions)
    if len(columns.start) == len(levels):
        levels = tuple(column.title for column in columns.start)
    observed = tuple(column.title for column in columns.observed)
    return Axes(observed, actions, levels, columns.observed[0].names)


def numbered(name: str, between: str, count: int) -> tuple[str, ...]:
    """The name alone for one of a kind, numbered from 1 for several."""
    return (name,) if count == 1 else tuple(f"{name}{between}{i + 1}" for i in range(count))


def action_in_words(problem: ExogenousModel, action: FloatArray) -> str:
    """What an action says to do."""
    own: Callable[[FloatArray], str] | None = getattr(problem, "describe", None)
    return _listed(axes_of(problem).actions, action) if own is None else own(action)


def state_in_words(problem: ExogenousModel, state: State) -> str:
    """Where a decision is made."""
    own: Callable[[State], str] | None = getattr(problem, "describe_state", None)
    if own is not None:
        return own(state)
    axes, columns = axes_of(problem), columns_of(problem)
    row = columns.written(np.asarray(state.exogenous)[np.newaxis], problem.actions(state)[:1])[0]
    values = row[: len(columns.observed)]
    where = f"{axes.step.removesuffix(' t')} {state.t + 1} of {problem.horizon}"
    parts = (_listed(axes.observed, values, axes.modes), _listed(axes.levels, state.resource))
    return ", ".join([where, *parts])


def _listed(titles: Sequence[str], values: FloatArray, names: Sequence[str] = ()) -> str:
    texts = []
    for title, value in zip(titles, values, strict=False):
        name, _, unit = title.partition(" (")
        number = names[int(value)] if names else f"{value:g}"
        texts.append(" ".join([name, number, unit.removesuffix(")")]).rstrip())
    return ", ".join(texts)


def about(problem: ExogenousModel) -> str:
    """One line on what is decided."""
    said = getattr(problem, "about", None) or (type(problem).__doc__ or type(problem).__name__)
    return str(said).strip().splitlines()[0].rstrip(".")


def label(problem: ExogenousModel) -> str | None:
    """Which of several configurations a problem is."""
    said = getattr(problem, "label", getattr(problem, "config", None))
    return said if isinstance(said, str) else None


def plan_record(
    problem: ExogenousModel, state: State, plan: Plan, bounds: ValueBounds | None
) -> Any:
    """Everything about a decision, as numbers and texts for JSON; what is not known is None.

    What to do, what each action seems to be worth, what V* lies between in that state, and V*
    itself where a dynamic program gives it.
    """
    choices = zip(plan.actions, plan.values, plan.values_se, plan.visits, strict=True)
    from counterplan.planning.exact_value import exact_value

    exact = None
    with suppress(NotApplicableError):
        exact = exact_value(problem, state)
    return {
        "state": {
            "step": state.t,
            "of": problem.horizon,
            "exogenous": state.exogenous.tolist(),
            "resource": state.resource.tolist(),
            "words": state_in_words(problem, state),
        },
        "action": plan.action.tolist(),
        "words": action_in_words(problem, plan.action),
        "sense": problem.sense,
        "unit": axes_of(problem).unit,
        "value": plan.value,
        "se": _finite(plan.se),
        "choices": [
            {
                "action": action.tolist(),
                "words": action_in_words(problem, action),
                "value": _finite(value),
                "se": _finite(error),
                "simulations": int(visits),
            }
            for action, value, error, visits in choices
        ],
        "bounds": None if bounds is None else asdict(bounds),
        "exact": exact,
        "status": plan.status.value,
        "basis": plan.basis or None,
        "stats": {name: _finite(number) for name, number in plan.stats.items()},
    }


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def check_config(config: str | None) -> None:
    """Refuse a configuration that the paper's tables do not have."""
    if config is not None and config not in CONFIGS:
        raise InputError(f"--config {config!r} is not one of {', '.join(CONFIGS)}")


def positive_number(text: str, wanted: str) -> float:
    """A capacity."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise InputError(f"--capacity {text!r}: give {wanted} above 0")
    return number
