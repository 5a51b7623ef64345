"""A user's own causal model goes through the same solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import counterplan as cp
from counterplan.counterfactual import BudgetDP, oracle
from counterplan.errors import InputError, NotApplicableError
from counterplan.testing import random_episode

from .models import IndependentSCM, MechanismSCM, QuantileSCM
from .support import finite_horizon_value, random_instance, walks


@pytest.mark.parametrize("kind", [IndependentSCM, QuantileSCM])
@given(seed=st.integers(0, 2**32 - 1))
def test_equals_brute_force(kind: Any, seed: int) -> None:
    problem = random_instance(seed, barred=False)
    scm = kind(problem.mdp)
    found = cp.explain(scm, problem.episode, problem.k, constraints=problem.constraints)
    best = oracle.brute_force(scm, problem.episode, problem.k, problem.constraints)
    assert found.value == pytest.approx(best, abs=1e-9)
    assert found.outcome_mean == pytest.approx(best, abs=1e-9)
    paths = walks(found, problem, scm)
    assert sum(path.probability * path.outcome for path in paths) == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_any_mechanism_can_be_explained(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scm = MechanismSCM(rng, (3, 2))
    cp.testing.check_scm(scm)
    episode = random_episode(rng, scm.mdp, 3)
    found = cp.explain(scm, episode, 2)
    assert found.value == pytest.approx(oracle.brute_force(scm, episode, 2), abs=1e-9)


def test_models_of_one_mdp_disagree() -> None:
    # The same question as in the Gumbel-Max model: what happened decides how much a change gains.
    transitions = np.zeros((3, 2, 3))
    transitions[0, :] = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
    transitions[1:, :] = np.eye(3)[1:, None, :]
    mdp = cp.TabularMDP(transitions, [[0.0, 0.0], [1.0, 1.0], [6.0, 6.0]])
    episode = cp.Episode([0, 1], [0, 0])
    values = [
        cp.explain(kind(mdp), episode, 1).value
        for kind in (IndependentSCM, cp.GumbelMaxSCM, QuantileSCM)
    ]
    assert values == pytest.approx([3.0, 4.0, 6.0], abs=1e-12)


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


def test_sampled_kernels_are_refused() -> None:
    problem = random_instance(0)
    with pytest.raises(NotApplicableError, match="sampled kernels are defined for Gumbel-Max"):
        cp.explain(
            IndependentSCM(problem.mdp),
            problem.episode,
            1,
            solver=BudgetDP(samples=10),
        )


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


def test_rows_may_be_plain_lists() -> None:
    mdp = cp.TabularMDP(np.full((2, 2, 2), 0.5), np.eye(2))
    episode = cp.Episode([0, 1], [0, 0])
    found = cp.explain(ConstantSCM(mdp, [0.25, 0.75]), episode, 1, solver=cp.baselines.Random())
    assert found.outcome_mean == pytest.approx(found.value, abs=1e-12)
