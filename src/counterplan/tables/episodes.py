"""Episodes of discrete problems, from and to CSV, Parquet and JSON files.

A table (CSV or Parquet) is tidy and long, one row per step:

    episode_id  any name; the rows of an episode may lie anywhere in the table
    t           the step, 0, 1, 2, ... without gaps; the rows may come in any order
    state       a number from 0 up, or a label where the caller knows the labels
    action      likewise
    reward      optional: what the step earned; only fitting a model needs it

JSON holds {"episodes": [{"id": "a", "states": [0, 2], "actions": [1, 1]}, ...]} or only that list;
"rewards" is optional, and an episode without an "id" is called by its position, from 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.files import atomic_file, check_target, read_json, suffix_of
from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import FileError, InputError
from counterplan.tables.entries import EntryError, Vocabulary, read_index, read_number
from counterplan.tables.mistakes import shown
from counterplan.tables.reader import Table, read_text_table

# ----------------------------------------------------------------------------------------------
# Episodes of a long table: its rows gathered by episode, put in the order of t, and checked.

COLUMNS = ("episode_id", "t", "state", "action")
REWARD = "reward"


@dataclass(frozen=True, eq=False)
class EpisodeTable:
    """What a file holds.

    episodes  in the order in which they first appear
    rewards   one array of length T for each episode, None if the file has none
    place     where step t of episode number i stands in the file, in words
    """

    path: str | Path
    episodes: tuple[Episode, ...]
    rewards: tuple[FloatArray, ...] | None
    place: Callable[[int, int], str]


def from_table(
    path: str | Path, states: Vocabulary, actions: Vocabulary, rewards: bool
) -> EpisodeTable:
    """The episodes of a CSV or Parquet file."""
    table = read_text_table(path, COLUMNS, (REWARD,) if rewards else ())
    ids, owner = _owners(table)
    order = _in_steps(table, ids, owner, table.read("t", read_index))
    state, action = table.read("state", states.read), table.read("action", actions.read)
    reward = table.read(REWARD, read_number) if REWARD in table else None
    members = np.split(order, np.cumsum(np.bincount(owner))[:-1])
    return EpisodeTable(
        path=path,
        episodes=tuple(
            Episode(state[rows], action[rows], id=name)
            for name, rows in zip(ids, members, strict=True)
        ),
        rewards=None if reward is None else tuple(reward[rows] for rows in members),
        place=lambda number, t: f"row {table.row(int(members[number][t]))}",
    )


def _owners(table: Table) -> tuple[list[str], IntArray]:
    """The episode ids in order of first appearance, and the number of each row's episode."""
    numbers: dict[str, int] = {}
    owner = np.empty(len(table), dtype=np.int64)
    for index, name in enumerate(table.texts["episode_id"]):
        if not name:
            table.reject(index, "episode_id", "is empty; name the episode or remove the row")
        owner[index] = numbers.setdefault(name, len(numbers))
    return list(numbers), owner


def _in_steps(table: Table, ids: list[str], owner: IntArray, steps: IntArray) -> IntArray:
    """The rows sorted by episode and step, whose steps must be 0, 1, 2, ... in each episode."""
    order = np.lexsort((steps, owner))
    lengths = np.bincount(owner)
    starts = np.cumsum(lengths) - lengths
    expected = np.arange(len(order)) - starts[owner[order]]
    wrong = np.flatnonzero(steps[order] != expected)
    if wrong.size:
        _reject_step(table, ids[owner[order[wrong[0]]]], order[: wrong[0] + 1], expected[wrong[0]])
    return order


def _reject_step(table: Table, name: str, order: IntArray, due: int) -> NoReturn:
    """Say why the last row of `order` is not step `due` of its episode."""
    row = int(order[-1])
    if read_index(table.texts["t"][row]) < due:
        earlier = table.row(int(order[-2]))
        problem = f"is a step of episode {shown(name)} in row {earlier} too; keep one of them"
    elif due == 0:
        problem = f"is the first step of episode {shown(name)}; number the steps from 0 up"
    else:
        problem = f"follows t={due - 1} in episode {shown(name)}; add the missing t={due}"
    table.reject(row, "t", problem)


# ----------------------------------------------------------------------------------------------
# Episodes of a JSON file: an object with a list of them, or only the list.

WHAT = 'JSON such as {"episodes": [{"id": "a", "states": [0, 2], "actions": [1, 1]}]}'


def from_json(
    path: str | Path, states: Vocabulary, actions: Vocabulary, rewards: bool
) -> EpisodeTable:
    """The episodes of a JSON file."""
    given = read_json(path, WHAT)
    listed = given.get("episodes") if isinstance(given, dict) else given
    if not isinstance(listed, list):
        raise FileError(f"{path}: holds no list of episodes; expected {WHAT}")
    if not listed:
        raise FileError(f"{path}: the list of episodes is empty; add at least one")
    parsed: dict[str, _JsonEpisode] = {}
    for position, item in enumerate(listed):
        one = _JsonEpisode(path, position, item)
        if one.name in parsed:
            one.reject(
                f"has the id {one.name!r} of episodes[{parsed[one.name].position}]; rename it"
            )
        parsed[one.name] = one
    episodes = []
    for name, one in parsed.items():
        state, action = one.read("states", states.read), one.read("actions", actions.read)
        one.check_length("actions", len(action), len(state))
        episodes.append(Episode(np.array(state, dtype=np.int64), action, id=name))
    return EpisodeTable(
        path=path,
        episodes=tuple(episodes),
        rewards=_rewards(list(parsed.values()), episodes) if rewards else None,
        place=lambda number, t: f"episodes[{number}], t={t}",
    )


def _rewards(parsed: list[_JsonEpisode], episodes: list[Episode]) -> tuple[FloatArray, ...] | None:
    if not any("rewards" in one.fields for one in parsed):
        return None
    rewards = []
    for one, episode in zip(parsed, episodes, strict=True):
        values = one.read("rewards", read_number)
        one.check_length("rewards", len(values), len(episode))
        rewards.append(np.array(values, dtype=np.float64))
    return tuple(rewards)


class _JsonEpisode:
    """One entry of the list of episodes, and errors that say where in it."""

    def __init__(self, path: str | Path, position: int, item: Any) -> None:
        self.path, self.position = path, position
        if not isinstance(item, dict):
            self.fields: dict[str, Any] = {}
            self.reject('is no object; expected {"id": ..., "states": [...], "actions": [...]}')
        self.fields = item
        given = item.get("id", position)
        if isinstance(given, bool) or not isinstance(given, int | str) or not str(given).strip():
            self.reject(f"has the id {given!r}; give a name or a whole number")
        self.name = str(given).strip()

    def reject(self, problem: str) -> NoReturn:
        raise FileError(f"{self.path}, episodes[{self.position}]: {problem}")

    def read(self, field: str, entry: Callable[[str], Any]) -> list[Any]:
        values = self.fields.get(field)
        if not isinstance(values, list):
            self.reject(f'has no list "{field}"; give one entry for each step')
        if not values:
            self.reject(f'"{field}" is empty; an episode needs at least one step')
        return [self._entry(field, t, value, entry) for t, value in enumerate(values)]

    def check_length(self, field: str, length: int, expected: int) -> None:
        if length != expected:
            self.reject(f"has {expected} states but {length} {field}; give one for each step")

    def _entry(self, field: str, t: int, value: Any, entry: Callable[[str], Any]) -> Any:
        try:
            if isinstance(value, bool) or not isinstance(value, int | float | str):
                raise EntryError("is neither a number nor a label; correct it")
            return entry(str(value).strip())
        except EntryError as problem:
            self.reject(f'"{field}"[{t}]: {json.dumps(value)[:80]} {problem}')


# ----------------------------------------------------------------------------------------------

FORMATS = (".csv", ".parquet", ".json")


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
    table = read_episode_table(path, state_labels, action_labels, rewards=False)
    return list(table.episodes)


def read_episode_table(
    path: str | Path,
    state_labels: Sequence[str] | None = None,
    action_labels: Sequence[str] | None = None,
    *,
    rewards: bool = True,
) -> EpisodeTable:
    """The episodes in a file and where they stand in it, with their rewards if it has any."""
    states, actions = Vocabulary("state", state_labels), Vocabulary("action", action_labels)
    if suffix_of(path, FORMATS, "episode files") == ".json":
        return from_json(path, states, actions, rewards)
    return from_table(path, states, actions, rewards)


def write_episodes(path: str | Path, episodes: Iterable[Episode]) -> None:
    """Write a file that `read_episodes` reads; episodes without an id are called by position."""
    suffix = suffix_of(path, FORMATS, "episode files")
    named = _named(episodes)
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
        if suffix == ".csv":
            frame.write_csv(file)
        else:
            frame.write_parquet(file)


def _named(episodes: Iterable[Episode]) -> dict[str, Episode]:
    named: dict[str, Episode] = {}
    for position, episode in enumerate(episodes):
        name = str(position) if episode.id is None else episode.id
        if name in named:
            raise InputError(f"two episodes have the id {name!r}: give each its own")
        if not name or name != name.strip():
            raise InputError(f"the episode id {name!r} is empty or has blanks around it: rename it")
        named[name] = episode
    if not named:
        raise InputError("no episodes given: there is nothing to write")
    return named


# ----------------------------------------------------------------------------------------------
# Files of explanations as plain records: JSON, or CSV with one row for each of them.

RECORD_FORMATS = (".json", ".csv")


def check_explanations_target(path: str | Path) -> None:
    """Raise early if explanations could not be written there."""
    suffix_of(path, RECORD_FORMATS, "files of explanations")
    check_target(path)


def write_explanations(path: str | Path, document: Mapping[str, Any]) -> None:
    """Write {"k": ..., "explanations": [records]} as JSON, or the records as CSV."""
    if suffix_of(path, RECORD_FORMATS, "files of explanations") == ".json":
        content = json.dumps(document, indent=2, allow_nan=False).encode()
        with atomic_file(path) as file:
            file.write(content)
        return
    rows = [
        {**record, "changes": "; ".join(change["text"] for change in record["changes"])}
        for record in document["explanations"]
    ]
    _write_csv(path, rows)


def _write_csv(path: str | Path, rows: Sequence[Mapping[str, Any]]) -> None:
    import polars as pl

    texts = [{name: str(value) for name, value in row.items()} for row in rows]
    with atomic_file(path) as file:
        pl.DataFrame(texts).write_csv(file)
