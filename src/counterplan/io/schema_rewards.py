"""What states and actions are worth by the reward column of a table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterplan.core.reward import LinearReward
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import InputError
from counterplan.io.schema_episodes import Told
from counterplan.io.schema_layout import SchemaLayout

# How much of a reward may be left unexplained, relative to how much it varies.
LINEAR = 1e-6


def learned_reward(layout: SchemaLayout, every: Sequence[Told]) -> LinearReward:
    """The linear function of states that the reward column is; an error if it is none."""
    states = np.concatenate([one.recorded.episode.states for one in every])
    column = layout.schema.reward
    assert column is not None
    given = np.concatenate([one.rewards for one in every if one.rewards is not None])
    known = np.isfinite(given)
    if not known.any():
        raise InputError(f"column {column.name!r}: is empty, so nothing is known of what is good")
    states, earned = states[known], given[known]
    middle, spread = states.mean(axis=0), states.std(axis=0)
    spread[spread == 0.0] = 1.0
    centred = earned - earned.mean()
    varies = float(np.linalg.norm(centred))
    if varies == 0.0:
        raise InputError(
            f"column {column.name!r}: is {earned[0]:g} in every row, so nothing is better than "
            "anything else; say better = 'lower' or 'higher' for a state column"
        )
    scaled = (states - middle) / spread
    slopes = np.linalg.lstsq(scaled, centred, rcond=None)[0]
    left = float(np.linalg.norm(centred - scaled @ slopes)) / varies
    if left > LINEAR:
        raise InputError(
            f"column {column.name!r}: is not a linear function of the state columns of its row "
            f"(R² = {1.0 - left**2:.4f}), which continuous states need; say better = 'lower' or "
            "'higher' for the state columns that matter"
        )
    weights = slopes / spread
    return LinearReward(weights, float(earned.mean() - weights @ middle))


class RewardTable:
    """R(s, a) of a discrete table, episode by episode."""

    def __init__(self, layout: SchemaLayout, n_states: int, n_actions: int, mean: bool) -> None:
        """`mean`: average where a pair earned different amounts, else that is an error."""
        self._layout, self._mean = layout, mean
        self._sums = np.zeros((n_states, n_actions))
        self._first = np.full((n_states, n_actions), np.nan)
        self._places: dict[tuple[int, int], str] = {}

    def add(self, one: Told) -> None:
        """Take down what the steps of an episode earned."""
        if one.rewards is None or self._layout.has_merit:
            return
        episode = one.recorded.episode
        # A row without an action earns nothing.
        earned = np.where(np.isnan(one.rewards), 0.0, one.rewards)
        np.add.at(self._sums, (episode.states, episode.actions), earned)
        if self._mean:
            return
        for t, (s, a) in enumerate(zip(episode.states, episode.actions, strict=True)):
            pair, place = (int(s), int(a)), f"episode {episode.id!r}, step {t}"
            if pair not in self._places:
                self._places[pair], self._first[pair] = place, earned[t]
            elif self._first[pair] != earned[t]:
                raise InputError(self._differ(pair, place, earned[t]))

    def _differ(self, pair: tuple[int, int], place: str, earned: float) -> str:
        assert self._layout.states is not None
        state, action = self._layout.states.name(pair[0]), self._layout.action_name(pair[1])
        return (
            f"{place}: state {state!r}, action {action!r} earned {earned:g}, but "
            f"{self._first[pair]:g} in {self._places[pair]}; a reward must depend on state and "
            "action only, or be averaged (--mean-rewards)"
        )

    def table(self, visits: IntArray, bar_unobserved: bool) -> FloatArray:
        """(S, A) the rewards; pairs that were never seen are barred, or earn their state's mean."""
        A = visits.shape[1]
        seen, idle = visits > 0, len(self._layout.choices)
        if self._layout.has_merit:
            rewards = np.repeat(self._layout.merits[:, None], A, axis=1)
            return np.where(self._allowed(seen, bar_unobserved), rewards, -np.inf)
        known = self._sums[:, :A] / np.maximum(visits, 1)
        known = known if self._mean else np.where(seen, self._first[:, :A], 0.0)
        if bar_unobserved:
            return np.where(self._allowed(seen, True), known, -np.inf)
        acted = seen[:, :idle]
        never = np.flatnonzero(~acted.any(axis=1) & ~seen.any(axis=1))
        if never.size:
            assert self._layout.states is not None
            raise InputError(
                f"state {self._layout.states.name(int(never[0]))!r} never occurs, so nothing is "
                "known about its rewards; bar what was never seen (leave out --value-unobserved)"
            )
        means = known[:, :idle].sum(axis=1) / np.maximum(acted.sum(axis=1), 1)
        filled = np.where(seen, known, means[:, None])
        filled[:, idle:] = 0.0
        return filled

    def _allowed(self, seen: BoolArray, bar_unobserved: bool) -> BoolArray:
        """Pairs that are not barred: ending without an action never is."""
        if not bar_unobserved:
            return np.ones_like(seen)
        allowed = seen.copy()
        allowed[:, len(self._layout.choices) :] = True
        return allowed
