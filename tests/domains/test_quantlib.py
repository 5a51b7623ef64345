"""QuantLib as the judge of prices: finite differences, and its own Monte Carlo."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from counterplan.domains.option_contract import BASKETS, OPTIONS, OptionContract, european
from counterplan.domains.options import AmericanOption
from counterplan.planning.bounds import value_bounds
from experiments.longstaff_schwartz import longstaff_schwartz

ql = pytest.importorskip("QuantLib")

# QuantLib counts days: a step is this many, and the rates are those of a step.
DAYS = 73


def quoted(option: OptionContract) -> tuple[Any, list[Any]]:
    """The process and the exercise dates."""
    today = ql.Date(1, 1, 2020)
    ql.Settings.instance().evaluationDate = today
    count = ql.Actual365Fixed()
    scale = option.step / (DAYS / 365)
    process = ql.BlackScholesMertonProcess(
        ql.QuoteHandle(ql.SimpleQuote(option.price)),
        ql.YieldTermStructureHandle(ql.FlatForward(today, option.dividend * scale, count)),
        ql.YieldTermStructureHandle(ql.FlatForward(today, option.rate * scale, count)),
        ql.BlackVolTermStructureHandle(
            ql.BlackConstantVol(
                today, ql.NullCalendar(), option.volatility * float(np.sqrt(scale)), count
            )
        ),
    )
    return process, [today + DAYS * i for i in range(option.dates)]


def finite_differences(option: OptionContract, exercise: str = "bermudan") -> float:
    process, dates = quoted(option)
    kind = ql.Option.Call if option.kind == "call" else ql.Option.Put
    payoff = ql.PlainVanillaPayoff(kind, option.strike)
    if exercise == "bermudan":
        contract = ql.VanillaOption(payoff, ql.BermudanExercise(dates))
        contract.setPricingEngine(ql.FdBlackScholesVanillaEngine(process, 2000, 2000))
    else:
        contract = ql.VanillaOption(payoff, ql.EuropeanExercise(dates[-1]))
        contract.setPricingEngine(ql.AnalyticEuropeanEngine(process))
    return float(contract.NPV())


@pytest.mark.parametrize("config", "ABCDEF")
def test_bermudan_value(config: str) -> None:
    """2,000 x 2,000 finite differences err by some 1e-5."""
    option = OPTIONS[config]
    value = AmericanOption(config).optimal_value()
    assert value == pytest.approx(finite_differences(option), abs=3e-5)


@pytest.mark.parametrize("option", BASKETS["E"].options[:2], ids=["put", "call"])
def test_bermudan_value_of_basket_options(option: OptionContract) -> None:
    value = AmericanOption(option).optimal_value()
    assert value == pytest.approx(finite_differences(option), abs=3e-5)


@pytest.mark.parametrize("config", "ABCDEF")
def test_european_value(config: str) -> None:
    option = OPTIONS[config]
    value = european(option, np.array([option.price]), option.dates - 1)[0][0]
    assert value == pytest.approx(finite_differences(option, "european"), abs=1e-9)


def test_many_dates_approach_the_american_value() -> None:
    """On 500 dates the Bermudan is the American to about K r dt of waiting: 1e-3."""
    option = replace(OPTIONS["C"], step=0.001)
    process, dates = quoted(OPTIONS["C"])
    contract = ql.VanillaOption(
        ql.PlainVanillaPayoff(ql.Option.Put, option.strike),
        ql.AmericanExercise(dates[0], dates[-1]),
    )
    contract.setPricingEngine(ql.FdBlackScholesVanillaEngine(process, 1000, 1000))
    assert AmericanOption(option).optimal_value() == pytest.approx(contract.NPV(), abs=1e-3)


@pytest.mark.parametrize("config", "ABCDEF")
def test_longstaff_schwartz_is_within_two_standard_errors(config: str) -> None:
    """In sample and out of sample, on 100,000 paths; the seeds are fixed."""
    value = finite_differences(OPTIONS[config])
    fit = longstaff_schwartz(AmericanOption(config), paths=100_000, seed=0)
    for found in (fit.in_sample, fit.out_of_sample(100_000, seed=1)):
        assert found.mean == pytest.approx(value, abs=2 * found.se + 3e-5)


@pytest.mark.parametrize("config", "ABCDEF")
@pytest.mark.parametrize("seed", range(3))
def test_tight_interval_contains_the_value(config: str, seed: int) -> None:
    """And is a point, whatever the paths: finite differences err by up to 3e-5."""
    value = finite_differences(OPTIONS[config])
    bounds = value_bounds(AmericanOption(config), samples=2000, seed=seed, method="tight")
    low, high = bounds.interval(0.95)
    assert low - 3e-5 <= value <= high + 3e-5
    assert high - low <= 1e-9 * value
