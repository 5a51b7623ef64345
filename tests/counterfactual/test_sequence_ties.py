"""Rounding is no reason for a change: ties keep what was done, or change less."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.counterfactual import NoBound, oracle
from counterplan.counterfactual.continuous.setting import prepare_sequence

from .sequence_support import Floats, Loosened, explain, random_question

STATES = np.random.default_rng(0).normal(size=(5, 2))
EXACT = {
    "search": cp.AStar(),
    "textbook": cp.AStar(batch=1, incumbent=False, rollout=False),
    "no greedy start": cp.AStar(incumbent=False),
    "anchors": cp.AStar(cp.AnchorHeuristic(samples=20)),
    "no bound": cp.AStar(NoBound()),
    "everything": oracle.Exhaustive(),
}


def ask(location: Any, k: int, solver: Any, states: Floats = STATES, **asked: Any) -> Any:
    scm = cp.AdditiveNoiseSCM(location, lipschitz=0.9 * (1.0 + 1e-12))
    question = {"actions": np.eye(2), "reward": cp.LinearReward([1.0, 1.0]), **asked}
    return cp.explain(scm, cp.Episode(states, [0] * 4), k, solver=solver, **question)


def either(states: Floats, actions: Floats) -> Floats:
    """Whatever feature a dose goes into, it is worth the same."""
    return 0.9 * states + actions


@pytest.mark.parametrize("solver", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e6])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_equivalent_actions_are_never_exchanged(solver: Any, unit: float, shift: float) -> None:
    """Also where large terms cancel, and in any unit of the outcome."""
    reward = cp.LinearReward([unit, unit], -2.0 * shift * unit)
    found = ask(either, 4, solver, reward=reward, states=STATES + shift)
    assert abs(found.value) < 10.0 * unit
    assert found.changes == ()
    assert len(set(found.history[:, 1])) <= 1, "nor in passing"
    assert found.improvement == 0.0
    assert (found.status, found.gap) == ("optimal", 0.0)


@pytest.mark.parametrize("solver", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize(("since", "k"), [(1, 4), (2, 3), (2, 4), (3, 2), (3, 3), (3, 4)])
def test_no_change_comes_along_that_brings_nothing(solver: Any, since: int, k: int) -> None:
    """Only later on does the other action count for more: the budget is not spent, not even where
    changes are tried before what was done."""

    class Late(cp.AdditiveNoiseSCM):
        def step(self, states: Floats, actions: Floats, noise: Floats) -> Floats:
            counts = np.where(noise[:, 2:] > 0.5, 1.0, 0.0)
            moved = 0.9 * states[:, :1] + (actions[:, :1] + (1.0 + counts) * actions[:, 1:])
            return np.concatenate([moved + noise[:, :1], states[:, 1:] + noise[:, 1:2]], axis=1)

        def infer(self, states: Floats, actions: Floats, after: Floats) -> Floats:
            clock = (states[:, 1:] >= since).astype(float)
            blank = np.concatenate([np.zeros((len(states), 2)), clock], axis=1)
            return np.concatenate([after - self.step(states, actions, blank), clock], axis=1)

    states = np.column_stack([STATES[:, 0], np.arange(5.0)])
    scm = Late(either, lipschitz=1.0)
    found = cp.explain(
        scm,
        cp.Episode(states, [1] * 4),
        k,
        actions=np.eye(2)[::-1],
        reward=cp.LinearReward([1.0, 0.0]),
        solver=solver,
    )
    assert [change.t for change in found.changes] == list(range(since, 4))
    assert (found.status, found.gap) == ("optimal", 0.0)


@pytest.mark.parametrize("solver", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e6])
def test_a_small_gain_that_is_none_of_rounding_is_taken(solver: Any, unit: float) -> None:
    reward = cp.LinearReward([unit, unit * (1.0 + 1e-9)])
    found = ask(either, 4, solver, reward=reward)
    assert len(found.changes) == 4
    assert 0.0 < found.improvement < 2e-8 * unit


def test_top_k_leaves_ties_alone() -> None:
    assert ask(either, 4, cp.baselines.TopK()).changes == ()
    assert ask(either, 4, cp.baselines.Greedy()).changes == ()


def test_simplified_drops_what_brings_nothing_and_nothing_else() -> None:
    problem = random_question("neural", 3, horizon=7, n_actions=4, k=4)
    setting = prepare_sequence(problem)
    best = explain(problem).actions
    assert np.array_equal(setting.simplified(best), best)
    vectors = np.asarray(problem.actions, dtype=float)
    double = np.concatenate([vectors, vectors], axis=-2)  # each action twice
    twins = prepare_sequence(
        type(problem)(**{**vars(problem), "actions": double, "constraints": cp.Constraints()})
    )
    every = twins.observed + 4
    assert np.array_equal(twins.simplified(every), twins.observed)


def test_a_frontier_of_ties_never_falls() -> None:
    scm = cp.AdditiveNoiseSCM(either, lipschitz=0.9 * (1.0 + 1e-12))
    front = cp.frontier(
        scm, cp.Episode(STATES, [0] * 4), 4, actions=np.eye(2), reward=cp.LinearReward([1.0, 1.0])
    )
    assert (np.diff(front.values) >= 0.0).all()
    assert all(one.changes == () for one in front)


def test_nothing_is_searched_for_the_sake_of_rounding() -> None:
    """A bound that promises rounding only is as good as none better."""
    found = ask(either, 4, cp.AStar(Loosened(slack=0.0), incumbent=False))
    assert found.stats["nodes_expanded"] == 0
    assert (found.status, found.gap) == ("optimal", 0.0)
