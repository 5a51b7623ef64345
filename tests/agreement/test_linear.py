"""Linear dynamics: the gains of changes add up, so A*, allocation and brute force are one problem.

    s' = M s + B a + u,   R(s) = w . s     =>     outcome = observed + sum_t g_t(a_t)

where g_t(a) is what changing step t to a brings whatever else changes. Taking the k largest of
max_a g_t(a) is Top-K, and the hindsight of an SD-MDP that may spend one unit at k of T steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.counterfactual import oracle
from counterplan.scm import PointSCM

SEEDS = st.integers(0, 2**32 - 1)
TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Linear:
    """One linear problem, for whoever wants to solve it."""

    scm: PointSCM
    episode: cp.Episode
    actions: np.ndarray
    reward: cp.LinearReward
    gains: np.ndarray  # (T-1,) of the best single change of each step, 0 where none helps


def linear_problem(seed: int, horizon: int = 6) -> Linear:
    rng = np.random.default_rng(seed)
    D, d, N = 3, 2, 4
    M, effect = rng.normal(size=(D, D)) / 2, rng.normal(size=(D, d))
    weights, vectors = rng.normal(size=D), rng.normal(size=(N, d))
    scm = cp.AdditiveNoiseSCM(
        lambda s, a: s @ M.T + a @ effect.T, lipschitz=float(np.linalg.norm(M, 2))
    )
    taken = rng.integers(N, size=horizon - 1)
    states = [rng.normal(size=D)]
    for action in taken:
        states.append(M @ states[-1] + effect @ vectors[action] + 0.1 * rng.normal(size=D))
    # What one unit of the state after step t is worth until the end: w (I + M + M^2 + ...).
    gains, worth = np.empty(horizon - 1), np.zeros(D)
    for t in reversed(range(horizon - 1)):
        worth = weights + M.T @ worth
        gains[t] = max(0.0, float(((vectors - vectors[taken[t]]) @ effect.T @ worth).max()))
    episode = cp.Episode(np.array(states), taken)
    return Linear(scm, episode, vectors, cp.LinearReward(weights), gains)


def by_allocation(problem: Linear, k: int) -> float:
    """What hindsight adds: a unit may be spent at each step, k in all, at the step's gain."""
    T = len(problem.gains)
    spending = cp.ExogenousMDP(
        cp.processes.GBM(1.0, 0.0, 1.0, 1.0), [[1.0]], cp.Resource(float(k)), [(0.0, 1.0)] * T
    )
    return cp.hindsight(spending, problem.gains[:, None], method="nested").value


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.integers(0, 5))
def test_search_allocation_and_brute_force_agree(seed: int, k: int) -> None:
    problem = linear_problem(seed)
    asked = {"actions": problem.actions, "reward": problem.reward}
    searched = cp.explain(problem.scm, problem.episode, k, **asked)  # type: ignore[arg-type]
    top_k = cp.explain(
        problem.scm,
        problem.episode,
        k,
        solver=cp.baselines.TopK(),
        **asked,  # type: ignore[arg-type]
    )
    brute = oracle.best_sequence(
        problem.scm, problem.episode, k, actions=problem.actions, reward=problem.reward
    )
    allocated = searched.factual_value + by_allocation(problem, k)
    for value in (top_k.value, brute.value, allocated):
        assert value == pytest.approx(searched.value, rel=TOLERANCE, abs=TOLERANCE)
    assert searched.status == "optimal"


# --- The other way round: the counterfactual world of an SD-MDP as a causal model --------------


class Sold(PointSCM):
    """Prices that no action touches, a stock, and what was just earned:

        (x, d, e) -> (x + u, d - a, x a)

    The noise of the price is all the noise there is.
    """

    def step(self, states: np.ndarray, actions: np.ndarray, noise: np.ndarray) -> np.ndarray:
        price, stock, _ = states.T
        amount = actions[:, 0]
        return np.column_stack([price + noise[:, 0], stock - amount, price * amount])

    def infer(self, states: np.ndarray, actions: np.ndarray, after: np.ndarray) -> np.ndarray:
        return after[:, :1] - states[:, :1]

    def lipschitz(self, noise: np.ndarray) -> np.ndarray:
        """At most one unit is sold: (x, d) -> (x, d, x)."""
        return np.full(len(noise), np.sqrt(2.0))


def market(stock: int, steps: int) -> cp.ExogenousMDP:
    """Up to a unit a day at the day's price."""
    prices = cp.processes.GBM(5.0, 0.0, 1.0, 1.0)
    return cp.ExogenousMDP(prices, [[1.0]], cp.Resource(float(stock)), [(0.0, 1.0)] * steps)


@settings(max_examples=15, deadline=None)
@given(SEEDS, st.integers(0, 5))
def test_a_stock_is_a_budget_of_changes(seed: int, k: int) -> None:
    """Nothing was sold; k changes, each of them one unit. The same number comes from A* through the
    causal model, from hindsight with a stock of k, from the plan of doing nothing explained, and
    from brute force over both."""
    T = 5
    path = np.random.default_rng(seed).uniform(1.0, 9.0, size=(T, 1))
    nothing = np.zeros((T, 1))
    states = np.column_stack([np.append(path, 1.0), np.full(T + 1, 5.0), np.zeros(T + 1)])
    episode = cp.Episode(states, np.zeros(T, dtype=np.int64))
    amounts, earned = np.array([[0.0], [1.0]]), cp.LinearReward([0.0, 0.0, 1.0])
    searched = cp.explain(Sold(), episode, k, actions=amounts, reward=earned)
    values = {
        "top k": float(np.sort(path[:, 0])[T - k :].sum()),
        "hindsight": cp.hindsight(market(k, T), path, method="nested").value,
        "linear program": cp.hindsight(market(k, T), path, method="lp").value,
        "explained": cp.explain(market(T, T), cp.Episode(path, nothing), k).value,
        "every choice": oracle.best_allocation(market(T, T), path, nothing, k).value,
        "every sequence": oracle.best_sequence(
            Sold(), episode, k, actions=amounts, reward=earned
        ).value,
    }
    assert searched.status == "optimal"
    assert values == pytest.approx(dict.fromkeys(values, searched.value), rel=1e-9, abs=1e-9)
