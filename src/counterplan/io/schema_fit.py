"""Models learned from a table and its schema; they remember the schema."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.reward import LinearReward
from counterplan.core.validation import FloatArray
from counterplan.errors import FileError, InputError
from counterplan.io.fit import LARGEST_TABLE, FitSettings
from counterplan.io.schema import Schema
from counterplan.io.schema_grid import names
from counterplan.io.schema_layout import MEANS, NO_ACTION, REWARD, SCHEMA, SchemaLayout
from counterplan.io.schema_rewards import RewardTable, learned_reward
from counterplan.io.schema_table import CheckedTable, open_table
from counterplan.io.stay_models import CohortSettings, learn
from counterplan.io.stay_tables import Stays
from counterplan.scm.estimate import (
    TransitionCounts,
    count_transitions,
    estimate_mdp,
    neighbour_prior,
)
from counterplan.scm.neural import NeuralSCM
from counterplan.scm.tabular import TabularMDP


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
