"""Episodes of a JSON file: an object with a list of them, or only the list."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.validation import FloatArray
from counterplan.errors import FileError
from counterplan.files.contents import read_json
from counterplan.io.entries import EntryError, Vocabulary, read_number
from counterplan.io.episode_table import EpisodeTable

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
