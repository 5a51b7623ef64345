"""Checks of planners: the project's own and yours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.compiled import njit
from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.errors import InfeasibleError
from counterplan.planning.evaluate import evaluate
from counterplan.planning.model import ExogenousModel, FiniteSupport, HasExactValue, Sense, State
from counterplan.planning.oracle import expectimax
from counterplan.planning.policies import Policy, Rule
from counterplan.planning.search.kernel import ACTIONS, DRAW, STEP, SUCCESSORS
from counterplan.planning.search.planners import Plan, Planner

if TYPE_CHECKING:
    from counterplan.planning.search.kernel import Kernel

# ----------------------------------------------------------------------------------------------
# `selling`, compiled.
#
# `parameters`: T, M, stock, daily, least; prices (M,), negative where they are paid; matrix (M, M).

T_, M_, STOCK, DAILY, LEAST = range(5)
PRICES = 5


@njit(DRAW, cache=True)
def draw(parameters, t, x, generator, out):  # type: ignore[no-untyped-def]
    """The next price's number."""
    M = int(parameters[M_])
    row = PRICES + M + int(x[0]) * M
    u, cumulative, i = generator.random(), parameters[row], 0
    while i < M - 1 and u >= cumulative:
        i += 1
        cumulative += parameters[row + i]
    out[0] = i


@njit(SUCCESSORS, cache=True)
def successors(parameters, t, x, states, probabilities):  # type: ignore[no-untyped-def]
    """All prices."""
    M = int(parameters[M_])
    for i in range(M):
        states[i, 0] = i
        probabilities[i] = parameters[PRICES + M + int(x[0]) * M + i]
    return M


@njit(ACTIONS, cache=True)
def actions(parameters, t, x, d, out):  # type: ignore[no-untyped-def]
    """From the fewest units that can still be made up for to the most."""
    later = parameters[DAILY] * (parameters[T_] - 1.0 - t)
    fewest = max(0.0, d[0] - (parameters[STOCK] - parameters[LEAST]) - later)
    m = int(min(parameters[DAILY], d[0]) - fewest) + 1
    for i in range(m):
        out[i, 0] = fewest + i
    return m


@njit(STEP, cache=True)
def step(parameters, t, x, d, action, out):  # type: ignore[no-untyped-def]
    """Units at today's price."""
    out[0] = d[0] - action[0]
    return parameters[PRICES + int(x[0])] * action[0]


# ----------------------------------------------------------------------------------------------
# A problem small enough to enumerate, and hard enough to tell planners apart.
#
# Some units are sold (or, in sense 'min', bought) over T days at a price that jumps among a few.
# At most `daily` units a day, `stock` in all, and at least `least` by the end:
#
#     x = (i,) the price's number,  d = (left,),  a = (units,),  r = prices[i] a
#
# Waiting for a better price is worth something, and knowing the future much more: a planner that
# peeks is found out.


@dataclass(frozen=True, eq=False)
class Selling:
    """prices (M,), matrix (M, M) of their transitions."""

    prices: FloatArray
    matrix: FloatArray
    horizon: int = 4
    stock: int = 3
    daily: int = 2
    least: int = 1
    sense: Sense = "max"

    @property
    def start(self) -> State:
        return State(0, np.zeros(1), np.array([float(self.stock)]))

    def draw(self, t: int, exogenous: FloatArray, generator: np.random.Generator) -> FloatArray:
        cumulative = np.cumsum(self.matrix, axis=1)[exogenous[:, 0].astype(np.int64)]
        above = generator.random(len(exogenous))[:, None] >= cumulative[:, :-1]
        numbers: FloatArray = np.sum(above, axis=1, keepdims=True, dtype=np.float64)
        return numbers

    def successors(self, t: int, exogenous: FloatArray) -> tuple[FloatArray, FloatArray]:
        numbers = np.arange(len(self.prices), dtype=np.float64)
        return numbers[:, None], self.matrix[int(exogenous[0])]

    def actions(self, state: State) -> FloatArray:
        fewest, most = self._room(state.t, state.resource)
        whole = np.arange(np.ceil(fewest[0]), np.floor(most[0]) + 1.0)
        # A stock that is no whole number may leave none.
        return (whole if len(whole) else fewest)[:, None]

    def _room(self, t: int, left: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The fewest and the most units, for stocks (n,)."""
        later = self.daily * (self.horizon - 1 - t)
        fewest = np.maximum(0.0, left - (self.stock - self.least) - later)
        return fewest, np.minimum(float(self.daily), left)

    def step(
        self, t: int, exogenous: FloatArray, resource: FloatArray, actions: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        fewest, most = self._room(t, resource[:, 0])
        if ((actions[:, 0] < fewest - 1e-9) | (actions[:, 0] > most + 1e-9)).any():
            raise InfeasibleError(
                f"{actions[:, 0].tolist()} units at t={t} of {resource[:, 0].tolist()} left: from "
                f"{fewest.tolist()} to {most.tolist()} may be taken"
            )
        price = self.prices[exogenous[:, 0].astype(np.int64)]
        return price * actions[:, 0], resource - actions

    def compiled(self, quantiles: int = 0) -> Kernel:
        from counterplan.planning.search.kernel import Kernel

        sizes = [self.horizon, len(self.prices), self.stock, self.daily, self.least]
        sign = -1.0 if self.sense == "min" else 1.0
        return Kernel(
            draw=draw,
            actions=actions,
            step=step,
            parameters=np.concatenate([sizes, sign * self.prices, self.matrix.ravel()]),
            horizon=self.horizon,
            exogenous=self.start.exogenous,
            resource=self.start.resource,
            action_size=1,
            most_actions=self.daily + 1,
            successors=successors,
            most_successors=len(self.prices),
        )


def random_selling(seed: Seed = 0, sense: Sense = "max", horizon: int = 4) -> Selling:
    """A random instance: three prices, any transitions."""
    rng = generator(seed)
    prices = rng.uniform(1.0, 10.0, size=3)
    return Selling(prices, rng.dirichlet(np.ones(3), size=3), horizon=horizon, sense=sense)


# ----------------------------------------------------------------------------------------------

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
