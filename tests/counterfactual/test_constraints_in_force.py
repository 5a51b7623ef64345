"""Each constraint by itself, on problems small enough to see the answer."""

from __future__ import annotations

import numpy as np
import pytest

import counterplan as cp
from counterplan.errors import InfeasibleError

# One state; action a earns a: without constraints every step is changed to action 3.
REWARDS = [[0.0, 1.0, 2.0, 3.0]]
MDP = cp.TabularMDP(np.ones((1, 4, 1)), REWARDS)
EPISODE = cp.Episode([0, 0, 0], [0, 0, 0])


def actions(k: int, mdp: cp.TabularMDP = MDP, **given: object) -> list[int]:
    constraints = cp.Constraints(**given)  # type: ignore[arg-type]
    found = cp.explain(mdp, EPISODE, k, constraints=constraints)
    assert found.value == sum(found.most_likely.actions)
    return found.most_likely.actions.tolist()


def test_unconstrained() -> None:
    assert actions(3) == [3, 3, 3]


def test_allowed_everywhere() -> None:
    assert actions(3, allowed=[True, True, True, False]) == [2, 2, 2]


def test_allowed_step_by_step() -> None:
    assert actions(3, allowed={0: [1], 2: []}) == [1, 3, 0]


def test_fixed_steps() -> None:
    assert actions(3, fixed_steps=[0, -1]) == [0, 3, 0]


def test_forbidden_pairs() -> None:
    assert actions(3, forbidden=[(0, 3)]) == [2, 2, 2]


def test_keeping_what_is_forbidden_is_not_possible() -> None:
    assert actions(3, forbidden=[(0, 0), (0, 2), (0, 3)]) == [1, 1, 1]
    with pytest.raises(InfeasibleError) as caught:
        actions(2, forbidden=[(0, 0)])
    assert str(caught.value) == (
        "the episode: no policy with k=2 avoids a barred pair; the observed (state 0, action 0) "
        "at t=0 is forbidden: raise k, or free the step"
    )


def test_a_step_that_is_fixed_on_a_forbidden_pair_is_infeasible() -> None:
    with pytest.raises(InfeasibleError, match="no policy with k=3 avoids a barred pair"):
        actions(3, forbidden=[(0, 0)], fixed_steps=[1])


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (0, [0, 0, 0]),
        (1, 2),  # one change to 2 for one unit
        (2, 4),  # two of them beat one change to 3 for two units
        (3, 6),
        (4, 7),
        (6, 9),
        (100, 9),
    ],
)
def test_change_costs_are_paid_from_the_budget(k: int, expected: int | list[int]) -> None:
    found = actions(k, change_costs={3: 2})
    assert sum(found) == (expected if isinstance(expected, int) else sum(expected))


def test_costs_are_not_charged_for_keeping() -> None:
    mdp = cp.TabularMDP(np.ones((1, 2, 1)), [[0.0, 1.0]])
    episode = cp.Episode([0, 0], [1, 0])
    found = cp.explain(mdp, episode, 1, constraints=cp.Constraints(change_costs={1: 1, 0: 5}))
    assert found.most_likely.actions.tolist() == [1, 1]


def test_admissible_actions_bind_alternatives_but_not_what_was_done() -> None:
    mdp = cp.TabularMDP(np.ones((1, 4, 1)), REWARDS, admissible=[[False, True, True, False]])
    assert actions(3, mdp) == [2, 2, 2]
    assert actions(1, mdp) in ([2, 0, 0], [0, 2, 0], [0, 0, 2])
    assert actions(0, mdp) == [0, 0, 0]


def test_infeasible_because_of_the_model_itself() -> None:
    mdp = cp.TabularMDP(np.ones((1, 2, 1)), [[-np.inf, -np.inf]])
    with pytest.raises(InfeasibleError, match="at t=0 is of reward -inf: raise k"):
        cp.explain(mdp, cp.Episode([0], [0]), 1)


def test_a_frontier_is_feasible_if_its_largest_budget_is() -> None:
    constraints = cp.Constraints(forbidden=[(0, 0)])
    front = cp.frontier(MDP, EPISODE, constraints=constraints)
    assert front.values == (-np.inf, -np.inf, -np.inf, 9.0)
    assert front[0].factual_value == 0.0
    assert front.smallest_k(0.0) == 3
