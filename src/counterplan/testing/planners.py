"""Checks of planners: the project's own and yours."""

from __future__ import annotations

import numpy as np

from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.exogenous.model import ExogenousModel, FiniteSupport, HasExactValue, State
from counterplan.planning.decision import Plan
from counterplan.planning.evaluate import evaluate
from counterplan.planning.oracle import expectimax
from counterplan.planning.planners import Planner
from counterplan.planning.policy import Policy, Rule
from counterplan.testing.selling import random_selling

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
    models = (
        [model]
        if model is not None
        else [
            random_selling(rng, "max"),
            random_selling(rng, "min"),
            random_selling(rng, "max", horizon=1),
        ]
    )
    for one in models:
        for state in _states(one, rng):
            if isinstance(planner, Planner):
                _check_decision(planner, one, state)
            else:
                _check_rule(planner, one, state)
        _check_honesty(planner, one, rng)


def _states(model: ExogenousModel, rng: np.random.Generator) -> list[State]:
    """The states of one episode played at random."""
    state, states = model.start, []
    for t in range(model.horizon):
        states.append(state)
        actions = np.asarray(model.actions(state), dtype=np.float64)
        chosen = actions[rng.integers(len(actions))][None]
        _, resource = model.step(t, state.exogenous[None], state.resource[None], chosen)
        if t + 1 < model.horizon:
            following = model.draw(t, state.exogenous[None], rng)
            state = State(t + 1, np.array(following[0]), np.array(resource[0]))
    return states


def _check_decision(planner: Planner, model: ExogenousModel, state: State) -> None:
    where = f"{planner.name} at t={state.t}"
    offered = np.asarray(model.actions(state), dtype=np.float64)
    before = (state.exogenous.copy(), state.resource.copy())
    first = planner.begin(model, None, 7)(state)
    assert np.array_equal(before[0], state.exogenous), f"{where} changed the state's exogenous part"
    assert np.array_equal(before[1], state.resource), f"{where} changed the state's resource"
    action = np.asarray(first.action, dtype=np.float64)
    assert action.shape == offered.shape[1:], f"{where} gives an action of shape {action.shape}"
    assert np.any(np.all(np.isclose(offered, action, rtol=1e-9, atol=1e-9), axis=1)), (
        f"{where} takes {action}, which is not offered: {offered.tolist()}"
    )
    again = planner.begin(model, None, 7)(state)
    assert np.array_equal(action, again.action), f"{where} decides otherwise with the same seed"
    if isinstance(first, Plan):
        _check_plan(first, len(offered), where)


def _check_rule(policy: Policy, model: ExogenousModel, state: State) -> None:
    where = f"{policy.name} at t={state.t}"
    given = state.exogenous[None].copy(), state.resource[None].copy()
    actions = np.asarray(policy.prepare(model, 7)(state.t, *given), dtype=np.float64)
    assert np.array_equal(given[0][0], state.exogenous), f"{where} changed the exogenous part"
    assert np.array_equal(given[1][0], state.resource), f"{where} changed the resource"
    shape = (1, *np.shape(model.actions(state))[1:])
    assert actions.shape == shape, f"{where} gives actions of shape {actions.shape}, not {shape}"
    model.step(state.t, *given, actions)
    again = policy.prepare(model, 7)(state.t, *given)
    assert np.array_equal(actions, again), f"{where} decides otherwise with the same seed"


def _check_plan(plan: Plan, m: int, where: str) -> None:
    shapes = [len(one) for one in (plan.actions, plan.values, plan.values_se, plan.visits)]
    assert shapes == [m] * 4, (
        f"{where}: {shapes} actions, values, errors and visits for {m} actions"
    )
    assert np.array_equal(plan.actions[plan.index], plan.action), (
        f"{where}: index is another action"
    )
    assert np.isfinite(plan.value), f"{where}: its value is {plan.value}"
    assert np.all(plan.values_se >= 0.0), f"{where}: a standard error is negative"
    assert np.isfinite(plan.values[plan.index]), f"{where}: the chosen action has no value"


class _Random:
    """Any action, equally likely."""

    name = "random"

    def prepare(self, model: ExogenousModel, seed: Seed = 0) -> Rule:
        rng = generator(seed)

        def rule(t: int, exogenous: FloatArray, resource: FloatArray) -> FloatArray:
            chosen = []
            for x, d in zip(exogenous, resource, strict=True):
                actions = np.asarray(model.actions(State(t, x, d)), dtype=np.float64)
                chosen.append(actions[rng.integers(len(actions))])
            return np.array(chosen)

        return rule


def _check_honesty(
    planner: Planner | Policy, model: ExogenousModel, rng: np.random.Generator
) -> None:
    sign = -1.0 if model.sense == "min" else 1.0
    seed = int(rng.integers(2**31))
    played = evaluate(model, planner, EPISODES, seed=seed)
    best = None
    if isinstance(model, HasExactValue):
        best = model.optimal_value()
    elif isinstance(model, FiniteSupport):
        best = expectimax(model).value
    slack = ERRORS * played.se + 1e-9 * (1.0 + abs(played.mean))
    if best is not None:
        assert sign * (played.mean - best) <= slack, (
            f"{planner.name} gets {played.mean:.6g} (se {played.se:.2g}), better than the optimum "
            f"{best:.6g}: it must have seen the future"
        )
    random = played.compare(evaluate(model, _Random(), EPISODES, seed=seed))
    assert sign * random.difference >= -ERRORS * random.se - 1e-9 * (1.0 + abs(played.mean)), (
        f"{planner.name} does worse than random actions by {abs(random.difference):.3g} "
        f"(se {random.se:.2g})"
    )
