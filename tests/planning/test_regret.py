"""What executed decisions lost: against enumeration, and the identity that takes luck out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.core.validation import FloatArray
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import THREE_MODES, HybridConfig
from counterplan.errors import InfeasibleError, InputError, NotApplicableError
from counterplan.planning import exact_value as exact_module
from counterplan.planning.exact_value import Solution, exact_value
from counterplan.planning.lattice_value import OnLattice
from counterplan.planning.least_squares import LeastSquares
from counterplan.planning.model import Allocation, Sense, State, estimate
from counterplan.planning.policies import (
    Greedy,
    OpenLoop,
    Optimal,
    Resolve,
    Rule,
    follow,
    futures,
    played,
)
from counterplan.planning.processes.base import draw_paths
from counterplan.planning.processes.prices import GBM
from counterplan.planning.regret import benchmark, regret
from counterplan.planning.resource import Resource
from experiments.control_variate import controlled_outcomes
from experiments.longstaff_schwartz import LeastSquaresEach
from tests.domains.planning_support import discretised
from tests.planning.expectimax import expectimax

from .selling import Selling
from .small_models import every_path


def port_prices(t: int, count: int) -> FloatArray:
    """(count,) equally likely prices of port t + 1 of voyage A."""
    values, _ = Bunkering("A").process.quantiles(t, np.ones(1), count)  # type: ignore[attr-defined]
    return np.asarray(values[:, 0])


PRICE = GBM(20.0, 0.05, 0.4, 1 / 12, kind="global")
PORTS = [50.0, 12.0, 25.0, 30.0, 16.0, 0.0, 0.0]


def sequences(model: Any, path: FloatArray, state: State) -> Iterator[tuple[list[Any], float]]:
    """Every sequence of the model's own actions along a path, and what it comes to."""
    if len(path) == 0:
        yield [], 0.0
        return
    at = State(state.t, path[0], state.resource)
    for action in model.actions(at):
        reward, after = model.step(at.t, path[:1], state.resource[None], action[None])
        for rest, value in sequences(model, path[1:], State(at.t + 1, at.exogenous, after[0])):
            yield [action, *rest], float(reward[0]) + value


class Market(Selling):
    """Selling that can be solved in hindsight: by trying everything."""

    def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
        at = self.start if state is None else state
        sign = 1.0 if self.sense == "max" else -1.0
        best = [max(sequences(self, path, at), key=lambda one: sign * one[1]) for path in paths]
        values = np.array([value for _, value in best])
        return Allocation(values, np.array([actions for actions, _ in best]), "enumeration")


def market(seed: int, sense: Sense) -> Market:
    rng = np.random.default_rng(seed)
    prices, matrix = rng.uniform(1.0, 10.0, 3), rng.dirichlet(np.ones(3), size=3)
    return Market(prices, matrix, horizon=3, sense=sense)


def voyage(seed: int) -> Any:
    """Three ports with three equally likely prices each: everything can be listed."""
    rng = np.random.default_rng(seed)
    legs = rng.integers(1, 20, size=3).astype(float)
    prices = GBM(10.0, float(rng.uniform(-1, 1)), float(rng.uniform(0.1, 1.5)), 0.5)
    capacity = float(legs.max() + rng.integers(0, 20))
    return discretised(Bunkering(prices=prices, legs=legs, capacity=capacity), 3)


def by_history(model: Any, seed: int) -> Any:
    """Decisions that depend on all that was seen so far and on nothing else."""

    def decide(path: FloatArray) -> FloatArray:
        resource, actions = model.start.resource, []
        for t in range(len(path)):
            words = path[: t + 1].round(9).tobytes() + bytes([seed])
            chance = np.random.default_rng(list(words))
            offered = model.actions(State(t, path[t], resource))
            actions.append(offered[chance.integers(len(offered))])
            resource = model.step(t, path[t : t + 1], resource[None], actions[-1][None])[1][0]
        return np.array(actions)

    return decide


@settings(max_examples=25)
@given(st.integers(0, 2**32), st.sampled_from(["market-max", "market-min", "voyage"]))
def test_equals_enumeration(seed: int, kind: str) -> None:
    """On any path: hindsight by trying all sequences, losses by expectimax, both at 1e-9."""
    model = voyage(seed) if kind == "voyage" else market(seed, kind[-3:])  # type: ignore[arg-type]
    paths, _ = every_path(model)
    path = paths[seed % len(paths)]
    actions = by_history(model, seed % 256)(path)
    found = regret(model, path, actions)
    sign = 1.0 if model.sense == "max" else -1.0
    best = max(sign * value for _, value in sequences(model, path, model.start))
    assert found.hindsight == pytest.approx(sign * best, rel=1e-9)
    assert found.certificate.replayed == pytest.approx(found.hindsight, rel=1e-9)
    assert found.regret_hindsight == pytest.approx(best - sign * found.executed, abs=1e-9)
    assert found.expected_losses is not None
    for t, loss in enumerate(found.expected_losses):
        oracle = expectimax(model, State(t, path[t], found.levels[t]))
        taken = (np.abs(oracle.actions - actions[t]) < 1e-9).all(axis=1)
        missed = sign * (oracle.value - oracle.values[taken][0])
        assert loss == pytest.approx(missed, rel=1e-9, abs=1e-9)
        advised = (np.abs(oracle.actions - found.advised[t]) < 1e-9).all(axis=1)
        assert oracle.values[advised] == pytest.approx(oracle.value, rel=1e-9)


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.sampled_from(["market-max", "market-min", "voyage"]))
def test_losses_are_what_decisions_cost_on_average(seed: int, kind: str) -> None:
    """Over all futures by their probabilities, for decisions that know the past: exactly."""
    model = voyage(seed) if kind == "voyage" else market(seed, kind[-3:])  # type: ignore[arg-type]
    paths, odds = every_path(model)
    decide = by_history(model, seed % 256)
    found = [regret(model, path, decide(path)) for path in paths]
    sign = 1.0 if model.sense == "max" else -1.0
    values = np.array([one.executed for one in found])
    losses = np.array([one.expected_regret for one in found])
    assert odds @ (sign * values + losses) == pytest.approx(sign * exact_value(model), rel=1e-9)
    # On a single path the two differ: the rest is luck.
    policy = np.array([one.regret_policy for one in found])
    assert odds @ policy == pytest.approx(odds @ losses, rel=1e-9, abs=1e-9)


def test_mean_over_sampled_voyages() -> None:
    """Open loop on 40 voyages: mean cost above V* and mean loss, within 4 standard errors."""
    ship = Bunkering("A")
    found = [regret(ship, path, PORTS) for path in ship.sample_paths(40, seed=1)]
    luck = np.array([one.executed - (one.expected_regret or 0.0) for one in found])
    assert abs(luck.mean() - exact_value(ship)) <= 4 * luck.std() / np.sqrt(len(luck))
    assert all(one.regret_hindsight >= 0.0 for one in found)
    assert min(one.regret_policy for one in found) < 0 < max(one.regret_policy for one in found)


def short_hidden() -> cp.domains.HybridVehicle:
    """Hidden modes over five steps: few enough beliefs to list."""
    config = THREE_MODES["B"]
    short = HybridConfig(config.mileage, config.matrix, 5, config.quota, config.recharge)
    return cp.domains.HybridVehicle(short, hidden=True)


PROBLEMS = {
    "bunkering": lambda: cp.domains.Bunkering("B"),
    "bunkering global": lambda: cp.domains.Bunkering("A", prices="global"),
    "hybrid": lambda: cp.domains.HybridVehicle("A"),
    "hybrid, seven modes": lambda: cp.domains.HybridVehicle("C", 7, "half"),
    "hybrid, hidden": lambda: short_hidden(),
    "option": lambda: cp.domains.AmericanOption("C"),
    "option, binomial": lambda: cp.domains.AmericanOption("C", "binomial"),
    "basket": lambda: cp.domains.OptionBasket("F", cap=4, correlation=0.3),
    "basket, capped": lambda: cp.domains.OptionBasket("F"),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_domains(name: str) -> None:
    problem: Any = PROBLEMS[name]()
    for path in problem.sample_paths(4, 3):
        known = cp.hindsight(problem, path)
        with_foresight = regret(problem, path, known.actions)
        assert with_foresight.regret_hindsight == 0.0
        assert with_foresight.hindsight == pytest.approx(known.value, rel=1e-12)
        assert with_foresight.regret_policy <= 1e-9 * (1 + abs(known.value))
        policy = regret(problem, path, with_foresight.policy_actions)
        assert policy.regret_policy == 0.0
        assert policy.regret_hindsight >= 0.0
        assert np.array_equal(policy.advised, policy.actions)
        if name == "basket, capped":
            assert policy.expected_losses is with_foresight.expected_losses is None
            assert policy.expected_regret is None
            assert policy.policy == "optimal for each option, capped"
        else:
            assert policy.policy == "optimal"
            assert policy.expected_regret == 0.0
            assert with_foresight.expected_losses is not None
            assert (with_foresight.expected_losses >= 0.0).all()


def test_one_price_for_all_ports_leaves_nothing_to_decide() -> None:
    """The optimal purchases ignore the price; others lose in proportion to it."""
    ship = Bunkering("A", prices="global")
    path, poor = ship.sample_path(2), [12.0, 25.0, 30.0, 19.0, 9.0, 21.0, 17.0]
    assert regret(ship, path, PORTS).expected_regret == 0.0
    once, twice = (regret(ship, factor * path, poor).expected_regret or 0.0 for factor in (1, 2))
    assert twice == pytest.approx(2 * once, rel=1e-12)
    assert once > 0


@pytest.mark.parametrize("prices", ["gbm", "binomial"])
def test_option_losses_are_differences_of_values(prices: Any) -> None:
    """Exercising loses what waiting is worth more, waiting the other way round."""
    option = cp.domains.AmericanOption("C", prices)
    path = option.sample_path(6)
    for date in (0, 4, 10):
        actions = np.zeros(11)
        actions[date] = 1.0
        losses = regret(option, path, actions).expected_losses
        assert losses is not None
        for t, loss in enumerate(losses):
            state = State(t, path[t], np.ones(1))
            payoff = float(option.contract.discount(t) * option.contract.payoff(path[t])[0])
            waiting = float(option.contract.discount(t) * option.waiting(t, path[t][None])[0, 0])
            taken = payoff if t == date else waiting
            expected = option.optimal_value(state) - taken if t <= date else 0.0
            assert loss == pytest.approx(expected, abs=1e-12)


def test_basket_losses_are_the_options_own() -> None:
    basket = cp.domains.OptionBasket("F", cap=4)
    path = basket.sample_path(1)
    actions = np.zeros((basket.horizon, 4))
    actions[2, 0] = actions[5, 2] = actions[5, 3] = 1.0
    each = [
        regret(single, path[:, b : b + 1], actions[:, b]).expected_losses
        for b, single in enumerate(basket.singles)
    ]
    assert regret(basket, path, actions).expected_losses == pytest.approx(
        np.sum(each, axis=0), abs=1e-12
    )


def test_capped_basket_earns_more_than_regression() -> None:
    """What each option's own value says beats a fit per option: on the same 400 futures, with
    luck taken out, by more than 3 standard errors."""
    basket = cp.domains.OptionBasket("E")
    paths = futures(basket, 400, np.random.default_rng(2).spawn(2)[0])
    own, fitted = (
        controlled_outcomes(basket, paths, cp.evaluate(basket, policy, 400, seed=2).actions)
        for policy in (basket.best_known_policy(), LeastSquaresEach())
    )
    difference = own - fitted
    assert difference.mean() > 3 * difference.std() / np.sqrt(400)


def test_hidden_modes_too_many_to_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then it is the best if modes were seen from the next step on, and no expected loss."""
    monkeypatch.setattr(exact_module, "MOST_STATES", 50)
    car = short_hidden()
    path = car.sample_path(0)
    found = regret(car, path, cp.hindsight(car, path).actions)
    assert (found.policy, found.expected_losses) == ("as if modes were seen next", None)
    assert cp.evaluate(car, car.best_known_policy(), 20).mean > 0.0


def test_from_another_state() -> None:
    ship = Bunkering("A")
    state = State(3, np.array([123.0]), np.array([25.0]))
    prices = np.array([900.0, 1000.0, 1100.0, 1200.0])
    found = regret(ship, prices, [3.0, 0.0, 21.0, 17.0], state=state)
    assert found.executed == 3 * 900 + 21 * 1100 + 17 * 1200
    assert found.hindsight == 25 * 900 + 16 * 1000  # the rest was in the tank
    # Buying 3 units, then the best: the value of arriving at the next port with 9, at any price.
    first = State(3, prices[:1], np.array([25.0]))
    later = [State(4, np.array([price]), np.array([9.0])) for price in port_prices(3, 4000)]
    ahead = np.mean([ship.optimal_value(one) for one in later])
    assert found.expected_losses is not None
    expected = 3 * 900 + ahead - ship.optimal_value(first)
    assert found.expected_losses[0] == pytest.approx(expected, rel=1e-3)  # of 4,000 quantiles


def test_states_off_the_list_are_solved_when_met() -> None:
    """Half a unit is possible for a market that only offers whole ones."""
    model = market(4, "max")
    _, x, stock = model.start
    found = benchmark(model, model.start)
    assert found.exact
    assert found.loss is not None
    following, chances = model.successors(0, x)
    ahead = [expectimax(model, State(1, y, stock - 0.5)).value for y in following]
    taken = 0.5 * model.prices[0] + chances @ np.array(ahead)
    loss = expectimax(model, model.start).value - taken
    assert found.loss(0, x, stock, np.array([0.5])) == pytest.approx(loss, rel=1e-9)


SHIP = Bunkering("A")
PATH = SHIP.sample_path(3)


@pytest.mark.parametrize("policy", [Resolve(), OpenLoop(), Greedy()])
def test_any_policy_can_be_compared_with(policy: Any) -> None:
    found, usual = regret(SHIP, PATH, PORTS, policy=policy), regret(SHIP, PATH, PORTS)
    assert found.policy == policy.name
    assert found.expected_regret == usual.expected_regret
    assert found.regret_hindsight == usual.regret_hindsight
    assert regret(SHIP, PATH, found.policy_actions, policy=policy).regret_policy == 0.0


def test_the_rule_sees_no_future() -> None:
    seen = []

    class Watching:
        name = "watching"

        def prepare(self, model: Any, seed: Any = 0) -> Rule:
            rule = Optimal().prepare(model)

            def watch(t: int, x: FloatArray, d: FloatArray) -> FloatArray:
                seen.append((t, x.copy()))
                x[:] = np.nan  # and cannot spoil what is to come
                return rule(t, seen[-1][1], d)

            return watch

    found = regret(SHIP, PATH, PORTS, policy=Watching())
    assert found.without_foresight == regret(SHIP, PATH, PORTS).without_foresight
    assert all(np.array_equal(x[0], PATH[t]) for t, x in seen)


def test_regression_where_nothing_is_exact() -> None:
    stock = cp.ExogenousMDP(PRICE, [[1.0]], Resource(20), [(0, 10)] * 3)
    path = stock.sample_path(1)
    found = regret(stock, path, [10, 10, 0])
    assert (found.policy, found.expected_regret) == ("least squares", None)
    assert found.certificate.bound == pytest.approx(found.hindsight, rel=1e-9)
    with pytest.raises(NotApplicableError, match="pass a policy to compare with"):
        regret(stock, path[1:], [5, 0], state=State(1, path[1], np.array([5.0])))


class OwnPrices:
    """A process of a user's own, in plain Python; it counts how often it was asked."""

    start = np.array([20.0])

    def __init__(self) -> None:
        self.asked = [0]

    def draw(self, t: int, x: FloatArray, generator: np.random.Generator) -> FloatArray:
        self.asked[0] += 1
        return 20.0 + 0.8 * (x - 20.0) + generator.normal(size=x.shape)


def test_an_own_process_is_judged_by_a_lattice_made_once() -> None:
    process = OwnPrices()
    stock = cp.ExogenousMDP(process, [[1.0]], Resource(4), [(0, 1)] * 8)
    paths = stock.sample_paths(2, seed=1)
    sold = np.array([1.0, 1, 1, 1, 0, 0, 0, 0])
    first = regret(stock, paths[0], sold)
    assert (first.policy, first.expected_regret) == ("lattice", None)
    made = process.asked[0]
    assert regret(stock, paths[1], sold).policy == "lattice"
    assert process.asked[0] == made
    # Without foresight it is as good as regression, on the same futures.
    fresh = stock.sample_paths(300, seed=2)
    gains = [follow(stock, one.prepare(stock), fresh) for one in (OnLattice(), LeastSquares(500))]
    gain = estimate(gains[0] - gains[1])
    assert gain.mean > -3.0 * gain.se
    # What is expected is the mean of draws: 20 here, at any time.
    assert stock.mean_path()[:, 0] == pytest.approx(20.0, abs=5.0 * 1.67 / np.sqrt(4_000))


def test_draws_of_another_shape_are_refused_in_a_line() -> None:
    class Flat(OwnPrices):
        def draw(self, t: int, x: FloatArray, generator: np.random.Generator) -> FloatArray:
            return super().draw(t, x, generator)[:, 0]

    stock = cp.ExogenousMDP(Flat(), [[1.0]], Resource(4), [(0, 1)] * 3)
    with pytest.raises(InputError, match=r"draw of Flat gives \(5,\) at t=0.*shape, \(5, 1\)"):
        stock.sample_paths(5, seed=0)


MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "path too short": (lambda p: regret(SHIP, p[:5], PORTS), InputError, "the path must be"),
    "path not numbers": (lambda p: regret(SHIP, ["x"] * 7, PORTS), InputError, "hold numbers"),
    "path not finite": (lambda p: regret(SHIP, p * np.nan, PORTS), InputError, "the path at t=0"),
    "actions too few": (lambda p: regret(SHIP, p, PORTS[:6]), InputError, r"must be \(7, 1\)"),
    "actions not numbers": (lambda p: regret(SHIP, p, ["x"] * 7), InputError, "hold numbers"),
    "not finite": (lambda p: regret(SHIP, p, [50, np.inf] + [0] * 5), InputError, "action at t=1"),
    "over the capacity": (
        lambda p: regret(SHIP, p, [50, 20, 0, 0, 0, 0, 0]),
        InfeasibleError,
        "buying 20 at port t=1",
    ),
    "a planner": (lambda p: regret(SHIP, p, PORTS, cp.UCT()), InputError, "UCT is not a policy"),  # type: ignore[arg-type]
    "no problem": (lambda p: regret(3, p, PORTS), InputError, "is not a problem"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    call, kind, words = MISTAKES[name]
    with pytest.raises(kind, match=words):
        call(SHIP.sample_path(0))


def test_what_is_not_possible() -> None:
    option = cp.domains.AmericanOption("C")
    path = option.sample_path(1)
    with pytest.raises(InfeasibleError, match=r"\[0.5\] at t=1 with \[1.0\] is not possible"):
        regret(option, path, [0, 0.5, *[0] * 9])
    with pytest.raises(InfeasibleError, match="date t=2, when 0 of it is still held"):
        regret(option, path, [0, 1, 1, *[0] * 8])
    basket = cp.domains.OptionBasket("F")
    actions = np.zeros((basket.horizon, 4))
    actions[3] = 1.0
    with pytest.raises(InfeasibleError, match="exercising 4 options at date t=3: at most 2"):
        regret(basket, basket.sample_path(1), actions)
    stock = cp.ExogenousMDP(
        PRICE, reward=[[1.0]], resources=Resource(20), step_bounds=[(0, 10)] * 3, budget=(5, 20)
    )
    path = stock.sample_path(1)
    for actions, step in (([11, 0, 0], 0), ([10, -1, 0], 1), ([0, 0, 0], 2)):
        with pytest.raises(InfeasibleError, match=f"at t={step} with"):
            regret(stock, path, actions)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda model, found: found._replace(values=found.values + 1.0), "its actions come to"),
        (lambda model, found: model.poorest, "not among the actions that it offers"),
    ],
)
def test_hindsight_that_is_wrong(change: Any, words: str) -> None:
    """A user's own solver that promises too much, or misses what is best, is found out."""

    class Wrong(Market):
        def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
            return change(self, super().allocate(paths, state))  # type: ignore[no-any-return]

        @property
        def poorest(self) -> Allocation:
            actions, value = min(sequences(self, path, self.start), key=lambda one: one[1])
            return Allocation(np.array([value]), np.array([actions]), "the worst")

    rng = np.random.default_rng(0)
    model = Wrong(rng.uniform(1.0, 10.0, 3), rng.dirichlet(np.ones(3), size=3), horizon=3)
    path = every_path(model)[0][0]
    with pytest.raises(NotApplicableError, match=words):
        regret(model, path, [[1], [2], [0]])


class OwnLattice:
    """Prices on a grid of 31, mean reverting: an own process, asked and counted."""

    points = 20.0 * np.exp(np.linspace(-1.0, 1.0, 31))
    start = points[15:16]
    asked = 0

    def rows(self, x: FloatArray) -> FloatArray:
        i, j = np.abs(self.points - x[:, :1]).argmin(axis=1), np.arange(31)
        rows = np.exp(-0.5 * ((j - (0.9 * (i[:, None] - 15) + 15)) / 3.0) ** 2)
        return np.asarray(rows / rows.sum(axis=1, keepdims=True))

    def draw(self, t: int, x: FloatArray, generator: np.random.Generator) -> FloatArray:
        above = self.rows(x).cumsum(axis=1) < generator.random((len(x), 1))
        return self.points[above.sum(axis=1).clip(0, 30)][:, None]

    def successors(self, t: int, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        type(self).asked += 1
        return self.points[:, None], self.rows(x[None])[0]

    def mean_path(self, steps: int, t: int = 0, start: FloatArray | None = None) -> FloatArray:
        found = [self.start if start is None else np.asarray(start)]
        chances = self.rows(found[0][None])[0]
        for _ in range(steps - 1):
            found.append(np.array([chances @ self.points]))
            chances = chances @ self.rows(self.points[:, None])
        return np.array(found)

    def sample_paths(self, *given: Any, **named: Any) -> FloatArray:
        return draw_paths(self, *given, *named.values())


def test_an_own_process_is_solved_once() -> None:
    """Executed amounts lead to levels that no offered action reaches: only these are added."""
    changes = [-8, -12, -9, -15, -11, -7, -13, -10, -14, -9, -12, -8]
    stock = cp.Resource(start=5, capacity=50, effect=+1, change=changes)
    problem = cp.ExogenousMDP(
        OwnLattice(), [[1.0]], stock, [(0, 30)] * 12, sense="min", action_set="order-up-to"
    )
    path, rng = problem.sample_path(seed=1), np.random.default_rng(0)

    def halfway(t: int, x: FloatArray, d: FloatArray) -> FloatArray:
        low, high = problem.program.spendable(t, d)
        return np.asarray((low + (high - low) * rng.random())[:, None])

    done, calls = played(problem, halfway, path, problem.start), []
    found = cp.regret(problem, path, done.actions, progress=lambda one: calls.append(one) is None)
    assert found.policy == "optimal"
    assert calls
    # Plainly, step by step, without what is kept.
    plain = Solution(replace(problem))
    losses = [plain.loss(*s, a) for s, a in zip(done.states, done.actions, strict=True)]
    assert found.expected_losses == pytest.approx(losses, abs=1e-9)
    OwnLattice.asked = 0
    other = problem.sample_path(seed=2)
    again = cp.regret(problem, other, played(problem, halfway, other, problem.start).actions)
    assert again.expected_regret is not None
    assert OwnLattice.asked < 60  # a few per decision; to list all of them takes more than 300
    # A problem that is changed is solved anew.
    object.__setattr__(problem, "sense", "max")
    assert cp.exact_value(problem) > cp.exact_value(replace(problem, sense="min"))
