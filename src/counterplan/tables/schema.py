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
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from counterplan.core.files import decode, read_bytes, read_json, suffix_of
from counterplan.errors import FileError, InputError, MistakesError

# ----------------------------------------------------------------------------------------------
# All that can be wrong with a schema, found at once; each mistake is one line.
#
# Lines begin with the place, such as `columns.sofa.role`, and say what is there, why it cannot be
# right, and what to do.

DISCRETE, CONTINUOUS = "discrete", "continuous"
REFUSE, CARRY, MEAN = "refuse", "carry-forward", "mean"
POLICIES = (REFUSE, CARRY, MEAN)
MEASURED = ("role", "unit", "low", "high", "missing", "levels", "labels")
# Which keys have a meaning for which role.
KEYS = {
    "state": (*MEASURED, "better", "weight"),
    "fixed": MEASURED,
    "contextual": MEASURED,
    "action": ("role", "unit", "missing", "levels", "labels"),
    "reward": ("role", "unit", "low", "high"),
    "outcome": ("role", "unit"),
    "ignore": (*MEASURED, "better", "weight"),
}
ROLES = tuple(KEYS)
TOP = ("table", "columns")
TABLE = ("episode", "time", "step", "increment", "unit", "kind")
MOST_COLUMNS = 10_000
LONGEST_NAME = 1_000
LARGEST_NUMBER = 1e100
MOST_LEVELS = 1_000_000
# Search goes through every combination of action levels at every step.
MOST_ACTIONS = 10_000


def schema_problems(document: Any) -> list[str]:
    """What is wrong with a schema as plain values, one line for each mistake."""
    if not isinstance(document, Mapping):
        return [f"holds {_kind(document)}; expected [table] and [columns.NAME]"]
    problems = [_unknown("", key, TOP) for key in _extra(document, TOP)]
    table, columns = document.get("table", {}), document.get("columns")
    if not isinstance(table, Mapping):
        problems.append(f"table: is {_kind(table)}; write [table] and its keys below it")
        table = {}
    problems += _table_problems(table)
    if not isinstance(columns, Mapping) or not columns:
        given = "is missing" if columns is None else f"is {_kind(columns)}"
        return [*problems, f"columns: {given}; write [columns.NAME] for each column of the table"]
    if len(columns) > MOST_COLUMNS:
        return [*problems, f"columns: {len(columns):,} of them; give at most {MOST_COLUMNS:,}"]
    for name, given in columns.items():
        problems += _column_problems(name, given, table)
    return problems or list(_together(table, columns))


def _table_problems(table: Mapping[str, Any]) -> Iterator[str]:
    for key in _extra(table, TABLE):
        yield _unknown("table", key, TABLE)
    for key in ("episode", "time"):
        if key in table and (why := _not_a_name(table[key])):
            yield f"table.{key}: {why}; give the name of a column"
    for key in ("step", "increment"):
        if key in table and not (_is_finite(table[key]) and table[key] > 0):
            yield f"table.{key}: {_not_above_zero(table[key])}, how long a step lasts"
    if "unit" in table and not _is_text(table["unit"]):
        yield f'table.unit: {_cut(table["unit"])} is no text; write for example unit = "h"'
    if "kind" in table and table["kind"] not in (DISCRETE, CONTINUOUS):
        yield _not_one_of("table.kind", table["kind"], (DISCRETE, CONTINUOUS))
    if table.get("episode", "episode_id") == table.get("time", "t"):
        yield "table.time: is the column of the episodes too; name another"


def _column_problems(name: Any, given: Any, table: Mapping[str, Any]) -> Iterator[str]:
    place = f"columns.{_shown(name)}"
    if why := _not_a_name(name):
        yield f"{place}: {why}; write the name as the table's header has it"
        return
    for key, usual in (("episode", "episode_id"), ("time", "t")):
        if name == table.get(key, usual):
            yield f"{place}: is the {key} column of [table]; leave it out here"
    if not isinstance(given, Mapping):
        yield f'{place}: is {_kind(given)}; write role = "state" or another role below it'
        return
    role = given.get("role")
    if role is None:
        yield f'{place}: has no role; add role = "..." with one of {", ".join(ROLES)}'
        return
    if not isinstance(role, str) or role not in KEYS:
        yield _not_one_of(f"{place}.role", role, ROLES)
        return
    known = KEYS["ignore"]
    for key in _extra(given, known):
        yield _unknown(place, key, known)
    for key in given:
        if key in known and key not in KEYS[role]:
            yield f"{place}.{key}: means nothing for role {role!r}; remove it"
    yield from _value_problems(place, given)


def _value_problems(place: str, given: Mapping[str, Any]) -> Iterator[str]:
    if "unit" in given and not _is_text(given["unit"]):
        yield f'{place}.unit: {_cut(given["unit"])} is no text; write for example unit = "mmHg"'
    bounds = [key for key in ("low", "high") if key in given]
    for key in bounds:
        if not _is_finite(given[key]):
            yield f"{place}.{key}: {_not_finite(given[key])}; correct or remove it"
    if len(bounds) == 2 and all(_is_finite(given[key]) for key in bounds):
        low, high = (given[key] for key in bounds)
        if not low < high:
            between = f"{_cut(low)} is not below high = {_cut(high)}"
            yield f"{place}.low: {between}; exchange or correct them"
    if "missing" in given and given["missing"] not in POLICIES:
        yield _not_one_of(f"{place}.missing", given["missing"], POLICIES)
    if "better" in given and given["better"] not in ("lower", "higher"):
        yield _not_one_of(f"{place}.better", given["better"], ("lower", "higher"))
    if "weight" in given:
        if not (_is_finite(given["weight"]) and given["weight"] > 0):
            yield f"{place}.weight: {_not_above_zero(given['weight'])}"
        elif "better" not in given:
            yield f'{place}.weight: counts only with better = "lower" or "higher"; add it'
    yield from _choice_problems(place, given)


def _choice_problems(place: str, given: Mapping[str, Any]) -> Iterator[str]:
    """Levels and labels, and what does not go with them."""
    listed: dict[str, int] = {}
    for key, is_right, what in (
        ("levels", _is_finite, "finite numbers"),
        ("labels", _is_label, "texts without blanks around them"),
    ):
        if key not in given:
            continue
        why = _not_a_list(given[key], is_right, what)
        if why:
            yield f"{place}.{key}: {why}"
        else:
            listed[key] = len(given[key])
    if len(listed) == 2:
        if len(set(listed.values())) == 2:
            yield f"{place}.labels: {listed['labels']} for {listed['levels']} levels; name each"
        elif any(_is_numeral(label) for label in given["labels"]):
            yield f"{place}.labels: a number as a name could be taken for a level; use words"
    if not {"levels", "labels"} & set(given):
        if given.get("role") == "action":
            yield f"{place}: has no levels; list what could be done: levels = [0, 1, 2] or labels"
        return
    for key in ("low", "high"):
        if key in given:
            yield f"{place}.{key}: says nothing beside levels or labels; remove it"
    if given.get("missing") == MEAN:
        yield f"{place}.missing: a mean is no level; use 'refuse' or 'carry-forward'"


def _together(table: Mapping[str, Any], columns: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with columns that are right one by one."""
    of: dict[str, list[str]] = {role: [] for role in ROLES}
    for name, given in columns.items():
        of[given["role"]].append(name)
    for role in ("state", "action"):
        if not of[role]:
            yield f'columns: none has role = "{role}"; give at least one column that role'
    if len(of["reward"]) > 1:
        second = of["reward"][1]
        yield f"columns.{_shown(second)}.role: is the second reward; keep one of them"
    sizes = [len(columns[n].get("levels") or columns[n]["labels"]) for n in of["action"]]
    if math.prod(sizes) > MOST_ACTIONS:
        yield (
            f"columns: the levels of the action columns combine to {math.prod(sizes):,} actions, "
            f"more than {MOST_ACTIONS:,}; give fewer levels"
        )
    counted = [name for name in of["state"] if _is_counted(columns[name])]
    is_discrete = table.get("kind", DISCRETE if len(counted) == len(of["state"]) else CONTINUOUS)
    if is_discrete == DISCRETE and of["state"]:
        yield from _discrete_problems(of, columns)


def _discrete_problems(
    of: Mapping[str, Sequence[str]], columns: Mapping[str, Any]
) -> Iterator[str]:
    why = 'since the states are discrete (or say kind = "continuous" in [table])'
    for name in (*of["fixed"], *of["state"]):
        if not {"levels", "labels"} & set(columns[name]):
            yield f"columns.{_shown(name)}: needs levels or labels, {why}, or role = 'ignore'"
    for name in of["contextual"]:
        yield f"columns.{_shown(name)}.role: 'contextual' has no meaning {why}; use another role"
    for name in of["state"]:
        if "better" in columns[name] and "levels" not in columns[name]:
            place = f"columns.{_shown(name)}.better"
            yield f"{place}: labels have no worth; add levels, one number for each label"


def _is_counted(given: Mapping[str, Any]) -> bool:
    return "labels" in given or all(
        math.floor(level) == level for level in given.get("levels", (0.5,))
    )


def _not_a_list(given: Any, is_right: Callable[[Any], bool], what: str) -> str | None:
    if not isinstance(given, Sequence) or isinstance(given, str):
        return f"is {_kind(given)}; give a list of {what}"
    if len(given) < 2:
        return f"has {len(given)} of them; give at least two, or remove the column"
    if len(given) > MOST_LEVELS:
        return f"has {len(given):,} of them, more than {MOST_LEVELS:,}; give fewer"
    for one in given:
        if not is_right(one):
            return f"{_cut(one)} is not one of {what}; correct it"
    if len(set(given)) < len(given):
        twice = next(one for one in given if list(given).count(one) > 1)
        return f"{_cut(twice)} occurs twice; keep one of them"
    return None


def _extra(given: Iterable[Any], known: Sequence[str]) -> list[Any]:
    return [key for key in given if key not in known]


def _unknown(place: str, key: Any, known: Sequence[str]) -> str:
    full = f"{place}.{_shown(key)}" if place else _shown(key)
    return f"{full}: is no key of a schema{_nearest(key, known)}; use {', '.join(known)}"


def _not_one_of(place: str, given: Any, known: Sequence[str]) -> str:
    return f"{place}: {_cut(given)} is none of {', '.join(known)}{_nearest(given, known)}"


def _nearest(given: Any, known: Sequence[str]) -> str:
    found = get_close_matches(given[:100], known, n=1) if isinstance(given, str) else []
    return f" (did you mean {found[0]!r}?)" if found else ""


def _not_a_name(value: Any) -> str | None:
    if not isinstance(value, str):
        return f"{_cut(value)} is no text"
    if not _is_text(value) or not value or value != value.strip():
        return f"{_cut(value)} is no name (empty, with blanks around it, or not printable)"
    if len(value) > LONGEST_NAME:
        return f"a name of {len(value):,} characters is too long"
    return None


def _is_text(value: Any) -> bool:
    """A text that a file can hold."""
    if not isinstance(value, str) or "\0" in value:
        return False
    return not any("\ud800" <= letter <= "\udfff" for letter in value)


def _is_label(value: Any) -> bool:
    return _is_text(value) and bool(value) and value == value.strip()


def _is_finite(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return abs(value) <= LARGEST_NUMBER  # false for nan


def _is_too_large(value: Any) -> bool:
    """A number beyond those that tables and models may hold, infinities among them."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and not _is_finite(value) and value == value


def _not_finite(value: Any) -> str:
    if _is_too_large(value) and abs(value) < math.inf:
        return f"{_cut(value)} is too far from 0, {LARGEST_NUMBER:g} at most"
    return f"{_cut(value)} is no finite number"


def _not_above_zero(value: Any) -> str:
    why = "is too large" if _is_too_large(value) and value > 0 else "is no number above 0"
    return f"{_cut(value)} {why}; give a number above 0 and at most {LARGEST_NUMBER:g}"


def _is_numeral(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _shown(name: Any) -> str:
    """A name in a place: as it is, or in quotes if it is not a plain word."""
    is_plain = isinstance(name, str) and name.replace("_", "a").replace("-", "a").isalnum()
    return name if is_plain and len(name) <= 60 else _cut(name)


def _cut(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}... ({len(text):,} characters)"


def _kind(value: Any) -> str:
    kinds = {dict: "a table", list: "a list", str: "a text", bool: "true or false"}
    return kinds.get(type(value), "a number" if isinstance(value, int | float) else "no table")


# ----------------------------------------------------------------------------------------------

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


# ----------------------------------------------------------------------------------------------
# Schemas as TOML, with comments on what the reader should look at.

# Where comments begin, if the line is not longer.
BESIDE = 24
BARE = re.compile(r"[A-Za-z0-9_-]+")
ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f"}


# What is said of a column, by key; the column "" is [table].
Comments: TypeAlias = Mapping[str, Mapping[str, str]]


def schema_toml(schema: Schema, head: str = "", comments: Comments | None = None) -> str:
    """TOML that `read_schema` reads back as an equal schema.

    head      lines of text for the head of the file
    comments  by column and key, written beside the key; a key that is as usual is written where
              there is something to say about it
    """
    notes, document = comments or {}, schema.as_dict()
    table = {"episode": schema.episode, "time": schema.time, **document.get("table", {})}
    lines = [f"# {_clean(line)}".rstrip() for line in head.split("\n")] if head else []
    lines += ["[table]", *_entries(table, notes.get("", {}))]
    for column in schema.columns:
        said = notes.get(column.name, {})
        given = document["columns"][column.name]
        usual = {key: getattr(column, key) for key in said if key not in given}
        lines += ["", f"[columns.{_key(column.name)}]", *_entries({**given, **usual}, said)]
    return "\n".join(lines) + "\n"


def _entries(given: Mapping[str, Any], comments: Mapping[str, str]) -> Iterator[str]:
    for key, value in given.items():
        line = f"{key} = {_value(value)}"
        said = comments.get(key, "")
        yield f"{line:<{BESIDE}}  # {_clean(said)}" if said else line


def _clean(line: str) -> str:
    # What is not printable may not stand in a comment.
    return "".join(letter if letter.isprintable() else " " for letter in line)


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, list):
        return f"[{', '.join(_value(one) for one in value)}]"
    return str(int(value)) if float(value).is_integer() and abs(value) < 1e15 else repr(value)


def _text(text: str) -> str:
    def escaped(letter: str) -> str:
        if letter in ESCAPES:
            return ESCAPES[letter]
        return letter if letter.isprintable() else f"\\U{ord(letter):08x}"

    return f'"{"".join(map(escaped, text))}"'
