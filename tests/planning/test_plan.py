"""One decision: its edges, its words, and what it refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numba import njit

from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.model import State
from counterplan.planning.search.kernel import ACTIONS, Kernel, no_successors
from counterplan.planning.search.planners import (
    BTS,
    DENTS,
    MENTS,
    UCT,
    PlanStatus,
    TreePlanner,
    plan,
)
from tests.planning.expectimax import expectimax

from .selling import Selling
from .small_models import BUYING, FAIR, STICKY, Bounded

ALL = [UCT(200), MENTS(200), BTS(200), DENTS(200)]
EACH = pytest.mark.parametrize("planner", ALL, ids=lambda one: one.name)


@EACH
def test_horizon_one(planner: TreePlanner) -> None:
    """Rewards are sure: values are exact, and so are they known to be."""
    for sense, best in (("max", 2.0), ("min", 0.0)):
        model = Selling(np.array([3.0]), np.ones((1, 1)), 1, 2, 2, 0, sense)  # type: ignore[arg-type]
        found = plan(model, planner=planner)
        assert found.action.tolist() == [best]
        assert found.values.tolist() == [0.0, 3.0, 6.0]
        assert found.se == 0.0


@EACH
def test_nothing_to_decide(planner: TreePlanner) -> None:
    forced = plan(STICKY, State(3, np.array([2.0]), np.array([0.0])), planner)
    assert forced.status is PlanStatus.FORCED
    assert "only one action" in forced.status.advice
    assert (forced.action.tolist(), forced.value) == ([0.0], 0.0)
    over = plan(STICKY, State(4, np.zeros(1), np.ones(1)), planner)
    assert over.status is PlanStatus.OVER
    assert "no decision left" in over.status.advice
    assert (over.action.size, over.value) == (0, 0.0)


def test_costs_are_positive_where_they_are_minimised() -> None:
    found = plan(Bounded(BUYING, 1.0, 2.0), planner=BTS(2_000))
    assert np.all(found.values > 0.0)
    assert found.values[found.index] == np.min(found.values)
    assert found.bounds is not None
    assert found.bounds.low < found.value < found.bounds.high
    assert found.bounds.width == pytest.approx(3.0)


def test_standard_errors_shrink_with_simulations() -> None:
    """As 1 / sqrt(n) with the visits of an action, here 10 to 100 times as many."""
    few, many = (plan(STICKY, planner=UCT(n)) for n in (100, 10_000))
    best = many.index
    assert 0.0 < many.values_se[best] < 0.3 * few.values_se[best]


def test_a_plans_value_is_that_of_a_policy() -> None:
    """So it exceeds the optimum by chance only: the mean of 100 by no more than 4 of its errors."""
    exact = expectimax(STICKY).value
    found = [plan(STICKY, planner=UCT(12), seed=seed) for seed in range(100)]
    values = np.array([one.value for one in found])
    assert values.mean() < exact + 4 * values.std() / 10
    assert all(one.se > 0.0 for one in found)


def test_an_action_tried_once_has_no_standard_error() -> None:
    found = plan(STICKY, planner=UCT(3))
    assert found.visits.tolist() == [1, 1, 1]
    assert np.all(np.isinf(found.values_se))
    found = plan(STICKY, planner=UCT(1))
    assert np.isnan(found.values).tolist() == [False, True, True]


def test_clip_follows_the_model() -> None:
    assert plan(Bounded(STICKY), planner=UCT(20)).stats["clip"] == 1.0
    assert plan(Bounded(STICKY), planner=UCT(20), clip=False).stats["clip"] == 0.0
    assert plan(Bounded(STICKY), planner=UCT(20), clip=0.25).stats["clip"] == 0.25
    assert plan(STICKY, planner=UCT(20)).stats["clip"] == 0.0


@pytest.mark.parametrize(
    ("planner", "options", "message"),
    [
        (UCT, {"simulations": 0}, "simulations must be at least 1, got 0"),
        (MENTS, {"simulations": 2.5}, "simulations must be a whole number"),
        (UCT, {"exploration": -1.0}, "exploration must be at least 0, got -1"),
        (UCT, {"exploration": "a"}, "exploration must be a number, got 'a'"),
        (BTS, {"temperature": 0.0}, "temperature must be greater than 0, got 0"),
        (BTS, {"temperature": "a"}, "temperature must be a number, got 'a'"),
        (DENTS, {"entropy": float("nan")}, "entropy must be finite, got nan"),
        (BTS, {"epsilon": -0.1}, "epsilon must be at least 0, got -0.1"),
        (UCT, {"leaf": "guess"}, "must be one of auto, rollout, uniform, bounds"),
        (UCT, {"widening": (0.0, 0.5)}, "widening must be"),
        (UCT, {"widening": (1,)}, r"widening must be two numbers .*, got \(1,\)"),
        (UCT, {"widening": None}, "widening must be two numbers .*, got None"),
        (UCT, {"widening": (1.0, "a")}, "widening must be two numbers"),
        (UCT, {"scale": 0.0}, "scale must be greater than 0"),
        (UCT, {"quantiles": -1}, "quantiles must be at least 0"),
    ],
)
def test_bad_planners(planner: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        planner(**options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"state": State(5, np.zeros(1), np.ones(1))}, "state t must be at most 4, got 5"),
        ({"state": State(0, np.zeros(2), np.ones(1))}, r"exogenous has shape \(2,\)"),
        ({"state": State(0, np.zeros(1), np.array([np.nan]))}, "resource must be finite"),
        ({"state": State(0, np.zeros(1), "full")}, "resource must hold numbers"),  # type: ignore[arg-type]
        ({"state": 3}, "state must be State"),
        ({"planner": "uct"}, "str is not a planner such as UCT"),
        ({"clip": 2.0}, "clip must be True, False or a probability from 0 to 1, got 2.0"),
        ({"clip": "yes"}, "clip must be True, False or a probability from 0 to 1, got 'yes'"),
    ],
)
def test_bad_questions(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as raised:
        plan(STICKY, **arguments)
    assert "\n" not in str(raised.value)


def test_clip_without_bounds_says_what_to_give() -> None:
    with pytest.raises(NotApplicableError, match=r"no bounds.*bounds\(state\).*clip=False"):
        plan(FAIR, planner=UCT(10), clip=True)
    with pytest.raises(NotApplicableError, match="no bounds"):
        plan(FAIR, planner=UCT(10, leaf="bounds"))


def test_something_that_is_no_problem() -> None:
    with pytest.raises(InputError, match="needs horizon, sense"):
        plan(object(), State(0, np.zeros(1), np.zeros(1)))  # type: ignore[arg-type]


class Broken(Selling):
    """A compiled model with a mistake in its kernel."""

    change: dict[str, Any]

    def compiled(self, quantiles: int = 0) -> Kernel:
        return replace(super().compiled(quantiles), **self.change)


@njit(ACTIONS)
def no_actions(parameters: Any, t: Any, x: Any, d: Any, out: Any) -> Any:
    return 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": no_actions}, "kernel's actions gives none"),
        ({"successors": no_successors}, "kernel's successors gives none"),
        ({"step": lambda *_: 0.0}, r"kernel's step is not .*kernel\.STEP"),
        ({"step": FAIR.compiled().draw}, r"kernel's step is not .*kernel\.STEP"),
        ({"parameters": [1.0]}, "kernel's parameters must be a one-dimensional array of float64"),
        ({"most_actions": 0}, "must be at least 1"),
    ],
)
def test_kernels_are_checked(change: dict[str, Any], message: str) -> None:
    model = Broken(FAIR.prices, FAIR.matrix)
    object.__setattr__(model, "change", change)
    with pytest.raises(InputError, match=message):
        plan(model, planner=UCT(10))
