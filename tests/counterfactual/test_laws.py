"""Laws of the counterfactual process: exact, sampled, and users' own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import counterplan as cp
from counterplan.counterfactual import BudgetDP, oracle
from counterplan.counterfactual.discrete.laws import (
    Law,
    law_of,
    ranks_alone,
    sampled_law,
)
from counterplan.errors import InputError, NotApplicableError
from counterplan.scm.gumbel import MARKS
from counterplan.testing import random_episode, random_transitions

from .models import IndependentSCM, MechanismSCM, QuantileSCM
from .support import Instance, finite_horizon_value, random_instance, walks

# --- Laws of one step: expectations and rows say the same, by any route ---


@dataclass(frozen=True, eq=False)
class Asked:
    """A causal model of a user's own: Gumbel-Max, which nothing knows."""

    scm: cp.GumbelMaxSCM

    @property
    def mdp(self) -> cp.TabularMDP:
        return self.scm.mdp

    def counterfactual_row(self, *asked: int) -> np.ndarray:
        return self.scm.counterfactual_row(*asked)


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
    fused, slow = Law(mdp, episode), law_of(Asked(scm), episode)
    for t in range(2):
        quick = fused.expect(t, np.unique(fused.row_of), values)
        by_row = slow.expect(t, slow.row_of.ravel(), values)
        observed = (int(episode.states[t]), int(episode.actions[t]), int(episode.states[t + 1]))
        for pair in np.ndindex(mdp.row_of.shape):
            row = scm.counterfactual_row(*observed, *pair)
            reached = row > 0.0
            expected = row[reached] @ values[reached]
            assert quick[fused.row_of[pair]] == pytest.approx(expected, abs=1e-12)
            assert by_row[slow.row_of[pair]] == pytest.approx(expected, abs=1e-12)


def test_rows_that_share_no_state_with_the_observed_one_are_the_models_own() -> None:
    # States are marked by their last bits: 0 and MARKS are taken for each other at first.
    S = MARKS + 2
    onward = np.stack([np.arange(S), (np.arange(S) + 1) % S], axis=1)
    matrices = [
        csr_array((np.tile(chances, S), onward.ravel(), 2 * np.arange(S + 1)), shape=(S, S))
        for chances in ((0.25, 0.75), (0.6, 0.4))
    ]
    mdp, values = cp.TabularMDP(matrices, np.zeros((S, 2))), np.arange(2.0 * S).reshape(S, 2)
    law = Law(mdp, cp.Episode([0, 1], [0, 0]))
    for state in (5, MARKS - 1, MARKS, MARKS + 1, 0, 1):
        for action in range(2):
            row = cp.GumbelMaxSCM(mdp).counterfactual_row(0, 0, 1, state, action)
            found = law.expect(0, mdp.row_of[state, [action]], values)[0]
            assert found == pytest.approx(row @ values, rel=1e-12)
            if not row[[0, 1]].any():
                assert row == pytest.approx(mdp.row(state, action), abs=1e-15)


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from(["none", "stable", "monotone"]),
    st.booleans(),
    st.sampled_from([1.0, 1.5]),
)
def test_one_order_of_states_for_all_rows_gives_what_sorting_each_does(
    seed: int, assume: str, highest: bool, gamma: float
) -> None:
    rng = np.random.default_rng(seed)
    S, A = 6 if seed % 4 else 70, 12  # in one word of bits, or in two
    transitions = random_transitions(rng, S, A)
    mdp = cp.TabularMDP(transitions, np.zeros((S, A)))
    sets = None if gamma == 1.0 else cp.RowSets.gamma(mdp, gamma)
    law = Law(mdp, random_episode(rng, mdp, 2), 1.0, assume, highest, sets)
    # Ties, and what must not be reached.
    values = rng.integers(0, 4, size=(S, 2)) * 1.0
    values[0, 0] = -np.inf
    rows = np.unique(law.row_of)
    assert ranks_alone(law.compiled, rows, values, np.arange(S), 2).shape == (2, S)
    one_by_one = np.concatenate([law.expect(0, rows[i : i + 1], values) for i in range(len(rows))])
    assert np.array_equal(law.expect(0, rows, values), one_by_one)


@pytest.mark.parametrize("kind", ["exact", "sampled", "own"])
def test_rows_and_expectations_agree(kind: str) -> None:
    mdp, episode, rng = setting(5)
    laws: dict[str, Any] = {
        "exact": Law(mdp, episode),
        "sampled": sampled_law(mdp, episode, 40, 3),
        "own": law_of(IndependentSCM(mdp), episode),
    }
    law = laws[kind]
    ids = np.unique(law.row_of)[::2].astype(np.int32)
    values = rng.normal(size=(mdp.n_states, 2))
    block, expected = law.rows_at(1, ids), law.expect(1, ids, values)
    for position in range(len(ids)):
        dense = block.dense(position, mdp.n_states)
        assert dense.sum() == pytest.approx(1.0, abs=1e-12)
        assert expected[position] == pytest.approx(dense @ values, abs=1e-12)


@pytest.mark.parametrize("gamma", [None, 1.5])
def test_a_users_own_model_is_doubted_pair_by_pair(gamma: float | None) -> None:
    # Pairs that share a row of the MDP need not share the model's: here all have one row, and the
    # model knows what followed the observed pair.
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)))
    episode, values = cp.Episode([0, 1], [0, 0]), np.array([[0.0], [1.0]])
    sets = None if gamma is None else cp.RowSets.gamma(mdp, gamma)
    law = replace(law_of(IndependentSCM(mdp), episode), doubt=0.2, sets=sets)
    worst = Law(mdp, episode, 1.0, sets=sets).expect(0, np.zeros(1, np.int32), values)[0, 0]
    found = law.expect(0, law.row_of.ravel(), values)[:, 0]
    assert found == pytest.approx(0.2 * worst + 0.8 * np.array([1.0, 0.5, 0.5, 0.5]), abs=1e-12)


def test_sampled_steps_have_noise_of_their_own() -> None:
    mdp = cp.TabularMDP(np.array([[[0.5, 0.5], [0.3, 0.7]]] * 2), np.zeros((2, 2)))
    law = sampled_law(mdp, cp.Episode([0, 0, 0], [0, 0, 0]), 200, 0)
    ids = np.array([1], dtype=np.int32)
    first, again, other = law.rows_at(0, ids), law.rows_at(0, ids), law.rows_at(1, ids)
    assert np.array_equal(first.probabilities, again.probabilities)
    assert not np.array_equal(first.probabilities, other.probabilities)


# --- The paper's sampled kernels, kept for comparison ---


def problem(seed: int = 0, S: int = 5, A: int = 4, T: int = 5) -> tuple[cp.TabularMDP, cp.Episode]:
    rng = np.random.default_rng(seed)
    mdp = cp.TabularMDP(rng.dirichlet(np.ones(S), size=(S, A)), rng.random((S, 1)) * np.ones(A))
    return mdp, random_episode(rng, mdp, T)


def sampled(mdp: cp.TabularMDP, episode: cp.Episode, k: int, samples: int, seed: int = 0) -> float:
    solver = BudgetDP(samples=samples, seed=seed)
    return float(cp.explain(mdp, episode, k, solver=solver).value)


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"samples": 2.5}, "samples must be a whole number, got 2.5"),
        ({"samples": 5, "seed": -1}, "seed must be at least 0, got -1"),
        ({"assume": "bogus"}, "assume is .bogus.: expected one of none"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    mdp, episode = problem()
    with pytest.raises(InputError, match=message):
        cp.explain(mdp, episode, 1, solver=BudgetDP(**options))
    with pytest.raises(NotApplicableError, match="sampled kernels are defined for Gumbel-Max"):
        cp.explain(IndependentSCM(mdp), episode, 1, solver=BudgetDP(samples=10))


# --- A user's own causal model goes through the same solver ---


@pytest.mark.parametrize("kind", [IndependentSCM, QuantileSCM, None])
@given(seed=st.integers(0, 2**32 - 1))
def test_equals_brute_force(kind: Any, seed: int) -> None:
    problem = random_instance(seed, barred=False)
    if kind is None:  # any mechanism
        rng = np.random.default_rng(seed)
        scm = MechanismSCM(rng, (3, 2))
        cp.testing.check_scm(scm, trials=5)
        problem = Instance(scm.mdp, random_episode(rng, scm.mdp, 3), 2)
    else:
        scm = kind(problem.mdp)
    found = cp.explain(scm, problem.episode, problem.k, constraints=problem.constraints)
    best = oracle.brute_force(scm, problem.episode, problem.k, problem.constraints)
    assert found.value == pytest.approx(best, abs=1e-9)
    assert found.outcome_mean == pytest.approx(best, abs=1e-9)
    paths = walks(found, problem, scm)
    assert sum(path.probability * path.outcome for path in paths) == pytest.approx(best, abs=1e-9)


def test_independent_noise_is_plain_planning_away_from_the_episode() -> None:
    # Forced off the observed pair at t = 0, nothing observed matters any more but the pairs of
    # the episode itself, which are forbidden here.
    rng = np.random.default_rng(4)
    P = rng.dirichlet(np.ones(3), size=(3, 3))
    mdp = cp.TabularMDP(P, rng.normal(size=(3, 3)))
    episode = cp.Episode([0, 1, 2], [2, 2, 2])
    found = cp.explain(
        IndependentSCM(mdp),
        episode,
        3,
        constraints=cp.Constraints(forbidden=[(0, 2), (1, 2), (2, 2)]),
    )
    others = cp.TabularMDP(P[:, :2], mdp.rewards[:, :2])
    assert found.value == pytest.approx(finite_horizon_value(others, 0, 3), abs=1e-9)


@dataclass(frozen=True, eq=False)
class ConstantSCM:
    """Gives the same row whatever is asked."""

    mdp: cp.TabularMDP
    row: Any

    def counterfactual_row(self, s_obs: int, a_obs: int, s_next_obs: int, s: int, a: int) -> Any:
        return self.row


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ([1.0, 1.0], "is no distribution: smallest entry 1.0, sum 2;"),
        ([1.5, -0.5], "is no distribution: smallest entry -0.5, sum 1;"),
        ([np.nan, 1.0], "is no distribution: smallest entry nan, sum nan;"),
        ([1.0], "has shape (1,), expected (2,);"),
    ],
)
@pytest.mark.parametrize("solver", [None, cp.baselines.Greedy(), cp.baselines.Random()])
def test_rows_that_are_no_distributions_are_refused(row: Any, problem: str, solver: Any) -> None:
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), np.eye(2))
    with pytest.raises(InputError) as caught:
        cp.explain(ConstantSCM(mdp, row), cp.Episode([0, 1, 0], [0, 1, 0]), 1, solver=solver)
    assert str(caught.value) == (
        "ConstantSCM: the counterfactual row of (state 0, action 0) after (state 1, action 1 -> "
        f"state 0) {problem} check the model with testing.check_scm"
    )


@pytest.mark.parametrize(("S", "k"), [(20, 0), (70, 0), (129, 1)])
def test_rows_that_lead_where_nothing_can_be_reached_are_read_within_bounds(S: int, k: int) -> None:
    """Kept rows of states met earlier lead outside of what the next step can reach."""
    rng = np.random.default_rng(5)
    mdp = cp.TabularMDP(rng.dirichlet(np.ones(S), (S, 3)), rng.normal(size=(S, 3)))
    episode = cp.Episode([0, 1, 1, 0], [0, 1, 0, 2])
    found = cp.robust_explain(mdp, episode, k)
    low, high = cp.value_interval(mdp, episode, found)
    assert low == pytest.approx(found.value, abs=1e-9)
    assert low <= high
