"""Longstaff-Schwartz on 100,000 paths against QuantLib's Monte Carlo engine, on one core.

    python -m benchmarks.longstaff_schwartz

QuantLib fits on 2,048 paths and prices on 100,000 others. Here, `fit` fits on 100,000 paths and
prices on the same; `fit + fresh` prices on 100,000 others as well: twice the work, for the honest
lower bound. Each round times all three, one after the other, in processor seconds, which other work
on the machine disturbs less. The price of every method stands next to QuantLib's finite-difference
value of the option on the same dates, in standard errors.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

from typing import Any  # noqa: E402

import QuantLib as ql  # noqa: E402, N813
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from benchmarks.measure import Timing, machine, ratio, timed, timing  # noqa: E402
from counterplan.domains.option_contract import OptionContract  # noqa: E402
from counterplan.domains.options import AmericanOption  # noqa: E402
from counterplan.planning.model import Estimate  # noqa: E402
from experiments.longstaff_schwartz import longstaff_schwartz  # noqa: E402

RESULTS = Path(__file__).parent / "results" / "longstaff_schwartz.md"
PATHS = 100_000
CALIBRATION_PATHS = 2048
ROUNDS = 5
# QuantLib counts days: a step is this many, and the rates are those of a step.
DAYS = 73


def quoted(option: OptionContract) -> tuple[Any, Any, list[Any]]:
    """QuantLib's process, payoff and exercise dates."""
    today = ql.Date(1, 1, 2020)
    ql.Settings.instance().evaluationDate = today
    count = ql.Actual365Fixed()
    scale = option.step / (DAYS / 365)
    volatility = option.volatility * math.sqrt(scale)
    process = ql.BlackScholesMertonProcess(
        ql.QuoteHandle(ql.SimpleQuote(option.price)),
        ql.YieldTermStructureHandle(ql.FlatForward(today, option.dividend * scale, count)),
        ql.YieldTermStructureHandle(ql.FlatForward(today, option.rate * scale, count)),
        ql.BlackVolTermStructureHandle(
            ql.BlackConstantVol(today, ql.NullCalendar(), volatility, count)
        ),
    )
    kind = ql.Option.Call if option.kind == "call" else ql.Option.Put
    payoff = ql.PlainVanillaPayoff(kind, option.strike)
    return process, payoff, [today + DAYS * i for i in range(option.dates)]


def finite_differences(option: OptionContract) -> float:
    process, payoff, dates = quoted(option)
    contract = ql.VanillaOption(payoff, ql.BermudanExercise(dates))
    contract.setPricingEngine(ql.FdBlackScholesVanillaEngine(process, 2000, 2000))
    return float(contract.NPV())


def quantlib(option: OptionContract, seed: int) -> Estimate:
    process, payoff, dates = quoted(option)
    contract = ql.VanillaOption(payoff, ql.AmericanExercise(dates[0], dates[-1]))
    engine = ql.MCAmericanEngine(
        process,
        "PseudoRandom",
        timeSteps=option.dates - 1,
        polynomOrder=2,
        requiredSamples=PATHS,
        seed=seed,
        nCalibrationSamples=CALIBRATION_PATHS,
    )
    contract.setPricingEngine(engine)
    return Estimate(contract.NPV(), contract.errorEstimate())


def measure(config: str) -> tuple[dict[str, Timing], dict[str, Estimate]]:
    """Seconds by method over all rounds, and the prices of the first."""
    option = AmericanOption(config)
    seconds: dict[str, list[tuple[float, float]]] = {}
    prices: dict[str, Estimate] = {}

    def fit(seed: int) -> Estimate:
        return longstaff_schwartz(option, PATHS, seed).in_sample

    def fresh(seed: int) -> Estimate:
        return longstaff_schwartz(option, PATHS, seed).out_of_sample(PATHS, seed + 1000)

    def theirs(seed: int) -> Estimate:
        return quantlib(option.contract, seed)

    fresh(0)  # load the compiled code
    for seed in range(1, ROUNDS + 1):
        for name, method in (("QuantLib", theirs), ("fit", fit), ("fit + fresh", fresh)):
            found: list[Estimate] = []
            spent = timed(lambda m=method, s=seed, f=found: f.append(m(s)))  # type: ignore[misc]
            seconds.setdefault(name, []).append(spent)
            prices.setdefault(name, found[0])
    return {name: timing(pairs) for name, pairs in seconds.items()}, prices


def main() -> None:
    table = Table(title=f"{PATHS:,} paths, medians of {ROUNDS} rounds")
    numbers = ("processor s", "times as fast", "price", "se", "off by (se)")
    for column in ("config", "method", *numbers):
        table.add_column(column, justify="right" if column in numbers else "left")
    for config in "ABCDEF":
        timings, prices = measure(config)
        value = finite_differences(AmericanOption(config).contract)
        table.add_row(config, "finite differences", "", "", f"{value:.4f}", "", "", style="dim")
        for name, spent in timings.items():
            faster = ratio(timings["QuantLib"], spent)[1]
            mean, se = prices[name]
            off = f"{(mean - value) / se:+.1f}" if se > 0 else f"{mean - value:+.0e} exactly"
            cells = (
                f"{spent.cpu.median:.3f}",
                f"{faster.median:.1f}x",
                f"{mean:.4f}",
                f"{se:.4f}",
            )
            table.add_row("", name, *cells, off)
    console = Console(width=100, record=True)
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()), soft_wrap=True)
    console.print(table)
    written = "Written by `python -m benchmarks.longstaff_schwartz`."
    head = f"# Longstaff-Schwartz against QuantLib\n\n{written}\n"
    RESULTS.write_text(f"{head}\n```text\n{console.export_text()}```\n", encoding="utf-8")


if __name__ == "__main__":
    main()
