"""The paper's sampled kernels, kept for comparison."""

from __future__ import annotations

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual import BudgetDP
from counterplan.errors import InputError
from counterplan.testing import random_episode


def problem(seed: int = 0, S: int = 5, A: int = 4, T: int = 5) -> tuple[cp.TabularMDP, cp.Episode]:
    rng = np.random.default_rng(seed)
    mdp = cp.TabularMDP(rng.dirichlet(np.ones(S), size=(S, A)), rng.random((S, 1)) * np.ones(A))
    return mdp, random_episode(rng, mdp, T)


def sampled(mdp: cp.TabularMDP, episode: cp.Episode, k: int, samples: int, seed: int = 0) -> float:
    solver = BudgetDP(samples=samples, seed=seed)
    return float(cp.explain(mdp, episode, k, solver=solver).value)


def test_reproducible() -> None:
    mdp, episode = problem()
    assert sampled(mdp, episode, 2, 50, seed=3) == sampled(mdp, episode, 2, 50, seed=3)
    assert sampled(mdp, episode, 2, 50, seed=3) != sampled(mdp, episode, 2, 50, seed=4)


def test_converges_to_the_exact_value() -> None:
    mdp, episode = problem()
    exact = cp.explain(mdp, episode, 2).value
    errors = [abs(sampled(mdp, episode, 2, n) - exact) for n in (100, 10_000)]
    # Rewards lie in [0, 1]: each of the 4 expectations ahead errs by about 1 / (2 sqrt(n)).
    assert errors[1] <= 4 * 5 * 0.5 / np.sqrt(10_000)
    assert errors[1] < errors[0]


def test_the_optimiser_exploits_the_noise() -> None:
    # The maximum over noisy values is too high on average; one-sided, four standard errors.
    mdp, episode = problem()
    exact = cp.explain(mdp, episode, 3).value
    values = np.array([sampled(mdp, episode, 3, 20, seed=seed) for seed in range(150)])
    error = values.std(ddof=1) / np.sqrt(len(values))
    assert values.mean() - exact > 4.0 * error


def test_what_is_promised_is_kept_under_the_same_noise() -> None:
    mdp, episode = problem(3)
    found = cp.explain(mdp, episode, 3, solver=BudgetDP(samples=30, seed=1))
    assert found.method == "dynamic programming, 30 samples a kernel"
    # The pass forward sees the noise that the pass backward saw.
    assert found.outcome_mean == pytest.approx(found.value, abs=1e-9)
    drawn = found.sample(20_000, seed=0)
    spread = np.sqrt(found.outcome_variance / 20_000)
    assert abs(drawn.outcomes.mean() - found.value) <= 5.0 * spread
    assert found.changes_distribution().sum() == pytest.approx(1.0, abs=1e-12)


def test_no_budget_is_still_certain() -> None:
    mdp, episode = problem(1)
    solver = BudgetDP(samples=5)
    found = cp.explain(mdp, episode, 0, solver=solver)
    assert found.value == found.factual_value
    assert found.outcome_mean == pytest.approx(found.value, abs=1e-12)


def test_barred_states_do_not_make_nan() -> None:
    mdp, episode = problem(2)
    rewards = mdp.rewards.copy()
    rewards[4] = -np.inf
    dense = np.array([[mdp.row(s, a) for a in range(4)] for s in range(5)])
    try:
        found = cp.explain(cp.TabularMDP(dense, rewards), episode, 2, solver=BudgetDP(samples=10))
    except cp.errors.InfeasibleError:
        return
    assert not np.isnan([found.value, found.outcome_mean]).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"samples": 2.5}, "samples must be a whole number, got 2.5"),
        ({"samples": 5, "seed": -1}, "seed must be at least 0, got -1"),
    ],
)
def test_refusals(options: dict[str, int], message: str) -> None:
    mdp, episode = problem()
    with pytest.raises(InputError, match=message):
        cp.explain(mdp, episode, 1, solver=BudgetDP(**options))
