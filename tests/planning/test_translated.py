"""Own classes compiled: the same answers to the last bit, never stale, and words where it fails."""

from __future__ import annotations

import math
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from counterplan.planning.evaluate import evaluate
from counterplan.planning.model import State
from counterplan.planning.search import planners
from counterplan.planning.search.planners import UCT, plan
from counterplan.planning.search.translated import known_translation, translation

SHIFT = 3.0


def tariff(t: int) -> float:
    return SHIFT + 2.0 * np.cos(t)


class Motor:
    """A part of a model, with numbers and a method of its own."""

    def __init__(self, loss: float) -> None:
        self.loss = loss

    def used(self, amount: Any) -> Any:
        return np.maximum(amount, 0.0) / self.loss


class Pump:
    """Two tanks that are filled and emptied at a price, written as users write."""

    horizon, sense, numba = 6, "max", True
    levels = [0.0, 1.0, 2.0]  # noqa: RUF012
    sizes = np.array([3.0, 2.0])

    def __init__(self, power: float = 1.0, loss: float = 0.9) -> None:
        self.power, self.motor = power, Motor(loss)

    @property
    def start(self) -> State:
        return State(0, np.array([5.0]), np.array([1.0, 0.0]))

    @staticmethod
    def season(t: int) -> float:
        return 5.0 + tariff(t)

    def draw(self, t: int, x: Any, generator: np.random.Generator) -> Any:
        return self.season(t + 1) + 0.5 * (x - self.season(t)) + generator.normal(0.0, 2.0, x.shape)

    def actions(self, state: State) -> Any:
        level, other = state.resource
        most = [k for k in self.levels if level + k * self.power <= self.sizes[0]]
        return np.array(
            [(k, j) for k in most for j in (-1, 0, 1) if 0 <= other + j <= 2], dtype=float
        )

    def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
        bought = self.motor.used(self.power * a[:, 0])
        left = np.stack([d[:, 0] + self.power * a[:, 0] - 0.5, d[:, 1] + a[:, 1]], axis=1)
        left = np.minimum(np.maximum(left, 0.0), self.sizes)
        earned = -x[:, 0] * bought + 4.0 * x[:, 0] * (d[:, 0] > 0.4) - 2.0 * a[:, 1]
        if t == self.horizon - 1:
            earned = earned + 9.0 * left[:, 0]
        return earned, left


def said(problem: Any, simulations: int = 200) -> Any:
    return plan(problem, planner=UCT(simulations), seed=5)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions compile at once."""
    monkeypatch.setattr(planners, "COMPILED_FROM", 1)


def test_the_same_to_the_last_bit() -> None:
    class Once(Pump):
        pass

    before = said(Once())
    assert "model in plain Python" in before.basis
    found = translation(Once())
    assert found.is_same
    assert set(found.functions) == {"draw", "actions", "step"}
    after = said(Once())
    assert "model compiled" in after.basis
    assert after.value == before.value
    assert after.se == before.se
    assert np.array_equal(after.values, before.values, equal_nan=True)
    assert np.array_equal(after.visits, before.visits)


def test_only_what_says_so_is_compiled(compiled: None) -> None:
    """Whole numbers of numba are others than Python's, in states that no comparison may reach."""

    class Rare(Pump):
        numba = False

        def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
            rewards, left = Pump.step(self, t, x, d, a)
            return rewards + (2 ** (int(d[0, 0]) - 1) if t == 5 else 0.0), left

    found = said(Rare())
    assert "model in plain Python" in found.basis
    assert known_translation(Rare()) is None


def test_what_a_function_holds_is_looked_at_again() -> None:
    prices = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]

    class Held(Pump):
        def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
            return prices[t] * a[:, 0], d

    translation(Held())
    assert known_translation(Held()) is not None
    prices[3] = 100.0
    assert known_translation(Held()) is None


def test_lists_of_other_modules_are_looked_at_again() -> None:
    other: Any = ModuleType("other")
    other.prices, other.added = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], lambda amount: amount + 1.0

    class Far(Pump):
        def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
            return other.prices[t] * other.added(a[:, 0]), d

    translation(Far())
    assert known_translation(Far()) is not None
    other.prices[3] = 100.0
    assert known_translation(Far()) is None
    translation(Far())
    other.added = lambda amount: amount + 2.0
    assert known_translation(Far()) is None


def test_divisors_are_looked_at(compiled: None) -> None:
    class Divided(Pump):
        def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
            return a[:, 0] + 10 // (1 if x[0, 0] < 11.0 else 0), d

    with pytest.raises(ZeroDivisionError):
        plan(Divided(), planner=UCT(4000, leaf="rollout"))


@pytest.mark.parametrize(
    ("function", "fine", "wrong", "error"),
    [
        (math.sqrt, 4.0, -1.0, ValueError),
        (math.log, 2.0, 0.0, ValueError),
        (math.exp, 1.0, 1000.0, OverflowError),
        (lambda number: math.pow(number, 0.5), 2.0, -2.0, ValueError),
        (int, 2.7, math.nan, ValueError),
        (round, 2.5, math.inf, OverflowError),
        (math.floor, -2.5, math.nan, ValueError),
    ],
    ids=["sqrt", "log", "exp", "pow", "int", "round", "floor"],
)
def test_what_is_no_number_is_told(
    function: Any, fine: float, wrong: float, error: Any, compiled: None
) -> None:
    """In a state that few simulations meet, and whatever is made of the number then."""

    class Rooted(Pump):
        def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
            found = function(wrong if x[0, 0] > 15.0 else fine)
            return a[:, 0] + (1.0 if found > 2 else 0.0), d

    assert "step" not in translation(Rooted()).reasons
    with pytest.raises(error):
        plan(Rooted(), planner=UCT(4000, leaf="rollout"))


def test_what_is_a_number_is_the_same(compiled: None) -> None:
    class Rooted(Pump):
        def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
            rewards, left = np.zeros(len(d)), d.copy()
            for i in range(len(d)):
                risen = math.sqrt(abs(x[i, 0])) + math.log(x[i, 0] ** 2 + 1.0) + math.pow(t, 2)
                rewards[i] = risen + int(x[i, 0]) + round(x[i, 0]) + math.exp(-math.inf)
                rewards[i] += int(t) + int(True) + math.floor(x[i, 0])
            return rewards, left.astype(int) + 0.0

    found = translation(Rooted())
    assert not found.reasons
    assert found.is_same


def test_equal_problems_share_code_and_others_have_their_own() -> None:
    first = Pump(power=1.0)
    found = translation(first)
    assert translation(Pump(power=1.0)) is found
    assert known_translation(Pump(power=2.0)) is None
    assert known_translation(Pump(loss=0.5)) is None
    first.motor.loss = 0.5
    assert known_translation(first) is None


def test_a_problem_that_changes_is_compiled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, planner = Pump(), UCT(200, leaf="rollout")
    session: Any = planner.begin(problem, None, 7)
    session.ready()
    before = session(problem.start)
    problem.power = 0.5
    session.reseed(7)
    after, fresh = session(problem.start), planner.begin(Pump(0.5), None, 7)(problem.start)
    assert "model compiled" in after.basis
    assert not np.array_equal(after.values, before.values, equal_nan=True)
    assert np.array_equal(after.values, fresh.values, equal_nan=True)  # type: ignore[attr-defined]
    monkeypatch.setitem(tariff.__globals__, "SHIFT", 50.0)
    assert known_translation(problem) is None


class Tabled(Pump):
    """A dictionary inside."""

    prices = {0: 1.0}  # noqa: RUF012

    def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
        rewards, left = Pump.step(self, t, x, d, a)
        return rewards + self.prices.get(t, 0.0), left


class Chosen(Pump):
    """Chance that numba does not know."""

    def draw(self, t: int, x: Any, generator: np.random.Generator) -> Any:
        return x + generator.choice([-1.0, 1.0], size=x.shape)


class Global(Pump):
    """Chance from elsewhere, of which compiled code has its own."""

    def draw(self, t: int, x: Any, generator: np.random.Generator) -> Any:
        return x + np.random.normal(0.0, 1.0)  # noqa: NPY002


class Based(Pump):
    """What a class reads of another."""

    def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
        return Pump.step(self, t, x, d, a)[0] + 0.0 * np.sum(a), d  # by its name


class Flat(Pump):
    """An index that numba does not look at."""

    def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
        rewards, left = Pump.step(self, t, x, d, a)
        return rewards + sum([left.flat[k] for k in range(2)]), left


class Sorted(Pump):
    """Ties that numba puts in another order."""

    def actions(self, state: State) -> Any:
        found = np.array([[2.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
        return found[np.argsort(found[:, 1])]


class Rounded(Pump):
    """round(2.675, 2) is 2.67 in Python and 2.68 in numba."""

    def actions(self, state: State) -> Any:
        return np.array([[round(state.resource[0], 2), 0.0]])


class Half(Pump):
    """A variable that only some ways through the method give a value."""

    def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
        rewards, left = Pump.step(self, t, x, d, a)
        if t < 9:
            bonus = 1.0
        return rewards + bonus, left


class Helped(Pump):
    """What does not compile stands in a function beside the class."""

    def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
        return a[:, 0] + looked_up(t), d


def looked_up(t: int) -> float:
    return math.fsum([t, 1.0])


def line_of(text: str) -> str:
    lines = Path(__file__).read_text().splitlines()
    at = next(i for i, line in enumerate(lines, 1) if text in line and "line_of" not in line)
    return f"(test_translated.py, line {at})"


@pytest.mark.parametrize(
    ("kind", "method", "reason"),
    [
        (Tabled, "step", f"self.prices is a dict {line_of('self.prices.get')}"),
        (Based, "step", f"numba does not know Pump {line_of('# by its name')}"),
        (Chosen, "draw", f"numba has no Generator.choice {line_of('generator.choice([')}"),
        (Flat, "step", f".flat is not checked by numba: use .ravel() {line_of('left.flat[k]')}"),
        (Half, "step", f"bonus is not always assigned {line_of('rewards + bonus')}"),
        (Sorted, "actions", f"use argsort(kind='mergesort') {line_of('np.argsort(found')}"),
        (Rounded, "actions", f"use np.round {line_of('round(state.resource')}"),
        (Helped, "step", line_of("math.fsum([")),
        (Global, "draw", "compiled it gives other numbers at t=0"),
    ],
)
def test_what_stays_plain_python_is_said(kind: Any, method: str, reason: str) -> None:
    found = translation(kind())
    assert list(found.reasons) == [method]
    assert reason in found.reasons[method]
    assert "\n" not in found.words
    assert f"but {method} is not: " in found.words
    assert len(found.functions) == 2


def test_a_part_that_is_plain_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    before = said(Chosen())
    monkeypatch.setattr(planners, "COMPILED_FROM", 1)
    after = said(Chosen())
    assert "Generator.choice" in after.basis
    assert (after.value, after.se) == (before.value, before.se)
    assert np.array_equal(after.values, before.values, equal_nan=True)


def test_errors_in_compiled_code_are_those_of_the_plain_method(compiled: None) -> None:
    """Out of an array, and into nan: never read, and told by the method itself."""

    class Outside(Pump):
        def step(self, t: int, x: Any, d: Any, a: Any) -> Any:
            k = 7 if x[0, 0] > 11.0 else 0
            return x[:, k] + a[:, 0], d

    with pytest.raises(IndexError, match="out of bounds"):
        plan(Outside(), planner=UCT(4000, leaf="rollout"))


def test_many_decisions_are_compiled_on_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    class Played(Pump):
        pass

    plain = evaluate(Played(), UCT(50), 4, seed=1)
    assert known_translation(Played()) is None
    monkeypatch.setattr(planners, "COMPILED_FROM", 500)
    mixed = evaluate(Played(), UCT(50), 4, seed=1)
    assert known_translation(Played()) is not None
    assert np.array_equal(plain.outcomes, mixed.outcomes)
