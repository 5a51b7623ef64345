"""All that can be wrong with a schema, found at once; each mistake is one line.

Lines begin with the place, such as `columns.sofa.role`, and say what is there, why it cannot be
right, and what to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

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
