"""Checks of structurally decomposed MDPs, planners and policies: the project's own and yours.

Shares and means of samples are compared with what they should be within SIGMAS standard errors (of
a share sqrt(p (1 - p) / n), of a mean s / sqrt(n)): at six, a correct model fails about once in
10^8 comparisons, more often only where a mean has hardly converged for lack of samples.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np

from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.domains.exogenous_mdp import ExogenousMDP
from counterplan.errors import NotApplicableError
from counterplan.planning.evaluate import evaluate
from counterplan.planning.exact_value import exact_value
from counterplan.planning.model import (
    Compiled,
    ExogenousModel,
    FiniteSupport,
    HasBoundTables,
    HasHindsight,
    HasMeanPath,
    SamplesPaths,
    Sense,
    State,
)
from counterplan.planning.policies import Policy, Rule, follow
from counterplan.planning.processes import MarkovModes
from counterplan.planning.resource import Resource
from counterplan.planning.search.kernel import Kernel
from counterplan.planning.search.planners import Plan, Planner

EPISODES = 8
# Draws from a state, and the states of all episodes from which draws are compared.
SAMPLES, COMPILED_SAMPLES, STATES = 4000, 1000, 6
SIGMAS = 6.0
BOUND_SAMPLES = 64
# Sequences of random actions that hindsight is compared with.
TRIES = 4
TOLERANCE = 1e-9
# Futures that a planner is played on, and standard errors that a mean may lie on the wrong side of
# a true bound: 1 in 30,000 by chance.
PLAYED, ERRORS = 60, 4.0


def check_model(model: ExogenousModel, *, seed: Seed = 0) -> None:
    """Check a model along random episodes.

    * shapes are as the protocol says, and many states at once give what each gives alone;
    * a step is deterministic, its reward linear in the action (D2);
    * chance: `draw`, `successors`, `sample_paths` and `mean_path`, as far as the model has them,
      are one law;
    * hindsight replays to its value and is never beaten by a feasible sequence on the same path;
    * the compiled model, if there is one, does what the Python methods do.

    What a structurally decomposed problem assumes, in plain words: prices, demand and weather do
    not react to what is done (x has a law of its own: where your purchases move the market, this
    model is not for you); the same amounts from the same level always lead to the same next level
    (chance is in x alone); twice as much earns or costs twice as much (a discount or a fixed fee
    breaks this; a cost that rises with the amount is several flows, `domains.Flow(segments=...)`);
    and what is known at a step is known before the decision.
    """
    assert isinstance(model, ExogenousModel), (
        f"{type(model).__name__} needs horizon, sense, start, draw, actions and step"
    )
    assert model.sense in ("max", "min"), f"sense is {model.sense!r}, not 'max' or 'min'"
    is_whole = isinstance(model.horizon, int | np.integer)
    assert is_whole, f"horizon is {model.horizon!r}: it must be a whole number"
    assert model.horizon >= 1, f"horizon is {model.horizon}: there is nothing to decide"
    for name in ("exogenous", "resource"):
        size = np.shape(getattr(model.start, name))
        assert len(size) == 1, f"start.{name} must have one dimension: {size}"
    assert model.start.t == 0, f"the start says t={model.start.t}, not 0"
    rng = generator(seed)
    episodes = [[state for state, _ in played(model, rng)] for _ in range(EPISODES)]
    states = [state for visited in episodes for state in visited]
    before_last = [state for state in states if state.t + 1 < model.horizon]
    some = [before_last[i] for i in rng.permutation(len(before_last))[:STATES]]
    for state in states:
        _check_step(model, state)
    for state in some:
        _check_chance(model, state, rng)
    if isinstance(model, HasHindsight):
        for visited in episodes:
            _check_hindsight(model, visited, rng)
    if isinstance(model, Compiled):
        _check_compiled(model, states, some, rng)


def played(
    model: ExogenousModel,
    rng: np.random.Generator,
    choose: Callable[[FloatArray], FloatArray] | None = None,
) -> list[tuple[State, FloatArray]]:
    """An episode from the start: states and the actions taken there, by default random ones."""
    now, decisions = model.start, []
    choose = choose or (lambda offered: offered[rng.integers(len(offered))])
    for t in range(model.horizon):
        action = choose(_offered(model, now))
        decisions.append((now, action))
        x = now.exogenous
        _, after = _step(model, t, x[None], now.resource[None], action[None])
        if t + 1 < model.horizon:
            drawn = np.asarray(model.draw(t, x[None], rng))
            _shape(drawn, (1, len(x)), f"draw at t={t} gives")
            now = State(t + 1, drawn[0], after[0])
    return decisions


def _shape(found: Any, wanted: tuple[int, ...], where: str) -> None:
    assert np.shape(found) == wanted, f"{where} {np.shape(found)}, expected {wanted}"


def _close(found: object, expected: object) -> bool:
    return np.allclose(np.asarray(found), np.asarray(expected), rtol=TOLERANCE, atol=TOLERANCE)


def _offered(model: ExogenousModel, state: State) -> FloatArray:
    actions, t = np.asarray(model.actions(state)), state.t
    assert actions.ndim == 2, f"actions at t={t} must be (m, A), got {actions.shape}"
    assert len(actions) > 0, (
        f"there is no action at t={t} with x = {state.exogenous.tolist()} and resource "
        f"{state.resource.tolist()}"
    )
    assert np.isfinite(actions).all(), f"actions at t={t} are not finite: {actions.tolist()}"
    return actions


def _step(
    model: ExogenousModel, t: int, x: FloatArray, d: FloatArray, actions: FloatArray
) -> tuple[FloatArray, FloatArray]:
    given = x.copy(), d.copy(), actions.copy()
    rewards, after = (np.array(part) for part in model.step(t, *given))
    _shape(rewards, (len(actions),), f"step at t={t} gives rewards")
    _shape(after, d.shape, f"step at t={t} gives levels")
    for name, changed, one in zip(("x", "d", "actions"), given, (x, d, actions), strict=True):
        assert np.array_equal(changed, one), (
            f"step at t={t} changes the array {name} that it is given: make a new one"
        )
    for i in np.flatnonzero(~np.isfinite(rewards) | ~np.isfinite(after).all(axis=1)):
        raise AssertionError(
            f"step at t={t}, x={x[i].tolist()}, d={d[i].tolist()}, action={actions[i].tolist()} "
            f"gives reward {rewards[i]} and d={after[i].tolist()}: give finite numbers"
        )
    return rewards, after


def _check_step(model: ExogenousModel, state: State) -> None:
    """All actions at once, each alone, again, and halfway between two."""
    actions, t = _offered(model, state), state.t
    x, d = (np.repeat(part[None], len(actions), axis=0) for part in state[1:])
    rewards, after = _step(model, t, x, d, actions)
    again = model.step(t, x, d, actions)
    chance = "the same amounts must always do the same; chance belongs into x (draw)"
    assert np.array_equal(rewards, again[0]), (
        f"step at t={t} gives other rewards the second time: {chance}"
    )
    assert np.array_equal(after, again[1]), (
        f"step at t={t} gives other levels the second time: {chance}"
    )
    for i, action in enumerate(actions.tolist()):
        reward, level = model.step(t, x[:1], d[:1], actions[i : i + 1])
        assert _close(reward[0], rewards[i]), (
            f"action {action} at t={t} earns {rewards[i]} among others but {reward[0]} alone"
        )
        assert _close(level[0], after[i]), (
            f"action {action} at t={t} leads to {after[i].tolist()} among others but to "
            f"{np.asarray(level[0]).tolist()} alone"
        )
    between, _ = model.step(t, x[:1], d[:1], (actions[:1] + actions[-1:]) / 2)
    expected = (rewards[0] + rewards[-1]) / 2
    assert abs(between[0] - expected) <= TOLERANCE * (1.0 + np.abs(rewards).max()), (
        f"the reward at t={t} is not linear in the action (D2): halfway between "
        f"{actions[0].tolist()} and {actions[-1].tolist()} it is {between[0]}, not {expected}; "
        "twice as much must earn twice as much: no discounts, no fixed fees; a cost that rises "
        "with the amount is several flows (domains.Flow(segments=...))"
    )


# --- Chance: everything that a model says about it is one law -----------------------------------


def _check_chance(model: ExogenousModel, state: State, rng: np.random.Generator) -> None:
    """Draws, successors, paths and means from a state."""
    t, start = state.t, model.start.exogenous

    def draws(exogenous: FloatArray) -> FloatArray:
        return np.asarray(model.draw(t, exogenous, rng))

    same, other = (np.repeat(x[None], SAMPLES, axis=0) for x in (state.exogenous, start))
    drawn = draws(same)
    _shape(drawn, same.shape, f"draw at t={t}: one row for each row:")
    assert np.isfinite(drawn).all(), f"draw at t={t} gives numbers that are not finite"
    offered, few = _offered(model, state), same[:8]
    seen = []
    for action in (offered[0], offered[-1]):
        model.step(t, few[:1], state.resource[None], action[None])
        seen.append(np.asarray(model.draw(t, few, np.random.default_rng(7))))
    assert np.array_equal(seen[0], seen[1]), (
        f"draw at t={t} gives other numbers after another action: x has a law of its own, prices "
        "do not react to what is bought (D1); what reacts is part of the resource"
    )
    if isinstance(model, FiniteSupport):
        _check_successors(model, state, drawn)
    # Each row is drawn from its own state: two kinds of rows, mixed and apart.
    together = draws(np.stack([same, other], axis=1).reshape(2 * SAMPLES, -1))
    where = f"draw at t={t} mixes up the rows of different states: the mean of x_t+1"
    for offset, exogenous in enumerate((same, other)):
        _same_mean(together[offset::2], draws(exogenous), where)
    if isinstance(model, SamplesPaths):
        _check_paths(model, state, drawn, rng)
    if isinstance(model, HasMeanPath):
        means = np.asarray(model.mean_path(state))
        _shape(means, (model.horizon - t, len(start)), f"mean_path from t={t}:")
        assert np.allclose(means[0], state.exogenous), (
            f"mean_path from t={t} does not begin with the state's x_t"
        )
        where = f"mean_path and draw disagree: the mean of x at t={t + 1}"
        if isinstance(model, FiniteSupport):  # a value may be too rare to be drawn
            values, chances = (np.asarray(part) for part in model.successors(t, state.exogenous))
            drawn = np.repeat((chances @ values)[None], 2, axis=0)
        _same_mean(drawn, np.repeat(means[1:2], 2, axis=0), where)


def _check_successors(model: FiniteSupport, state: State, drawn: FloatArray) -> None:
    t = state.t
    values, chances = (np.asarray(part) for part in model.successors(t, state.exogenous))
    _shape(values, (len(values), drawn.shape[1]), f"successors at t={t} give values")
    _shape(chances, (len(values),), f"successors at t={t} give probabilities")
    assert (chances >= 0).all(), f"a successor at t={t} has a negative probability"
    assert abs(chances.sum() - 1) <= TOLERANCE, (
        f"the probabilities of the successors at t={t} sum to {chances.sum()}"
    )
    scale = TOLERANCE * (1.0 + np.abs(values))
    hits = (np.abs(drawn[:, None] - values) <= scale).all(axis=2)
    each = hits.sum(axis=1)
    stray = drawn[int(np.argmin(each))].tolist()
    assert each.all(), f"draw at t={t} gives {stray}, which is no successor"
    shares = (hits / each[:, None]).mean(axis=0)
    allowed = SIGMAS * np.sqrt(chances * (1 - chances) / len(drawn)) + 1.0 / len(drawn)
    # Equal successors share their draws evenly.
    merged = np.array([chances[(np.abs(values - v) <= scale).all(axis=1)].mean() for v in values])
    i = int(np.argmax(np.abs(shares - merged) - allowed))
    assert abs(shares[i] - merged[i]) <= allowed[i], (
        f"successor {values[i].tolist()} at t={t} has probability {chances[i]:.4f}, but "
        f"{shares[i]:.4f} of {len(drawn)} draws gave it"
    )


def _check_paths(
    model: SamplesPaths, state: State, drawn: FloatArray, rng: np.random.Generator
) -> None:
    assert isinstance(model, ExogenousModel)
    t, where = state.t, f"sample_paths from t={state.t}"
    paths = np.asarray(model.sample_paths(SAMPLES, rng, state))
    _shape(paths, (SAMPLES, model.horizon - t, len(state.exogenous)), f"{where}:")
    assert (paths[:, 0] == state.exogenous).all(), f"{where} does not begin with the state's x_t"
    seeds = model.sample_paths(3, 1, state), model.sample_paths(3, 1, state)
    assert np.array_equal(*seeds), "sample_paths gives other paths for the same seed"
    for s in range(1, paths.shape[1]):
        where = f"sample_paths and draw disagree: the mean of x at t={t + s}"
        _same_mean(paths[:, s], drawn, where)
        drawn = np.asarray(model.draw(t + s, drawn, rng)) if s + 1 < paths.shape[1] else drawn


def _same_mean(first: FloatArray, second: FloatArray, where: str) -> None:
    a, b = first.mean(axis=0), second.mean(axis=0)
    error = np.sqrt(first.var(axis=0) / len(first) + second.var(axis=0) / len(second))
    allowed = SIGMAS * error + TOLERANCE * (1.0 + np.abs(a))
    i = int(np.argmax(np.abs(a - b) - allowed))
    assert abs(a[i] - b[i]) <= allowed[i], f"{where} (number {i}) is {a[i]:.6g} or {b[i]:.6g}"


# --- Hindsight --------------------------------------------------------------------------------


def _check_hindsight(model: HasHindsight, visited: list[State], rng: np.random.Generator) -> None:
    """Along the path of an episode, from its start and from its middle."""
    assert isinstance(model, ExogenousModel)
    path = np.stack([state.exogenous for state in visited])
    sign = 1.0 if model.sense == "max" else -1.0
    for state in (visited[0], visited[len(visited) // 2]):
        futures = path[None, state.t :]
        if isinstance(model, SamplesPaths):
            futures = np.concatenate([futures, model.sample_paths(3, rng, state)])
        found = model.allocate(futures, state)
        _shape(found.values, futures.shape[:1], "allocate gives values")
        _shape(np.asarray(found.actions)[:, :, 0], futures.shape[:2], "allocate gives actions")

        def decided(t: int, *_: FloatArray, first: int = state.t, of: Any = found) -> FloatArray:
            return np.asarray(of.actions[:, t - first])

        replayed = follow(model, decided, futures, state)
        assert _close(replayed, found.values), (
            f"hindsight from t={state.t} is said to be worth {found.values.tolist()}, but replayed "
            f"its actions are worth {replayed.tolist()}"
        )
        for _ in range(TRIES):
            worth = float(follow(model, _Random().prepare(model, rng), futures[:1], state)[0])
            assert sign * (found.values[0] - worth) >= -1e-7 * (1.0 + abs(worth)), (
                f"hindsight from t={state.t} is worth {found.values[0]}, but actions that the "
                f"model offers are worth {worth} on the same path"
            )


# --- A compiled model does what its Python methods do; rewards there are maximised --------------


def _check_compiled(
    model: Compiled, states: list[State], some: list[State], rng: np.random.Generator
) -> None:
    assert isinstance(model, ExogenousModel)
    kernel = model.compiled()
    assert kernel.horizon == model.horizon, f"the kernel's horizon is {kernel.horizon}"
    for name in ("exogenous", "resource"):
        ours, theirs = getattr(model.start, name), getattr(kernel, name)
        assert np.array_equal(ours, theirs), f"the kernel starts with {name} {theirs}, not {ours}"
    tables = kernel.tables
    if isinstance(model, HasBoundTables):
        tables = model.bound_tables(BOUND_SAMPLES, rng)
    for t, *parts in states:
        x, d = (np.array(part, dtype=np.float64) for part in parts)
        _check_decision(model, kernel, State(t, x, d))
        out = np.empty(2)
        kernel.bounds(kernel.parameters, tables, t, x, d, rng, out)
        low, high = out
        slack = TOLERANCE * (1.0 + abs(low)) if np.isfinite(out).all() else 0.0
        assert low <= high + slack, f"the kernel's bounds at t={t} are {low} and {high}"
    for t, exogenous, _ in some:
        x = np.array(exogenous, dtype=np.float64)
        ours = np.asarray(model.draw(t, np.repeat(x[None], COMPILED_SAMPLES, axis=0), rng))
        theirs = np.empty_like(ours)
        for row in theirs:
            kernel.draw(kernel.parameters, t, x, rng, row)
        _same_mean(theirs, ours, f"the kernel draws x at t={t + 1}, whose mean")
        if isinstance(model, FiniteSupport):
            _check_compiled_successors(model, kernel, t, x)


def _check_decision(model: ExogenousModel, kernel: Kernel, state: State) -> None:
    """The same actions in the same order, and for each the same step."""
    expected = np.asarray(model.actions(state), dtype=np.float64)
    found = np.empty((kernel.most_actions, kernel.action_size))
    t, x, d = state
    m = kernel.actions(kernel.parameters, t, x, d, found)
    assert m == len(expected), f"the kernel offers {m} actions at t={t}, the model {len(expected)}"
    assert _close(found[:m], expected), (
        f"the kernel offers {found[:m].tolist()} at t={t}, the model {expected.tolist()}"
    )
    sign = 1.0 if model.sense == "max" else -1.0
    many = [np.repeat(part[None], m, axis=0) for part in (x, d)]
    rewards, after = model.step(t, many[0], many[1], expected)
    for action, wanted, level in zip(expected, rewards, np.asarray(after), strict=True):
        reached = np.empty(len(d))
        reward = kernel.step(kernel.parameters, t, x, d, action, reached)
        assert _close(reward, sign * wanted), (
            f"the kernel's reward of {action.tolist()} at t={t} is {reward}, to be maximised; the "
            f"model's is {wanted}"
        )
        assert _close(reached, level), (
            f"action {action.tolist()} at t={t} leads the kernel to {reached.tolist()}, the model "
            f"to {level.tolist()}"
        )


def _check_compiled_successors(model: FiniteSupport, kernel: Kernel, t: int, x: FloatArray) -> None:
    ours = np.column_stack(model.successors(t, x))
    states = np.empty((kernel.most_successors, len(x)))
    chances = np.empty(kernel.most_successors)
    m = kernel.successors(kernel.parameters, t, x, states, chances)
    assert m == len(ours), f"the kernel has {m} successors at t={t}, the model {len(ours)}"
    theirs = np.column_stack([states[:m], chances[:m]])
    ordered = (rows[np.lexsort(np.round(rows, 9).T)] for rows in (ours, theirs))
    assert _close(*ordered), (
        f"the kernel's successors at t={t} are {theirs.tolist()}, not {ours.tolist()}"
    )


# --- Planners and policies ---------------------------------------------------------------------


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
        for state, _ in played(one, rng):
            _check_choice(planner, one, state)
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


def _check_choice(planner: Planner | Policy, model: ExogenousModel, state: State) -> None:
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
    found = evaluate(model, planner, PLAYED, seed=seed)
    best = None
    with suppress(NotApplicableError):
        best = exact_value(model)
    rounding = 1e-9 * (1.0 + abs(found.mean))
    if best is not None:
        assert sign * (found.mean - best) <= ERRORS * found.se + rounding, (
            f"{planner.name} gets {found.mean:.6g} (se {found.se:.2g}), better than the optimum "
            f"{best:.6g}: it must have seen the future"
        )
    random = found.compare(evaluate(model, _Random(), PLAYED, seed=seed))
    assert sign * random.difference >= -ERRORS * random.se - rounding, (
        f"{planner.name} does worse than random actions by {abs(random.difference):.3g} "
        f"(se {random.se:.2g})"
    )
