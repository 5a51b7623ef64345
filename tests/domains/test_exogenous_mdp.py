"""Problems stated in a few lines: validation, actions, capabilities, the compiled twin."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.errors import CounterplanError, InfeasibleError, InputError, NotApplicableError
from counterplan.planning.model import Compiled, FiniteSupport, HasHindsight, State
from counterplan.planning.policies import OpenLoop, follow
from counterplan.planning.processes import GBM, BinomialLattice, HiddenModes, MarkovModes
from counterplan.planning.resource import Resource
from counterplan.testing import check_model

LEGS = [-12, -25, -30, -19, -9, -21, -17]
MATRIX = [[0.3, 0.5, 0.2], [0.1, 0.7, 0.2], [0.3, 0.3, 0.4]]
PRICE = GBM(100.0, 0.1, 0.4, dt=0.1)
LATTICE = BinomialLattice(100.0, 0.05, 0.2, 0.1)
MODES = MarkovModes(MATRIX, indicators=True)
PAIR = GBM([10.0, 12.0], 0.1, 0.3, 0.1, 0.5, "correlated")
SHIP = ExogenousMDP(
    GBM(1000.0, 1.0, 0.9, 1 / 7, kind="independent"),
    [[1.0]],
    Resource(0, 50, +1, LEGS),
    [(0, 50)] * 7,
    sense="min",
    action_set="order-up-to",
)
FUELS = ExogenousMDP(MODES, [[10, 8, 8], [8, 9, 8]], [Resource(12), Resource(13)], [(4, 4)] * 6)


def call(t: int, x: Any) -> Any:
    """A discounted call with strike 100, per unit exercised."""
    return math.exp(-0.05 * t) * np.maximum(x - 100.0, 0.0)


def either_fuel(state: State) -> list[list[float]]:
    left = state.resource
    least = max(0.0, 4 - left[0])
    return [[min(4.0, left[0]), least], [4 - min(4.0, left[1]), min(4.0, left[1])]]


MODELS = {
    "ship": SHIP,
    "stock, budget": ExogenousMDP(PRICE, [[1.0]], Resource(9), [(0, 4)] * 5, (2, 7)),
    "must sell": ExogenousMDP(PRICE, [[1.0]], Resource(9), [(0, 4)] * 5, (6, 7)),
    "stock, grid": ExogenousMDP(PRICE, [[1.0]], Resource(9), [(0, 4)] * 5, (2, 7), action_set=5),
    "basin": ExogenousMDP(LATTICE, [[1.0]], Resource(2, 5, -1, 2, spill=True), [(0, 3)] * 4),
    "basin, budget": ExogenousMDP(
        LATTICE, [[1.0]], Resource(2, 5, -1, 2, spill=True), [(0, 3)] * 4, (0, 6)
    ),
    "cistern": ExogenousMDP(
        PRICE, [[1.0]], Resource(0, 6, +1, [3, -4, 2, -5], spill=True), [(0, 6)] * 4, sense="min"
    ),
    "fuels": FUELS,
    "own actions": ExogenousMDP(
        MODES, FUELS.reward, FUELS.resources, [(4, 4)] * 6, action_set=either_fuel
    ),
    "two stocks, grid": ExogenousMDP(
        PAIR, np.eye(2), [Resource(5), Resource(6)], [(0, 4)] * 4, (3, 10), action_set=4
    ),
    "two basins": ExogenousMDP(
        PAIR,
        np.eye(2),
        [Resource(1, 4, change=1, spill=True), Resource(6)],
        [(0, 4)] * 4,
        (0, 9),
    ),
    "three stocks": ExogenousMDP(
        MODES, np.arange(9.0).reshape(3, 3), [Resource(4), Resource(3), Resource(2)], [(1, 2)] * 4
    ),
    "call": ExogenousMDP(LATTICE, call, Resource(1), [(0, 1)] * 6),
    "hidden": ExogenousMDP(
        HiddenModes(
            MATRIX,
            [[10, 8], [8, 9], [8, 8]],
            [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]] * 1 + [[0.1, 0.1, 0.8]],
        ),
        np.eye(2, 5),
        [Resource(6), Resource(6)],
        [(0, 4)] * 4,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_conforms(name: str) -> None:
    check_model(MODELS[name])


@pytest.mark.parametrize(
    ("name", "finite", "compiled"),
    [
        ("ship", False, True),
        ("basin", True, True),
        ("call", True, False),
        ("own actions", True, False),
        ("stock, budget", False, True),
    ],
)
def test_what_a_model_can_do_is_its_type(name: str, finite: bool, compiled: bool) -> None:
    model = MODELS[name]
    assert isinstance(model, ExogenousMDP)
    assert isinstance(model, FiniteSupport) is finite
    assert isinstance(model, Compiled) is compiled
    assert isinstance(model, HasHindsight)


def test_pickles() -> None:
    again = pickle.loads(pickle.dumps(SHIP))
    assert type(again) is type(SHIP)
    assert (again.sample_path(3) == SHIP.sample_path(3)).all()


# --- Actions ----------------------------------------------------------------------------------


def test_order_up_to_levels() -> None:
    assert SHIP.actions(SHIP.start).ravel().tolist() == [12, 37, 50]
    state = State(2, np.array([900.0]), np.array([13.0]))
    assert SHIP.actions(state).ravel().tolist() == [17, 36, 37]
    last = State(6, np.array([900.0]), np.array([20.0]))
    # Nothing is needed any more; filling up is still allowed.
    assert last.resource[0] > 17
    assert SHIP.actions(last).ravel().tolist() == [0, 30]


def test_extreme_actions() -> None:
    assert MODELS["stock, budget"].actions(MODELS["stock, budget"].start).ravel().tolist() == [0, 4]
    assert FUELS.actions(FUELS.start).tolist() == [[4, 0], [0, 4]]
    almost = State(3, FUELS.start.exogenous, np.array([1.0, 12.0]))
    assert FUELS.actions(almost).tolist() == [[1, 3], [0, 4]]


def test_grids() -> None:
    stock = MODELS["stock, grid"]
    assert stock.actions(stock.start).ravel().tolist() == [0, 1, 2, 3, 4]
    pair = MODELS["two stocks, grid"]
    offered = pair.actions(pair.start)
    assert offered[0].tolist() == [0, 0]
    assert offered[1:].tolist() == pytest.approx(
        np.array([[4, 0], [8 / 3, 4 / 3], [4 / 3, 8 / 3], [0, 4]])
    )


def test_one_action_where_nothing_is_left_to_choose() -> None:
    spent = State(4, np.array([90.0]), np.array([2.0, 7.0]))
    assert MODELS["stock, budget"].actions(spent).tolist() == [[0]]


def test_states_that_cannot_be_continued_are_refused() -> None:
    with pytest.raises(InfeasibleError, match=r"t=4 with resource \[3.0, 0.0\] leaves no action"):
        MODELS["must sell"].actions(State(4, np.array([90.0]), np.array([3.0, 0.0])))


def test_own_actions_are_checked() -> None:
    greedy = ExogenousMDP(
        PRICE, [[1.0]], Resource(9), [(0, 4)] * 5, action_set=lambda state: [[0.0], [5.0]]
    )
    with pytest.raises(InfeasibleError, match=r"offers \[5.0\] at t=0, but between 0 and 4 may"):
        greedy.actions(greedy.start)
    flat = ExogenousMDP(
        PRICE, [[1.0]], Resource(9), [(0, 4)] * 5, action_set=lambda state: [[0.0, 5.0]]
    )
    with pytest.raises(InputError, match=r"gave shape \(1, 2\) at t=0, expected \(m, 1\)"):
        flat.actions(flat.start)


# --- Values -----------------------------------------------------------------------------------


def test_bunkering_of_the_note() -> None:
    """Config A, independent ports: hindsight 126,975 and open loop 171,495; the tolerance is four
    standard errors (a cost's spread is about 26,000)."""
    costs = SHIP.allocate(SHIP.sample_paths(20_000, seed=1)).values
    error = costs.std() / math.sqrt(len(costs))
    assert abs(costs.mean() - 126_975) <= 4 * error
    assert SHIP.allocate(SHIP.mean_path()[None]).values[0] == pytest.approx(171_495, abs=1)


@pytest.mark.parametrize("name", ["ship", "stock, budget", "basin", "fuels"])
def test_the_bound_of_the_kernel_is_an_executed_plan(name: str) -> None:
    """At least the open loop's at the expected rewards, at most the plan's, whatever is drawn."""
    model: Any = MODELS[name]
    kernel, rng = model.compiled(), np.random.default_rng(2)
    limits = np.empty(2)
    kernel.bounds(
        kernel.parameters, kernel.tables, 0, kernel.exogenous, kernel.resource, rng, limits
    )
    sign = 1 if model.sense == "max" else -1
    executed = sign * follow(model, OpenLoop().prepare(model), model.mean_path()[None])[0]
    planned = sign * model.allocate(model.mean_path()[None]).values[0]
    slack = 1e-9 * abs(planned)
    assert executed - slack <= limits[0] <= planned + slack
    assert limits[1] == math.inf
    assert rng.random() == np.random.default_rng(2).random()


def test_the_bound_of_several_stocks_is_one() -> None:
    for name in ("two stocks, grid", "two basins", "three stocks"):
        model: Any = MODELS[name]
        kernel, limits = model.compiled(), np.empty(2)
        rng = np.random.default_rng(4)
        kernel.bounds(
            kernel.parameters, kernel.tables, 0, kernel.exogenous, kernel.resource, rng, limits
        )
        plan = model.allocate(model.mean_path()[None]).values[0]
        # Whole plans in other amounts are worth more, but not twice as much here.
        assert 0.5 * plan < limits[0] <= plan * (1 + 1e-9)


def test_quantiles_replace_continuous_chance() -> None:
    model: Any = SHIP
    kernel = model.compiled(quantiles=16)
    assert kernel.most_successors == 16
    states, chances = np.empty((16, 1)), np.empty(16)
    assert kernel.successors(kernel.parameters, 2, kernel.exogenous, states, chances) == 16
    assert chances @ states[:, 0] == pytest.approx(1000 * math.exp(3 / 7))
    pair: Any = MODELS["two basins"]
    with pytest.raises(NotApplicableError, match="quantiles of 2 prices at once"):
        pair.compiled(quantiles=4)


# --- Bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"reward": lambda t, x, a: x * a**2}, InputError, r"takes \(t, x, a\), but a reward that"),
        (
            {"reward": lambda t, x: x[:, 0]},
            InputError,
            r"gave shape \(1,\) at t=0, expected \(1, 1",
        ),
        ({"reward": lambda t, x: x - x.mean(axis=0) + len(x)}, InputError, "when asked for two"),
        ({"reward": lambda t, x: x * math.nan}, InputError, "reward per unit at the start is"),
        ({"reward": [[1.0, 2.0]]}, InputError, r"the reward matrix must be \(1, 1\)"),
        ({"reward": "price"}, InputError, r"reward must be a matrix \(A, X\) or a function"),
        ({"sense": "most"}, InputError, "sense must be 'max' or 'min', got 'most'"),
        ({"process": 3.0}, InputError, "float is no process: it needs start, draw, mean_path"),
        ({"process": MarkovModes(MATRIX)}, InputError, "use MarkovModes.*indicators=True"),
        ({"action_set": "all"}, InputError, "action_set 'all' is not 'extreme'"),
        ({"action_set": "order-up-to"}, InputError, "is for one resource that is added to"),
        ({"action_set": 1}, InputError, "action_set .* must be at least 2, got 1"),
        ({"step_bounds": [(0, 4), (5, 4)]}, InfeasibleError, "step t=1 is bounded by 5 and 4"),
        ({"step_bounds": [(4, 5)] * 3}, InfeasibleError, "infeasible at step t=2"),
        ({"budget": (20, 30)}, InfeasibleError, "budget requires 20"),
        ({"resources": 5}, InputError, "resources must be a Resource or a list of them, got 5"),
        ({"resources": [Resource(9), "x"]}, InputError, "resource number 1 is 'x': give Resource"),
        (
            {"resources": Resource(0, 28, +1, LEGS), "step_bounds": [(0, 50)] * 7},
            InfeasibleError,
            "step t=2 takes 30, but the capacity is 28",
        ),
    ],
)
def test_one_clear_line(changes: dict[str, Any], kind: type[CounterplanError], words: str) -> None:
    plain: dict[str, Any] = {
        "process": PRICE,
        "reward": [[1.0]],
        "resources": Resource(9),
        "step_bounds": [(0, 4)] * 5,
    }
    with pytest.raises(kind, match=words) as caught:
        ExogenousMDP(**(plain | changes))
    assert "\n" not in str(caught.value)


def test_a_grid_divides_between_two() -> None:
    with pytest.raises(InputError, match="a grid divides between two resources, not 3"):
        ExogenousMDP(MODES, np.ones((3, 3)), [Resource(1)] * 3, [(0, 1)], action_set=3)
