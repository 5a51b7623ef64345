"""Problems stated in a few lines: validation, actions, capabilities, the compiled lower bound."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplan.domains.bunkering import Bunkering
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.errors import CounterplanError, InfeasibleError, InputError, NotApplicableError
from counterplan.planning.exact_value import exact_value
from counterplan.planning.hindsight import allocate
from counterplan.planning.model import Compiled, FiniteSupport, HasHindsight, State
from counterplan.planning.policies import OpenLoop, follow
from counterplan.planning.processes import GBM, BinomialLattice, HiddenModes, MarkovModes
from counterplan.planning.resource import Resource
from counterplan.planning.search.planners import BTS, UCT, plan
from counterplan.testing import check_model

from .planning_support import bounds_at, mean_of

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
    assert isinstance(model, FiniteSupport) is finite
    assert isinstance(model, Compiled) is compiled
    assert isinstance(model, HasHindsight)


def test_a_class_made_from_it_is_played_by_its_own_methods() -> None:
    class Taxed(ExogenousMDP):
        def step(self, t: int, exogenous: Any, resource: Any, actions: Any) -> Any:
            rewards, after = super().step(t, exogenous, resource, actions)
            return rewards - 1.0, after

    taxed = Taxed(LATTICE, [[1.0]], Resource(2), [(0, 1)] * 3)
    assert not isinstance(taxed, Compiled)
    assert not isinstance(taxed, FiniteSupport)


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


def test_little_is_left_to_choose() -> None:
    spent = State(4, np.array([90.0]), np.array([2.0, 7.0]))
    assert MODELS["stock, budget"].actions(spent).tolist() == [[0]]
    with pytest.raises(InfeasibleError, match=r"t=4 with resource \[3.0, 0.0\] leaves no action"):
        MODELS["must sell"].actions(State(4, np.array([90.0]), np.array([3.0, 0.0])))


@pytest.mark.parametrize("levels", [2, 7, 1001])
@pytest.mark.parametrize(("stocks", "bounds"), [(1, (0, 4)), (1, (4, 4)), (2, (0, 4)), (2, (4, 4))])
def test_every_action_of_a_grid_is_offered_once(
    levels: int, stocks: int, bounds: tuple[int, int]
) -> None:
    """Rows come in order, so each is compared with the one before; against comparing all."""
    model = ExogenousMDP(
        process=GBM(1.0, 0.0, 0.1, dt=1.0),
        reward=[[1.0]] * stocks,
        resources=[Resource(5)] * stocks,
        step_bounds=[bounds],
        action_set=levels,
    )
    found, parts = model.actions(model.start), np.linspace(0.0, 1.0, levels)
    each = [total * parts for total in bounds] if stocks == 2 else [np.linspace(*bounds, levels)]
    wanted = np.unique(np.round(np.concatenate(each), 9))
    assert len(np.unique(np.round(found, 9), axis=0)) == len(found)
    assert np.unique(np.round(found[:, 0], 9)) == pytest.approx(wanted)
    assert set(found.sum(axis=1).round(9)) <= set(np.round(np.linspace(*bounds, levels), 9))


def test_own_actions_are_checked() -> None:
    def offer(actions: Any) -> None:
        sale = (PRICE, [[1.0]], Resource(9), [(0, 4)] * 5)
        model = ExogenousMDP(*sale, action_set=lambda state: actions)
        model.actions(model.start)

    with pytest.raises(InfeasibleError, match=r"offers \[5.0\] at t=0, but between 0 and 4 may"):
        offer([[0.0], [5.0]])
    with pytest.raises(InputError, match=r"gave shape \(1, 2\) at t=0, expected \(m, 1\)"):
        offer([[0.0, 5.0]])


# --- Values -----------------------------------------------------------------------------------


def test_bunkering_of_the_note() -> None:
    """Config A, independent ports: hindsight 126,975 and open loop 171,495; the same model as
    `Bunkering`, path by path."""
    ship, paths = Bunkering("A"), SHIP.sample_paths(20_000, seed=1)
    costs = SHIP.allocate(paths).values
    assert mean_of(costs) == 126_975
    assert costs == pytest.approx(ship.allocate(paths).values, rel=1e-9)
    assert SHIP.allocate(SHIP.mean_path()[None]).values[0] == pytest.approx(171_495, abs=1)
    for state in (SHIP.start, State(3, np.array([900.0]), np.array([11.0]))):
        assert SHIP.actions(state) == pytest.approx(ship.actions(state), abs=1e-9)


@pytest.mark.parametrize("name", ["ship", "stock, budget", "basin", "fuels"])
def test_the_bound_of_the_kernel_is_an_executed_plan(name: str) -> None:
    """At least the open loop's at the expected rewards, at most the plan's, whatever is drawn."""
    model: Any = MODELS[name]
    sign, path = 1 if model.sense == "max" else -1, model.mean_path()[None]
    played = sign * follow(model, OpenLoop().prepare(model), path)[0]
    planned = sign * model.allocate(path).values[0]
    slack = 1e-9 * abs(planned)
    assert played - slack <= lower_bound(model) <= planned + slack


def test_the_bound_of_several_stocks_is_one() -> None:
    for name in ("two stocks, grid", "two basins", "three stocks"):
        model: Any = MODELS[name]
        best = model.allocate(model.mean_path()[None]).values[0]
        # Whole plans in other amounts are worth more, but not twice as much here.
        assert 0.5 * best < lower_bound(model) <= best * (1 + 1e-9)


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
        ({"process": 3.0}, InputError, "float is no process: it needs start .X,. and draw"),
        ({"process": GBM}, InputError, "GBM is a class, not a process: give GBM"),
        ({"process": MarkovModes(MATRIX)}, InputError, "use MarkovModes.*indicators=True"),
        ({"action_set": "all"}, InputError, "action_set 'all' is not 'extreme'"),
        ({"action_set": "order-up-to"}, InputError, "is for one resource that is added to"),
        ({"action_set": 1}, InputError, "action_set .* must be at least 2, got 1"),
        (
            {"resources": [Resource(9)] * 3, "action_set": 3},
            InputError,
            "a grid divides between two resources, not 3",
        ),
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


SEEDS = st.integers(0, 100_000)
# The problem whose bound from above was once a mean over a few futures, below V* half the time.
BUDGETED = ExogenousMDP(
    MarkovModes([[0.7, 0.3], [0.4, 0.6]], 0, indicators=True),
    [[1.0, 3.0]],
    Resource(10),
    [(0, 5)] * 5,
    budget=(8, 10),
)


def random_problem(seed: int) -> Any:
    """Finite, small, of any shape that is compiled: stocks, basins, tanks, two resources."""
    rng = np.random.default_rng(seed)
    T = int(rng.integers(3, 6))
    M = int(rng.integers(2, 4))
    process: Any = MarkovModes(rng.dirichlet(np.ones(M), M), 0, indicators=True)
    if rng.random() < 0.4:
        process, M = BinomialLattice(10, rng.uniform(-0.5, 0.5), rng.uniform(0.3, 0.9), 0.25), 1
    most = rng.integers(1, 6, T)
    bounds = np.column_stack([np.zeros(T), most])
    kind = int(rng.integers(5))
    action_set: Any = "extreme" if rng.random() < 0.5 else int(rng.integers(2, 5))
    budget, sense, resources = (0.0, math.inf), "max", []
    if kind == 0:  # a stock, some of which must be used
        resources = [Resource(float(rng.integers(4, 12)))]
        total = min(resources[0].start, float(most.sum()))
        budget = (0.5 * total, float(rng.uniform(0.6, 1.0) * total))
    elif kind == 1:  # a basin that may spill, with or without a budget
        resources = [
            Resource(float(rng.integers(2, 8)), 8, change=rng.integers(0, 4, T), spill=True)
        ]
        budget = (0.0, float(rng.integers(4, 9))) if rng.random() < 0.5 else budget
    elif kind == 2:  # a tank to be filled
        legs = rng.integers(1, 6, T)
        resources, sense = [Resource(0, 9, +1, -legs)], "min"
        bounds[:, 1] = 9
        action_set = "order-up-to" if rng.random() < 0.5 else action_set
    elif kind == 3:  # two stocks with a quota
        bounds[:, 0] = bounds[:, 1]
        resources = [Resource(0.6 * float(most.sum())), Resource(0.7 * float(most.sum()))]
    else:  # two stocks, to be used or not
        resources = [Resource(float(rng.integers(2, 6))), Resource(float(rng.integers(2, 6)))]
    reward = rng.uniform(0.0, 5.0, (len(resources), M))
    return ExogenousMDP(process, reward, resources, bounds, budget, sense, action_set)


def lower_bound(model: Any, state: State | None = None) -> float:
    """To be maximised; there is none above."""
    low, high = bounds_at(model, np.empty(0), state)
    assert (high if model.sense == "max" else -low) == math.inf
    return low if model.sense == "max" else -high


@settings(max_examples=60)
@given(SEEDS)
def test_random_play_stays_above_the_bound_and_playable(seed: int) -> None:
    """The value is never below the bound, at the start and in states that random play leads to.
    Sums end in other digits on other machines: what play leads to remains playable, and the
    compiled actions remain the model's own."""
    model = random_problem(seed)
    sign = 1.0 if model.sense == "max" else -1.0
    kernel, rng = model.compiled(), np.random.default_rng(seed)
    state = model.start
    while state.t < model.horizon:
        value = sign * exact_value(model, state)
        assert math.isfinite(lower_bound(model, state))
        assert lower_bound(model, state) <= value + 1e-9 * (1.0 + abs(value))
        d = state.resource
        for near in (d, d + 1e-12 * d, d - 1e-12 * d):
            offered = model.actions(State(state.t, state.exogenous, near))
            out = np.empty((kernel.most_actions, kernel.action_size))
            m = kernel.actions(kernel.parameters, state.t, state.exogenous, near, out)
            assert out[:m] == pytest.approx(offered, rel=1e-9, abs=1e-9)
            assert (offered >= 0.0).all()
        action = offered[rng.integers(len(offered))][None]
        x = state.exogenous[None]
        after = model.step(state.t, x, near[None], action)[1][0]
        state = State(state.t + 1, model.draw(state.t, x, rng)[0], after)


def executed(model: Any, wanted: Any, carries: bool) -> float:
    """What a plan earns at the expected rewards, by the model's own methods; of equally close
    actions the first, or the last where what is left undone is carried on."""
    path, resource, total, left = model.mean_path(), model.start.resource, 0.0, 0.0
    for t, amount in enumerate(wanted):
        aim = amount + left if carries else amount
        offered = model.actions(State(t, model.start.exogenous, resource))
        away = ((offered - aim) ** 2).sum(axis=1)
        closest = np.flatnonzero(away == away.min())[-1 if carries else 0]
        left = aim - offered[closest]
        reward, after = model.step(t, path[t][None], resource[None], offered[closest][None])
        total, resource = total + float(reward[0]), after[0]
    return total


@settings(max_examples=30)
@given(SEEDS)
def test_the_bound_is_what_the_executed_plan_earns(seed: int) -> None:
    """Played along expected rewards, in which its own are linear; plans of several resources are
    others than the linear program's, so they are left out."""
    model = random_problem(seed)
    spills = model.program.resources[0].spill and model.program.has_budget
    if len(model.program.resources) > 1 or spills:
        return
    wanted = allocate(model, model.mean_path()[None], "nested").actions[0]
    sign = 1.0 if model.sense == "max" else -1.0
    plain, carried = (sign * executed(model, wanted, carries) for carries in (False, True))
    assert lower_bound(model) == pytest.approx(max(plain, carried), rel=1e-9, abs=1e-9)
    policy = follow(model, OpenLoop().prepare(model), model.mean_path()[None])[0]
    assert plain == pytest.approx(sign * policy, rel=1e-9, abs=1e-9)


def test_what_one_step_leaves_undone_the_next_ones_do() -> None:
    """Constant prices but for a rise at the end, 10 units, 0 or 4 a step: the plan's 0, 0, 2, 4, 4
    becomes 0, 0, 4, 4, 2 and not 0, 0, 0, 4, 4."""
    rising = MarkovModes(np.roll(np.eye(5), 1, axis=1), 0, indicators=True)
    model = ExogenousMDP(rising, [[1.0, 1.1, 1.2, 1.3, 1.4]], Resource(10), [(0, 4)] * 5)
    assert lower_bound(model) == pytest.approx(4 * 1.2 + 4 * 1.3 + 2 * 1.4)


@settings(max_examples=6)
@given(SEEDS)
def test_clipped_searches_converge_to_the_value(seed: int) -> None:
    """Of hundreds of such problems the worst errors were 0.0001 of the value (exact backups),
    0.0008 (by visits) and, of UCT, which keeps exploring, 0.009; a bound that was none left BTS
    18 % off."""
    model = random_problem(seed)
    exact = exact_value(model)
    scale = max(abs(exact), 1.0)
    backed = plan(model, planner=BTS(30_000, bellman=True), clip=True, seed=seed)
    assert backed.values[backed.index] == pytest.approx(exact, abs=0.002 * scale)
    for planner, share in ((BTS(100_000), 0.005), (UCT(300_000), 0.03)):
        found = plan(model, planner=planner, clip=True, seed=seed)
        assert found.value == pytest.approx(exact, abs=share * scale)
        assert found.bounds is not None
        slack = 1e-9 * scale
        assert found.bounds.low - slack <= exact <= found.bounds.high + slack


def test_bounds_contain_the_value_whatever_the_seed() -> None:
    exact = exact_value(BUDGETED)
    assert exact == pytest.approx(22.405)
    for seed in range(50):
        bounds = plan(BUDGETED, planner=UCT(20), seed=seed).bounds
        assert bounds is not None
        assert bounds.low <= exact <= bounds.high
    for seed in range(3):
        assert plan(BUDGETED, planner=BTS(50_000), seed=seed).value == pytest.approx(
            exact, abs=0.03
        )


def test_the_bound_is_that_of_the_offered_actions() -> None:
    """Prices 1, then 3 for sure; 3 units, at most 2 a step: 2 x 3 + 1 = 7 with any amounts, but
    only 0 and 2 are offered in the first step: 6."""
    process = MarkovModes([[0.0, 1.0], [0.0, 1.0]], 0, indicators=True)
    stock = Resource(3.0)
    offered = ExogenousMDP(process, [[1.0, 3.0]], stock, [(0, 2), (0, 2)])
    assert exact_value(offered) == pytest.approx(6.0)
    plan_value = offered.allocate(offered.mean_path()[None]).values[0]
    assert plan_value == pytest.approx(7.0)
    assert lower_bound(offered) == pytest.approx(6.0)
    finer = ExogenousMDP(process, [[1.0, 3.0]], stock, [(0, 2), (0, 2)], action_set=3)
    assert exact_value(finer) == pytest.approx(7.0)
    assert lower_bound(finer) == pytest.approx(7.0)


def test_without_a_plan_there_is_no_bound() -> None:
    """Adding pays although it spills: no allocation is known to be best."""
    model = ExogenousMDP(
        BinomialLattice(10, 0.0, 0.5, 0.25),
        [[1.0]],
        Resource(3, 5, +1, [3, -2, 1, -3], spill=True),
        [(0, 4)] * 4,
    )
    assert lower_bound(model) == -math.inf
    found = plan(model, planner=BTS(20_000, bellman=True, leaf="rollout"))
    assert found.bounds is None
    assert found.value == pytest.approx(exact_value(model), rel=1e-3)


# --- What cannot be done is refused -----------------------------------------------------------


def test_actions_that_break_a_bound_are_refused() -> None:
    x, d = np.tile([1.0, 0.0], (3, 1)), np.tile([10.0, 0.0], (3, 1))
    rewards, after = BUDGETED.step(0, x, d, np.array([[0.0], [2.5], [5.0 + 1e-9]]))
    assert rewards.tolist() == pytest.approx([0.0, 2.5, 5.0])
    assert after[:, 1].tolist() == pytest.approx([0.0, 2.5, 5.0])
    for amount in (5.1, -0.1, 1000.0, math.nan):
        with pytest.raises(InfeasibleError, match=r"at t=0 with resource .* between 0 and 5 may"):
            BUDGETED.step(0, x, d, np.array([[0.0], [amount], [5.0]]))
    # The budget must still be reached later: 8 in all, 5 a step.
    with pytest.raises(InfeasibleError, match=r"action \[1.0\] at t=3 .* between 3 and 5 may"):
        BUDGETED.step(3, x[:1], np.array([[10.0, 0.0]]), np.array([[1.0]]))


def test_no_resource_gives_more_than_it_has() -> None:
    process = MarkovModes([[1.0]], 0, indicators=True)
    pair = ExogenousMDP(process, [[1.0], [2.0]], [Resource(5), Resource(1)], [(0, 3)] * 2)
    x, d = np.ones((1, 1)), np.array([[5.0, 1.0]])
    assert pair.step(0, x, d, np.array([[2.0, 1.0]]))[0][0] == pytest.approx(4.0)
    with pytest.raises(InfeasibleError, match="of no resource more than there is"):
        pair.step(0, x, d, np.array([[1.0, 2.0]]))
