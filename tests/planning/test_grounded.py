"""Plans for models of one's own: near the optimum, never worse than the obvious, and named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit

import counterplan as cp
from benchmarks.own_problems import PROBLEMS, Battery, Reservoirs, Truth, measure
from counterplan.domains import Flow, Storage, Store
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.exact_value import Solution
from counterplan.planning.lattice_value import LatticeValue, read
from counterplan.planning.model import State, sign_of
from counterplan.planning.policies import KnownRule
from counterplan.planning.risk import Risk
from counterplan.planning.search import grounded
from counterplan.planning.search.kernel import LEAF_SIGNATURE
from counterplan.planning.search.planners import PlanStatus

from .small_models import BUYING, STICKY, Plain
from .test_exact_value import nested

QUICK = ("warehouse", "seasonal stock", "staffing")


@pytest.mark.parametrize(
    "name", [pytest.param(one, marks=[] if one in QUICK else pytest.mark.slow) for one in PROBLEMS]
)
def test_default_plans_close_the_gap(name: str) -> None:
    """Random play at the leaves closes less than nothing of it."""
    found = measure(name, episodes=10, simulations=20)
    assert found.closed > 0.95 - 2.0 * found.closed_se
    assert found.closed > 0.9
    assert found.worse_by < 2.0 * found.worse_se + 1e-9
    assert ("exact" if name == "warehouse" else "lattice") in found.basis


@pytest.mark.parametrize("model", [STICKY, BUYING])
def test_a_listed_chain_with_closed_levels_is_exact(model: Any) -> None:
    plain, exact = LatticeValue(Plain(model)), Solution(model)
    for t, nodes in enumerate(plain.lattice.values):
        for x in nodes:
            for level in plain.axes[t][0]:
                d = np.array([level])
                assert read(plain.tables, t, x, d, False) == pytest.approx(
                    exact.at(State(t, x, d))[0], abs=1e-9
                )


def test_values_between_nodes_and_levels_lie_on_straight_lines() -> None:
    """Of a battery whose price may be any number, beside a fine chain."""
    problem = Battery()
    known, truth = LatticeValue(problem), Truth(problem)
    for t, deviation, level in ((0, 0.0, 4.0), (6, 9.0, 3.0), (15, -20.0, 7.0), (23, 5.0, 2.0)):
        x = problem.season(t) + np.array([deviation])
        exact = truth.at(t, int(truth.chain.place(t, x[None])[0]), (level,))[0]
        found = read(known.tables, t, x, np.array([level]), False)
        assert found == pytest.approx(exact, rel=0.03, abs=15.0)
    x, one, two = np.array([50.0]), np.array([3.0]), np.array([4.0])
    half = 0.5 * (read(known.tables, 9, x, one, False) + read(known.tables, 9, x, two, False))
    assert read(known.tables, 9, x, np.array([3.5]), False) == pytest.approx(half)


def test_plans_say_what_they_stand_on() -> None:
    problem = Reservoirs()
    found = cp.plan(problem, planner=cp.UCT(50), clip=True)
    assert found.basis.startswith("value on a lattice")
    assert "nothing in the tree is clipped" in found.basis
    assert found.bounds is not None
    assert found.bounds.low == found.value
    assert found.bounds.high == np.inf
    assert any((found.action == one).all() for one in found.actions)
    again = cp.plan(problem, planner=cp.UCT(50), clip=True)
    assert again.value == found.value
    later = State(15, np.array([1.0, 35.0]), np.array([8.0, 6.0]))
    assert cp.plan(problem, later, planner=cp.UCT(50)).value == pytest.approx(
        Truth(problem).at(15, 5, (8.0, 6.0))[0]
    )
    exact = cp.plan(Plain(STICKY), planner=cp.UCT(50))
    assert exact.status is PlanStatus.EXACT
    assert exact.value == pytest.approx(cp.exact_value(STICKY), abs=1e-9)
    with pytest.raises(InputError, match="clip must be"):
        cp.plan(problem, clip=2.0)


@njit(LEAF_SIGNATURE)
def nothing(model, settings, t, x, d, generator):  # type: ignore[no-untyped-def]
    """As if all were over then."""
    return 0.0


def test_a_search_that_is_worse_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Reservoirs()
    monkeypatch.setattr(grounded, "on_lattice", nothing)
    misled = cp.evaluate(problem, cp.UCT(20), 6, seed=3)
    best = cp.evaluate(problem, KnownRule("optimal", Truth(problem).optimal), 6, seed=3)
    plain = cp.evaluate(problem, cp.UCT(20, leaf=nothing), 6, seed=3)
    assert best.mean - misled.mean < 0.1 * (best.mean - plain.mean)


class Stocks:
    """Five stocks that are sold, one at a time: too many numbers for a grid."""

    horizon, sense = 8, "max"
    start = State(0, np.full(5, 10.0), np.full(5, 1.0))

    def draw(self, t: int, x: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return np.asarray(x * np.exp(0.2 * generator.standard_normal(x.shape)))

    def actions(self, state: State) -> np.ndarray:
        held = np.flatnonzero(state.resource > 0.5)
        return np.vstack([np.zeros((1, 5)), np.eye(5)[held]])

    def step(self, t: int, x: np.ndarray, d: np.ndarray, a: np.ndarray) -> Any:
        return (x * a).sum(axis=1), d - a


def test_many_numbers_follow_a_policy() -> None:
    found = cp.plan(Stocks(), planner=cp.UCT(50))  # type: ignore[arg-type]
    assert found.status is PlanStatus.FOLLOWED
    assert found.basis.startswith("greedy")
    assert found.value == pytest.approx(50.0, rel=0.2)
    with pytest.raises(NotApplicableError, match="numbers of the resource vary"):
        LatticeValue(Stocks())  # type: ignore[arg-type]


def test_steps_for_one_state_only_are_told_of() -> None:
    class Single(Stocks):
        def step(self, t: int, x: np.ndarray, d: np.ndarray, a: np.ndarray) -> Any:
            return np.array([x[0] @ a[0]]), d[:1] - a[:1]

    with pytest.raises(InputError, match=r"for 2 state\(s\) at once, expected \(2,\) and \(2, 5\)"):
        cp.plan(Single())  # type: ignore[arg-type]


# --- Risk ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("risk", [0.3, (0.5, 2 / 3)])
@pytest.mark.parametrize("model", [STICKY, BUYING])
def test_plans_averse_to_risk_equal_enumeration(model: Any, risk: Any) -> None:
    """Where states can be listed, and on a lattice with closed levels."""
    sign, measure = sign_of(model), Risk.of(risk)
    expected = sign * nested(model, measure, *model.start)
    found = cp.plan(Plain(model), planner=cp.UCT(10), risk=risk)
    assert found.value == pytest.approx(expected, abs=1e-9)
    assert str(measure) in found.basis or found.status is PlanStatus.EXACT
    on_lattice = LatticeValue(Plain(model), risk=measure)
    _, x, d = model.start
    assert sign * read(on_lattice.tables, 0, x, d, False) == pytest.approx(expected, abs=1e-9)
    played = cp.evaluate(Plain(model), cp.UCT(10), 50, risk=risk)
    assert played.nested == pytest.approx(expected, abs=1e-9)
    assert sign * played.worst.mean <= sign * played.mean


def test_shipped_problems_take_risk_on_a_lattice() -> None:
    problem = cp.domains.Bunkering("A")
    averse, half, neutral = (cp.plan(problem, risk=one).value for one in (0.1, (0.5, 0.1), 1.0))
    assert averse > half > neutral  # costs
    assert "nested risk, the mean over the worst 10 %" in cp.plan(problem, risk=0.1).basis
    rules = {one: cp.policies.OnLattice(risk=one) for one in (1.0, 0.1)}
    found = {one: cp.evaluate(problem, rule, 400, risk=0.05) for one, rule in rules.items()}
    assert found[1.0].mean < found[0.1].mean
    assert found[1.0].worst.se > 0.0
    gain = problem.optimal_value()
    assert found[1.0].mean == pytest.approx(gain, abs=3.0 * found[1.0].se)


def test_risk_that_cannot_be_planned_is_refused() -> None:
    with pytest.raises(NotApplicableError, match="numbers of the resource vary"):
        cp.plan(Stocks(), risk=0.2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="risk: the share must lie above 0"):
        cp.plan(STICKY, risk=0.0)

    class Own:
        name = "own"

        def begin(self, problem: Any, clip: Any = None, seed: Any = 0) -> Any:
            raise AssertionError

    with pytest.raises(InputError, match="which own does not do"):
        cp.plan(STICKY, planner=Own(), risk=0.2)


def test_storages_with_risk_are_planned_among_all_flows() -> None:
    """Those that are offered are few: the best of them is not the optimum, nor called so."""
    pytest.importorskip("highspy")
    flows = [
        Flow(f"{way} {name}", **ends, most=1, efficiency=0.9, segments=((0.5, 0.0), (0.5, 5.0)))
        for name in "ab"
        for way, ends in (
            ("fill", {"into": name, "pays": "price"}),
            ("empty", {"out_of": name, "earns": "price"}),
        )
    ]
    two = Storage(
        cp.processes.MarkovModes([[0.6, 0.4], [0.5, 0.5]], indicators=True),
        2,
        [Store(name, capacity=2, start=1) for name in "ab"],
        flows,
        values={"price": (20, 90)},
    )
    found = cp.plan(two, planner=cp.UCT(30), seed=0, risk=(0.0, 0.3))
    assert found.status != "exact"
    assert "cuts" in found.basis
    truth = cp.policies.Cuts(risk=(0.0, 0.3)).solve(two, seed=0)
    assert truth.bound == pytest.approx(36.0, rel=1e-6)  # a linear program over the tree says so


@pytest.mark.parametrize("changed", ["horizon", "factors"])
def test_a_changed_model_is_another_one(changed: str) -> None:
    class Sale:
        horizon, sense = 5, "max"
        start = State(0, np.array([3.0]), np.array([1.0]))

        def __init__(self) -> None:
            self.factors = [1.0]

        def draw(self, t: int, x: Any, generator: Any) -> Any:
            return generator.integers(1, 7, size=x.shape).astype(float)

        def successors(self, t: int, x: Any) -> Any:
            return np.arange(1.0, 7.0)[:, None], np.full(6, 1 / 6)

        def actions(self, state: State) -> Any:
            return np.array([[0.0], [1.0]]) if state.resource[0] else np.array([[0.0]])

        def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
            return self.factors[0] * x[:, 0] * a[:, 0], d - a

    model = Sale()
    assert cp.exact_value(model) == pytest.approx(4.944444, rel=1e-6)
    if changed == "horizon":
        model.horizon = 2
    else:
        model.factors[0] = 10.0
    expected = {"horizon": 3.5, "factors": 49.44444}[changed]
    assert cp.exact_value(model) == pytest.approx(expected, rel=1e-6)
