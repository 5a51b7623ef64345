"""The reward table R(s, a) that the steps of a file show."""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import FileError
from counterplan.io.episode_table import EpisodeTable


def observed_rewards(
    table: EpisodeTable, n_states: int, n_actions: int, *, average: bool = False
) -> FloatArray:
    """(S, A) what each pair earned, nan where it was never seen.

    A pair that earned different amounts is an error that names two of its steps, unless `average`
    asks for the mean.
    """
    if table.rewards is None:
        raise FileError(
            f"{table.path}: has no rewards, which a model needs; add a column 'reward' (JSON: "
            '"rewards" in each episode) with what each step earned'
        )
    earned = np.concatenate(table.rewards)
    pairs = np.concatenate([e.states * n_actions + e.actions for e in table.episodes])
    if not average:
        _check_equal(table, pairs, earned, n_actions)
    size = n_states * n_actions
    rewards = np.full(size, np.nan)
    if average:
        seen = np.unique(pairs)
        rewards[seen] = np.bincount(pairs, earned, size)[seen] / np.bincount(pairs)[seen]
    else:
        rewards[pairs] = earned
    return rewards.reshape(n_states, n_actions)


def fill_unobserved(table: EpisodeTable, rewards: FloatArray) -> FloatArray:
    """The same with the mean reward of a state's observed pairs in place of nan."""
    seen = ~np.isnan(rewards)
    never = np.flatnonzero(~seen.any(axis=1))
    if never.size:
        raise FileError(
            f"{table.path}: state {never[0]} never occurs, so nothing is known about its rewards; "
            "number the states without gaps, or bar pairs that were never seen"
        )
    means = np.where(seen, rewards, 0.0).sum(axis=1) / seen.sum(axis=1)
    return np.where(seen, rewards, means[:, None])


def _check_equal(table: EpisodeTable, pairs: IntArray, earned: FloatArray, actions: int) -> None:
    """Raise if the same pair earned different rewards."""
    _, first, pair = np.unique(pairs, return_index=True, return_inverse=True)
    differing = np.flatnonzero(earned != earned[first[pair]])
    if not differing.size:
        return
    step = int(differing[0])
    earlier = int(first[pair[step]])
    state, action = divmod(int(pairs[step]), actions)
    raise FileError(
        f"{table.path}, {_place(table, step)}: state {state}, action {action} earned "
        f"{earned[step]:g}, but {earned[earlier]:g} in {_place(table, earlier)}; a reward must "
        "depend on state and action only, or be averaged (--mean-rewards)"
    )


def _place(table: EpisodeTable, step: int) -> str:
    """Where the step-th of all steps, episode after episode, stands in the file."""
    ends = np.cumsum([len(episode) for episode in table.episodes])
    number = int(np.searchsorted(ends, step, side="right"))
    return table.place(number, step - int(ends[number]) + len(table.episodes[number]))
