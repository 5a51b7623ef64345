"""A model straight from a file of episodes with rewards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.reward import LinearReward
from counterplan.core.validation import FloatArray, IntArray
from counterplan.errors import FileError, InputError
from counterplan.scm.estimate import (
    TransitionCounts,
    count_transitions,
    estimate_mdp,
    neighbour_prior,
)
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.tabular import TabularMDP
from counterplan.tables.episodes import EpisodeTable, read_episode_table
from counterplan.tables.grid import names
from counterplan.tables.layout import (
    MEANS,
    NO_ACTION,
    REWARD,
    SCHEMA,
    RewardTable,
    SchemaLayout,
    learned_reward,
)
from counterplan.tables.schema import Schema
from counterplan.tables.schema_table import CheckedTable, open_table
from counterplan.tables.stays import UNDERSTOOD, CohortSettings, Stays, columns_of, learn

# ----------------------------------------------------------------------------------------------
# The reward table R(s, a) that the steps of a file show.


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


# ----------------------------------------------------------------------------------------------

# A dense (S, A, S) table of this many numbers takes 2 GiB.
LARGEST_TABLE = 2**28


@dataclass(frozen=True)
class FitSettings:
    """How to estimate.

    prior           one pseudo-count for every transition, None for the neighbour prior
    bar_unobserved  give pairs that never occur the reward -inf, else their state's mean reward
    mean_rewards    average where the same pair earned different rewards, else refuse
    state_labels    names of the states 0, 1, ..., None if the file has numbers up to the largest
    action_labels   likewise
    support         keep the counts of pairs in the model, to tell how far explanations leave them
    """

    prior: float | None = 1.0
    bar_unobserved: bool = True
    mean_rewards: bool = False
    state_labels: Sequence[str] | None = None
    action_labels: Sequence[str] | None = None
    support: bool = True


def fit_model(path: str | Path, settings: FitSettings) -> tuple[TabularMDP, TransitionCounts]:
    """The posterior-mean model of the episodes in a file, and what was counted in it."""
    check_kind(path)
    table = read_episode_table(path, settings.state_labels, settings.action_labels)
    counts = count_transitions(table.episodes, *_size(table, settings))
    rewards = observed_rewards(table, *counts.visits.shape, average=settings.mean_rewards)
    if settings.bar_unobserved:
        rewards = np.where(counts.observed, rewards, -np.inf)
    else:
        rewards = fill_unobserved(table, rewards)
    prior = neighbour_prior(len(rewards)) if settings.prior is None else settings.prior
    mdp = estimate_mdp(
        counts,
        rewards,
        prior=prior,
        state_labels=settings.state_labels,
        action_labels=settings.action_labels,
    )
    return mdp.with_data(counts.visits) if settings.support else mdp, counts


def check_kind(path: str | Path) -> None:
    """A table about something else is told what there could be; slips in one are told later."""
    columns = columns_of(path)
    if len(columns) > 1 and not {"state", "action"} & set(columns):
        found = ", ".join(repr(name[:40]) for name in columns[:8])
        raise FileError(
            f"{path}: no column 'state' or 'action': found {found}; a model can be learned from "
            f"{UNDERSTOOD}; for a table of your own: counterplan schema "
            f"{quote(str(path))} -o schema.toml, then give --schema schema.toml"
        )


def _size(table: EpisodeTable, settings: FitSettings) -> tuple[int, int]:
    """Numbers of states and actions, refused where the dense counts would not fit in memory."""
    n_states = len(settings.state_labels or ()) or 1 + max(e.states.max() for e in table.episodes)
    n_actions = len(settings.action_labels or ()) or 1 + max(
        e.actions.max() for e in table.episodes
    )
    if int(n_states) * int(n_actions) * int(n_states) > LARGEST_TABLE:
        raise FileError(
            f"{table.path}: {n_states} states and {n_actions} actions make a model too large for "
            "memory; number both from 0 up without gaps, or group the states"
        )
    return int(n_states), int(n_actions)


# ----------------------------------------------------------------------------------------------
# Models learned from a table and its schema; they remember the schema.


@dataclass(frozen=True, eq=False)
class TabularFit:
    """A model of discrete states, what was counted for it, and one line about the table."""

    model: TabularMDP
    counts: TransitionCounts
    summary: str


def fit_continuous(
    path: str | Path, schema: Schema, settings: CohortSettings
) -> tuple[NeuralSCM, Stays]:
    """Learn a neural model from a table with continuous states."""
    layout = SchemaLayout(schema)
    check_reward(layout)
    with open_table(path, schema) as table:
        every = list(table.told())
        stays = Stays(
            tuple(one.recorded.episode for one in every),
            tuple(one.recorded.times for one in every),
            table.summary(),
        )
        about: dict[str, object] = {SCHEMA: schema.as_dict(), MEANS: dict(table.means)}
    try:
        if not layout.has_merit:
            about[REWARD] = _stored(learned_reward(layout, every))
        scm = learn(stays.episodes, layout, settings)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None
    return replace(scm, about={**scm.about, **about}), stays


def fit_discrete(path: str | Path, schema: Schema, settings: FitSettings) -> TabularFit:
    """Estimate a tabular model from a table with discrete states."""
    layout = SchemaLayout(schema)
    assert layout.states is not None
    check_reward(layout)
    S, A = len(layout.states), len(layout.choices) + 1
    if S * A * S > LARGEST_TABLE:
        raise FileError(
            f"{path}: the columns of the schema combine to {S:,} states and {A - 1:,} actions, too "
            "many for memory; use fewer columns, or fewer levels"
        )
    with open_table(path, schema) as table:
        rewards = RewardTable(layout, S, A, settings.mean_rewards)
        try:
            counts = count_transitions(_noted(table, rewards), S, A)
            model = _estimated(layout, counts, rewards, settings)
        except InputError as problem:
            raise FileError(f"{path}: {problem}") from None
        about = {SCHEMA: schema.as_dict(), MEANS: dict(table.means)}
        trimmed = _trimmed(counts)
        visits = trimmed.visits if settings.support else None
        return TabularFit(model.with_data(visits, about), trimmed, table.summary())


def _noted(table: CheckedTable, rewards: RewardTable) -> Iterator[Episode]:
    """The episodes of a table, whose rewards are taken down on the way."""
    for one in table.told():
        rewards.add(one)
        yield one.recorded.episode


def _trimmed(counts: TransitionCounts) -> TransitionCounts:
    """Without the last action, which stands for none, if every row has one."""
    if counts.visits[:, -1].any():
        return counts
    return TransitionCounts(counts.transitions[:, :-1], counts.visits[:, :-1], counts.starts)


def _estimated(
    layout: SchemaLayout, counts: TransitionCounts, rewards: RewardTable, settings: FitSettings
) -> TabularMDP:
    assert layout.states is not None
    used = _trimmed(counts)
    S, A = used.visits.shape
    ends = len(layout.choices) < A
    labels = [*names(layout.choices), *([NO_ACTION] if ends else [])]
    admissible = np.ones((S, A), dtype=np.bool_)
    # Nobody can choose that an episode ends.
    admissible[:, len(layout.choices) :] = False
    return estimate_mdp(
        used,
        rewards.table(used.visits, settings.bar_unobserved),
        prior=_prior(layout, settings.prior),
        admissible=admissible if ends else None,
        state_labels=names(layout.states),
        action_labels=labels,
    )


def _prior(layout: SchemaLayout, prior: float | None) -> float | FloatArray:
    """Pseudo-counts; none for transitions that change what is fixed."""
    assert layout.states is not None
    S, moving = len(layout.states), layout.states.sizes[layout.fixed :]
    if prior is None:
        if len(moving) > 1:
            raise InputError("the neighbour prior is for one state column, with ordered levels")
        base = neighbour_prior(S)
    elif not layout.fixed:
        return prior
    else:
        base = np.full((S, S), prior)
    group = np.arange(S) // int(np.prod(moving))
    return np.where(group[:, None] == group, base, 0.0)


def check_reward(layout: SchemaLayout) -> None:
    """Raise unless a schema says what is good."""
    if layout.schema.reward is None:
        layout.reward()


def _stored(reward: LinearReward) -> dict[str, object]:
    return {"weights": reward.weights.tolist(), "constant": reward.constant}
