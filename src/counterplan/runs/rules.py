"""Rules for what may change, by the names of actions and states.

    allow   what alone may be done instead: "heparin", "drug=none|heparin", "drug=cedin & dose=200"
    forbid  what may not be; "worn:replace" is an action that is never taken in that state
    cost    what a change takes of the budget: "surgery=2", "dose=400=3"

An action is named as results write it, by its number (an int), or by values of its columns: between
| any of them, between & all of them. Rules of one kind add up: what one of them allows or forbids,
and the largest of several costs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.validation import LARGEST_BUDGET, BoolArray
from counterplan.errors import InputError
from counterplan.tables.schema import Column, Grid

Rule = str | int
# Values of a column that are listed where none of them was meant.
SHOWN = 12


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


def named_grid(what: str, names: Iterable[str]) -> Grid:
    """States or actions of a model that has no columns for them."""
    return Grid((Column(what, what, labels=tuple(names)),))


def read_rules(
    actions: Grid,
    states: Grid | None,
    allow: Iterable[Rule] = (),
    forbid: Iterable[Rule] = (),
    cost: Iterable[Rule] = (),
) -> Constraints:
    """What rules stand for; `states` of a discrete model. Mistakes are one line with what there
    is."""

    def each(kind: str, rules: Iterable[Rule], read: Callable[[Rule], Any]) -> list[Any]:
        found = []
        for rule in rules:
            try:
                found.append(read(rule))
            except ValueError as problem:
                raise InputError(f"{kind} {rule!r}: {problem}") from None
        return found

    allowed = np.ones(len(actions), dtype=np.bool_)
    if wanted := each("allow", allow, lambda rule: _cells(actions, rule)):
        allowed = np.any(wanted, axis=0)
    pairs: list[tuple[int, int]] = []
    for found in each("forbid", forbid, lambda rule: _forbidden(actions, states, rule)):
        if found.ndim == 1:
            allowed &= ~found
        else:
            pairs += [(int(state), int(action)) for state, action in np.argwhere(found)]
    costs: dict[int, int] = {}
    for found, paid in each("cost", cost, lambda rule: _cost(actions, rule)):
        costs |= {int(cell): max(paid, costs.get(int(cell), 1)) for cell in np.flatnonzero(found)}
    return Constraints(allowed=allowed, forbidden=pairs or None, change_costs=costs or None)


def _forbidden(actions: Grid, states: Grid | None, rule: Rule) -> BoolArray:
    """(A,) actions, or (S, A) pairs of state and action."""
    try:
        return _cells(actions, rule)
    except ValueError:
        colons = [one.start() for one in re.finditer(":", str(rule))]
        if states is None and colons:
            raise ValueError(
                "a state and an action are for discrete models: with measurements name the action"
            ) from None
        if states is None or not colons:
            raise
    for place in colons:
        # Names may have colons, too: the last try says what is wrong.
        text, is_last = str(rule), place == colons[-1]
        try:
            return np.outer(
                _cells(states, text[:place], "state"), _cells(actions, text[place + 1 :])
            )
        except ValueError:
            if is_last:
                raise
    raise AssertionError


def _cost(actions: Grid, rule: Rule) -> tuple[BoolArray, int]:
    """(A,) actions, and what a change to them takes."""
    name, _, number = str(rule).rpartition("=")
    column = actions.columns[-1]
    example = f"{column.name}={_written(column)[-1]}=2"
    if not name or not number.strip().isdecimal() or not 1 <= int(number) <= LARGEST_BUDGET:
        raise ValueError(f"name an action and a whole number from 1 up, such as {example}")
    try:
        return _cells(actions, name), int(number)
    except ValueError as problem:
        raise ValueError(f"{problem}; write such as {example}") from None


def _cells(grid: Grid, rule: Rule, what: str = "action") -> BoolArray:
    """(N,) the cells of a grid that a rule names; a ValueError says why it names none."""
    text, names = str(rule).strip(), grid.names()
    number = rule if isinstance(rule, int) else names.index(text) if text in names else -1
    if 0 <= number < len(grid):
        return np.isin(np.arange(len(grid)), number)
    # A name may hold any sign: columns are looked for by their names.
    by_name = {column.name: axis for axis, column in enumerate(grid.columns)}
    known = "|".join(re.escape(name) for name in sorted(by_name, key=len, reverse=True))
    found = np.ones(grid.sizes, dtype=np.bool_)
    for part in re.split(rf"\s*&\s*(?=(?:{known})\s*=)", text):
        match = re.fullmatch(rf"({known})\s*=\s*(.*)", part, re.DOTALL)
        axes = [by_name[match[1]]] if match else [*by_name.values()]
        value = match[2] if match else part
        hits = {axis: _places(grid.columns[axis], value) for axis in axes}
        right = [axis for axis, chosen in hits.items() if chosen]
        if len(right) > 1:
            both = " or ".join(f"{grid.columns[axis].name}={value}" for axis in right)
            raise ValueError(f"could be {both}: say which")
        if not right and match:
            column = grid.columns[axes[0]]
            raise ValueError(f"{value!r} is no value of {column.name}: use {_some(column, ', ')}")
        if not right:
            raise ValueError(f"{part!r} is no {what}: there are {_known(grid)}")
        shape = [-1 if axis == right[0] else 1 for axis in by_name.values()]
        column = grid.columns[right[0]]
        found &= np.isin(np.arange(column.size or 0), hits[right[0]]).reshape(shape)
    return found.ravel()


def _places(column: Column, text: str) -> list[int]:
    """Which values of a column a text names, none unless it knows all of them."""
    whole = column.place(text.strip())
    if whole is not None:
        return [whole]
    places = [column.place(part.strip()) for part in text.split("|")]
    return [place for place in places if place is not None] if None not in places else []


def _written(column: Column) -> Sequence[str]:
    return [column.value_name(place) for place in range(column.size or 0)]


def _some(column: Column, between: str) -> str:
    values = _written(column)
    return between.join([*values[:SHOWN], *(["..."] if len(values) > SHOWN else [])])


def _known(grid: Grid) -> str:
    """What may be named."""
    if len(grid.columns) == 1:
        return _some(grid.columns[0], ", ")
    return " & ".join(f"{column.name}={_some(column, '|')}" for column in grid.columns)
