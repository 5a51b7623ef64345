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
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from counterplan.core.episode import Episode
from counterplan.errors import InputError
from counterplan.files.atomic import atomic_file
from counterplan.files.contents import suffix_of
from counterplan.io.entries import Vocabulary
from counterplan.io.episode_json import from_json
from counterplan.io.episode_table import EpisodeTable, from_table

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
