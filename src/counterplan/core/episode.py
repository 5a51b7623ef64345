"""An observed episode: what happened, step by step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterplan.core.validation import index_vector
from counterplan.errors import InputError


@dataclass(frozen=True, eq=False)
class Episode:
    """T states and the T actions taken in them; no transition follows the last.

    states   (T,) indices of discrete states
    actions  (T,) indices of actions
    id       how tables and reports call it
    """

    states: NDArray[Any]
    actions: NDArray[Any]
    id: str | None = None

    def __init__(
        self,
        states: NDArray[Any] | Sequence[int],
        actions: NDArray[Any] | Sequence[int],
        id: str | None = None,
    ) -> None:
        name = f"episode {id!r}" if id is not None else "episode"
        state_array = index_vector(states, f"{name}: state")
        action_array = index_vector(actions, f"{name}: action")
        if state_array.size == 0:
            raise InputError(f"{name} is empty: it needs at least one state and one action")
        if state_array.shape != action_array.shape:
            raise InputError(
                f"{name} has {state_array.size} states but {action_array.size} actions: "
                "give one action for each state"
            )
        state_array.flags.writeable = False
        action_array.flags.writeable = False
        object.__setattr__(self, "states", state_array)
        object.__setattr__(self, "actions", action_array)
        object.__setattr__(self, "id", id)

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
        for what, values, count in (
            ("state", self.states, n_states),
            ("action", self.actions, n_actions),
        ):
            unknown = np.flatnonzero(values >= count)
            if unknown.size:
                t = int(unknown[0])
                raise InputError(
                    f"{self.name}: unknown {what} {values[t]} at t={t}: the model has "
                    f"{what}s 0..{count - 1}"
                )
