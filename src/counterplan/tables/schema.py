"""Which column of a table means what: the schema of episode tables, as TOML.

    [table]
    episode = "episode_id"        # the column that names the episode of a row
    time = "t"                    # the column that orders the rows of an episode

    [columns.sofa]
    role = "state"                # or fixed, contextual, action, reward, cost, outcome, ignore
    unit = "points"
    better = "lower"              # what is good: counts with `weight` (1 if not given)

    [columns.vasopressor]
    role = "action"
    levels = [0, 1, 2, 3, 4]      # the numbers that the table may hold

Keys are the fields of `Schema` (in [table]) and of `Column`; docs/schema.md has them all. A column
with levels takes these values. One with labels only holds categories: models of continuous states
see a column of their own for each, so that none lies between others, unless ordered = true, which
makes them the numbers 0, 1, ... Several action columns form a grid, of which the last column
changes fastest. An action without either is a dose; all action columns are, or none. The problem is
discrete if every state column has labels or levels that are whole numbers: then the state columns
form a grid too (fixed ones included). It is continuous otherwise, or where [table] says so.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from difflib import get_close_matches
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from counterplan.core.dates import UNITS
from counterplan.core.files import parse_toml, read_json, read_toml, suffix_of
from counterplan.core.shown import Shown
from counterplan.core.table import LARGEST_NUMBER, MOST_COLUMNS, MOST_LINES, as_number, shown
from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import InputError, MistakesError

WHAT = "a schema: [table] and [columns.NAME] with a role for each column"
DISCRETE, CONTINUOUS = "discrete", "continuous"
REFUSE, CARRY, MEAN, MEDIAN = "refuse", "carry-forward", "mean", "median"
MISSING, ALLOW, INPUT = "missing", "allow", "input"
OBSERVED, GRID = "observed", "grid"
STEP, LAST, VALUE = "step", "last", "value"
# What the time until the next row is called where it is an input.
GAP = "gap"
MEASURED = ("role", "unit", "low", "high", "outside", "missing", "levels", "labels", "ordered")
# Which keys have a meaning for which role.
KEYS = {
    "state": (*MEASURED, "better", "weight"),
    "fixed": MEASURED,
    "contextual": MEASURED,
    "action": (*MEASURED, "step", "total"),
    "reward": ("role", "unit", "low", "high", "labels", "better", "weight", "when"),
    "cost": ("role", "unit", "low", "high", "labels", "weight", "when"),
    "outcome": ("role", "unit"),
    "ignore": (*MEASURED, "better", "weight", "when"),
}
# What keys with few values may be.
CHOICES = {
    "role": tuple(KEYS),
    "kind": (DISCRETE, CONTINUOUS),
    "outside": (REFUSE, MISSING),
    "missing": (REFUSE, CARRY, MEAN, MEDIAN),
    "gaps": (REFUSE, ALLOW, INPUT),
    "better": ("lower", "higher"),
    "when": (STEP, LAST),
    "final": ("nothing", VALUE),
}
# A schema is written by hand; what is larger is something else.
LARGEST_SCHEMA = 10_000_000
LONGEST_NAME = 1_000
MOST_LEVELS = 1_000_000
# Search goes through every combination of action levels at every step.
MOST_ACTIONS = 10_000


@dataclass(frozen=True)
class Column:
    """A column of a table.

    name     as the table's header has it
    role     state, fixed, contextual (an input that is replayed from the episode, never chosen),
             action, reward, outcome (describes the episode; no model sees it) or ignore
    when     of a reward or cost: whether each step has one, or the episode at its last step
    outside  what a value below low or above high is: a mistake (refuse) or missing
    missing  what a gap means: refuse, carry-forward, mean or median
    better   lower or higher, None if neither is good or bad
    weight   how much a unit of it counts, where `better` is given
    levels   the numbers that it may hold, None for any; in plain tables also (): whole numbers from
             0 up
    labels   their names; without levels the texts that it may hold
    ordered  whether labels without levels stand for a scale, from the first to the last
    step     of a dose: the most by which it may differ from the row before or after; None: any
    total    of a dose: the most that may be advised over an episode; None: any
    """

    name: str
    role: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    missing: str = REFUSE
    better: str | None = None
    weight: float = 1.0
    levels: tuple[float, ...] | None = None
    labels: tuple[str, ...] | None = None
    outside: str = REFUSE
    ordered: bool = False
    when: str = STEP
    step: float | None = None
    total: float | None = None

    @property
    def is_dose(self) -> bool:
        """Whether it is an action that may be any number between its bounds."""
        return self.role == "action" and self.labels is None and self.levels is None

    @property
    def decimals(self) -> int:
        """How many decimals a dose is written with: a thousandth of its range, or less."""
        low, high = self.bounds
        return max(0, 3 - math.floor(math.log10(high - low)))

    @property
    def bounds(self) -> tuple[float, float]:
        """The least and the most that a dose may be."""
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high

    def amount(self, dose: float) -> str:
        """A dose as text, without its unit."""
        return f"{dose + 0.0:.{self.decimals}f}"

    @property
    def categories(self) -> int:
        """How many categories without an order it holds, 0 for numbers. Two are as good as 0, 1."""
        if self.labels is None or self.levels is not None or self.ordered:
            return 0
        return len(self.labels) if len(self.labels) > 2 else 0

    @property
    def size(self) -> int | None:
        """How many values it may hold, None for any number."""
        given = self.levels or self.labels
        return None if given is None else len(given)

    @property
    def values(self) -> tuple[float, ...] | None:
        """The numbers that models see: its levels, or the places of its labels."""
        if self.levels is not None or self.labels is None:
            return self.levels
        return tuple(float(place) for place in range(len(self.labels)))

    @property
    def is_counted(self) -> bool:
        """Whether it has labels, or levels that are whole numbers."""
        known = self.labels is not None or self.levels is not None
        return known and (bool(self.labels) or all(one == int(one) for one in self.levels or ()))

    @property
    def merit(self) -> float:
        """What a unit more of it is worth."""
        if self.better is None and self.role not in ("reward", "cost"):
            return 0.0
        return -self.weight if self.role == "cost" or self.better == "lower" else self.weight

    @property
    def unit_beside(self) -> str:
        """Its unit, for where its name stands too: none if that ends with it, "weight [kg]"."""
        return "" if self.name.endswith((f"({self.unit})", f"[{self.unit}]")) else self.unit

    def value_name(self, place: int, unit: str = "") -> str:
        """Its value number `place` in words: the label, or the level with its unit."""
        if self.labels is not None:
            return self.labels[place]
        assert self.levels is not None
        return f"{self.levels[place]:g} {unit}".rstrip()

    def place(self, given: str | float) -> int | None:
        """Which of its values is meant, by label, by level, or as results write it."""
        text = given if isinstance(given, str) else f"{given:g}"
        written = [self.value_name(place, self.unit) for place in range(self.size or 0)]
        if text in written:
            return written.index(text)
        number = as_number(text) if isinstance(given, str) else given
        return self.levels.index(number) if self.levels and number in self.levels else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, without what is as usual."""
        return _unusual(self, COLUMN)


def implied_kind(states: Sequence[Column]) -> str:
    """What a problem with these state columns is, unless the schema says otherwise."""
    return DISCRETE if all(column.is_counted for column in states) else CONTINUOUS


@dataclass(frozen=True)
class Schema(Shown):
    """The roles of a table's columns.

    columns       in the order in which models see them, but for fixed ones, which lead
    episode       the column with the names of episodes
    time          the column that orders the rows of an episode
    step          how long a step lasts, in `unit`
    increment     by how much the time column grows from one row of an episode to the next
    kind          discrete or continuous; what the columns imply if not given
    gaps          whether an episode may lack rows: refuse, allow, or input, where the time until
                  the next row is an input of the model
    dates         whether the time column holds dates; "dmy" or "mdy" if it must be said which of
                  day and month comes first
    combinations  which values of the action columns may be advised together: those that are
                  "observed", the whole "grid", or a list with a value for each column
    min_count     how often a combination must occur to count as observed
    final         what the last state counts for besides itself: nothing, or the value of what
                  usually follows
    """

    columns: tuple[Column, ...]
    episode: str = "episode_id"
    time: str = "t"
    step: float = 1.0
    increment: float = 1.0
    unit: str = ""
    kind: str = ""
    gaps: str = REFUSE
    dates: bool | str = False
    combinations: str | tuple[tuple[str | float, ...], ...] = OBSERVED
    min_count: int = 5
    final: str = "nothing"

    # Whether steps count from 0 and every row has an action, as in plain tables of episodes.
    is_plain: ClassVar[bool] = False

    def __post_init__(self) -> None:
        given: Any = self.columns
        if not (isinstance(given, Sequence) and all(isinstance(one, Column) for one in given)):
            raise InputError(
                f"a Schema is made of columns, got {_kind(given)}: of a dictionary, TOML text or a "
                "file cp.tables.read_schema(...) makes one"
            )
        problems = schema_problems(self.as_dict())
        if problems:
            raise InputError("; ".join(f"schema, {problem}" for problem in problems[:MOST_LINES]))
        if not self.kind:
            object.__setattr__(self, "kind", implied_kind(self.of("state")))
        object.__setattr__(self, "min_count", int(self.min_count))
        object.__setattr__(self, "combinations", _typed(self.combinations))

    def _facts(self) -> dict[str, object]:
        roles = Counter(one.role for one in self.columns)
        told = ", ".join(f"{count} {role}" for role, count in roles.items())
        return {"columns": told, "kind": self.kind}

    @property
    def with_reward_as_state(self) -> Schema:
        """The same, with its one reward of each step as a state of which more, or less, is good."""
        (reward,) = self.rewards
        better = "higher" if reward.merit > 0.0 else "lower"
        turned = replace(reward, role="state", better=better)
        return replace(
            self, columns=tuple(turned if one is reward else one for one in self.columns)
        )

    def of(self, *roles: str) -> tuple[Column, ...]:
        """The columns with one of these roles."""
        return tuple(column for column in self.columns if column.role in roles)

    @property
    def is_discrete(self) -> bool:
        """Whether states are one of finitely many."""
        return self.kind == DISCRETE

    @property
    def features(self) -> tuple[Column, ...]:
        """What makes the state: fixed columns, then those that move."""
        return (*self.of("fixed"), *self.of("state"))

    @property
    def components(self) -> tuple[Column, ...]:
        """What makes the action vector: columns to choose, then those that are replayed."""
        return (*self.of("action"), *self.of("contextual"), *self.computed)

    @cached_property
    def computed(self) -> tuple[Column, ...]:
        """What is replayed but does not stand in the table: the time until the next row."""
        return (Column(GAP, "contextual", unit=self.unit),) if self.gaps == INPUT else ()

    @property
    def spacing(self) -> float:
        """How far apart rows are, as the time column (dates: in seconds) has it."""
        return self.step * UNITS[self.unit] if self.dates else self.increment

    @property
    def rewards(self) -> tuple[Column, ...]:
        """The columns with what each step earned or cost."""
        return tuple(one for one in self.of("reward", "cost") if one.when == STEP)

    @property
    def finals(self) -> tuple[Column, ...]:
        """The columns with what an episode earned or cost at its end."""
        return tuple(one for one in self.of("reward", "cost") if one.when == LAST)

    @cached_property
    def used(self) -> tuple[Column, ...]:
        """All columns that are read, but for those of episode and time."""
        replayed = (*self.of("action"), *self.of("contextual"))
        return (*self.features, *replayed, *self.of("reward", "cost", "outcome"))

    @property
    def outcome_in_words(self) -> str:
        """What is added up: "−cost in EUR −100 × readmitted (at the end)", empty if nothing."""
        words = ""
        for column in (*self.features, *self.of("reward", "cost")):
            if column.merit:
                weight = "" if abs(column.merit) == 1.0 else f"{abs(column.merit):g} × "
                unit = f" in {column.unit_beside}" if column.unit_beside else ""
                end = " (at the end)" if column.when == LAST else ""
                words += f" {'−' if column.merit < 0 else '+ '}{weight}{column.name}{unit}{end}"
        follows = " + what usually follows" if words and self.final == VALUE else ""
        return words[1:].removeprefix("+ ") + follows

    def as_dict(self) -> dict[str, Any]:
        """Plain values that JSON and TOML can hold; `read_schema` reads them back."""
        table = _unusual(self, TABLE)
        # The kind is stored only where the columns do not imply it already.
        if self.kind == implied_kind(self.of("state")):
            table.pop("kind", None)
        columns = {column.name: column.as_dict() for column in self.columns}
        if len(columns) < len(self.columns):
            raise InputError("schema: two columns have the same name; keep one of them")
        return {"table": table, "columns": columns} if table else {"columns": columns}


# What may be said of a column, and in [table].
COLUMN = tuple(field.name for field in fields(Column) if field.name != "name")
TABLE = tuple(field.name for field in fields(Schema) if field.name != "columns")


def _unusual(one: Column | Schema, names: Sequence[str]) -> dict[str, Any]:
    """What is not as usual, as plain values."""
    usual = {field.name: field.default for field in fields(one)}
    given = {name: getattr(one, name) for name in names}
    return {name: _plain(value) for name, value in given.items() if value != usual[name]}


@dataclass(frozen=True)
class Grid:
    """Every combination of the values of some columns, numbered 0, 1, ...: the last column changes
    fastest."""

    columns: tuple[Column, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each column has."""
        return tuple(column.size or 0 for column in self.columns)

    def __len__(self) -> int:
        return math.prod(self.sizes)

    @cached_property
    def vectors(self) -> FloatArray:
        """(N, columns) the values of each cell, as models see them."""
        values = [np.array(column.values, dtype=np.float64) for column in self.columns]
        return np.stack(np.meshgrid(*values, indexing="ij"), axis=-1).reshape(len(self), -1)

    def places(self, cell: int) -> tuple[int, ...]:
        """Which value each column has in a cell."""
        return tuple(int(place) for place in np.unravel_index(cell, self.sizes))

    def cells(self, values: FloatArray) -> IntArray:
        """(n,) the cells of values (n, columns), each of which is one of its column's."""
        places = []
        for column, given in zip(self.columns, values.T, strict=True):
            known = np.array(column.values, dtype=np.float64)
            order = np.argsort(known)
            places.append(order[np.searchsorted(known[order], given)])
        return np.asarray(np.ravel_multi_index(places, self.sizes), dtype=np.int64)

    def name(self, cell: int) -> str:
        """A cell in words: "ill", or "ward 3, fluids high" where there are several columns."""
        if len(self.columns) == 1:
            return self.columns[0].value_name(cell, self.columns[0].unit)
        parts = zip(self.columns, self.places(cell), strict=True)
        return ", ".join(
            f"{column.name} {column.value_name(place, column.unit_beside)}"
            for column, place in parts
        )

    def names(self) -> list[str]:
        """All cells in words."""
        return [self.name(cell) for cell in range(len(self))]

    def change(self, observed: int, alternative: int) -> str:
        """What differs between two cells: "vasopressor 0 -> 2 µg/kg/min, fluids none -> high"."""
        before, after = self.places(observed), self.places(alternative)
        return ", ".join(
            f"{column.name} {column.value_name(old)} -> "
            f"{column.value_name(new, column.unit_beside)}"
            for column, old, new in zip(self.columns, before, after, strict=True)
            if old != new
        )


# --- Reading ----------------------------------------------------------------------------------


def read_schema(source: Schema | str | PathLike[str] | Mapping[str, Any]) -> Schema:
    """The schema in a .toml file (or a .json file with the same contents), in TOML text of several
    lines, or in plain values.

    All that is wrong with it is one error, with a line for each mistake.
    """
    if isinstance(source, Schema):
        return source
    if isinstance(source, Mapping):
        return schema_from_dict(source)
    if isinstance(source, str) and "\n" in source:
        return schema_from_dict(parse_toml("schema", source))
    path = Path(source)
    if suffix_of(path, (".toml", ".json"), "schema files") == ".json":
        return schema_from_dict(read_json(path, WHAT, LARGEST_SCHEMA), str(path))
    return schema_from_dict(read_toml(path, WHAT, LARGEST_SCHEMA), str(path))


def schema_from_dict(document: Any, where: str = "schema") -> Schema:
    """The schema that plain values stand for; `where` is the file that all mistakes name."""
    problems = schema_problems(document)
    if problems:
        lines = [f"{where}, {problem}" for problem in problems[:MOST_LINES]]
        if len(problems) > len(lines):
            lines.append(f"{where}: {len(problems) - len(lines):,} more mistakes like these")
        raise MistakesError("\n".join(lines))
    columns = (
        Column(name, **{key: _typed(value) for key, value in given.items()})
        for name, given in document["columns"].items()
    )
    table = {key: _typed(value) for key, value in document.get("table", {}).items()}
    return Schema(tuple(columns), **table)


def _plain(value: Any) -> Any:
    """Tuples as lists."""
    return [*map(_plain, value)] if isinstance(value, tuple) else value


def _typed(value: Any) -> Any:
    """Numbers as floats, lists as tuples."""
    if isinstance(value, list | tuple):
        return tuple(map(_typed, value))
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number else value


# --- Checks -----------------------------------------------------------------------------------
# Each mistake is one line, which begins with the place, such as `columns.sofa.role`, and says what
# is there, why it cannot be right, and what to do.


def schema_problems(document: Any) -> list[str]:
    """What is wrong with a schema as plain values, one line for each mistake."""
    if not isinstance(document, Mapping):
        return [f"holds {_kind(document)}; expected [table] and [columns.NAME]"]
    problems = list(_wrong_keys("", document, ("table", "columns")))
    table, columns = document.get("table", {}), document.get("columns")
    if not isinstance(table, Mapping):
        problems.append(f"table: is {_kind(table)}; write [table] and its keys below it")
        table = {}
    names = {"episode": table.get("episode", "episode_id"), "time": table.get("time", "t")}
    problems += _wrong_keys("table", table, TABLE)
    if names["episode"] == names["time"]:
        problems.append("table.time: is the column of the episodes too; name another")
    if not isinstance(columns, Mapping) or not columns:
        given = "is missing" if columns is None else f"is {_kind(columns)}"
        return [*problems, f"columns: {given}; write [columns.NAME] for each column of the table"]
    if len(columns) > MOST_COLUMNS:
        return [*problems, f"columns: {len(columns):,} of them; give at most {MOST_COLUMNS:,}"]
    for name, given in columns.items():
        place = f"columns.{_place(name)}"
        for key in (key for key, taken in names.items() if name == taken):
            problems.append(f"{place}: is the {key} column of [table]; leave it out here")
        problems += _column_problems(place, name, given)
    return problems or list(_together(table, columns))


def _column_problems(place: str, name: Any, given: Any) -> Iterator[str]:
    role = given.get("role") if isinstance(given, Mapping) else None
    first = ""
    if why := _not_a_name(name):
        first = f": {why}; write the name as the table's header has it"
    elif not isinstance(given, Mapping):
        first = f': is {_kind(given)}; write role = "state" or another role below it'
    elif role is None:
        first = f': has no role; add role = "..." with one of {", ".join(KEYS)}'
    elif why := _wrong("role", role):
        first = f".role: {why}"
    if first or role is None:
        yield place + first
        return
    for key in given:
        if key in COLUMN and key not in KEYS[role]:
            yield f"{place}.{key}: means nothing for role {role!r}; remove it"
    yield from _wrong_keys(place, given, COLUMN)
    right = {key: given[key] for key in given if key in COLUMN and not _wrong(key, given[key])}
    low, high = right.get("low", -math.inf), right.get("high", math.inf)
    if not low < high:
        between = f"{shown(low)} is not below high = {shown(high)}"
        yield f"{place}.low: {between}; exchange or correct them"
    if "weight" in right and "better" not in given and role not in ("reward", "cost"):
        yield f'{place}.weight: counts only with better = "lower" or "higher"; add it'
    levels, labels = right.get("levels"), right.get("labels")
    if levels and labels and len(levels) != len(labels):
        yield f"{place}.labels: {len(labels)} for {len(levels)} levels; name each"
    elif levels and labels and any(as_number(label) is not None for label in labels):
        yield f"{place}.labels: a number as a name could be taken for a level; use words"
    if given.get("ordered") and ("levels" in given or "labels" not in given):
        yield f"{place}.ordered: is said of labels without levels only; remove it"
    if not {"levels", "labels"} & set(given):
        if role == "action" and not {"low", "high"} <= set(given):
            yield (
                f"{place}: has no levels; list what could be done: levels = [0, 1, 2] or labels, "
                "or give low and high of a dose that may be any number between"
            )
        return
    for key in ("low", "high", "outside", "step", "total"):
        if key in given:
            yield f"{place}.{key}: says nothing beside levels or labels; remove it"
    if given.get("missing") in (MEAN, MEDIAN):
        yield f"{place}.missing: a {given['missing']} is no level; use 'refuse' or 'carry-forward'"


def _together(table: Mapping[str, Any], columns: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with columns that are right one by one."""
    of: dict[str, list[Column]] = {role: [] for role in KEYS}
    for name, given in columns.items():
        of[given["role"]].append(Column(name, **{key: _typed(given[key]) for key in given}))
    for role in ("state", "action"):
        if not of[role]:
            yield f'columns: none has role = "{role}"; give at least one column that role'
    if table.get("dates") and table.get("unit") not in UNITS:
        known = ", ".join(list(UNITS)[:5])
        yield f'table.unit: time by dates is measured in {known}; write for example unit = "d"'
    if table.get("dates") and "increment" in table:
        yield "table.increment: says nothing beside dates; give step, in `unit`, and remove it"
    if table.get("gaps") == INPUT and GAP in columns:
        yield f'columns.{GAP}: is what gaps = "input" calls the time until the next row; rename it'
    actions = math.prod(column.size or 1 for column in of["action"])
    if actions > MOST_ACTIONS:
        yield (
            f"columns: the levels of the action columns combine to {actions:,} actions, more than "
            f"{MOST_ACTIONS:,}; give fewer levels"
        )
    doses = [one.name for one in of["action"] if one.is_dose]
    listed = [one.name for one in of["action"] if not one.is_dose]
    if doses and listed:
        yield (
            f"columns.{_place(listed[0])}: has levels or labels, but {doses[0]!r} is a dose, any "
            "number between low and high; list the levels of every action or of none, or give "
            'what is not chosen role = "contextual"'
        )
    elif doses and "combinations" in table:
        yield f"table.combinations: {doses[0]!r} is a dose, and doses are not listed; remove it"
    else:
        yield from _wrong_combinations(table.get("combinations", OBSERVED), of["action"])
    if table.get("kind", implied_kind(of["state"])) == CONTINUOUS or not of["state"]:
        for column in of["state"]:
            if column.categories:
                yield (
                    f"columns.{_place(column.name)}: {column.categories} labels without an order "
                    "cannot move in a model of continuous states; give levels, ordered = true, or "
                    "another role"
                )
        return
    why = 'since the states are discrete (or say kind = "continuous" in [table])'
    if table.get("gaps") == INPUT:
        yield f'table.gaps: "input" has no meaning {why}; use "allow"'
    for column in (*of["fixed"], *of["state"], *of["contextual"], *of["action"]):
        place = f"columns.{_place(column.name)}"
        if column.role == "contextual":
            yield f"{place}.role: 'contextual' has no meaning {why}; use another role"
        elif column.size is None:
            yield f"{place}: needs levels or labels, {why}, or role = 'ignore'"
        elif column.better and column.levels is None:
            yield f"{place}.better: labels have no worth; add levels, one number for each label"


def _wrong_combinations(listed: Any, actions: Sequence[Column]) -> Iterator[str]:
    names = ", ".join(column.name for column in actions)
    for number, given in enumerate([] if isinstance(listed, str) else listed):
        place = f"table.combinations[{number}]"
        if len(given) != len(actions):
            yield f"{place}: has {len(given)} values; give one for each action column: {names}"
        for column, value in zip(actions, given, strict=False):
            if column.place(value) is None:
                known = ", ".join(map(shown, column.labels or column.levels or ()))
                yield f"{place}: {shown(value)} is no value of {column.name!r}; use {known}"


def _wrong(key: str, value: Any) -> str | None:
    """Why a value cannot be that of a key and what to do, None if it can or the key is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if key in CHOICES and not (isinstance(value, str) and value in CHOICES[key]):
        known = CHOICES[key]
        return f"{shown(value)} is none of {', '.join(known)}{_nearest(value, known)}"
    if key in ("episode", "time") and (why := _not_a_name(value)):
        return f"{why}; give the name of a column"
    if key == "unit" and not _is_text(value):
        return f'{shown(value)} is no text; write for example unit = "h"'
    if key in ("low", "high") and not _is_finite(value):
        is_far = is_number and LARGEST_NUMBER < abs(value) < math.inf
        why = f"is too far from 0, {LARGEST_NUMBER:g} at most" if is_far else "is no finite number"
        return f"{shown(value)} {why}; correct or remove it"
    if key in ("step", "total", "increment", "weight") and not (_is_finite(value) and value > 0):
        why = "is too large" if is_number and value > 0 else "is no number above 0"
        return f"{shown(value)} {why}; give a number above 0 and at most {LARGEST_NUMBER:g}"
    if key == "min_count" and not (_is_finite(value) and value >= 1 and value == int(value)):
        return f"{shown(value)} is no whole number from 1 up; give how often one must occur"
    if key == "combinations" and not (value in (OBSERVED, GRID) or _is_rows(value)):
        example = '"observed", "grid" or a list such as [["none", 0], ["heparin", 200]]'
        return f"{shown(value)} is none of {example}{_nearest(value, (OBSERVED, GRID))}"
    if key == "levels":
        why = _not_a_list(value, _is_finite, "finite numbers")
        names = isinstance(value, Sequence) and all(map(_is_label, value))
        if why and names and not isinstance(value, str):
            why = f"{why.removesuffix('; correct it')}; names are given as `labels`"
        return why
    orders = ("dmy", "mdy") if key == "dates" else ()
    if key in ("ordered", "dates") and not (isinstance(value, bool) or value in orders):
        or_else = ', "dmy" or "mdy"' if orders else ""
        return f"{shown(value)} is not true or false{or_else}; write {key} = true, or remove it"
    if key == "labels":
        return _not_a_list(value, _is_label, "texts without blanks around them")
    return None


def _not_a_list(given: Any, is_right: Callable[[Any], bool], what: str) -> str | None:
    if not isinstance(given, Sequence) or isinstance(given, str):
        return f"is {_kind(given)}; give a list of {what}"
    if len(given) < 2:
        return f"has {len(given)} of them; give at least two, or remove the column"
    if len(given) > MOST_LEVELS:
        return f"has {len(given):,} of them, more than {MOST_LEVELS:,}; give fewer"
    wrong = next((one for one in given if not is_right(one)), None)
    if wrong is not None or None in given:
        return f"{shown(wrong)} is not one of {what}; correct it"
    if len(set(given)) < len(given):
        twice = next(one for one in given if list(given).count(one) > 1)
        return f"{shown(twice)} occurs twice; keep one of them"
    return None


def _wrong_keys(place: str, given: Mapping[Any, Any], known: Sequence[str]) -> Iterator[str]:
    """Keys that there are not, and values that cannot be those of theirs."""
    for key, value in given.items():
        full = f"{place}.{_place(key)}" if place else _place(key)
        if key not in known:
            yield f"{full}: is no key of a schema{_nearest(key, known)}; use {', '.join(known)}"
        elif why := _wrong(key, value):
            yield f"{full}: {why}"


def _nearest(given: Any, known: Sequence[str]) -> str:
    found = get_close_matches(given[:100], known, n=1) if isinstance(given, str) else []
    return f" (did you mean {found[0]!r}?)" if found else ""


def _not_a_name(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"{shown(value)} is no text"
    if not _is_label(value) or len(value) > LONGEST_NAME:
        return f"{shown(value)} is no name (empty, endless, with blanks around it, not printable)"
    return None


def _is_text(value: Any) -> bool:
    """A text that a file can hold."""
    return isinstance(value, str) and not re.search("[\0\ud800-\udfff]", value)


def _is_label(value: Any) -> bool:
    return _is_text(value) and bool(value) and value == value.strip()


def _is_rows(value: Any) -> bool:
    """Whether it is a list of lists of texts and numbers, none of them empty."""
    lists = [value, *value] if isinstance(value, list | tuple) else [None]
    return all(isinstance(one, list | tuple) and one for one in lists) and all(
        _is_text(entry) or _is_finite(entry) for row in value for entry in row
    )


def _is_finite(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and abs(value) <= LARGEST_NUMBER  # false for nan


def _place(name: Any) -> str:
    """A name in a place: as it is, or in quotes if it is not a plain word."""
    is_plain = isinstance(name, str) and name.replace("_", "a").replace("-", "a").isalnum()
    return name if is_plain and len(name) <= 60 else shown(name)


def _kind(value: Any) -> str:
    kinds = {dict: "a table", list: "a list", str: "a text", bool: "true or false"}
    return kinds.get(type(value), "a number" if isinstance(value, int | float) else "no table")


# --- Writing TOML -----------------------------------------------------------------------------

# Where comments begin, if the line is not longer.
BESIDE = 24
BARE = re.compile(r"[A-Za-z0-9_-]+")


def schema_toml(
    schema: Schema, head: str = "", comments: Mapping[str, Mapping[str, str]] | None = None
) -> str:
    """TOML that `read_schema` reads back as an equal schema.

    head      lines of text for the head of the file
    comments  by column and key, written beside the key; a key that is as usual is written where
              there is something to say about it
    """
    notes, document = comments or {}, schema.as_dict()
    table = {"episode": schema.episode, "time": schema.time, **document.get("table", {})}
    lines = [f"# {_clean(line)}".rstrip() for line in head.split("\n")] if head else []
    lines += ["[table]", *_entries(table, {})]
    for column in schema.columns:
        said = notes.get(column.name, {})
        given = document["columns"][column.name]
        usual = {key: getattr(column, key) for key in said if key not in given}
        name = column.name if BARE.fullmatch(column.name) else _toml(column.name)
        lines += ["", f"[columns.{name}]", *_entries({**given, **usual}, said)]
    return "\n".join(lines) + "\n"


def _entries(given: Mapping[str, Any], comments: Mapping[str, str]) -> Iterator[str]:
    for key, value in given.items():
        line, said = f"{key} = {_toml(value)}", comments.get(key, "")
        yield f"{line:<{BESIDE}}  # {_clean(said)}" if said else line


def _clean(line: str) -> str:
    # What is not printable may not stand in a comment.
    return "".join(letter if letter.isprintable() else " " for letter in line)


def _toml(value: Any) -> str:
    # Values of TOML are those of JSON, but for one letter; 4.0 is written 4.
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
    text = json.dumps(int(value) if is_whole else value, ensure_ascii=False)
    return text.replace("\x7f", "\\u007f")
