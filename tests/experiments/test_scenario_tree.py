"""The scenario-tree program E.1 against the dynamic program on the same tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridVehicle
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.evaluate import evaluate
from counterplan.planning.exact_value import Solution
from counterplan.planning.model import State
from counterplan.planning.policies import Optimal, Resolve
from counterplan.testing import check_model
from experiments.scenario_tree import ScenarioTree, scenario_tree
from tests.domains.planning_support import discretised, voyages


@settings(max_examples=25)
@given(voyages(), st.integers(1, 3))
def test_equals_the_dynamic_program(problem: Bunkering, branches: int) -> None:
    """Order-up-to levels hold the optimum of any amounts, with and without fixed costs."""
    found = ScenarioTree(branches).solve(problem)
    exact = Solution(discretised(problem, branches)).value
    assert found.value == pytest.approx(exact, rel=1e-8, abs=1e-6)
    assert found.bound <= found.value + 1e-6
    assert found.gap <= 1e-8


@pytest.mark.parametrize("prices", ["independent", "global"])
def test_one_scenario_is_the_expected_price_plan(prices: str) -> None:
    problem = Bunkering("A", prices)  # type: ignore[arg-type]
    found = ScenarioTree(1).solve(problem)
    assert found.value == pytest.approx(problem.allocate(problem.mean_path()[None]).values[0])
    assert np.allclose(found.purchases, [50, 12, 25, 30, 16, 0, 0])
    assert found.amount == pytest.approx(50)


def test_the_tree_keeps_expected_prices() -> None:
    problem = Bunkering("C", "global")
    tree = scenario_tree(problem, [2, 3, 1, 2, 1, 2], problem.start)
    for t, mean in enumerate(problem.mean_path()[:, 0]):
        at = tree.time == t
        assert (tree.probability[at] * tree.price[at]).sum() == pytest.approx(mean)


def test_played_with_fixed_costs() -> None:
    """Re-solving knows the fixed cost, too; the tree must not do worse than it, and must not do
    better than the optimum."""
    problem = Bunkering("A", legs=(12.0, 25.0, 30.0, 19.0), fixed_cost=4_000.0)
    own = evaluate(problem, ScenarioTree(5), episodes=40, seed=2)
    for policy, sign in ((Resolve(), 1.0), (Optimal(), -1.0)):
        found = own.compare(evaluate(problem, policy, episodes=40, seed=2))
        assert sign * found.difference <= 2.33 * found.se + 1e-6
    assert (own.actions > 0).sum() < own.actions.size  # some ports are passed by


def test_bad_input() -> None:
    problem = Bunkering("A")
    with pytest.raises(InputError, match="branches has 2 numbers, but 6 ports follow"):
        ScenarioTree([2, 2]).solve(problem)
    with pytest.raises(InputError, match="branches at t=1 must be at least 1"):
        ScenarioTree(0).solve(problem)
    with pytest.raises(InputError, match="more than 100,000 histories by t=4: use fewer branches"):
        ScenarioTree(20).solve(problem)
    with pytest.raises(InputError, match="the state at t=2 has a level of 90"):
        ScenarioTree(2).solve(problem, State(2, np.array([900.0]), np.array([90.0])))
    with pytest.raises(NotApplicableError, match="is of Bunkering, not of HybridVehicle; policies"):
        evaluate(HybridVehicle("A"), ScenarioTree(2), 1)
    with pytest.raises(NotApplicableError, match="is of Bunkering, not of int"):
        ScenarioTree().prepare(3)  # type: ignore[arg-type]
    check_model(discretised(problem, 2))


def test_stopped_early() -> None:
    """Either no plan, said in one line, or a plan with an honest gap."""
    problem = Bunkering("A", fixed_cost=5_000.0)
    with pytest.raises(NotApplicableError, match="found no plan within 0 s: use fewer branches"):
        ScenarioTree(4, seconds=0.0).solve(problem)
    found = ScenarioTree(4, seconds=0.5).solve(problem)
    exact = discretised(problem, 4).optimal_value()
    assert found.bound <= exact * (1 + 1e-8)
    assert found.value >= exact * (1 - 1e-8)
    assert found.gap == pytest.approx((found.value - found.bound) / found.value)
