"""Cognitive behavioural therapy (2021 paper, section 6 and appendices C and D).

States are the five PHQ-9 severity bands s = 0..4, actions the eleven topics of a session. From the
observed sessions,

    P(s_j | s_i, a) = (alpha_ij + c_j) / sum_l (alpha_il + c_l),    R(s, a) = 5 - s

with c_j transitions seen from s_i to s_j after a, and alpha_ij = 1 for j in {i-1, i, i+1}, else
0.01. Pairs (s, a) never seen get reward -inf, so that no explanation rests on them; appendix D
values them like the others. The first and last session stay as they were, and their topics STR and
END are no alternatives for the sessions in between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from counterplan.core.constraints import Constraints
from counterplan.core.episode import Episode
from counterplan.domains.therapy_simulator import simulate_sessions, write_sessions
from counterplan.domains.therapy_table import (
    END,
    SEVERITIES,
    START,
    TOPICS,
    TherapyCohort,
    read_sessions,
)
from counterplan.errors import InputError
from counterplan.scm.estimate import count_transitions, estimate_mdp, neighbour_prior
from counterplan.scm.tabular import TabularMDP

__all__ = [
    "END",
    "SEVERITIES",
    "START",
    "TOPICS",
    "TherapyCohort",
    "constraints",
    "estimate",
    "read_sessions",
    "simulate_sessions",
    "write_sessions",
]


def estimate(
    cohort: TherapyCohort | Sequence[Episode], unobserved: Literal["bar", "value"] = "bar"
) -> TabularMDP:
    """The posterior-mean model of the sessions.

    unobserved  what pairs (s, a) that were never seen earn: "bar" for -inf (section 6), "value" for
                5 - s like all others (appendix D)
    """
    if unobserved not in ("bar", "value"):
        raise InputError(f"unobserved must be 'bar' or 'value', got {unobserved!r}")
    episodes = cohort.episodes if isinstance(cohort, TherapyCohort) else cohort
    n_states = len(SEVERITIES)
    return estimate_mdp(
        count_transitions(episodes, n_states, len(TOPICS)),
        (n_states - np.arange(n_states))[:, None],
        prior=neighbour_prior(n_states),
        bar_unobserved=unobserved == "bar",
        state_labels=SEVERITIES,
        action_labels=TOPICS,
    )


def constraints(episode: Episode) -> Constraints:
    """First and last session fixed; STR and END are never alternatives."""
    allowed = np.ones(len(TOPICS), dtype=np.bool_)
    allowed[[START, END]] = False
    return Constraints(allowed=allowed, fixed_steps=(0, len(episode) - 1))
