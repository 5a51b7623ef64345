"""The terms of options and baskets, and what is wrong with bad ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from counterplan.domains.basket import OptionBasket
from counterplan.domains.option_contract import BASKETS, OPTIONS, BasketContract, OptionContract
from counterplan.domains.options import AmericanOption
from counterplan.errors import CounterplanError, InputError


def test_payoffs_and_dates() -> None:
    call = OptionContract(40, 36, 1.0, 0.1, 0.2, 0.1)
    put = replace(call, kind="put")
    assert call.dates == 11
    prices = np.array([30.0, 36.0, 40.0])
    assert call.payoff(prices).tolist() == [0.0, 0.0, 4.0]
    assert put.payoff(prices).tolist() == [6.0, 0.0, 0.0]
    assert call.discount(10) == pytest.approx(np.exp(-0.1))


def test_tables() -> None:
    assert sorted(OPTIONS) == sorted(BASKETS) == list("ABCDEF")
    assert [OPTIONS[key].dates for key in "ABCDEF"] == [11, 16, 11, 21, 16, 11]
    assert [BASKETS[key].options[0].dates for key in "ABCDEF"] == [51, 31, 27, 61, 36, 21]
    assert [len(BASKETS[key].options) for key in "ABCDEF"] == [3, 4, 3, 5, 4, 4]
    assert [BASKETS[key].cap for key in "ABCDEF"] == [3, 3, 2, 3, 2, 2]


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
        (
            lambda: OptionBasket("A", action_set="best"),  # type: ignore[arg-type]
            "action_set 'best' is unknown: choose ranked, payoff, all",
        ),
        (
            lambda: OptionBasket(BasketContract((C,) * 11, 2), action_set="all"),
            "action_set='all' would list 2^11 sets: use 'ranked'",
        ),
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


def test_impossible_correlation() -> None:
    """Three prices cannot all move against each other."""
    with pytest.raises(CounterplanError, match="negative eigenvalue") as caught:
        OptionBasket("A", correlation=-0.9)
    assert "\n" not in str(caught.value)


def test_lattice_that_cannot_follow_the_drift() -> None:
    """p would exceed 1: the rate outgrows the volatility within one step."""
    steep = OptionContract(100, 100, 1.0, 0.5, 0.05, 0.5)
    with pytest.raises(InputError, match="probability of going up"):
        AmericanOption(steep, prices="binomial")
