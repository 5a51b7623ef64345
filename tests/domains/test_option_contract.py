"""The terms of options, and their values: references, the lattice by brute force, properties."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counterplan.core.validation import FloatArray
from counterplan.domains import option_contract as options_exact
from counterplan.domains.basket import OptionBasket
from counterplan.domains.option_contract import (
    BASKETS,
    OPTIONS,
    BasketContract,
    Bermudan,
    OptionContract,
    european,
)
from counterplan.domains.options import AmericanOption
from counterplan.errors import CounterplanError, InputError

C = OPTIONS["C"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"volatility": -0.2}, "option volatility must be greater than 0, got -0.2"),
        ({"step": -0.05}, "option step must be greater than 0, got -0.05"),
        ({"step": 0.0}, "option step must be greater than 0, got 0"),
        ({"price": 0.0}, "option price must be greater than 0, got 0"),
        ({"strike": float("nan")}, "option strike must be finite, got nan"),
        ({"maturity": "soon"}, "option maturity must be a number, got 'soon'"),
        ({"rate": -0.01}, "option rate must be at least 0, got -0.01"),
        ({"dividend": -0.01}, "option dividend must be at least 0, got -0.01"),
        ({"kind": "straddle"}, "option kind 'straddle' is unknown: choose 'call' or 'put'"),
        (
            {"step": 0.3},
            "option maturity 0.5 is not a whole number of steps of 0.3: the last exercise date is "
            "the maturity",
        ),
    ],
)
def test_bad_terms(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as caught:
        replace(C, **change)  # type: ignore[arg-type]
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: AmericanOption("G"),
            "option config 'G' is unknown: choose A, B, C, D, E, F, or pass an OptionContract",
        ),
        (
            lambda: AmericanOption("A", prices="heston"),  # type: ignore[arg-type]
            "prices 'heston' are unknown: choose 'gbm' or 'binomial'",
        ),
        (
            lambda: OptionBasket("G"),
            "basket config 'G' is unknown: choose A, B, C, D, E, F, or pass a BasketContract",
        ),
        (lambda: OptionBasket("A", cap=0), "cap must be at least 1, got 0"),
        (lambda: BasketContract((), 1), "a basket needs at least one option"),
        (
            lambda: BasketContract((C, replace(C, maturity=1.0)), 1),
            "the options of a basket must share one maturity, got 0.5, 1",
        ),
    ],
)
def test_bad_choices(make: object, message: str) -> None:
    with pytest.raises(InputError) as caught:
        make()  # type: ignore[operator]
    assert str(caught.value) == message


def test_impossible_prices() -> None:
    """Three cannot all move against each other; a rate that outgrows the volatility within one step
    would make p exceed 1."""
    with pytest.raises(CounterplanError, match="negative eigenvalue") as caught:
        OptionBasket("A", correlation=-0.9)
    assert "\n" not in str(caught.value)
    steep = OptionContract(100, 100, 1.0, 0.5, 0.05, 0.5)
    with pytest.raises(InputError, match="probability of going up"):
        AmericanOption(steep, prices="binomial")


def value_of(option: OptionContract) -> float:
    return AmericanOption(option).optimal_value()


@pytest.mark.parametrize(
    ("config", "value"), [("A", 7.9954), ("C", 5.4923), ("D", 4.0), ("F", 3.0)]
)
def test_reference_values(config: str, value: float) -> None:
    assert AmericanOption(config).optimal_value() == pytest.approx(value, abs=5e-5)


def test_reference_european_value_and_basket() -> None:
    option = OPTIONS["C"]
    best = max(european(option, np.array([36.0]), s)[0][0] for s in range(option.dates))
    assert best == pytest.approx(5.4578, abs=5e-5)
    total = sum(value_of(option) for option in BASKETS["A"].options)
    assert total == pytest.approx(13.508, abs=5e-4)


@pytest.mark.parametrize("config", "BC")
def test_quadrature_has_converged(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three times the nodes on half as much range again: the stated 1e-13 of the strike."""
    option = OPTIONS[config]
    coarse = value_of(option)
    monkeypatch.setattr(options_exact, "PANEL_WIDTH", 1.0)
    monkeypatch.setattr(options_exact, "RANGE_WIDTH", 13.5)
    assert value_of(option) == pytest.approx(coarse, abs=1e-12 * option.strike)


def test_two_dates_by_plain_quadrature() -> None:
    """One early date: E[max(payoff, European)] integrated with many trapezoids.

    The kink costs the trapezoid rule h^2: 1e-9 with h = 2e-5 deviations.
    """
    option = replace(OPTIONS["C"], step=0.25)
    z = np.linspace(-10, 10, 1_000_001)
    deviation = option.volatility * np.sqrt(option.step)
    prices = option.price * np.exp(option.drift * option.step - deviation**2 / 2 + deviation * z)
    then = np.maximum(option.payoff(prices), european(option, prices, 1)[0])
    density = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    held = option.discount(1) * np.trapezoid(then * density, z)
    found = Bermudan.solve(option).continuation(0, np.array([option.price]))[0]
    assert found == pytest.approx(held, abs=1e-8)


def test_fine_lattice_approaches_the_quadrature() -> None:
    """Cox-Ross-Rubinstein errs by O(1 / steps): 0.2 % of the value with 40 steps per date."""
    option, per_date = OPTIONS["C"], 40
    fine = replace(option, step=option.step / per_date)
    up = np.exp(option.volatility * np.sqrt(fine.step))
    p = (np.exp(option.drift * fine.step) - 1 / up) / (up - 1 / up)
    steps = fine.dates - 1
    assert steps == per_date * (option.dates - 1)
    values = np.zeros(steps + 2)
    for left in range(steps, -1, -1):
        values = np.exp(-option.rate * fine.step) * (p * values[1:] + (1 - p) * values[:-1])
        if left % per_date == 0:
            prices = option.price * up ** (2.0 * np.arange(left + 1) - left)
            values = np.maximum(values, option.payoff(prices))
    assert values[0] == pytest.approx(value_of(option), rel=2e-3)


def boundaries(solved: Bermudan) -> FloatArray:
    """(T,) prices at and beyond which exercising is optimal (put: below, call: above)."""
    edges = np.array([edge for edge, _, _ in solved.dates])
    return np.asarray(solved.option.strike * np.exp(-solved.option.sign * edges))


def test_call_without_dividend_is_european() -> None:
    option = OPTIONS["A"]
    solved = Bermudan.solve(option)
    assert np.all(np.isinf(boundaries(solved)[:-1]))
    prices = np.array([20.0, 36.0, 60.0])
    expected, _ = european(option, prices, option.dates - 1)
    assert solved.continuation(0, prices) == pytest.approx(expected, abs=1e-12)


def test_boundary_parts_exercise_from_waiting() -> None:
    option = OPTIONS["C"]
    solved = Bermudan.solve(option)
    assert np.all(np.diff(boundaries(solved)) > 0)  # a put's rises to the strike
    assert boundaries(solved)[-1] == option.strike
    for t in range(option.dates - 1):
        edge = boundaries(solved)[t]
        around = edge + np.array([-0.01, 0.01])
        gain = option.payoff(around) - solved.continuation(t, around)
        assert gain[0] > 0 > gain[1]


contracts = st.builds(
    OptionContract,
    price=st.floats(5, 20),
    strike=st.floats(5, 20),
    maturity=st.just(1.0),
    rate=st.floats(0, 0.2),
    volatility=st.floats(0.1, 0.6),
    step=st.sampled_from([0.25, 0.5]),
    dividend=st.floats(0, 0.2),
    kind=st.sampled_from(["call", "put"]),
)


@settings(max_examples=40, deadline=None)
@given(contracts)
def test_choice_is_worth_something(option: OptionContract) -> None:
    """At least every fixed date, at most all of them; more dates are never worth less."""
    price = np.array([option.price])
    fixed = [european(option, price, s)[0][0] for s in range(option.dates)]
    value = value_of(option)
    assert max(fixed) - 1e-10 <= value <= sum(fixed) + 1e-10
    finer = replace(option, step=option.step / 2)
    assert value_of(finer) >= value - 1e-10


@settings(max_examples=20, deadline=None)
@given(contracts)
def test_waiting_is_convex_in_the_price(option: OptionContract) -> None:
    """What the tables of bounds rely on."""
    prices = np.linspace(1.0, 40.0, 79)
    waiting = Bermudan.solve(option).continuation(0, prices)
    assert np.all(np.diff(waiting, 2) >= -1e-9)


def brute_force(option: AmericanOption, t: int, price: float) -> float:
    """Max over exercising and holding, along the whole tree, not recombined."""
    c, lattice = option.contract, option.process
    payoff = float(c.payoff(np.array(price)))
    if t == c.dates - 1:
        return payoff
    p = lattice.probability  # type: ignore[union-attr]
    up, down = (brute_force(option, t + 1, price * f) for f in (lattice.up, lattice.down))  # type: ignore[union-attr]
    return max(payoff, float(c.discount(1)) * (p * up + (1 - p) * down))


@settings(max_examples=25, deadline=None)
@given(contracts)
def test_lattice_equals_brute_force(option: OptionContract) -> None:
    if abs(option.drift) * np.sqrt(option.step) >= option.volatility:
        return  # no risk-neutral lattice
    model = AmericanOption(option, prices="binomial")
    assert model.optimal_value() == pytest.approx(brute_force(model, 0, option.price), abs=1e-9)


def test_lattice_many_states_at_once() -> None:
    model = AmericanOption("C", prices="binomial")
    prices = np.array([30.0, 36.0, 45.0])
    for t, i in product((0, 4, 9, 10), range(3)):
        best = np.maximum(model.contract.payoff(prices), model.waiting(t, prices[:, None])[:, 0])
        assert best[i] == pytest.approx(brute_force(model, t, float(prices[i])), abs=1e-9)
