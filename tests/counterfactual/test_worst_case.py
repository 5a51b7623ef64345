"""The set of counterfactual rows that causal models allow, against all couplings of p and q."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import counterplan as cp
from counterplan.counterfactual.discrete.laws import ExtremeLaw
from counterplan.testing import random_transitions

from .models import MechanismSCM

SEEDS = st.integers(0, 2**32 - 1)


def question(seed: int, size: int = 3) -> tuple[cp.TabularMDP, cp.Episode, np.ndarray]:
    rng = np.random.default_rng(seed)
    mdp = cp.TabularMDP(random_transitions(rng, size, 2), np.zeros((size, 2)))
    o = int(rng.choice(np.flatnonzero(mdp.row(0, 0))))
    return mdp, cp.Episode([0, o], [0, 0]), rng.normal(size=size)


def extremes(
    mdp: cp.TabularMDP, episode: cp.Episode, values: np.ndarray, stability: bool = False
) -> tuple[float, float]:
    """Lowest and highest expectation of values after (0, 1)."""
    ids = np.unique(mdp.row_of)
    low, high = (
        ExtremeLaw(mdp, episode, stability, highest).expect(0, ids, values[:, None])
        for highest in (False, True)
    )
    return float(low[mdp.row_of[0, 1], 0]), float(high[mdp.row_of[0, 1], 0])


def stays_out(p: np.ndarray, q: np.ndarray, o: int) -> list[int]:
    """States that stability rules out after an observed o."""
    return [i for i in range(len(p)) if i != o and q[o] * p[i] >= q[i] * p[o]]


def couplings(
    mdp: cp.TabularMDP, o: int, values: np.ndarray, barred: list[tuple[int, int]]
) -> tuple[float, float]:
    """Lowest and highest sum_i values_i joint[o, i] / p_o over all joint laws of the factual and
    the counterfactual outcome with the given marginals, by linear programming."""
    p, q = mdp.row(0, 0), mdp.row(0, 1)
    n = len(p)
    marginals = np.concatenate([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    bounds = [(0.0, 0.0 if divmod(cell, n) in barred else 1.0) for cell in range(n * n)]
    cost = np.zeros((n, n))
    cost[o] = values / p[o]
    found = [
        linprog(
            sign * cost.ravel(),
            A_eq=marginals,
            b_eq=np.concatenate([p, q]),
            bounds=bounds,
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        for sign in (1.0, -1.0)
    ]
    assert all(result.success for result in found)
    return float(found[0].fun), float(-found[1].fun)


@settings(max_examples=60)
@given(SEEDS)
def test_filling_up_to_the_caps_equals_the_extreme_coupling(seed: int) -> None:
    mdp, episode, values = question(seed)
    expected = couplings(mdp, int(episode.states[1]), values, [])
    assert extremes(mdp, episode, values) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60)
@given(SEEDS)
def test_stability_rules_out_what_follows_the_observed_outcome(seed: int) -> None:
    mdp, episode, values = question(seed)
    o = int(episode.states[1])
    barred = [(o, i) for i in stays_out(mdp.row(0, 0), mdp.row(0, 1), o)]
    expected = couplings(mdp, o, values, barred)
    found = extremes(mdp, episode, values, stability=True)
    assert found == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60)
@given(SEEDS)
def test_models_that_are_stable_throughout_lie_inside(seed: int) -> None:
    # Stability after *every* outcome ties the rows together and may allow less: the interval is
    # then an outer one.
    mdp, episode, values = question(seed)
    p, q = mdp.row(0, 0), mdp.row(0, 1)
    barred = [(int(o), i) for o in np.flatnonzero(p) for i in stays_out(p, q, int(o))]
    low, high = couplings(mdp, int(episode.states[1]), values, barred)
    found = extremes(mdp, episode, values, stability=True)
    assert found[0] <= low + 1e-9
    assert found[1] >= high - 1e-9


@given(SEEDS, st.integers(1, 6))
def test_the_gumbel_max_row_is_one_of_them(seed: int, size: int) -> None:
    mdp, episode, values = question(seed, size)
    row = cp.GumbelMaxSCM(mdp).counterfactual_row(0, 0, int(episode.states[1]), 0, 1)
    wide, narrow = extremes(mdp, episode, values), extremes(mdp, episode, values, stability=True)
    assert wide[0] - 1e-12 <= narrow[0] <= row @ values + 1e-12
    assert row @ values - 1e-12 <= narrow[1] <= wide[1] + 1e-12


@pytest.mark.parametrize("seed", range(50))
def test_any_mechanism_lies_inside(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scm = MechanismSCM(rng, (4, 2))
    values = rng.normal(size=4)
    for o in np.flatnonzero(scm.mdp.row(0, 0)).tolist():
        low, high = extremes(scm.mdp, cp.Episode([0, o], [0, 0]), values)
        expected = scm.counterfactual_row(0, 0, o, 0, 1) @ values
        assert low - 1e-9 <= expected <= high + 1e-9


def test_by_hand() -> None:
    # p_o = 1/2: state i can take min(1, 2 q_i), so (0.4, 1.0, 0.6) here. Values 1, 2, 3.
    rows = np.array([[0.5, 0.5, 0.0], [0.2, 0.5, 0.3]])
    mdp = cp.TabularMDP(np.broadcast_to(rows, (3, 2, 3)), np.zeros((3, 2)))
    episode, values = cp.Episode([0, 0], [0, 0]), np.array([1.0, 2.0, 3.0])
    assert extremes(mdp, episode, values) == pytest.approx((1.6, 2.6), abs=1e-12)
    # Stable: q_o / p_o = 0.4, state 1 gained (1.0), state 2 is new: nothing is ruled out.
    assert extremes(mdp, episode, values, True) == pytest.approx((1.6, 2.6), abs=1e-12)
    # Had state 1 been observed, its ratio 1.0 would rule out state 0 (0.4), and state 0 only.
    episode = cp.Episode([0, 1], [0, 0])
    assert extremes(mdp, episode, values) == pytest.approx((1.6, 2.6), abs=1e-12)
    assert extremes(mdp, episode, values, True) == pytest.approx((2.0, 2.6), abs=1e-12)
