"""All budgets at once."""

from __future__ import annotations

import math

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual import Frontier
from counterplan.errors import InputError

# Every change gains 1, to action 2 it gains 1.5 for two units.
MDP = cp.TabularMDP(np.ones((1, 3, 1)), [[0.0, 1.0, 1.5]])
EPISODE = cp.Episode([0, 0, 0], [0, 0, 0])


def front(k_max: int | None = None, **given: object) -> Frontier:
    return cp.frontier(MDP, EPISODE, k_max, constraints=cp.Constraints(**given))  # type: ignore[arg-type]


def test_reaches_to_the_length_of_the_episode_by_default() -> None:
    assert front().values == (0.0, 1.5, 3.0, 4.5)
    assert len(front()) == 4


def test_is_a_sequence_of_explanations() -> None:
    found = front(2)
    assert [explanation.k for explanation in found] == [0, 1, 2]
    assert found[-1] is found[2]
    assert [explanation.k for explanation in found[1:]] == [1, 2]
    with pytest.raises(IndexError):
        found[3]


def test_equals_single_explanations() -> None:
    found = front(5, change_costs={2: 2})
    for k in range(6):
        alone = cp.explain(MDP, EPISODE, k, constraints=cp.Constraints(change_costs={2: 2}))
        assert found[k].value == alone.value
        assert found[k].changes_distribution() == pytest.approx(alone.changes_distribution())
        assert [found[k].policy(t, 0, u) for t in range(3) for u in range(k + 1)] == [
            alone.policy(t, 0, u) for t in range(3) for u in range(k + 1)
        ]


def test_costs_above_one_need_more_than_the_episode_is_long() -> None:
    assert front(7, change_costs={2: 2}).values == (0.0, 1.0, 2.0, 3.0, 3.5, 4.0, 4.5, 4.5)


def test_smallest_budget_for_an_outcome() -> None:
    found = front()
    assert found.smallest_k(-5.0) == 0
    assert found.smallest_k(-math.inf) == 0
    assert found.smallest_k(1.0) == 1
    assert found.smallest_k(1.5) == 1
    assert found.smallest_k(1.6) == 2
    assert found.smallest_k(4.5) == 3
    assert found.smallest_k(4.6) is None
    assert found.smallest_k(math.inf) is None
    with pytest.raises(InputError, match="must be a number, got nan"):
        found.smallest_k(math.nan)


def test_an_outcome_missed_by_rounding_is_reached() -> None:
    mdp = cp.TabularMDP(np.ones((1, 2, 1)), [[0.0, 0.1]])
    found = cp.frontier(mdp, cp.Episode([0] * 10, [0] * 10))
    assert found[8].value != 0.8
    assert found.smallest_k(0.8) == 8
    assert found.smallest_k(0.8 + 1e-9) == 9
