"""Storages: hindsight, exact values, offered actions and words."""

from __future__ import annotations

import numpy as np
import pytest

import counterplan as cp
from counterplan.planning.model import State
from counterplan.planning.stages import allocate_stages
from counterplan.testing import check_model

from .storage_support import (
    Oracle,
    chain,
    chain_of_reservoirs,
    ramped_battery,
    random_battery,
    tree,
    two_batteries,
)

MAKERS = {
    "reservoirs": chain_of_reservoirs,
    "batteries": two_batteries,
    "ramped batteries": lambda rng, horizon: two_batteries(rng, horizon, ramp=True),
    "ramped": ramped_battery,
}


@pytest.mark.parametrize("seed", range(40))
def test_hindsight_of_one_storage_is_the_linear_program(seed: int) -> None:
    rng = np.random.default_rng(seed)
    problem = random_battery(rng, horizon=int(rng.integers(1, 8)))
    paths = problem.sample_paths(3, seed)
    found = problem.allocate(paths)
    general = allocate_stages(problem, paths)
    for path, value, other in zip(paths, found.values, general.values, strict=True):
        expected = Oracle(problem, chain(path)).solve()
        assert value == pytest.approx(expected, rel=1e-9, abs=1e-7)
        assert other == pytest.approx(expected, rel=1e-9, abs=1e-7)
    known = cp.hindsight(problem, paths[0])
    assert known.certificate.replayed == pytest.approx(known.value, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("kind", MAKERS)
def test_hindsight_of_several_is_the_linear_program(kind: str) -> None:
    for seed in range(4):
        problem = MAKERS[kind](np.random.default_rng(seed), horizon=5)
        path = problem.sample_path(seed)
        known = cp.hindsight(problem, path)
        assert known.value == pytest.approx(Oracle(problem, chain(path)).solve(), rel=1e-7)
        assert known.certificate.replayed == pytest.approx(known.value, rel=1e-7)


@pytest.mark.parametrize("seed", range(30))
def test_exact_value_of_one_storage_is_that_of_the_scenario_tree(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    problem = random_battery(rng, horizon=int(rng.integers(2, 5)))
    expected = Oracle(problem, tree(problem)).solve()
    assert cp.exact_value(problem) == pytest.approx(expected, rel=1e-9, abs=1e-7)


def test_optimal_actions_earn_the_exact_value_and_lose_nothing() -> None:
    problem = random_battery(np.random.default_rng(3), horizon=4)
    sign = 1.0 if problem.sense == "max" else -1.0
    for state in (problem.start, State(2, problem.sample_path(1)[2], np.array([1.5]))):
        flows = problem.optimal_actions(state.t, state.exogenous[None], state.resource[None])
        loss = problem.loss(state.t, state.exogenous[None], state.resource[None], flows)
        assert loss == pytest.approx(0.0, abs=1e-9)
        offered = problem.actions(state)
        many = [np.repeat(one[None], len(offered), axis=0) for one in state[1:]]
        assert (problem.loss(state.t, *many, offered) >= -1e-9).all()
    found = cp.evaluate(problem, cp.policies.Optimal(), episodes=1000, seed=0)
    assert sign * (found.mean - cp.exact_value(problem)) <= 4 * found.se
    assert found.mean == pytest.approx(cp.exact_value(problem), abs=4 * found.se)


@pytest.mark.parametrize("seed", range(6))
def test_models_are_consistent(seed: int) -> None:
    check_model(random_battery(np.random.default_rng(seed), horizon=4))


@pytest.mark.parametrize("kind", MAKERS)
def test_models_of_several_are_consistent(kind: str) -> None:
    check_model(MAKERS[kind](np.random.default_rng(1), horizon=4))
