"""Sepsis treatment in intensive care (2023 paper, section 5 and appendix G).

States are twelve features of a patient every four hours, of which gender, re-admission and age stay
as they are; actions are five levels each of vasopressors and intravenous fluids, numbered
5 * vasopressor + fluids. Mechanical ventilation is a third input of the model, but no choice: it is
replayed from the episode. The reward of a state is -SOFA.

    cohort = sepsis.read_cohort("mimic-table.csv")          # or sepsis.write_cohort(path) first
    scaling = sepsis.scaling(cohort)
    explain(scm, episode, k=3, actions=sepsis.action_set(episode), reward=sepsis.reward())

MIMIC-III needs credentials, so `simulate_cohort` makes tables of the same form from an invented
process, whose true counterfactuals are known (`SimulatedSepsis`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.reward import LinearReward
from counterplan.core.validation import FloatArray
from counterplan.domains.sepsis_mechanism import SimulatedSepsis
from counterplan.domains.sepsis_simulator import EDGES, simulate_cohort, write_cohort
from counterplan.domains.sepsis_table import (
    FEATURES,
    FIXED,
    LEVELS,
    SOFA,
    DoseEdges,
    SepsisCohort,
    read_cohort,
)
from counterplan.errors import InputError
from counterplan.scm.scaling import Scaling

__all__ = [
    "ACTIONS",
    "EDGES",
    "FEATURES",
    "FIXED",
    "DoseEdges",
    "SepsisCohort",
    "SimulatedSepsis",
    "action_set",
    "read_cohort",
    "reward",
    "scaling",
    "simulate_cohort",
    "write_cohort",
]

ACTIONS = ("vasopressor", "fluids", "ventilation")
# Two values, 0 and 1: shifted, not stretched to the range seen.
BINARY = 2


def action_set(episode: Episode) -> FloatArray:
    """(T-1, 25, 3) what could have been given at each step: any levels, ventilation as it was."""
    if episode.actions.ndim != 2 or episode.actions.shape[1] != len(ACTIONS):
        raise InputError(
            f"{episode.name}: actions have shape {episode.actions.shape}, expected (T-1, 3): "
            "vasopressor level, fluid level, ventilation"
        )
    steps = len(episode) - 1
    levels = np.stack(np.meshgrid(*[np.arange(LEVELS)] * 2, indexing="ij"), axis=-1).reshape(-1, 2)
    vectors = np.empty((steps, len(levels), len(ACTIONS)))
    vectors[:, :, :2] = levels
    vectors[:, :, 2] = episode.actions[:steps, 2:]
    return vectors


def reward() -> LinearReward:
    """-SOFA, in points."""
    weights = np.zeros(len(FEATURES))
    weights[SOFA] = -1.0
    return LinearReward(weights)


def scaling(cohort: SepsisCohort) -> Scaling:
    """The paper's: 0/1 features less 0.5, others from the cohort's range to [-0.5, 0.5], levels / 4
    - 0.5, ventilation - 0.5."""
    return scaling_of(cohort.episodes)


def scaling_of(episodes: Sequence[Episode]) -> Scaling:
    """The same from the episodes of a cohort."""
    states = np.concatenate([episode.states for episode in episodes])
    low, high = states.min(axis=0), states.max(axis=0)
    low[:BINARY], high[:BINARY] = 0.0, 1.0
    constant = np.flatnonzero(high == low)
    if constant.size:
        name = FEATURES[constant[0]]
        raise InputError(
            f"scaling: {name} is {low[constant[0]]} in every row: a feature needs at least two "
            "different values"
        )
    return Scaling(
        state_offset=(low + high) / 2,
        state_range=high - low,
        action_offset=np.array([2.0, 2.0, 0.5]),
        action_range=np.array([4.0, 4.0, 1.0]),
    )
