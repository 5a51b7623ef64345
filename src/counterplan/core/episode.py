"""An observed episode: what happened, step by step."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.validation import feature_table, index_vector
from counterplan.errors import InputError


@dataclass(frozen=True, eq=False)
class Episode:
    """T states and the actions taken in them; no transition follows the last.

    states   (T,) indices of discrete states, or (T, D) features
    actions  (T,) indices of actions; with features also (T-1,), since the last action leads
             nowhere, or action vectors (T, d) or (T-1, d)
    id       how tables and reports call it
    """

    states: NDArray[Any]
    actions: NDArray[Any]
    id: str | None = None

    def __init__(self, states: ArrayLike, actions: ArrayLike, id: str | None = None) -> None:
        name = f"episode {id!r}" if id is not None else "episode"
        state_array = _numbers(states, f"{name}: state")
        action_array = _numbers(actions, f"{name}: action")
        if state_array.shape[0] == 0:
            raise InputError(f"{name} is empty: it needs at least one state and one action")
        T, given = len(state_array), len(action_array)
        if given != T and not (state_array.ndim == 2 and given == T - 1):
            raise InputError(
                f"{name} has {T} states but {given} actions: give one action for each state"
            )
        if state_array.ndim == 1 and action_array.ndim == 2:
            raise InputError(f"{name}: discrete states take discrete actions, not vectors")
        state_array.flags.writeable = action_array.flags.writeable = False
        for field, value in (("states", state_array), ("actions", action_array), ("id", id)):
            object.__setattr__(self, field, value)

    def __repr__(self) -> str:
        name = "" if self.id is None else f"id={self.id!r}, "
        features = "".join(f", features={count}" for count in self.states.shape[1:])
        return f"Episode({name}steps={len(self)}{features})"

    def __len__(self) -> int:
        return len(self.states)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Episode):
            return NotImplemented
        return (
            self.id == other.id
            and np.array_equal(self.states, other.states)
            and np.array_equal(self.actions, other.actions)
        )

    def __hash__(self) -> int:
        return hash((self.id, self.states.tobytes(), self.actions.tobytes()))

    @property
    def name(self) -> str:
        """How messages call this episode."""
        return f"episode {self.id!r}" if self.id is not None else "the episode"

    def check_range(self, n_states: int, n_actions: int) -> None:
        """Raise unless every state and action is one of a model of this size."""
        sizes = ("state", self.states, n_states), ("action", self.actions, n_actions)
        for what, values, count in sizes:
            if values.max() >= count:
                t = int(np.argmax(values >= count))
                raise InputError(
                    f"{self.name}: unknown {what} {values[t]} at t={t}: the model has "
                    f"{what}s 0..{count - 1}"
                )


def listed_episodes(episodes: Any) -> list[Episode]:
    """A list of episodes, or an error that says what was given instead."""
    if isinstance(episodes, Episode):
        name = episodes.name
        raise InputError(f"expected a list of episodes, got one: pass [episode] for {name}")
    every = list(episodes) if isinstance(episodes, Iterable) else [episodes]
    for given in every:
        if not isinstance(given, Episode):
            raise InputError(
                f"expected a list of episodes, got {type(given).__name__}: pass "
                "[Episode(states=..., actions=...), ...]"
            )
    return every


def _numbers(values: ArrayLike, name: str) -> NDArray[Any]:
    """(T,) indices or a (T, D) table of finite numbers."""
    try:
        is_table = np.ndim(values) == 2
    except ValueError:  # rows of different lengths
        is_table = True
    if is_table:
        return feature_table(values, name)
    try:
        return index_vector(values, name)
    except InputError as problem:
        array = np.asarray(values)
        if array.ndim == 1 and np.issubdtype(array.dtype, np.floating):
            raise InputError(f"{problem}; measurements form a table, (T, 1) for one") from None
        if array.ndim == 1 and array.dtype.kind in "UO":
            raise InputError(
                f"{problem}; a model with labels makes an episode of names: "
                "mdp.episode(states=[...], actions=[...])"
            ) from None
        raise
