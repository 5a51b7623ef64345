"""The distinct explanations among sampled counterfactual episodes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from counterplan.core.episode import Episode
from counterplan.core.result import Change
from counterplan.counterfactual.distributions import Realizations


class DistinctExplanation(NamedTuple):
    """A set of changes with the share of realizations that make them and their mean outcome."""

    changes: tuple[Change, ...]
    frequency: float
    mean_outcome: float


def distinct_explanations(
    realizations: Realizations, episode: Episode
) -> tuple[DistinctExplanation, ...]:
    """All distinct action sequences, most frequent first; the observed one has no changes."""
    sequences, member, counts = np.unique(
        realizations.actions, axis=0, return_inverse=True, return_counts=True
    )
    totals = np.bincount(member.reshape(-1), weights=realizations.outcomes)
    order = np.argsort(-counts, kind="stable")
    return tuple(
        DistinctExplanation(
            tuple(
                Change(int(t), int(episode.actions[t]), int(sequences[i, t]))
                for t in np.flatnonzero(sequences[i] != episode.actions)
            ),
            float(counts[i] / len(realizations.outcomes)),
            float(totals[i] / counts[i]),
        )
        for i in order
    )
