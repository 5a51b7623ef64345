"""A model straight from a file of episodes with rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

import numpy as np

from counterplan.errors import FileError
from counterplan.io.episode_table import EpisodeTable
from counterplan.io.episodes import read_episode_table
from counterplan.io.rewards import fill_unobserved, observed_rewards
from counterplan.io.stay_tables import UNDERSTOOD, columns_of
from counterplan.scm.estimate import (
    TransitionCounts,
    count_transitions,
    estimate_mdp,
    neighbour_prior,
)
from counterplan.scm.tabular import TabularMDP

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
