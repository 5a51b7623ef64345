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
from collections.abc import Iterable, Mapping
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
