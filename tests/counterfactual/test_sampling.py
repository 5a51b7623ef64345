"""Realizations (Algorithm 1) follow the exact distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual import PolicyExplanation
from counterplan.counterfactual.discrete.distributions import draw_states

N = 20_000


def model(seed: int) -> tuple[cp.TabularMDP, cp.Episode]:
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.full(4, 0.5), size=(4, 3))
    mdp = cp.TabularMDP(transitions, rng.integers(0, 4, size=(4, 3)) * 1.0)
    states, actions = [0], rng.integers(3, size=6)
    for action in actions[:-1]:
        states.append(int(rng.choice(4, p=transitions[states[-1], action])))
    return mdp, cp.Episode(states, actions)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("solver", [None, cp.baselines.Random(), cp.baselines.NoisyGreedy()])
def test_samples_agree_with_the_exact_numbers(seed: int, solver: Any) -> None:
    mdp, episode = model(seed)
    found = cp.explain(mdp, episode, 2, solver=solver)
    drawn = found.sample(N, seed=seed)
    # Five standard errors everywhere: passed once in 3.5 million comparisons.
    spread = np.sqrt(found.outcome_variance / N)
    assert abs(drawn.outcomes.mean() - found.outcome_mean) <= 5.0 * spread + 1e-12
    for exact, seen in (
        (found.changes_distribution(), np.bincount(drawn.changes, minlength=7) / N),
        (found.probability_better().value, (drawn.outcomes > found.factual_value).mean()),
        (found.most_likely.probability, share_of(found, drawn)),
    ):
        error = np.sqrt(np.asarray(exact) * (1.0 - np.asarray(exact)) / N)
        assert (np.abs(seen - np.asarray(exact)) <= 5.0 * error + 1.0 / N).all()
    changed = found.change_probabilities()
    for t in range(6):
        for a in range(3):
            if a != episode.actions[t]:
                seen = (drawn.actions[:, t] == a).mean()
                error = np.sqrt(changed[t, a] * (1.0 - changed[t, a]) / N)
                assert abs(seen - changed[t, a]) <= 5.0 * error + 1.0 / N


def share_of(found: PolicyExplanation, drawn: Any) -> float:
    path = found.most_likely
    same = (drawn.states == path.states).all(axis=1) & (drawn.actions == path.actions).all(axis=1)
    return float(same.mean())


def test_realizations_are_consistent() -> None:
    mdp, episode = model(1)
    constraints = cp.Constraints(change_costs={0: 2}, fixed_steps=[2])
    found = cp.explain(mdp, episode, 3, constraints=constraints)
    drawn = found.sample(500, seed=1)
    assert drawn.states.shape == drawn.actions.shape == (500, 6)
    changed = drawn.actions != episode.actions
    assert np.array_equal(drawn.changes, changed.sum(axis=1))
    assert drawn.outcomes == pytest.approx(mdp.rewards[drawn.states, drawn.actions].sum(axis=1))
    assert (drawn.states[:, 0] == episode.states[0]).all()
    assert not changed[:, 2].any()
    costs = np.where(drawn.actions == 0, 2, 1) * changed
    assert (costs.sum(axis=1) <= 3).all()
    used = np.concatenate([np.zeros((500, 1), dtype=int), np.cumsum(costs, axis=1)], axis=1)
    for n in range(20):
        for t in range(6):
            state, spent = int(drawn.states[n, t]), int(used[n, t])
            assert found.policy(t, state, spent) == drawn.actions[n, t]


def test_nothing_changes_before_the_first_change() -> None:
    # As long as the observed actions are kept, the observed states follow for certain.
    mdp, episode = model(2)
    found = cp.explain(mdp, episode, 2, constraints=cp.Constraints(fixed_steps=[0, 1, 2]))
    drawn = found.sample(200, seed=0)
    assert (drawn.states[:, :4] == episode.states[:4]).all()


def test_entries_of_probability_zero_are_never_drawn() -> None:
    # Ten times 0.1 sum to a little less than 1, so the largest uniform number falls behind them.
    shares = np.array([0.1] * 10 + [0.0])
    row_of, position = np.zeros((1, 1), dtype=np.int32), np.zeros(1, dtype=np.int64)
    law = (row_of, position, np.array([0, 11]), np.arange(11, dtype=np.int32), shares)
    place = np.zeros(3, dtype=np.int64)
    drawn = draw_states(place, place, law, np.array([0.0, 0.55, 1.0 - 2.0**-53]))
    assert drawn.tolist() == [0, 5, 9]


def test_reproducible_by_seed_or_generator() -> None:
    mdp, episode = model(0)
    found = cp.explain(mdp, episode, 2)
    one, same = found.sample(100, seed=7), found.sample(100, seed=np.random.default_rng(7))
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one.states, found.sample(100, seed=8).states)
    rng = np.random.default_rng(7)
    first, second = found.sample(100, seed=rng), found.sample(100, seed=rng)
    assert np.array_equal(first.states, one.states)
    assert not np.array_equal(first.states, second.states)
