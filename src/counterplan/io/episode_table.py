"""Episodes of a long table: its rows gathered by episode, put in the order of t, and checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray, IntArray
from counterplan.io.entries import Vocabulary, read_index, read_number
from counterplan.io.mistakes import shown
from counterplan.io.table import Table, read_table

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
    table = read_table(path, COLUMNS, (REWARD,) if rewards else ())
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
