"""Checks of structurally decomposed MDPs: the project's own and yours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from counterplan.core.validation import FloatArray, Seed, generator
from counterplan.planning.model import (
    Compiled,
    ExogenousModel,
    FiniteSupport,
    HasBoundTables,
    HasHindsight,
    HasMeanPath,
    SamplesPaths,
    State,
)

if TYPE_CHECKING:
    from counterplan.planning.search.kernel import Kernel

# ----------------------------------------------------------------------------------------------
# Checks that everything a model says about chance is one law.
#
# Shares and means of samples are compared with what they should be within SIGMAS standard errors
# (of the share sqrt(p (1 - p) / n), of the mean s / sqrt(n)): at six, a correct model fails about
# once in 10^8 comparisons, more often only where a mean has hardly converged for lack of samples.

SAMPLES = 4000
STATES = 6
SIGMAS = 6.0


def check_chance(model: ExogenousModel, states: Sequence[State], rng: np.random.Generator) -> None:
    """Check draws, successors, paths and means from some of the states."""
    for state in some_before_last(model, states, rng):
        drawn = _draws(model, state, rng)
        if isinstance(model, FiniteSupport):
            _check_successors(model, state, drawn)
        _check_rows(model, state, model.start.exogenous, rng)
        if isinstance(model, SamplesPaths):
            _check_paths(model, state, drawn, rng)
        if isinstance(model, HasMeanPath):
            _check_means(model, state, drawn)


def some_before_last(
    model: ExogenousModel, states: Sequence[State], rng: np.random.Generator
) -> list[State]:
    """A few of the states that something follows."""
    before_last = [state for state in states if state.t + 1 < model.horizon]
    chosen = rng.permutation(len(before_last))[:STATES]
    return [before_last[i] for i in chosen]


def _draws(model: ExogenousModel, state: State, rng: np.random.Generator) -> FloatArray:
    """(SAMPLES, X)."""
    same = np.repeat(state.exogenous[None], SAMPLES, axis=0)
    drawn = np.asarray(model.draw(state.t, same, rng))
    assert drawn.shape == same.shape, (
        f"draw at t={state.t} gives {drawn.shape} for {same.shape}: one row for each row"
    )
    assert np.isfinite(drawn).all(), f"draw at t={state.t} gives numbers that are not finite"
    return drawn


def _check_successors(model: FiniteSupport, state: State, drawn: FloatArray) -> None:
    values, chances = (np.asarray(part) for part in model.successors(state.t, state.exogenous))
    M, X = len(values), drawn.shape[1]
    assert values.shape == (M, X), f"successors at t={state.t} give {values.shape}, X is {X}"
    assert chances.shape == (M,), f"successors at t={state.t} give {chances.shape} probabilities"
    assert (chances >= 0).all(), f"a successor at t={state.t} has a negative probability"
    assert abs(chances.sum() - 1) <= 1e-9, (
        f"the probabilities of the successors at t={state.t} sum to {chances.sum()}"
    )
    scale = 1e-9 * (1.0 + np.abs(values))
    hits = (np.abs(drawn[:, None] - values) <= scale).all(axis=2)
    each = hits.sum(axis=1)
    stray = drawn[int(np.argmin(each))].tolist()
    assert each.all(), f"draw at t={state.t} gives {stray}, which is no successor"
    shares = (hits / each[:, None]).mean(axis=0)
    allowed = SIGMAS * np.sqrt(chances * (1 - chances) / len(drawn)) + 1.0 / len(drawn)
    # Equal successors share their draws evenly.
    merged = np.array([chances[(np.abs(values - v) <= scale).all(axis=1)].mean() for v in values])
    i = int(np.argmax(np.abs(shares - merged) - allowed))
    assert abs(shares[i] - merged[i]) <= allowed[i], (
        f"successor {values[i].tolist()} at t={state.t} has probability {chances[i]:.4f}, but "
        f"{shares[i]:.4f} of {len(drawn)} draws gave it"
    )


def _check_rows(
    model: ExogenousModel, state: State, other: FloatArray, rng: np.random.Generator
) -> None:
    """Each row is drawn from its own state: two kinds of rows, mixed and apart."""
    mixed = np.repeat(state.exogenous[None], 2 * SAMPLES, axis=0)
    mixed[1::2] = other
    together = np.asarray(model.draw(state.t, mixed, rng))
    for offset, exogenous in enumerate((state.exogenous, other)):
        apart = model.draw(state.t, np.repeat(exogenous[None], SAMPLES, axis=0), rng)
        where = f"draw at t={state.t} mixes up the rows of different states: the mean of x_t+1"
        _same_mean(together[offset::2], np.asarray(apart), where)


def _check_paths(
    model: SamplesPaths, state: State, drawn: FloatArray, rng: np.random.Generator
) -> None:
    assert isinstance(model, ExogenousModel)
    paths = np.asarray(model.sample_paths(SAMPLES, rng, state))
    wanted = (SAMPLES, model.horizon - state.t, len(state.exogenous))
    assert paths.shape == wanted, f"sample_paths from t={state.t}: {paths.shape}, not {wanted}"
    assert (paths[:, 0] == state.exogenous).all(), (
        f"sample_paths from t={state.t} does not begin with the state's x_t"
    )
    seeds = model.sample_paths(3, 1, state), model.sample_paths(3, 1, state)
    assert np.array_equal(*seeds), "sample_paths gives other paths for the same seed"
    where = "sample_paths and draw disagree: the mean of x"
    _same_mean(paths[:, 1], drawn, f"{where} at t={state.t + 1}")
    now = drawn
    for s in range(2, paths.shape[1]):
        now = np.asarray(model.draw(state.t + s - 1, now, rng))
        _same_mean(paths[:, s], now, f"{where} at t={state.t + s}")


def _check_means(model: HasMeanPath, state: State, drawn: FloatArray) -> None:
    assert isinstance(model, ExogenousModel)
    means = np.asarray(model.mean_path(state))
    wanted = (model.horizon - state.t, len(state.exogenous))
    assert means.shape == wanted, f"mean_path from t={state.t}: {means.shape}, not {wanted}"
    assert np.allclose(means[0], state.exogenous), (
        f"mean_path from t={state.t} does not begin with the state's x_t"
    )
    where = f"mean_path and draw disagree: the mean of x at t={state.t + 1}"
    _same_mean(drawn, np.repeat(means[1:2], 2, axis=0), where)


def _same_mean(first: FloatArray, second: FloatArray, where: str) -> None:
    a, b = first.mean(axis=0), second.mean(axis=0)
    error = np.sqrt(first.var(axis=0) / len(first) + second.var(axis=0) / len(second))
    allowed = SIGMAS * error + 1e-9 * (1.0 + np.abs(a))
    i = int(np.argmax(np.abs(a - b) - allowed))
    assert abs(a[i] - b[i]) <= allowed[i], f"{where} (number {i}) is {a[i]:.6g} or {b[i]:.6g}"


# ----------------------------------------------------------------------------------------------
# Checks that a compiled model does what its Python methods do; rewards there are maximised.

BOUND_SAMPLES = 64
COMPILED_SAMPLES = 1000


def check_compiled(model: Compiled, states: Sequence[State], rng: np.random.Generator) -> None:
    """Check the kernel at given states."""
    assert isinstance(model, ExogenousModel)
    kernel = model.compiled()
    assert kernel.horizon == model.horizon, f"the kernel's horizon is {kernel.horizon}"
    for name in ("exogenous", "resource"):
        ours, theirs = getattr(model.start, name), getattr(kernel, name)
        assert np.array_equal(ours, theirs), f"the kernel starts with {name} {theirs}, not {ours}"
    tables = kernel.tables
    if isinstance(model, HasBoundTables):
        tables = model.bound_tables(BOUND_SAMPLES, rng)
    for state in states:
        plain = _contiguous(state)
        _check_decision(model, kernel, plain)
        _check_bounds(kernel, tables, plain, rng)
    for state in some_before_last(model, states, rng):
        plain = _contiguous(state)
        _check_draws(model, kernel, plain, rng)
        if isinstance(model, FiniteSupport):
            _check_compiled_successors(model, kernel, plain)


def _contiguous(state: State) -> State:
    """The state as compiled functions take it."""
    return State(state.t, *(np.array(part, dtype=np.float64) for part in state[1:]))


def _check_decision(model: ExogenousModel, kernel: Kernel, state: State) -> None:
    """The same actions in the same order, and for each the same step."""
    expected = np.asarray(model.actions(state))
    found = np.empty((kernel.most_actions, kernel.action_size))
    t, x, d = state
    m = kernel.actions(kernel.parameters, t, x, d, found)
    assert m == len(expected), f"the kernel offers {m} actions at t={t}, the model {len(expected)}"
    assert np.allclose(found[:m], expected, rtol=1e-9, atol=1e-9), (
        f"the kernel offers {found[:m].tolist()} at t={t}, the model {expected.tolist()}"
    )
    sign = 1.0 if model.sense == "max" else -1.0
    rewards, after = model.step(
        t, np.repeat(x[None], m, axis=0), np.repeat(d[None], m, axis=0), expected
    )
    for i in range(m):
        level = np.empty(len(d))
        action = np.array(expected[i], dtype=np.float64)
        reward = kernel.step(kernel.parameters, t, x, d, action, level)
        assert np.isclose(reward, sign * rewards[i], rtol=1e-9, atol=1e-9), (
            f"the kernel's reward of {expected[i].tolist()} at t={t} is {reward}, to be maximised; "
            f"the model's is {rewards[i]}"
        )
        assert np.allclose(level, after[i], rtol=1e-9, atol=1e-9), (
            f"action {expected[i].tolist()} at t={t} leads the kernel to {level.tolist()}, the "
            f"model to {np.asarray(after[i]).tolist()}"
        )


def _check_bounds(
    kernel: Kernel, tables: FloatArray, state: State, rng: np.random.Generator
) -> None:
    t, x, d = state
    out = np.empty(2)
    kernel.bounds(kernel.parameters, tables, t, x, d, rng, out)
    slack = 1e-9 * (1.0 + abs(out[0])) if np.isfinite(out).all() else 0.0
    assert out[0] <= out[1] + slack, f"the kernel's bounds at t={t} are {out[0]} and {out[1]}"


def _check_draws(
    model: ExogenousModel, kernel: Kernel, state: State, rng: np.random.Generator
) -> None:
    t, x, _ = state
    ours = np.asarray(model.draw(t, np.repeat(x[None], COMPILED_SAMPLES, axis=0), rng))
    theirs = np.empty_like(ours)
    for i in range(COMPILED_SAMPLES):
        kernel.draw(kernel.parameters, t, x, rng, theirs[i])
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / COMPILED_SAMPLES)
    off = np.abs(ours.mean(axis=0) - theirs.mean(axis=0))
    assert (off <= SIGMAS * error + 1e-9 * (1.0 + np.abs(ours.mean(axis=0)))).all(), (
        f"the kernel draws x at t={t + 1} with mean {theirs.mean(axis=0).tolist()}, the model with "
        f"{ours.mean(axis=0).tolist()}"
    )


def _check_compiled_successors(model: FiniteSupport, kernel: Kernel, state: State) -> None:
    t, x, _ = state
    values, chances = model.successors(t, x)
    states = np.empty((kernel.most_successors, len(x)))
    probabilities = np.empty(kernel.most_successors)
    m = kernel.successors(kernel.parameters, t, x, states, probabilities)
    assert m == len(values), f"the kernel has {m} successors at t={t}, the model {len(values)}"
    ours = np.column_stack([values, chances])
    theirs = np.column_stack([states[:m], probabilities[:m]])
    same = np.allclose(_sorted(ours), _sorted(theirs), rtol=1e-9, atol=1e-9)
    assert same, f"the kernel's successors at t={t} are {theirs.tolist()}, not {ours.tolist()}"


def _sorted(rows: FloatArray) -> FloatArray:
    return np.asarray(rows[np.lexsort(np.round(rows, 9).T)])


# ----------------------------------------------------------------------------------------------

EPISODES = 8
TRIES = 4
TOLERANCE = 1e-9


def check_model(model: ExogenousModel, *, seed: Seed = 0) -> None:
    """Check a model along random episodes.

    * shapes are as the protocol says, and many states at once give what each gives alone;
    * a step is deterministic, its reward linear in the action (D2);
    * chance: `draw`, `successors`, `sample_paths` and `mean_path`, as far as the model has them,
      are one law (see `testing.exogenous_chance`);
    * hindsight replays to its value and is never beaten by a feasible sequence on the same path;
    * the compiled model, if there is one, does what the Python methods do.
    """
    assert isinstance(model, ExogenousModel), (
        f"{type(model).__name__} needs horizon, sense, start, draw, actions and step"
    )
    assert model.sense in ("max", "min"), f"sense is {model.sense!r}, not 'max' or 'min'"
    assert model.horizon >= 1, f"horizon is {model.horizon}: there is nothing to decide"
    start = model.start
    for name, numbers in (("exogenous", start.exogenous), ("resource", start.resource)):
        assert np.ndim(numbers) == 1, f"start.{name} must have one dimension: {np.shape(numbers)}"
    rng = generator(seed)
    episodes = [_episode(model, rng) for _ in range(EPISODES)]
    states = [state for visited in episodes for state in visited]
    for state in states:
        _check_step(model, state)
    check_chance(model, states, rng)
    if isinstance(model, HasHindsight):
        for visited in episodes:
            _check_hindsight(model, visited, rng)
    if isinstance(model, Compiled):
        check_compiled(model, states, rng)


def _episode(model: ExogenousModel, rng: np.random.Generator) -> list[State]:
    """The states of an episode played at random."""
    state, states = model.start, []
    for t in range(model.horizon):
        assert state.t == t, f"the state before decision {t} says t={state.t}"
        states.append(state)
        actions = _actions(model, state)
        action = actions[rng.integers(len(actions))][None]
        _, resource = _step(model, t, state.exogenous[None], state.resource[None], action)
        if t + 1 < model.horizon:
            drawn = np.asarray(model.draw(t, state.exogenous[None], rng))
            shape = (1, len(state.exogenous))
            assert drawn.shape == shape, f"draw at t={t} gives {drawn.shape}, expected {shape}"
            state = State(t + 1, drawn[0], resource[0])
    return states


def _played(
    model: ExogenousModel, path: FloatArray, state: State, rng: np.random.Generator
) -> float:
    """What random actions earn along a path from a state on."""
    total, resource = 0.0, state.resource
    for s, x in enumerate(path):
        actions = _actions(model, State(state.t + s, x, resource))
        action = actions[rng.integers(len(actions))][None]
        reward, after = _step(model, state.t + s, x[None], resource[None], action)
        total, resource = total + float(reward[0]), after[0]
    return total


def _actions(model: ExogenousModel, state: State) -> FloatArray:
    actions = np.asarray(model.actions(state))
    assert actions.ndim == 2, f"actions at t={state.t} must be (m, A), got {actions.shape}"
    assert len(actions) > 0, f"there is no action at t={state.t} with {_where(state)}"
    assert np.isfinite(actions).all(), f"actions at t={state.t} are not finite: {actions.tolist()}"
    return actions


def _step(
    model: ExogenousModel, t: int, x: FloatArray, d: FloatArray, actions: FloatArray
) -> tuple[FloatArray, FloatArray]:
    rewards, after = (np.asarray(part) for part in model.step(t, x, d, actions))
    n = len(actions)
    assert rewards.shape == (n,), f"step at t={t} gives rewards {rewards.shape}, expected ({n},)"
    assert after.shape == d.shape, f"step at t={t} gives {after.shape}, expected {d.shape}"
    return rewards, after


def _check_step(model: ExogenousModel, state: State) -> None:
    """All actions at once, each alone, again, and halfway between two."""
    actions = _actions(model, state)
    m, t = len(actions), state.t
    x, d = np.repeat(state.exogenous[None], m, axis=0), np.repeat(state.resource[None], m, axis=0)
    rewards, after = _step(model, t, x, d, actions)
    again, after_again = model.step(t, x, d, actions)
    assert np.array_equal(rewards, again), f"step at t={t} gives other rewards the second time"
    assert np.array_equal(after, after_again), f"step at t={t} gives other levels the second time"
    for i in range(m):
        alone, level = model.step(t, x[i : i + 1], d[i : i + 1], actions[i : i + 1])
        assert _close(alone[0], rewards[i]), (
            f"action {actions[i].tolist()} at t={t} earns {rewards[i]} among others but "
            f"{alone[0]} alone"
        )
        assert _close(level[0], after[i]), (
            f"action {actions[i].tolist()} at t={t} leads to {after[i].tolist()} among others but "
            f"to {np.asarray(level[0]).tolist()} alone"
        )
    halfway = (actions[:1] + actions[-1:]) / 2
    between, _ = model.step(t, x[:1], d[:1], halfway)
    expected = (rewards[0] + rewards[-1]) / 2
    scale = 1.0 + np.abs(rewards).max()
    assert abs(between[0] - expected) <= TOLERANCE * scale, (
        f"the reward at t={t} is not linear in the action (D2): halfway between "
        f"{actions[0].tolist()} and {actions[-1].tolist()} it is {between[0]}, not {expected}"
    )


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
        n, steps, _ = futures.shape
        assert np.shape(found.values) == (n,), f"allocate gives values {np.shape(found.values)}"
        assert np.shape(found.actions)[:2] == (n, steps), (
            f"allocate gives actions {np.shape(found.actions)}, expected ({n}, {steps}, A)"
        )
        replayed = _replay(model, futures, found.actions, state)
        assert _close(replayed, found.values), (
            f"hindsight from t={state.t} is said to be worth {found.values.tolist()}, but replayed "
            f"its actions are worth {replayed.tolist()}"
        )
        for _ in range(TRIES):
            played = _played(model, futures[0], state, rng)
            slack = 1e-7 * (1.0 + abs(played))
            assert sign * (found.values[0] - played) >= -slack, (
                f"hindsight from t={state.t} is worth {found.values[0]}, but actions that the "
                f"model offers are worth {played} on the same path"
            )


def _replay(
    model: ExogenousModel, futures: FloatArray, actions: FloatArray, state: State
) -> FloatArray:
    resource = np.repeat(state.resource[None], len(futures), axis=0)
    total = np.zeros(len(futures))
    for s in range(futures.shape[1]):
        reward, resource = model.step(state.t + s, futures[:, s], resource, actions[:, s])
        total += reward
    return total


def _close(found: object, expected: object) -> bool:
    return bool(np.allclose(np.asarray(found), np.asarray(expected), rtol=1e-9, atol=1e-9))


def _where(state: State) -> str:
    return f"x = {state.exogenous.tolist()} and resource {state.resource.tolist()}"
