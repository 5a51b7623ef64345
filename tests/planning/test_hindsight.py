"""`hindsight`: the right solver, its certificate, and refusals that say what applies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from counterplan.core.validation import FloatArray
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.errors import InputError, NotApplicableError
from counterplan.planning.hindsight import hindsight
from counterplan.planning.model import Allocation, State
from counterplan.planning.processes import GBM, MarkovModes
from counterplan.planning.resource import Resource

from .selling import Selling
from .small_models import FAIR

PRICE = GBM(100.0, 0.1, 0.4, dt=0.1)
TANK = ExogenousMDP(
    PRICE, [[1.0]], Resource(0, 50, +1, [-30, -30, -20]), [(0, 50)] * 3, sense="min"
)
STOCK = ExogenousMDP(PRICE, [[1.0]], Resource(9), [(0, 4)] * 5, budget=(2, 7))
FUELS = ExogenousMDP(
    MarkovModes([[0.5, 0.5], [0.3, 0.7]], indicators=True),
    [[10, 8], [8, 9]],
    [Resource(8), Resource(9)],
    [(4, 4)] * 4,
)
LOOSE = ExogenousMDP(
    GBM([10.0, 12.0], 0.1, 0.3, 0.1, 0.5, "correlated"),
    np.eye(2),
    [Resource(5), Resource(5)],
    [(0, 4)] * 4,
)
BASIN = ExogenousMDP(PRICE, [[1.0]], Resource(2, 5, -1, 2, spill=True), [(0, 3)] * 4, budget=(0, 6))


@pytest.mark.parametrize(
    ("model", "methods"),
    [
        (TANK, ["nested", "lp"]),
        (STOCK, ["nested", "lp"]),
        (FUELS, ["advantage", "lp"]),
        (LOOSE, ["lp"]),
        (BASIN, ["lp"]),
    ],
)
def test_methods_that_apply_agree_and_the_others_say_why(
    model: ExogenousMDP, methods: list[Any]
) -> None:
    path = model.sample_path(seed=3)
    found = hindsight(model, path)
    assert found.method.startswith(f"{methods[0]}: ")
    assert found.certificate.replayed == pytest.approx(found.value, rel=1e-9)
    assert found.certificate.bound == pytest.approx(found.value, rel=1e-9)
    every: list[Any] = ["advantage", "nested", "lp"]
    for method in every:
        if method in methods:
            assert hindsight(model, path, method).value == pytest.approx(found.value, rel=1e-9)
        else:
            advice = " or ".join(f"'{name}'" for name in methods)
            with pytest.raises(NotApplicableError, match=f"'{method}' does not .*; use {advice}$"):
                hindsight(model, path, method)


def test_a_cost_is_least() -> None:
    found = hindsight(TANK, np.array([10.0, 1.0, 5.0]))
    # 30 for the first leg, then as much of the later 50 as fits: all of it.
    assert found.value == 30 * 10 + 50 * 1
    assert found.actions.tolist() == [[30], [50], [0]]
    later = hindsight(TANK, [1.0, 5.0], state=State(1, np.array([1.0]), np.array([20.0])))
    assert (later.value, later.actions.tolist()) == (30, [[30], [0]])


def test_a_constant_reward_is_taken_first() -> None:
    """A reward of 1 in either mode: the expected rewards are 1 but for rounding (D5)."""
    modes = MarkovModes([[0.5, 0.5], [0.2, 0.8]], 0, indicators=True)
    model = ExogenousMDP(modes, np.ones((1, 2)), Resource(10), [(0, 4)] * 5)
    path = model.mean_path()
    path[:, 0] += np.array([0, 2, -1, 1, -2]) * np.finfo(float).eps
    assert len(set((path @ np.ones(2)).tolist())) > 1
    assert hindsight(model, path, "nested").actions.ravel().tolist() == [4, 4, 2, 0, 0]


def test_the_mean_is_a_bound_and_not_the_value() -> None:
    """One unit, sold now for 100 or tomorrow for 150 or 75, equally likely: V* = 112.5, while
    hindsight gains 125 on average, however many futures are sampled (Thm. 1 equates the two)."""
    paths = np.array([[[100.0], [150.0]], [[100.0], [75.0]]])
    model = ExogenousMDP(PRICE, [[1.0]], Resource(1), [(0, 1)] * 2)
    assert model.allocate(paths).values.mean() == 125


class SoldAtOnce(Selling):
    """One unit, sold on the best day."""

    def allocate(self, paths: FloatArray, state: State | None = None) -> Allocation:
        prices = self.prices[paths[:, :, 0].astype(int)]
        actions = np.eye(self.horizon)[prices.argmax(axis=1)][:, :, None]
        return Allocation(prices.max(axis=1), actions, "the best moment")


def test_a_model_with_a_solver_of_its_own() -> None:
    model = SoldAtOnce(FAIR.prices, FAIR.matrix, horizon=2, stock=1, daily=1, least=1)
    found = hindsight(model, [[1.0], [2.0]])
    assert (found.value, found.method) == (3.0, "the best moment")
    assert found.certificate.replayed == 3
    assert found.certificate.bound is None
    with pytest.raises(NotApplicableError, match=r"'lp' needs a plain resource program.*'model'"):
        hindsight(model, [[1.0], [2.0]], "lp")
    with pytest.raises(NotApplicableError, match="Selling cannot be solved in hindsight: give it"):
        hindsight(FAIR, np.zeros((4, 1)))


@pytest.mark.parametrize("seed", range(5))
def test_bunkering_is_nested_allocation(seed: int) -> None:
    ship = Bunkering("A")
    path = ship.sample_path(seed)
    own = hindsight(ship, path)
    assert own.certificate.bound == pytest.approx(own.value, rel=1e-9)
    methods: list[Any] = ["nested", "lp"]
    for method in methods:
        found = hindsight(ship, path, method)
        assert found.method.startswith(f"{method}: ")
        assert found.value == pytest.approx(own.value, rel=1e-9)
        assert found.certificate.replayed == pytest.approx(own.value, rel=1e-9)
    later = State(3, path[3], np.array([11.0]))
    least = hindsight(ship, path[3:], state=later).value
    assert hindsight(ship, path[3:], "lp", later).value == pytest.approx(least, rel=1e-9)
    with pytest.raises(NotApplicableError, match=r"'advantage' does not .*; use 'nested' or 'lp'$"):
        hindsight(ship, path, "advantage")


def test_bunkering_with_more_than_prices_is_not() -> None:
    ship = Bunkering("A", fixed_cost=9.0)
    with pytest.raises(NotApplicableError, match=r"needs a plain resource program.* use 'model'$"):
        hindsight(ship, ship.sample_path(0), "nested")
    assert hindsight(ship, ship.sample_path(0)).certificate.bound is None


def test_where_adding_pays_and_spills_no_method_is_advised() -> None:
    def tank(sense: Any) -> ExogenousMDP:
        spilling = Resource(3, 5, +1, [3, -2, 1, -3], spill=True)
        return ExogenousMDP(PRICE, [[1.0]], spilling, [(0, 4)] * 4, sense=sense)

    path = [10.0, 11.0, 9.0, 12.0]
    every: list[Any] = ["auto", "advantage", "nested", "lp"]
    for method in every:
        with pytest.raises(NotApplicableError, match="pays although it spills over") as caught:
            hindsight(tank("max"), path, method)
        assert "use '" not in str(caught.value)
        assert "\n" not in str(caught.value)
    assert hindsight(tank("min"), path).method.startswith("nested")
    with pytest.raises(NotApplicableError, match=r"'lp' does not apply: .*; use 'nested'$"):
        hindsight(tank("min"), path, "lp")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ([1.0, 2.0], r"the path must be \(3, 1\): x_0 .. x_2, got \(2,"),
        ("abc", "the path must hold numbers"),
        ([1.0, np.nan, 3.0], r"the path at t=1 is \[nan\]: must be finite"),
    ],
)
def test_bad_questions(path: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        hindsight(TANK, path)
    with pytest.raises(InputError, match="method 'greedy' is not one of auto, advantage"):
        hindsight(TANK, [1.0, 2.0, 3.0], "greedy")  # type: ignore[arg-type]
