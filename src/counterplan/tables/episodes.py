"""Episodes of discrete problems, from and to CSV, Parquet and JSON files.

A table (CSV or Parquet) is tidy and long, one row per step:

    episode_id  any name; the rows of an episode may lie anywhere in the table
    t           the step, 0, 1, 2, ... without gaps; the rows may come in any order
    state       a number from 0 up, or a label where the caller knows the labels
    action      likewise
    reward      optional: what the step earned; only fitting a model needs it

JSON holds {"episodes": [{"id": "a", "states": [0, 2], "actions": [1, 1]}, ...]} or only that list;
"rewards" is optional, and an episode without an "id" is called by its position, from 0. It is read
as the table it stands for, whose rows messages call by episode and step.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.files import atomic_file, check_target, read_json, suffix_of
from counterplan.core.table import FORMATS as TABLES
from counterplan.core.table import frame_file, open_table_file
from counterplan.errors import FileError, InputError
from counterplan.tables.reader import CheckedTable, check_shipped
from counterplan.tables.schema import DISCRETE, Column, Schema

if TYPE_CHECKING:
    import polars as pl

FORMATS = (".csv", ".parquet", ".json")
REWARD = "reward"
JSON = 'JSON such as {"episodes": [{"id": "a", "states": [0, 2], "actions": [1, 1]}]}'

# The labels of states or actions in the order of their numbers, or how many there are; None where
# that is not known.
Known: TypeAlias = Sequence[str] | int | None


@dataclass(frozen=True)
class PlainSchema(Schema):
    """The schema of such tables. It is the program's own, so it is not checked: a model may have a
    single state."""

    is_plain: ClassVar[bool] = True

    def __post_init__(self) -> None:
        pass


def plain_schema(states: Known = None, actions: Known = None, rewards: bool = False) -> Schema:
    """The schema of a table with these states and actions."""
    reward = (Column(REWARD, "reward"),) if rewards else ()
    columns = (_column("state", states), _column("action", actions), *reward)
    return PlainSchema(columns, kind=DISCRETE)


def _column(name: str, known: Known) -> Column:
    if known is None:
        return Column(name, name, levels=())
    labels = () if isinstance(known, int) else tuple(label.strip() for label in known)
    # Where two have the same label, only numbers tell them apart.
    if len(set(labels)) == len(labels) > 0:
        return Column(name, name, labels=labels)
    count = known if isinstance(known, int) else len(known)
    return Column(name, name, levels=tuple(map(float, range(count))))


def read_episodes(
    path: str | Path,
    *,
    state_labels: Sequence[str] | None = None,
    action_labels: Sequence[str] | None = None,
) -> list[Episode]:
    """The episodes in a .csv, .parquet or .json file, in the order of their first appearance.

    Labels that the file may use instead of numbers are given in the order of the numbers; rewards
    are ignored.
    """
    with open_episodes(path, state_labels, action_labels, rewards=False) as table:
        return [one.episode for one in table]


def open_episodes(
    source: Any, states: Known = None, actions: Known = None, *, rewards: bool = True
) -> CheckedTable:
    """The episodes in a file or frame, checked, with their rewards if it has any."""
    place: Callable[[int], str] | None = None
    if isinstance(source, str | os.PathLike) and Path(source).suffix.lower() == ".json":
        frame, place = _json_table(Path(source), rewards)
        file = frame_file(Path(source), frame)
    else:
        file = open_table_file(source, formats=(*TABLES, ".json"))
    schema = plain_schema(states, actions, rewards and REWARD in file.header)
    return check_shipped(file, schema, place)


def _json_table(path: Path, rewards: bool) -> tuple[pl.DataFrame, Callable[[int], str]]:
    """The table that a JSON file stands for, and where its rows stand in the file."""
    import polars as pl

    given = read_json(path, JSON)
    listed = given.get("episodes") if isinstance(given, dict) else given
    if not isinstance(listed, list):
        raise FileError(f"{path}: holds no list of episodes; expected {JSON}")
    if not listed:
        raise FileError(f"{path}: the list of episodes is empty; add at least one")
    has_rewards = rewards and any(isinstance(one, dict) and "rewards" in one for one in listed)
    fields = ("state", "action", REWARD)[: 2 + has_rewards]
    rows: list[dict[str, list[str]]] = []
    names: dict[str, int] = {}
    places: list[tuple[int, int]] = []
    for position, one in enumerate(listed):
        where = f"{path}, episodes[{position}]"
        if not isinstance(one, dict):
            expected = '{"id": ..., "states": [...], "actions": [...]}'
            raise FileError(f"{where}: is no object; expected {expected}")
        given = one.get("id", position)
        name = str(given).strip()
        if isinstance(given, bool) or not isinstance(given, int | str) or not name:
            raise FileError(f"{where}: has the id {given!r}; give a name or a whole number")
        if names.setdefault(name, position) != position:
            raise FileError(f"{where}: has the id {name!r} of episodes[{names[name]}]; rename it")
        texts = {field: _json_texts(where, one, f"{field}s") for field in fields}
        T = len(texts["state"])
        for field, entries in texts.items():
            if len(entries) != T:
                problem = f"has {T} states but {len(entries)} {field}s; give one for each step"
                raise FileError(f"{where}: {problem}")
        rows.append({"episode_id": [name] * T, "t": list(map(str, range(T))), **texts})
        places += [(position, t) for t in range(T)]
    columns = {name: list(chain.from_iterable(one[name] for one in rows)) for name in rows[0]}
    return pl.DataFrame(columns), lambda row: "episodes[{}], t={}".format(*places[row])


def _json_texts(where: str, one: Mapping[str, Any], field: str) -> list[str]:
    values = one.get(field)
    if not isinstance(values, list):
        raise FileError(f'{where}: has no list "{field}"; give one entry for each step')
    if not values:
        raise FileError(f'{where}: "{field}" is empty; an episode needs at least one step')
    for t, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            problem = f"{json.dumps(value)[:80]} is neither a number nor a label; correct it"
            raise FileError(f'{where}: "{field}"[{t}]: {problem}')
    return [str(value) for value in values]


def write_episodes(path: str | Path, episodes: Iterable[Episode]) -> None:
    """Write a file that `read_episodes` reads; episodes without an id are called by position."""
    suffix, named = suffix_of(path, FORMATS, "episode files"), dict[str, Episode]()
    for position, episode in enumerate(episodes):
        name = str(position) if episode.id is None else episode.id
        if name in named:
            raise InputError(f"two episodes have the id {name!r}: give each its own")
        if not name or name != name.strip() or "\0" in name:
            raise InputError(
                f"the episode id {name!r} is empty, has blanks around it or a NUL in it: rename it"
            )
        named[name] = episode
    if not named:
        raise InputError("no episodes given: there is nothing to write")
    if suffix == ".json":
        rows = [
            {"id": name, "states": episode.states.tolist(), "actions": episode.actions.tolist()}
            for name, episode in named.items()
        ]
        with atomic_file(path) as file:
            file.write(json.dumps({"episodes": rows}).encode())
        return
    import polars as pl

    every = list(named.values())
    frame = pl.DataFrame(
        {
            "episode_id": [name for name, episode in named.items() for _ in range(len(episode))],
            "t": np.concatenate([np.arange(len(episode)) for episode in every]),
            "state": np.concatenate([episode.states for episode in every]),
            "action": np.concatenate([episode.actions for episode in every]),
        }
    )
    with atomic_file(path) as file:
        (frame.write_csv if suffix == ".csv" else frame.write_parquet)(file)


# Files of explanations: JSON, or CSV with one row for each of them.
RECORD_FORMATS = (".json", ".csv")


def check_explanations_target(path: str | Path) -> None:
    """Raise early if explanations could not be written there."""
    suffix_of(path, RECORD_FORMATS, "files of explanations")
    check_target(path)


def no_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """With an apostrophe before texts that a spreadsheet would take for a formula: whoever made an
    id must not run anything in it."""
    import polars as pl

    text = pl.selectors.string()
    quoted = text.str.replace(r"^([=+\-@\t\r])", "'$1")
    is_number = text.cast(pl.Float64, strict=False).is_not_null()
    return frame.with_columns(pl.when(is_number).then(text).otherwise(quoted))


def write_explanations(path: str | Path, document: Mapping[str, Any]) -> None:
    """Write {"k": ..., "explanations": [records]} as JSON, or the records as CSV."""
    if suffix_of(path, RECORD_FORMATS, "files of explanations") == ".json":
        content = json.dumps(document, indent=2, allow_nan=False)
    else:
        import polars as pl

        rows = [
            {
                name: "; ".join(one["text"] for one in value) if isinstance(value, list) else value
                for name, value in record.items()
            }
            for record in document["explanations"]
        ]
        names = dict.fromkeys(name for row in rows for name in row)
        texts = [{name: str(row.get(name, "")) for name in names} for row in rows]
        content = no_formulas(pl.DataFrame(texts)).write_csv()
    with atomic_file(path) as file:
        file.write(content.encode())
