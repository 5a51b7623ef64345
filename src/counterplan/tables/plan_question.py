"""A decision someone asks about: which problem, in which state, as the command line words it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from counterplan.core.validation import FloatArray, Seed
from counterplan.domains.basket import OptionBasket
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.errors import FileError, InputError, NotApplicableError
from counterplan.planning.bounds import ValueBounds
from counterplan.planning.exact_value import exact_value
from counterplan.planning.hindsight import allocate
from counterplan.planning.model import ExogenousModel, State, estimate
from counterplan.planning.policies import OpenLoop, follow, futures
from counterplan.planning.processes.modes import ResampledTraces, drive_cycle_modes
from counterplan.planning.processes.prices import BootstrapPrices
from counterplan.planning.search.planners import Plan

DOMAINS = ("bunkering", "hybrid", "options", "basket")
CONFIGS = ("A", "B", "C", "D", "E", "F")
# Larger prices are slips of the keyboard, and their sums would overflow.
LARGEST_PRICE = 1e12
# Which domains an option is about; those not listed are about all.
APPLIES = {
    "prices": ("bunkering", "options"),
    "prices_csv": ("bunkering",),
    "drive_cycle": ("hybrid",),
    "modes": ("hybrid",),
    "capacity": ("bunkering", "hybrid"),
    "hidden": ("hybrid",),
    "correlation": ("basket",),
    "price": ("bunkering", "options", "basket"),
    "mode": ("hybrid",),
    "level": ("bunkering", "hybrid", "basket"),
}


@dataclass(frozen=True, kw_only=True)
class PlanQuestion:
    """A problem and a state; None where nothing was said.

    domain       'bunkering', 'hybrid', 'options' or 'basket'
    config       'A' to 'F' ('A')
    prices       bunkering: 'independent' or 'global'; options: 'gbm' or 'binomial'
    prices_csv   bunkering: recorded prices, a row for each port, instead of those of `config`
    drive_cycle  hybrid: recorded speeds, from which modes are resampled
    modes        hybrid: 3 or 7
    capacity     hybrid: 'tight', 'half' or a number; bunkering: a number
    hidden       hybrid: whether driving modes are hidden
    correlation  basket: of every two prices
    step         t, how many decisions have been made
    price        what is quoted now, one number (basket: one for each option)
    mode         hybrid: 'gas', 'electric' or 'braking' (seven modes: 'gas1' .. 'electric3')
    level        what is left: fuel, or gas and electric, or ones for options held
    """

    domain: str
    config: str | None = None
    prices: str | None = None
    prices_csv: Path | None = None
    drive_cycle: Path | None = None
    modes: int | None = None
    capacity: str | None = None
    hidden: bool = False
    correlation: float | None = None
    step: int = 0
    price: Sequence[float] | None = None
    mode: str | None = None
    level: Sequence[float] | None = None


def problem_of(question: PlanQuestion) -> ExogenousModel:
    """The problem; options that have nothing to do with its domain are refused."""
    if question.domain not in DOMAINS:
        raise InputError(f"unknown domain {question.domain!r}: choose from {', '.join(DOMAINS)}")
    for name, domains in APPLIES.items():
        given = getattr(question, name)
        if given is not None and given is not False and question.domain not in domains:
            option = "--" + name.replace("_", "-")
            raise InputError(
                f"{option} is for {' and '.join(domains)}, not for {question.domain}: leave it out"
            )
    if question.config is not None and question.config not in CONFIGS:
        raise InputError(f"--config {question.config!r} is not one of {', '.join(CONFIGS)}")
    return _MAKERS[question.domain](question)


def state_of(question: PlanQuestion, problem: ExogenousModel) -> State:
    """The state asked about: the problem's start, with what was said put in its place."""
    start = problem.start
    if not 0 <= question.step < problem.horizon:
        raise InputError(
            f"--step {question.step}: decisions are made at steps 0 to {problem.horizon - 1}; "
            "choose one of these"
        )
    needed = "mode" if question.domain == "hybrid" else "price"
    if question.step > 0 and getattr(question, needed) is None and not question.hidden:
        raise InputError(f"--step {question.step} needs --{needed}: give what is seen by then")
    exogenous = _exogenous(question, problem)
    level = _numbers(question.level, "--level", start.resource)
    state = State(question.step, exogenous, level)
    _check_level(problem, state)
    return state


# --- Problems ---------------------------------------------------------------------------------


def _bunkering(question: PlanQuestion) -> Bunkering:
    prices: Any = question.prices or "independent"
    if prices not in ("independent", "global"):
        raise InputError(
            f"--prices {prices!r}: bunkering's are 'independent' or 'global'; choose one"
        )
    if question.prices_csv is not None:
        if question.config is not None:
            raise InputError("--config names prices, and --prices-csv brings its own: give one")
        prices = BootstrapPrices.from_csv(question.prices_csv, kind=prices)
    config = question.config or "A"
    if question.capacity is None:
        problem = Bunkering(config, prices)
    else:
        problem = Bunkering(config, prices, capacity=_number(question.capacity, "a number"))
    if isinstance(prices, BootstrapPrices):
        _check_record(question, prices, problem)
    return problem


def _check_record(question: PlanQuestion, prices: BootstrapPrices, problem: Bunkering) -> None:
    """Raise if the record is too short for the voyage."""
    try:
        for t in range(problem.horizon):
            prices.factors(t)
    except InputError:
        raise FileError(
            f"{question.prices_csv}: has {len(prices.log_prices)} prices, but {problem.horizon} "
            f"ports need {problem.horizon + 1} at least; add rows"
        ) from None


def _hybrid(question: PlanQuestion) -> HybridVehicle:
    modes = 3 if question.modes is None else question.modes
    if modes not in (3, 7):
        raise InputError(f"--modes {modes}: there are configurations with 3 and with 7")
    process = None
    if question.drive_cycle is not None:
        if modes != 3:
            raise InputError(f"--drive-cycle shows 3 modes, not {modes}: leave --modes out")
        process = ResampledTraces.from_modes([drive_cycle_modes(question.drive_cycle)], modes=3)
    capacity: Any = question.capacity or "tight"
    if capacity not in ("tight", "half"):
        number = _number(capacity, "tight, half or a number")
        if number != int(number):
            raise InputError(f"--capacity {capacity!r}: fuel comes in whole units")
        capacity = int(number)
    return HybridVehicle(question.config or "A", modes, capacity, question.hidden, process)


def _options(question: PlanQuestion) -> AmericanOption:
    prices: Any = question.prices or "gbm"
    if prices not in ("gbm", "binomial"):
        raise InputError(f"--prices {prices!r}: an option's are 'gbm' or 'binomial'; choose one")
    return AmericanOption(question.config or "A", prices)


def _basket(question: PlanQuestion) -> OptionBasket:
    correlation = question.correlation or 0.0
    try:
        return OptionBasket(question.config or "A", correlation)
    except InputError as problem:
        raise InputError(f"--correlation {correlation:g}: {problem}; give another") from None


_MAKERS: Mapping[str, Callable[[PlanQuestion], ExogenousModel]] = {
    "bunkering": _bunkering,
    "hybrid": _hybrid,
    "options": _options,
    "basket": _basket,
}


def _number(capacity: str, wanted: str) -> float:
    try:
        number = float(capacity)
    except ValueError:
        number = math.nan
    if not 0.0 < number < math.inf:
        raise InputError(f"--capacity {capacity!r}: give {wanted} above 0")
    return number


# --- States -----------------------------------------------------------------------------------


def mode_names(modes: int) -> list[str]:
    """What the modes of a hybrid vehicle are called, in their order."""
    each = (modes - 1) // 2
    numbers = [""] if each == 1 else [str(i + 1) for i in range(each)]
    return [f"{fuel}{number}" for fuel in ("gas", "electric") for number in numbers] + ["braking"]


def _exogenous(question: PlanQuestion, problem: ExogenousModel) -> FloatArray:
    start = problem.start.exogenous
    if not isinstance(problem, HybridVehicle):
        prices = _numbers(question.price, "--price", start)
        wrong = prices[~((prices > 0) & (prices <= LARGEST_PRICE))]
        if wrong.size:
            raise InputError(
                f"--price {wrong[0]:g}: prices must be positive and at most {LARGEST_PRICE:g}"
            )
        return prices
    if question.hidden:
        if question.step > 0 or question.mode is not None:
            raise InputError("--hidden: only the start can be asked, where the mode is known")
        return start
    if question.mode is None:
        return start
    names = mode_names(problem.numbers.modes)
    if question.mode not in names:
        raise InputError(f"--mode {question.mode!r} is not one of {', '.join(names)}")
    indicators: FloatArray = np.eye(len(names))
    return np.asarray(indicators[names.index(question.mode)])


def _numbers(given: Sequence[float] | None, option: str, usual: FloatArray) -> FloatArray:
    if given is None:
        return usual
    if len(given) != len(usual):
        wanted = "one number" if len(usual) == 1 else f"{len(usual)} numbers with commas between"
        raise InputError(f"{option}: {len(given)} numbers given; expected {wanted}")
    return np.array(given, dtype=np.float64) + 0.0  # no minus in front of a zero


def _check_level(problem: ExogenousModel, state: State) -> None:
    level = state.resource
    if isinstance(problem, OptionBasket):
        if not np.isin(level, (0.0, 1.0)).all():
            raise InputError("--level: give 1 for each option still held and 0 for the others")
        return
    if isinstance(problem, HybridVehicle) and not (level == np.rint(level)).all():
        raise InputError("--level: fuel comes in whole units")
    most = problem.capacity if isinstance(problem, Bunkering) else problem.start.resource.max()
    if not ((level >= 0) & (level <= most)).all():
        raise InputError(f"--level: must lie between 0 and the capacity {most:g}")


# ----------------------------------------------------------------------------------------------
# A decision as a record (for JSON) and in words.
#
# The record holds what to do, what each action seems to be worth, and what V* lies between in that
# state: hindsight on one side, the executed plan for expected values on the other, each the mean
# over sampled futures with its standard error; and V* itself where a dynamic program gives it.

# Futures that the bounds are means over.
SAMPLES = 10_000


def bounds_at(problem: ExogenousModel, state: State, seed: Seed) -> ValueBounds:
    """What V* lies between in any state, as `value_bounds` says it of the start."""
    paths = futures(problem, SAMPLES, seed, state)
    known = allocate(problem, paths, state=state)
    executed = estimate(follow(problem, OpenLoop().prepare(problem, state=state), paths, state))
    sides = [
        (executed, "executed open loop"),
        (estimate(known.values), f"hindsight ({known.method})"),
    ]
    (low, lower_method), (high, upper_method) = sides if problem.sense == "max" else sides[::-1]
    return ValueBounds(
        low.mean, high.mean, low.se, high.se, lower_method, upper_method, samples=SAMPLES
    )


def plan_record(problem: ExogenousModel, state: State, plan: Plan, bounds: ValueBounds) -> Any:
    """Everything about a decision, as plain numbers and texts; what is not known is None."""
    choices = zip(plan.actions, plan.values, plan.values_se, plan.visits, strict=True)
    return {
        "state": {
            "step": state.t,
            "of": problem.horizon,
            "exogenous": state.exogenous.tolist(),
            "resource": state.resource.tolist(),
            "words": state_in_words(problem, state),
        },
        "action": plan.action.tolist(),
        "words": action_in_words(problem, state, plan.action),
        "sense": problem.sense,
        "value": plan.value,
        "se": _finite(plan.se),
        "choices": [
            {
                "action": action.tolist(),
                "words": action_in_words(problem, state, action),
                "value": _finite(value),
                "se": _finite(error),
                "simulations": int(visits),
            }
            for action, value, error, visits in choices
        ],
        "bounds": {
            "lower": bounds.lower,
            "lower_se": bounds.lower_se,
            "lower_method": bounds.lower_method,
            "upper": bounds.upper,
            "upper_se": bounds.upper_se,
            "upper_method": bounds.upper_method,
            "samples": bounds.samples,
        },
        "exact": _exact(problem, state),
        "status": plan.status.value,
        "stats": {name: _finite(number) for name, number in plan.stats.items()},
    }


def action_in_words(problem: ExogenousModel, state: State, action: FloatArray) -> str:
    """What an action says to do."""
    if isinstance(problem, Bunkering):
        return f"buy {action[0]:g} units" if action[0] > 0 else "buy nothing"
    if isinstance(problem, HybridVehicle):
        if action.sum() == 0:
            return "use nothing"
        return f"{action[0]:g} gas, {action[1]:g} electric"
    if isinstance(problem, AmericanOption):
        return "exercise" if action[0] > 0 else "hold"
    chosen = [f"option {b + 1}" for b in np.flatnonzero(action > 0)]
    return f"exercise {' and '.join(chosen)}" if chosen else "hold all"


def state_in_words(problem: ExogenousModel, state: State) -> str:
    """Where the decision is made."""
    t, x, d = state
    if isinstance(problem, Bunkering):
        return f"port {t + 1} of {problem.horizon + 1}, price {x[0]:g}, {d[0]:g} units in the tank"
    if isinstance(problem, HybridVehicle):
        names = mode_names(problem.numbers.modes)
        mode = names[int(np.argmax(problem.beliefs(x)))]
        return f"step {t + 1} of {problem.horizon}, {mode} mode, {d[0]:g} gas, {d[1]:g} electric"
    prices = ", ".join(f"{price:g}" for price in x)
    date = f"date {t + 1} of {problem.horizon}"
    if isinstance(problem, AmericanOption):
        return f"{date}, price {prices}"
    held = ", ".join(str(b + 1) for b in np.flatnonzero(d > 0))
    return f"{date}, prices {prices}, options held: {held or 'none'}"


def _exact(problem: ExogenousModel, state: State) -> float | None:
    try:
        return exact_value(problem, state)
    except NotApplicableError:
        return None


def _finite(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None
