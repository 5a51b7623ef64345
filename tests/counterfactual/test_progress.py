"""A callback hears how far a solver is, changes nothing about the answer, and can stop it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.limits import Progress
from counterplan.core.problem import Problem
from counterplan.counterfactual import BudgetAllocation, BudgetDP
from counterplan.counterfactual.oracle import Exhaustive

from .sequence_support import random_question


class Listener:
    """Keeps what it is told; says stop after `most` calls."""

    def __init__(self, most: int | None = None) -> None:
        self.heard: list[Progress] = []
        self._most = most

    def __call__(self, progress: Progress) -> bool:
        self.heard.append(progress)
        return self._most is None or len(self.heard) < self._most


def large_mdp() -> tuple[cp.TabularMDP, cp.Episode]:
    rng = np.random.default_rng(1)
    mdp = cp.TabularMDP(rng.dirichlet(np.ones(5), size=(5, 3)), rng.normal(size=(5, 3)))
    return mdp, cp.Episode(rng.integers(5, size=12), rng.integers(3, size=12))


def ship() -> tuple[Any, cp.Episode]:
    model = cp.domains.Bunkering(config="A")
    bought = np.array([[50.0], [12.0], [25.0], [30.0], [16.0], [0.0], [0.0]])
    return model, cp.Episode(model.sample_path(seed=5), bought)


def questions() -> list[Any]:
    mdp, episode = large_mdp()
    option = cp.domains.AmericanOption(config="A")
    path = option.sample_path(seed=0)
    sequence = random_question("neural", 3, horizon=6, n_actions=5, k=3)
    executed = ship()
    return [
        pytest.param(Problem(mdp, episode, 4), BudgetDP(), id="BudgetDP"),
        pytest.param(sequence, cp.AStar(batch=4), id="AStar"),
        pytest.param(sequence, Exhaustive(batch=4), id="Exhaustive"),
        pytest.param(Problem(*executed, 2), BudgetAllocation(), id="linear programs"),
        pytest.param(
            Problem(option, cp.Episode(path, np.zeros((len(path), 1))), 1),
            BudgetAllocation(),
            id="path",
        ),
    ]


def ask(problem: Problem, solver: Any, progress: Any = None) -> Any:
    return cp.explain(
        problem.scm,
        problem.episode,
        problem.k,
        constraints=problem.constraints,
        actions=problem.actions,
        reward=problem.reward,
        solver=solver,
        progress=progress,
    )


@pytest.mark.parametrize(("problem", "solver"), questions())
def test_a_listener_changes_nothing_and_hears_bounds(problem: Problem, solver: Any) -> None:
    plain, listener = ask(problem, solver), Listener()
    found = ask(problem, solver, listener)
    assert (found.value, found.bound, found.status) == (plain.value, plain.bound, plain.status)
    assert found.changes == plain.changes
    assert found.stats["nodes_expanded"] == plain.stats["nodes_expanded"]
    assert listener.heard
    done = [one.done for one in listener.heard]
    assert done == sorted(done)
    sign = 1.0 if found.sense == "max" else -1.0
    for one in listener.heard:
        assert one.value is not None
        assert one.seconds >= 0.0
        assert sign * one.value <= sign * found.value + 1e-9
        assert one.bound is None or sign * one.bound >= sign * found.value - 1e-9


@pytest.mark.parametrize(("problem", "solver"), questions())
def test_false_stops_with_a_certified_gap(problem: Problem, solver: Any) -> None:
    best, listener = ask(problem, solver), Listener(most=1)
    found = ask(problem, solver, listener)
    assert len(listener.heard) == 1
    assert found.status == "limit"
    sign = 1.0 if found.sense == "max" else -1.0
    assert sign * found.value <= sign * best.value + 1e-9
    assert sign * found.bound >= sign * best.value - 1e-9


def test_frontiers_are_heard_and_stopped_too() -> None:
    mdp, episode = large_mdp()
    listener = Listener()
    cp.frontier(mdp, episode, 3, progress=listener)
    assert len(listener.heard) == len(episode) - 1
    assert cp.frontier(mdp, episode, 3, progress=lambda _: False)[-1].status == "limit"
    sequence = random_question("neural", 3, horizon=6, n_actions=5, k=3)
    stopped = cp.frontier(
        sequence.scm,
        sequence.episode,
        3,
        actions=sequence.actions,
        reward=sequence.reward,
        solver=cp.AStar(batch=4),
        progress=lambda _: False,
    )
    assert len(stopped) == 4
    assert stopped[-1].status == "limit"


def test_the_worst_case_is_heard_and_stopped() -> None:
    mdp, episode = large_mdp()
    plain, listener = cp.robust_explain(mdp, episode, 3), Listener()
    assert cp.robust_explain(mdp, episode, 3, progress=listener).value == plain.value
    assert len(listener.heard) == len(episode) - 1
    stopped = cp.robust_explain(mdp, episode, 3, progress=Listener(most=3))
    assert stopped.status == "limit"
    assert stopped.value <= plain.value <= stopped.bound


@pytest.mark.parametrize(("problem", "solver"), questions())
def test_an_error_of_the_listener_ends_the_search(problem: Problem, solver: Any) -> None:
    def fail(progress: Progress) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ask(problem, solver, fail)
