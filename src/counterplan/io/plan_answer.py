"""A decision as a record (for JSON) and in words.

The record holds what to do, what each action seems to be worth, and what V* lies between in that
state: hindsight on one side, the executed plan for expected values on the other, each the mean over
sampled futures with its standard error; and V* itself where a dynamic program gives it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from counterplan.allocation.hindsight import allocate
from counterplan.core.validation import FloatArray, Seed
from counterplan.domains.bunkering import Bunkering
from counterplan.domains.hybrid import HybridVehicle
from counterplan.domains.options import AmericanOption
from counterplan.errors import NotApplicableError
from counterplan.exogenous.model import ExogenousModel, State
from counterplan.io.plan_question import mode_names
from counterplan.planning.decision import Plan
from counterplan.planning.estimate import estimate
from counterplan.planning.exact_value import exact_value
from counterplan.planning.playing import follow, futures
from counterplan.planning.policies import OpenLoop
from counterplan.planning.value_bounds import ValueBounds

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
