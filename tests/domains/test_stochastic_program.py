"""The scenario-tree program E.1 against the dynamic program on the same tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplan.domains.bunkering import Bunkering
from counterplan.domains.stochastic_program import StochasticProgram, scenario_tree, solve_program
from counterplan.errors import InputError, NotApplicableError
from counterplan.exogenous.model import State
from counterplan.planning.exact import solve
from counterplan.planning.playing import follow
from counterplan.testing.exogenous import check_model

from .bunkering_support import voyages


@settings(max_examples=25)
@given(voyages(), st.integers(1, 3))
def test_equals_the_dynamic_program(problem: Bunkering, branches: int) -> None:
    """Order-up-to levels hold the optimum of any amounts, with and without fixed costs."""
    found = StochasticProgram(branches).solve(problem)
    exact = solve(problem.discretised(branches)).value
    assert found.value == pytest.approx(exact, rel=1e-8, abs=1e-6)
    assert found.bound <= found.value + 1e-6
    assert found.gap <= 1e-8


@pytest.mark.parametrize("prices", ["independent", "global"])
def test_one_scenario_is_the_expected_price_plan(prices: str) -> None:
    problem = Bunkering("A", prices)  # type: ignore[arg-type]
    found = StochasticProgram(1).solve(problem)
    assert found.value == pytest.approx(problem.allocate(problem.mean_path()[None]).values[0])
    assert np.allclose(found.purchases, [50, 12, 25, 30, 16, 0, 0])
    assert found.amount == pytest.approx(50)


def test_seven_ports() -> None:
    found = StochasticProgram(3).solve(Bunkering("A", fixed_cost=5_000.0))
    assert len(found.tree.price) == (3**7 - 1) // 2
    assert found.tree.probability[found.tree.time == 6].sum() == pytest.approx(1.0)
    expected = Bunkering("A", fixed_cost=5_000.0).discretised(3).optimal_value()
    assert found.value == pytest.approx(expected, rel=1e-8)


def test_the_tree_keeps_expected_prices() -> None:
    problem = Bunkering("C", "global")
    tree = scenario_tree(problem, [2, 3, 1, 2, 1, 2], problem.start)
    for t, mean in enumerate(problem.mean_path()[:, 0]):
        at = tree.time == t
        assert (tree.probability[at] * tree.price[at]).sum() == pytest.approx(mean)


def test_as_a_policy() -> None:
    problem = Bunkering("A", legs=(12.0, 25.0, 30.0))
    rule = StochasticProgram(6).prepare(problem)
    paths = problem.sample_paths(30, seed=1)
    costs = follow(problem, rule, paths)
    assert (costs >= problem.allocate(paths).values - 1e-6).all()
    x, d = np.array([[900.0], [2500.0]]), np.array([[13.0], [13.0]])
    lost = problem.loss(1, x, d, rule(1, x, d))
    assert (lost <= 0.01 * problem.optimal_value()).all()


def test_from_a_later_state() -> None:
    problem = Bunkering("A")
    state = State(5, np.array([2000.0]), np.array([1.0]))
    exact = problem.discretised(4).optimal_value(state)
    assert StochasticProgram(4).solve(problem, state).value == pytest.approx(exact, rel=1e-8)


def test_bad_input() -> None:
    problem = Bunkering("A")
    with pytest.raises(InputError, match="branches has 2 numbers, but 6 ports follow"):
        StochasticProgram([2, 2]).solve(problem)
    with pytest.raises(InputError, match="branches at t=1 must be at least 1"):
        StochasticProgram(0).solve(problem)
    with pytest.raises(InputError, match="more than 100,000 histories by t=4: use fewer branches"):
        StochasticProgram(20).solve(problem)
    extreme = Bunkering("A", action_set="extreme")
    with pytest.raises(NotApplicableError, match="the program buys any amount"):
        solve_program(extreme, scenario_tree(extreme, 1, extreme.start), 0.0)
    with pytest.raises(NotApplicableError, match="is of bunkering, not of int"):
        StochasticProgram().prepare(3)  # type: ignore[arg-type]
    check_model(problem.discretised(2))


def test_stopped_early() -> None:
    """Either no plan, said in one line, or a plan with an honest gap."""
    problem = Bunkering("A", fixed_cost=5_000.0)
    with pytest.raises(NotApplicableError, match="found no plan within 0 s: use fewer branches"):
        StochasticProgram(4, seconds=0.0).solve(problem)
    found = StochasticProgram(4, seconds=0.5).solve(problem)
    exact = problem.discretised(4).optimal_value()
    assert found.bound <= exact * (1 + 1e-8)
    assert found.value >= exact * (1 - 1e-8)
    assert found.gap == pytest.approx((found.value - found.bound) / found.value)
