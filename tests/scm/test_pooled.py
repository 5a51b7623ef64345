"""A prior that is learned from counts: how rows scatter, what others say of a row, and ends."""

from __future__ import annotations

import numpy as np
import pytest

import counterplan as cp
from counterplan.errors import InputError
from counterplan.scm import Pooled, count_transitions, estimate_mdp
from counterplan.testing import random_episode


def learned(truth: cp.TabularMDP, n: int, steps: int) -> cp.TabularMDP:
    rng = np.random.default_rng(1)
    episodes = [random_episode(rng, truth, steps) for _ in range(n)]
    counts = count_transitions(episodes, truth.n_states, truth.n_actions)
    return estimate_mdp(counts, truth.rewards, prior="pooled")


@pytest.mark.parametrize("strength", [2.0, 20.0])
def test_the_strength_is_that_by_which_rows_scatter(strength: float) -> None:
    rng = np.random.default_rng(0)
    rows = rng.dirichlet(strength * rng.dirichlet(np.ones(6)), size=(6, 4))
    model = learned(cp.TabularMDP(rows, np.zeros((6, 4))), 200, 20)
    assert model.mass is not None
    assert model.counts is not None
    seen = np.zeros((6, 4))
    np.add.at(seen, tuple(model.counts[:, :2].T), model.counts[:, 3])
    # Within a factor of three: 24 rows tell no more.
    assert strength / 3 < np.median(model.mass - seen) < 3 * strength


def test_a_row_that_stands_alone_does_not_prove_that_rows_are_alike() -> None:
    # One action a state: nothing tells how rows of a state differ, and much how states do.
    rng = np.random.default_rng(0)
    truth = cp.TabularMDP(rng.dirichlet(np.full(40, 0.1), size=(40, 1)), np.zeros((40, 1)))
    model = learned(truth, 50, 20)
    assert model.mass is not None
    assert model.counts is not None
    seen = np.zeros((40, 1))
    np.add.at(seen, tuple(model.counts[:, :2].T), model.counts[:, 3])
    assert (model.mass - seen).max() < 40


def test_rows_are_distributions_near_their_counts_and_sparse() -> None:
    rng = np.random.default_rng(0)
    truth = cp.TabularMDP(rng.dirichlet(np.full(60, 0.05), size=(60, 3)), np.zeros((60, 3)))
    few, many = learned(truth, 10, 20), learned(truth, 4000, 20)
    for model in (few, many):
        sums = np.add.reduceat(model.rows.probabilities, model.rows.indptr[:-1])
        assert sums == pytest.approx(1.0, abs=1e-12)
        assert (model.rows.probabilities > 0.0).all()
    errors = [
        np.mean([np.abs(m.row(s, a) - truth.row(s, a)).sum() for s in range(60) for a in range(3)])
        for m in (few, many)
    ]
    assert errors[1] < 0.2 * errors[0]


def test_what_follows_ends_is_known_and_tells_nothing_about_others() -> None:
    counts = count_transitions([cp.Episode([0, 1, 2], [0, 0, 0])] * 5, 4, 2)
    model = estimate_mdp(counts, 0.0, prior=Pooled({1: 2, 2: 2}))
    assert model.row(1, 0).tolist() == model.row(2, 1).tolist() == [0.0, 0.0, 1.0, 0.0]
    assert model.row(0, 1)[2] == 0.0  # only ends lead there
    assert model.row(0, 0)[1] > 0.5


def test_nothing_but_single_steps() -> None:
    model = estimate_mdp(count_transitions([cp.Episode([0], [1])], 3, 2), 0.0, prior="pooled")
    assert model.row(0, 0) == pytest.approx(1 / 3)


def test_mistakes() -> None:
    counts = count_transitions([cp.Episode([0, 1], [0, 0])], 3, 2)
    with pytest.raises(InputError, match="numbers, or 'pooled' to learn it; it is 'poled'"):
        estimate_mdp(counts, 0.0, prior="poled")
    with pytest.raises(InputError, match="unknown state 9"):
        estimate_mdp(counts, 0.0, prior=Pooled({9: 1}))
