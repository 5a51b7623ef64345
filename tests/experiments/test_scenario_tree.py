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
from counterplan.planning.policies import Optimal, Resolve, follow, futures
from counterplan.testing import check_model
from experiments.scenario_tree import ScenarioTree, scenario_tree, solve_program
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


def test_seven_ports() -> None:
    found = ScenarioTree(3).solve(Bunkering("A", fixed_cost=5_000.0))
    assert len(found.tree.price) == (3**7 - 1) // 2
    assert found.tree.probability[found.tree.time == 6].sum() == pytest.approx(1.0)
    expected = discretised(Bunkering("A", fixed_cost=5_000.0), 3).optimal_value()
    assert found.value == pytest.approx(expected, rel=1e-8)


def test_the_tree_keeps_expected_prices() -> None:
    problem = Bunkering("C", "global")
    tree = scenario_tree(problem, [2, 3, 1, 2, 1, 2], problem.start)
    for t, mean in enumerate(problem.mean_path()[:, 0]):
        at = tree.time == t
        assert (tree.probability[at] * tree.price[at]).sum() == pytest.approx(mean)


def test_the_start_is_where_a_tree_begins() -> None:
    problem = Bunkering("A", legs=(12.0, 25.0, 30.0, 19.0))
    tree = scenario_tree(problem)
    assert len(tree.price) == (3**4 - 1) // 2
    expected = discretised(problem, 3).optimal_value()
    assert solve_program(problem, tree).value == pytest.approx(expected, rel=1e-8)


def test_as_a_policy() -> None:
    problem = Bunkering("A", legs=(12.0, 25.0, 30.0))
    rule, paths = ScenarioTree(6).prepare(problem), problem.sample_paths(30, seed=1)
    assert (follow(problem, rule, paths) >= problem.allocate(paths).values - 1e-6).all()
    x, d = np.array([[900.0], [2500.0]]), np.array([[13.0], [13.0]])
    lost = problem.loss(1, x, d, rule(1, x, d))
    assert (lost <= 0.01 * problem.optimal_value()).all()


def test_played_on_futures() -> None:
    """Feasible on every future, and with branches enough no worse than re-solving: the paired
    difference is significant at 1 % one-sided beyond 2.33 standard errors."""
    problem = Bunkering("A")
    own = evaluate(problem, ScenarioTree(3), episodes=40, seed=3)
    plain = evaluate(problem, Resolve(), episodes=40, seed=3)
    paths = futures(problem, 40, np.random.default_rng(3).spawn(2)[0])
    assert (own.outcomes >= problem.allocate(paths).values - 1e-6).all()
    found = own.compare(plain)
    assert found.difference <= 2.33 * found.se
    assert own.name == "scenario tree"


def test_played_with_fixed_costs() -> None:
    """Re-solving knows the fixed cost, too; the tree must not do worse than it, and must not do
    better than the optimum."""
    problem = Bunkering("A", legs=(12.0, 25.0, 30.0, 19.0), fixed_cost=4_000.0)
    own = evaluate(problem, ScenarioTree(5), episodes=40, seed=2)
    for policy, sign in ((Resolve(), 1.0), (Optimal(), -1.0)):
        found = own.compare(evaluate(problem, policy, episodes=40, seed=2))
        assert sign * found.difference <= 2.33 * found.se + 1e-6
    assert (own.actions > 0).sum() < own.actions.size  # some ports are passed by


def test_under_one_price_for_all_ports_it_is_the_plan() -> None:
    problem = Bunkering("A", "global")
    own = evaluate(problem, ScenarioTree(2), episodes=5, seed=0)
    assert own.actions[:, :, 0] == pytest.approx(np.tile([50, 12, 25, 30, 16, 0, 0], (5, 1)))


def test_from_a_later_state() -> None:
    problem = Bunkering("A")
    state = State(5, np.array([2000.0]), np.array([1.0]))
    exact = discretised(problem, 4).optimal_value(state)
    assert ScenarioTree(4).solve(problem, state).value == pytest.approx(exact, rel=1e-8)


def test_bad_input() -> None:
    problem = Bunkering("A")
    with pytest.raises(InputError, match="branches has 2 numbers, but 6 ports follow"):
        ScenarioTree([2, 2]).solve(problem)
    with pytest.raises(InputError, match="branches at t=1 must be at least 1"):
        ScenarioTree(0).solve(problem)
    with pytest.raises(InputError, match="more than 100,000 histories by t=4: use fewer branches"):
        ScenarioTree(20).solve(problem)
    extreme = Bunkering("A", action_set="extreme")
    with pytest.raises(InputError, match="the state at t=2 has a level of 90"):
        ScenarioTree(2).solve(problem, State(2, np.array([900.0]), np.array([90.0])))
    with pytest.raises(NotApplicableError, match="is of Bunkering, not of HybridVehicle; policies"):
        evaluate(HybridVehicle("A"), ScenarioTree(2), 1)
    with pytest.raises(NotApplicableError, match="the program buys any amount"):
        solve_program(extreme, scenario_tree(extreme, 1, extreme.start), 0.0)
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
