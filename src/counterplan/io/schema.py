"""Which column of a table means what: the schema of episode tables, as TOML.

    [table]
    episode = "episode_id"        # the column that names the episode of a row
    time = "t"                    # the column that orders the rows of an episode
    step = 4.0                    # how long a step lasts, in `unit`
    unit = "h"

    [columns.sofa]
    role = "state"                # state, fixed, contextual, action, reward, outcome or ignore
    unit = "points"
    low = 0                       # values outside are mistakes
    high = 24
    missing = "carry-forward"     # refuse (if not given), carry-forward or mean
    better = "lower"              # what is good: makes the reward, with `weight` (1 if not given)

    [columns.vasopressor]
    role = "action"
    levels = [0, 1, 2, 3, 4]      # the numbers that the table may hold
    labels = ["none", "low", "middle", "high", "highest"]

A column with levels takes these values; one with labels only takes the places of its labels, 0, 1,
... Several action columns form a grid, of which the last column changes fastest. The problem is
discrete if every state column has labels or levels that are whole numbers: then the state columns
form a grid too (fixed ones included). It is continuous otherwise, or where [table] says kind =
"continuous". A column that the schema does not name is not read.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from counterplan.errors import FileError, InputError, MistakesError
from counterplan.files.contents import decode, read_bytes, read_json, suffix_of
from counterplan.io.schema_checks import CONTINUOUS, DISCRETE, schema_problems

WHAT = "a schema: [table] and [columns.NAME] with a role for each column"
# A schema is written by hand; what is larger is something else.
LARGEST_SCHEMA = 10_000_000
MOST_LINES = 20


@dataclass(frozen=True)
class Column:
    """A column of a table.

    name     as the table's header has it
    role     state, fixed, contextual (an input that is replayed from the episode, never chosen),
             action, reward, outcome (describes the episode; no model sees it) or ignore
    missing  what a gap means: refuse, carry-forward or mean
    better   lower or higher, None if neither is good or bad
    weight   how much a unit of it counts, where `better` is given
    levels   the numbers that it may hold, None for any
    labels   their names; without levels the texts that it may hold
    """

    name: str
    role: str
    unit: str = ""
    low: float | None = None
    high: float | None = None
    missing: str = "refuse"
    better: str | None = None
    weight: float = 1.0
    levels: tuple[float, ...] | None = None
    labels: tuple[str, ...] | None = None

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
    def merit(self) -> float:
        """What a unit more of it is worth."""
        return {None: 0.0, "lower": -self.weight, "higher": self.weight}[self.better]

    def value_name(self, place: int) -> str:
        """Its value number `place` in words: the label, or the level."""
        if self.labels is not None:
            return self.labels[place]
        assert self.levels is not None
        return f"{self.levels[place]:g}"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, without what is as usual."""
        found: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "name" and value != field.default:
                found[field.name] = list(value) if isinstance(value, tuple) else value
        return found


@dataclass(frozen=True)
class Schema:
    """The roles of a table's columns.

    columns    in the order in which models see them, but for fixed ones, which lead
    episode    the column with the names of episodes
    time       the column that orders the rows of an episode
    step       how long a step lasts, in `unit`
    increment  by how much the time column grows from one row of an episode to the next
    kind       discrete or continuous; what the columns imply if not given
    """

    columns: tuple[Column, ...]
    episode: str = "episode_id"
    time: str = "t"
    step: float = 1.0
    increment: float = 1.0
    unit: str = ""
    kind: str = ""

    def __post_init__(self) -> None:
        problems = schema_problems(self.as_dict())
        if problems:
            raise InputError("; ".join(f"schema, {problem}" for problem in problems[:MOST_LINES]))
        if not self.kind:
            object.__setattr__(self, "kind", _implied_kind(self.of("state")))

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
        return (*self.of("action"), *self.of("contextual"))

    @property
    def reward(self) -> Column | None:
        """The column with what each step earned."""
        return next(iter(self.of("reward")), None)

    def as_dict(self) -> dict[str, Any]:
        """Plain values that JSON and TOML can hold; `schema_from_dict` reads them back."""
        table: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            # The kind is kept only where the columns do not imply it already.
            usual = _implied_kind(self.of("state")) if field.name == "kind" else field.default
            if field.name != "columns" and value not in (usual, ""):
                table[field.name] = value
        columns = {column.name: column.as_dict() for column in self.columns}
        found = {"table": table, "columns": columns} if table else {"columns": columns}
        if len(columns) < len(self.columns):
            raise InputError("schema: two columns have the same name; keep one of them")
        return found


def schema_from_dict(document: Any, where: str = "schema") -> Schema:
    """The schema that plain values stand for; `where` is the file that all mistakes name."""
    problems = schema_problems(document)
    if problems:
        raise MistakesError(_lines(where, problems))
    columns = tuple(_column(name, given) for name, given in document["columns"].items())
    table: dict[str, Any] = dict(document.get("table", {}))
    table |= {key: float(value) for key, value in table.items() if _is_number(value)}
    return Schema(columns, **table)


def read_schema(path: str | Path) -> Schema:
    """The schema in a .toml file (or a .json file with the same contents).

    All that is wrong with it is one error, with a line for each mistake.
    """
    if suffix_of(path, (".toml", ".json"), "schema files") == ".json":
        return schema_from_dict(read_json(path, WHAT, LARGEST_SCHEMA), str(path))
    text = decode(path, read_bytes(path, WHAT, LARGEST_SCHEMA))
    try:
        document = tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as problem:
        reason = str(problem).replace("\n", " ")
        raise FileError(f"{path}: is not TOML: {reason}; correct the file") from None
    except RecursionError:
        raise FileError(f"{path}: is nested too deeply; expected {WHAT}") from None
    except ValueError:  # Python reads no longer ones
        raise FileError(f"{path}: a number in it has thousands of digits; correct it") from None
    return schema_from_dict(document, str(path))


def _column(name: str, given: Mapping[str, Any]) -> Column:
    numbers = {key: float(value) for key, value in given.items() if _is_number(value)}
    tuples: dict[str, Any] = {}
    if "levels" in given:
        tuples["levels"] = tuple(float(level) for level in given["levels"])
    if "labels" in given:
        tuples["labels"] = tuple(given["labels"])
    return Column(name, **{**given, **numbers, **tuples})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _implied_kind(states: tuple[Column, ...]) -> str:
    def is_counted(column: Column) -> bool:
        levels = column.levels
        return column.labels is not None or (
            levels is not None and all(math.floor(level) == level for level in levels)
        )

    return DISCRETE if all(is_counted(column) for column in states) else CONTINUOUS


def _lines(where: str, problems: list[str]) -> str:
    shown = [f"{where}, {problem}" for problem in problems[:MOST_LINES]]
    if len(problems) > len(shown):
        shown.append(f"{where}: {len(problems) - len(shown):,} more mistakes like these")
    return "\n".join(shown)
