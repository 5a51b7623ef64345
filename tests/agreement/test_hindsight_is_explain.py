"""Hindsight regret of an executed plan is an explanation like the others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.counterfactual import oracle
from counterplan.planning.policies import played

SEEDS = st.integers(0, 2**32 - 1)
PROBLEMS: list[Any] = [
    cp.domains.Bunkering(config="A"),
    cp.domains.Bunkering(config="B", fixed_cost=500.0),
    cp.domains.HybridVehicle("A", capacity="tight"),
    cp.domains.HybridVehicle("C", modes=7),
    cp.domains.AmericanOption("C"),
    cp.domains.OptionBasket("A"),
    cp.ExogenousMDP(
        cp.processes.GBM([10.0, 9.0], 0.0, 0.4, 0.5, kind="correlated"),
        np.eye(2),
        [cp.Resource(6.0), cp.Resource(6.0)],
        [(2.0, 2.0)] * 6,
    ),
]


def executed(problem: Any, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A future, and the plan for expected values carried out in it."""
    path = problem.sample_paths(1, seed)[0]
    rule = cp.policies.OpenLoop().prepare(problem)
    return path, played(problem, rule, path, problem.start).actions


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda one: type(one).__name__)
def test_any_number_of_changes_is_the_regret(problem: Any) -> None:
    for seed in range(3):
        path, actions = executed(problem, seed)
        known = cp.regret(problem, path, actions, policy=cp.policies.OpenLoop())
        found = cp.explain(problem, cp.Episode(path, actions), k=None)
        assert found.factual_value == pytest.approx(known.executed, rel=1e-9)
        assert found.value == pytest.approx(known.hindsight, rel=1e-9)
        assert found.improvement == pytest.approx(known.regret_hindsight, rel=1e-9, abs=1e-9)
        assert (found.status, found.gap) == ("optimal", 0.0)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda one: type(one).__name__)
def test_frontiers_lead_from_what_was_done_to_hindsight(problem: Any) -> None:
    path, actions = executed(problem, 1)
    front = cp.frontier(problem, cp.Episode(path, actions), k_max=3)
    gains = [found.improvement for found in front]
    assert gains[0] == 0.0
    assert gains == sorted(gains)
    best = cp.explain(problem, cp.Episode(path, actions), k=None)
    assert gains[-1] <= best.improvement + 1e-9 * abs(best.value)
    for k, found in enumerate(front):
        assert found.status == "optimal"
        assert len(found.changes) <= k
        assert found.sense == problem.sense


@settings(max_examples=10, deadline=None)
@given(SEEDS, st.integers(1, 4))
def test_budgets_against_every_choice_of_steps(seed: int, k: int) -> None:
    ship = cp.domains.Bunkering(config="A", legs=(12.0, 25.0, 30.0, 19.0, 9.0))
    path, actions = executed(ship, seed)
    found = cp.explain(ship, cp.Episode(path, actions), k)
    every = oracle.best_allocation(ship, path, actions, k)
    assert found.value == pytest.approx(every.value, rel=1e-9)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_offered_actions_against_every_sequence(k: int) -> None:
    option = cp.domains.AmericanOption("C")
    path = option.sample_path(seed=5)
    for date in (0, 4, 10):
        actions = np.zeros((option.horizon, 1))
        actions[date] = 1.0
        found = cp.explain(option, cp.Episode(path, actions), k)
        every = oracle.best_allocation(option, path, actions, k)
        assert found.value == pytest.approx(every.value, rel=1e-9)


def test_many_steps_are_solved_too() -> None:
    """Sixty days, three changes: 36,050 choices of steps. Each change moves one unit and nothing
    binds, so the best three gains are the answer."""
    rng = np.random.default_rng(0)
    T = 60
    store = cp.ExogenousMDP(
        cp.processes.GBM(5.0, 0.0, 1.0, 0.1), [[1.0]], cp.Resource(2.0 * T), [(0.0, 1.0)] * T
    )
    path = rng.uniform(1.0, 9.0, size=(T, 1))
    done = rng.uniform(0.0, 1.0, size=(T, 1))
    found = cp.explain(store, cp.Episode(path, done), k=3)
    gains = np.sort((path * (1.0 - done))[:, 0])[-3:]
    assert found.improvement == pytest.approx(gains.sum(), rel=1e-9)
    assert found.status == "optimal"
