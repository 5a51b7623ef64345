"""Names of states and actions in place of their numbers, in discrete models that have some."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual.oracle import brute_force
from counterplan.errors import InputError

STATES, ACTIONS = ["good", "worn", "broken"], ["wait", "repair", "replace"]


@pytest.fixture(scope="module")
def mdp() -> cp.TabularMDP:
    rng = np.random.default_rng(5)
    transitions, rewards = rng.dirichlet(np.ones(3), size=(3, 3)), rng.normal(size=(3, 3))
    return cp.TabularMDP(transitions, rewards, state_labels=STATES, action_labels=ACTIONS)


@pytest.fixture(scope="module")
def episode(mdp: cp.TabularMDP) -> cp.Episode:
    states, actions = ["good", "worn", "worn", "broken"], ["wait", "wait", 2, "repair"]
    return mdp.episode(states, actions, id="a")


def test_episodes_by_name(episode: cp.Episode) -> None:
    assert episode == cp.Episode([0, 1, 1, 2], [0, 0, 2, 1], id="a")


def test_rows_by_name(mdp: cp.TabularMDP) -> None:
    assert np.array_equal(mdp.row("worn", "replace"), mdp.row(1, 2))
    assert mdp.probability("worn", "replace", "good") == mdp.row(1, 2)[0]


NAMED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"forbidden": [("worn", "replace"), (0, "repair")]}, {"forbidden": [(1, 2), (0, 1)]}),
    ({"allowed": {0: ["repair"], -1: []}}, {"allowed": {0: [1], 3: []}}),
    ({"change_costs": {"replace": 2, 1: 3}}, {"change_costs": [1, 3, 2]}),
]


@pytest.mark.parametrize(("named", "numbered"), NAMED)
def test_constraints_by_name(
    mdp: cp.TabularMDP, episode: cp.Episode, named: dict[str, Any], numbered: dict[str, Any]
) -> None:
    found = cp.explain(mdp, episode, k=2, constraints=cp.Constraints(**named))
    same = cp.explain(mdp, episode, k=2, constraints=cp.Constraints(**numbered))
    assert found.value == same.value
    best = brute_force(cp.GumbelMaxSCM(mdp), episode, 2, cp.Constraints(**named))
    assert found.value == pytest.approx(best, rel=1e-12)
    assert cp.robust_explain(mdp, episode, 2, constraints=cp.Constraints(**named)).value == (
        cp.robust_explain(mdp, episode, 2, constraints=cp.Constraints(**numbered)).value
    )


def test_policies_and_plans_by_name(mdp: cp.TabularMDP, episode: cp.Episode) -> None:
    found = cp.explain(mdp, episode, k=2)
    for number, name in enumerate(STATES):
        assert found.policy(1, name) == found.policy(1, number, 0)
        assert np.array_equal(
            found.action_probabilities(1, name, 1), found.action_probabilities(1, number, 1)
        )
    plan = cp.replay(mdp, episode, {1: "replace"})
    assert plan.value == cp.replay(mdp, episode, {1: 2}).value
    assert plan.changes == ((1, 0, 2),)


def test_unknown_names_are_answered_with_those_there_are(
    mdp: cp.TabularMDP, episode: cp.Episode
) -> None:
    states = "^unknown state 'wron': the model has states good, worn, broken$"
    actions = "^unknown action 'swap': the model has actions wait, repair, replace$"
    with pytest.raises(InputError, match=states):
        cp.explain(mdp, episode, k=1).policy(0, "wron")
    with pytest.raises(InputError, match=states):
        mdp.episode(["wron"], ["wait"])
    for rules in ({"forbidden": [("good", "swap")]}, {"change_costs": {"swap": 2}}):
        with pytest.raises(InputError, match=actions):
            cp.explain(mdp, episode, k=1, constraints=cp.Constraints(**rules))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=actions):
        cp.replay(mdp, episode, {0: "swap"})
    plain = cp.TabularMDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)))
    with pytest.raises(
        InputError, match=r"^unknown state good: .* states 0\.\.1, which have no labels"
    ):
        plain.row("good", 0)
    with pytest.raises(InputError, match="a model with labels makes an episode of names"):
        cp.Episode(states=["good", "worn"], actions=["wait", "wait"])
