"""Storages: hindsight, exact values, offered actions and words."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.domains import dispatch, storage
from counterplan.domains.storage import Demand, Flow, Limit, Storage, Store, read_rate
from counterplan.errors import CounterplanError, InfeasibleError, NotApplicableError
from counterplan.planning.model import State
from counterplan.planning.policies import played
from counterplan.planning.processes import GBM, BinomialLattice, MarkovModes
from counterplan.planning.stages import allocate_stages
from counterplan.testing import check_model

from .storage_support import (
    Oracle,
    chain,
    chain_of_reservoirs,
    limited,
    ramped_battery,
    random_battery,
    tight_battery,
    tree,
    two_batteries,
)

MAKERS = {
    "reservoirs": chain_of_reservoirs,
    "batteries": two_batteries,
    "ramped batteries": lambda rng, horizon: two_batteries(rng, horizon, ramp=True),
    "ramped": ramped_battery,
}
MAKERS |= {
    f"limited {kind}": lambda rng, horizon, kind=kind: limited(rng, MAKERS[kind](rng, horizon))
    for kind in ("reservoirs", "batteries", "ramped")
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


@pytest.mark.parametrize("seed", range(10))
def test_there_is_always_a_way_on(seed: int) -> None:
    problem = tight_battery(np.random.default_rng(seed), horizon=1 + seed % 4)
    check_model(problem, seed=seed)
    path = problem.sample_path(seed)
    expected = Oracle(problem, chain(path)).solve()
    assert problem.allocate(path[None]).values[0] == pytest.approx(expected, rel=1e-9, abs=1e-7)
    expected = Oracle(problem, tree(problem)).solve()
    assert cp.exact_value(problem) == pytest.approx(expected, rel=1e-9, abs=1e-7)
    cp.evaluate(problem, cp.policies.OpenLoop(), 20)


@pytest.mark.parametrize("seed", range(40))
def test_shared_limits_and_efficiencies_by_step(seed: int) -> None:
    """Hindsight and exact value of one storage, or that nothing is possible."""
    rng = np.random.default_rng(seed)
    maker = random_battery if seed % 2 else tight_battery
    one = maker(rng, horizon=1 + seed % 4)
    path = one.sample_path(seed)
    try:
        problem = limited(rng, one)
    except InfeasibleError:  # a demand that must be met, or flows that must run
        assert maker is tight_battery or any(demand.lost_at is None for demand in one.demands)
        return
    for nodes, find in (
        (chain(path), lambda: problem.allocate(path[None]).values[0]),
        (tree(problem), lambda: cp.exact_value(problem)),
    ):
        expected = Oracle(problem, nodes).solve()
        if expected is None:
            with pytest.raises(InfeasibleError):
                find()
        else:
            assert find() == pytest.approx(expected, rel=1e-9, abs=1e-7)
            check_model(problem, seed=seed)


def test_a_limit_is_shared_whatever_serves_the_demand() -> None:
    """One connection for charging and for what is imported, and what may leave it in all."""
    flows = [
        Flow("charge", into="a", most=2, pays="price", efficiency=[0.9, 0.8, 0.9]),
        Flow("serve", out_of="a", into="town"),
        Flow("import", into="town", pays="price"),
        Flow("export", out_of="a", most=2, earns="price"),
    ]
    limits = [
        Limit("connection", ["charge", "import"], most=0.8),
        Limit("net", {"export": 1, "charge": -1, "import": -1}, most="0.02 * price"),
    ]
    process = BinomialLattice(40, 0, 0.9, 0.1)
    town = Demand("town", [1, 2, 1], lost_at=90)
    problem = Storage(process, 3, Store("a", 3, 0.5), flows, town, names=["price"], limits=limits)
    expected = Oracle(problem, tree(problem)).solve()
    assert cp.exact_value(problem) == pytest.approx(expected, rel=1e-9)
    assert cp.exact_value(replace(problem, limits=())) > expected + 1.0
    found = cp.plan(problem, planner=cp.UCT(200), seed=0)
    assert found.value == pytest.approx(expected, abs=4 * found.se + 1e-6)
    x, level = problem.start.exogenous[None], np.array([[0.5]])
    with pytest.raises(InfeasibleError, match="limit 'connection': its flows come to 2, not at"):
        problem.step(0, x, level, np.array([[1.0, 0.0, 1.0, 0.0, 0.0]]))


def test_what_x_takes_from_a_demand_is_not_overlooked() -> None:
    process = cp.processes.MarkovModes([[0.5, 0.5], [0.5, 0.5]], indicators=True)
    flows = [Flow("serve", out_of="s", into="d", most=0.5), Flow("sun", into="d", most="2 - 2*b")]
    problem = Storage(process, 3, Store("s", 5, 2), flows, Demand("d", 1.0), names=("a", "b"))
    assert Oracle(problem, tree(problem)).solve() is None
    with pytest.raises(InfeasibleError, match="lost_at"):
        cp.exact_value(problem)
    with pytest.raises(InfeasibleError, match="lost_at"):
        cp.hindsight(problem, [[1, 0], [0, 1], [1, 0]])


@pytest.mark.parametrize("ramp", [None, 1.0])
def test_x_that_is_not_at_its_worst_in_all_things_at_once(ramp: float | None) -> None:
    """Either rain or cheap power comes, never neither: what must be served can be."""
    process = MarkovModes([[0.0, 0.5, 0.5]] * 3, indicators=True)
    flows = [
        Flow("charge", into="s", most="0.6 * c", pays=3.0, ramp=ramp),
        Flow("sell", out_of="s", most=1.0, earns=2.0),
        Flow("serve", out_of="s", into="d"),
    ]
    store = Store("s", capacity=2.0, start=0.5, inflow="0.6 * b", spill=True)
    given: Any = (process, 4, store, flows)
    problem = Storage(*given, Demand("d", 0.5), names=("a", "b", "c"))
    truth = Oracle(problem, tree(problem)).solve()
    assert truth is not None
    assert problem.optimal_value() == pytest.approx(truth, abs=1e-9)
    found = cp.plan(problem, cp.UCT(20))
    assert found.value == pytest.approx(truth, abs=1e-6 if ramp is None else 5 * found.se + 1e-6)
    for rule in (cp.policies.Greedy(), cp.policies.Resolve()):
        played = cp.evaluate(problem, rule, 40)  # to the end, on all futures
        assert played.mean <= truth + 5 * played.se

    def late() -> float:
        demand = Demand("d", [0.5, 0.5, 0.5, 1.0])
        return Storage(*given, demand, names=("a", "b", "c")).optimal_value()

    with pytest.raises(InfeasibleError):
        late()


def test_what_cannot_be_is_no_obstacle() -> None:
    """A successor with a chance of 0."""
    process = MarkovModes([[0.5, 0.5, 0.0]] * 3, indicators=True)
    store = Store("s", capacity=2.0, start=0.5, inflow="0.6 * b + 0.6 * a", spill=True)
    problem = Storage(
        process,
        3,
        store,
        [Flow("sell", out_of="s", most=1.0, earns=2.0), Flow("serve", out_of="s", into="d")],
        Demand("d", 0.5),
        names=("a", "b", "c"),
    )
    assert problem.optimal_value() == pytest.approx(2.0 * (0.5 + 3 * 0.6 - 3 * 0.5), abs=1e-9)


def test_what_modes_mean() -> None:
    matrix = [[0.7, 0.3], [0.4, 0.6]]
    flows = [Flow("sell", out_of="a", most=1, earns="price")]
    process = cp.processes.MarkovModes(matrix, indicators=True)
    by_name = Storage(process, 3, Store("a", 3, 2), flows, values={"price": (20, 80)})
    flows = [Flow("sell", out_of="a", most=1, earns="20 * low + 80 * high")]
    by_mode = Storage(process, 3, Store("a", 3, 2), flows, names=("low", "high"))
    assert cp.exact_value(by_name) == pytest.approx(cp.exact_value(by_mode), rel=1e-12)
    assert by_name.columns().path(np.array([[80.0], [20.0]])).tolist() == [[0.0, 1.0], [1.0, 0.0]]


@pytest.mark.parametrize("seed", range(6))
def test_models_are_consistent(seed: int) -> None:
    check_model(random_battery(np.random.default_rng(seed), horizon=4))


@pytest.mark.parametrize("kind", MAKERS)
def test_models_of_several_are_consistent(kind: str) -> None:
    check_model(MAKERS[kind](np.random.default_rng(1), horizon=4))


@pytest.mark.parametrize("kind", [*MAKERS, "one"])
def test_the_best_few_changes_are_the_best_of_all_choices_of_steps(kind: str) -> None:
    for seed in range(3):
        problem = {**MAKERS, "one": random_battery}[kind](np.random.default_rng(seed), horizon=4)
        path, sign = problem.sample_path(seed), 1.0 if problem.sense == "max" else -1.0
        rule = cp.policies.OpenLoop().prepare(problem)
        done = played(problem, rule, path, problem.start)
        expected = sign * done.value
        for steps in itertools.combinations(range(4), 2):
            oracle = Oracle(problem, chain(path))
            kept = {t: done.actions[t] for t in range(4) if t not in steps}
            oracle.keep(kept, slack=1e-9)
            expected = max(expected, sign * (oracle.solve() or -sign * np.inf))
        found = cp.explain(problem, cp.Episode(path, done.actions), k=2)
        assert sign * found.value == pytest.approx(expected, rel=1e-6, abs=1e-6)
        assert found.status == "optimal"
        assert len(found.changes) <= 2


def test_regret_cuts_and_bounds_take_it() -> None:
    problem = two_batteries(np.random.default_rng(0), horizon=3)
    best = Oracle(problem, tree(problem)).solve()
    cuts = cp.policies.Cuts(gap=1e-7).solve(problem)
    assert cuts.bound == pytest.approx(best, rel=1e-6)
    bounds = cp.value_bounds(problem, 200, seed=0)
    assert bounds.lower - 4 * bounds.lower_se <= best <= bounds.upper + 4 * bounds.upper_se
    path = problem.sample_path(2)
    done = played(problem, cp.policies.OpenLoop().prepare(problem), path, problem.start)
    found = cp.regret(problem, path, done.actions, policy=cp.policies.OpenLoop())
    assert found.regret_hindsight >= 0.0
    assert found.regret_policy == pytest.approx(0.0, abs=1e-7)


def test_words_and_units() -> None:
    battery = Storage(
        GBM(40.0, 0.0, 0.5, dt=1 / 24),
        6,
        Store("battery", capacity=4, start=2, unit="MWh"),
        [
            Flow("charge", into="battery", most=1, pays="price"),
            Flow("discharge", out_of="battery", earns="0.9 * price - 1", segments=[(1, 0), (1, 2)]),
            Flow("supply", out_of="battery", into="town", most=1),
        ],
        Demand("town", 0.5, lost_at=500),
        names=["price (EUR/MWh)"],
        step_name="hour",
    )
    check_model(battery)
    assert battery.axes().observed == ("price (EUR/MWh)",)
    assert battery.axes().actions[1:3] == ("discharge (MWh)", "discharge 2 (MWh)")
    assert battery.describe(np.array([0, 1, 0.5, 0, 0.5])) == "discharge 1.5 MWh, lost town 0.5"
    table = battery.columns()
    assert [one.name for one in table.decisions] == ["charge", "discharge", "supply"]
    path = np.full((6, 1), 40.0)
    actions = table.actions(path, battery.start, np.tile([0.0, 1.5, 0.25], (1, 1)))
    assert actions.tolist() == [[0.0, 1.0, 0.5, 0.25, 0.25]]
    assert table.written(path[:1], actions).tolist() == [[40.0, 0.0, 1.5, 0.25]]
    with pytest.raises(InfeasibleError, match="leaves battery at -"):
        battery.step(0, path[:1], np.array([[0.1]]), actions)
    assert "price" in str(battery.columns().observed)


def modes(store: Store, flow: Flow, *more: Any, **values: Any) -> Storage:
    process = cp.processes.MarkovModes([[0.5, 0.5], [0.5, 0.5]], indicators=True)
    return Storage(process, 3, [store, *more], flow, values={"price": (10, 20), **values})


TANK = Store("b", capacity=1, start=0.5)


@pytest.mark.parametrize("more", [(), (TANK,)], ids=["one", "two"])
def test_a_limit_below_0_counts_as_0(more: Any) -> None:
    sold = Flow("sell", out_of="a", most="cap", earns="price")
    problem = modes(Store("a", capacity=2, start=1), sold, *more, cap=(1, -0.5))
    assert cp.exact_value(problem) == pytest.approx(10.0, rel=1e-9)
    assert cp.hindsight(problem, np.eye(2)[[0, 1, 0]]).value == pytest.approx(10.0, rel=1e-9)
    assert cp.policies.Cuts().solve(problem).bound == pytest.approx(10.0, rel=1e-6)
    check_model(problem)
    if not more:
        assert cp.evaluate(problem, cp.policies.Optimal(), 10, seed=0).mean == pytest.approx(10.0)


@pytest.mark.parametrize("more", [(), (TANK,)], ids=["one", "two"])
def test_an_inflow_that_takes_leaves_no_dead_end(more: Any) -> None:
    lake = Store("lake", 1, 0.5, least=0.2, inflow="net", spill=True, end_value=10)
    turbine = Flow("turbine", out_of="lake", most=0.7, earns="price")
    problem = modes(lake, turbine, *more, net=(0.2, -0.1))
    assert problem.has_dead_ends
    assert cp.exact_value(problem) == pytest.approx(11.0, rel=1e-4 if more else 1e-9)
    assert cp.plan(problem, planner=cp.UCT(50), seed=0).value <= 11.0 + 1.0
    cp.evaluate(problem, cp.policies.OpenLoop(), 100, seed=0)
    bounds = cp.value_bounds(problem, 50, seed=0)
    assert bounds.lower <= 11.0 <= bounds.upper + 4 * bounds.upper_se
    check_model(problem)


def test_an_inflow_without_bound_is_named() -> None:
    process = cp.processes.Autoregression([0.0], [0.5], [[0.0]], [[1.0]])
    lake = Store("lake", 1, 0.5, inflow="net", spill=True)
    sold = Flow("turbine", out_of="lake", most=1, earns=1)
    problem = Storage(process, 4, lake, sold, names=["net"])
    with pytest.raises(InfeasibleError, match=r"inflow 'net' of lake takes up to .*lost_at"):
        cp.evaluate(problem, cp.policies.OpenLoop(), 100, seed=0)
    with pytest.raises(InfeasibleError, match=r"inflow 'net' of lake takes up to 5"):
        problem.allocate(np.array([[[0.0], [0.0], [-5.0], [0.0]]]))


def test_a_factor_may_follow_its_name() -> None:
    names = ("price", "wind")
    for text in ("price * 2 - wind*.5 + 3", "2 * price - 0.5 wind + 3"):
        fixed, slopes = read_rate(text, names, 1, "pays")
        assert (fixed.tolist(), slopes.tolist()) == ([3.0], [[2.0, -0.5]])
    for text in ("price * wind", "price * 2 3", "price * 2wind"):
        with pytest.raises(CounterplanError, match="cannot be read at"):
            read_rate(text, names, 1, "pays")


WRONG: dict[str, Any] = {
    "a share such as 0.95": lambda: Flow("f", into="a", most=1, efficiency=95),
    "keep must": lambda: Store("a", 3, keep=0),
    "exceeds the capacity": lambda: Store("a", 3, start=4),
    "say where it comes from": lambda: Flow("f", most=1),
    "into itself": lambda: Flow("f", "a", "a"),
    "not convex": lambda: Flow("f", into="a", segments=[(1, 2), (1, 1)]),
    "is no storage: there is a": lambda: battery(Flow("f", out_of="lake", most=1)),
    "at least one storage": lambda: Storage(GBM(1, 0, 0.1, 1), 3, [], []),
    "may not fit": lambda: battery(store=Store("a", 3, inflow="price")),
    "texts, one for each number": lambda: battery(names=["price", "wind"]),
    "has 2 entries": lambda: battery(Flow("f", into="a", most=1, efficiency=[0.9, 0.8])),
    "'charje' is no flow: did you mean 'charge'?": lambda: battery(
        limits=Limit("l", ["charje"], 1)
    ),
    "list of names": lambda: Limit("l", "charge", 1),
    "names no flow": lambda: Limit("l", {"charge": 0}, 1),
    "weight of 'charge' must be": lambda: Limit("l", {"charge": np.nan}, 1),
    "come to 2 at least, more than the most 1": lambda: battery(
        Flow("f", into="a", most=3, least=2), limits=Limit("l", ["f"], [3, 1, 3])
    ),
    "flows must be Flow": lambda: battery("charge"),
    "is no process": lambda: Storage(3, 3, [], []),  # type: ignore[arg-type]
}


def battery(*flows: Any, store: Store | None = None, **given: Any) -> Storage:
    some = flows or (Flow("charge", into="a", most=1, pays="price"),)
    return Storage(GBM(40.0, 0.0, 0.5, 0.1), 3, store or Store("a", 3), some, **given)


@pytest.mark.parametrize("said", WRONG)
def test_bad_statements(said: str) -> None:
    with pytest.raises(CounterplanError) as problem:
        WRONG[said]()
    assert said in str(problem.value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("kind", ["reservoirs", "batteries", "ramped"])
def test_two_numbers_have_an_exact_value_with_its_error(kind: str) -> None:
    problem = MAKERS[kind](np.random.default_rng(5), horizon=4)
    best = Oracle(problem, tree(problem)).solve()
    assert abs(cp.exact_value(problem) - best) <= problem.value_error + 1e-7 * abs(best)
    assert problem.value_error <= 1e-4 * abs(best)


@pytest.mark.parametrize("kind", ["reservoirs", "batteries", "ramped"])
def test_both_sides_hold_where_the_tree_is_not_played_whole(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between points from below, by cuts from above: at the start, and at another state."""
    monkeypatch.setattr("counterplan.planning.cuts.WHOLE_TREE", 0)
    problem = MAKERS[kind](np.random.default_rng(5), horizon=4)
    start = problem.start
    for given in (start, start._replace(resource=0.5 * start.resource)):
        begins = tuple(
            replace(one, start=float(level))
            for one, level in zip(problem.storages, given.resource, strict=False)
        )
        ramped = (replace(one, before=0.5 * one.before) if given is not start else one
                  for one in problem.flows)  # fmt: skip
        there = replace(problem, storages=begins, flows=tuple(ramped))
        best, found = Oracle(there, tree(there)).solve(), problem.value_within(given)
        slack = 1e-7 * abs(best)
        assert found.low - slack <= best <= found.high + slack
        assert found.high - found.low <= 1e-3 * abs(best)
        assert cp.exact_value(problem, given) == found.value


def test_more_numbers_are_refused_with_what_applies() -> None:
    problem = two_batteries(np.random.default_rng(0), ramp=True)
    with pytest.raises(NotApplicableError, match=r"policies\.Cuts"):
        cp.exact_value(problem)


@pytest.mark.parametrize("process", [GBM(40, 0, 0.9, 0.1), BinomialLattice(40, 0, 0.9, 0.1)])
def test_plans_by_search_are_close_to_the_optimum(process: Any) -> None:
    flows = [
        Flow("charge", into="a", most=1, pays="price", efficiency=0.9),
        Flow("discharge", out_of="a", most=1, earns="price", efficiency=0.9),
    ]
    problem = Storage(process, 6, Store("a", 3, 1.5), flows)
    lattice = Storage(BinomialLattice(40, 0, 0.9, 0.1), 6, Store("a", 3, 1.5), flows)
    best, loop = cp.exact_value(lattice), cp.evaluate(problem, cp.policies.OpenLoop(), 400, seed=1)
    found = cp.plan(problem, planner=cp.UCT(500), seed=0)
    # The lattice's law is close to the other's; 3 % of the value are far more than they differ by.
    assert found.value >= best - 4 * found.se - 0.03 * best
    assert found.value >= loop.mean - 4 * (found.se + loop.se)


@pytest.mark.parametrize("kind", ["reservoirs", "batteries", "ramped"])
def test_plans_of_several_choose_among_all_flows(kind: str) -> None:
    problem = MAKERS[kind](np.random.default_rng(0), horizon=5)
    best = Oracle(problem, tree(problem)).solve()
    found = cp.plan(problem, planner=cp.UCT(50), seed=0)
    assert found.basis.startswith("cuts")
    assert found.value == pytest.approx(best, abs=4 * found.se)


# Where a number of a statement stands.
PLACES: dict[str, Any] = {
    "capacity": lambda v: battery(store=Store("a", v)),
    "start": lambda v: battery(store=Store("a", 3, v)),
    "keep": lambda v: battery(store=Store("a", 3, keep=v)),
    "inflow": lambda v: battery(store=Store("a", 3, inflow=[0, v, 0], spill=True)),
    "end_value": lambda v: battery(store=Store("a", 3, end_value=v)),
    "most": lambda v: battery(Flow("f", into="a", most=v)),
    "least": lambda v: battery(Flow("f", into="a", most=1, least=[0, v, 0])),
    "efficiency": lambda v: battery(Flow("f", into="a", most=1, efficiency=[1, v, 1])),
    "pays": lambda v: battery(Flow("f", into="a", most=1, pays=v)),
    "factor": lambda v: battery(Flow("f", into="a", most=1, pays=f"{abs(v):f} * price")),
    "segment": lambda v: battery(Flow("f", into="a", segments=[(1, 0), (1, v)])),
    "ramp": lambda v: battery(Flow("f", into="a", most=1, ramp=v)),
    "amount": lambda v: battery(demands=Demand("d", v, 1)),
    "lost_at": lambda v: battery(demands=Demand("d", 1, v)),
    "weight": lambda v: battery(limits=Limit("l", {"charge": v}, 1)),
    "limit": lambda v: battery(limits=Limit("l", ["charge"], v)),
    "value": lambda v: modes(TANK, Flow("f", out_of="b", most=1), more=(1, v)),
    "chance": lambda v: cp.processes.MarkovModes([[1 - v, v], [0.5, 0.5]]),
}


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308, 1e10])
@pytest.mark.parametrize("place", PLACES)
def test_numbers_that_nothing_can_be_proved_with_are_refused(place: str, value: float) -> None:
    with pytest.raises(CounterplanError) as problem:
        PLACES[place](value)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize("price", [1.0, 9e8])
def test_large_numbers_lose_nothing(price: float) -> None:
    """A fee that nobody pays, or a price at which all is sold: other numbers count beside it."""
    flows = [
        Flow("never", into="a", most=1, pays=1e9),
        Flow("sell", out_of="a", most=1, earns=price),
    ]
    process = BinomialLattice(40, 0, 0.9, 0.1)
    problem = Storage(process, 3, Store("a", 1e9, 2.5, end_value=0.25), flows)
    assert cp.exact_value(problem) == pytest.approx(2.5 * price, rel=1e-12)


def test_x_that_is_no_number_is_refused_and_harms_no_memory() -> None:
    problem = random_battery(np.random.default_rng(1), horizon=4)
    for wrong in (np.nan, np.inf, -np.inf, 1e200):
        path = problem.sample_path(0)
        path[2] = wrong
        with pytest.raises(CounterplanError):
            cp.hindsight(problem, path)
        with pytest.raises(CounterplanError):
            problem.allocate(path[None])
        with pytest.raises(CounterplanError):
            problem.actions(State(2, path[2], problem.start.resource))
        with pytest.raises(CounterplanError):
            problem.value_within(State(2, path[2], problem.start.resource))
        # Compiled code itself stays within its arrays.
        values, flows = np.empty(1), np.empty((1, 4, len(problem._table.labels)))
        dispatch.along_paths(problem._numbers, 0, 1.0, path[None], values, flows)
        rows = np.empty((problem.most_actions, len(problem._table.labels)))
        count = dispatch.actions(problem._numbers, 2, path[2], problem.start.resource, rows)
        assert 1 <= count <= problem.most_actions


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"covariance": [[2500.0]]}, r"typical factor of e\^50"),
        ({"covariance": [[np.nan]]}, "covariance"),
        ({"phi": [1.2]}, "phi is 1.2"),
        ({"profile": [[np.inf]]}, "profile must be finite"),
        ({"shift": np.nan}, "shift must be finite"),
        ({"shocks": [[np.nan]]}, "shocks must be finite"),
        ({"initial": [1e308]}, "so large"),
    ],
)
def test_processes_that_leave_all_bounds_are_refused(given: Any, said: str) -> None:
    stated = {"initial": [40.0], "phi": [0.9], "profile": [[3.7]], "covariance": [[0.1]]}
    sell = Flow("f", out_of="b", most=1, earns="price")
    with pytest.raises(CounterplanError, match=said):
        Storage(cp.processes.Autoregression(**{**stated, "logs": True, **given}), 3, TANK, sell)


def test_futures_that_differ_in_prices_share_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds of two reservoirs took a program for every future and step, minutes of them."""
    problem = Storage(
        process=cp.processes.Autoregression(40.0, 0.8, 40.0, 12.0),
        horizon=5,
        storages=[
            Store("upper", capacity=20, start=8, inflow=1, spill=True, end_value=15),
            Store("lower", capacity=9, start=2, spill=True, end_least=1),
        ],
        flows=[
            Flow("turbine", out_of="upper", into="lower", most=5, earns="0.8 * price"),
            Flow("pump", out_of="lower", into="upper", most=3, efficiency=0.75, pays="price"),
            Flow("release", out_of="lower", most=4, earns="0.4 * price", ramp=2),
        ],
    )
    asked, solve = [], storage.closest_flows

    def counted(*given: Any) -> Any:
        asked.append(given)
        return solve(*given)

    monkeypatch.setattr(storage, "closest_flows", counted)
    x, wanted = problem.sample_paths(50, seed=0)[:, 1], np.array([5.0, 0.0, 4.0, 0.0, 0.0])
    levels = np.array([[8.0, 2.0, 0.0], [3.0, 9.0, 1.0]])[np.arange(50) % 2]
    together = problem.feasible(1, x, levels, np.tile(wanted, (50, 1)))
    assert len(asked) == 2
    for i in range(4):
        alone = problem.feasible(1, x[i : i + 1], levels[i : i + 1], wanted[None])
        assert np.array_equal(alone[0], together[i])


def test_a_process_of_ones_own_is_not_called_by_an_inner_name() -> None:
    class Wind:
        start = np.array([6.0])

        def draw(self, t: int, x: Any, generator: Any) -> Any:
            return x + generator.normal(0.0, 1.5, x.shape)

    sell = Flow("sell", out_of="b", most=1, earns="price")
    with pytest.raises(NotApplicableError, match=r"^x takes more values than can be listed"):
        cp.exact_value(Storage(Wind(), 3, TANK, sell))  # type: ignore[arg-type]
