"""Rewards: their units, and what none can be made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan import LinearReward
from counterplan.core.reward import LogisticReward, SumReward, reward_variance
from counterplan.counterfactual import LipschitzReward
from counterplan.errors import InputError

OFFSET, SPREAD = np.array([60.0, 1.0, -3.0]), np.array([100.0, 0.5, 4.0])


def last_two(states: Any) -> Any:
    return np.abs(states[:, 1]) - 2.0 * states[:, 2]


@pytest.mark.parametrize(
    "reward",
    [
        LinearReward([0.1, -2.0, 3.0], 5.0),
        LipschitzReward(last_two, 3.0),
        LipschitzReward(last_two, [0.0, 1.0, 2.0]),
    ],
)
@pytest.mark.parametrize("fixed", [0, 1])
def test_rescaled_is_the_same_reward_and_states_the_truth(reward: Any, fixed: int) -> None:
    rng = np.random.default_rng(0)
    inner = reward.rescaled(OFFSET, SPREAD, fixed)
    one, other = rng.normal(size=(2, 50, 3))
    other[:, :fixed] = one[:, :fixed]
    before, after = inner(one), inner(other)
    assert before == pytest.approx(reward(one * SPREAD + OFFSET))
    away = other - one
    allowed = away @ inner.gradient(3) + inner.remainder * np.linalg.norm(away, axis=1)
    assert (after - before <= allowed + 1e-9).all()


def test_features_that_stay_do_not_count_for_a_constant() -> None:
    """Age has the largest range of all, but is the same in every state that is compared."""
    reward = LipschitzReward(last_two, 3.0)
    assert reward.rescaled(OFFSET, SPREAD).remainder == 300.0
    assert reward.rescaled(OFFSET, SPREAD, 1).remainder == 12.0
    assert reward.rescaled(OFFSET, SPREAD, 3).remainder == 0.0


def test_a_constant_for_each_feature_keeps_to_its_units() -> None:
    reward = LipschitzReward(last_two, [7.0, 1.0, 2.0])
    assert reward.remainder == pytest.approx(np.sqrt(54.0))
    assert reward.rescaled(OFFSET, SPREAD, 1).remainder == pytest.approx(np.hypot(0.5, 8.0))
    assert reward.rescaled(OFFSET, SPREAD).remainder == pytest.approx(
        np.sqrt(700.0**2 + 0.5**2 + 8.0**2)
    )
    with pytest.raises(InputError, match="has 3 Lipschitz constants, but states have 2 features"):
        reward.gradient(2)


@pytest.mark.parametrize(
    ("weights", "constant", "message"),
    [
        ("ab", 0.0, "a reward needs one weight for each feature: a plain list of numbers"),
        ([["a"]], 0.0, "a reward needs one weight for each feature: a plain list of numbers"),
        (3.0, 0.0, "a reward needs one weight for each feature: a plain list of numbers"),
        ([1.0, np.inf], 0.0, "the reward's weight of feature 1 is inf: expected a number from"),
        ([np.nan, 1.0], 0.0, "the reward's weight of feature 0 is nan: expected a number from"),
        ([1.0, -1e308], 0.0, "the reward's weight of feature 1 is -1e+308: expected a number"),
        ([1.0], "a", "the constant of a reward is 'a': expected a number from -1e+100 to 1e+100"),
        ([1.0], np.nan, "the constant of a reward is nan: expected a number from -1e+100 to"),
        ([1.0], np.inf, "the constant of a reward is inf: expected a number from -1e+100 to"),
    ],
)
def test_linear_rewards_that_are_none(weights: Any, constant: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        LinearReward(weights, constant)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "constant", "message"),
    [
        (last_two, "1", "a Lipschitz constant is '1': expected a number from 0 to 1e+100"),
        (last_two, None, "a Lipschitz constant is None: expected a number from 0 to 1e+100"),
        (last_two, -1.0, "a Lipschitz constant is -1.0: expected a number from 0 to 1e+100"),
        (last_two, np.nan, "a Lipschitz constant is nan: expected a number from 0 to 1e+100"),
        (last_two, np.inf, "a Lipschitz constant is inf: expected a number from 0 to 1e+100"),
        (last_two, [1.0, -2.0], "the reward's Lipschitz constant of feature 1 is -2.0: expected"),
        (last_two, [[1.0]], "a reward needs one Lipschitz constant for each feature: a plain list"),
        (3.0, 1.0, "a Lipschitz reward needs a function from states (n, D) to rewards (n,), got"),
    ],
)
def test_lipschitz_rewards_that_are_none(function: Any, constant: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        LipschitzReward(function, constant)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("is_share", [False, True])
def test_how_well_a_learned_reward_is_known(is_share: bool) -> None:
    """As drawn rewards differ, in whatever units states are given."""
    rng = np.random.default_rng(0)
    root = 1e-3 * rng.standard_normal((4, 4)) / np.append(1.0, SPREAD)[:, None]
    weights = np.array([0.4, 0.01, -0.2, 0.05])

    def reward(drawn: Any, known: Any = None) -> Any:
        linear = LinearReward(drawn[1:], drawn[0], known)
        return LogisticReward(linear, 3.0) if is_share else linear

    one, other = OFFSET + SPREAD * rng.standard_normal((2, 1, 3))
    drawn = weights + rng.standard_normal((20_000, 4)) @ root.T
    expected = np.var([reward(x)(one) - reward(x)(other) for x in drawn])
    known = reward(weights, root @ root.T)
    assert known.variance(one, other) == pytest.approx(expected, rel=0.05)
    scaled = SumReward((known, LinearReward(weights[1:]))).rescaled(OFFSET, SPREAD)
    found = scaled.variance((one - OFFSET) / SPREAD, (other - OFFSET) / SPREAD)
    assert found == pytest.approx(known.variance(one, other), rel=1e-9)
    assert reward_variance(LipschitzReward(last_two, 3.0), one, other) == 0.0


def test_how_well_it_is_known_is_the_same_beside_categories() -> None:
    rng = np.random.default_rng(1)
    root = rng.standard_normal((4, 4))
    reward = LinearReward([0.3, -0.2, 0.05], 0.4, root @ root.T)
    none: Any = np.zeros(1)
    scaling = cp.scm.Scaling(
        OFFSET, SPREAD, none, none + 1.0, np.array([0, 3, 0]), none.astype(int)
    )
    both = np.array([[61.0, 2.0, 3.0], [75.0, 2.0, -4.0]])
    encoded = scaling.encode_states(both)
    found: Any = scaling.encode_reward(reward, 2)
    assert found(encoded) == pytest.approx(reward(both))
    assert found.variance(encoded[:1], encoded[1:]) == pytest.approx(
        reward.variance(both[:1], both[1:]), rel=1e-9
    )
