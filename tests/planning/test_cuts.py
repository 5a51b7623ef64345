"""Dual dynamic programming: published values, scenario trees as oracles, bounds, and refusals."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import counterplan as cp
from counterplan.core.limits import Limits, Progress
from counterplan.domains.storage import Flow, Storage, Store
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.planning.cut_table import cut_value
from counterplan.planning.model import State
from counterplan.planning.policies import Policy
from counterplan.planning.stages import Stage

from .published import farm, hydro_valley
from .staged import Staged, random_staged, tree_value

Cuts = cp.policies.Cuts


@pytest.mark.parametrize(
    ("model", "risk", "value", "tolerance"),
    [
        (hydro_valley(inflows=False, prices=False), 1.0, 835.0, 1e-3),
        (hydro_valley(inflows=True, prices=False), 1.0, 838.33, 1e-2),
        (hydro_valley(inflows=False, prices=True), 1.0, 851.8, 1e-2),
        (hydro_valley(inflows=True, prices=True), 1.0, 855.0, 1e-6),
        (hydro_valley(inflows=True, prices=True), (0.5, 0.66), 828.157, 1e-3),
        (hydro_valley(inflows=True, prices=True, sense="min"), (0.5, 1e-9), -780.867, 1e-3),
        (farm(), 1.0, 4074.1391, 1e-5),
    ],
)
def test_published_values(model: Staged, risk: Any, value: float, tolerance: float) -> None:
    """SDDP.jl's, to its own tolerances or closer."""
    found = Cuts(risk=risk, gap=1e-9).solve(model)
    assert found.bound == pytest.approx(value, abs=tolerance)
    assert found.value == pytest.approx(value, abs=tolerance)
    assert found.status == "optimal"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("risk", [1.0, 0.3, (0.5, 0.25)])
def test_converges_to_the_scenario_tree(seed: int, risk: Any) -> None:
    """Storages in a chain, prices that multiply quantities, inflows drawn anew: bounds hold at
    every round, and the gap closes."""
    model = random_staged(seed, ("max", "min")[seed % 2], steps=3)
    weights = (0.0, risk) if isinstance(risk, float) else risk
    exact, sign = tree_value(model, weights), 1.0 if model.sense == "max" else -1.0
    found = Cuts(risk=risk, gap=1e-8, iterations=300).solve(model, seed)
    assert (sign * (found.bounds - exact) >= -1e-7).all()
    assert sign * (found.value - exact) <= 1e-7
    assert found.bound == pytest.approx(exact, rel=1e-5)
    assert found.value == pytest.approx(exact, rel=1e-5)


def test_equal_futures_share_their_cuts() -> None:
    """Six nodes at a time, but three prices: what follows depends on these alone."""
    found = Cuts(iterations=2).solve(random_staged(0))
    assert [len(programs) for programs in found.training.programs] == [1, 3, 3, 1]


def test_a_larger_tree_is_sampled_without_its_luck() -> None:
    """300,000 futures: the value's error is a fraction of what futures differ by."""
    model = random_staged(5, steps=8)
    found = Cuts(gap=5e-3, samples=20).solve(model, seed=3)
    played = cp.evaluate(model, found, episodes=60, seed=1)
    assert found.relative_gap <= 5e-3
    assert 0.0 < found.se < 0.2 * played.se
    assert abs(played.mean - found.bound) < 4.0 * played.se
    assert "10" not in found.method
    assert found.played == (found.value, found.se)


def must_serve(stored: float = 2.0) -> Staged:
    """A demand of up to 3 in the last step, which only what was bought before can serve."""
    buying = Stage.of([[1.0]], 1, most=2.0, most_level=10.0, price_x=[[1.0]])
    serving = Stage.of(
        [[-1.0]], 1, rows=[[1.0]], rows_x=[[-1.0]], low=[0.0], high=[0.0], hold=[-0.5]
    )
    values = [np.array([[1.0]]), np.array([[0.5], [5.0]]), np.array([[1.0], [3.0]])]
    chances = [np.array([[0.5, 0.5]]), np.full((2, 2), 0.5)]
    return Staged([buying, buying, serving], values, chances, np.array([stored - 2.0]), "min")


def test_levels_that_end_badly_are_avoided() -> None:
    model = must_serve()
    found = Cuts(gap=1e-9).solve(model)
    assert found.value == pytest.approx(tree_value(model), abs=1e-8)
    assert found.bound == pytest.approx(tree_value(model), abs=1e-8)
    played = cp.evaluate(model, found, episodes=20)
    assert (played.actions[:, :2].sum(axis=(1, 2)) >= 3.0 - 1e-9).all()
    slow = replace(model.stages[0], most=np.array([1.0]))
    with pytest.raises(InfeasibleError, match="from the start on"):
        Cuts().solve(replace(model, stages=[slow, slow, model.stages[2]]))


def test_it_is_a_policy_with_limits_and_progress() -> None:
    model, seen = random_staged(2), list[Progress]()
    assert isinstance(Cuts(), Policy)
    assert isinstance(Cuts(iterations=3).solve(model), Policy)

    def stop(progress: Progress) -> bool:
        seen.append(progress)
        return progress.done < 4

    found = Cuts(gap=0.0).solve(model, progress=stop)
    assert found.iterations == len(seen) == 4
    assert found.status == "limit"
    assert seen[-1].total == 1000
    assert Cuts(gap=0.0, limits=Limits(nodes=5)).solve(model).iterations == 5
    assert Cuts(gap=0.0, limits=Limits(gap=1e9)).solve(model).iterations == 8
    one, other = (Cuts(iterations=5).solve(model, seed=7) for _ in range(2))
    assert (one.bound, one.value) == (other.bound, other.value)
    rule = Cuts(iterations=5).prepare(model, 7)
    start = model.start
    assert rule(0, start.exogenous[None], start.resource[None]).shape == (1, 8)


def battery(horizon: int = 8) -> Any:
    """One storage, whose optimum is known by another algorithm; price multiplies quantity, by day
    and by night."""
    day = [f"{one:g} * price" for one in (1.0 + 0.4 * np.sin(np.arange(horizon))).round(3)]
    return Storage(
        process=cp.processes.BinomialLattice(40.0, 0.0, 0.8, 1 / 24),
        horizon=horizon,
        storages=Store("battery", capacity=10, start=5, keep=0.995),
        flows=[
            Flow("charge", into="battery", most=2.5, efficiency=0.95, pays=day),
            Flow("discharge", out_of="battery", most=2.5, efficiency=0.9, earns=day),
        ],
    )


@pytest.mark.compiles
@pytest.mark.parametrize("horizon", [8, 24])
def test_where_price_multiplies_quantity(horizon: int) -> None:
    """Within 0.5 % of the exact value on a lattice, and much closer."""
    model = battery(horizon)
    exact = cp.exact_value(model)
    found = Cuts(gap=1e-4, samples=50).solve(model)
    assert found.bound == pytest.approx(exact, rel=3e-4)
    assert found.bound >= exact - 1e-7
    assert abs(found.value - exact) < 4.0 * found.se + 3e-4 * exact


@pytest.mark.compiles
def test_cuts_bound_the_value_and_are_leaves_of_a_search() -> None:
    model = battery()
    exact = cp.exact_value(model)
    bounds = cp.value_bounds(model, method="cuts", samples=50)
    assert bounds.lower - 4.0 * bounds.lower_se - 1e-7 <= exact <= bounds.upper + 1e-7
    assert bounds.upper_se == 0.0
    assert bounds.upper == pytest.approx(exact, rel=2e-3)
    found = Cuts(gap=1e-6, samples=50).solve(model)
    known = found.informing(model)
    for t, node in ((1, 0), (3, 1), (6, 4)):
        x = found.training.lattice.values[t][node]
        for level in (0.3, 4.0, 9.9):
            state = State(t, x, np.array([level]))
            above = cut_value(found.tables, *state)
            assert above == pytest.approx(cp.exact_value(model, state), rel=0.03)
            assert above >= cp.exact_value(model, state) - 1e-7
    # Of another price at the start nothing was solved, so nothing bounds it.
    assert cut_value(found.tables, 0, model.start.exogenous + 7.0, np.array([4.0])) == np.inf
    made = cp.plan(known, planner=cp.UCT(1000, leaf="bounds"))
    assert made.bounds.high == pytest.approx(exact, rel=1e-6)
    assert made.bounds_se[1] == 0.0 < made.bounds_se[0] == made.se
    assert "executed policy and cuts" in made.basis
    for action, value, visits in zip(made.actions, made.values, made.visits, strict=True):
        if visits > 0:  # a mean over all that was tried further down lies a quarter below
            assert value == pytest.approx(exact - model.loss(0, *one(model, action))[0], rel=0.03)
    costs = random_staged(1, "min", steps=3)
    plain = Cuts(gap=1e-8, iterations=300).solve(costs).informing(costs)
    low, high = plain.bounds(costs.start)
    assert (low, high) == (pytest.approx(tree_value(costs), rel=1e-5), np.inf)


def one(model: Any, action: Any) -> Any:
    """The start with an action, as rows."""
    return model.start.exogenous[None], model.start.resource[None], action[None]


@pytest.mark.compiles
@pytest.mark.parametrize("planner", [cp.UCT(200), cp.BTS(100, leaf="bounds")])
@pytest.mark.parametrize("rounds", [2, 50])
def test_a_search_with_cuts_as_leaves_is_no_worse_than_they_are(rounds: int, planner: Any) -> None:
    """What is offered lacks what is best (3 to 6 of 293 are lost by it); few cuts are far off."""
    model = battery()
    found = Cuts(iterations=rounds).solve(model)
    best = cp.evaluate(model, cp.policies.Optimal(), episodes=30, seed=1)
    played = cp.evaluate(found.informing(model), planner, episodes=30, seed=1).compare(best)
    assert played.difference > -2.0 * played.se - 1e-6
    alone = cp.evaluate(model, found, episodes=30, seed=1).compare(best)
    assert played.difference >= alone.difference - 1e-6


def test_a_sampled_lattice_bounds_itself_alone() -> None:
    """Prices without end: value and bound are the lattice's, and the policy is played."""
    model = replace(battery(), process=cp.processes.GBM(40.0, 0.0, 0.8, dt=1 / 24))
    found = Cuts(nodes=8, samples=60, iterations=30).solve(model, seed=2)
    assert "bound and value are the lattice's" in found.method
    assert found.relative_gap < 0.01
    assert abs(found.played.mean - found.bound) < 4.0 * found.played.se + 0.02 * found.bound
    played = cp.evaluate(model, found, episodes=30, seed=4)
    best = cp.evaluate(model, cp.policies.Resolve(), episodes=30, seed=4)
    assert played.mean >= 0.98 * best.mean
    with pytest.raises(NotApplicableError, match="the chain was sampled"):
        cp.value_bounds(model, method="cuts", samples=10)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"iterations": 0}, "iterations must be at least 1"),
        ({"gap": -1.0}, "gap must be at least 0"),
        ({"risk": 0.0}, "risk: the share must"),
        ({"nodes": 2.5}, "nodes must be a whole number"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Cuts(**given)


def test_wrong_models_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotApplicableError, match="does not say that its steps are linear"):
        Cuts().solve(cp.domains.Bunkering())
    free = Stage.of([[1.0]], 1, price=[1.0])
    with pytest.raises(InputError, match="earns without end"):
        Cuts().solve(Staged([free], [np.zeros((1, 1))], [], np.zeros(1)))
    short = Stage.of([[1.0]], 1, rows=[[1.0]], low=[3.0], most=[1.0])
    with pytest.raises(InfeasibleError, match="at t=0 is not possible from the start"):
        Cuts().solve(Staged([short], [np.zeros((1, 1))], [], np.zeros(1)))
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(NotApplicableError, match=r"cuts need highspy.*'\.\[cuts\]'"):
        Cuts().solve(random_staged(0))
