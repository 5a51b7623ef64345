"""The general dynamic program against enumeration of every policy, and where it does not apply."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import counterplan as cp
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridVehicle
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning import exact_value as exact_module
from counterplan.planning.evaluate import evaluate
from counterplan.planning.exact_value import Solution, exact_value
from counterplan.planning.model import Sense, State
from counterplan.planning.policies import Greedy, Optimal, follow
from counterplan.planning.risk import Risk
from counterplan.planning.search.planners import plan
from tests.domains.planning_support import discretised
from tests.planning.expectimax import expectimax

from .selling import Selling


class Coin:
    """Sell once, at any of three dates, at a price that doubles or halves."""

    horizon = 3
    sense = "max"
    start = State(0, np.array([4.0]), np.array([1.0]))

    def draw(self, t: int, exogenous: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        return exogenous * np.where(generator.random(exogenous.shape) < 0.25, 2.0, 0.5)

    def successors(self, t: int, exogenous: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.array([2 * exogenous, exogenous / 2]), np.array([0.25, 0.75])

    def actions(self, state: State) -> np.ndarray:
        return np.array([[0.0], [1.0]]) if state.resource[0] > 0 else np.zeros((1, 1))

    def step(
        self, t: int, exogenous: np.ndarray, resource: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return (exogenous * actions)[:, 0] - 3.5 * actions[:, 0], resource - actions


def test_by_hand() -> None:
    """At 8, selling earns 4.5 and waiting 3.5; at 2, waiting earns 0.125; at 4, selling now 0.5."""
    solution = Solution(Coin())
    assert exact_value(Coin()) == solution.value == pytest.approx(0.25 * 4.5 + 0.75 * 0.125)
    states = np.array([[8.0], [2.0]]), np.ones((2, 1))
    assert solution.actions(1, *states).tolist() == [[1.0], [0.0]]


def test_what_has_no_chance_is_not_there() -> None:
    class Listing(Coin):
        """Also lists a price that never comes."""

        def successors(self, t: int, exogenous: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            values, chances = super().successors(t, exogenous)
            return np.vstack([values, 100.0 * exogenous[None]]), np.append(chances, 0.0)

    assert exact_value(Listing()) == exact_value(Coin())
    assert cp.plan(Listing(), seed=0).action == cp.plan(Coin(), seed=0).action


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.sampled_from(["max", "min"]))
def test_equals_the_oracle(seed: int, sense: Sense) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.ones(3), size=3)
    problem = Selling(rng.random(3), matrix, least=int(rng.integers(4)), sense=sense)
    solution, oracle = Solution(problem), expectimax(problem)
    assert solution.value == pytest.approx(oracle.value, rel=1e-9, abs=1e-12)
    _, x, d = problem.start
    chosen = solution.actions(0, x[None], d[None])[0]
    values = oracle.values[(oracle.actions == chosen).all(axis=1)]
    assert values == pytest.approx(oracle.value, rel=1e-9)


def nested(problem: Any, risk: Risk, t: int, x: Any, d: Any) -> float:
    """The nested value by plain recursion: what is ahead counts by its worst share."""
    sign, best = (1.0 if problem.sense == "max" else -1.0), -np.inf
    for action in problem.actions(State(t, x, d)):
        reward, after = problem.step(t, x[None], d[None], action[None])
        total = sign * float(reward[0])
        if t + 1 < problem.horizon:
            following, chances = problem.successors(t, x)
            ahead = [nested(problem, risk, t + 1, y, after[0]) for y in following]
            pairs, left, worst = sorted(zip(ahead, chances, strict=True)), risk.share, 0.0
            for value, chance in pairs:
                worst += min(chance, left) * value
                left -= min(chance, left)
            mean = sum(value * chance for value, chance in pairs)
            total += risk.mean * mean + (1 - risk.mean) * worst / risk.share
        best = max(best, total)
    return best


@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize("risk", [Risk(0.3), Risk(2 / 3, 0.5), Risk(0.01)])
def test_nested_risk_equals_enumeration(risk: Risk, sense: Sense) -> None:
    matrix = np.random.default_rng(3).dirichlet(np.ones(3), size=3)
    problem = Selling(np.array([4.0, 1.0, 9.0]), matrix, least=3, sense=sense)
    expected = nested(problem, risk, *problem.start)
    found = Solution(problem, risk=risk)
    assert found.sign * found.value == pytest.approx(expected, abs=1e-9)
    assert found.sign * found.value < Solution(problem).value * found.sign


def test_optimal_policy_earns_the_value() -> None:
    paths = np.array([[[4.0], [8.0], [16.0]], [[4.0], [2.0], [4.0]], [[4.0], [2.0], [1.0]]])
    rule = Optimal().prepare(Coin())
    assert follow(Coin(), rule, paths).tolist() == [4.5, 0.5, 0.0]


def test_models_bring_their_own() -> None:
    problem = Bunkering("A")
    assert exact_value(problem) == problem.optimal_value()
    state = State(3, np.array([900.0]), np.array([20.0]))
    assert exact_value(problem, state) == problem.optimal_value(state)
    assert exact_value(HybridVehicle("C", 7, "half")) == pytest.approx(828.28, abs=0.01)


def test_from_a_later_state() -> None:
    problem = discretised(Bunkering("B", fixed_cost=100.0), 3)
    state = State(4, np.array([1500.0]), np.array([3.5]))
    solution = Solution(problem, state)
    assert solution.value == pytest.approx(problem.optimal_value(state), rel=1e-9)
    # Off the list: solved when it is met.
    other = State(4, np.array([1500.0]), np.array([4.0]))
    assert -solution.at(other)[0] == pytest.approx(problem.optimal_value(other), rel=1e-9)


def test_says_why_it_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    class Continuous:
        horizon, sense, start = Coin.horizon, Coin.sense, Coin.start
        draw, actions, step = Coin.draw, Coin.actions, Coin.step

    with pytest.raises(NotApplicableError, match="value_bounds brackets the value"):
        exact_value(Continuous())  # type: ignore[arg-type]
    monkeypatch.setattr(exact_module, "MOST_STATES", 5)
    with pytest.raises(NotApplicableError, match="more than 5 states can be reached by t=2"):
        exact_value(Coin())  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [np.nan, -np.inf])
@pytest.mark.parametrize(
    "ask", [exact_value, lambda model: evaluate(model, Greedy(), 500), plan], ids=lambda one: ""
)
def test_a_reward_that_is_no_number_is_named(wrong: float, ask: Any) -> None:
    """In a state that few futures reach."""

    class Rare(Coin):
        def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
            rewards, after = super().step(t, x, d, a)
            return np.where((t == 2) & (x[:, 0] == 16.0), wrong, rewards), after

    with pytest.raises(InputError, match=r"step at t=2, x=\[16\.0\], d=.*, action=.* gives reward"):
        ask(Rare())


@pytest.mark.parametrize(
    ("following", "said"),
    [
        (([[8.0], [2.0]], [0.5, 0.6]), r"probabilities at t=0, x=\[4\.0\] must be .* sum to 1"),
        (([[8.0], [2.0]], [1.5, -0.5]), "must be at least 0"),
        (([[8.0], [2.0]], [1.0]), r"successors at t=0: expected shape \(1, 1\), got \(2, 1\)"),
        (([8.0, 2.0], [0.5, 0.5]), r"expected shape \(2, 1\), got \(2,\)"),
        (([[8.0], [np.nan]], [0.5, 0.5]), "expected finite numbers"),
    ],
)
def test_chances_that_are_none_are_refused(following: Any, said: str) -> None:
    """Not summed up to a value that looks exact."""

    class Wrong(Coin):
        def successors(self, t: int, exogenous: np.ndarray) -> Any:
            return tuple(np.array(one) for one in following)

    with pytest.raises(InputError, match=said):
        exact_value(Wrong())


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("sense", "maximize", "sense must be 'max' or 'min', got 'maximize'"),
        ("horizon", 2.5, "horizon must be a whole number"),
        ("horizon", 0, "horizon must be at least 1"),
        ("start", (0, np.array([4.0]), np.array([1.0])), "start must be State"),
        ("start", State(0, 4.0, 1.0), "start must be State"),  # type: ignore[arg-type]
        ("actions", lambda self, state: [0.0, 1.0], r"must be \(m, A\) .* got shape \(2,\)"),
        ("actions", lambda self, state: np.empty((0, 1)), r"got shape \(0, 1\)"),
        ("actions", lambda self, state: [["all"]], "expected an array of numbers"),
        ("step", lambda self, t, x, d, a: d, "step at t="),
    ],
)
@pytest.mark.parametrize("ask", [exact_value, plan])
def test_statements_that_are_wrong_get_one_line(name: str, value: Any, said: str, ask: Any) -> None:
    wrong = type("Wrong", (Coin,), {name: value})
    with pytest.raises(InputError, match=said) as raised:
        ask(wrong())
    assert "\n" not in str(raised.value)


def test_a_class_is_no_problem() -> None:
    with pytest.raises(InputError, match=r"Coin is a class, not a problem: give Coin\(\)"):
        plan(Coin)  # type: ignore[arg-type]


def test_lists_of_actions_will_do() -> None:
    class Listed(Coin):
        def actions(self, state: State) -> Any:
            return Coin.actions(self, state).tolist()

    assert exact_value(Listed()) == exact_value(Coin())
