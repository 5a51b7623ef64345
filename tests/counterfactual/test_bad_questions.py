"""Questions that cannot be answered: one clear line, before any work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.errors import InputError, NotApplicableError

MDP = cp.TabularMDP([[[0.5, 0.5], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]]], np.zeros((2, 2)))
EPISODE = cp.Episode([0, 1, 0], [0, 0, 1])


@pytest.mark.parametrize("ask", [cp.explain, cp.robust_explain, cp.frontier])
@pytest.mark.parametrize(
    ("k", "message"),
    [
        (-1, "k must be at least 0, got -1"),
        (1.5, "k must be a whole number, got 1.5: pass an int"),
        (2.0, "k must be a whole number, got 2.0: pass an int"),
        (True, "k must be a whole number, got True: pass an int"),
        (float("nan"), "k must be a whole number, got nan: pass an int"),
        ("2", "k must be a whole number, got '2': pass an int"),
        (10**30, "k must be at most 1099511627776, got 1" + "0" * 30),
    ],
)
def test_budgets(ask: Any, k: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        ask(MDP, EPISODE, k)
    assert str(caught.value) == message


def test_no_budget_is_one_for_every_step() -> None:
    found = cp.explain(MDP, EPISODE, None)
    assert found.k == len(EPISODE)
    assert found.value == cp.explain(MDP, EPISODE, len(EPISODE)).value


@pytest.mark.parametrize("ask", [cp.explain, cp.robust_explain])
@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        ([0, 2, 0], [0, 0, 0], "episode 'p': unknown state 2 at t=1: the model has states 0..1"),
        ([0, 1, 0], [0, 0, 2], "episode 'p': unknown action 2 at t=2: the model has actions 0..1"),
        (
            [1, 0, 0],
            [0, 1, 0],
            "episode 'p': the transition at t=1 (state 0, action 1 -> state 0) has probability "
            "zero in the model, so nothing can be inferred from it; check the data or estimate "
            "the model with a prior",
        ),
    ],
)
def test_episodes_that_do_not_fit(
    ask: Any, states: list[int], actions: list[int], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        ask(MDP, cp.Episode(states, actions, id="p"), 1)
    assert str(caught.value) == message


@pytest.mark.parametrize("ask", [cp.explain, cp.robust_explain, cp.frontier])
def test_what_is_no_episode(ask: Any) -> None:
    with pytest.raises(InputError, match="expected an Episode, got tuple"):
        ask(MDP, ([0], [0]), 1)


def test_what_is_no_episode_without_a_budget() -> None:
    with pytest.raises(InputError, match="expected an Episode, got int"):
        cp.frontier(MDP, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"constraints": {"fixed_steps": [0]}}, "expected Constraints, got dict: Constraints("),
        ({"limits": 60}, "expected Limits, got int: Limits(seconds=...)"),
        ({"solver": "greedy"}, "solver is 'greedy': pass an object such as baselines.Greedy()"),
        ({"solver": cp.baselines.Greedy}, "solver is <class"),
    ],
)
def test_options_of_the_wrong_kind(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        cp.explain(MDP, EPISODE, 1, **options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("solver", [None, cp.baselines.Greedy(), cp.baselines.Random()])
def test_what_is_no_causal_model(solver: Any) -> None:
    with pytest.raises(NotApplicableError, match="ndarray is no discrete causal model: pass a"):
        cp.explain(np.zeros((2, 2, 2)), EPISODE, 1, solver=solver)


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ((3, 0, 0), "policy: t is 3, expected 0..2"),
        ((-1, 0, 0), "policy: t is -1, expected 0..2"),
        ((0, 2, 0), "policy: state is 2, expected 0..1"),
        ((0, 0, 2), "policy: used is 2, expected 0..1"),
        ((0.5, 0, 0), "policy: t is 0.5, expected 0..2"),
    ],
)
def test_places_a_policy_does_not_know(place: Any, message: str) -> None:
    found = cp.explain(MDP, EPISODE, 1)
    for ask in (found.policy, found.action_probabilities):
        with pytest.raises(InputError) as caught:
            ask(*place)
        assert str(caught.value) == message


@pytest.mark.parametrize("n", [0, -1, 2.5])
def test_samples_are_counted_in_whole_numbers(n: Any) -> None:
    with pytest.raises(InputError, match="n must be"):
        cp.explain(MDP, EPISODE, 1).sample(n)


def test_a_policy_too_large_to_keep_is_refused() -> None:
    mdp = cp.TabularMDP(np.ones((1, 2, 1)), np.zeros((1, 2)))
    episode = cp.Episode([0, 0, 0], [0, 0, 0])
    costs = cp.Constraints(change_costs=[1, 10**9])
    with pytest.raises(InputError, match=r"k=3000000000 .* count costs in larger units or lower k"):
        cp.explain(mdp, episode, k=3 * 10**9, constraints=costs)


@pytest.mark.parametrize("name", ["actions", "reward"])
def test_a_discrete_model_has_its_own_actions_and_reward(name: str) -> None:
    options: Any = {"actions": np.eye(2), "reward": cp.LinearReward([1.0])}
    with pytest.raises(InputError, match=f"^{name}= is for continuous states: a discrete model"):
        cp.explain(MDP, EPISODE, 1, **{name: options[name]})
