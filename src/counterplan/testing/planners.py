"""Checks of planners and policies: the project's own and yours."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.errors import NotApplicableError
from counterplan.planning.evaluate import evaluate
from counterplan.planning.exact_value import exact_value
from counterplan.planning.model import ExogenousModel, Sense, State
from counterplan.planning.policies import Policy, Rule
from counterplan.planning.processes import MarkovModes
from counterplan.planning.resource import Resource
from counterplan.planning.search.planners import Plan, Planner
from counterplan.testing.planning import played

EPISODES = 60
# Standard errors that a mean may lie on the wrong side of a true bound: 1 in 30,000 by chance.
ERRORS = 4.0


def check_planner(
    planner: Planner | Policy, model: ExogenousModel | None = None, *, seed: Seed = 0
) -> None:
    """Check a planner or a policy on a model, by default on small random ones in both senses.

    * at every state of random episodes it takes one of the actions offered (a policy: one that the
      model's step accepts), and leaves the state as it was;
    * the same seed gives the same decisions;
    * a `Plan` is consistent: its action is the row it names, there is a value and a standard error
      for every action, the state's own value is finite;
    * played on sampled futures it does not beat the optimum (where that is known) by more than
      chance: it has not seen what will happen; and it does no worse than random actions.
    """
    assert isinstance(planner, Planner | Policy), (
        f"{type(planner).__name__} needs a name and begin(...), or for a policy prepare(...)"
    )
    assert planner.name, "a planner must have a name"
    rng = generator(seed)
    models = [model] if model is not None else [
        _sale(rng, "max"), _sale(rng, "min"), _sale(rng, "max", horizon=1)
    ]  # fmt: skip
    for one in models:
        for state in [decision.state for decision in played(one, rng)]:
            _check_decision(planner, one, state)
        _check_honesty(planner, one, int(rng.integers(2**31)))


def _sale(rng: np.random.Generator, sense: Sense, horizon: int = 4) -> ExogenousMDP:
    """Three units to sell (or, in sense 'min', to buy), two a day at most and one at least in all,
    at a price that jumps among three. Waiting for a better one is worth something, and knowing the
    future much more: a planner that peeks is found out."""
    prices, chances = rng.uniform(1.0, 10.0, size=3), rng.dirichlet(np.ones(3), size=3)
    return ExogenousMDP(
        MarkovModes(chances, indicators=True),
        prices[None],
        Resource(3.0),
        [(0.0, 2.0)] * horizon,
        budget=(1.0, 3.0),
        sense=sense,
        action_set=3,
    )


def _check_decision(planner: Planner | Policy, model: ExogenousModel, state: State) -> None:
    where = f"{planner.name} at t={state.t}"
    offered = np.asarray(model.actions(state), dtype=np.float64)
    first = second = None
    now = State(state.t, state.exogenous.copy(), state.resource.copy())
    if isinstance(planner, Planner):
        first, second = (planner.begin(model, None, 7)(now) for _ in range(2))
        action, again = np.asarray(first.action, dtype=np.float64), second.action
    else:
        rows = now.exogenous[None], now.resource[None]
        action, again = (np.asarray(planner.prepare(model, 7)(now.t, *rows)) for _ in range(2))
    for name in ("exogenous", "resource"):
        same = np.array_equal(getattr(now, name), getattr(state, name))
        assert same, f"{where} changed the state's {name}"
    wanted = offered.shape[1:] if first is not None else (1, *offered.shape[1:])
    assert action.shape == wanted, f"{where} gives an action of shape {action.shape}, not {wanted}"
    assert np.array_equal(action, again), f"{where} decides otherwise with the same seed"
    if first is None:
        model.step(state.t, state.exogenous[None], state.resource[None], action)
        return
    assert np.isclose(offered, action, rtol=1e-9, atol=1e-9).all(axis=1).any(), (
        f"{where} takes {action}, which is not offered: {offered.tolist()}"
    )
    if isinstance(first, Plan):
        _check_plan(first, len(offered), where)


def _check_plan(plan: Plan, m: int, where: str) -> None:
    lengths = [len(one) for one in (plan.actions, plan.values, plan.values_se, plan.visits)]
    assert lengths == [m] * 4, (
        f"{where}: {lengths} actions, values, errors and visits for {m} actions"
    )
    is_named = np.array_equal(plan.actions[plan.index], plan.action)
    assert is_named, f"{where}: index is another action"
    assert np.isfinite(plan.value), f"{where}: its value is {plan.value}"
    assert np.all(plan.values_se >= 0.0), f"{where}: a standard error is negative"
    assert np.isfinite(plan.values[plan.index]), f"{where}: the chosen action has no value"


class _Random:
    """Any action, equally likely."""

    name = "random"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        rng = generator(seed)

        def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
            states = (State(t, x, d) for x, d in zip(exogenous, resource, strict=True))
            return np.array([rng.choice(np.asarray(model.actions(one), float)) for one in states])

        return rule


def _check_honesty(planner: Planner | Policy, model: ExogenousModel, seed: int) -> None:
    sign = -1.0 if model.sense == "min" else 1.0
    found = evaluate(model, planner, EPISODES, seed=seed)
    best = None
    with suppress(NotApplicableError):
        best = exact_value(model)
    rounding = 1e-9 * (1.0 + abs(found.mean))
    if best is not None:
        assert sign * (found.mean - best) <= ERRORS * found.se + rounding, (
            f"{planner.name} gets {found.mean:.6g} (se {found.se:.2g}), better than the optimum "
            f"{best:.6g}: it must have seen the future"
        )
    random = found.compare(evaluate(model, _Random(), EPISODES, seed=seed))
    assert sign * random.difference >= -ERRORS * random.se - rounding, (
        f"{planner.name} does worse than random actions by {abs(random.difference):.3g} "
        f"(se {random.se:.2g})"
    )
