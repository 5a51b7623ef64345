"""Brute force itself, on problems whose answer is plain."""

from __future__ import annotations

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual import oracle
from counterplan.counterfactual.oracle import best_policy_value, brute_force, row_vertices
from counterplan.errors import NotApplicableError

# State 0 succeeds or fails with equal chance; success was observed. Changing reaches state 2 with
# probability 2/3 (see the kernel's tests), which pays 6.
TRANSITIONS = np.zeros((3, 2, 3))
TRANSITIONS[0, :] = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]]
TRANSITIONS[1:, :] = np.eye(3)[1:, None, :]
MDP = cp.TabularMDP(TRANSITIONS, [[0.0, 0.5], [1.0, 1.25], [6.0, 6.0]])
EPISODE = cp.Episode([0, 1], [0, 0])


@pytest.mark.parametrize("solve", [brute_force, best_policy_value])
def test_by_hand(solve: object) -> None:
    assert callable(solve)
    assert solve(MDP, EPISODE, 0) == 1.0
    # 0.5 for changing the first action, then 6 with probability 2/3 (else 0 for keeping).
    assert solve(MDP, EPISODE, 1) == pytest.approx(0.5 + 4.0, abs=1e-12)
    # After a failure the second change earns 0.5.
    assert solve(MDP, EPISODE, 2) == pytest.approx(0.5 + 4.0 + 0.5 / 3, abs=1e-12)
    fixed = cp.Constraints(fixed_steps=[0])
    assert solve(MDP, EPISODE, 2, fixed) == 1.25
    costly = cp.Constraints(change_costs=[1, 2])
    assert solve(MDP, EPISODE, 1, costly) == 1.0
    assert solve(MDP, EPISODE, 3, costly) == pytest.approx(4.5, abs=1e-12)
    assert solve(MDP, EPISODE, 1, cp.Constraints(forbidden=[(0, 1)])) == 1.25
    assert solve(MDP, EPISODE, 1, cp.Constraints(allowed={1: []})) == pytest.approx(4.5)


def test_policy_value_by_hand() -> None:
    found = cp.explain(MDP, EPISODE, 1)
    assert oracle.policy_value(MDP, found) == pytest.approx(4.5, abs=1e-12)


def test_vertices_by_hand() -> None:
    # p_o = 1/2, q = (1/2, 0, 1/2): caps (1, 0, 1), so the whole segment between two states.
    found = row_vertices(MDP, EPISODE, 0, (0, 1))
    assert sorted({tuple(row.tolist()) for row in found}) == [(0.0, 0.0, 1.0), (1.0, 0.0, 0.0)]
    assert [row.tolist() for row in row_vertices(MDP, EPISODE, 0, (0, 0))] == [[0.0, 1.0, 0.0]]


def test_enumerations_that_would_not_end_are_refused() -> None:
    rng = np.random.default_rng(0)
    mdp = cp.TabularMDP(rng.dirichlet(np.ones(4), size=(4, 4)), np.zeros((4, 4)))
    episode = cp.Episode([0] * 6, [0] * 6)
    with pytest.raises(NotApplicableError, match="too many policies to enumerate"):
        best_policy_value(mdp, episode, 3)
