"""Markov decision processes with finitely many states and actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterplan.core.episode import Episode
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import InputError
from counterplan.scm.row_checks import CheckedRows, check_rows
from counterplan.scm.rows import Rows
from counterplan.scm.tabular_checks import (
    check_distribution,
    check_final_rewards,
    check_index,
    check_labels,
    check_mask,
    check_rewards,
    check_visits,
    collect_rows,
)


@dataclass(frozen=True, eq=False, init=False)
class TabularMDP:
    """P(s' | s, a), R(s, a) and what is known about the states and actions.

    rows           distinct transition rows, each summing to 1
    row_of         (S, A) which row belongs to a pair
    rewards        (S, A) earned when the action is taken; -inf bars a pair
    admissible     (S, A) alternatives that may be chosen in a state (keeping what was done is
                   always possible), None for all
    initial        (S,) distribution of the first state, None if unknown
    final_rewards  (S,) earned on top in an episode's last state, e.g. what is expected to follow
    state_labels   S names, None to use the numbers
    action_labels  A names, None to use the numbers
    visits         (S, A) how often each pair was seen in the data that the model was estimated
                   from, None if unknown; it tells what an explanation rests on
    about          plain values about the data, such as the schema of its table
    """

    rows: Rows
    row_of: NDArray[np.int32]
    rewards: FloatArray
    admissible: BoolArray | None
    initial: FloatArray | None
    final_rewards: FloatArray | None
    state_labels: tuple[str, ...] | None
    action_labels: tuple[str, ...] | None
    visits: IntArray | None
    about: Mapping[str, Any]

    def __init__(
        self,
        transitions: ArrayLike | Sequence[Any] | CheckedRows,
        rewards: ArrayLike,
        *,
        admissible: ArrayLike | None = None,
        initial: ArrayLike | None = None,
        final_rewards: ArrayLike | None = None,
        state_labels: Sequence[str] | None = None,
        action_labels: Sequence[str] | None = None,
    ) -> None:
        """`transitions`: (S, A, S), or a list of A scipy.sparse matrices of shape (S, S)."""
        rows, row_of = collect_rows(transitions)
        S, A = row_of.shape
        keep = object.__setattr__
        keep(self, "rows", rows)
        keep(self, "row_of", row_of)
        keep(self, "rewards", check_rewards(rewards, (S, A)))
        keep(self, "admissible", check_mask(admissible, (S, A)))
        keep(self, "initial", check_distribution(initial, S))
        keep(self, "final_rewards", check_final_rewards(final_rewards, S))
        keep(self, "state_labels", check_labels(state_labels, S, "state"))
        keep(self, "action_labels", check_labels(action_labels, A, "action"))
        keep(self, "visits", None)
        keep(self, "about", {})

    @classmethod
    def from_rows(cls, rows: Rows, row_of: ArrayLike, rewards: ArrayLike, **parts: Any) -> Self:
        """A model from its distinct rows as they are, such as a file stores them: checked, but not
        normalised again, so that what was saved is what is loaded, bit for bit."""
        return cls(check_rows(rows, row_of), rewards, **parts)

    def with_data(
        self, visits: ArrayLike | None = None, about: Mapping[str, Any] | None = None
    ) -> Self:
        """The same model, knowing of the data that it was estimated from."""
        other = copy(self)
        counts = check_visits(visits, (self.n_states, self.n_actions))
        object.__setattr__(other, "visits", self.visits if counts is None else counts)
        object.__setattr__(other, "about", dict(self.about if about is None else about))
        return other

    @property
    def n_states(self) -> int:
        return int(self.row_of.shape[0])

    @property
    def n_actions(self) -> int:
        return int(self.row_of.shape[1])

    def row(self, state: int, action: int) -> FloatArray:
        """P(. | state, action), dense (S,)."""
        self._check_pair(state, action)
        return self.rows.dense(self.row_of[state, action], self.n_states)

    def probability(self, state: int, action: int, next_state: int) -> float:
        """P(next_state | state, action)."""
        self._check_pair(state, action)
        check_index(next_state, self.n_states, "state")
        indices, probabilities = self.rows.slice(self.row_of[state, action])
        position = int(np.searchsorted(indices, next_state))
        found = position < len(indices) and indices[position] == next_state
        return float(probabilities[position]) if found else 0.0

    def rewards_at(self, t: int, horizon: int) -> FloatArray:
        """(S, A) rewards at step t of `horizon` steps: the last adds the final ones."""
        return self._last_rewards if t == horizon - 1 else self.rewards

    def outcome(self, episode: Episode) -> float:
        """The sum of rewards along an episode."""
        T, total = len(episode), 0.0
        # From the last step back, as solvers add: a policy that changes nothing earns exactly this.
        for t in range(T - 1, -1, -1):
            total += float(self.rewards_at(t, T)[episode.states[t], episode.actions[t]])
        return total

    def state_name(self, state: int) -> str:
        """Its label, or its number where states have none."""
        return self.state_labels[state] if self.state_labels else str(state)

    def action_name(self, action: int) -> str:
        """Its label, or its number where actions have none."""
        return self.action_labels[action] if self.action_labels else str(action)

    def check_episode(self, episode: Episode) -> None:
        """Raise unless every state, action and transition of the episode is possible here."""
        episode.check_range(self.n_states, self.n_actions)
        for t in range(len(episode) - 1):
            state, action, after = episode.states[t], episode.actions[t], episode.states[t + 1]
            if self.probability(state, action, after) == 0.0:
                raise InputError(
                    f"{episode.name}: the transition at t={t} (state {state}, action {action} -> "
                    f"state {after}) has probability zero in the model, so nothing can be inferred "
                    "from it; check the data or estimate the model with a prior"
                )

    @cached_property
    def _last_rewards(self) -> FloatArray:
        if self.final_rewards is None:
            return self.rewards
        return self.rewards + self.final_rewards[:, None]

    def _check_pair(self, state: int, action: int) -> None:
        check_index(state, self.n_states, "state")
        check_index(action, self.n_actions, "action")
