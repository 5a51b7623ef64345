"""Classical policies on models with and without shortcuts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridVehicle
from counterplan.errors import NotApplicableError
from counterplan.planning import policies
from counterplan.planning.model import State
from counterplan.planning.policies import Policy, follow

from .small_models import Plain

ALL = [policies.OpenLoop(), policies.Resolve(), policies.Greedy(), policies.Optimal()]


@pytest.mark.parametrize("policy", ALL, ids=lambda policy: policy.name)
@pytest.mark.parametrize("problem", [Bunkering("B"), HybridVehicle("C")])
def test_between_hindsight_and_nothing(policy: Policy, problem: Bunkering | HybridVehicle) -> None:
    """Every policy is feasible (`step` refuses what is not) and hindsight is better."""
    assert isinstance(policy, Policy)
    paths = problem.sample_paths(40, seed=1)
    earned = follow(problem, policy.prepare(problem), paths)
    hindsight = problem.allocate(paths).values
    sign = 1 if problem.sense == "max" else -1
    assert (sign * (hindsight - earned) >= -1e-6).all()


@pytest.mark.parametrize("policy", [policies.OpenLoop(), policies.Resolve()])
def test_shortcuts_change_nothing(policy: Policy) -> None:
    """Against bunkering without `feasible` and `replan`."""
    problem = Bunkering("A")
    plain: Any = Plain(problem, "feasible", "replan")
    paths = problem.sample_paths(25, seed=2)
    fast = follow(problem, policy.prepare(problem), paths)
    slow = follow(plain, policy.prepare(plain), paths)
    assert np.allclose(fast, slow)


def test_open_loop_from_a_later_state() -> None:
    problem = Bunkering("A")
    state = State(2, np.array([400.0]), np.array([5.0]))
    rule = policies.OpenLoop().prepare(problem, state=state)
    paths = problem.sample_paths(30, seed=3, state=state)
    costs = follow(problem, rule, paths, state)
    plan = problem.allocate(problem.mean_path(state)[None], state).actions[0, :, 0]
    assert np.allclose(costs, paths[:, :, 0] @ plan)


def test_greedy_takes_the_first_of_equals() -> None:
    problem = HybridVehicle("E", 7, "half")
    x, d = np.eye(7)[[0, 2, 5, 6]], np.full((4, 2), 36.0)
    actions = policies.Greedy().prepare(problem)(0, x, d)
    assert actions.tolist() == [[6, 0], [6, 0], [0, 6], [0, 0]]


def test_the_public_policies_and_nothing_else() -> None:
    import counterplan

    shown = dir(counterplan.policies)
    named = ["Cuts", "Greedy", "LeastSquares", "OnLattice", "OpenLoop", "Optimal", "Resolve"]
    assert shown == named
    assert shown == counterplan.policies.__all__
    for name in shown:
        assert isinstance(getattr(counterplan.policies, name)(), Policy)
    assert not hasattr(counterplan.policies, "Best")


def test_says_what_is_missing() -> None:
    class Bare:
        horizon, sense = 1, "max"
        start = State(0, np.zeros(1), np.zeros(1))

    for policy in (policies.OpenLoop(), policies.Resolve()):
        with pytest.raises(NotApplicableError, match="Bare has no mean_path"):
            policy.prepare(Bare())  # type: ignore[arg-type]
