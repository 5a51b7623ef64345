"""Laws of one step: expectations and rows say the same, by any route."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplan as cp
from counterplan.counterfactual.discrete.laws import ExactLaw, RowwiseLaw, SampledLaw, law_of
from counterplan.testing import random_episode, random_transitions

from .models import IndependentSCM


def setting(seed: int) -> tuple[cp.TabularMDP, cp.Episode, np.random.Generator]:
    rng = np.random.default_rng(seed)
    S, A = (int(i) for i in rng.integers(2, 5, size=2))
    transitions = random_transitions(rng, S, A)
    transitions[-1] = transitions[0]  # rows shared by several pairs
    mdp = cp.TabularMDP(transitions, np.zeros((S, A)))
    return mdp, random_episode(rng, mdp, 3), rng


@given(st.integers(0, 2**32 - 1))
def test_the_fused_pass_equals_row_by_row(seed: int) -> None:
    mdp, episode, rng = setting(seed)
    values = rng.normal(size=(mdp.n_states, 3))
    values[0, 1] = -np.inf
    scm = cp.GumbelMaxSCM(mdp)
    fused, slow = ExactLaw(mdp, episode), RowwiseLaw(scm, episode)
    for t in range(2):
        quick = fused.expect(t, np.unique(fused.row_of), values)
        by_row = slow.expect(t, slow.row_of.ravel(), values)
        observed = (int(episode.states[t]), int(episode.actions[t]), int(episode.states[t + 1]))
        for s in range(mdp.n_states):
            for a in range(mdp.n_actions):
                row = scm.counterfactual_row(*observed, s, a)
                reached = row > 0.0
                expected = row[reached] @ values[reached]
                assert quick[fused.row_of[s, a]] == pytest.approx(expected, abs=1e-12)
                assert by_row[slow.row_of[s, a]] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("kind", ["exact", "sampled", "own"])
def test_rows_and_expectations_agree(kind: str) -> None:
    mdp, episode, rng = setting(5)
    laws: dict[str, Any] = {
        "exact": ExactLaw(mdp, episode),
        "sampled": SampledLaw(mdp, episode, 40, 3),
        "own": law_of(IndependentSCM(mdp), episode),
    }
    law = laws[kind]
    ids = np.unique(law.row_of)[::2].astype(np.int32)
    values = rng.normal(size=(mdp.n_states, 2))
    block, expected = law.rows_at(1, ids), law.expect(1, ids, values)
    for position, row in enumerate(ids):
        dense = block.dense(position, mdp.n_states)
        assert dense.sum() == pytest.approx(1.0, abs=1e-12)
        assert expected[row] == pytest.approx(dense @ values, abs=1e-12)


def test_a_gumbel_max_model_gets_the_compiled_law() -> None:
    mdp, episode, _ = setting(0)
    assert isinstance(law_of(cp.GumbelMaxSCM(mdp), episode), ExactLaw)
    assert isinstance(law_of(IndependentSCM(mdp), episode), RowwiseLaw)


def test_sampled_steps_have_noise_of_their_own() -> None:
    mdp = cp.TabularMDP(np.array([[[0.5, 0.5], [0.3, 0.7]]] * 2), np.zeros((2, 2)))
    law = SampledLaw(mdp, cp.Episode([0, 0, 0], [0, 0, 0]), 200, 0)
    ids = np.array([1], dtype=np.int32)
    first, again, other = law.rows_at(0, ids), law.rows_at(0, ids), law.rows_at(1, ids)
    assert np.array_equal(first.probabilities, again.probabilities)
    assert not np.array_equal(first.probabilities, other.probabilities)
