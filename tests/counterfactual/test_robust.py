"""Every causal model that fits: intervals and worst cases against vertices and linear programs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

import counterplan as cp
from counterplan.counterfactual import oracle
from counterplan.counterfactual.discrete.laws import Law
from counterplan.errors import InputError
from counterplan.testing import random_episode, random_transitions

from .models import IndependentSCM, MechanismSCM, QuantileSCM
from .support import (
    close,
    interval_by_vertices,
    random_instance,
    row_vertices,
    tempting_instance,
)

# --- Intervals over causal models, and the policy with the best worst case ---

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=80)
@given(SEEDS, st.sampled_from(["none", "stable", "monotone"]))
def test_interval_equals_trying_every_vertex(seed: int, assume: str) -> None:
    problem = random_instance(seed) if seed % 3 == 0 else tempting_instance(seed)
    found = problem.answer()
    if found is None or len(problem.episode) > 3:
        return
    expected = interval_by_vertices(problem.mdp, found, assume)
    interval = cp.value_interval(problem.mdp, problem.episode, found, assume=assume)
    assert close(interval.low, expected.low, 1e-9)
    assert close(interval.high, expected.high, 1e-9)


@given(SEEDS)
def test_holds_the_gumbel_max_value_and_narrows_with_stability(seed: int) -> None:
    problem = random_instance(seed) if seed % 2 else tempting_instance(seed)
    found = problem.answer()
    if found is None:
        return
    wide = cp.value_interval(problem.mdp, problem.episode, found)
    narrow = cp.value_interval(cp.GumbelMaxSCM(problem.mdp), problem.episode, found, stability=True)
    assert wide.low - 1e-9 <= narrow.low <= found.value + 1e-9
    assert found.value - 1e-9 <= narrow.high <= wide.high + 1e-9


@given(SEEDS)
def test_holds_the_value_under_other_causal_models(seed: int) -> None:
    problem = tempting_instance(seed)
    found = problem.answer()
    assert found is not None
    interval = cp.value_interval(problem.mdp, problem.episode, found)
    for scm in (IndependentSCM(problem.mdp), QuantileSCM(problem.mdp)):
        value = oracle.policy_value(scm, found)
        assert interval.low - 1e-9 <= value <= interval.high + 1e-9


@pytest.mark.parametrize("seed", range(40))
def test_holds_the_value_under_any_shared_mechanism(seed: int) -> None:
    # Here one mechanism serves all histories; the interval lets it depend on the budget left.
    rng = np.random.default_rng(seed)
    scm = MechanismSCM(rng, (3, 2))
    episode = random_episode(rng, scm.mdp, 4)
    found = cp.explain(scm.mdp, episode, 2)
    interval = cp.value_interval(scm.mdp, episode, found)
    assert interval.low - 1e-9 <= oracle.policy_value(scm, found) <= interval.high + 1e-9
    best = cp.robust_explain(scm.mdp, episode, 2)
    assert oracle.policy_value(scm, best) >= best.value - 1e-9


@settings(max_examples=40)
@given(SEEDS, st.booleans())
def test_robust_explanation_has_the_best_worst_case(seed: int, stability: bool) -> None:
    problem = tempting_instance(seed, n_states=2)
    mdp, episode, k = problem.mdp, problem.episode, problem.k
    best = best_worst_case(mdp, episode, k, stability)
    found = cp.robust_explain(mdp, episode, k, assume="stable" if stability else "none")
    assert found.value == pytest.approx(best, abs=1e-9)
    # The policy itself reaches it.
    low = cp.value_interval(mdp, episode, found, stability).low
    assert low == pytest.approx(best, abs=1e-9)
    # It can do no better in the worst case than the optimum does on average.
    assert found.value <= cp.explain(mdp, episode, k).value + 1e-9
    assert found.outcome_mean >= found.value - 1e-9
    assert found.status == "optimal"
    assert found.method == "dynamic programming over every causal model"


def best_worst_case(mdp: cp.TabularMDP, episode: cp.Episode, k: int, stability: bool) -> float:
    """The maximum over all policies of their lowest value over all rows, by listing both."""
    T = len(episode)
    nodes = [(t, s, left) for t in range(T) for s in range(mdp.n_states) for left in range(k + 1)]
    options = [
        [int(episode.actions[t])]
        if left == 0
        else [int(episode.actions[t]), 1 - int(episode.actions[t])]
        for t, _, left in nodes
    ]

    def worst(policy: dict[tuple[int, int, int], int], node: tuple[int, int, int]) -> float:
        t, state, left = node
        action = policy[node]
        reward = float(mdp.rewards[state, action])
        if t == T - 1:
            return reward
        left -= action != episode.actions[t]
        ahead = [worst(policy, (t + 1, s, left)) for s in range(mdp.n_states)]
        assume = "stable" if stability else "none"
        vertices = row_vertices(mdp, episode, t, (state, action), assume)
        return reward + min(float(row @ ahead) for row in vertices)

    root = (0, int(episode.states[0]), k)
    policies = (dict(zip(nodes, choice, strict=True)) for choice in itertools.product(*options))
    return max(worst(policy, root) for policy in policies)


def test_a_certain_observation_leaves_no_doubt() -> None:
    # With p_o = 1 every causal model must give back q itself.
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.ones(3), size=(3, 2))
    transitions[:, 0] = np.roll(np.eye(3), 1, axis=1)
    mdp = cp.TabularMDP(transitions, rng.normal(size=(3, 2)))
    episode = cp.Episode([0, 1, 2], [0, 0, 0])
    found = cp.explain(mdp, episode, 2)
    interval = cp.value_interval(mdp, episode, found)
    assert interval.width == pytest.approx(0.0, abs=1e-12)
    assert interval.low == pytest.approx(found.value, abs=1e-12)
    assert cp.robust_explain(mdp, episode, 2).value == pytest.approx(found.value, abs=1e-12)


def test_keeping_everything_is_certain_under_every_model() -> None:
    problem = random_instance(8, barred=False)
    found = cp.explain(problem.mdp, problem.episode, 0)
    interval = cp.value_interval(problem.mdp, problem.episode, found)
    assert interval == (found.value, found.value)
    assert cp.robust_explain(problem.mdp, problem.episode, 0).value == found.factual_value


def test_the_robust_choice_can_differ_from_the_expected_one() -> None:
    # Changing is better on average under Gumbel-Max (4 against 2), but a model in which the noise
    # of both actions is opposite makes it worthless.
    transitions = np.zeros((3, 2, 3))
    transitions[0, :] = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
    transitions[1:, :] = np.eye(3)[1:, None, :]
    mdp = cp.TabularMDP(transitions, [[0.0, 0.0], [2.0, 2.0], [6.0, 6.0]])
    episode = cp.Episode([0, 1], [0, 0])
    found = cp.explain(mdp, episode, 1)
    assert cp.value_interval(mdp, episode, found) == pytest.approx((0.0, 6.0), abs=1e-12)
    robust = cp.robust_explain(mdp, episode, 1)
    assert robust.changes == ()
    assert robust.value == robust.outcome_mean == 2.0


@settings(max_examples=40)
@given(SEEDS)
def test_constraints_bind_robust_explanations(seed: int) -> None:
    problem = random_instance(seed, barred=False)
    ask = (problem.mdp, problem.episode, problem.k)
    found = cp.robust_explain(*ask, constraints=problem.constraints)
    assert found.value <= problem.explain().value + 1e-9
    # Costs are at least 1 and everything else only takes away.
    assert found.value <= cp.robust_explain(*ask).value + 1e-9
    drawn, rules = found.sample(30), problem.rules
    changed = drawn.actions != problem.episode.actions
    steps = np.broadcast_to(np.arange(len(problem.episode)), changed.shape)
    assert rules.alternatives[steps, drawn.actions][changed].all()
    assert ((rules.costs[drawn.actions] * changed).sum(axis=1) <= problem.k).all()


def test_refusals() -> None:
    mdp = cp.TabularMDP(np.full((3, 3, 3), 1 / 3), np.zeros((3, 3)))
    episode, other = cp.Episode([0, 1, 2], [0, 1, 2]), cp.Episode([0, 1, 2], [1, 2, 0])
    found = cp.explain(mdp, episode, 1)
    for asked, message in (
        ((3, episode, found), "expected a TabularMDP, got int"),
        ((mdp, episode, "best"), "needs the explanation of a discrete problem"),
        ((mdp, cp.Episode([0, 1], [0, 1]), found), "the explanation belongs to another problem"),
        ((mdp, other, found), "belongs to another episode than the episode: pass"),
    ):
        with pytest.raises(InputError, match=message):
            cp.value_interval(*asked)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected a TabularMDP, got str"):
        cp.robust_explain("model", episode, 1)  # type: ignore[arg-type]


# --- The set of counterfactual rows that causal models allow, against all couplings of p and q ---


def question(seed: int, size: int = 3) -> tuple[cp.TabularMDP, cp.Episode, np.ndarray]:
    rng = np.random.default_rng(seed)
    mdp = cp.TabularMDP(random_transitions(rng, size, 2), np.zeros((size, 2)))
    o = int(rng.choice(np.flatnonzero(mdp.row(0, 0))))
    return mdp, cp.Episode([0, o], [0, 0]), rng.normal(size=size)


def extremes(
    mdp: cp.TabularMDP, episode: cp.Episode, values: np.ndarray, stability: bool = False
) -> tuple[float, float]:
    """Lowest and highest expectation of values after (0, 1)."""
    ids, assume = np.unique(mdp.row_of), "stable" if stability else "none"
    low, high = (
        Law(mdp, episode, 1.0, assume, highest).expect(0, ids, values[:, None])
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


@settings(max_examples=120)
@given(SEEDS, st.booleans())
def test_filling_up_to_the_caps_equals_the_extreme_coupling(seed: int, stability: bool) -> None:
    """Stability rules out what may not follow the observed outcome."""
    mdp, episode, values = question(seed)
    o = int(episode.states[1])
    out = stays_out(mdp.row(0, 0), mdp.row(0, 1), o) if stability else []
    expected = couplings(mdp, o, values, [(o, i) for i in out])
    assert extremes(mdp, episode, values, stability) == pytest.approx(expected, abs=1e-9)


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
