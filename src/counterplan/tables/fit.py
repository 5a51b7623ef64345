"""Models straight from tables: tabular ones of discrete states, neural ones of continuous states.

A model learned with a schema remembers it. In tabular models R(s, a) is what the table says that a
pair earned, or what its schema says of the state; pairs that never occur are barred (-inf), or earn
the mean of their state's other pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import NamedTuple, NoReturn

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.table import table_columns
from counterplan.core.validation import BoolArray, FloatArray, IntArray
from counterplan.errors import FileError, InputError
from counterplan.scm.estimate import (
    TransitionCounts,
    count_transitions,
    estimate_mdp,
    neighbour_prior,
)
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.support import collect_seen
from counterplan.scm.tabular import TabularMDP
from counterplan.scm.training import FitSettings as NeuralSettings
from counterplan.scm.training import Training
from counterplan.scm.transitions import Transitions
from counterplan.tables.episodes import open_episodes
from counterplan.tables.layout import MEANS, NO_ACTION, REWARD, SCHEMA, SchemaLayout, learned_reward
from counterplan.tables.parts import Recorded
from counterplan.tables.reader import CheckedTable, open_table
from counterplan.tables.schema import Schema

UNDERSTOOD = (
    "discrete episodes (episode_id, t, state, action, reward), a sepsis cohort (icustayid, bloc, "
    "...) or ICU stays in four-hour steps (episode_id, t, a_vaso, a_iv, ...)"
)
# Nats per transition and feature by which a fit may be worse than a linear one without a warning.
TOLERATED_LOSS = 0.1
# A dense (S, A, S) table of this many numbers takes 2 GiB.
LARGEST_TABLE = 2**28


@dataclass(frozen=True)
class FitSettings:
    """How to estimate a tabular model.

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


@dataclass(frozen=True, eq=False)
class TabularFit:
    """A model of discrete states, what was counted for it, and one line about the table."""

    model: TabularMDP
    counts: TransitionCounts
    summary: str


def fit_model(path: str | Path, settings: FitSettings) -> tuple[TabularMDP, TransitionCounts]:
    """The posterior-mean model of a plain file of episodes, and what was counted in it."""
    check_kind(path)
    with open_episodes(path, settings.state_labels, settings.action_labels) as table:
        if table.schema.reward is None:
            raise FileError(
                f"{path}: has no rewards, which a model needs; add a column 'reward' (JSON: "
                '"rewards" in each episode) with what each step earned'
            )
        every = list(table)
    S, A = _sizes(path, every, settings)
    rewards = RewardTable(table, S, A, settings.mean_rewards)
    rewards.add(every)
    counts = count_transitions((one.episode for one in every), S, A)
    prior = neighbour_prior(S) if settings.prior is None else settings.prior
    mdp = estimate_mdp(
        counts,
        rewards.table(counts.visits, settings.bar_unobserved),
        prior=prior,
        state_labels=settings.state_labels,
        action_labels=settings.action_labels,
    )
    return mdp.with_data(counts.visits) if settings.support else mdp, counts


def check_kind(path: str | Path) -> None:
    """A table about something else is told what there could be; slips in one are told later."""
    columns = table_columns(path)
    if len(columns) > 1 and not {"state", "action"} & set(columns):
        found = ", ".join(repr(name[:40]) for name in columns[:8])
        raise FileError(
            f"{path}: no column 'state' or 'action': found {found}; a model can be learned from "
            f"{UNDERSTOOD}; for a table of your own: counterplan schema "
            f"{quote(str(path))} -o schema.toml, then give --schema schema.toml"
        )


def _sizes(path: str | Path, every: Sequence[Recorded], settings: FitSettings) -> tuple[int, int]:
    """Numbers of states and actions, refused where the dense counts would not fit in memory."""
    states = np.concatenate([one.episode.states for one in every])
    actions = np.concatenate([one.episode.actions for one in every])
    S = len(settings.state_labels or ()) or 1 + int(states.max())
    A = len(settings.action_labels or ()) or 1 + int(actions.max())
    if S * A * S > LARGEST_TABLE:
        raise FileError(
            f"{path}: {S} states and {A} actions make a model too large for memory; number both "
            "from 0 up without gaps, or group the states"
        )
    return S, A


# --- By a schema ------------------------------------------------------------------------------


class NeuralFit(NamedTuple):
    """A neural model, the episodes that it was learned from, how many more the table has, and one
    line about the table."""

    model: NeuralSCM
    episodes: tuple[Episode, ...]
    dropped: int
    summary: str


def fit_continuous(
    path: str | Path, schema: Schema, settings: NeuralSettings, support: bool = True
) -> NeuralFit:
    """Learn a neural model from a table with continuous states."""
    layout = SchemaLayout(schema)
    check_reward(layout)
    with open_table(path, schema) as table:
        every, summary = list(table), table.summary()
        about: dict[str, object] = {SCHEMA: schema.as_dict(), MEANS: dict(table.means)}
    episodes = tuple(one.episode for one in every)
    try:
        if not layout.has_merit:
            reward = learned_reward(layout, every)
            about[REWARD] = {"weights": reward.weights.tolist(), "constant": reward.constant}
        scm = learn(episodes, layout, settings, support)
    except InputError as problem:
        raise FileError(f"{path}: {problem}") from None
    return NeuralFit(replace(scm, about={**scm.about, **about}), episodes, 0, summary)


def learn(
    episodes: Sequence[Episode], layout: SchemaLayout, settings: NeuralSettings, support: bool
) -> NeuralSCM:
    """A model of the episodes of a table; `support`: keep some of them in it, to tell how far
    explanations leave the data."""
    transitions = Transitions.collect(episodes, None, layout.features, layout.actions)
    training = Training(scaling=layout.scaling(episodes))
    given: NeuralSettings = {**settings, "fixed": layout.fixed, "training": training}
    scm = NeuralSCM.fit(transitions, **given)
    if not support:
        return scm
    return replace(scm, seen=collect_seen(transitions, scm.scaling, settings.get("seed", 0)))


def poor_fit(scm: NeuralSCM) -> str | None:
    """Which simple model fits clearly better than this one, with its log-likelihood; None if none
    does."""
    record = scm.about["training"]
    loss = record["validation_nll"][record["best_epoch"] - 1]
    worst = loss - TOLERATED_LOSS * len(scm.noise_cholesky)
    for kind, name in (
        ("constant", "a constant, which looks at neither states nor actions,"),
        ("linear", "linear regression"),
    ):
        reference = record["reference_nll"][kind]
        if reference < worst:
            return f"{name} fits the held-out episodes better ({-reference:.3f} nats)"
    return None


def fit_discrete(path: str | Path, schema: Schema, settings: FitSettings) -> TabularFit:
    """Estimate a tabular model from a table with discrete states."""
    layout = SchemaLayout(schema)
    assert layout.states is not None
    check_reward(layout)
    # The last action stands for none, in the last row of an episode.
    S, choices = len(layout.states), len(layout.choices)
    A = choices + 1
    if S * A * S > LARGEST_TABLE:
        raise FileError(
            f"{path}: the columns of the schema combine to {S:,} states and {choices:,} actions, "
            "too many for memory; use fewer columns, or fewer levels"
        )
    with open_table(path, schema) as table:
        rewards = RewardTable(table, S, A, settings.mean_rewards, layout)
        try:
            counts = _trimmed(count_transitions(_noted(table, rewards), S, A))
            model = _estimated(layout, counts, rewards, settings)
        except FileError:
            raise
        except InputError as problem:
            raise FileError(f"{path}: {problem}") from None
        about = {SCHEMA: schema.as_dict(), MEANS: dict(table.means)}
        visits = counts.visits if settings.support else None
        return TabularFit(model.with_data(visits, about), counts, table.summary())


def check_reward(layout: SchemaLayout) -> None:
    """Raise unless a schema says what is good."""
    if layout.schema.reward is None:
        layout.reward()


def _noted(table: CheckedTable, rewards: RewardTable) -> Iterator[Episode]:
    """The episodes of a table, whose rewards are taken down on the way."""
    for part in table.parts():
        rewards.add(part)
        yield from (one.episode for one in part)


def _trimmed(counts: TransitionCounts) -> TransitionCounts:
    """Without the last action, which stands for none, if every row has one."""
    if counts.visits[:, -1].any():
        return counts
    return TransitionCounts(counts.transitions[:, :-1], counts.visits[:, :-1], counts.starts)


def _estimated(
    layout: SchemaLayout, counts: TransitionCounts, rewards: RewardTable, settings: FitSettings
) -> TabularMDP:
    assert layout.states is not None
    ends = len(layout.choices) < counts.visits.shape[1]
    admissible = np.ones(counts.visits.shape, dtype=np.bool_)
    # Nobody can choose that an episode ends.
    admissible[:, len(layout.choices) :] = False
    return estimate_mdp(
        counts,
        rewards.table(counts.visits, settings.bar_unobserved),
        prior=_prior(layout, settings.prior),
        admissible=admissible if ends else None,
        state_labels=layout.states.names(),
        action_labels=[*layout.choices.names(), *([NO_ACTION] if ends else [])],
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


# --- Rewards ----------------------------------------------------------------------------------


class RewardTable:
    """R(s, a) of a table with discrete states, episode by episode."""

    def __init__(
        self,
        table: CheckedTable,
        n_states: int,
        n_actions: int,
        mean: bool,
        layout: SchemaLayout | None = None,
    ) -> None:
        """`mean`: average where a pair earned different amounts, else that is an error; `layout`:
        of the table's schema, None if it is plain."""
        self._file, self._layout, self._mean = table, layout, mean
        self._sums = np.zeros((n_states, n_actions))
        # What each pair earned first, and in which row.
        self._first = np.full((n_states, n_actions), np.nan)
        self._rows = np.zeros((n_states, n_actions), dtype=np.int64)

    @property
    def _has_merit(self) -> bool:
        return self._layout is not None and self._layout.has_merit

    def add(self, part: Sequence[Recorded]) -> None:
        """Take down what the steps of some episodes earned."""
        if self._has_merit:
            return
        states, actions = (
            np.concatenate([getattr(one.episode, name) for one in part])
            for name in ("states", "actions")
        )
        given = np.concatenate([one.rewards for one in part if one.rewards is not None])
        rows = np.concatenate([one.rows for one in part if one.rows is not None])
        # A row without an action earns nothing.
        earned = np.where(np.isnan(given), 0.0, given)
        pairs = states, actions
        if self._mean:
            np.add.at(self._sums, pairs, earned)
            return
        # From back to front, so that the first of several stays.
        new = np.flatnonzero(np.isnan(self._first[pairs]))[::-1]
        self._first[states[new], actions[new]] = earned[new]
        self._rows[states[new], actions[new]] = rows[new]
        differing = np.flatnonzero(self._first[pairs] != earned)
        if differing.size:
            place = int(differing[0])
            pair = int(states[place]), int(actions[place])
            self._refuse(pair, int(rows[place]), float(earned[place]))

    def _refuse(self, pair: tuple[int, int], row: int, earned: float) -> NoReturn:
        layout, place = self._layout, self._file.place
        action = str(pair[1]) if layout is None else repr(layout.action_name(pair[1]))
        raise FileError(
            f"{self._file.path}, {place(row)}: state {self._state(pair[0])}, action {action} "
            f"earned {earned:g}, but {self._first[pair]:g} in {place(int(self._rows[pair]))}; a "
            "reward must depend on state and action only, or be averaged (--mean-rewards)"
        )

    def _state(self, state: int) -> str:
        if self._layout is None or self._layout.states is None:
            return str(state)
        return repr(self._layout.states.name(state))

    def table(self, visits: IntArray, bar_unobserved: bool) -> FloatArray:
        """(S, A) the rewards; pairs that were never seen are barred, or earn their state's mean."""
        A, seen = visits.shape[1], visits > 0
        # From here on actions stand for none.
        idle = A if self._layout is None else len(self._layout.choices)
        if self._has_merit:
            assert self._layout is not None
            known = np.repeat(self._layout.merits[:, None], A, axis=1)
        elif self._mean:
            known = self._sums[:, :A] / np.maximum(visits, 1)
        else:
            known = np.where(seen, self._first[:, :A], 0.0)
        if bar_unobserved:
            allowed = seen.copy()
            allowed[:, idle:] = True
            return np.where(allowed, known, -np.inf)
        return known if self._has_merit else self._with_means(known, seen, idle)

    def _with_means(self, known: FloatArray, seen: BoolArray, idle: int) -> FloatArray:
        """The same with the mean of a state's pairs that were seen in place of the others."""
        never = np.flatnonzero(~seen.any(axis=1))
        if never.size:
            raise FileError(
                f"{self._file.path}: state {self._state(int(never[0]))} never occurs, so nothing "
                "is known about its rewards; number the states without gaps, or bar what was never "
                "seen (leave out --value-unobserved)"
            )
        acted = seen[:, :idle]
        means = known[:, :idle].sum(axis=1) / np.maximum(acted.sum(axis=1), 1)
        filled = np.where(seen, known, means[:, None])
        filled[:, idle:] = 0.0
        return filled
