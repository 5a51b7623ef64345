"""Rewards that are equal but for rounding: the earlier step comes first (D5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.planning.allocation import SHORT_LIST, allocate_knapsack, allocate_nested
from counterplan.planning.hindsight import hindsight
from counterplan.planning.processes import MarkovModes
from counterplan.planning.resource import Resource

# Around each kernel's limit between its two ways.
LENGTHS = [5, 64, 65, SHORT_LIST, SHORT_LIST + 1]


def jittered(T: int) -> Any:
    """Ones that differ in their last digits, as sums of probabilities do."""
    return 1.0 + np.random.default_rng(T).integers(-2, 3, T) * np.finfo(float).eps


@pytest.mark.parametrize("T", LENGTHS)
def test_rounding_does_not_break_ties(T: int) -> None:
    rewards, bounds = jittered(T), np.tile([0.0, 4.0], (T, 1))
    assert len(set(rewards)) > 1
    _, ranked = allocate_knapsack(rewards, bounds, (0.0, 10.0))
    prefix = np.tile([0.0, 10.0], (T, 1))
    _, nested = allocate_nested(rewards, bounds, prefix)
    for actions in (ranked[0], nested[0]):
        assert actions[:3].tolist() == [4, 4, 2]
        assert not actions[3:].any()


@pytest.mark.parametrize("T", LENGTHS)
def test_a_huge_penalty_makes_nothing_else_equal(T: int) -> None:
    rewards = np.linspace(1.0, 2.0, T)
    rewards[0] = -1e15
    bounds = np.tile([0.0, 1.0], (T, 1))
    _, ranked = allocate_knapsack(rewards, bounds, (0.0, 1.0))
    _, nested = allocate_nested(rewards, bounds, np.tile([0.0, 1.0], (T, 1)))
    assert ranked[0].argmax() == nested[0].argmax() == T - 1


def test_a_constant_reward_is_taken_first() -> None:
    """A reward of 1 in either mode: the expected rewards are 1 but for rounding."""
    model = ExogenousMDP(
        MarkovModes([[0.5, 0.5], [0.2, 0.8]], 0, indicators=True),
        np.ones((1, 2)),
        Resource(10),
        [(0, 4)] * 5,
    )
    path = model.mean_path()
    path[:, 0] += np.array([0, 2, -1, 1, -2]) * np.finfo(float).eps
    assert len(set((path @ np.ones(2)).tolist())) > 1
    methods: list[Any] = ["knapsack", "nested"]
    for method in methods:
        assert hindsight(model, path, method).actions.ravel().tolist() == [4, 4, 2, 0, 0]
